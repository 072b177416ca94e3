//! The four lists: inactive and active, for each type.
//!
//! A folio's flags name its list ([`ListId::of`]). ACTIVE and ANON do not change while it is
//! listed. Ignored: the kernel's unevictable list, because no event tells a policy that a folio
//! became evictable. Such folios rotate on their active list.

use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, PageType};
use crate::list::FolioList;
use crate::lru::refault_distance::ListPages;

/// One of a type's two lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// New folios, and deactivated ones.
    Inactive = 0,
    /// Folios accessed more than once.
    Active = 1,
}

/// One of the four lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListId {
    /// The type.
    pub page_type: PageType,
    /// Inactive or active.
    pub activity: Activity,
}

impl ListId {
    /// All four, in the order of a round.
    pub const ROUND: [ListId; 4] = [
        ListId::new(PageType::Anon, Activity::Inactive),
        ListId::new(PageType::Anon, Activity::Active),
        ListId::new(PageType::File, Activity::Inactive),
        ListId::new(PageType::File, Activity::Active),
    ];

    /// Names a list.
    pub const fn new(page_type: PageType, activity: Activity) -> ListId {
        ListId { page_type, activity }
    }

    /// Returns the list of a folio with these flags.
    pub const fn of(flags: Flags) -> ListId {
        let activity = if flags.any(Flags::ACTIVE) { Activity::Active } else { Activity::Inactive };
        ListId::new(flags.page_type(), activity)
    }
}

impl ListPages {
    /// Returns the entry of one list.
    pub const fn of_list(&self, list: ListId) -> u64 {
        match list.activity {
            Activity::Inactive => self.inactive[list.page_type.index()],
            Activity::Active => self.active[list.page_type.index()],
        }
    }

    pub(super) const fn of_list_mut(&mut self, list: ListId) -> &mut u64 {
        match list.activity {
            Activity::Inactive => &mut self.inactive[list.page_type.index()],
            Activity::Active => &mut self.active[list.page_type.index()],
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct FourLists {
    lists: [[FolioList; 2]; 2],
}

impl FourLists {
    fn list(&self, id: ListId) -> &FolioList {
        &self.lists[id.activity as usize][id.page_type.index()]
    }

    fn list_mut(&mut self, id: ListId) -> &mut FolioList {
        &mut self.lists[id.activity as usize][id.page_type.index()]
    }

    pub(super) fn sizes(&self) -> ListPages {
        let lens = |activity: usize| [0, 1].map(|at| u64::from(self.lists[activity][at].len()));
        ListPages { inactive: lens(0), active: lens(1) }
    }

    pub(super) fn push_head(&mut self, folios: &Folios, frame: FrameId) {
        self.list_mut(ListId::of(folios[frame].flags())).push_head(folios, frame);
    }

    pub(super) fn push_tail(&mut self, folios: &Folios, frame: FrameId) {
        self.list_mut(ListId::of(folios[frame].flags())).push_tail(folios, frame);
    }

    pub(super) fn remove(&mut self, folios: &Folios, frame: FrameId) {
        self.list_mut(ListId::of(folios[frame].flags())).remove(folios, frame);
    }

    /// Removes the oldest folio of a scanned list ([`FolioList::scan_tail`]).
    pub(super) fn pop_tail<const PREFETCH: bool>(
        &mut self,
        folios: &Folios,
        id: ListId,
    ) -> Option<FrameId> {
        self.list_mut(id).pop_tail_of_scan::<PREFETCH>(folios)
    }

    /// Panics if a link, a length or a folio's flags are wrong. O(folios).
    pub(super) fn validate(&self, folios: &Folios) {
        for id in ListId::ROUND {
            self.list(id).validate(folios);
            for frame in self.list(id).iter(folios) {
                let flags = folios[frame].flags();
                assert!(flags.any(Flags::ON_LIST), "{frame} listed but not flagged");
                assert_eq!(ListId::of(flags), id, "{frame} is on another list than its flags say");
            }
        }
    }

    /// Returns the oldest first.
    #[cfg(test)]
    pub(super) fn frames(&self, folios: &Folios, id: ListId) -> alloc::vec::Vec<FrameId> {
        self.list(id).iter(folios).collect()
    }
}
