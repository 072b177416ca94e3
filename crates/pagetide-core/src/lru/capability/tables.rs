//! Aging by page tables: a walk, or a look beside a victim, found folios young.

use crate::folio::Flags;
use crate::ids::FrameId;
use crate::lru::page_table::YoungPages;
use crate::lru::{Context, Lruvec, TableWalk};
use crate::vmstat::Counter;

/// A policy that hears of young bits taken from page tables, outside of the trial of a victim.
pub trait AgesByTables {
    /// A folio on its lists was young. Its flags decide what that means.
    fn young(&mut self, cx: &mut Context<'_>, frame: FrameId);

    /// Begins a table walk: which leaf tables are worth a visit.
    fn start_walk(&mut self) -> TableWalk {
        TableWalk::of_all()
    }

    /// What looking at page tables found besides young folios: in a walk begun while `walk_seq` was
    /// the youngest generation, or beside victims of a pass.
    fn note_walk(&mut self, found: &YoungPages, walk_seq: Option<u64>) {
        let _ = (found, walk_seq);
    }
}

impl Lruvec {
    /// Begins a walk over the page tables, as [`Step::WalkTables`](crate::reclaim::Step) asks for.
    pub fn start_walk(&mut self) -> TableWalk {
        self.policy.tables().map_or_else(TableWalk::of_all, AgesByTables::start_walk)
    }

    /// Takes what a walk found since it reported last.
    pub fn report_walk(&mut self, walk: &mut TableWalk) {
        let found = walk.found_so_far();
        self.walked(&found.frames);
        self.vmstat.add(Counter::LruGenWalkYoung, found.nr_frames_young());
        if let Some(tables) = self.policy.tables() {
            tables.note_walk(found, Some(walk.seq));
        }
        walk.forget_reported();
    }

    /// Takes what a pass found beside its victims.
    pub(crate) fn report_around(&mut self, found: &mut YoungPages) {
        if found.is_empty() {
            return;
        }
        self.walked(&found.frames);
        self.vmstat.add(Counter::LruGenLookAround, found.counts.nr_leaves);
        self.vmstat.add(Counter::LruGenLookAroundYoung, found.nr_frames_young());
        if let Some(tables) = self.policy.tables() {
            tables.note_walk(found, None);
        }
        found.clear();
    }

    /// Reports folios that were found young through a table. Those of other groups are left out.
    pub fn walked(&mut self, young: &[FrameId]) {
        let group = self.id().group;
        let (policy, mut cx) = self.parts();
        let Some(tables) = policy.tables() else { return };
        for &frame in young {
            let folio = &cx.folios[frame];
            if folio.flags().any(Flags::ON_LIST) && folio.group().0 == group {
                tables.young(&mut cx, frame);
            }
        }
    }
}
