//! All mappings of a cache: by number, for reclaim, and by file identity, for opens.
//!
//! Read by every reclaim pass for as long as it runs; written when a file is opened for the first
//! time or forgotten. Lock order: before the lruvec's and any page's lock.

use crate::engine::mapping::Mapping;
use crate::memory::store::Identity;
use pagetide_core::ids::MappingId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, RwLock, RwLockReadGuard};

/// The most mappings there can be at once.
const MAPPINGS_MAX: usize = 1 << 24;
/// So many are few: they are looked over whenever one is added.
const FEW: usize = 64;

/// The mappings, indexed by their number.
#[derive(Default)]
pub(crate) struct Slots {
    by_id: Vec<Option<Arc<Mapping>>>,
    by_identity: BTreeMap<Identity, MappingId>,
    /// Numbers below the length that no mapping has.
    free: BTreeSet<u32>,
    /// How many there were when those that hold nothing had just been forgotten.
    nr_used: usize,
}

impl Slots {
    pub(crate) fn get(&self, id: MappingId) -> Option<&Arc<Mapping>> {
        self.by_id.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Mapping>> {
        self.by_id.iter().flatten()
    }

    /// The mapping with the lowest number from `id` on.
    pub(crate) fn first_from(&self, id: MappingId) -> Option<&Arc<Mapping>> {
        self.by_id.get(id.0 as usize..)?.iter().flatten().next()
    }

    /// The mapping of a file that is cached already.
    pub(crate) fn find(&self, identity: &Identity) -> Option<&Arc<Mapping>> {
        self.get(*self.by_identity.get(identity)?)
    }

    /// Adds the mapping that `make` builds for the number it is given; `None` when there are too
    /// many.
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

    /// Whether it is time to look for those that hold nothing, before one is added.
    pub(crate) fn is_look_due(&self) -> bool {
        is_look_due(self.nr(), self.nr_used)
    }

    /// Those that held nothing are forgotten.
    pub(crate) fn note_all_used(&mut self) {
        self.nr_used = self.nr();
    }

    fn nr(&self) -> usize {
        self.by_id.len() - self.free.len()
    }

    /// Forgets a mapping that holds no page.
    pub(crate) fn remove(&mut self, id: MappingId) {
        let Some(mapping) = self.by_id.get_mut(id.0 as usize).and_then(Option::take) else {
            return;
        };
        self.free.insert(id.0);
        if let Some(identity) = mapping.identity
            && self.by_identity.get(&identity) == Some(&id)
        {
            self.by_identity.remove(&identity);
        }
    }
}

/// There are few, or a quarter more than were left the last time: so each that is added pays for a
/// few looks at others, however many there are.
fn is_look_due(nr: usize, nr_used: usize) -> bool {
    nr < FEW || nr >= nr_used + nr_used / 4
}

/// The registry: [`Slots`] behind a lock.
#[derive(Default)]
pub(crate) struct Registry {
    slots: RwLock<Slots>,
}

impl Registry {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Slots> {
        self.slots.read().expect("no holder panics")
    }

    /// Runs `change` with the slots to itself.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Slots) -> T) -> T {
        change(&mut self.slots.write().expect("no holder panics"))
    }

    /// All mappings there are now.
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
