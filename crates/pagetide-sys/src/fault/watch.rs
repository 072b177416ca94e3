//! An allocator that counts what is allocated while a fault is served: for tests that say nothing
//! is.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::fault::signal::is_serving_fault;

/// The system's allocator, watched. To be declared as the global one.
#[derive(Debug, Default)]
pub struct FaultWatch {
    nr_allocated: AtomicU64,
}

impl FaultWatch {
    /// One that has seen nothing yet.
    pub const fn new() -> FaultWatch {
        FaultWatch { nr_allocated: AtomicU64::new(0) }
    }

    /// Calls that allocated, or freed, while their thread served a fault by a signal.
    pub fn nr_calls_in_faults(&self) -> u64 {
        self.nr_allocated.load(Relaxed)
    }

    fn note(&self) {
        if is_serving_fault() {
            self.nr_allocated.fetch_add(1, Relaxed);
        }
    }
}

// SAFETY: S32 (all is handed on to the system's allocator, as it came).
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
