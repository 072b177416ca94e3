//! Aging, the producer: when to start a generation, and how.
//!
//! Eviction needs a third generation to take from, and works best with four. Starting one is one
//! increment: nothing moves, every folio is now one generation older.
//!
//! ```text
//!   generations   4               3                     2
//!   first look    scan size>>12   scan size>>12         nothing
//!   harder look   scan size>>p    start a generation    start a generation
//! ```
//!
//! A "harder look" is a priority below 12. Before the increment the world walks its page tables, so
//! that pages accessed through them are in the youngest generation and not left behind.
//!
//! Ignored: how folios are spread over generations (only their number counts), timestamps, groups
//! below their protection. Source: the multi-gen LRU specification, sections 5 and 6, profile B.

use super::Mglru;
use super::generations::End;
use super::tiers::References;
use super::window::{MAX_NR_GENS, MIN_NR_GENS, index_of};
use crate::folio::Flags;
use crate::ids::PageType;
use crate::lru::Context;
use crate::reclaim::DEF_PRIORITY;
use crate::vmstat::Counter;

/// What a pass does next at its priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plan {
    /// Look at this many folios; possibly none.
    Scan(u64),
    /// Start a generation, then go on to the next priority.
    Age,
}

/// Decides between evicting and aging, for `nr_folios` evictable folios in `nr_gens` generations.
pub(super) fn plan(nr_gens: u64, nr_folios: u64, priority: u8) -> Plan {
    let needs_aging = nr_gens < MAX_NR_GENS as u64;
    if needs_aging && priority < DEF_PRIORITY {
        return Plan::Age;
    }
    if nr_gens <= MIN_NR_GENS { Plan::Scan(0) } else { Plan::Scan(nr_folios >> priority) }
}

impl Mglru {
    /// What to do now, from the state now.
    pub(super) fn plan(&self, priority: u8) -> Plan {
        let nr_gens = self.generations.window.nr_gens_evictable(self.swappiness);
        plan(nr_gens, self.generations.nr_evictable(self.swappiness, 0), priority)
    }

    /// Starts a generation; a type that has four gives up its oldest first.
    pub(super) fn start_generation(&mut self, cx: &mut Context<'_>) {
        for page_type in PageType::ALL {
            if self.generations.window.nr_gens(page_type) == MAX_NR_GENS as u64 {
                self.give_up_oldest(cx, page_type);
            }
        }
        self.generations.window.max_seq += 1;
        cx.vmstat.count(Counter::LruGenAged);
    }

    /// Merges the oldest generation into the next, which only aging on request needs: a pass ages
    /// when fewer than four generations are left. Of a type that is not evicted at all the folios
    /// stay where they are: their list becomes the youngest, an inversion nobody ever sees.
    fn give_up_oldest(&mut self, cx: &mut Context<'_>, page_type: PageType) {
        while self.swappiness.evicts(page_type) {
            let Some(frame) = self.generations.oldest_folio(page_type) else { break };
            let flags = cx.flags(frame);
            let oldest = index_of(self.generations.window.oldest(page_type)) as u32;
            if flags.generation() != Some(oldest) {
                self.generations.sort(cx.folios, frame);
                continue;
            }
            let references = References::of(flags);
            if !references.is_saturated() {
                self.controller.tier_mut(page_type, references.tier()).protected += 1;
            }
            self.generations.move_on(cx.folios, frame, End::Tail, Flags::NONE);
        }
        self.controller.fold(page_type);
        self.generations.window.min_seq[page_type.index()] += 1;
    }
}

/// The priority a background pass starts at: low enough to find `target` among the `reclaimable`.
pub(super) fn initial_priority(reclaimable: u64, target: u64) -> u8 {
    const LOWEST: u8 = 6;
    const LARGE_TARGET: u64 = 64;
    if target < LARGE_TARGET {
        return DEF_PRIORITY;
    }
    let wanted_log = u64::BITS - (target - 1).leading_zeros();
    let found_log = reclaimable.checked_ilog2().unwrap_or(0);
    found_log.saturating_sub(wanted_log).clamp(LOWEST.into(), DEF_PRIORITY.into()) as u8
}

