//! All mappings of a cache: by number for reclaim, by file identity for opens.
//!
//! Read-locked during each reclaim pass, write-locked when a mapping is added or removed. Lock
//! order: before the lruvec's and any page's lock.

use crate::engine::mapping::Mapping;
use crate::memory::store::Identity;
use pagetide_core::ids::MappingId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, RwLock, RwLockReadGuard};

const MAPPINGS_MAX: usize = 1 << 24;
/// Up to this number, empty mappings are removed at each addition.
const FEW: usize = 64;

#[derive(Default)]
pub(crate) struct Slots {
    by_id: Vec<Option<Arc<Mapping>>>,
    by_identity: BTreeMap<Identity, MappingId>,
    /// Unused numbers below the length.
    free: BTreeSet<u32>,
    /// Number of mappings after the last removal of empty mappings.
    nr_used: usize,
}

impl Slots {
    pub(crate) fn get(&self, id: MappingId) -> Option<&Arc<Mapping>> {
        self.by_id.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Mapping>> {
        self.by_id.iter().flatten()
    }

    pub(crate) fn first_from(&self, id: MappingId) -> Option<&Arc<Mapping>> {
        self.by_id.get(id.0 as usize..)?.iter().flatten().next()
    }

    pub(crate) fn find(&self, identity: &Identity) -> Option<&Arc<Mapping>> {
        self.get(*self.by_identity.get(identity)?)
    }

    /// Returns `None` if there are too many.
    pub(crate) fn insert_with(
        &mut self,
        make: impl FnOnce(MappingId) -> Mapping,
    ) -> Option<Arc<Mapping>> {
        if self.free.is_empty() {
            if self.by_id.len() >= MAPPINGS_MAX {
                return None;
            }
            let new = u32::try_from(self.by_id.len()).expect("below MAPPINGS_MAX");
            self.by_id.push(None);
            self.free.insert(new);
        }
        let id = MappingId(self.free.pop_first()?);
        let mapping = Arc::new(make(id));
        if let Some(identity) = mapping.identity {
            self.by_identity.insert(identity, id);
        }
        self.by_id[id.0 as usize] = Some(Arc::clone(&mapping));
        Some(mapping)
    }

    /// Returns true if empty mappings should be removed before an addition.
    pub(crate) fn is_look_due(&self) -> bool {
        is_look_due(self.nr(), self.nr_used)
    }

    pub(crate) fn note_all_used(&mut self) {
        self.nr_used = self.nr();
    }

    fn nr(&self) -> usize {
        self.by_id.len() - self.free.len()
    }

    pub(crate) fn remove(&mut self, id: MappingId) {
        let Some(mapping) = self.by_id.get_mut(id.0 as usize).and_then(Option::take) else {
            return;
        };
        self.free.insert(id.0);
        if let Some(identity) = mapping.identity
            && self.by_identity.get(&identity) == Some(&id)
        {
            self.by_identity.remove(&identity);
            self.find_other_region(&mapping, identity);
        }
    }

    /// Finds another read-only region over the file of a removed region.
    fn find_other_region(&mut self, removed: &Mapping, identity: Identity) {
        if !removed.is_region() {
            return;
        }
        let other = self.iter().find(|other| other.identity == Some(identity));
        if let Some(id) = other.map(|other| other.id) {
            self.by_identity.insert(identity, id);
        }
    }
}

/// Returns true for few mappings, or a quarter more than last time, so that an addition pays for
/// few checks.
fn is_look_due(nr: usize, nr_used: usize) -> bool {
    nr < FEW || nr >= nr_used + nr_used / 4
}

#[derive(Default)]
pub(crate) struct Registry {
    slots: RwLock<Slots>,
}

impl Registry {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Slots> {
        self.slots.read().expect("no holder panics")
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Slots) -> T) -> T {
        change(&mut self.slots.write().expect("no holder panics"))
    }

    pub(crate) fn snapshot(&self) -> Vec<Arc<Mapping>> {
        self.read().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_that_are_all_used_are_looked_at_a_few_times_each() {
        let (mut nr_used, mut nr_looks) = (0, 0);
        let nr_added = 100_000;
        for nr in 0..nr_added {
            if is_look_due(nr, nr_used) {
                nr_looks += nr;
                nr_used = nr;
            }
        }
        assert!(nr_looks < 6 * nr_added, "{nr_looks} looks");
        assert!(nr_used > nr_added / 2, "{nr_used}: they were looked at to the end");
    }
}
