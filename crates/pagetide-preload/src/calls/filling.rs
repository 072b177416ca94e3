//! Calls other than reads that fill memory. If the target is a managed mapping, they fill the
//! library's memory first: at an absent page, the kernel would drop received bytes.
//!
//! Ignored: recvmmsg, and names and control data of messages.

use crate::arguments::{CALL_BYTES_MAX, Vector, check_range, load};
use crate::errno::{Errno, or_minus_one};
use crate::transfer::part;
use crate::{maps, next, serve};
use libc::{c_int, c_void, iovec, msghdr, size_t, socklen_t, ssize_t};

taken_over! {
    fn recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        maps::in_own_memory(&part(buffer, len), |own, len| {
            // SAFETY: our caller's arguments, and memory of ours (S20).
            unsafe { next::recv(fd, own, len, flags) }
        })
        .or_else(|| no_socket(fd, buffer, len))
    }

    fn recvfrom(
        fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int, address: *mut c_void,
        address_len: *mut socklen_t,
    ) -> ssize_t {
        maps::in_own_memory(&part(buffer, len), |own, len| {
            // SAFETY: our caller's arguments, and memory of ours (S20).
            unsafe { next::recvfrom(fd, own, len, flags, address, address_len) }
        })
        .or_else(|| no_socket(fd, buffer, len))
    }

    fn recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        if serve::managed(socket).is_some() {
            return Some(or_minus_one(Err(Errno(libc::ENOTSOCK))));
        }
        // SAFETY: our caller's message (S20).
        unsafe { load(message) }.ok()?;
        // SAFETY: the caller's message, which is in memory (S20).
        let message = unsafe { message.as_mut() }?;
        let (parts, nr) = (message.msg_iov, message.msg_iovlen);
        // SAFETY: our caller's parts (S20).
        let vector = unsafe { Vector::new(parts, c_int::try_from(nr).unwrap_or(-1)) }.ok()?;
        maps::in_own_memory(vector.parts(), |own, iov_len| {
            let mut part = iovec { iov_base: own, iov_len };
            (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
            // SAFETY: our caller's message, with memory of ours (S20).
            let taken = unsafe { next::recvmsg(socket, message, flags) };
            (message.msg_iov, message.msg_iovlen) = (parts, nr);
            taken
        })
    }
}

pub(super) fn no_socket(fd: c_int, buffer: *const c_void, len: size_t) -> Option<ssize_t> {
    serve::managed(fd)?;
    let refused = check_range(buffer as usize, len.min(CALL_BYTES_MAX)).err();
    Some(or_minus_one(Err(refused.unwrap_or(Errno(libc::ENOTSOCK)))))
}

/// The C library's streams read long buffers directly.
#[unsafe(no_mangle)]
unsafe extern "C" fn fread(
    buffer: *mut c_void,
    size: size_t,
    nr: size_t,
    stream: *mut next::Stream,
) -> size_t {
    // SAFETY: our caller's arguments, or memory of ours (S20).
    read_items(buffer, size, nr, |own, size, nr| unsafe { next::fread(own, size, nr, stream) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fread_unlocked(
    buffer: *mut c_void,
    size: size_t,
    nr: size_t,
    stream: *mut next::Stream,
) -> size_t {
    // SAFETY: our caller's arguments, or memory of ours (S20).
    read_items(buffer, size, nr, |own, size, nr| unsafe {
        next::fread_unlocked(own, size, nr, stream)
    })
}

/// Directly, or byte by byte through the library's memory.
fn read_items(
    buffer: *mut c_void,
    size: size_t,
    nr: size_t,
    read: impl Fn(*mut c_void, size_t, size_t) -> size_t,
) -> size_t {
    let take = |own, len| read(own, 1, len) as isize;
    let filled = size.checked_mul(nr).and_then(|len| maps::in_own_memory(&part(buffer, len), take));
    match filled {
        Some(done) => done as usize / size,
        None => read(buffer, size, nr),
    }
}
