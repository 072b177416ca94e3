//! errno: how C functions say why.

use libc::c_int;

/// Why a call failed, as the system numbers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errno(pub(crate) c_int);

/// The calling thread's errno.
pub(crate) fn read() -> Errno {
    // SAFETY: the C library's errno of this thread lives as long as the thread (S20).
    let here = unsafe { libc::__errno_location() };
    // SAFETY: as above, and no other thread has the address (S20).
    Errno(unsafe { *here })
}

/// Sets the calling thread's errno.
pub(crate) fn set(errno: Errno) {
    // SAFETY: the C library's errno of this thread lives as long as the thread (S20).
    let here = unsafe { libc::__errno_location() };
    // SAFETY: as above, and no other thread has the address (S20).
    unsafe { *here = errno.0 };
}

/// Runs `act`, and keeps the errno that the program may still read.
pub(crate) fn kept<T>(act: impl FnOnce() -> T) -> T {
    let before = read();
    let result = act();
    set(before);
    result
}

/// A call's result, the C way: errno is set, and -1 stands for it.
pub(crate) fn or_minus_one<T: From<i8>>(result: Result<T, Errno>) -> T {
    result.unwrap_or_else(|errno| {
        set(errno);
        T::from(-1)
    })
}
