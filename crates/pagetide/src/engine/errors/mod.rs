//! The errors of the library, one enum per operation.
//!
//! Each message states the failure with its cause and its numbers. Each variant's documentation
//! states the remedy. Every error converts into [`std::io::Error`] with a fitting kind ([`kinds`]
//! has the table). The original error stays reachable inside.

mod errno;
mod kinds;

pub use errno::{errno_of, find_errno};

use crate::memory::tier::plan::TierError;
use pagetide_core::group::GROUPS_MAX;
use pagetide_core::knobs::Knob;
use pagetide_core::tiering::TieringKnobError;
use pagetide_core::units::Bytes;
use pagetide_sys::ReserveError;
use std::io;
use std::path::{Path, PathBuf};

/// An error in building a page cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No memory limit was given. Call `memory`.
    #[error("no memory limit was given: say how much with `memory`")]
    NoMemory,
    /// The limit is below the minimum. Ask for at least 16 frames (64K).
    #[error("a memory limit of {given} is too small: at least {least} are needed")]
    TooSmall {
        /// Requested limit.
        given: Bytes,
        /// Smallest valid limit.
        least: Bytes,
    },
    /// A knob is out of its range.
    #[error(
        "knob {knob} is {}, outside its range {} to {}",
        text(knob, *given), text(knob, *low), text(knob, *high)
    )]
    Knob {
        /// Knob's name.
        knob: &'static str,
        /// Requested value.
        given: u64,
        /// Smallest valid value.
        low: u64,
        /// Largest valid value.
        high: u64,
    },
    /// The tiers conflict with each other or with this machine. The message states the remedy.
    #[error(transparent)]
    Tiers(#[from] TierError),
    /// A tiering knob is out of its range.
    #[error(transparent)]
    Tiering(TieringKnobError),
    /// The memory could not be reserved. Ask for less.
    #[error("the memory could not be reserved: {0}; ask for less")]
    Reserve(#[from] ReserveError),
    /// The access record could not be created.
    #[error("the access record {path} could not be created: {source}")]
    Record {
        /// Record's path.
        path: PathBuf,
        /// System's error.
        source: io::Error,
    },
    /// A worker thread could not be started.
    #[error("a worker thread could not be started: {0}")]
    Thread(#[source] io::Error),
}

/// Formats a knob's value in the unit of the knob.
fn text(name: &str, value: u64) -> String {
    let knob = Knob::ALL.iter().find(|knob| knob.row().name == name);
    knob.map_or_else(|| value.to_string(), |knob| knob.row().unit.text(value))
}

/// An error in opening a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Neither read nor write access was asked for.
    #[error("neither read nor write access was asked for")]
    NoAccess,
    /// The system refused. The source holds the reason.
    #[error("{path} could not be opened: {source}")]
    Open {
        /// Path.
        path: PathBuf,
        /// System's error.
        source: io::Error,
    },
    /// The file is longer than the page tables of a mapping can address.
    #[error("the file is {len} long, more than the {most} a cache can map")]
    TooLong {
        /// File's length.
        len: Bytes,
        /// Largest length of a file in a cache.
        most: Bytes,
    },
    /// The group was removed. Open the file through another group, or through the cache.
    #[error("the group {name:?} was removed: open the file through another")]
    GroupRemoved {
        /// Group's name.
        name: String,
    },
    /// Every mapping number is in use by a cached file.
    #[error("too many files are cached at once")]
    TooManyMappings,
    /// A region over the file has exclusive use of the file. Drop the region first.
    #[error("{path} is in use by a region: drop it first, or reach the file through it")]
    InRegion {
        /// Path.
        path: PathBuf,
    },
}

/// An error in creating a region.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateRegionError {
    /// The address range or its page faults are not available. The message states the remedy.
    #[error(transparent)]
    Memory(#[from] pagetide_sys::RegionError),
    /// The file of the region could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file is open in this cache, or has pages that could not be written back. Close it first.
    #[error("{path} is in use by this cache: drop its open files first")]
    InUse {
        /// Path.
        path: PathBuf,
    },
    /// The swap file for evicted pages could not be created. Name another folder, or a store.
    #[error("no room to swap to could be made in {folder}: {source}")]
    Swap {
        /// Folder of the swap file.
        folder: PathBuf,
        /// System's error.
        source: io::Error,
    },
    /// The cache is shared with other processes, which find pages in frames only. Build a cache
    /// that is not shared.
    #[error("a cache that is shared with other processes has no regions")]
    Shared,
    /// The memory of an array or an allocator must be private, but this region has a file or a
    /// store of the caller's. Use [`RegionOptions::anonymous`](crate::RegionOptions::anonymous)
    /// without a store.
    #[error("arrays and allocators are in anonymous regions alone, which swap to a file of ours")]
    NotPrivate,
    /// A thread for the region's faults could not be started.
    #[error("a thread to serve faults could not be started: {0}")]
    Thread(#[source] io::Error),
}

/// An error in reading. The buffer's contents are unspecified. Nothing else changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The store failed. Another read tries the store again.
    #[error("reading {len} bytes at {offset} failed: {source}")]
    Store {
        /// Start of the failed request, in bytes.
        offset: u64,
        /// Length of the failed request, in bytes.
        len: u64,
        /// Store's error.
        source: io::Error,
    },
    /// The page is past the end of the file. [`crate::File::read_at`] returns 0 in this case.
    #[error("page {index} is past the end of the file, which is {len} bytes long")]
    PastEnd {
        /// Requested page.
        index: u64,
        /// File's length, in bytes.
        len: u64,
    },
    /// The file ends before the end of the buffer. [`crate::File::read_at`] returns the bytes up to
    /// the end of the file.
    #[error("the file is {len} bytes long, and the read is to go on to byte {end}")]
    UnexpectedEnd {
        /// End of the read, in bytes.
        end: u64,
        /// File's length, in bytes.
        len: u64,
    },
    /// The handle was opened without read access.
    #[error("the file was opened without read access")]
    NotReadable,
    /// Every frame is in use, and a guard needs one. Drop guards, or read by copying, which always
    /// works.
    #[error("no frame is free for a guard: all {frames} are pinned, dirty or busy")]
    NoFrame {
        /// Frames in the cache.
        frames: u64,
    },
    /// The call would wait for a guard of its own thread. Drop the guard first.
    #[error("this thread has a guard of page {index}, and would wait for itself: drop it first")]
    WouldDeadlock {
        /// Guard's page.
        index: u64,
    },
    /// A [`PinnedRange`](crate::PinnedRange) holds the page as it was before another program
    /// changed the file. Drop the pin, then retry.
    #[error("page {index} is pinned as it was before the file changed: drop the pin first")]
    Pinned {
        /// Pinned page.
        index: u64,
    },
}

/// An error in writing. Bytes before the failing page may have been written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The store failed on the read of the rest of a page, or on a write-through.
    #[error("writing {len} bytes at {offset} failed: {source}")]
    Store {
        /// Start of the failed request, in bytes.
        offset: u64,
        /// Length of the failed request, in bytes.
        len: u64,
        /// Store's error.
        source: io::Error,
    },
    /// The store refused the new length. The file keeps its old length.
    #[error("setting the length to {len} bytes failed: {source}")]
    SetLen {
        /// Requested length, in bytes.
        len: u64,
        /// Store's error.
        source: io::Error,
    },
    /// The handle was opened without write access.
    #[error("the file was opened without write access")]
    NotWritable,
    /// The write would end beyond the largest length that the store supports.
    #[error("a write up to byte {end} would pass the longest file, of {most} bytes")]
    TooLong {
        /// End of the write, in bytes.
        end: u64,
        /// Largest length of the file, in bytes.
        most: u64,
    },
    /// The page is past the end of the file. Grow the file with `set_len` first.
    #[error("page {index} is past the end of the file, which is {len} bytes long")]
    PastEnd {
        /// Requested page.
        index: u64,
        /// File's length, in bytes.
        len: u64,
    },
    /// Every frame is in use, and a guard needs one. Drop guards, or use `write_at`, which always
    /// works.
    #[error("no frame is free for a guard: all {frames} are pinned, dirty or busy")]
    NoFrame {
        /// Frames in the cache.
        frames: u64,
    },
    /// The call would wait for a guard of its own thread. Drop the guard first.
    #[error("this thread has a guard of page {index}, and would wait for itself: drop it first")]
    WouldDeadlock {
        /// Guard's page.
        index: u64,
    },
    /// A [`PinnedRange`](crate::PinnedRange) from before the file was opened for writing holds the
    /// page. Drop the pin, then retry.
    #[error("page {index} is pinned since before the file was opened for writing: drop the pin")]
    Pinned {
        /// Pinned page.
        index: u64,
    },
}

