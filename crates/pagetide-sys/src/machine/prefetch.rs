//! Prefetching of cache lines.

/// Prefetches the first cache line of `value`. Costs a few cycles.
#[inline]
pub fn fetch<T>(value: &T) {
    fetch_line(std::ptr::from_ref(value).cast());
}

/// As [`fetch`], with exclusive access, so that a later write is fast.
#[inline]
pub fn fetch_to_write<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: S12 (a prefetch is only a hint, and a no-op on processors without it).
        unsafe {
            std::arch::asm!(
                "prefetchw [{line}]",
                line = in(reg) std::ptr::from_ref(value),
                options(nostack, preserves_flags, readonly),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// As [`fetch`], for any address, valid or not.
#[inline]
pub(crate) fn fetch_line(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: S12 (a prefetch is only a hint).
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
