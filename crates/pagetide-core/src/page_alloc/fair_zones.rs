//! Fair allocation over zones: each page's lifetime the same, whichever zone it came to.
//!
//! **Problem.** An allocator that takes the first zone with room keeps the preferred zone's reclaim
//! running, and so finds room there again: that zone's pages come and go, while those that once got
//! into another zone stay, and are seen a second time for no merit of theirs. A comparison of the
//! clocks of two zones, or of a page's time in memory with anything, misleads.
//!
//! **Idea.** Take turns. A zone that has given out as much as lies between its low and its high
//! watermark counts as full until all zones have; these distances are in proportion to the zones'
//! sizes, so the pages come in proportion, too, and live equally long.
//!
//! ```text
//!   given out:  zone 0 [#########|    ]    zone 1 [###|  ]    turn: the first that is not full,
//!               high - low = 300 ^    high - low = 100 ^            and is above its low watermark
//!   all full, or below low:  zero all, wake the background reclaim of all, and try once more
//! ```
//!
//! **Data and invariants.** One counter a zone; checked before a page is taken, for more than the
//! distance, so a zone gives one page more than that each turn.
//!
//! **Deliberately ignored.** NUMA: the form merged later kept its turns to the local node. The
//! library does not need it, since an arena is one zone; the lab's scenario `fair-zones` shows what
//! it is for.
//!
//! Source: the classic LRU specification, section 10.2; the first patch of the series of 30 May
//! 2013.

use alloc::vec::Vec;

use super::watermark::{WatermarkLevel, Watermarks};

#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Pages a zone may give out and still have its turn: the distance from low to high.
    batch: u64,
    given: u64,
}

/// Whose turn it is to give a page.
#[derive(Clone, Debug)]
pub struct FairZones {
    /// By preference, the preferred zone first.
    turns: Vec<Turn>,
}

impl FairZones {
    /// The zones with these watermarks, the preferred one first.
    pub fn new<'a>(zones: impl IntoIterator<Item = &'a Watermarks>) -> FairZones {
        let distance =
            |marks: &Watermarks| marks.mark(WatermarkLevel::High) - marks.mark(WatermarkLevel::Low);
        FairZones::with_batches(zones.into_iter().map(distance))
    }

    /// Zones that give out these many pages in turn, and one more.
    fn with_batches(batches: impl IntoIterator<Item = u64>) -> FairZones {
        FairZones { turns: batches.into_iter().map(|batch| Turn { batch, given: 0 }).collect() }
    }

    /// The zone to take from, by its place among the zones.
    ///
    /// `is_above_low` says whether a zone could give a page and stay above its low watermark; a
    /// zone of which it says no wants its background reclaim woken. `None`: no zone's turn. All
    /// counters are zero now; wake the background reclaim of all zones, and ask once more. If the
    /// answer is `None` again, go below the low watermarks, in the order of preference.
    pub fn choose(&mut self, mut is_above_low: impl FnMut(usize) -> bool) -> Option<usize> {
        let chosen = (0..self.turns.len())
            .find(|&at| self.turns[at].given <= self.turns[at].batch && is_above_low(at));
        if chosen.is_none() {
            self.turns.iter_mut().for_each(|turn| turn.given = 0);
        }
        chosen
    }

    /// Counts `nr_pages` taken from a zone.
    pub fn count_taken(&mut self, zone: usize, nr_pages: u64) {
        self.turns[zone].given += nr_pages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_alloc::WatermarkInputs;

    /// Low 1000, high 1300.
    #[test]
    fn zone_gives_one_page_more_than_lies_between_its_watermarks() {
        let mut zones = FairZones::with_batches([300, 100]);
        let mut round = || {
            let mut given = [0; 2];
            while let Some(zone) = zones.choose(|_| true) {
                zones.count_taken(zone, 1);
                given[zone] += 1;
            }
            given
        };
        assert_eq!(round(), [301, 101]);
        assert_eq!(round(), [301, 101], "the counters were zeroed");
    }

    #[test]
    fn large_blocks_count_in_full() {
        let mut zones = FairZones::with_batches([300, 100]);
        assert_eq!(zones.choose(|_| true), Some(0));
        zones.count_taken(0, 512);
        assert_eq!(zones.choose(|_| true), Some(1));
    }

    #[test]
    fn zone_below_its_low_watermark_loses_its_turn() {
        let mut zones = FairZones::with_batches([300, 100]);
        assert_eq!(zones.choose(|zone| zone == 1), Some(1));
        zones.count_taken(1, 101);
        assert_eq!(zones.choose(|zone| zone == 1), None);
        assert_eq!(zones.choose(|zone| zone == 1), Some(1), "again, after zeroing");
    }

    #[test]
    fn distances_are_in_proportion_to_the_zones() {
        let [large, small] = SIZES.map(watermarks);
        let zones = FairZones::new([&large, &small]);
        assert_eq!([zones.turns[0].batch, zones.turns[1].batch], [24, 8]);
    }

    const SIZES: [u32; 2] = [3072, 1024];

    fn watermarks(size: u32) -> Watermarks {
        let lowmem = SIZES.iter().map(|size| u64::from(*size)).sum();
        let managed = u64::from(size);
        Watermarks::for_zone(&WatermarkInputs { lowmem, ..WatermarkInputs::single_zone(managed) })
    }
}
