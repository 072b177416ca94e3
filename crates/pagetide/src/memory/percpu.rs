//! One slot per CPU, so that threads on different CPUs do not share cache lines.
//!
//! A slot is chosen by the CPU the caller runs on at that moment. The caller may be moved to
//! another CPU right after: slots are therefore always safe to share (an atomic, a mutex), only
//! rarely so.

use crossbeam_utils::CachePadded;
use pagetide_core::ids::CpuId;

/// A fixed array of slots, each on cache lines of its own.
pub(crate) struct PerCpu<T> {
    slots: Box<[CachePadded<T>]>,
}

impl<T> PerCpu<T> {
    /// `nr_cpus` slots (at least one).
    pub(crate) fn new(nr_cpus: usize, mut init: impl FnMut() -> T) -> PerCpu<T> {
        PerCpu { slots: (0..nr_cpus.max(1)).map(|_| CachePadded::new(init())).collect() }
    }

    /// The slot of `cpu`; a CPU added since the cache was built shares one.
    #[inline]
    pub(crate) fn at(&self, cpu: CpuId) -> &T {
        let index = cpu.0 as usize;
        let index = if index < self.slots.len() { index } else { index % self.slots.len() };
        &self.slots[index]
    }

    /// All slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().map(|slot| &**slot)
    }
}
