//! Aging, the producer: when to start a generation, and how.
//!
//! Eviction needs a third generation to evict from, and works best with four.
//!
//! ```text
//!   sizes + done --profile--> Scan(budget) ------------------------------> evict
//!                           \--> Age(then) --> walk tables --> max_seq + 1 --> then
//! ```
//!
//! The world walks its page tables before the increment, which brings pages accessed through tables
//! into the youngest generation. If another pass started a generation meanwhile, no second one is
//! started.
//!
//! Ignored: groups below their protection, which are not visited ([`group`](crate::group)). Source:
//! `Documentation/mm/multigen_lru.rst`, "Aging", and Linux 6.1, 6.18 and 7.3.

use super::generations::End;
use super::plan::{EvictableSizes, Plan, Then};
use super::window::{MAX_NR_GENS, index_of};
use super::{Multigen, MultigenCursor, Profile};
use crate::ids::PageType;
use crate::lru::{Context, Mechanism, Scan};
use crate::vmstat::Counter;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Aging {
    /// Value at the decision.
    max_seq: u64,
    then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    WalkTables,
    /// Number of folios. 0 ends the priority.
    Scan(u64),
}

impl<P: Profile> Multigen<P> {
    /// Starts a generation if one is due.
    pub(super) fn next(
        &mut self,
        cx: &mut Context<'_>,
        scan: &Scan,
        cursor: &mut MultigenCursor,
    ) -> Next {
        loop {
            if let Some(aging) = cursor.aging.take() {
                if aging.max_seq == self.generations.window.max_seq {
                    self.start_generation(cx);
                }
                match aging.then {
                    Then::EndPriority => return Next::Scan(0),
                    Then::Scan(budget) => return Next::Scan(budget),
                    Then::PlanAgain => {}
                }
            }
            let done = self.done(cursor);
            cursor.done.has_begun = true;
            match self.profile.plan(&self.sizes(), &done, scan) {
                Plan::Scan(budget) => return Next::Scan(budget),
                Plan::Age(then) => {
                    cursor.aging = Some(Aging { max_seq: self.generations.window.max_seq, then });
                }
            }
            if self.walks_tables() {
                return Next::WalkTables;
            }
        }
    }

    fn sizes(&self) -> EvictableSizes {
        let Multigen { generations, swappiness, .. } = self;
        let nr_in = |steps: u64| generations.nr_evictable_in(*swappiness, steps);
        EvictableSizes {
            nr_gens: generations.window.nr_gens_evictable(*swappiness),
            nr_folios: generations.nr_evictable(*swappiness, 0),
            nr_young: nr_in(0),
            nr_old: nr_in(2),
        }
    }

    /// Merges the oldest generation of an evictable type with four first, if the profile allows
    /// that.
    pub(super) fn start_generation(&mut self, cx: &mut Context<'_>) {
        let is_full =
            |it: &Self, page_type| it.generations.window.nr_gens(page_type) == MAX_NR_GENS as u64;
        let is_stuck = |page_type| is_full(self, page_type) && self.swappiness.evicts(page_type);
        if !self.profile.forces_aging() && PageType::ALL.into_iter().any(is_stuck) {
            return;
        }
        let give_up_oldest = if self.switches.has(Mechanism::ScanPrefetch) {
            Self::give_up_oldest::<true>
        } else {
            Self::give_up_oldest::<false>
        };
        for page_type in PageType::ALL {
            if is_full(self, page_type) {
                give_up_oldest(self, cx, page_type);
            }
        }
        self.generations.window.max_seq += 1;
        self.births.stamp(self.generations.window.max_seq, cx.now);
        cx.vmstat.count(Counter::LruGenAged);
    }

