//! Checks that the program's memory exists before the library copies.
//!
//! **Problem.** The kernel fails with EFAULT, or ends a read early, if memory is missing. A copy
//! would raise a signal. **Idea.** The kernel makes the pages present first, and the library
//! remembers them, because programs reuse few buffers.
//!
//! ```text
//!   page --> known, by this thread, since the program last changed mappings? --yes--> there
//!                             | no
//!                             v
//!                  madvise(MADV_POPULATE_WRITE) --> there, and known | not: up to this page
//! ```
//!
//! **Data and invariants.** Each thread remembers pages and longer ranges, with the count of
//! mapping changes. **Ignored.** Mapping changes that bypass the library.
//!
//! Source: madvise(2) `MADV_POPULATE_WRITE`, futex(2) `FUTEX_WAIT`, mincore(2).

use crate::errno::Errno;
use crate::{next, pieces, process};
use libc::iovec;
use pagetide_run::wire::{PAGE_BYTES, PAGE_SHIFT};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Pages known per thread: a power of two.
const NR_KNOWN: usize = 256;
/// Longer ranges known per thread.
const NR_RANGES: usize = 8;
/// Longer parts are remembered as ranges. As many pages as 64 KiB at any address.
const FEW_PAGES: usize = 17;
/// Reads up to this length do not query the file's length.
const FEW_BYTES: usize = 256 << 10;
/// A check must not allocate the program's memory.
const BYTES_MAX: usize = 64 << 20;
/// Bits of a page number in a word. The count of changes lies above.
const PAGE_BITS: u32 = 36;
/// An unlikely value of memory. A match does no harm.
const UNLIKELY: usize = 0x9e37_79b9;

/// Mapping changes by the program.
static CHANGES: AtomicU64 = AtomicU64::new(1);

/// Writable pages, and the count of changes at that time.
#[derive(Clone, Copy)]
struct Known {
    start: usize,
    end: usize,
    changes: u64,
}

