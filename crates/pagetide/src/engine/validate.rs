//! Consistency checks of a whole cache, for tests.
//!
//! ```text
//!   page tables --> resident words --> frames: each once, and its folio names the page
//!                                        |
//!   a node's frames = resident + free + on per-CPU lists
//!   compressed copies: of absent pages only
//!   regions' pages: mapped only if resident, writable only if dirty
//!   groups:            charges equal resident pages
//! ```

use crate::engine::Engine;
use pagetide_core::folio::Flags;
use pagetide_core::ids::{FrameId, GroupId, PageId, PageIndex};
use pagetide_sys::UserAccess;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

impl Engine {
    /// Panics if the cache is inconsistent. Nothing else may run.
    pub(crate) fn validate(&self) {
        let resident = self.collect_resident();
        let absent_copies =
            self.pages.pool.as_ref().map_or(Vec::new(), |pool| pool.collect_pages());
        let pages: BTreeSet<PageId> = resident.values().copied().collect();
        assert_eq!(pages.len(), resident.len(), "a page is in two frames");
        for page in absent_copies {
            assert!(!pages.contains(&page), "{page} is resident, and has a compressed copy");
        }
        self.validate_regions();
        self.pages.nodes.drain_logs();
        self.pages.reuse.validate();
        for node in self.pages.nodes.iter() {
            let range = node.range();
            let nr_resident = resident.range(range.clone()).count() as u64;
            // Regions, which set frames aside, use the first node only.
            let is_first = node.has(FrameId(0));
            let nr_aside = if is_first { self.source.here.nr_aside.load(Relaxed) } else { 0 };
            let nr_in_use = node.frames.sample_resident();
            assert_eq!(nr_in_use, nr_resident + nr_aside, "frames of {range:?} are lost");
            let frames = (range.start.0..range.end.0).map(FrameId);
            let on_list = |frame: &FrameId| self.pages.folios[*frame].flags().any(Flags::ON_LIST);
            let nr_listed = frames.filter(on_list).count() as u64;
            let lists = node.lock_lists();
            assert_eq!(lists.nr_folios(), nr_listed, "folios on lists of {range:?}");
            assert_eq!(nr_listed, nr_resident, "resident folios of {range:?} that are on no list");
            lists.validate();
            if let Some(groups) = lists.groups() {
                let charged = groups.tree().usage(GroupId::ROOT);
                assert_eq!(charged, nr_resident, "pages charged, and resident");
                for mapping in self.mappings.snapshot() {
                    let group = mapping.group();
                    assert!(groups.tree().is_online(group), "{group} of {} is gone", mapping.id);
                }
            }
        }
    }

    fn validate_regions(&self) {
        for mapping in self.mappings.snapshot() {
            let Some(region) = mapping.table.region() else { continue };
            for index in 0..region.nr_pages() {
                let access = region.access(index);
                if access == UserAccess::None {
                    continue;
                }
                let page = mapping.table.page(PageIndex(index));
                let frame = page.and_then(|page| page.load().frame());
                let frame = frame.expect("a page of a region is mapped, and not resident");
                let is_dirty = self.pages.folios[frame].flags().any(Flags::DIRTY);
                assert!(access == UserAccess::Read || is_dirty, "{page:?} is writable, and clean");
            }
        }
    }

    fn collect_resident(&self) -> BTreeMap<FrameId, PageId> {
        let mut resident = BTreeMap::new();
        for mapping in self.mappings.snapshot() {
            mapping.table.for_each_present(PageIndex::ALL, |page, seen| {
                assert!(!seen.is_locked() && seen.pins() == 0, "{page:?} is in use");
                let Some(frame) = seen.frame() else { return };
                let id = PageId { mapping: mapping.id, index: page.index() };
                assert_eq!(self.pages.folios[frame].page(), id, "{frame} belongs to another page");
                assert!(resident.insert(frame, id).is_none(), "{frame} has two pages");
            });
        }
        resident
    }
}