#[cfg(test)]
mod tests {
    use super::super::window::Window;
    use super::*;
    use crate::folio::Folios;
    use crate::ids::{FrameId, MappingId, PageId, PageIndex};
    use crate::lru::{LruConfig, LruPolicy};
    use crate::units::Millis;
    use crate::vmstat::VmStat;

    /// Specification, section 5, inc_max_seq with four generations in use.
    #[test]
    fn aging_on_request_merges_the_two_oldest_generations() {
        let folios = Folios::new(8);
        let mut policy = Mglru::new(&LruConfig { can_swap: true, ..LruConfig::file_only(8) });
        let mut vmstat = VmStat::default();
        let mut cx = Context { folios: &folios, vmstat: &mut vmstat, now: Millis::default() };
        let twice = Flags::REFERENCED.with_refs(1);
        let saturated = Flags::REFERENCED.with(Flags::WORKINGSET).with_refs(Flags::REFS_MAX);
        for (at, flags) in [twice, twice, Flags::NONE, Flags::NONE].into_iter().enumerate() {
            let page = PageId { mapping: MappingId(0), index: PageIndex(at as u64) };
            folios[FrameId(at as u32)].bind(page, PageType::File, flags.with(Flags::ON_LIST));
            policy.add(&mut cx, FrameId(at as u32));
        }
        folios[FrameId(2)].set(saturated);
        policy.start_generation(&mut cx);
        policy.validate(&folios);
        let file = PageType::File;
        assert_eq!(policy.generations.window, Window { max_seq: 4, min_seq: [1, 1] });
        assert_eq!(policy.generations.nr_in(file, 1), 4);
        assert_eq!(policy.generations.oldest_folio(file), Some(FrameId(3)), "last moved");
        let averages = |policy: &Mglru| policy.controller.tiers(file).map(|tier| tier.avg_total);
        assert_eq!(averages(&policy), [0, 1, 0, 0], "half of 1 and 2; saturated does not count");
        policy.start_generation(&mut cx);
        assert_eq!(policy.generations.window, Window { max_seq: 5, min_seq: [2, 2] });
        assert_eq!(policy.generations.nr_in(file, 2), 4);
        assert_eq!(averages(&policy), [1, 0, 0, 0], "their references started over");
    }

    /// Specification, section 6: 8192 pages and 9600 pages, profile B.
    #[test]
    fn the_scan_budget_doubles_with_each_priority() {
        assert_eq!(plan(3, 8192, 12), Plan::Scan(2));
        assert_eq!(
            [12, 11, 10, 9].map(|priority| plan(4, 9600, priority)),
            [2, 4, 9, 18].map(Plan::Scan)
        );
    }

    /// Specification, section 5, should_run_aging, profile B: only the number of generations.
    #[test]
    fn too_few_generations_are_aged_below_the_first_priority() {
        assert_eq!(plan(3, 8192, 10), Plan::Age);
        assert_eq!(plan(2, 8192, 10), Plan::Age);
        assert_eq!(plan(2, 8192, 12), Plan::Scan(0));
        assert_eq!(plan(4, 8192, 10), Plan::Scan(8));
    }

    /// Specification, section 11, last paragraph.
    #[test]
    fn background_passes_start_where_their_target_is() {
        assert_eq!(initial_priority(1 << 20, 64), 12);
        assert_eq!(initial_priority(1 << 18, 1024), 8);
        assert_eq!(initial_priority(1 << 16, 4096), 6);
        assert_eq!(initial_priority(1 << 18, 63), 12, "small targets start at the top");
        assert_eq!(initial_priority(0, 1024), 6);
    }
}
