//! An allocator that counts allocations during faults, for tests that there are none.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::fault::signal::is_serving_fault;

/// The system's allocator with a counter. Declare it as the global allocator.
#[derive(Debug, Default)]
pub struct FaultWatch {
    nr_allocated: AtomicU64,
}

impl FaultWatch {
    /// Makes an allocator with a count of 0.
    pub const fn new() -> FaultWatch {
        FaultWatch { nr_allocated: AtomicU64::new(0) }
    }

    /// Returns the number of allocations and frees during faults served by a signal.
    pub fn nr_calls_in_faults(&self) -> u64 {
        self.nr_allocated.load(Relaxed)
    }

    fn note(&self) {
        if is_serving_fault() {
            self.nr_allocated.fetch_add(1, Relaxed);
        }
    }
}

// SAFETY: S32 (every call is forwarded unchanged to the system's allocator).
unsafe impl GlobalAlloc for FaultWatch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.note();
        // SAFETY: S32, by the caller's word.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        self.note();
        // SAFETY: S32, by the caller's word.
        unsafe { System.dealloc(memory, layout) }
    }
}
