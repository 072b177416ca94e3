//! C streams: the C library reads and writes their files by calls of its own, which nobody can take
//! over. So a managed file gets a stream that asks us (see `streams`), and what cannot have one is
//! the kernel's, from the moment there may be a stream on it.
//!
//! ```text
//!   fopen, fdopen, tmpfile   managed: a stream of ours. The kernel's: an ordinary one
//!   freopen                  of a stream of ours: its file changes under it
//!                            of another: the file becomes the kernel's, before and after
//!   descriptors 0, 1, 2      stdin, stdout and stderr may use them: when the program starts, and
//!                            when a managed file is put there (see `serve::duplicated`); not so
//!                            descriptor 0 of programs that have no use for stdin (see `standard`)
//! ```

use super::streams::{self, Mode};
use crate::errno::Errno;
use crate::next::{self, Stream};
use crate::table::{self, Entry};
use crate::{named, process, serve};
use libc::{c_char, c_int, mode_t};
use pagetide_sys::wire::{Reason, TAG};
use std::io::Write;
use std::ptr::null_mut;

// The functions a program would call.
unsafe extern "C" {
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int;
}

/// A file that was inherited as one of the three is the kernel's from here on, whoever opened it;
/// but for standard input where nobody has a stream on it.
pub(crate) fn settle_standard_descriptors() {
    for fd in 0..3 {
        if !process::stat(fd).is_ok_and(|stat| serve::is_regular(&stat)) {
            continue;
        }
        let arguments = [fd as usize, 0, libc::SEEK_CUR as usize, 0, 0, 0];
        // SAFETY: numbers (S20).
        let position = unsafe { next::system(libc::SYS_lseek, arguments) };
        let is_tagged = position.is_ok_and(|position| position as u64 >= TAG);
        if is_tagged && table::can_manage(fd) {
            continue;
        }
        if is_tagged {
            // What cannot be handed over has been said; the program would write past its files.
            if serve::hand_over(fd, Reason::Standard).is_err() {
                // SAFETY: no return (S20).
                unsafe { libc::_exit(1) };
            }
        } else {
            // Opened by somebody unseen; others may have it open by its name.
            let _ = serve::hand_over(fd, Reason::Outside);
        }
    }
}

/// Whether the mode cuts the file.
///
/// # Safety
/// `mode` is a mode as fopen's.
unsafe fn cuts(mode: *const c_char) -> bool {
    // SAFETY: a string has at least its end (S20).
    !mode.is_null() && unsafe { *mode } as u8 == b'w'
}

/// An ordinary stream has been opened by the C library.
fn note_stream(stream: *mut Stream) -> *mut Stream {
    if !stream.is_null() && process::is_on() {
        let before = crate::errno::read();
        // SAFETY: a stream that is open (S20).
        let fd = unsafe { libc::fileno(stream) };
        if process::stat(fd).is_ok_and(|stat| serve::is_regular(&stat)) {
            // The server's failure to write back is in its log; the stream reads what is there.
            let _ = serve::ask_to_hand_over(fd, Reason::Stream);
        }
        table::set(fd, Entry::Kernel);
        crate::errno::set(before);
    }
    stream
}

fn fail(errno: Errno) -> *mut Stream {
    crate::errno::set(errno);
    null_mut()
}

