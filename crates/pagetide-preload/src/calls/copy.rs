//! From one descriptor to another, inside the kernel: where a managed file takes part, through
//! memory of ours instead.
//!
//! ```text
//!   sendfile, copy_file_range    our own pread and write, a buffer at a time
//!   ioctl(FICLONE)               refused, as by a file system that cannot; callers copy then
//!   ioctl(FIONREAD)              by our position
//!   ioctl, of terminals, disks   refused, as for any file
//! ```

use super::read_write::write_managed;
use crate::errno::{Errno, or_minus_one};
use crate::process::{self, is_regular};
use crate::scratch::Scratch;
use crate::transfer::{Place, part};
use crate::{alone, next, serve};
use libc::{c_int, c_uint, c_ulong, off_t, size_t, ssize_t};
use pagetide_run::wire::Reason;
use pagetide_run::wire::write::NO_APPEND;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The description that last took a copy of ours, and has had its status flags since: most copies
/// end with one of nothing.
static TAKES_COPIES: AtomicU64 = AtomicU64::new(0);
/// Bytes moved at a time.
const BUFFER_BYTES: usize = 128 << 10;
const FICLONE: c_ulong = 0x4004_9409;
const FICLONERANGE: c_ulong = 0x4020_940d;
const FIDEDUPERANGE: c_ulong = 0xc018_9436;
const FIONREAD: c_ulong = 0x541b;
const FIONCLEX: c_ulong = 0x5450;
const FIOCLEX: c_ulong = 0x5451;
const FIONBIO: c_ulong = 0x5421;
/// Kinds of requests, in their second byte, that are for terminals and for disks.
const TERMINALS: c_ulong = 0x54;
const DISKS: c_ulong = 0x12;

// The functions a program would call.
unsafe extern "C" {
    fn read(fd: c_int, buffer: *mut libc::c_void, len: size_t) -> ssize_t;
    fn pread64(fd: c_int, buffer: *mut libc::c_void, len: size_t, at: off_t) -> ssize_t;
    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t;
}

/// One end of a copy: a descriptor, and a place if it is not the position.
struct End {
    fd: c_int,
    at: Option<off_t>,
}

impl End {
    /// As the system call has it: a place, where the pointer is not null.
    ///
    /// # Safety
    /// `at` is null, or an offset of our caller's.
    unsafe fn new(fd: c_int, at: *const off_t) -> End {
        if at.is_null() {
            return End { fd, at: None };
        }
        // SAFETY: our caller says so (S20).
        let at = unsafe { *at };
        End { fd, at: Some(at) }
    }

    fn read(&mut self, buffer: &Scratch, len: usize) -> ssize_t {
        let (to, len) = (buffer.place(0).cast(), len.min(buffer.len()));
        let nr = match self.at {
            // SAFETY: our own mapping, so long (S22).
            Some(at) => unsafe { pread64(self.fd, to, len, at) },
            // SAFETY: our own mapping, so long (S22).
            None => unsafe { read(self.fd, to, len) },
        };
        self.at = self.at.map(|at| at + nr.max(0) as off_t);
        nr
    }

    /// Writes, and fails with EBADF where the end is written only.
    fn write(&mut self, buffer: &Scratch, from: usize, len: usize) -> ssize_t {
        let from = buffer.place(from).cast();
        let place = self.at.map_or(Place::Position, Place::At);
        let managed = write_managed(self.fd, &part(from, len), place, NO_APPEND);
        if let Some(id) = serve::managed(self.fd).filter(|_| managed.is_some_and(|nr| nr > 0)) {
            TAKES_COPIES.store(id, Relaxed);
        }
        // It may have become the kernel's just now, which appends whatever the place.
        if managed.is_none() && self.appends() {
            return or_minus_one(Err(Errno(libc::EBADF)));
        }
        let nr = managed.unwrap_or_else(|| match self.at {
            // SAFETY: within our own mapping (S22).
            Some(at) => unsafe { next::pwrite64(self.fd, from, len, at) },
            // SAFETY: within our own mapping (S22).
            None => unsafe { next::write(self.fd, from, len) },
        });
        self.at = self.at.map(|at| at + nr.max(0) as off_t);
        nr
    }

