//! Eviction, the consumer: reads the old end of the oldest generation.
//!
//! Changes since the folio was linked are applied now, at the cost of one list move:
//!
//! ```text
//!                                   +--> unevictable list     locked in memory
//!   oldest generation's tail --> ? -+--> its own generation   promoted by a table walk
//!                                   +--> next generation      tier above the limit, or full count
//!                                   +--> next generation      dirty: wait for the flusher (6.x)
//!                                   +--> victims              all others
//! ```
//!
//! One scan reads at most its budget (4096 folios at most) and stops at 64 victims. A scan that
//! only sorted and ended below its budget counts as no progress, and the second type is scanned. In
//! 7.3 sorting counts as progress, and if both types may be evicted, a type that was only sorted is
//! scanned again.
//!
//! Ignored: several zones, large folios. Source: `Documentation/mm/multigen_lru.rst`, "Eviction",
//! and Linux 6.1, 6.18 and 7.3.

use super::generations::End;
use super::plan::PassProgress;
use super::profile::{Choice, Entry};
use super::tiers::RefTier;
use super::window::{MIN_NR_GENS, index_of};
use super::{Multigen, Profile};
use crate::folio::Flags;
use crate::ids::{FrameId, PageType};
use crate::lru::{Context, Mechanism, Scan, VICTIMS_MAX, Victims};
use crate::vmstat::Counter;

pub(super) const SCAN_MAX: u64 = 64 * VICTIMS_MAX as u64;

const _: () = assert!(VICTIMS_MAX == 64, "a scan stops at one machine word's bits of victims");

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Park,
    Sort,
    Protect,
    /// Move to the next generation until written.
    AwaitFlush,
    Take,
}

/// Expects the index of the oldest generation as `oldest`.
fn fate(flags: Flags, oldest: usize, is_protected: bool, takes_unwritten: bool) -> Fate {
    if flags.any(Flags::UNEVICTABLE) {
        Fate::Park
    } else if flags.generation() != Some(oldest as u32) {
        Fate::Sort
    } else if is_protected {
        Fate::Protect
    } else if (flags.any(Flags::WRITEBACK) || flags.is_dirty_file()) && !takes_unwritten {
        Fate::AwaitFlush
    } else {
        Fate::Take
    }
}

impl<P: Profile> Multigen<P> {
    fn choose(&self) -> Choice {
        if !self.switches.has(Mechanism::Controller) {
            let page_type = self.swappiness.preferred_type();
            return Choice { page_type, tier_limit: RefTier::LAST };
        }
        let window = &self.generations.window;
        let choice = self.profile.choose(&self.controller, window, self.swappiness);
        Choice { tier_limit: self.unless_off(choice.tier_limit), ..choice }
    }

    pub(super) fn tier_limit(&self, page_type: PageType) -> RefTier {
        self.unless_off(self.profile.tier_limit(&self.controller, page_type))
    }

    fn unless_off(&self, limit: RefTier) -> RefTier {
        let protects =
            self.switches.has(Mechanism::Tiers) && self.switches.has(Mechanism::Controller);
        if protects { limit } else { RefTier::LAST }
    }

    /// Isolates victims of the preferred type. Scans at most `budget` folios per scan.
    ///
    /// Returns the progress in folios. 0 ends the priority.
    pub(super) fn evict(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        done: &mut PassProgress,
        victims: &mut Victims,
        budget: u64,
    ) -> u64 {
        let budget = self.profile.scan_max(budget, done, scan).min(SCAN_MAX);
        let scan_type = if self.switches.has(Mechanism::ScanPrefetch) {
            Self::scan_type::<true>
        } else {
            Self::scan_type::<false>
        };
        let is_flat = self.profile.sorting_is_progress();
        if is_flat {
            self.retire_empty_generations();
        }
        let mut choice = self.choose();
        let mut progress = scan_type(self, cx, scan, victims, choice, budget);
        if let Some(second) = self.second_type(choice, progress, victims) {
            choice = Choice { page_type: second, tier_limit: self.tier_limit(second) };
            progress += scan_type(self, cx, scan, victims, choice, budget);
        }
        done.took_anon |= choice.page_type == PageType::Anon && !victims.is_empty();
        let has_retired = self.retire_empty_generations();
        if is_flat {
            return progress;
        }
        let nr_gens = self.generations.window.nr_gens_evictable(self.swappiness);
        if nr_gens <= MIN_NR_GENS { 0 } else { progress + u64::from(has_retired) }
    }

    /// Returns the type to scan after a first scan without victims.
    fn second_type(&self, first: Choice, progress: u64, victims: &Victims) -> Option<PageType> {
        let other = first.page_type.other();
        if !self.swappiness.evicts(other) {
            None
        } else if progress == 0 {
            Some(other)
        } else {
            let has_only_sorted = victims.is_empty() && self.profile.sorting_is_progress();
            has_only_sorted.then_some(first.page_type)
        }
    }