    /// Merges the oldest generation into the next, for aging on request. A type that is never
    /// evicted keeps its folios: the list becomes the youngest, without effect.
    fn give_up_oldest<const PREFETCH: bool>(&mut self, cx: &mut Context<'_>, page_type: PageType) {
        while self.swappiness.evicts(page_type) {
            let oldest = self.generations.oldest_folio::<PREFETCH>(cx.folios, page_type);
            let Some(frame) = oldest else { break };
            let flags = cx.flags(frame);
            let oldest = index_of(self.generations.window.oldest(page_type)) as u32;
            if flags.generation() != Some(oldest) {
                self.generations.sort(cx.folios, frame);
                continue;
            }
            let references = self.profile.references(flags);
            if self.profile.counts_forced() && !self.profile.promotes_lazily(references) {
                self.controller.tier_mut(page_type, references.tier).protected += 1;
            }
            let profile = self.profile;
            self.generations.move_on(cx.folios, frame, End::Tail, |flags| profile.moved_on(flags));
        }
        self.controller.fold(page_type);
        self.generations.window.min_seq[page_type.index()] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::Window;
    use super::super::{Linux61, Linux618};
    use super::*;
    use crate::folio::{Flags, Folios};
    use crate::ids::{FrameId, MappingId, PageId, PageIndex};
    use crate::lru::{LruConfig, LruPolicy, Switches};
    use crate::units::Millis;
    use crate::vmstat::VmStat;

    const FILE: PageType = PageType::File;

    fn with_switches<P: Profile>(switches: Switches) -> Multigen<P> {
        Multigen::new(&LruConfig { can_swap: true, switches, ..LruConfig::file_only(8) })
    }

    /// Ages two folios of tier 1, one never accessed and one saturated by force.
    fn forced<P: Profile>(policy: &mut Multigen<P>, folios: &Folios, twice: Flags) {
        let mut vmstat = VmStat::default();
        let mut cx = Context { folios, vmstat: &mut vmstat, now: Millis::default() };
        for (at, flags) in [twice, twice, Flags::NONE, Flags::NONE].into_iter().enumerate() {
            let page = PageId { mapping: MappingId(0), index: PageIndex(at as u64) };
            folios[FrameId(at as u32)].bind(page, FILE, flags.with(Flags::ON_LIST));
            policy.add(&mut cx, FrameId(at as u32));
        }
        folios[FrameId(2)].set(Flags::REFERENCED.with(Flags::WORKINGSET).with(Flags::REFS));
        policy.start_generation(&mut cx);
        policy.validate(folios);
    }

    fn averages<P: Profile>(policy: &Multigen<P>) -> [u64; 4] {
        policy.controller.tiers(FILE).map(|tier| tier.avg_total)
    }

    /// Covers `inc_max_seq()` with four generations in use.
    #[test]
    fn aging_on_request_merges_the_two_oldest_generations() {
        let folios = Folios::new(8);
        let mut policy = with_switches::<Linux618>(Switches::default());
        forced(&mut policy, &folios, Flags::REFERENCED.with_refs(1));
        assert_eq!(policy.generations.window, Window { max_seq: 4, min_seq: [1, 1] });
        assert_eq!(policy.generations.nr_in(FILE, 1), 4);
        assert_eq!(
            policy.generations.oldest_folio::<false>(&folios, FILE),
            Some(FrameId(3)),
            "last moved"
        );
        assert_eq!(averages(&policy), [0, 1, 0, 0], "half of 1 and 2; saturated does not count");
        assert!(folios[FrameId(2)].flags().any(Flags::WORKINGSET));
        let mut vmstat = VmStat::default();
        let mut cx = Context { folios: &folios, vmstat: &mut vmstat, now: Millis::default() };
        policy.start_generation(&mut cx);
        assert_eq!(policy.generations.window, Window { max_seq: 5, min_seq: [2, 2] });
        assert_eq!(policy.generations.nr_in(FILE, 2), 4);
        assert_eq!(averages(&policy), [1, 0, 0, 0], "their references started over");
    }

    #[test]
    fn in_6_1_forced_folios_are_not_counted_and_forget() {
        let folios = Folios::new(8);
        let mut policy = with_switches::<Linux61>(Switches::default());
        forced(&mut policy, &folios, Flags::REFERENCED.with(Flags::WORKINGSET));
        assert_eq!(policy.generations.window, Window { max_seq: 4, min_seq: [1, 1] });
        assert_eq!(policy.generations.nr_in(FILE, 1), 4);
        assert_eq!(averages(&policy), [0; 4]);
        assert!(!folios[FrameId(2)].flags().any(Flags::WORKINGSET));
    }

    /// The patch ages by force only if anon cannot be swapped.
    #[test]
    fn the_minimal_patch_forces_nothing_that_can_be_evicted() {
        let folios = Folios::new(8);
        let switches = Switches::default().with(Mechanism::MinimalPatch);
        let mut policy = with_switches::<Linux61>(switches);
        forced(&mut policy, &folios, Flags::NONE);
        assert_eq!(policy.generations.window, Window::new());
    }
}
