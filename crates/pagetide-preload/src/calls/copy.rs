//! From one descriptor to another, inside the kernel: where a managed file takes part, through
//! memory of ours instead.
//!
//! ```text
//!   sendfile, copy_file_range    our own pread and write, a buffer at a time
//!   splice                       the kernel gets the file: pipes keep references to pages
//!   ioctl(FICLONE)               refused, as by a file system that cannot; callers copy then
//! ```

use crate::errno::{Errno, or_minus_one};
use crate::{next, serve};
use libc::{c_int, c_uint, c_ulong, off_t, size_t, ssize_t};
use pagetide_sys::wire::Reason;

/// Bytes moved at a time.
const BUFFER_BYTES: usize = 128 << 10;
const FICLONE: c_ulong = 0x4004_9409;
const FICLONERANGE: c_ulong = 0x4020_940d;
const FIDEDUPERANGE: c_ulong = 0xc018_9436;

/// A mapping for one call: stacks may be small, and malloc may be what is calling us.
struct Buffer {
    start: usize,
}

impl Buffer {
    fn new() -> Result<Buffer, Errno> {
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        let arguments = [0, BUFFER_BYTES, access, kind, usize::MAX, 0];
        // SAFETY: a new mapping, where the kernel likes it (S22).
        let start = unsafe { next::system(libc::SYS_mmap, arguments)? };
        Ok(Buffer { start })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let arguments = [self.start, BUFFER_BYTES, 0, 0, 0, 0];
        // SAFETY: our own mapping, of which nothing is borrowed (S22).
        let _ = unsafe { next::system(libc::SYS_munmap, arguments) };
    }
}

// The functions a program would call.
unsafe extern "C" {
    fn read(fd: c_int, buffer: *mut libc::c_void, len: size_t) -> ssize_t;
    fn pread64(fd: c_int, buffer: *mut libc::c_void, len: size_t, at: off_t) -> ssize_t;
    fn write(fd: c_int, buffer: *const libc::c_void, len: size_t) -> ssize_t;
    fn pwrite64(fd: c_int, buffer: *const libc::c_void, len: size_t, at: off_t) -> ssize_t;
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

    fn read(&mut self, buffer: &Buffer, len: usize) -> ssize_t {
        let len = len.min(BUFFER_BYTES);
        let nr = match self.at {
            // SAFETY: our own mapping, so long (S22).
            Some(at) => unsafe { pread64(self.fd, buffer.start as *mut _, len, at) },
            // SAFETY: our own mapping, so long (S22).
            None => unsafe { read(self.fd, buffer.start as *mut _, len) },
        };
        self.at = self.at.map(|at| at + nr.max(0) as off_t);
        nr
    }

    fn write(&mut self, buffer: &Buffer, from: usize, len: usize) -> ssize_t {
        let start = (buffer.start + from) as *const _;
        let nr = match self.at {
            // SAFETY: within our own mapping (S22).
            Some(at) => unsafe { pwrite64(self.fd, start, len, at) },
            // SAFETY: within our own mapping (S22).
            None => unsafe { write(self.fd, start, len) },
        };
        self.at = self.at.map(|at| at + nr.max(0) as off_t);
        nr
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

/// Moves up to `len` bytes; fewer at the end, or where a write is short.
fn transfer(from: &mut End, to: &mut End, len: usize) -> Result<usize, Errno> {
    let buffer = Buffer::new()?;
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
    let result = transfer(&mut source, &mut End { fd: out, at: None }, len);
    // SAFETY: our caller's offset (S20).
    unsafe { source.store(at) };
    or_minus_one(result.map(|nr| nr as ssize_t))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile(out: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
    // SAFETY: the same function (S20).
    unsafe { sendfile64(out, from, at, len) }
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
    let result = transfer(&mut source, &mut target, len);
    // SAFETY: our caller's offset (S20).
    unsafe { source.store(from_at) };
    // SAFETY: our caller's offset (S20).
    unsafe { target.store(to_at) };
    or_minus_one(result.map(|nr| nr as ssize_t))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn splice(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    for fd in [from, to] {
        if serve::managed(fd).is_some()
            && let Err(errno) = serve::hand_over(fd, Reason::Interface)
        {
            return or_minus_one(Err(errno));
        }
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::splice(from, from_at, to, to_at, len, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    let is_clone = matches!(request, FICLONE | FICLONERANGE | FIDEDUPERANGE);
    if is_clone && serve::managed(fd).is_some() {
        return or_minus_one(Err(Errno(libc::EOPNOTSUPP)));
    }
    if request == FICLONE && serve::managed(argument as c_int).is_some() {
        return or_minus_one(Err(Errno(libc::EOPNOTSUPP)));
    }
    // SAFETY: our caller's arguments; one that was not given is not looked at (S20).
    unsafe { next::ioctl(fd, request, argument) }
}
