//! Optional methods of the two lists: aging by tables, a group clock, type weights.

use super::TwoLists;
use super::design::{Design, RefaultVerdict};
use crate::folio::Flags;
use crate::ids::{FrameId, PageType};
use crate::lru::capability::Capabilities;
use crate::lru::refault_distance::{HierarchyCounts, ListPages, NonresidentAge};
use crate::lru::{Context, Mechanism, ShadowEntry};

impl<D: Design> Capabilities for TwoLists<D> {
    /// Sets REFERENCED in place of the young bit, which the walk cleared.
    fn young(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        cx.folios[frame].set(Flags::REFERENCED);
    }

    fn refault_judged(
        &mut self,
        cx: &mut Context<'_>,
        frame: FrameId,
        shadow: ShadowEntry,
        is_recent: bool,
    ) {
        let verdict = if self.switches.has(Mechanism::RefaultDistance) {
            self.design.refault_judged(shadow, is_recent)
        } else {
            RefaultVerdict::Stays
        };
        self.react(cx, frame, verdict);
    }

    fn is_recent(
        &self,
        shadow: ShadowEntry,
        page_type: PageType,
        sizes: &ListPages,
    ) -> Option<bool> {
        self.design.is_recent(shadow, page_type, sizes)
    }

    fn list_pages(&self, cx: &Context<'_>) -> ListPages {
        self.design.read(cx, self.lists.sizes())
    }

    fn hierarchy_counts(&self) -> HierarchyCounts {
        let age = self.design.clock().map_or(0, NonresidentAge::read);
        HierarchyCounts { age, cost: self.cost.noted() }
    }

    fn count_below(&mut self, new: &HierarchyCounts, nr_listed: u64) {
        if let Some(age) = self.design.clock_mut() {
            age.advance(new.age);
        }
        self.cost.note_below(new.cost, nr_listed);
    }

    /// Limits swappiness to 200: there is no anonymous-only mode.
    fn set_swappiness(&mut self, swappiness: u8) {
        self.swappiness = swappiness.min(200);
    }

    fn fold_statistics(&mut self, cx: &mut Context<'_>) {
        self.design.fold(cx, self.lists.sizes());
        self.cost.fold();
    }
}
