//! Fair allocation over zones: equal page lifetimes in all zones.
//!
//! **Problem.** An allocator that prefers one zone keeps its reclaim running, and so finds room
//! there again. Pages of this zone live briefly, and pages elsewhere seem hot.
//!
//! **Idea.** Take turns. A zone counts as full after as many pages as lie between LOW and HIGH,
//! until all zones are full. These distances are proportional to the zones, so lifetimes are equal.
//!
//! ```text
//!   given out:  zone 0 [#########|    ]    zone 1 [###|  ]    turn: the first zone not full,
//!               high - low = 300 ^    high - low = 100 ^            and above LOW
//!   all full, or below LOW:  zero all, wake all background reclaim, and retry
//! ```
//!
//! **Data and invariants.** One counter per zone, checked before a take, so that a turn is one page
//! longer than the distance.
//!
//! **Ignored.** NUMA: the merged version limits turns to the local node. Only for the lab's
//! scenario `fair-zones`.
//!
//! **Source.** "thrash detection-based file cache sizing", 30 May 2013, patch 1.

use alloc::vec::Vec;

use super::watermark::{WatermarkLevel, Watermarks};

#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Pages per turn: the distance from LOW to HIGH.
    batch: u64,
    given: u64,
}

/// Turns of the zones.
#[derive(Clone, Debug)]
pub struct FairZones {
    /// By preference.
    turns: Vec<Turn>,
}

impl FairZones {
    /// Creates turns for zones with these watermarks, in order of preference.
    pub fn new<'a>(zones: impl IntoIterator<Item = &'a Watermarks>) -> FairZones {
        let distance =
            |marks: &Watermarks| marks.mark(WatermarkLevel::High) - marks.mark(WatermarkLevel::Low);
        FairZones::with_batches(zones.into_iter().map(distance))
    }

    fn with_batches(batches: impl IntoIterator<Item = u64>) -> FairZones {
        FairZones { turns: batches.into_iter().map(|batch| Turn { batch, given: 0 }).collect() }
    }

    /// Returns the index of the zone to take from.
    ///
    /// `is_above_low` returns true if a zone stays above LOW after one page, else wake its
    /// background reclaim. `None` starts new turns: wake background reclaim of all zones, and call
    /// again. After a second `None`, go below LOW in order of preference.
    pub fn choose(&mut self, mut is_above_low: impl FnMut(usize) -> bool) -> Option<usize> {
        let chosen = (0..self.turns.len())
            .find(|&at| self.turns[at].given <= self.turns[at].batch && is_above_low(at));
        if chosen.is_none() {
            self.turns.iter_mut().for_each(|turn| turn.given = 0);
        }
        chosen
    }

    /// Counts pages taken from a zone.
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
