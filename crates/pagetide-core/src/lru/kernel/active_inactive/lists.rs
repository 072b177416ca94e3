//! The four lists: inactive and active, for each type.
//!
//! Which list a folio is on follows from its flags ([`ListId::of`]): ACTIVE and ANON do not change
//! while it is listed. Ignored: the kernel's list of unevictable folios, because nothing tells a
//! policy that a folio became evictable again; they go round on their active list.

use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, PageType};
use crate::list::FolioList;
use crate::lru::refault_distance::ListPages;

/// Which of a type's two lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// New folios, and active ones on their way out.
    Inactive = 0,
    /// Folios that proved themselves.
    Active = 1,
}

/// One of the four lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListId {
    /// The type.
    pub page_type: PageType,
    /// Which of its two.
    pub activity: Activity,
}

impl ListId {
    /// All four, in the order a round visits them.
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

    /// The list a folio with these flags belongs on.
    pub const fn of(flags: Flags) -> ListId {
        let activity = if flags.any(Flags::ACTIVE) { Activity::Active } else { Activity::Inactive };
        ListId::new(flags.page_type(), activity)
    }
}

impl ListPages {
    /// The entry for one list.
    pub const fn of_list(&self, list: ListId) -> u64 {
        match list.activity {
            Activity::Inactive => self.inactive[list.page_type.index()],
            Activity::Active => self.active[list.page_type.index()],
        }
    }

    /// The entry for one list, to change.
    pub(super) const fn of_list_mut(&mut self, list: ListId) -> &mut u64 {
        match list.activity {
            Activity::Inactive => &mut self.inactive[list.page_type.index()],
            Activity::Active => &mut self.active[list.page_type.index()],
        }
    }
}

/// The lists themselves.
#[derive(Debug, Default)]
pub(super) struct FourLists {
    /// By activity, then type.
    lists: [[FolioList; 2]; 2],
}

impl FourLists {
    fn list(&self, id: ListId) -> &FolioList {
        &self.lists[id.activity as usize][id.page_type.index()]
    }

    fn list_mut(&mut self, id: ListId) -> &mut FolioList {
        &mut self.lists[id.activity as usize][id.page_type.index()]
    }

    /// The lengths now.
    pub(super) fn sizes(&self) -> ListPages {
        let lens = |activity: usize| [0, 1].map(|at| u64::from(self.lists[activity][at].len()));
        ListPages { inactive: lens(0), active: lens(1) }
    }

    /// Adds a folio at the young end of the list its flags say.
    pub(super) fn push_head(&mut self, folios: &Folios, frame: FrameId) {
        self.list_mut(ListId::of(folios[frame].flags())).push_head(folios, frame);
    }

    /// Adds a folio at the old end of the list its flags say.
    pub(super) fn push_tail(&mut self, folios: &Folios, frame: FrameId) {
        self.list_mut(ListId::of(folios[frame].flags())).push_tail(folios, frame);
    }

    /// Takes a folio off the list its flags say.
    pub(super) fn remove(&mut self, folios: &Folios, frame: FrameId) {
        self.list_mut(ListId::of(folios[frame].flags())).remove(folios, frame);
    }

    /// Takes the oldest folio of a list that is scanned ([`FolioList::scan_tail`]).
    pub(super) fn pop_tail<const PREFETCH: bool>(
        &mut self,
        folios: &Folios,
        id: ListId,
    ) -> Option<FrameId> {
        self.list_mut(id).pop_tail_of_scan::<PREFETCH>(folios)
    }

    /// Walks all lists and panics where a link, a length or a folio's flags are wrong. O(folios).
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

    /// The frames of one list, oldest first.
    #[cfg(test)]
    pub(super) fn frames(&self, folios: &Folios, id: ListId) -> alloc::vec::Vec<FrameId> {
        self.list(id).iter(folios).collect()
    }
}
