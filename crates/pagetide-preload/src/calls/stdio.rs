//! C streams. The C library's own calls for streams cannot be replaced, so a managed file gets a
//! stream over this library (see `streams`). Without such a stream, the file becomes the kernel's.
//!
//! ```text
//!   fopen, fdopen, tmpfile   managed: a managed stream. The kernel's: an ordinary one
//!   freopen                  of a managed stream: its file changes under it
//!                            of another: the C library's own open, which is the kernel's
//! ```

use super::streams::{self, Mode};
use crate::errno::Errno;
use crate::next::{self, Stream};
use crate::table::{self, Entry};
use crate::{new_reports, process, serve};
use libc::{c_char, c_int, mode_t};
use pagetide_run::wire::Reason;
use std::ptr::null_mut;

unsafe extern "C" {
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int;
}

/// The stream's descriptor is the kernel's.
fn note_stream(stream: *mut Stream) -> *mut Stream {
    if !stream.is_null() && process::is_on() {
        // SAFETY: a stream that is open (S20).
        table::set(unsafe { libc::fileno(stream) }, Entry::Kernel);
    }
    stream
}

fn fail(errno: Errno) -> *mut Stream {
    crate::errno::set(errno);
    null_mut()
}

/// Closes the descriptor on failure.
fn stream_on(fd: c_int, mode: Mode) -> *mut Stream {
    // SAFETY: this library's descriptor, and a string (S20).
    let stream = unsafe { fdopen(fd, mode.text().as_ptr()) };
    if stream.is_null() {
        let why = crate::errno::read();
        // SAFETY: a descriptor that the program has not seen yet (S20).
        unsafe { close(fd) };
        return fail(why);
    }
    streams::go_to_end(fd, mode);
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
    // SAFETY: our caller's arguments (S20).
    note_stream(unsafe { next::fopen64(path, mode) })
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

/// # Safety
/// As freopen.
unsafe fn reopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut Stream,
    fd: c_int,
) -> *mut Stream {
    // SAFETY: the caller's stream. Errors are ignored, as in freopen (S20).
    unsafe { libc::fflush(stream) };
    // Without a path: the same file in another mode.
    let own = process::path_of(fd);
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
                    // SAFETY: this library's descriptor (S20).
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
            // SAFETY: the caller's stream, which freopen closes in any case (S20).
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
    // SAFETY: our caller's arguments (S20).
    note_stream(unsafe { next::freopen64(path, mode, stream) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut Stream {
    if new_reports::is_new(fd) || serve::managed(fd).is_some() {
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
                    streams::go_to_end(fd, mode);
                }
                if let Some(stream) = streams::make(fd, mode) {
                    return stream;
                }
            }
            None => {}
        }
        if let Err(errno) = serve::hand_over_managed(fd, Reason::Interface) {
            return fail(errno);
        }
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::fdopen(fd, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fclose(stream: *mut Stream) -> c_int {
    if process::is_on() && !stream.is_null() && !streams::about_to_close(stream) {
        // SAFETY: the caller's stream, still open (S20).
        let fd = unsafe { libc::fileno(stream) };
        if fd >= 0 && !matches!(table::entry(fd), Entry::Managed(_)) {
            // The server learns nothing of the kernel's files.
            let _ = serve::forget(fd);
        }
    }
    // SAFETY: our caller's stream (S20).
    unsafe { next::fclose(stream) }
}
