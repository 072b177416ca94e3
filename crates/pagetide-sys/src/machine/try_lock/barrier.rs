//! Two fences of which one is nearly free, because the other is dear.
//!
//! ```text
//!   one thread:    write A     light     read B      a compiler fence
//!   another:       write B     heavy     read A      the kernel fences every running thread
//! ```
//!
//! As with two full fences, at least one of the reads sees the other thread's write: the kernel
//! interrupts each CPU that runs one of our threads and lets it finish its writes; a thread that is
//! not running has finished them. Under loom and Miri, which know no such call, both are full
//! fences.
//!
//! S15 (the asymmetric fence). Source: membarrier(2).

pub(super) use imp::{heavy, is_supported, light};

#[cfg(all(not(loom), not(miri)))]
mod imp {
    use rustix::thread::{MembarrierCommand, membarrier};
    use std::sync::atomic::{AtomicU8, Ordering, compiler_fence};

    const NOT_ASKED: u8 = 0;
    const YES: u8 = 1;
    const NO: u8 = 2;
    static ANSWER: AtomicU8 = AtomicU8::new(NOT_ASKED);

    /// Whether the kernel has the heavy fence for us. The first time asks for it, which may take
    /// milliseconds in a program of many threads.
    pub(in super::super) fn is_supported() -> bool {
        match ANSWER.load(Ordering::Relaxed) {
            NOT_ASKED => {
                let answer = if register() { YES } else { NO };
                ANSWER.store(answer, Ordering::Relaxed);
                answer == YES
            }
            answer => answer == YES,
        }
    }

    fn register() -> bool {
        membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    }

    #[inline]
    pub(in super::super) fn light() {
        compiler_fence(Ordering::SeqCst);
    }

    /// # Panics
    /// When the kernel refuses what it granted: a filter of system calls that came later.
    ///
    /// # Cost
    /// Some microseconds.
    pub(in super::super) fn heavy() {
        let fence = || membarrier(MembarrierCommand::PrivateExpedited).is_ok();
        // A child of a fork may have to register again.
        assert!(fence() || (register() && fence()), "membarrier is refused, and was not before");
    }
}

#[cfg(any(loom, miri))]
mod imp {
    use crate::sync::{Ordering, fence};

    pub(in super::super) fn is_supported() -> bool {
        true
    }

    pub(in super::super) fn light() {
        fence(Ordering::SeqCst);
    }

    pub(in super::super) fn heavy() {
        fence(Ordering::SeqCst);
    }
}
