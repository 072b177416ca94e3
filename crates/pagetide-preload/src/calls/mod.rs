//! The functions that a program calls instead of the C library's, a file for each kind.
//!
//! Each follows one pattern: what is not managed goes on to the next definition untouched; what is
//! managed becomes a request; where the kernel has the file by now, the call goes on after all.
//! All keep the C contract of their name, and no more: they may be called from any thread, in a
//! signal's handler, between fork and exec.

/// Functions that are taken over, each with its answer: where it has none, the call goes on to the
/// next definition as it came.
macro_rules! taken_over {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty { $($answer:tt)* })+) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
                let answer = || -> Option<$ret> { $($answer)* };
                let next = {
                    $crate::next::next! { fn $name($($arg: $ty),*) -> $ret; }
                    $name
                };
                // SAFETY: our caller's arguments (S20).
                answer().unwrap_or_else(|| unsafe { next($($arg),*) })
            }
        )+
    };
}

mod aliases;
mod copy;
mod descriptors;
#[cfg(target_arch = "x86_64")]
mod exec_lists;
mod filling;
mod identity;
mod interfaces;
#[cfg(target_arch = "x86_64")]
mod jumps;
mod limits;
mod locks;
mod maps;
mod metadata;
mod open;
mod paths;
mod read_write;
mod seccomp;
pub(crate) mod spawn;
mod stdio;
pub(crate) mod streams;
mod waits;
