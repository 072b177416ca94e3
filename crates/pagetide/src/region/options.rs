//! What a region is to be, and opening what lies beneath it.
//!
//! ```text
//!   anonymous   a swap file without a name, or a store that is lent
//!   over        a file, taken from the cache for as long as the region lives; a store
//! ```

use crate::engine::Engine;
use crate::engine::errors::{CreateRegionError, OpenError};
use crate::engine::swap::{self, SwapFile, SwapMap};
use crate::memory::store::{Backing, Store};
use pagetide_core::ids::PageIndex;
use pagetide_core::units::{Bytes, PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::{REGION_PAGES_MAX, RegionError, StoreFile, StoreOptions};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a region is to be.
#[derive(Debug)]
#[must_use = "options do nothing until `PageCache::region`"]
pub struct RegionOptions {
    source: Source,
    /// None: the thread that touched a page, where that can be.
    nr_handlers: Option<usize>,
}

enum Source {
    Anonymous { len: Bytes, swap: Swap },
    File { path: PathBuf, is_writable: bool },
    Store(Box<dyn Store>),
}

enum Swap {
    Folder(Option<PathBuf>),
    Store(Box<dyn Store>),
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
    /// `len` bytes of zeros, rounded up to whole pages. What leaves memory goes to a file without a
    /// name in `TMPDIR`, else in `/var/tmp`: name another folder where that is in memory itself.
    pub fn anonymous(len: Bytes) -> RegionOptions {
        RegionOptions::of(Source::Anonymous { len, swap: Swap::Folder(None) })
    }

    /// The bytes of a file that exists, to be read and written. While the region lives it is the
    /// cache's only way to the file.
    pub fn over(path: impl Into<PathBuf>) -> RegionOptions {
        RegionOptions::of(Source::File { path: path.into(), is_writable: true })
    }

    /// Has the file opened for reading alone, which then need not be writable. What is stored in
    /// the region all the same reaches no store, and stays in memory. Of no use without a file.
    pub fn read_only(mut self) -> RegionOptions {
        if let Source::File { is_writable, .. } = &mut self.source {
            *is_writable = false;
        }
        self
    }

    /// The contents of a store of the caller's.
    pub fn over_store(store: Box<dyn Store>) -> RegionOptions {
        RegionOptions::of(Source::Store(store))
    }

    /// The folder for what leaves an anonymous region's memory; of no use to others.
    pub fn swap_in(mut self, folder: impl Into<PathBuf>) -> RegionOptions {
        if let Source::Anonymous { swap, .. } = &mut self.source {
            *swap = Swap::Folder(Some(folder.into()));
        }
        self
    }

    /// The store for what leaves an anonymous region's memory, which is made as long as the region;
    /// of no use to others.
    pub fn swap_to(mut self, store: Box<dyn Store>) -> RegionOptions {
        if let Source::Anonymous { swap, .. } = &mut self.source {
            *swap = Swap::Store(store);
        }
        self
    }

    /// Has threads of the region serve its faults, at least 1. Unless this is set, the thread that
    /// touched a page serves its fault, where that can be: see [`Region`](crate::Region). Several
    /// help where stores are slow: faults that wait for a store do not hold up others.
    pub fn handlers(mut self, nr_handlers: usize) -> RegionOptions {
        self.nr_handlers = Some(nr_handlers.max(1));
        self
    }

    /// Whether all that is stored comes back, and nothing else can: it is lent by no caller, and is
    /// in no file that another process opens.
    pub(super) fn is_private(&self) -> bool {
        matches!(self.source, Source::Anonymous { swap: Swap::Folder(_), .. })
    }

    /// The threads that were asked for, if any were.
    pub(super) fn nr_handlers(&self) -> Option<usize> {
        self.nr_handlers
    }

    /// Whether a store of the caller's lies beneath, whose code may do anything.
    pub(super) fn is_custom(&self) -> bool {
        match &self.source {
            Source::Store(_) => true,
            Source::Anonymous { swap, .. } => matches!(swap, Swap::Store(_)),
            Source::File { .. } => false,
        }
    }

    /// Opens what lies beneath.
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
        RegionOptions { source, nr_handlers: None }
    }
}

/// What lies beneath a region.
pub(super) struct Opened {
    pub(super) backing: Backing,
    pub(super) len: u64,
    pub(super) swap: Option<SwapMap>,
    /// The file's, if it is one that others can open.
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
    let options = StoreOptions { write, create: false, truncate: false, direct };
    let file = StoreFile::open(&path, options).map_err(|error| refused(&path, error.into()))?;
    let backing = Backing::File { file: Arc::new(file), writable: write };
    let len = backing.read_len().map_err(|source| refused(&path, source))?;
    Ok(Opened { backing, len, swap: None, path: Some(path) })
}

impl Opened {
    /// Has the cache let go of what it keeps of the file, whose pages are a region's now.
    pub(super) fn take_from_cache(&self, engine: &Engine) -> Result<(), CreateRegionError> {
        let Some(path) = &self.path else { return Ok(()) };
        let Ok(identity) = self.backing.identity() else { return Ok(()) };
        let cached = engine.mappings.read().find(&identity).cloned();
        let Some(mapping) = cached else { return Ok(()) };
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
