//! Small synthetic records of a page cache, with readahead.

use pagetide_core::ids::{MappingId, PageId, PageIndex};
use pagetide_lab::trace::{Access, AccessKind, DenseTrace};

/// Returns a record of a page cache: repeated sequential reads of three files, with readahead that
/// is sometimes unused, between random reads.
pub(crate) fn recorded(seed: u64, nr_entries: u64) -> DenseTrace {
    let mut random = Random(seed);
    let mut trace = DenseTrace::default();
    let mut next = [0; 3];
    while trace.nr_entries() < nr_entries {
        let file = random.below(3);
        let at = &mut next[file as usize];
        match random.below(10) {
            0..4 => {
                let window = 4 << random.below(4);
                push(&mut trace, file, *at, AccessKind::Read);
                (1..window).for_each(|n| push(&mut trace, file, *at + n, AccessKind::Readahead));
                let nr_read = if random.below(8) == 0 { 2 } else { window };
                (1..nr_read).for_each(|n| push(&mut trace, file, *at + n, AccessKind::Read));
                *at = (*at + nr_read) % (200 << file);
            }
            4..7 => {
                let page = random.below(300).min(random.below(300));
                push(&mut trace, 3, page, AccessKind::Read);
                (1..4).for_each(|n| push(&mut trace, 3, page + n, AccessKind::Around));
            }
            7 => {
                let first = random.below(200);
                (0..5).for_each(|n| push(&mut trace, 4, first + n, AccessKind::Fill));
                push(&mut trace, 4, first, AccessKind::Filled);
                (0..5).for_each(|n| push(&mut trace, 4, first + n, AccessKind::Read));
            }
            8 => push(&mut trace, 5, random.below(60), AccessKind::Write),
            _ => match random.below(4) {
                0 => (0..60).for_each(|page| push(&mut trace, 5, page, AccessKind::Discard)),
                1 => push(&mut trace, 3, random.below(300), AccessKind::Bypass),
                _ => push(&mut trace, 3, random.below(40), AccessKind::Table),
            },
        }
    }
    trace
}

/// Returns a sequential read of a file with readahead: one miss.
pub(crate) fn stream(nr_pages: u64, window: u64) -> DenseTrace {
    let mut trace = DenseTrace::default();
    push(&mut trace, 0, 0, AccessKind::Read);
    for page in 1..nr_pages {
        if page % window == 1 {
            let end = (page + window).min(nr_pages);
            (page..end).for_each(|page| push(&mut trace, 0, page, AccessKind::Readahead));
        }
        push(&mut trace, 0, page, AccessKind::Read);
    }
    trace
}

/// Returns a file read whole and then truncated, `nr_times` times.
pub(crate) fn cut_files(nr_pages: u64, nr_times: u64) -> DenseTrace {
    let mut trace = DenseTrace::default();
    for _ in 0..nr_times {
        (0..nr_pages).for_each(|page| push(&mut trace, 0, page, AccessKind::Read));
        (0..nr_pages).for_each(|page| push(&mut trace, 0, page, AccessKind::Discard));
    }
    trace
}

fn push(trace: &mut DenseTrace, file: u64, index: u64, kind: AccessKind) {
    let page = PageId { mapping: MappingId(file as u32), index: PageIndex(index) };
    trace.push(Access { page, kind, thread: 0 });
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