thread_local! {
    static KNOWN: [Cell<u64>; NR_KNOWN] = const { [const { Cell::new(0) }; NR_KNOWN] };
    /// Longer ranges, and the next to replace.
    static RANGES: [Cell<Known>; NR_RANGES] =
        const { [const { Cell::new(Known { start: 0, end: 0, changes: 0 }) }; NR_RANGES] };
    static NEXT_RANGE: Cell<usize> = const { Cell::new(0) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Load = 0,
    Store = 1,
}

pub(crate) fn about_to_change() {
    CHANGES.fetch_add(1, Relaxed);
}

fn word_of(page: usize, usage: Use) -> u64 {
    (CHANGES.load(Relaxed) << 1 | usage as u64) << PAGE_BITS | page as u64
}

/// Writable pages are readable.
fn is_known(page: usize, usage: Use) -> bool {
    let known = KNOWN.with(|known| known[page % NR_KNOWN].get());
    known == word_of(page, Use::Store) || usage == Use::Load && known == word_of(page, Use::Load)
}

fn are_known(pages: Range<usize>, usage: Use) -> bool {
    pages.len() <= FEW_PAGES && pages.clone().all(|page| is_known(page, usage))
        || RANGES.with(|ranges| ranges.iter().any(|known| known.get().has(&pages)))
}

impl Known {
    fn is_now(&self) -> bool {
        self.changes == CHANGES.load(Relaxed)
    }

    fn has(&self, pages: &Range<usize>) -> bool {
        self.is_now() && self.start <= pages.start && pages.end <= self.end
    }

    /// Merges adjacent or overlapping ranges.
    fn with(&self, pages: &Range<usize>) -> Option<Known> {
        let is_near = self.is_now() && self.start <= pages.end && pages.start <= self.end;
        let (start, end) = (self.start.min(pages.start), self.end.max(pages.end));
        is_near.then_some(Known { start, end, ..*self })
    }
}

fn remember(pages: Range<usize>, usage: Use) {
    if pages.len() <= FEW_PAGES {
        KNOWN.with(|known| pages.for_each(|page| known[page % NR_KNOWN].set(word_of(page, usage))));
    } else if usage == Use::Store {
        let changes = CHANGES.load(Relaxed);
        RANGES.with(|ranges| {
            for known in ranges {
                if let Some(longer) = known.get().with(&pages) {
                    return known.set(longer);
                }
            }
            let next = NEXT_RANGE.replace((NEXT_RANGE.get() + 1) % NR_RANGES);
            ranges[next % NR_RANGES].set(Known { start: pages.start, end: pages.end, changes });
        });
    }
}

fn pages_of(start: usize, len: usize) -> Range<usize> {
    start >> PAGE_SHIFT..start.saturating_add(len).saturating_add(PAGE_BYTES - 1) >> PAGE_SHIFT
}

/// Returns the number of `total` bytes that can be stored to the parts, up to the first missing
/// page. `len` returns the possible number of bytes.
pub(crate) fn writable(parts: &[iovec], total: usize, len: impl FnOnce() -> usize) -> usize {
    let all = |part: &iovec| pages_of(part.iov_base as usize, part.iov_len.min(total));
    if parts.iter().all(|part| are_known(all(part), Use::Store)) {
        return total;
    }
    let there_may_be = if total <= FEW_BYTES { total } else { total.min(len()) };
    let (mut rest, mut sum) = (there_may_be.min(BYTES_MAX), 0);
    for part in parts {
        let wanted = part.iov_len.min(rest);
        let there = there(part.iov_base as usize, wanted, Use::Store);
        sum += there;
        rest -= wanted;
        if there < wanted {
            return sum;
        }
    }
    total
}

pub(crate) fn is_there(start: usize, len: usize, is_store: bool) -> bool {
    let usage = if is_store { Use::Store } else { Use::Load };
    !process::is_on() || are_known(pages_of(start, len), usage) || there(start, len, usage) == len
}

fn there(start: usize, len: usize, usage: Use) -> usize {
    let pages = pages_of(start, len);
    let is_whole = || populate(pages.clone(), usage).is_ok();
    if len == 0 || is_served(start, len) || is_whole() || is_loaded(start) && is_whole() {
        return len;
    }
    let is_bad = |page: &usize| match populate(*page..page + 1, usage) {
        Ok(()) => false,
        Err(Errno(libc::ENOMEM | libc::EFAULT)) => true,
        // No permission, device memory, or an old kernel.
        Err(_) => !is_used((page << PAGE_SHIFT).max(start), usage),
    };
    let first_bad = pages.clone().find(is_bad);
    first_bad.map_or(len, |page| (page << PAGE_SHIFT).saturating_sub(start))
}

/// True for mapped managed files, with pages filled on demand.
fn is_served(start: usize, len: usize) -> bool {
    pieces::find(start, start.saturating_add(len)).is_some()
}

/// Makes the kernel provide the pages, and remembers them.
///
/// # Errors
/// Fails with ENOMEM or EFAULT if pages are missing, and with other errors if unknown.
fn populate(pages: Range<usize>, usage: Use) -> Result<(), Errno> {
    let advice = match usage {
        Use::Load => libc::MADV_POPULATE_READ,
        Use::Store => libc::MADV_POPULATE_WRITE,
    };
    let (start, len) = (pages.start << PAGE_SHIFT, pages.len() << PAGE_SHIFT);
    // SAFETY: pages that the program has given to be used so (S20).
    unsafe { next::system(libc::SYS_madvise, [start, len, advice as usize, 0, 0, 0]) }?;
    remember(pages, usage);
    Ok(())
}

fn is_used(at: usize, usage: Use) -> bool {
    match usage {
        Use::Load => is_loaded(at),
        Use::Store => is_loaded(at) && is_stored(at),
    }
}

/// Grows a stack down to there.
fn is_loaded(at: usize) -> bool {
    let (at, none) = (at & !3, [0_u64; 2]);
    let how = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    let arguments = [at, how, UNLIKELY, process::address(&none), 0, 0];
    // SAFETY: the kernel compares a word, and the time is over (S20).
    let compared = unsafe { next::system(libc::SYS_futex, arguments) };
    compared != Err(Errno(libc::EFAULT))
}

/// Returns true if the kernel can store to a readable byte, which is restored.
fn is_stored(at: usize) -> bool {
    let (own, place) = (0_u8, at as *mut u8);
    let page = process::address(&own) & !(PAGE_BYTES - 1);
    // SAFETY: the kernel has loaded the word (S20).
    let before = unsafe { place.read_volatile() };
    // SAFETY: a byte that the program has given to be stored to (S20).
    let stored = unsafe { next::system(libc::SYS_mincore, [page, 1, at, 0, 0, 0]) };
    if stored.is_ok() {
        // SAFETY: as above (S20).
        unsafe { place.write_volatile(before) };
    }
    stored != Err(Errno(libc::EFAULT))
}
