//! Raw copies of memory that other threads may be accessing.
//!
//! **Problem.** An optimistic reader copies a frame that its owner may be overwriting, and checks
//! afterwards. An ordinary `memcpy` would be a data race.
//!
//! **Idea.** The memory is a slice of atomic cells, accessed like relaxed atomics: by opaque
//! assembly on x86-64, and by a loop over the cells elsewhere (other machines, loom). A race yields
//! torn bytes, never undefined behaviour.
//!
//! ```text
//!   reader:  page word -> copy_out -> acquire fence -> page word again: same? the bytes are whole
//!   writer:  LOCK      -> release fence -> copy_in  -> unlock, version + 1
//! ```
//!
//! **Invariants.** S2: the loop accesses only whole cells, so racing accesses have the same size. A
//! frame's only writer may edit a cell by load and store. Every call checks its range.
//!
//! **Ignored.** Non-temporal stores, and any order inside one copy.
//!
//! Source: H.-J. Boehm, "Can seqlocks get along with programming language memory models?", MSPC
//! 2012.

use std::sync::atomic::AtomicU64;

#[cfg(any(loom, not(target_arch = "x86_64")))]
pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

/// Copies bytes `at..at + target.len()` of `cells` into `target`. The bytes may be torn.
///
/// Panics if the range leaves the cells.
#[inline]
pub(crate) fn copy_out(cells: &[AtomicU64], at: usize, target: &mut [u8]) {
    // SAFETY: S2 (racing copies are opaque) for the cells. `target` is an exclusive slice.
    unsafe { copy_out_to(cells, at, target.as_mut_ptr(), target.len()) };
}

/// As [`copy_out`], to memory that need not be a slice.
///
/// # Safety
/// `target` is valid for writes of `len` bytes, and lies outside the cells.
#[inline]
pub(crate) unsafe fn copy_out_to(cells: &[AtomicU64], at: usize, target: *mut u8, len: usize) {
    check(cells, at, len);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: S2 (racing copies are opaque), of a checked range. The caller vouches for the target.
    unsafe {
        x86_64::copy(byte(cells, at).cast_const(), target, len);
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        // A slice of uninitialised bytes is undefined behaviour.
        // SAFETY: S2: the caller vouches for the target.
        unsafe { target.write_bytes(0, len) };
        // SAFETY: S2 (racing copies are opaque) for the cells. The caller vouches for the target.
        portable::copy_out(cells, at, unsafe { std::slice::from_raw_parts_mut(target, len) });
    }
}

/// Copies `source` to byte `at` of `cells`. The caller is their only writer. Panics if the range
/// leaves the cells.
#[inline]
pub(crate) fn copy_in(cells: &[AtomicU64], at: usize, source: &[u8]) {
    check(cells, at, source.len());
    #[cfg(target_arch = "x86_64")]
    // SAFETY: S2 (racing copies are opaque), of a checked range. A shared slice does not change, so
    // it lies elsewhere.
    unsafe {
        x86_64::copy(source.as_ptr(), byte(cells, at), source.len());
    }
    #[cfg(not(target_arch = "x86_64"))]
    portable::copy_in(cells, at, source);
}

/// As [`copy_in`], within `cells`. Panics if a range leaves the cells, or the ranges overlap.
#[inline]
pub(crate) fn copy_within(cells: &[AtomicU64], source: usize, target: usize, len: usize) {
    check(cells, source, len);
    check(cells, target, len);
    assert!(source.abs_diff(target) >= len, "S2: two ranges of a copy do not overlap");
    #[cfg(target_arch = "x86_64")]
    // SAFETY: S2 (racing copies are opaque), of two checked ranges.
    unsafe {
        x86_64::copy(byte(cells, source).cast_const(), byte(cells, target), len);
    }
    #[cfg(not(target_arch = "x86_64"))]
    portable::copy_within(cells, source, target, len);
}

/// Zeroes as [`copy_in`].
pub(crate) fn zero(cells: &[AtomicU64], at: usize, len: usize) {
    check(cells, at, len);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: S2 (racing copies are opaque), of a checked range.
    unsafe {
        x86_64::zero(byte(cells, at), len);
    }
    #[cfg(not(target_arch = "x86_64"))]
    portable::zero(cells, at, len);
}

#[inline]
fn check(cells: &[AtomicU64], at: usize, len: usize) {
    let end = size_of_val(cells);
    assert!(at <= end && len <= end - at, "S2: {len} bytes at {at} of {end}");
}

/// For assembly that acts like the cells' atomics.
#[cfg(target_arch = "x86_64")]
#[inline]
fn byte(cells: &[AtomicU64], at: usize) -> *mut u8 {
    cells.as_ptr().cast_mut().cast::<u8>().wrapping_add(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    fn bytes(cells: &[AtomicU64]) -> Vec<u8> {
        cells.iter().flat_map(|cell| cell.load(Ordering::Relaxed).to_ne_bytes()).collect()
    }

    /// Lengths around each limit, at odd positions.
    #[test]
    fn copies_touch_what_they_were_told_to() {
        let cells: Vec<AtomicU64> = (0..2048).map(|_| AtomicU64::new(!0)).collect();
        let mut twin = vec![0xff_u8; 2048 * 8];
        for (at, len) in [(0, 0), (3, 1), (9, 7), (40, 127), (301, 300), (1024, 1025), (4096, 4096)]
        {
            let source: Vec<u8> = (0..len).map(|byte| (byte ^ at) as u8).collect();
            copy_in(&cells, at, &source);
            twin[at..at + len].copy_from_slice(&source);
            copy_within(&cells, at / 8 * 8, 12_288, len / 8 * 8);
            twin.copy_within(at / 8 * 8..at / 8 * 8 + len / 8 * 8, 12_288);
            assert_eq!(bytes(&cells), twin);
            let mut seen = vec![0; len];
            copy_out(&cells, at, &mut seen);
            assert_eq!(seen, source);
            zero(&cells, at + len / 2, len - len / 2);
            twin[at + len / 2..at + len].fill(0);
            assert_eq!(bytes(&cells), twin);
        }
    }

    #[test]
    #[should_panic(expected = "S2: 2 bytes at 15 of 16")]
    fn a_copy_past_the_end_panics() {
        copy_out(&[AtomicU64::new(0), AtomicU64::new(0)], 15, &mut [0; 2]);
    }
}
