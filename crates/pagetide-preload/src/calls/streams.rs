//! C streams over managed files, made by fopencookie(3): the C library's buffers call this
//! library's read, write and lseek.
//!
//! ```text
//!   fgets, fprintf, getline .. --> the C library's buffer --underflow, overflow--> these functions
//!   fileno                     --> the descriptor: it is written where fileno looks
//!   fgetws, fwprintf ..        --> the stream becomes ordinary, with the kernel's file
//! ```
//!
//! **Data and invariants.** `STREAMS` holds each such stream under its descriptor, until it is
//! closed or becomes ordinary. A probe checks once that fields are located as in the C library's
//! public header. Otherwise files with streams are left to the kernel. Streams of fopencookie lack
//! room for wide characters: before the first wide function, an unused stream gets a donor stream's
//! room. The C library's last writes come after the goodbye, so another goodbye follows.
//!
//! **Ignored.** Wide characters after bytes, which is undefined in C, and fails here. The buffer is
//! always 8 KiB.
//!
//! Sources: fopencookie(3), and the C library's header `bits/types/struct_FILE.h`, the layout that
//! programs are compiled against.

use crate::errno::Errno;
use crate::next::{self, Stream};
use crate::{process, serve, table};
use libc::{c_char, c_int, c_void, off_t, size_t, ssize_t};
use pagetide_run::wire::Reason;
use std::ffi::CStr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8};

/// Offsets in bytes from the start of a stream, as in the C library's header.
mod field {
    pub(super) const READ_PTR: usize = 8;
    pub(super) const READ_END: usize = 16;
    pub(super) const WRITE_BASE: usize = 32;
    pub(super) const WRITE_PTR: usize = 40;
    pub(super) const FILENO: usize = 112;
    pub(super) const OFFSET: usize = 144;
    pub(super) const CODECVT: usize = 152;
    pub(super) const WIDE_DATA: usize = 160;
    pub(super) const MODE: usize = 192;
}

/// Bits of a stream's first word.
const NO_READS: u32 = 4;
const NO_WRITES: u32 = 8;
const IS_APPENDING: u32 = 0x1000;
const MAGIC: u32 = 0xfbad_0000;
/// fopencookie's value for a descriptor.
const NO_FILENO: c_int = -2;

static STREAMS: [AtomicPtr<Stream>; table::LEN] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; table::LEN];
static IS_ENDING: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) flags: c_int,
    first: u8,
    plus: bool,
}

impl Mode {
    /// Returns `None` for an unknown mode, or a conversion of characters.
    ///
    /// # Safety
    /// `mode` is null or a string.
    pub(super) unsafe fn parse(mode: *const c_char) -> Option<Mode> {
        if mode.is_null() {
            return None;
        }
        // SAFETY: the caller's mode (S20).
        let bytes = unsafe { CStr::from_ptr(mode) }.to_bytes();
        let (first, rest) = bytes.split_first()?;
        if rest.contains(&b',') {
            return None;
        }
        let mut flags = match first {
            b'r' => 0,
            b'w' => libc::O_CREAT | libc::O_TRUNC,
            b'a' => libc::O_CREAT | libc::O_APPEND,
            _ => return None,
        };
        let has = |letter: u8| rest.contains(&letter);
        flags |= if has(b'x') { libc::O_EXCL } else { 0 };
        flags |= if has(b'e') { libc::O_CLOEXEC } else { 0 };
        let plus = has(b'+');
        flags |= match (plus, first) {
            (true, _) => libc::O_RDWR,
            (_, b'r') => libc::O_RDONLY,
            _ => libc::O_WRONLY,
        };
        Some(Mode { flags, first: *first, plus })
    }

    pub(super) fn text(self) -> &'static CStr {
        match (self.first, self.plus) {
            (b'r', false) => c"r",
            (b'r', true) => c"r+",
            (b'w', false) => c"w",
            (b'w', true) => c"w+",
            (_, false) => c"a",
            (_, true) => c"a+",
        }
    }

    pub(super) fn fits(self, status: c_int) -> bool {
        match status & libc::O_ACCMODE {
            libc::O_RDONLY => self.first == b'r' && !self.plus,
            libc::O_WRONLY => self.first != b'r' && !self.plus,
            _ => true,
        }
    }

    fn bits(self) -> u32 {
        let appending = if self.first == b'a' { IS_APPENDING } else { 0 };
        appending
            | match (self.plus, self.first) {
                (true, _) => 0,
                (_, b'r') => NO_WRITES,
                _ => NO_READS,
            }
    }
}

/// fopencookie's argument, passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: unsafe extern "C" fn(*mut c_void, *mut off_t, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

const FUNCTIONS: Functions =
    Functions { read: read_stream, write: write_stream, seek: seek_stream, close: close_stream };