    /// Where it is now.
    fn place(&self) -> off_t {
        // SAFETY: numbers (S20).
        self.at.unwrap_or_else(|| unsafe { lseek64(self.fd, 0, libc::SEEK_CUR) })
    }

    /// Whether it is written at its end only.
    fn appends(&self) -> bool {
        serve::status_flags(self.fd).is_ok_and(|flags| flags & libc::O_APPEND != 0)
    }

    /// Whether a copy may go there at all, of which nothing was written that says so.
    ///
    /// # Errors
    /// EBADF where it is not written, or at its end only.
    fn must_take_copies(&self) -> Result<(), Errno> {
        // Another process that has the description could have changed its flags.
        let has_them = |id| id == TAKES_COPIES.load(Relaxed) && alone::is_alone_with(id);
        if serve::managed(self.fd).is_some_and(has_them) {
            return Ok(());
        }
        let flags = serve::status_flags(self.fd)?;
        let takes = flags & libc::O_ACCMODE != libc::O_RDONLY && flags & libc::O_APPEND == 0;
        if takes { Ok(()) } else { Err(Errno(libc::EBADF)) }
    }

    /// Goes back over what was read and could not be written.
    fn put_back(&mut self, nr: usize) {
        match &mut self.at {
            Some(at) => *at -= nr as off_t,
            None => {
                // SAFETY: numbers (S20).
                unsafe { lseek64(self.fd, -(nr as off_t), libc::SEEK_CUR) };
            }
        }
    }

    /// Tells the caller where it has got to.
    ///
    /// # Safety
    /// `at` is null, or an offset of our caller's.
    unsafe fn store(&self, at: *mut off_t) {
        if let Some(now) = self.at {
            // SAFETY: not null, or there were no place; our caller says the rest (S20).
            unsafe { *at = now };
        }
    }
}

/// Where a copy between two ends begins, refused as the kernel refuses it: what is no regular file,
/// what only appends, and parts of one file that overlap.
fn check_range(from: &End, to: &End, len: usize) -> Result<(), Errno> {
    let stats = [process::stat(from.fd)?, process::stat(to.fd)?];
    if stats.iter().any(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFDIR) {
        return Err(Errno(libc::EISDIR));
    }
    if !stats.iter().all(is_regular) {
        return Err(Errno(libc::EINVAL));
    }
    let [source, target] = stats;
    let is_one = (source.st_dev, source.st_ino) == (target.st_dev, target.st_ino);
    // Of a managed file, the write says so: one request less for each call.
    if (is_one || serve::managed(to.fd).is_none()) && to.appends() {
        return Err(Errno(libc::EBADF));
    }
    if !is_one {
        return Ok(());
    }
    let (source_at, target_at) = (from.place(), to.place());
    let len = (len as off_t).min(source.st_size - source_at);
    let overlaps = target_at + len > source_at && target_at < source_at + len;
    if overlaps { Err(Errno(libc::EINVAL)) } else { Ok(()) }
}

/// Moves up to `len` bytes; fewer at the end, or where a write is short.
fn move_bytes(from: &mut End, to: &mut End, len: usize) -> Result<usize, Errno> {
    let buffer = Scratch::new(BUFFER_BYTES)?;
    let mut done = 0;
    while done < len {
        let nr_read = from.read(&buffer, len - done);
        if nr_read <= 0 {
            return if nr_read < 0 && done == 0 { Err(crate::errno::read()) } else { Ok(done) };
        }
        let mut nr_written = 0;
        while nr_written < nr_read as usize {
            match to.write(&buffer, nr_written, nr_read as usize - nr_written) {
                nr @ 1.. => nr_written += nr as usize,
                failed => {
                    let why = crate::errno::read();
                    from.put_back(nr_read as usize - nr_written);
                    done += nr_written;
                    return if failed < 0 && done == 0 { Err(why) } else { Ok(done) };
                }
            }
        }
        done += nr_written;
    }
    Ok(done)
}

/// Status flags have changed.
pub(super) fn forget_flags() {
    TAKES_COPIES.store(0, Relaxed);
}

