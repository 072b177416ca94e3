//! Operations of a lruvec that use the optional methods of its policy.

use super::Lruvec;
use crate::folio::Flags;
use crate::ids::{FrameId, PageType};
use crate::lru::kernel::multigen::MultigenSummary;
use crate::lru::own::SelectionSummary;
use crate::lru::page_table::{TableWalk, YoungPages};
use crate::lru::refault_distance::{HierarchyCounts, ListPages};
use crate::lru::{AccessPath, ShadowEntry};
use crate::vmstat::Counter;
use core::fmt;

impl Lruvec {
    /// Writes a text about the position of a listed folio, or its flags if the policy has no text.
    ///
    /// # Errors
    /// Fails if `out` fails.
    pub fn write_state(&self, frame: FrameId, out: &mut dyn fmt::Write) -> fmt::Result {
        self.policy.write_state(&self.folios, frame, out)
    }

    /// Returns the heat of a listed folio: more is hotter. Comparable within one policy only.
    pub fn heat(&self, frame: FrameId) -> u8 {
        self.policy.heat(&self.folios, frame)
    }

    /// Writes a text about a shadow entry. Writes nothing if the policy has no text.
    ///
    /// # Errors
    /// Fails if `out` fails.
    pub fn write_shadow(&self, shadow: ShadowEntry, out: &mut dyn fmt::Write) -> fmt::Result {
        self.policy.write_shadow(shadow, out)
    }

    /// Returns the setting in charge and its statistics, if the policy selects settings.
    /// O(settings).
    pub fn selection_summary(&self) -> Option<SelectionSummary> {
        self.policy.selection_summary()
    }

    /// Returns generations, tiers and refaults of a multi-gen policy. O(1).
    pub fn multigen_summary(&self) -> Option<MultigenSummary> {
        self.policy.multigen_summary()
    }

    /// Takes the answer of the clock that evicted the page, if any.
    pub(crate) fn refault_judged(
        &mut self,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
        is_recent: Option<bool>,
    ) {
        let (policy, mut cx) = self.parts();
        match is_recent {
            Some(is_recent) => policy.refault_judged(&mut cx, frame, shadow, is_recent),
            None => policy.refault(&mut cx, frame, shadow, kind),
        }
    }

    pub(crate) fn is_recent(
        &self,
        shadow: ShadowEntry,
        page_type: PageType,
        sizes: &ListPages,
    ) -> Option<bool> {
        self.policy.is_recent(shadow, page_type, sizes)
    }

    pub(crate) fn list_pages(&mut self) -> ListPages {
        let (policy, cx) = self.parts();
        policy.list_pages(&cx)
    }

    pub(crate) fn hierarchy_counts(&self) -> HierarchyCounts {
        self.policy.hierarchy_counts()
    }

    pub(crate) fn count_below(&mut self, new: &HierarchyCounts, nr_listed: u64) {
        self.policy.count_below(new, nr_listed);
    }

    /// Prepares the lists for a page moved here from another node. `frame` is bound to the page and
    /// not logged yet, as in [`Lruvec::refault`]. The world logs the folio afterwards.
    pub fn moved_in(&mut self, frame: FrameId) {
        let (policy, mut cx) = self.parts();
        policy.moved_in(&mut cx, frame);
    }

    /// Begins a page-table walk, as requested by [`Step::WalkTables`](crate::reclaim::Step).
    pub fn start_walk(&mut self) -> TableWalk {
        self.policy.start_walk()
    }

    /// Reports the findings of a walk since its last report.
    pub fn report_walk(&mut self, walk: &mut TableWalk) {
        let found = walk.found_so_far();
        self.report_young(&found.frames);
        self.vmstat.add(Counter::LruGenWalkYoung, found.nr_frames_young());
        self.policy.record_walk(found, Some(walk.seq));
        walk.forget_reported();
    }

    #[cold]
    pub(crate) fn report_around(&mut self, found: &mut YoungPages) {
        self.report_young(&found.frames);
        self.vmstat.add(Counter::LruGenLookAround, found.counts.nr_leaves);
        self.vmstat.add(Counter::LruGenLookAroundYoung, found.nr_frames_young());
        self.policy.record_walk(found, None);
        found.clear();
    }

    /// Reports folios found young through a table. Folios of other groups are skipped.
    pub fn report_young(&mut self, young: &[FrameId]) {
        let group = self.id().group;
        let (policy, mut cx) = self.parts();
        for &frame in young {
            let folio = &cx.folios[frame];
            if folio.flags().any(Flags::ON_LIST) && folio.group().0 == group {
                policy.young(&mut cx, frame);
            }
        }
    }

    /// Takes 0 to 201.
    pub(crate) fn set_swappiness(&mut self, swappiness: u8) {
        self.policy.set_swappiness(swappiness);
    }

    pub(in crate::lru) fn fold_policy_statistics(&mut self) {
        let (policy, mut cx) = self.parts();
        policy.fold_statistics(&mut cx);
    }
}