// The C library's functions, and this library's under their public names.
unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut Stream;
    fn ftrylockfile(stream: *mut Stream) -> c_int;
    fn funlockfile(stream: *mut Stream);
    fn fflush_unlocked(stream: *mut Stream) -> c_int;
    fn __fpurge(stream: *mut Stream);
    fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t;
    fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t;
    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t;
    fn close(fd: c_int) -> c_int;
    fn dup3(fd: c_int, target: c_int, flags: c_int) -> c_int;
}

fn descriptor(cookie: *mut c_void) -> c_int {
    cookie as usize as c_int
}

unsafe extern "C" fn read_stream(cookie: *mut c_void, to: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: the C library's buffer, or its caller's (S20).
    unsafe { read(descriptor(cookie), to.cast(), len) }
}

unsafe extern "C" fn write_stream(
    cookie: *mut c_void,
    from: *const c_char,
    len: size_t,
) -> ssize_t {
    let mut done = 0;
    while done < len {
        // SAFETY: the rest of the C library's buffer, or its caller's (S20).
        let nr = unsafe { write(descriptor(cookie), from.wrapping_add(done).cast(), len - done) };
        if nr <= 0 {
            break;
        }
        done += nr as usize;
    }
    if IS_ENDING.load(Relaxed) {
        serve::say_goodbye(0);
    }
    // A short count is an error to the C library.
    done as ssize_t
}

unsafe extern "C" fn seek_stream(cookie: *mut c_void, at: *mut off_t, whence: c_int) -> c_int {
    // SAFETY: the C library's own (S20).
    let offset = unsafe { *at };
    // SAFETY: numbers (S20).
    let now = unsafe { lseek64(descriptor(cookie), offset, whence) };
    if now < 0 {
        return -1;
    }
    // SAFETY: as above (S20).
    unsafe { *at = now };
    0
}

unsafe extern "C" fn close_stream(cookie: *mut c_void) -> c_int {
    let fd = descriptor(cookie);
    if fd < 0 {
        return 0;
    }
    forget(fd);
    // SAFETY: the stream's descriptor (S20).
    unsafe { close(fd) }
}

/// Reads a field of a stream.
///
/// # Safety
/// `stream` is open, no other thread uses it, and the field has this type.
unsafe fn get<T: Copy>(stream: *mut Stream, at: usize) -> T {
    // SAFETY: by the caller's word (S27).
    unsafe { *stream.cast::<u8>().wrapping_add(at).cast::<T>() }
}

/// # Safety
/// As [`get`].
unsafe fn put<T: Copy>(stream: *mut Stream, at: usize, value: T) {
    // SAFETY: by the caller's word (S27).
    unsafe { *stream.cast::<u8>().wrapping_add(at).cast::<T>() = value };
}

fn is_layout_known() -> bool {
    const KNOWN: u8 = 1;
    const UNKNOWN: u8 = 2;
    static LAYOUT: AtomicU8 = AtomicU8::new(0);
    match LAYOUT.load(Relaxed) {
        KNOWN => return true,
        UNKNOWN => return false,
        _ => {}
    }
    // SAFETY: functions that take descriptor -1 (S20).
    let probe = unsafe { fopencookie(usize::MAX as *mut c_void, c"r".as_ptr(), FUNCTIONS) };
    if probe.is_null() {
        return false;
    }
    // SAFETY: a stream has more than 200 bytes in every version of the C library (S27).
    let flags: u32 = unsafe { get(probe, 0) };
    // SAFETY: as above (S27).
    let fileno: c_int = unsafe { get(probe, field::FILENO) };
    // SAFETY: as above (S27).
    let mode: c_int = unsafe { get(probe, field::MODE) };
    let is_known = flags & 0xffff_0000 == MAGIC
        && flags & (NO_READS | NO_WRITES | IS_APPENDING) == NO_WRITES
        && (fileno, mode) == (NO_FILENO, -1);
    // SAFETY: open, and only this call's (S20).
    unsafe { next::fclose(probe) };
    LAYOUT.store(if is_known { KNOWN } else { UNKNOWN }, Relaxed);
    is_known
}

/// Makes a stream over the managed `fd`. `None` if not possible.
pub(super) fn make(fd: c_int, mode: Mode) -> Option<*mut Stream> {
    let is_known = cfg!(target_arch = "x86_64") && is_layout_known();
    if !table::can_manage(fd) || !is_known {
        return None;
    }
    let slot = STREAMS.get(fd as usize)?;
    // SAFETY: the functions take a descriptor for a cookie (S27).
    let stream =
        unsafe { fopencookie(fd as usize as *mut c_void, mode.text().as_ptr(), FUNCTIONS) };
    if !stream.is_null() {
        // SAFETY: just made, with the probe's layout (S27).
        unsafe { put(stream, field::FILENO, fd) };
        slot.store(stream, Release);
    }
    Some(stream)
}

/// Moves to the end, where appends begin, for ftell.
pub(super) fn go_to_end(fd: c_int, mode: Mode) {
    if mode.first == b'a' && !mode.plus {
        // SAFETY: numbers (S20).
        unsafe { lseek64(fd, 0, libc::SEEK_END) };
    }
}

