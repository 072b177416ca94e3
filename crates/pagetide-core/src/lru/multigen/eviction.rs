//! Eviction, the consumer: takes from the old end of the oldest generation.
//!
//! A folio at the old end is not always a victim. Whatever happened to it since it was linked there
//! is settled now, when it costs one list move each, and not when it happened:
//!
//! ```text
//!                                   +--> unevictable list     locked in memory
//!   oldest generation's tail --> ? -+--> its own generation   promoted by a table walk
//!                                   +--> next generation      tier above the limit, or saturated
//!                                   +--> next generation      dirty: wait for the flusher
//!                                   +--> victims              all others
//! ```
//!
//! One scan looks at no more than its budget (4096 at most) and stops at 64 victims. A scan that
//! only sorted and did not use up its budget ran out of folios: it counts as nothing, and the other
//! type gets its turn. Generations that ended up empty are retired at once.
//!
//! Ignored: zones (there is one), large folios. Source: the multi-gen LRU specification, section 6,
//! profile B.

use super::Mglru;
use super::generations::End;
use super::insertion::Entry;
use super::tiers::{RefTier, References};
use super::window::{MIN_NR_GENS, index_of};
use crate::folio::Flags;
use crate::ids::{FrameId, PageType};
use crate::lru::{Context, Mechanism};
use crate::reclaim::{Scan, VICTIMS_MAX, Victims};
use crate::vmstat::Counter;

/// The most folios one scan looks at.
const SCAN_MAX: u64 = 64 * VICTIMS_MAX as u64;

const _: () = assert!(VICTIMS_MAX == 64, "a scan stops at one machine word's bits of victims");

/// What eviction does with the folio at the old end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// Keep out of the generations.
    Park,
    /// Link where it belongs.
    Sort,
    /// Move to the next generation.
    Protect,
    /// Move to the next generation until it is written.
    AwaitFlush,
    /// Try to evict.
    Take,
}

/// Judges a folio linked in the oldest generation, whose index is `oldest`.
fn fate(flags: Flags, oldest: usize, protection: Protection) -> Fate {
    let references = References::of(flags);
    if flags.any(Flags::UNEVICTABLE) {
        Fate::Park
    } else if flags.generation() != Some(oldest as u32) {
        Fate::Sort
    } else if protection.covers(references) {
        Fate::Protect
    } else if flags.any(Flags::WRITEBACK)
        || flags.any(Flags::DIRTY) && flags.page_type() == PageType::File
    {
        Fate::AwaitFlush
    } else {
        Fate::Take
    }
}

/// Which folios a scan moves on although they are in its reach.
#[derive(Clone, Copy, Debug)]
struct Protection {
    /// Tiers above this one.
    tier_limit: RefTier,
    /// Those whose access count is full, too.
    covers_saturated: bool,
}

impl Protection {
    fn covers(self, references: References) -> bool {
        references.tier() > self.tier_limit || self.covers_saturated && references.is_saturated()
    }
}

impl Mglru {
    fn protection(&self, page_type: PageType) -> Protection {
        let tier_limit = if self.switches.has(Mechanism::Tiers) {
            self.controller.tier_limit(page_type)
        } else {
            RefTier::LAST
        };
        Protection { tier_limit, covers_saturated: self.switches.has(Mechanism::LazyPromotion) }
    }

    /// Takes victims, from the type that deserves it less; looks at `budget` folios at most.
    ///
    /// Returns the progress made, in folios; none means that this priority is over.
    pub(super) fn evict(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        victims: &mut Victims,
        budget: u64,
    ) -> u64 {
        let first = self.controller.type_to_evict(self.swappiness);
        let mut progress = 0;
        for page_type in [first, first.other()] {
            if progress == 0 && self.swappiness.evicts(page_type) {
                progress = self.scan_type(cx, scan, victims, page_type, budget.min(SCAN_MAX));
            }
        }
        progress += u64::from(self.retire_empty_generations());
        let nr_gens = self.generations.window.nr_gens_evictable(self.swappiness);
        if nr_gens <= MIN_NR_GENS { 0 } else { progress }
    }

