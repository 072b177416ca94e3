//! Dirty ranges of a page.
//!
//! Problem: a page written back whole overwrites other programs' later writes to its other bytes.
//! Idea: each dirty page records its written bytes.
//!
//! ```text
//!   page    |........####........##..|      written back: #### and ##
//! ```
//!
//! Cost: two numbers a page, or half a KiB for several ranges.

use pagetide_core::units::PAGE_BYTES;
use std::ops::Range;

const BITS: usize = u64::BITS as usize;
/// Granularity of comparison in bytes. Changes with an equal line between are separate.
const LINE: usize = 64;

/// Returns the differing ranges, in order.
pub(crate) fn changes(before: &[u8], after: &[u8]) -> Vec<Range<usize>> {
    let mut changes: Vec<Range<usize>> = Vec::new();
    let lines = before.chunks(LINE).zip(after.chunks(LINE));
    for (nth, (was, is)) in lines.enumerate().filter(|(_, (was, is))| was != is) {
        let start = nth * LINE;
        let mut differing = (0..is.len()).filter(|at| was[*at] != is[*at]);
        let first = start + differing.next().expect("the lines differ");
        let end = differing.next_back().map_or(first, |last| start + last) + 1;
        match changes.last_mut() {
            Some(change) if change.end + LINE > start => change.end = end,
            _ => changes.push(first..end),
        }
    }
    changes
}

/// The bytes of a page written here and not written back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    Range(Range<u16>),
    Bits(Box<[u64; PAGE_BYTES / BITS]>),
}

impl Written {
    pub(crate) const WHOLE: Written = Written::Range(0..PAGE_BYTES as u16);

    pub(crate) fn of(range: Range<usize>) -> Written {
        Written::Range(range.start as u16..range.end as u16)
    }

    pub(crate) fn is_whole(&self) -> bool {
        *self == Written::WHOLE
    }

    pub(crate) fn add(&mut self, range: Range<usize>) {
        if let Written::Range(one) = self {
            let (start, end) = (usize::from(one.start), usize::from(one.end));
            if start == end {
                *self = Written::of(range);
                return;
            }
            if range.start <= end && start <= range.end {
                *self = Written::of(start.min(range.start)..end.max(range.end));
                return;
            }
        }
        let bits = self.bits();
        range.for_each(|at| bits[at / BITS] |= 1 << (at % BITS));
        if bits.iter().all(|word| *word == u64::MAX) {
            *self = Written::WHOLE;
        }
    }

    pub(crate) fn merge(&mut self, other: &Written) {
        other.pieces(PAGE_BYTES).into_iter().for_each(|piece| self.add(piece));
    }

    pub(crate) fn cut(&mut self, end: usize) {
        let left = self.pieces(end);
        *self = Written::of(0..0);
        left.into_iter().for_each(|piece| self.add(piece));
    }

    pub(crate) fn end(&self) -> usize {
        self.pieces(PAGE_BYTES).last().map_or(0, |last| last.end)
    }

    /// Returns the ranges within the first `nr_bytes`, in order.
    pub(crate) fn pieces(&self, nr_bytes: usize) -> Vec<Range<usize>> {
        match self {
            Written::Range(one) => {
                let one = usize::from(one.start)..usize::from(one.end).min(nr_bytes);
                if one.start >= one.end { Vec::new() } else { vec![one] }
            }
            Written::Bits(bits) => {
                let is_set = |at: usize| bits[at / BITS] >> (at % BITS) & 1 == 1;
                let starts =
                    (0..nr_bytes).filter(|at| is_set(*at) && (*at == 0 || !is_set(at - 1)));
                let end_of = |start| (start..nr_bytes).find(|at| !is_set(*at)).unwrap_or(nr_bytes);
                starts.map(|start| start..end_of(start)).collect()
            }
        }
    }

    fn bits(&mut self) -> &mut [u64; PAGE_BYTES / BITS] {
        if let Written::Range(one) = self {
            let mut bits = Box::new([0; PAGE_BYTES / BITS]);
            one.for_each(|at| bits[usize::from(at) / BITS] |= 1 << (usize::from(at) % BITS));
            *self = Written::Bits(bits);
        }
        match self {
            Written::Bits(bits) => bits,
            Written::Range(_) => unreachable!("they were just made bits"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn written_bytes_are_those_of_a_plain_array(
            ranges in prop::collection::vec((0..PAGE_BYTES, 1..PAGE_BYTES), 1..12),
            cut in prop::option::of(0..=PAGE_BYTES),
            nr_bytes in 0..=PAGE_BYTES,
        ) {
            let mut flags = [false; PAGE_BYTES];
            let mut written = Written::of(0..0);
            for (start, len) in ranges {
                let range = start..(start + len / 8 + 1).min(PAGE_BYTES);
                flags[range.clone()].fill(true);
                written.add(range);
            }
            if let Some(cut) = cut {
                flags[cut..].fill(false);
                written.cut(cut);
            }
            let mut found = [false; PAGE_BYTES];
            let pieces = written.pieces(nr_bytes);
            prop_assert!(pieces.windows(2).all(|pair| pair[0].end < pair[1].start));
            pieces.into_iter().for_each(|piece| found[piece].fill(true));
            flags[nr_bytes..].fill(false);
            prop_assert!(found == flags);
        }

        /// Differing bytes are in a change. A change begins and ends with differing bytes, and
        /// excludes equal lines between.
        #[test]
        fn changes_are_what_differs(
            flips in prop::collection::vec(0..PAGE_BYTES, 0..12),
            nr_bytes in 1..=PAGE_BYTES,
        ) {
            let before = vec![7; nr_bytes];
            let mut after = before.clone();
            flips.iter().filter(|at| **at < nr_bytes).for_each(|at| after[*at] = 8);
            let found = changes(&before, &after);
            let is_in = |at: usize| found.iter().any(|change| change.contains(&at));
            prop_assert!((0..nr_bytes).all(|at| after[at] == 7 || is_in(at)));
            prop_assert!(found.iter().all(|one| after[one.start] == 8 && after[one.end - 1] == 8));
            prop_assert!(found.windows(2).all(|pair| pair[0].end < pair[1].start));
            let is_same = |line: &[u8]| line.len() == LINE && line.iter().all(|byte| *byte == 7);
            let mut lines = after.chunks(LINE).enumerate().filter(|(_, line)| is_same(line));
            prop_assert!(lines.all(|(nth, _)| !is_in(nth * LINE)));
        }
    }

    #[test]
    fn a_page_written_in_pieces_is_whole_in_the_end() {
        let mut written = Written::of(0..1000);
        written.add(2000..PAGE_BYTES);
        assert_eq!(written.pieces(PAGE_BYTES), [0..1000, 2000..PAGE_BYTES]);
        assert_eq!(written.end(), PAGE_BYTES);
        let mut rest = Written::of(900..1500);
        rest.add(1500..2000);
        written.merge(&rest);
        assert!(written.is_whole());
    }
}