    fn scan_type<const PREFETCH: bool>(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        victims: &mut Victims,
        Choice { page_type, tier_limit }: Choice,
        budget: u64,
    ) -> u64 {
        if self.generations.window.nr_gens(page_type) <= MIN_NR_GENS {
            return 0;
        }
        let oldest = index_of(self.generations.window.oldest(page_type));
        let takes_unwritten = self.profile.takes_unwritten();
        let nr_victims_before = victims.len();
        let mut scanned = 0;
        while scanned < budget && victims.len() < scan.victims_max {
            let next = self.generations.oldest_folio::<PREFETCH>(cx.folios, page_type);
            let Some(frame) = next else { break };
            scanned += 1;
            let flags = cx.flags(frame);
            let references = self.profile.references(flags);
            let is_protected =
                references.tier > tier_limit || self.profile.promotes_lazily(references);
            match fate(flags, oldest, is_protected, takes_unwritten) {
                Fate::Take => self.take(cx, page_type, victims),
                other => self.keep(cx, scan, frame, flags, other),
            }
        }
        scan.count_scanned(scanned);
        let did_work = victims.len() > nr_victims_before
            || scanned == budget
            || self.profile.sorting_is_progress();
        if did_work { scanned } else { 0 }
    }

    /// Isolates the oldest folio, which is in its list's generation.
    #[inline]
    fn take(&mut self, cx: &Context<'_>, page_type: PageType, victims: &mut Victims) {
        let profile = self.profile;
        let change = |flags| Victims::isolated(profile.isolated(flags));
        let frame = self.generations.pop_oldest(cx.folios, page_type, change);
        victims.push(frame, cx.folios[frame].page());
    }

    fn keep(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        frame: FrameId,
        flags: Flags,
        fate: Fate,
    ) {
        match fate {
            Fate::Park => {
                self.generations.unlink(cx.folios, frame, |flags| flags);
                self.enter(cx, frame, Entry::Added);
            }
            Fate::Sort => {
                self.generations.sort(cx.folios, frame);
                cx.vmstat.count(Counter::LruGenSorted);
            }
            Fate::Protect => self.protect(cx, frame, flags),
            Fate::AwaitFlush => {
                scan.dirty += 1;
                let change = |flags| self.profile.moved_on(flags).with(Flags::RECLAIM);
                self.generations.move_on(cx.folios, frame, End::Head, change);
                cx.vmstat.count(Counter::LruGenUnwritten);
            }
            Fate::Take => unreachable!("victims are not kept"),
        }
    }

    /// Counts a lazy promotion (full count) not as protected.
    fn protect(&mut self, cx: &mut Context<'_>, frame: FrameId, flags: Flags) {
        let (profile, page_type) = (self.profile, flags.page_type());
        let references = profile.references(flags);
        if profile.promotes_lazily(references) {
            cx.vmstat.count(Counter::LruGenPromotedLazily);
        } else {
            self.controller.tier_mut(page_type, references.tier).protected += 1;
            cx.vmstat.count(Counter::LruGenProtected);
        }
        if P::PROTECTION_ACTIVATES {
            cx.count_activation(page_type);
        }
        self.generations
            .move_on(cx.folios, frame, P::PROTECTED_END, |flags| profile.moved_on(flags));
    }

    /// Returns true if there were any.
    fn retire_empty_generations(&mut self) -> bool {
        let generations = &mut self.generations;
        let before = generations.window.min_seq;
        let mut after =
            generations.window.drained(self.swappiness, |t, seq| generations.is_empty(t, seq));
        if self.swappiness.evicts_both() {
            after = self.profile.coupled(&generations.window, after);
        }
        generations.window.min_seq = after;
        for page_type in PageType::ALL {
            if after[page_type.index()] != before[page_type.index()] {
                self.controller.fold(page_type);
            }
        }
        after != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: Flags = Flags::ON_LIST.with_generation(Some(1));

    /// Covers `sort_folio()`.
    #[test]
    fn the_first_matching_row_decides() {
        let six = |flags, is_protected| fate(flags, 1, is_protected, false);
        let everything = Flags::UNEVICTABLE.with(Flags::DIRTY);
        assert_eq!(six(LISTED.with(everything), true), Fate::Park);
        assert_eq!(six(Flags::DIRTY.with_generation(Some(3)), true), Fate::Sort);
        let unwritten = [Flags::DIRTY, Flags::WRITEBACK, Flags::WRITEBACK.with(Flags::ANON)];
        for flags in unwritten.map(|flags| LISTED.with(flags)) {
            assert_eq!(six(flags, true), Fate::Protect);
            assert_eq!(six(flags, false), Fate::AwaitFlush);
            assert_eq!(fate(flags, 1, false, true), Fate::Take, "7.3");
        }
        assert_eq!(six(LISTED.with(Flags::DIRTY).with(Flags::ANON), false), Fate::Take);
        assert_eq!(six(LISTED.with(Flags::DIRTY).with(Flags::SWAP_BACKED), false), Fate::Take);
        assert_eq!(six(LISTED, false), Fate::Take);
    }
}