    /// One scan of a type; returns what counts as progress.
    fn scan_type(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        victims: &mut Victims,
        page_type: PageType,
        budget: u64,
    ) -> u64 {
        if self.generations.window.nr_gens(page_type) <= MIN_NR_GENS {
            return 0;
        }
        let protection = self.protection(page_type);
        let oldest = index_of(self.generations.window.oldest(page_type));
        let nr_victims_before = victims.len();
        let mut scanned = 0;
        while scanned < budget && victims.len() < VICTIMS_MAX {
            let Some(frame) = self.generations.oldest_folio(page_type) else { break };
            scanned += 1;
            let flags = cx.flags(frame);
            match fate(flags, oldest, protection) {
                Fate::Take => self.take(cx, frame, victims),
                other => self.keep(cx, scan, frame, flags, other),
            }
        }
        scan.count_scanned(scanned);
        let did_work = victims.len() > nr_victims_before || scanned == budget;
        if did_work { scanned } else { 0 }
    }

    fn take(&mut self, cx: &mut Context<'_>, frame: FrameId, victims: &mut Victims) {
        self.generations.unlink(cx.folios, frame, |flags| {
            let flags = flags.without(Flags::RECLAIM);
            if flags.any(Flags::REFERENCED) { flags } else { flags.with_refs(0) }
        });
        victims.take(cx.folios, frame);
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
                self.generations.add(cx.folios, frame, Entry::Added);
            }
            Fate::Sort => {
                self.generations.sort(cx.folios, frame);
                cx.vmstat.count(Counter::LruGenSorted);
            }
            Fate::Protect => self.protect(cx, frame, flags),
            Fate::AwaitFlush => {
                scan.dirty += 1;
                self.generations.move_on(cx.folios, frame, End::Head, Flags::RECLAIM);
                cx.vmstat.count(Counter::LruGenUnwritten);
            }
            Fate::Take => unreachable!("victims are not kept"),
        }
    }

    /// Moves a folio on for its accesses. Saturated ones are promoted whatever the controller says,
    /// so they are not its doing and not counted for it.
    fn protect(&mut self, cx: &mut Context<'_>, frame: FrameId, flags: Flags) {
        let references = References::of(flags);
        if references.is_saturated() {
            cx.vmstat.count(Counter::LruGenPromotedLazily);
        } else {
            self.controller.tier_mut(flags.page_type(), references.tier()).protected += 1;
            cx.vmstat.count(Counter::LruGenProtected);
        }
        self.generations.move_on(cx.folios, frame, End::Head, Flags::NONE);
    }

    /// Skips generations with nothing left on their lists. Returns whether there were any.
    fn retire_empty_generations(&mut self) -> bool {
        let generations = &mut self.generations;
        let before = generations.window.min_seq;
        let after =
            generations.window.advanced(self.swappiness, |t, seq| generations.is_empty(t, seq));
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

    fn fate_of_all(flags: Flags, limit: u8) -> Fate {
        fate(flags, 1, Protection { tier_limit: RefTier(limit), covers_saturated: true })
    }

    fn fate_of(flags: Flags, limit: u8) -> Fate {
        fate_of_all(LISTED.with(flags), limit)
    }

    /// Specification, section 6, the table of sort(), profile B.
    #[test]
    fn the_first_matching_row_decides() {
        let twice = Flags::REFERENCED.with_refs(1);
        let saturated = Flags::REFERENCED.with(Flags::WORKINGSET).with_refs(3);
        assert_eq!(fate_of(Flags::UNEVICTABLE.with(saturated), 0), Fate::Park);
        let promoted = saturated.with(Flags::DIRTY).with_generation(Some(3));
        assert_eq!(fate_of_all(promoted, 0), Fate::Sort);
        assert_eq!(fate_of(twice.with(Flags::DIRTY), 0), Fate::Protect);
        assert_eq!(fate_of(saturated, 3), Fate::Protect);
        assert_eq!(fate_of(Flags::DIRTY, 3), Fate::AwaitFlush);
        assert_eq!(fate_of(Flags::WRITEBACK.with(Flags::ANON), 3), Fate::AwaitFlush);
        assert_eq!(fate_of(Flags::DIRTY.with(Flags::ANON), 3), Fate::Take);
        assert_eq!(fate_of(twice, 1), Fate::Take);
        assert_eq!(fate_of(Flags::WORKINGSET, 3), Fate::Take, "workingset alone: tier 3");
    }
}
