//! Prefetching: a line is on its way while other work is done.

/// Starts bringing the line that `value` begins in into the processor's cache. Costs a few cycles,
/// and changes nothing but time.
#[inline]
pub fn fetch<T>(value: &T) {
    fetch_line(std::ptr::from_ref(value).cast());
}

/// As [`fetch`], for a value that will be written: the line is fetched for this processor alone, so
/// that the write need not ask for it again.
#[inline]
pub fn fetch_to_write<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: S12 (a prefetch is only a hint; processors without it take it for a no-op).
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

/// As [`fetch`], by address; any address will do.
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
