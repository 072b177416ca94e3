//! The functions that replace the C library's, one file per kind.
//!
//! Calls on files that are not managed go to the next definition. Calls on managed files become
//! requests. If the kernel has the file by then, the call goes to the next definition after all.
//! Each function keeps its C contract: any thread, in signal handlers, between fork and exec.

/// Functions with an answer. Without one, the call goes to the next definition unchanged.
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
                // SAFETY: the caller's arguments (S20).
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