fn is_managed(one: c_int, other: c_int) -> bool {
    // Both are looked at, so that both are known.
    let first = serve::managed(one).is_some();
    serve::managed(other).is_some() || first
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile64(out: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
    if !is_managed(from, out) {
        // SAFETY: our caller's arguments (S20).
        return unsafe { next::sendfile64(out, from, at, len) };
    }
    // SAFETY: our caller's offset (S20).
    let mut source = unsafe { End::new(from, at) };
    let mut target = End { fd: out, at: None };
    let is_stream =
        |stat: libc::stat| matches!(stat.st_mode & libc::S_IFMT, libc::S_IFIFO | libc::S_IFSOCK);
    let result = if target.appends() || process::stat(from).is_ok_and(is_stream) {
        Err(Errno(libc::EINVAL))
    } else {
        move_bytes(&mut source, &mut target, len)
    };
    // SAFETY: our caller's offset (S20).
    unsafe { source.store(at) };
    or_minus_one(result.map(|nr| nr as ssize_t))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if !is_managed(from, to) {
        // SAFETY: our caller's arguments (S20).
        return unsafe { next::copy_file_range(from, from_at, to, to_at, len, flags) };
    }
    if flags != 0 {
        return or_minus_one(Err(Errno(libc::EINVAL)));
    }
    // SAFETY: our caller's offset (S20).
    let mut source = unsafe { End::new(from, from_at) };
    // SAFETY: our caller's offset (S20).
    let mut target = unsafe { End::new(to, to_at) };
    let checked = check_range(&source, &target, len);
    let moved = checked.and_then(|()| move_bytes(&mut source, &mut target, len));
    let result = match moved {
        Ok(0) => target.must_take_copies().map(|()| 0),
        moved => moved,
    };
    // SAFETY: our caller's offset (S20).
    unsafe { source.store(from_at) };
    // SAFETY: our caller's offset (S20).
    unsafe { target.store(to_at) };
    or_minus_one(result.map(|nr| nr as ssize_t))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    let source = match request {
        FICLONE => Some(argument as c_int),
        // SAFETY: the source comes first in the range of our caller's (S20).
        FICLONERANGE if argument != 0 => Some(unsafe { *(argument as *const i64) } as c_int),
        FICLONERANGE | FIDEDUPERANGE => Some(fd),
        _ => None,
    };
    if source.is_some_and(|source| is_managed(source, fd)) {
        return or_minus_one(Err(Errno(libc::EOPNOTSUPP)));
    }
    match of_managed(fd, request, argument) {
        Ok(Some(result)) => result,
        // SAFETY: our caller's arguments; one that was not given is not looked at (S20).
        Ok(None) => unsafe { next::ioctl(fd, request, argument) },
        Err(errno) => or_minus_one(Err(errno)),
    }
}

/// ioctl(2) of a managed descriptor; `None` if the kernel can do it by now.
fn of_managed(fd: c_int, request: c_ulong, argument: usize) -> Result<Option<c_int>, Errno> {
    let Some(id) = serve::managed(fd) else { return Ok(None) };
    let keep = |flags: usize| process::control(fd, libc::F_SETFD, flags).map(|_| Some(0));
    match request {
        FIONREAD => count_unread(fd, argument as *mut c_int).map(Some),
        FIOCLEX => keep(libc::FD_CLOEXEC as usize),
        FIONCLEX => keep(0),
        _ if request != FIONBIO && matches!(request >> 8 & 0xff, TERMINALS | DISKS) => {
            Err(Errno(libc::ENOTTY))
        }
        _ => serve::hand_over(id, Reason::Interface).map(|()| None),
    }
}

/// From the position to the end.
fn count_unread(fd: c_int, nr_bytes: *mut c_int) -> Result<c_int, Errno> {
    let end = End { fd, at: None };
    let nr_left = process::stat(fd)?.st_size - end.place();
    // SAFETY: null, or our caller's variable (S20).
    *unsafe { nr_bytes.as_mut() }.ok_or(Errno(libc::EFAULT))? = nr_left as c_int;
    Ok(0)
}

taken_over! {
    fn isatty(fd: c_int) -> c_int {
        serve::managed(fd)?;
        crate::errno::set(Errno(libc::ENOTTY));
        Some(0)
    }
}
