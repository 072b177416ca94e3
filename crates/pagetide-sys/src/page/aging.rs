//! Taking YOUNG away from pages, and marking them with HINT: what aging and hint scans ask of them.
//!
//! A page that a region's user has mapped is used in silence: taking a bit away from it takes it
//! out of the user's mapping as well, so that the next access is noticed. Neighbours leave the
//! mapping together, see [`UnmapBatch`].

use std::ops::Range;

use pagetide_core::ids::{FrameId, PageIndex};

#[cfg(test)]
use crate::page::table::PageTable;
use crate::page::table::{LeafRef, PageRef};
use crate::page::unmap::UnmapBatch;

impl PageRef<'_> {
    /// Takes YOUNG away; returns whether the page was young. A region's page has to be taken out of
    /// its user's mapping for that, and stays young while it is in use.
    pub fn test_and_clear_young(self) -> bool {
        if self.is_mapped() {
            let was_young = self.load().is_young();
            let _ = UnmapBatch::new().take_young(self);
            return was_young;
        }
        self.word().take_young().is_some()
    }

    /// Marks a resident page with HINT; returns whether it was not marked before. A region's page
    /// is taken out of its user's mapping, and left alone while it is in use.
    pub fn set_hint(self) -> bool {
        if self.is_mapped() {
            return UnmapBatch::new().set_hint(self);
        }
        self.word().set_hint()
    }
}

impl LeafRef<'_> {
    /// Calls `each` with every resident page of `range`, in order: page, frame, and whether YOUNG
    /// was taken away from it, as happens to young pages in frames that `takes` names.
    pub fn for_each_resident(
        self,
        range: Range<PageIndex>,
        mut takes: impl FnMut(FrameId) -> bool,
        mut each: impl FnMut(PageIndex, FrameId, bool),
    ) {
        let mut unmapped = UnmapBatch::new();
        for page in self.each_page() {
            let seen = page.load();
            let Some(frame) = seen.frame().filter(|_| range.contains(&page.index())) else {
                continue;
            };
            let taken = match seen.is_young() && takes(frame) {
                true if page.region().is_none() => page.word().take_young(),
                true => unmapped.take_young(page),
                false => None,
            };
            each(page.index(), taken.unwrap_or(frame), taken.is_some());
        }
    }
}

#[cfg(test)]
impl PageTable {
    /// Takes YOUNG away from every page that has it, and calls `each` with page and frame.
    ///
    /// Leaves not touched since the last walk are skipped unread. A page made young during the
    /// walk is seen by it or by the next.
    pub(crate) fn for_each_young(&self, mut each: impl FnMut(PageIndex, FrameId)) {
        self.for_each_touched_leaf(|leaf| {
            leaf.take_touched();
            leaf.for_each_resident(
                leaf.pages(),
                |_| true,
                |index, frame, was_young| {
                    if was_young {
                        each(index, frame);
                    }
                },
            );
        });
    }
}
