//! Options of a region, and opening its file or store.
//!
//! ```text
//!   anonymous   swapped to an unnamed file, or to a store of the caller
//!   over        a file, taken from the cache while the region lives; or a store
//! ```

use crate::engine::Engine;
use crate::engine::errors::{CreateRegionError, OpenError};
use crate::engine::swap::{self, SwapFile, SwapMap};
use crate::memory::store::{Backing, Store};
use pagetide_core::ids::PageIndex;
use pagetide_core::units::{Bytes, PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::{REGION_PAGES_MAX, RegionError, StoreFile, StoreOptions};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options of a new region.
#[must_use = "options do nothing until `PageCache::region`"]
pub struct RegionOptions {
    source: Source,
    /// `None`: the accessing thread serves faults if possible.
    nr_handlers: Option<usize>,
    pub(super) on_failure: Option<OnFailure>,
}

pub(super) type OnFailure = Arc<dyn Fn(&io::Error) + Send + Sync>;

enum Source {
    Anonymous { len: Bytes, swap: Swap },
    File { path: PathBuf, is_writable: bool },
    Store(Box<dyn Store>),
}

enum Swap {
    Folder(Option<PathBuf>),
    Store(Box<dyn Store>),
}

impl fmt::Debug for RegionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RegionOptions { source, nr_handlers, .. } = self;
        write!(f, "RegionOptions({source:?}, handlers: {nr_handlers:?})")
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Anonymous { len, .. } => write!(f, "Anonymous({len})"),
            Source::File { path, .. } => write!(f, "File({path:?})"),
            Source::Store(_) => write!(f, "Store"),
        }
    }
}

impl RegionOptions {
    /// Selects `len` bytes of zeros, rounded up to whole pages. Evicted pages go to an unnamed file
    /// in `TMPDIR`, or else in `/var/tmp`. Name another folder if that one is in memory itself.
    pub fn anonymous(len: Bytes) -> RegionOptions {
        RegionOptions::of(Source::Anonymous { len, swap: Swap::Folder(None) })
    }

    /// Selects the bytes of an existing file, read and written. While the region lives, the cache
    /// has no other access to the file, except more regions if all of them are read-only.
    pub fn over(path: impl Into<PathBuf>) -> RegionOptions {
        RegionOptions::of(Source::File { path: path.into(), is_writable: true })
    }

    /// Opens the file read-only. Stores to the region stay in memory and reach no store. No effect
    /// without a file.
    pub fn read_only(mut self) -> RegionOptions {
        if let Source::File { is_writable, .. } = &mut self.source {
            *is_writable = false;
        }
        self
    }

    /// Selects the contents of a store of the caller.
    pub fn over_store(store: Box<dyn Store>) -> RegionOptions {
        RegionOptions::of(Source::Store(store))
    }

    /// Sets the swap folder of an anonymous region. No effect on other regions.
    pub fn swap_in(mut self, folder: impl Into<PathBuf>) -> RegionOptions {
        if let Source::Anonymous { swap, .. } = &mut self.source {
            *swap = Swap::Folder(Some(folder.into()));
        }
        self
    }

    /// Sets the swap store of an anonymous region, which is resized to the region's length. No
    /// effect on other regions.
    pub fn swap_to(mut self, store: Box<dyn Store>) -> RegionOptions {
        if let Source::Anonymous { swap, .. } = &mut self.source {
            *swap = Swap::Store(store);
        }
        self
    }

    /// Has threads of the region serve its faults, at least 1. By default the accessing thread
    /// serves a fault if possible, see [`Region`](crate::Region). With slow stores, several threads
    /// keep faults from delaying each other.
    pub fn handlers(mut self, nr_handlers: usize) -> RegionOptions {
        self.nr_handlers = Some(nr_handlers.max(1));
        self
    }

    /// Calls `report` with the cause before an access to a page that cannot be provided ends with
    /// SIGBUS. The call is on a thread of the region. The accessing thread waits, and the page is
    /// locked.
    ///
    /// # Concurrency
    /// Several threads may call `report` at once. It must not access a region of this cache, for
    /// which it may wait for ever. A panic ends the process.
    pub fn on_failure(
        mut self,
        report: impl Fn(&io::Error) + Send + Sync + 'static,
    ) -> RegionOptions {
        self.on_failure = Some(Arc::new(report));
        self
    }