/// The stream of a descriptor that was opened for it; the descriptor is closed if there is none.
fn stream_on(fd: c_int, mode: Mode) -> *mut Stream {
    // SAFETY: our descriptor and a string (S20).
    let stream = unsafe { fdopen(fd, mode.text().as_ptr()) };
    if stream.is_null() {
        let why = crate::errno::read();
        // SAFETY: a descriptor nobody has seen yet (S20).
        unsafe { close(fd) };
        return fail(why);
    }
    stream
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut Stream {
    if !process::is_on() {
        // SAFETY: our caller's arguments (S20).
        return unsafe { next::fopen64(path, mode) };
    }
    // SAFETY: our caller's mode (S20).
    if let Some(parsed) = unsafe { Mode::parse(mode) } {
        // SAFETY: our caller's path (S20).
        let fd = unsafe { open64(path, parsed.flags, 0o666) };
        return if fd < 0 { null_mut() } else { stream_on(fd, parsed) };
    }
    // SAFETY: our caller's mode (S20).
    if unsafe { cuts(mode) } {
        named::hand_over(libc::AT_FDCWD, path, Reason::Stream);
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
unsafe extern "C" fn tmpfile64() -> *mut Stream {
    if !process::is_on() {
        // SAFETY: no arguments (S20).
        return unsafe { next::tmpfile64() };
    }
    let flags = libc::O_RDWR | libc::O_EXCL | libc::O_TMPFILE;
    // SAFETY: a string (S20).
    let fd = unsafe { open64(c"/tmp".as_ptr(), flags, 0o600) };
    // SAFETY: a string (S20).
    match unsafe { Mode::parse(c"w+".as_ptr()) } {
        Some(mode) if fd >= 0 => stream_on(fd, mode),
        // SAFETY: no arguments (S20).
        _ => note_stream(unsafe { next::tmpfile64() }),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tmpfile() -> *mut Stream {
    // SAFETY: the same function (S20).
    unsafe { tmpfile64() }
}

/// `/proc/self/fd/` and the number, ended with a zero.
fn own_path(fd: c_int) -> [u8; 32] {
    let mut path = [0; 32];
    let mut text = &mut path[..];
    // Thirty-one bytes are enough for any number.
    let _ = write!(text, "/proc/self/fd/{fd}");
    path
}

/// As freopen, of a stream of ours over `fd`.
///
/// # Safety
/// As freopen's.
unsafe fn reopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut Stream,
    fd: c_int,
) -> *mut Stream {
    // SAFETY: our caller's stream; what fails is ignored, as freopen does (S20).
    unsafe { libc::fflush(stream) };
    // Without a path it is the same file, in another mode.
    let own = own_path(fd);
    let path = if path.is_null() { own.as_ptr().cast() } else { path };
    // SAFETY: our caller's mode (S20).
    let result = match unsafe { Mode::parse(mode) } {
        Some(mode) => {
            // SAFETY: our caller's path, or our own (S20).
            match unsafe { open64(path, mode.flags, 0o666) } {
                -1 => Err(crate::errno::read()),
                new => {
                    // SAFETY: our caller's stream, flushed (S27).
                    let replaced = unsafe { streams::replace(stream, fd, new, mode) };
                    // SAFETY: our descriptor (S20).
                    unsafe { close(new) };
                    replaced
                }
            }
        }
        None => Err(Errno(libc::EINVAL)),
    };
    match result {
        Ok(()) => stream,
        Err(errno) => {
            // SAFETY: our caller's stream, which freopen closes whatever happens (S20).
            unsafe { fclose(stream) };
            fail(errno)
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn freopen64(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut Stream,
) -> *mut Stream {
    if let Some(fd) = streams::descriptor_of(stream) {
        // SAFETY: our caller's arguments (S20).
        return unsafe { reopen(path, mode, stream, fd) };
    }
    // SAFETY: our caller's mode (S20).
    if process::is_on() && unsafe { cuts(mode) } {
        named::hand_over(libc::AT_FDCWD, path, Reason::Stream);
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
    if serve::managed(fd).is_some() {
        // SAFETY: our caller's mode (S20).
        let parsed = unsafe { Mode::parse(mode) };
        // SAFETY: numbers (S20).
        let status = unsafe { fcntl64(fd, libc::F_GETFL, 0) };
        match parsed {
            Some(mode) if !mode.fits(status) => return fail(Errno(libc::EINVAL)),
            Some(mode) => {
                let appends = mode.flags & libc::O_APPEND;
                if appends & !status != 0 {
                    // SAFETY: numbers (S20).
                    unsafe { fcntl64(fd, libc::F_SETFL, (status | appends) as usize) };
                }
                if let Some(stream) = streams::make(fd, mode) {
                    return stream;
                }
            }
            None => {}
        }
        if let Err(errno) = serve::hand_over(fd, Reason::Stream) {
            return fail(errno);
        }
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::fdopen(fd, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fclose(stream: *mut Stream) -> c_int {
    if process::is_on() && !stream.is_null() && !streams::about_to_close(stream) {
        // SAFETY: our caller's stream, open until the next line but one (S20).
        let fd = unsafe { libc::fileno(stream) };
        if fd >= 0 && table::entry(fd) == Entry::Kernel {
            table::set(fd, Entry::Unknown);
        }
    }
    // SAFETY: our caller's stream (S20).
    unsafe { next::fclose(stream) }
}