/// An error in syncing. Some data that was written before the sync may not be stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// Write-back failed since this handle's last sync. The pages are still dirty. Free disk space
    /// or repair the device, then sync again.
    #[error("writing back failed: {0}; the data stays in memory, dirty")]
    Writeback(#[source] io::Error),
    /// A call for all files could not write back this file, the first of `nr_files` such files. The
    /// pages are still dirty. Free disk space or repair the device, then flush or sync again.
    #[error(
        "{nr_bytes} bytes of {} could not be written: {source}; they stay in memory, dirty{}",
        name_of(path.as_deref()),
        others(*nr_files)
    )]
    Unwritten {
        /// Path of the file. `None` for a store of the caller or an unnamed file.
        path: Option<PathBuf>,
        /// Dirty bytes of the file, in whole pages.
        nr_bytes: u64,
        /// Number of files that could not be written back.
        nr_files: usize,
        /// Store's error.
        source: io::Error,
    },
    /// The store could not be made durable. If the machine fails, any write since the last good
    /// sync may be lost, and no later sync can tell which. Write important data again.
    #[error("the store could not be made durable: {0}")]
    Store(#[source] io::Error),
    /// The call would wait for a guard of its own thread. Drop the guard first.
    #[error("this thread has a guard of page {index}, and would wait for itself: drop it first")]
    WouldDeadlock {
        /// Guard's page.
        index: u64,
    },
}