    /// Returns true if only this process can change the contents.
    pub(super) fn is_private(&self) -> bool {
        matches!(self.source, Source::Anonymous { swap: Swap::Folder(_), .. })
    }

    pub(super) fn nr_handlers(&self) -> Option<usize> {
        self.nr_handlers
    }

    /// Returns true if a store of the caller is used, which may run any code.
    pub(super) fn is_custom(&self) -> bool {
        match &self.source {
            Source::Store(_) => true,
            Source::Anonymous { swap, .. } => matches!(swap, Swap::Store(_)),
            Source::File { .. } => false,
        }
    }

    pub(super) fn open(self, direct: bool) -> Result<Opened, CreateRegionError> {
        match self.source {
            Source::Anonymous { len, swap } => open_swap(len, swap, direct),
            Source::File { path, is_writable } => open_file(path, is_writable, direct),
            Source::Store(store) => {
                let backing = Backing::Custom(store);
                let path = PathBuf::from("(a custom store)");
                let len = backing.read_len();
                let len = len.map_err(|source| OpenError::Open { path, source })?;
                Ok(Opened { backing, len, swap: None, path: None })
            }
        }
    }

    fn of(source: Source) -> RegionOptions {
        RegionOptions { source, nr_handlers: None, on_failure: None }
    }
}

pub(super) struct Opened {
    pub(super) backing: Backing,
    pub(super) len: u64,
    pub(super) swap: Option<SwapMap>,
    /// `Some` if other processes can open the file.
    path: Option<PathBuf>,
}

fn open_swap(len: Bytes, swap: Swap, direct: bool) -> Result<Opened, CreateRegionError> {
    let nr_pages = len.0.div_ceil(PAGE_BYTES as u64);
    if nr_pages == 0 || nr_pages > REGION_PAGES_MAX {
        return Err(RegionError::PageCount { nr_pages }.into());
    }
    let bytes = nr_pages << PAGE_SHIFT;
    let (backing, file) = match swap {
        Swap::Folder(folder) => {
            let folder = folder.unwrap_or_else(swap::default_folder);
            match SwapFile::create(&folder, nr_pages, direct) {
                Ok(file) => (file.backing(), Some(file)),
                Err(source) => return Err(CreateRegionError::Swap { folder, source }),
            }
        }
        Swap::Store(store) => {
            let backing = Backing::Custom(store);
            let folder = PathBuf::from("(a custom store)");
            let made = backing.set_len(bytes);
            made.map_err(|source| CreateRegionError::Swap { folder, source })?;
            (backing, None)
        }
    };
    Ok(Opened { backing, len: bytes, swap: Some(SwapMap::new(nr_pages, file)), path: None })
}

fn open_file(path: PathBuf, write: bool, direct: bool) -> Result<Opened, CreateRegionError> {
    let refused = |path: &Path, source| OpenError::Open { path: path.to_owned(), source };
    let options = StoreOptions { write, direct, ..StoreOptions::default() };
    let file = StoreFile::open(&path, options).map_err(|error| refused(&path, error.into()))?;
    let backing = Backing::File { file: Arc::new(file), writable: write };
    let len = backing.read_len().map_err(|source| refused(&path, source))?;
    Ok(Opened { backing, len, swap: None, path: Some(path) })
}

impl Opened {
    /// Has the cache release its pages of the file, which now belongs to the region.
    pub(super) fn take_from_cache(&self, engine: &Engine) -> Result<(), CreateRegionError> {
        let Some(path) = &self.path else { return Ok(()) };
        let Ok(identity) = self.backing.identity() else { return Ok(()) };
        let cached = engine.mappings.read().find(&identity).cloned();
        let Some(mapping) = cached else { return Ok(()) };
        let is_read_only = |backing: &Backing| !backing.is_writable();
        let is_read = mapping.is_region() && mapping.backing().is_ok_and(|it| is_read_only(&it));
        if is_read && is_read_only(&self.backing) {
            // Neither region changes the file.
            return Ok(());
        }
        if !mapping.has_handles() {
            engine.flusher.flush(&mapping, 0..u64::MAX);
            engine.pages.drop_clean_pages(&mapping, PageIndex::ALL);
            mapping.close_if_idle();
            engine.mappings.change(|slots| engine.forget_empty(slots));
        }
        if engine.mappings.read().find(&identity).is_some() {
            return Err(CreateRegionError::InUse { path: path.clone() });
        }
        Ok(())
    }
}
