//! One slot per CPU, so that threads on different CPUs do not share cache lines. The caller may
//! move to another CPU, so slots must be safe to share.

use crossbeam_utils::CachePadded;
use pagetide_core::ids::CpuId;

pub(crate) struct PerCpu<T> {
    slots: Box<[CachePadded<T>]>,
}

impl<T> PerCpu<T> {
    pub(crate) fn new(nr_cpus: usize, mut init: impl FnMut() -> T) -> PerCpu<T> {
        PerCpu { slots: (0..nr_cpus.max(1)).map(|_| CachePadded::new(init())).collect() }
    }

    /// Returns the slot of `cpu`. A CPU added later shares a slot.
    #[inline]
    pub(crate) fn at(&self, cpu: CpuId) -> &T {
        let index = cpu.0 as usize;
        let index = if index < self.slots.len() { index } else { index % self.slots.len() };
        &self.slots[index]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().map(|slot| &**slot)
    }
}
