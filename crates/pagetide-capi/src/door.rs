//! The FFI guard: every result of a call from C becomes a number.
//!
//! ```text
//!   Ok(n)    n                  Err     -errno, and a message for this thread
//!                               panic   -ENOTRECOVERABLE, and the panic's message
//! ```
//!
//! The errno is the system's error in the chain of causes, if any, otherwise the equivalent of the
//! error's kind.

use pagetide::{errno_of, find_errno};
use std::any::Any;
use std::cell::RefCell;
use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The version of the interface. Rises when programs must be recompiled or changed, but not when
/// structures grow.
pub const PT_ABI_VERSION: u32 = 1;

thread_local! {
    static LAST_ERROR: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Returns the PT_ABI_VERSION of the loaded library. A program compiled with another version should
/// stop.
#[unsafe(no_mangle)]
pub extern "C" fn pt_abi_version() -> u32 {
    PT_ABI_VERSION
}

/// Returns the library's version, as "0.1.0". Never NULL, never freed.
#[unsafe(no_mangle)]
pub extern "C" fn pt_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Returns the message of this thread's last failed call: the cause with numbers, and the remedy.
/// Never NULL, and empty before the first failure. Valid until this thread's next failed call.
/// Unchanged by successful calls.
#[unsafe(no_mangle)]
pub extern "C" fn pt_last_error() -> *const c_char {
    // An ending thread may have lost the message.
    let last = LAST_ERROR.try_with(|last| last.borrow().as_deref().map(CStr::as_ptr));
    last.ok().flatten().unwrap_or(c"".as_ptr())
}

pub(crate) struct Failure {
    errno: c_int,
    said: String,
}

impl Failure {
    /// Makes a failure for invalid arguments.
    #[cold]
    pub(crate) fn invalid(said: impl Into<String>) -> Failure {
        Failure { errno: libc::EINVAL, said: said.into() }
    }

    #[cold]
    pub(crate) fn new(errno: c_int, said: impl Into<String>) -> Failure {
        Failure { errno, said: said.into() }
    }
}

impl<E: Error + Into<io::Error> + 'static> From<E> for Failure {
    #[cold]
    fn from(error: E) -> Failure {
        let (said, errno) = (error.to_string(), find_errno(&error));
        let errno = errno.unwrap_or_else(|| errno_of(error.into().kind()));
        Failure { errno, said }
    }
}

/// Runs a call that returns a count.
#[inline]
pub(crate) fn count(work: impl FnOnce() -> Result<u64, Failure>) -> i64 {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(nr)) => i64::try_from(nr).unwrap_or(i64::MAX),
        Ok(Err(failure)) => fail(failure),
        Err(panic) => {
            let said = describe(&*panic);
            let said = format!("a bug in pagetide, please report it: {said}");
            // The payload came from a panic, and dropping it may panic again.
            std::mem::forget(panic);
            fail(Failure::new(libc::ENOTRECOVERABLE, said))
        }
    }
}

/// Runs a call that returns 0 on success.
#[inline]
pub(crate) fn call(work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    // An errno fits.
    count(|| work().map(|()| 0)) as c_int
}

#[cold]
fn fail(failure: Failure) -> i64 {
    let Failure { errno, mut said } = failure;
    said.retain(|letter| letter != '\0');
    // An ending thread does not need the message.
    let _ = LAST_ERROR.try_with(|last| last.replace(CString::new(said).ok()));
    -i64::from(errno)
}

fn describe(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "a panic without a message",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    fn said() -> String {
        // SAFETY: S34: it is text, and no call of this thread fails meanwhile.
        unsafe { CStr::from_ptr(pt_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_is_an_error_like_any_other() {
        assert_eq!(call(|| panic!("no {}", "such page")), -libc::ENOTRECOVERABLE);
        assert_eq!(said(), "a bug in pagetide, please report it: no such page");
        assert_eq!(call(|| Ok(())), 0);
        assert!(said().ends_with("no such page"), "success leaves it as it is");
    }

    #[test]
    fn the_systems_errno_is_found_wherever_it_is() {
        let refused = || io::Error::from_raw_os_error(libc::EROFS);
        assert_eq!(call(|| Err(refused().into())), -libc::EROFS);
        assert_eq!(call(|| Err(io::Error::other(refused()).into())), -libc::EROFS);
        assert_eq!(call(|| Err(io::Error::from(ErrorKind::Deadlock).into())), -libc::EDEADLK);
    }

    #[test]
    fn a_sentence_with_a_zero_byte_is_told_without_it() {
        assert_eq!(call(|| Err(Failure::invalid("a\0b"))), -libc::EINVAL);
        assert_eq!(said(), "ab");
    }
}
