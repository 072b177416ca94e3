//! Whether the program has memory where a call of its is to store or to load.
//!
//! **Problem.** The kernel fails with EFAULT where there is no memory, or ends a read short; what
//! the library copies by itself would be a signal. **Idea.** The kernel is asked to have the pages
//! there before bytes are copied, and which are there is remembered: programs use few buffers.
//!
//! ```text
//!   page --> known, by this thread, since the program last changed mappings? --yes--> there
//!                             | no
//!                             v
//!                  madvise(MADV_POPULATE_WRITE) --> there, and known | not: up to this page
//! ```
//!
//! A stack that has not grown as far yet grows first, as it does for the kernel.
//!
//! **Data and invariants.** Pages and longer ranges for each thread, each with the count of changes
//! of mappings at which it was there. **Ignored.** Mappings that the program changes by calls that
//! pass us.
//!
//! Source: madvise(2), `MADV_POPULATE_WRITE`; futex(2), `FUTEX_WAIT`; mincore(2).

use crate::errno::Errno;
use crate::{next, pieces, process};
use libc::iovec;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const PAGE_SHIFT: usize = 12;
const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
/// Pages that a thread knows: a power of two.
const NR_KNOWN: usize = 256;
/// Longer ranges that a thread knows.
const NR_RANGES: usize = 8;
/// A part of more pages is remembered as a range.
const FEW_PAGES: usize = 16;
/// Bytes of a read for which the file's length is not asked for.
const FEW_BYTES: usize = 256 << 10;
/// Of longer parts no more is looked at: it is not to be made the program's memory.
const BYTES_MAX: usize = 64 << 20;
/// Bits of a page's number, behind which is the count of changes.
const PAGE_BITS: u32 = 36;
/// A word that memory hardly has; where it has, nothing else happens.
const UNLIKELY: usize = 0x9e37_79b9;

/// How often the program has changed mappings.
static CHANGES: AtomicU64 = AtomicU64::new(1);

/// Pages of a range that can be stored to, and the count of changes at which they could.
#[derive(Clone, Copy)]
struct Known {
    start: usize,
    end: usize,
    changes: u64,
}

thread_local! {
    static KNOWN: [Cell<u64>; NR_KNOWN] = const { [const { Cell::new(0) }; NR_KNOWN] };
    /// Longer ranges, and which of them is replaced next.
    static RANGES: [Cell<Known>; NR_RANGES] =
        const { [const { Cell::new(Known { start: 0, end: 0, changes: 0 }) }; NR_RANGES] };
    static NEXT_RANGE: Cell<usize> = const { Cell::new(0) };
}

/// What is to be done with memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Load = 0,
    Store = 1,
}

/// The program is about to change what is mapped, or how.
pub(crate) fn about_to_change() {
    CHANGES.fetch_add(1, Relaxed);
}

/// What a thread knows of a page that can be used so.
fn word_of(page: usize, usage: Use) -> u64 {
    (CHANGES.load(Relaxed) << 1 | usage as u64) << PAGE_BITS | page as u64
}

/// Whether a page is known to be there. What can be stored to, can be loaded.
fn is_known(page: usize, usage: Use) -> bool {
    let known = KNOWN.with(|known| known[page % NR_KNOWN].get());
    known == word_of(page, Use::Store) || usage == Use::Load && known == word_of(page, Use::Load)
}

/// Whether the pages of a range are known to be there.
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

    /// This one and the pages together, if nothing is between them.
    fn with(&self, pages: &Range<usize>) -> Option<Known> {
        let is_near = self.is_now() && self.start <= pages.end && pages.start <= self.end;
        let (start, end) = (self.start.min(pages.start), self.end.max(pages.end));
        is_near.then_some(Known { start, end, ..*self })
    }
}

/// Remembers pages that are there.
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

/// Returns how many of `total` bytes can be stored to the parts, up to the first page that cannot.
/// `len` says how many bytes there may be.
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

/// Returns true if all of a small range can be stored to, or loaded from.
pub(crate) fn is_there(start: usize, len: usize, is_store: bool) -> bool {
    let usage = if is_store { Use::Store } else { Use::Load };
    !process::is_on() || are_known(pages_of(start, len), usage) || there(start, len, usage) == len
}

/// Returns how many bytes of a range are there, from its start.
fn there(start: usize, len: usize, usage: Use) -> usize {
    let pages = pages_of(start, len);
    let is_whole = || populate(pages.clone(), usage).is_ok();
    if len == 0 || is_served(start, len) || is_whole() || is_loaded(start) && is_whole() {
        return len;
    }
    let is_bad = |page: &usize| match populate(*page..page + 1, usage) {
        Ok(()) => false,
        Err(Errno(libc::ENOMEM | libc::EFAULT)) => true,
        // No permission, or memory of a device, or a kernel that does not say.
        Err(_) => !is_used((page << PAGE_SHIFT).max(start), usage),
    };
    let first_bad = pages.clone().find(is_bad);
    first_bad.map_or(len, |page| (page << PAGE_SHIFT).saturating_sub(start))
}

/// Whether some of a range is mapped from files of ours, where what is absent is brought in.
fn is_served(start: usize, len: usize) -> bool {
    pieces::find(start, start.saturating_add(len)).is_some()
}

/// Has the kernel see to it that pages are there and can be used so, and remembers that.
///
/// # Errors
/// ENOMEM or EFAULT where there are none, others where that cannot be said.
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

/// Whether the kernel can use a byte so.
fn is_used(at: usize, usage: Use) -> bool {
    match usage {
        Use::Load => is_loaded(at),
        Use::Store => is_loaded(at) && is_stored(at),
    }
}

/// Whether the kernel can load the word at an address. A stack that grows down to there has grown.
fn is_loaded(at: usize) -> bool {
    let (at, none) = (at & !3, [0_u64; 2]);
    let how = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    let arguments = [at, how, UNLIKELY, process::address(&none), 0, 0];
    // SAFETY: a word that the kernel compares with another, and a time that is over (S20).
    let compared = unsafe { next::system(libc::SYS_futex, arguments) };
    compared != Err(Errno(libc::EFAULT))
}

/// Whether the kernel can store a byte, which can be loaded, and is the same again behind it.
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