pub(super) fn descriptor_of(stream: *mut Stream) -> Option<c_int> {
    if stream.is_null() || !process::is_on() {
        return None;
    }
    // SAFETY: a stream that is open (S20).
    let fd = unsafe { libc::fileno(stream) };
    let slot = STREAMS.get(usize::try_from(fd).ok()?)?;
    (slot.load(Acquire) == stream).then_some(fd)
}

fn forget(fd: c_int) {
    if let Some(slot) = STREAMS.get(fd as usize) {
        slot.store(std::ptr::null_mut(), Release);
    }
}

/// Replaces the file of a managed stream in place, as freopen does.
///
/// # Errors
/// Fails with the error of dup3.
///
/// # Safety
/// `stream` is managed, over `fd`, and flushed. No other thread uses it.
pub(super) unsafe fn replace(
    stream: *mut Stream,
    fd: c_int,
    new: c_int,
    mode: Mode,
) -> Result<(), Errno> {
    // SAFETY: the caller's stream. A pipe fails, and has no bytes to give up (S20).
    unsafe { libc::fseeko(stream, 0, libc::SEEK_CUR) };
    // SAFETY: the caller's stream (S20).
    unsafe { __fpurge(stream) };
    // SAFETY: the caller's stream (S20).
    unsafe { libc::clearerr(stream) };
    // SAFETY: numbers (S20).
    if unsafe { dup3(new, fd, mode.flags & libc::O_CLOEXEC) } < 0 {
        return Err(crate::errno::read());
    }
    // SAFETY: the caller's stream, of known layout (S27).
    let flags: u32 = unsafe { get(stream, 0) };
    let flags = flags & !(NO_READS | NO_WRITES | IS_APPENDING) | mode.bits();
    // SAFETY: as above (S27).
    unsafe { put(stream, 0, flags) };
    // SAFETY: as above. The position is unknown (S27).
    unsafe { put(stream, field::OFFSET, -1_i64) };
    go_to_end(fd, mode);
    Ok(())
}

/// Makes a managed stream ordinary, before a function for wide characters.
pub(super) fn make_wide(stream: *mut Stream) {
    let Some(fd) = descriptor_of(stream) else { return };
    let before = crate::errno::read();
    // SAFETY: an open managed stream, which the caller's function is about to use (S27).
    let place = |at: usize| unsafe { get::<usize>(stream, at) };
    let is_fresh = place(field::READ_PTR) == place(field::READ_END)
        && place(field::WRITE_PTR) == place(field::WRITE_BASE);
    if is_fresh && serve::hand_over_managed(fd, Reason::Interface).is_ok() {
        // SAFETY: strings (S20).
        let donor = unsafe { next::fopen64(c"/dev/null".as_ptr(), c"re".as_ptr()) };
        if !donor.is_null() {
            forget(fd);
            give_room(donor, stream);
        }
    }
    crate::errno::set(before);
}

/// Moves the donor's room for wide characters to `stream`. The donor itself leaks, and its
/// descriptor is closed.
fn give_room(donor: *mut Stream, stream: *mut Stream) {
    for at in [field::CODECVT, field::WIDE_DATA] {
        // SAFETY: an open stream that only this code knows (S27).
        let room: usize = unsafe { get(donor, at) };
        // SAFETY: a managed stream (S27).
        unsafe { put(stream, at, room) };
    }
    // SAFETY: a managed stream, without orientation yet (S27).
    unsafe { put::<c_int>(stream, field::MODE, 0) };
    // SAFETY: an open stream that only this code knows (S27).
    let fd: c_int = unsafe { get(donor, field::FILENO) };
    // SAFETY: as above. The stream then looks closed (S27).
    unsafe { put::<c_int>(donor, field::FILENO, -1) };
    // SAFETY: the donor's descriptor, which is not used (S20).
    unsafe { next::close(fd) };
}

/// Flushes managed streams at exit(3), while a goodbye can still follow. Streams that another
/// thread holds are left to the C library.
pub(crate) fn flush_all() {
    IS_ENDING.store(true, Relaxed);
    for fd in table::numbers() {
        let stream = STREAMS[fd as usize].load(Acquire);
        // SAFETY: an open stream, which is removed here before it is closed (S27).
        if !stream.is_null() && unsafe { ftrylockfile(stream) } == 0 {
            // SAFETY: as above, and locked by this thread (S27).
            unsafe { fflush_unlocked(stream) };
            // SAFETY: as above (S27).
            unsafe { funlockfile(stream) };
        }
    }
}

pub(super) fn about_to_close(stream: *mut Stream) -> bool {
    match descriptor_of(stream) {
        Some(fd) => STREAMS[fd as usize]
            .compare_exchange(stream, std::ptr::null_mut(), AcqRel, Relaxed)
            .is_ok(),
        None => false,
    }
}
