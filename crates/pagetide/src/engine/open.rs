//! Mapping of files on open, and removal of empty mappings.

use crate::engine::Engine;
use crate::engine::errors::OpenError;
use crate::engine::groups::directory::Member;
use crate::engine::longest::FILE_BYTES_MAX;
use crate::engine::mapping::Mapping;
use crate::engine::registry::Slots;
use crate::memory::store::{Backing, Identity};
use pagetide_core::ids::PageIndex;
use pagetide_core::record;
use pagetide_core::units::{Bytes, Millis};
use std::io;
use std::path::Path;
use std::sync::Arc;

pub(crate) enum MapError {
    Io(io::Error),
    TooLong(u64),
    TooMany,
    InRegion,
}

impl MapError {
    pub(crate) fn on(self, path: &Path) -> OpenError {
        match self {
            MapError::Io(source) => OpenError::Open { path: path.to_owned(), source },
            MapError::TooLong(len) => {
                OpenError::TooLong { len: Bytes(len), most: Bytes(FILE_BYTES_MAX) }
            }
            MapError::TooMany => OpenError::TooManyMappings,
            MapError::InRegion => OpenError::InRegion { path: path.to_owned() },
        }
    }
}

impl Engine {
    /// Finds or creates the mapping of a file, and counts a handle.
    pub(crate) fn map_file(
        &self,
        backing: Backing,
        group: Option<&Member>,
    ) -> Result<Arc<Mapping>, MapError> {
        let look = backing.look().ok();
        let identity = look.as_ref().map(|look| Identity::of(&look.fingerprint));
        if let Some(mapping) = identity.and_then(|identity| self.find_mapping(&identity, group)) {
            self.adopt(&mapping, backing)?;
            return Ok(mapping);
        }
        let len = look.map_or_else(|| backing.read_len(), |look| Ok(look.fingerprint.len));
        let len = check_len(len)?;
        let mut backing = Some(backing);
        let mapping = self.mappings.change(|slots| {
            // Another thread may have added the mapping meanwhile.
            let cached = identity.and_then(|identity| slots.find(&identity)).cloned();
            let mapping = cached.or_else(|| {
                if slots.is_look_due() {
                    self.forget_empty(slots);
                }
                let now = self.source.tiering.as_ref().map_or(Millis(0), |tiering| tiering.now());
                slots.insert_with(|id| {
                    let backing = backing.take().expect("taken once");
                    Mapping::new(id, &self.pages.arena, backing, look.as_ref(), len, now)
                })
            });
            mapping.inspect(|mapping| self.source.join(mapping, group))
        });
        let mapping = mapping.ok_or(MapError::TooMany)?;
        match backing {
            Some(backing) => self.adopt(&mapping, backing)?,
            None => self.warm_opened(&mapping, look.as_ref().map(|look| &look.fingerprint)),
        }
        Ok(mapping)
    }

    /// Takes a handle of a cached mapping while the registry keeps the mapping alive.
    fn find_mapping(&self, identity: &Identity, group: Option<&Member>) -> Option<Arc<Mapping>> {
        let slots = self.mappings.read();
        slots.find(identity).cloned().inspect(|mapping| self.source.join(mapping, group))
    }

    /// Joins an open of a cached file, with a handle counted. Never waits for a page or write-back.
    fn adopt(&self, mapping: &Mapping, backing: Backing) -> Result<(), MapError> {
        let adopted = self.check_joinable(mapping, &backing).and_then(|()| {
            if !mapping.is_open() {
                mapping.forget_writes();
            }
            self.flusher.agree_at_open(mapping, &backing).map_err(MapError::Io)
        });
        if adopted.is_err() {
            mapping.drop_handle();
            return adopted;
        }
        if !mapping.is_open() || backing.is_writable() && !mapping.is_writable() {
            mapping.set_backing(Some(backing));
        }
        Ok(())
    }

    fn check_joinable(&self, mapping: &Mapping, backing: &Backing) -> Result<(), MapError> {
        if mapping.is_region() {
            return Err(MapError::InRegion);
        }
        check_len(backing.read_len()).map(drop)
    }

    /// Makes changes by other programs visible, like another open of the file.
    pub(crate) fn look_again(&self, mapping: &Mapping) -> io::Result<()> {
        let backing = mapping.backing()?;
        self.flusher.agree_at_open(mapping, &backing)
    }

    /// Starts write-back. The store closes once no page is dirty. Pages that no program can read
    /// any more are dropped instead. `kept`, a descriptor with the caller's locks, is closed after
    /// the write-back.
    pub(crate) fn last_handle_dropped(&self, mapping: &Mapping, kept: Option<std::fs::File>) {
        let mut kept = kept;
        if mapping.is_unlinked() {
            kept = None;
            if self.flusher.drop_unreachable(mapping) {
                return;
            }
        }
        if kept.is_some() || !self.source.has_workers {
            self.flusher.flush(mapping, 0..u64::MAX);
        }
        drop(kept);
        if mapping.dirty.is_empty() {
            self.flusher.close_if_idle(mapping);
        } else {
            self.flusher.abandon(mapping);
            self.flusher.wake();
        }
    }

    /// Removes mappings that have no handle and no resident page. Their shadows are lost and their
    /// numbers reused.
    pub(crate) fn forget_empty(&self, slots: &mut Slots) {
        let is_idle = |mapping: &&Arc<Mapping>| {
            !mapping.is_open() && !mapping.has_handles() && !mapping.table.is_any_resident()
        };
        let idle: Vec<_> = slots.iter().filter(is_idle).cloned().collect();
        for mapping in idle {
            if self.pages.recorder.is_some() {
                mapping.table.for_each_present(PageIndex::ALL, |page, _| {
                    self.pages.record(&mapping, page.index().0, record::AccessKind::Discard);
                });
            }
            if let Some(pool) = &self.pages.pool {
                pool.forget_mapping(mapping.id);
            }
            slots.remove(mapping.id);
        }
        slots.note_all_used();
    }
}

fn check_len(len: io::Result<u64>) -> Result<u64, MapError> {
    match len.map_err(MapError::Io)? {
        len if len > FILE_BYTES_MAX => Err(MapError::TooLong(len)),
        len => Ok(len),
    }
}
