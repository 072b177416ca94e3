//! The functions that a program calls instead of the C library's, a file for each kind.
//!
//! Each follows one pattern: what is not managed goes on to the next definition untouched; what is
//! managed becomes a request; where the kernel has the file by now, the call goes on after all.
//! All keep the C contract of their name, and no more: they may be called from any thread, in a
//! signal's handler, between fork and exec.

mod aliases;
mod copy;
mod descriptors;
#[cfg(target_arch = "x86_64")]
mod exec_lists;
mod interfaces;
mod locks;
mod metadata;
mod open;
#[cfg(target_arch = "x86_64")]
pub(crate) mod print;
mod read_write;
#[cfg(target_arch = "x86_64")]
mod registers;
mod spawn;
pub(crate) mod standard;
pub(crate) mod stdio;
pub(crate) mod streams;
#[cfg(target_arch = "x86_64")]
mod wide;

use crate::errno::Errno;
use libc::{c_int, c_void, size_t, ssize_t};

// The function a program would call.
unsafe extern "C" {
    fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t;
}

/// Writes `len` bytes at the position, in as many calls as it takes.
fn write_all(fd: c_int, from: *const u8, len: usize) -> Result<(), Errno> {
    let mut done = 0;
    while done < len {
        // SAFETY: the rest of our caller's bytes (S20).
        match unsafe { write(fd, from.wrapping_add(done).cast(), len - done) } {
            nr @ 1.. => done += nr as usize,
            0 => return Err(Errno(libc::EIO)),
            _ => return Err(crate::errno::read()),
        }
    }
    Ok(())
}
