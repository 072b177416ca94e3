//! C streams: the C library reads and writes their files by calls of its own, which nobody can take
//! over. So the files are the kernel's, from the moment there may be a stream on them.
//!
//! ```text
//!   fopen, freopen       before, if the file is cut; and after, when it is there
//!   fdopen               before
//!   descriptors 0, 1, 2  stdin, stdout and stderr may use them: when the program starts, and
//!                        when a managed file is put there (see `serve::duplicated`)
//! ```

use crate::next::{self, Stream};
use crate::table::{self, Entry};
use crate::{channel, process, serve};
use libc::{c_char, c_int};
use pagetide_sys::wire::{Op, Reason, Request, TAG};

/// A managed description that was inherited as one of the three is the kernel's from here on.
pub(crate) fn settle_standard_descriptors() {
    for fd in 0..3 {
        let arguments = [fd as usize, 0, libc::SEEK_CUR as usize, 0, 0, 0];
        // SAFETY: numbers (S20).
        let position = unsafe { next::system(libc::SYS_lseek, arguments) };
        if position.is_ok_and(|position| position as u64 >= TAG) {
            // What cannot be handed over has been said; the program would write past its files.
            if serve::hand_over(fd, Reason::Standard).is_err() {
                // SAFETY: no return (S20).
                unsafe { libc::_exit(1) };
            }
        }
    }
}

/// The file at `path` becomes the kernel's, if it is there.
fn hand_over_path(path: *const c_char) {
    if path.is_null() {
        return;
    }
    // SAFETY: our caller's path (S20).
    let fd = unsafe { next::open(path, libc::O_PATH | libc::O_CLOEXEC, 0) };
    if fd < 0 {
        return;
    }
    if process::stat(fd).is_ok_and(|stat| serve::is_regular(&stat)) {
        ask_to_hand_over(fd);
    }
    // SAFETY: our descriptor (S20).
    unsafe { next::close(fd) };
}

fn ask_to_hand_over(fd: c_int) {
    let request = Request { flags: Reason::Stream as u64, ..Request::new(Op::HandOver, 0) };
    // The server's failure to write back is in its log; the stream reads what is there.
    let _ = channel::ask(&request, &[], Some(fd), &[]);
}

/// Whether the mode cuts the file.
///
/// # Safety
/// `mode` is a mode as fopen's.
unsafe fn cuts(mode: *const c_char) -> bool {
    // SAFETY: a string has at least its end (S20).
    !mode.is_null() && unsafe { *mode } as u8 == b'w'
}

/// A stream has been opened.
fn note_stream(stream: *mut Stream) -> *mut Stream {
    if !stream.is_null() && process::is_on() {
        let before = crate::errno::read();
        // SAFETY: a stream that is open (S20).
        let fd = unsafe { libc::fileno(stream) };
        if process::stat(fd).is_ok_and(|stat| serve::is_regular(&stat)) {
            ask_to_hand_over(fd);
        }
        table::set(fd, Entry::Kernel);
        crate::errno::set(before);
    }
    stream
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut Stream {
    // SAFETY: our caller's mode (S20).
    if process::is_on() && unsafe { cuts(mode) } {
        hand_over_path(path);
    }
    // SAFETY: our caller's arguments (S20).
    note_stream(unsafe { next::fopen64(path, mode) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut Stream {
    // SAFETY: the same function (S20).
    unsafe { fopen64(path, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn freopen64(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut Stream,
) -> *mut Stream {
    // SAFETY: our caller's mode (S20).
    if process::is_on() && unsafe { cuts(mode) } {
        hand_over_path(path);
    }
    // SAFETY: our caller's arguments (S20).
    note_stream(unsafe { next::freopen64(path, mode, stream) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn freopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut Stream,
) -> *mut Stream {
    // SAFETY: the same function (S20).
    unsafe { freopen64(path, mode, stream) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut Stream {
    if serve::managed(fd).is_some()
        && let Err(errno) = serve::hand_over(fd, Reason::Stream)
    {
        crate::errno::set(errno);
        return std::ptr::null_mut();
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::fdopen(fd, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fclose(stream: *mut Stream) -> c_int {
    if process::is_on() && !stream.is_null() {
        // SAFETY: our caller's stream, open until the next line but one (S20).
        let fd = unsafe { libc::fileno(stream) };
        if fd >= 0 && table::entry(fd) == Entry::Kernel {
            table::set(fd, Entry::Unknown);
        }
    }
    // SAFETY: our caller's stream (S20).
    unsafe { next::fclose(stream) }
}
