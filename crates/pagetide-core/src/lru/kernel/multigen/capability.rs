//! Capabilities of the multi-gen LRU: table walks, type weights, explanations.

use super::profile::Profile;
use super::{Multigen, is_parked};
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::lru::capability::Capabilities;
use crate::lru::kernel::multigen::swappiness::Swappiness;
use crate::lru::page_table::{TableWalk, YoungPages};
use crate::lru::{Context, Mechanism};
use crate::vmstat::Counter;
use core::fmt;

impl<P: Profile> Capabilities for Multigen<P> {
    fn young(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let profile = self.profile;
        if is_parked(cx.flags(frame)) || !self.switches.has(Mechanism::Generations) {
            return;
        }
        let before = cx.folios[frame].update(|flags| Some(profile.seen_young(flags)));
        if profile.promotes_young(before) && self.generations.promote(cx.folios, frame) {
            cx.vmstat.count(Counter::LruGenWalkPromoted);
        }
    }

    fn start_walk(&mut self) -> TableWalk {
        let all = !self.switches.has(Mechanism::BloomFilter);
        self.walks.start(self.generations.window.max_seq, all)
    }

    fn record_walk(&mut self, found: &YoungPages, walk_seq: Option<u64>) {
        let asked_at = walk_seq.map_or(self.generations.window.max_seq, |seq| seq + 1);
        self.walks.remember(asked_at, found);
        if walk_seq.is_some() {
            self.walks.count(found.counts);
        }
    }

    fn set_swappiness(&mut self, swappiness: u8) {
        self.swappiness = Swappiness::new(self.can_swap, swappiness, P::SWAPPINESS_MAX);
    }

    fn write_state(
        &self,
        folios: &Folios,
        frame: FrameId,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        self.write_generation(folios[frame].flags(), out)
    }

    /// Orders by generation, then by references.
    fn heat(&self, folios: &Folios, frame: FrameId) -> u8 {
        let flags = folios[frame].flags();
        8 * self.generations.window.nth_of(flags) as u8
            + 2 * flags.refs() as u8
            + u8::from(flags.any(Flags::REFERENCED))
    }
}