fn name_of(path: Option<&Path>) -> String {
    path.map_or_else(|| "a file without a name".to_owned(), |path| path.display().to_string())
}

fn others(nr_files: usize) -> String {
    match nr_files {
        0 | 1 => String::new(),
        _ => format!(", as do bytes of {} more files", nr_files - 1),
    }
}

/// An error in applying advice.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdviseError {
    /// Dirty pages must be written before they are dropped, and a write failed.
    #[error("dirty pages could not be written before being dropped: {0}")]
    Writeback(#[source] io::Error),
    /// The call would wait for a guard of its own thread. Drop the guard first.
    #[error("this thread has a guard of page {index}, and would wait for itself: drop it first")]
    WouldDeadlock {
        /// Guard's page.
        index: u64,
    },
}

/// An error in creating, changing or inspecting a group.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The cache was built without groups.
    #[error("this cache was built without groups: call `groups(true)` on its builder")]
    Off,
    /// The name belongs to another group. Choose another name, or use the existing group.
    #[error("there is a group named {name:?} already")]
    NameTaken {
        /// Name.
        name: String,
    },
    /// The limit is below the minimum.
    #[error("a limit of {limit} is too small for a group: give it at least {least}")]
    TooSmall {
        /// Requested limit.
        limit: Bytes,
        /// Smallest valid limit.
        least: Bytes,
    },
    /// The group's `min` or `low` is above its limit.
    #[error("a {what} of {given} is above the limit of {limit}: lower one, or raise the other")]
    AboveLimit {
        /// Setting's name: `min` or `low`.
        what: &'static str,
        /// Requested value.
        given: Bytes,
        /// Limit.
        limit: Bytes,
    },
    /// The `min` settings of the first-level groups would exceed the cache's memory. Ask for less.
    #[error(
        "a min of {given} beside the {others} of other groups is more than the {memory} there is: \
         ask for less"
    )]
    Overcommitted {
        /// Requested `min`.
        given: Bytes,
        /// Sum of `min` over all other groups of the first level.
        others: Bytes,
        /// Cache's memory.
        memory: Bytes,
    },
    /// All group numbers are in use. A removed group keeps its number while it has pages. Remove a
    /// group.
    #[error("all {} groups there can be are in use, or still have pages: remove some", GROUPS_MAX)]
    TooMany,
    /// The group was removed. Create another.
    #[error("the group {name:?} was removed")]
    Removed {
        /// Group's name.
        name: String,
    },
    /// The group has children. Remove the child groups first.
    #[error("the group {name:?} has {nr_children} groups below it: remove those first")]
    HasChildren {
        /// Group's name.
        name: String,
        /// Number of child groups.
        nr_children: usize,
    },
}

/// An error in resizing the cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResizeError {
    /// The size is outside the range that was reserved when the cache was built.
    #[error("a size of {given} is outside {least} to {most}, what this cache was built for")]
    OutOfRange {
        /// Requested size.
        given: Bytes,
        /// Smallest valid size.
        least: Bytes,
        /// Reserved size.
        most: Bytes,
    },
    /// The tier does not exist. Tiers are numbered from 0, the fastest.
    #[error("there is no tier {given}: this cache has {tiers}, the fastest is 0")]
    NoSuchTier {
        /// Requested tier.
        given: usize,
        /// Number of tiers.
        tiers: usize,
    },
    /// The size is less than the sum of all `min` settings of groups. Lower a group's `min` first.
    #[error("a size of {given} is less than the {min} that groups are promised: lower their min")]
    Promised {
        /// Requested size.
        given: Bytes,
        /// Sum of `min` over all groups of the first level.
        min: Bytes,
    },
    /// Too many frames are pinned or dirty. Some frames were released.
    #[error("only {given_up} of {wanted} frames could be given up: the rest are pinned or dirty")]
    Busy {
        /// Number of released frames.
        given_up: u64,
        /// Number of frames that the resize must release.
        wanted: u64,
    },
}

impl From<SyncError> for AdviseError {
    fn from(error: SyncError) -> AdviseError {
        match error {
            SyncError::Writeback(source)
            | SyncError::Unwritten { source, .. }
            | SyncError::Store(source) => AdviseError::Writeback(source),
            SyncError::WouldDeadlock { index } => AdviseError::WouldDeadlock { index },
        }
    }
}
