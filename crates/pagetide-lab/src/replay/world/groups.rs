//! Memory groups in the replay of a recorded run: the page cache's charges without locks.
//!
//! ```text
//!   note   Begin: lists by group       Set: create or change, then evict to the limit
//!          Join: the group of a mapping's pages        Remove, Reclaim
//!   fill   charge --full--> reclaim below that limit --> charge --> frame
//! ```
//!
//! Notes apply in the page cache's order. Impossible notes of a damaged record are ignored. Replays
//! in another memory have no groups.

use super::World;
use crate::trace::DenseTrace;
use pagetide_core::driver;
use pagetide_core::group::{GroupConfig, Groups};
use pagetide_core::ids::{GroupId, MappingId};
use pagetide_core::record::{GroupNote, Note};
use std::collections::BTreeMap;

/// The group that pays for each mapping. Missing mappings belong to the root.
pub(super) type Payers = BTreeMap<MappingId, GroupId>;

pub(super) fn has_groups(trace: &DenseTrace) -> bool {
    trace.notes().iter().any(|(_, note)| matches!(note, Note::Group(GroupNote::Begin)))
}

impl World<'_> {
    /// Charges the page of this rank. Returns `None` if its group is full. The root pays if there
    /// are no groups.
    pub(super) fn charge(&mut self, rank: u32) -> Option<GroupId> {
        if self.nodes[0].lists.groups().is_none() {
            return Some(GroupId::ROOT);
        }
        let named = self.payers.get(&self.trace.page(rank).mapping).copied();
        driver::charge_group(self, || named.unwrap_or(GroupId::ROOT))
    }

    pub(super) fn refund(&mut self, payer: GroupId) {
        if let Some(groups) = self.groups_mut() {
            groups.cancel_charge(payer);
        }
    }

    fn groups_mut(&mut self) -> Option<&mut Groups> {
        self.nodes[0].lists.groups_mut()
    }

    pub(super) fn apply_group_note(&mut self, note: &GroupNote) {
        let Some(groups) = self.groups_mut() else { return };
        match *note {
            GroupNote::Begin => {}
            GroupNote::Set { group, parent, config } => self.set_group(group, parent, config),
            GroupNote::Remove(group) => {
                if group == GroupId::ROOT || !groups.tree().is_online(group) {
                    return;
                }
                let parent = groups.tree().parent(group).unwrap_or(GroupId::ROOT);
                if groups.remove(group).is_ok() {
                    let payers = self.payers.values_mut().filter(|payer| **payer == group);
                    payers.for_each(|payer| *payer = parent);
                }
            }
            GroupNote::Reclaim { group, nr_pages } => {
                driver::reclaim_from_group(self, group, nr_pages);
            }
            GroupNote::Join { mapping, group } => {
                self.payers.insert(mapping, group);
            }
        }
    }

    fn set_group(&mut self, group: GroupId, parent: GroupId, config: GroupConfig) {
        let Some(groups) = self.groups_mut() else { return };
        if !groups.tree().is_online(group) {
            let _ = groups.create(parent, config);
            return;
        }
        if group == GroupId::ROOT {
            return;
        }
        groups.set_config(group, config);
        driver::shrink_group(self, group);
    }
}
