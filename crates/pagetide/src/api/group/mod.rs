//! Groups: tenants of one page cache, each with a limit and protection.
//!
//! # Problem
//!
//! A scan by one tenant evicts the pages of all. Separate caches waste idle memory.
//!
//! # Idea
//!
//! A file belongs to the group through which it was opened. Its pages are charged to the group and
//! the group's ancestors. See `engine::groups` and `engine::frame_source`.
//!
//! ```text
//!   miss --> charge --full--> reclaim below that limit --> charge
//!              |
//!              v
//!            frame --none--> reclaim everywhere, as protection allows --> frame
//! ```
//!
//! # Data and invariants
//!
//! The node's lock guards core's `Groups`, which records all charges. No charge ever exceeds a
//! limit. A frame is uncharged just before it is free. A mapping is in one group, and moves to the
//! parent when the group is removed. Hits are counted in cells of the handle's group.
//!
//! # What it deliberately ignores
//!
//! Tiers of frames, moving charges, write-back by group (dirty limits apply to the whole cache, and
//! a group full of dirty pages writes through), compressed copies, and reads past the cache.
//!
//! # Sources
//!
//! `pagetide_core::group`, and the kernel's control group v2 cited there.

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

/// A tenant of a page cache. Clones are the same group. The group exists until [`Group::remove`],
/// even if all clones are dropped.
#[derive(Clone)]
pub struct Group {
    shared: Arc<CacheShared>,
    member: Arc<Member>,
}

impl PageCache {
    /// Creates a group. Its name is unique in this cache.
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
    /// [`GroupError`]: this cache has no groups, the name is taken, or the options are invalid.
    ///
    /// # Cost
    /// A lruvec. Some policies need tables as long as the memory has frames.
    pub fn group(&self, name: &str, options: GroupOptions) -> Result<Group, GroupError> {
        Group::create(&self.shared, None, name, options)
    }

    /// Returns all groups, in order of creation.
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

    /// Creates a child group. Its usage counts for this group, too.
    ///
    /// # Errors
    /// As [`PageCache::group`], and [`GroupError::Removed`].
    pub fn group(&self, name: &str, options: GroupOptions) -> Result<Group, GroupError> {
        Group::create(&self.shared, Some(&self.member), name, options)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.member.name
    }

    /// Opens a file for this group, as [`PageCache::open`] does, and charges its pages to the
    /// group.
    ///
    /// A file belongs to the group of its first open handle. Later handles share the pages at no
    /// charge to their own group. Resident pages stay charged to their first group.
    ///
    /// # Errors
    /// As [`PageCache::open`], and [`OpenError::GroupRemoved`].
    pub fn open(&self, path: impl AsRef<Path>, options: OpenOptions) -> Result<File, OpenError> {
        self.check_open()?;
        self.cache().open_for(Some(&self.member), path.as_ref(), options)
    }

    /// Opens the file of a descriptor for this group, as [`PageCache::open_file`] does.
    ///
    /// # Errors
    /// As [`PageCache::open_file`], and [`OpenError::GroupRemoved`].
    pub fn open_file(&self, file: std::fs::File) -> Result<File, OpenError> {
        self.check_open()?;
        self.cache().open_file_for(Some(&self.member), file)
    }

    /// Opens a store of the caller for this group, as [`PageCache::open_store`] does.
    ///
    /// # Errors
    /// As [`PageCache::open_store`], and [`OpenError::GroupRemoved`].
    pub fn open_store(&self, store: Box<dyn Store>) -> Result<File, OpenError> {
        self.check_open()?;
        self.cache().open_store_for(Some(&self.member), store)
    }

    /// Returns usage and counters.
    ///
    /// # Errors
    /// [`GroupError::Removed`].
    pub fn stats(&self) -> Result<GroupStats, GroupError> {
        GroupStats::collect(&self.shared.engine, &self.member)
    }

    /// Frees memory of this group and its descendants ahead of need. Returns the amount freed, less
    /// than `wanted` if pages are dirty, in use, or protected further down.
    ///
    /// # Errors
    /// [`GroupError::Removed`].
    ///
    /// # Concurrency
    /// Runs in the calling thread, concurrently with other reclaim.
    pub fn reclaim(&self, wanted: Bytes) -> Result<Bytes, GroupError> {
        self.shared.engine.source.reclaim_group(&self.member, wanted)
    }

    /// Sets new limits. Evicts pages until usage fits. Dirty and used pages stay until a later miss
    /// of the group evicts them.
    ///
    /// # Errors
    /// As [`PageCache::group`], and [`GroupError::Removed`].
    pub fn set(&self, options: GroupOptions) -> Result<(), GroupError> {
        self.shared.engine.source.set_group(&self.member, options)
    }

    /// Removes the group. Its files belong to the parent from now on. Its resident pages stay until
    /// reclaim, which prefers them.
    ///
    /// # Errors
    /// [`GroupError::HasChildren`], or [`GroupError::Removed`].
    pub fn remove(&self) -> Result<(), GroupError> {
        self.shared.engine.source.remove_group(&self.member)
    }

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
