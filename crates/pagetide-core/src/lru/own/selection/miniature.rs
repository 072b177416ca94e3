//! A miniature: one setting's engine on the sampled pages.
//!
//! Uses descriptors without frames, and a table of resident and evicted pages. Ignored: refused
//! evictions, dropped pages and page types.

use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, PageId, PageType};
use crate::lru::Switches;
use crate::lru::own::engine::{Engine, PARTS_A_PAGE, Past, Place, Stamp, count_hit};
use crate::lru::own::sampled_pages::{SampledPages, SampledPlace};
use crate::lru::own::tuning::Tuning;

pub(super) struct Miniature {
    seed: u64,
    engine: Engine,
    folios: Folios,
    pages: SampledPages,
    nr_used: u32,
}

impl Miniature {
    pub(super) fn new(
        nr_frames: u32,
        setting: usize,
        tuning: &Tuning,
        switches: Switches,
    ) -> Miniature {
        let mut engine = Engine::new(nr_frames, tuning, switches);
        engine.set_setting(tuning.settings[setting]);
        let nr_gone = u64::from(nr_frames) * u64::from(tuning.horizon_percent) / 100;
        Miniature {
            seed: tuning.seed,
            engine,
            folios: Folios::for_one_thread(nr_frames),
            pages: SampledPages::new(nr_frames, nr_gone as u32),
            nr_used: 0,
        }
    }

    /// Counts the hit of a resident page.
    pub(super) fn find(&self, key: u32) -> Option<SampledPlace> {
        let found = self.pages.find(key);
        if let Some(SampledPlace::Here(frame)) = found {
            count_hit(&self.folios[FrameId(frame)]);
        }
        found
    }

    /// Returns true for a hit. `found` is the page's state.
    pub(super) fn access(&mut self, key: u32, page: PageId, found: Option<SampledPlace>) -> bool {
        let past = match found {
            Some(SampledPlace::Here(frame)) => {
                self.engine.hit(&self.folios[FrameId(frame)]);
                self.engine.move_hit(&self.folios, FrameId(frame));
                return true;
            }
            Some(SampledPlace::Gone(departure, epoch)) => {
                let nr_evictions = u64::from(self.pages.nr_departures_since(departure));
                Some(Past { evicted: nr_evictions * u64::from(PARTS_A_PAGE), epoch })
            }
            None => None,
        };
        let is_main = past.is_some_and(|past| {
            let stamp = Stamp { epoch: past.epoch, place: Place::Main, is_streamed: false };
            self.engine.is_history(past, stamp.parts())
                && self.engine.judge_return(&self.folios, stamp)
        });
        let is_cold = self.nr_used < self.folios.nr_frames();
        let frame = if is_cold { self.next_unused() } else { self.evict(is_main) };
        let place = if is_main { Place::Main } else { self.engine.place_of_new(is_cold) };
        self.folios[frame].bind(page, PageType::File, Flags::NONE);
        self.engine.enter(&self.folios, frame, place, past.map(|past| past.epoch));
        self.pages.arrive(key, frame.0);
        false
    }

    fn next_unused(&mut self) -> FrameId {
        self.nr_used += 1;
        FrameId(self.nr_used - 1)
    }

    fn evict(&mut self, is_main: bool) -> FrameId {
        loop {
            let place = self.engine.victim_from(u32::from(is_main));
            if let Some(frame) = self.engine.look(&self.folios, place) {
                let key = key_of(hash(self.folios[frame].page(), self.seed));
                self.pages.depart(key, Stamp::of(&self.folios[frame]).epoch);
                return frame;
            }
        }
    }

    pub(super) fn validate(&self) {
        self.engine.validate(&self.folios);
        self.pages.validate();
        assert_eq!(self.engine.len(), self.nr_used, "frames of a miniature");
    }
}

/// Applies the finalizer of SplitMix64.
pub(super) fn hash(page: PageId, seed: u64) -> u64 {
    let mut mixed = page.index.0 ^ u64::from(page.mapping.0).rotate_left(40);
    mixed = mixed.wrapping_add(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns the half not used for sampling, never 0.
pub(super) fn key_of(hash: u64) -> u32 {
    ((hash >> 32) as u32).max(1)
}
