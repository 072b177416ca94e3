//! All mappings of a cache: by number, for reclaim, and by file identity, for opens.
//!
//! Read by every reclaim pass for as long as it runs; written when a file is opened for the first
//! time or forgotten. Lock order: before the lruvec's and any page's lock.

use crate::mapping::Mapping;
use crate::store::Identity;
use pagetide_core::ids::MappingId;
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock, RwLockReadGuard};

/// The most mappings there can be at once.
const MAPPINGS_MAX: usize = 1 << 24;

/// The mappings, indexed by their number.
#[derive(Default)]
pub(crate) struct Slots {
    by_id: Vec<Option<Arc<Mapping>>>,
    by_identity: BTreeMap<Identity, MappingId>,
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
        let free = self.by_id.iter().position(Option::is_none);
        let index = free.unwrap_or(self.by_id.len());
        if index >= MAPPINGS_MAX {
            return None;
        }
        let id = MappingId(u32::try_from(index).expect("below MAPPINGS_MAX"));
        let mapping = Arc::new(make(id));
        if let Some(identity) = mapping.identity {
            self.by_identity.insert(identity, id);
        }
        if free.is_none() {
            self.by_id.push(None);
        }
        self.by_id[index] = Some(Arc::clone(&mapping));
        Some(mapping)
    }

    /// Forgets a mapping that holds no page.
    pub(crate) fn remove(&mut self, id: MappingId) {
        let Some(mapping) = self.by_id.get_mut(id.0 as usize).and_then(Option::take) else {
            return;
        };
        if let Some(identity) = mapping.identity
            && self.by_identity.get(&identity) == Some(&id)
        {
            self.by_identity.remove(&identity);
        }
    }
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
