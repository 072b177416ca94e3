//! Groups: several tenants of one page cache, each with what it may use and what it may keep.
//!
//! # Problem
//!
//! One tenant's scan costs all others their pages. A cache for each would keep them apart, and
//! waste what one of them does not use just now.
//!
//! # Idea
//!
//! A file belongs to the group through which it was opened; each page it brings in is charged to
//! the group and those above it. Core says whose page goes; here are the locks and the names.
//!
//! ```text
//!   miss --> charge --full--> reclaim below that limit --> charge
//!              |
//!              v
//!            frame --none--> reclaim everywhere, as protection allows --> frame
//! ```
//!
//! Here is the interface; names and options are `engine::groups`, charges `engine::frame_source`.
//!
//! # Data and invariants
//!
//! All groups of a cache are behind its node's lock, in core's `Groups`, which also holds which is
//! charged for what: no charge ends above a limit, not for a moment. A frame is uncharged when its
//! eviction is settled, a few lines before it is free. A mapping is in one group, which exists;
//! where that is removed, in its parent. Hits are counted in cells of the handle's group, so that
//! no hit asks which.
//!
//! # What it deliberately ignores
//!
//! Tiers of frames, moving charges between groups, write-back by group (limits on dirty pages are
//! the whole cache's: a group full of dirty pages writes through), compressed copies, which are
//! charged to none, and reads past the cache.
//!
//! # Sources
//!
//! `pagetide_core::group`, and there the kernel's documented control group v2.

mod stats;

pub use stats::GroupStats;

use crate::api::cache::{OpenOptions, PageCache};
use crate::api::file::File;
use crate::engine::errors::{GroupError, OpenError};
use crate::engine::groups::directory::Member;
use crate::engine::groups::options::GroupOptions;
use crate::memory::store::Store;
use crate::workers::CacheShared;
use pagetide_core::units::Bytes;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A tenant of a page cache. Clones are the same group; dropping them all leaves it as it is:
/// [`Group::remove`] removes it.
#[derive(Clone)]
pub struct Group {
    shared: Arc<CacheShared>,
    member: Arc<Member>,
}

impl PageCache {
    /// Makes a group. Its name is its alone in this cache.
    ///
    /// ```
    /// # use pagetide::{Bytes, GroupOptions, OpenOptions, PageCache};
    /// # let dir = std::env::temp_dir().join(format!("pagetide-groups-{}", std::process::id()));
    /// # std::fs::create_dir_all(&dir)?;
    /// # let path = dir.join("index");
    /// # std::fs::write(&path, vec![7; 1 << 20])?;
    /// let cache = PageCache::builder().memory(Bytes(8 << 20)).groups(true).build()?;
    /// let scans = cache.group("scans", GroupOptions::new().limit(Bytes(2 << 20)))?;
    /// let index = cache.group("index", GroupOptions::new().low(Bytes(4 << 20)))?;
    /// let file = index.open(&path, OpenOptions::new().read(true))?;
    /// file.read_at(&mut [0; 4096], 0)?;
    /// assert!(index.stats()?.usage_bytes > 0 && scans.stats()?.usage_bytes == 0);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`GroupError`]: no groups in this cache, the name is taken, or the options make no sense.
    ///
    /// # Cost
    /// A lruvec, which for some policies has tables as long as the memory has frames.
    pub fn group(&self, name: &str, options: GroupOptions) -> Result<Group, GroupError> {
        Group::create(&self.shared, None, name, options)
    }

    /// The groups there are, in the order in which they were made.
    pub fn groups(&self) -> Vec<Group> {
        let Some(directory) = &self.shared.engine.source.groups else { return Vec::new() };
        let group = |member| Group { shared: Arc::clone(&self.shared), member };
        directory.members().into_iter().map(group).collect()
    }
}

impl Group {
    fn create(
        shared: &Arc<CacheShared>,
        parent: Option<&Member>,
        name: &str,
        options: GroupOptions,
    ) -> Result<Group, GroupError> {
        let member = shared.engine.source.create_group(parent, name, options)?;
        Ok(Group { shared: Arc::clone(shared), member })
    }

    /// Makes a group below this one: what it uses, this one uses, too.
    ///
    /// # Errors
    /// As [`PageCache::group`]; [`GroupError::Removed`].
    pub fn group(&self, name: &str, options: GroupOptions) -> Result<Group, GroupError> {
        Group::create(&self.shared, Some(&self.member), name, options)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.member.name
    }

    /// Opens a file for this group, as [`PageCache::open`]; the pages it brings in are charged to
    /// it.
    ///
    /// A file is of one group at a time: that of the first of the handles that are open now. A
    /// later handle shares their pages, and its group does not pay. Pages that are resident stay
    /// charged to the group they were charged to.
    ///
    /// # Errors
    /// As [`PageCache::open`]; [`OpenError::GroupRemoved`].
    pub fn open(&self, path: impl AsRef<Path>, options: OpenOptions) -> Result<File, OpenError> {
        self.check_open()?;
        self.cache().open_for(Some(&self.member), path.as_ref(), options)
    }

    /// Opens a store of the caller's for this group, as [`PageCache::open_store`].
    ///
    /// # Errors
    /// As there; [`OpenError::GroupRemoved`].
    pub fn open_store(&self, store: Box<dyn Store>) -> Result<File, OpenError> {
        self.check_open()?;
        self.cache().open_store_for(Some(&self.member), store)
    }

    /// What it uses, and what it did.
    ///
    /// # Errors
    /// [`GroupError::Removed`].
    pub fn stats(&self) -> Result<GroupStats, GroupError> {
        GroupStats::collect(&self.shared.engine, &self.member)
    }

    /// Frees memory of this group and those below it before it is needed; returns how much came
    /// free, less than asked for where pages are dirty, in use or protected below it.
    ///
    /// # Errors
    /// [`GroupError::Removed`].
    ///
    /// # Concurrency
    /// In the calling thread, beside others that reclaim.
    pub fn reclaim(&self, wanted: Bytes) -> Result<Bytes, GroupError> {
        self.shared.engine.source.reclaim_group(&self.member, wanted)
    }

    /// Gives it other limits. Where it uses more than it now may, pages go until it fits; what is
    /// dirty or in use stays until later misses of the group find it.
    ///
    /// # Errors
    /// As [`PageCache::group`]; [`GroupError::Removed`].
    pub fn set(&self, options: GroupOptions) -> Result<(), GroupError> {
        self.shared.engine.source.set_group(&self.member, options)
    }

    /// Removes it. Its files are its parent's from now on, and so are the pages they bring in; its
    /// pages stay until reclaim takes them, which prefers them.
    ///
    /// # Errors
    /// [`GroupError::HasChildren`]: remove those first; [`GroupError::Removed`].
    pub fn remove(&self) -> Result<(), GroupError> {
        self.shared.engine.source.remove_group(&self.member)
    }

    /// Whether files can be opened for it.
    fn check_open(&self) -> Result<(), OpenError> {
        match self.member.is_removed.load(Ordering::SeqCst) {
            true => Err(OpenError::GroupRemoved { name: self.member.name.clone() }),
            false => Ok(()),
        }
    }

    fn cache(&self) -> PageCache {
        PageCache::new(Arc::clone(&self.shared))
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({}, {:?})", self.member.id, self.member.name)
    }
}
