//! What can go wrong, one enum per operation.
//!
//! Each message says what happened, with numbers and with its cause, and each variant's
//! documentation what to do. All of them turn into [`std::io::Error`] for callers that speak it,
//! with the kind that fits ([`kinds`] has the table); the original stays reachable inside.

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
use std::path::PathBuf;

/// Why a page cache could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No memory limit was given: call `memory`.
    #[error("no memory limit was given: say how much with `memory`")]
    NoMemory,
    /// The limit is below the least that works: ask for at least 16 frames (64K).
    #[error("a memory limit of {given} is too small: at least {least} are needed")]
    TooSmall {
        /// What was asked for.
        given: Bytes,
        /// The least that works.
        least: Bytes,
    },
    /// A knob is out of its range.
    #[error(
        "knob {knob} is {}, outside its range {} to {}",
        text(knob, *given), text(knob, *low), text(knob, *high)
    )]
    Knob {
        /// The knob's name.
        knob: &'static str,
        /// What was asked for.
        given: u64,
        /// The least it takes.
        low: u64,
        /// The most it takes.
        high: u64,
    },
    /// The tiers do not go together, or not with this machine: the message says what to change.
    #[error(transparent)]
    Tiers(#[from] TierError),
    /// A number of tiering is out of its range.
    #[error(transparent)]
    Tiering(TieringKnobError),
    /// The memory could not be reserved: ask for less.
    #[error("the memory could not be reserved: {0}; ask for less")]
    Reserve(#[from] ReserveError),
    /// The access record could not be created.
    #[error("the access record {path} could not be created: {source}")]
    Record {
        /// The record's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A worker thread could not be started.
    #[error("a worker thread could not be started: {0}")]
    Thread(#[source] io::Error),
}

/// A knob's value, as people type it.
fn text(name: &str, value: u64) -> String {
    let knob = Knob::ALL.iter().find(|knob| knob.row().name == name);
    knob.map_or_else(|| value.to_string(), |knob| knob.row().unit.text(value))
}

/// Why a file could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Neither read nor write access was asked for.
    #[error("neither read nor write access was asked for")]
    NoAccess,
    /// The system refused: the source says why.
    #[error("{path} could not be opened: {source}")]
    Open {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is longer than a mapping's tables reach.
    #[error("the file is {len} long, more than the {most} a cache can map")]
    TooLong {
        /// Its length.
        len: Bytes,
        /// The most there can be.
        most: Bytes,
    },
    /// The group was removed: open the file through another, or through the cache.
    #[error("the group {name:?} was removed: open the file through another")]
    GroupRemoved {
        /// Its name.
        name: String,
    },
    /// More files are cached than there are mapping numbers.
    #[error("too many files are cached at once")]
    TooManyMappings,
    /// A region is over the file, and is the only way to it: drop the region first.
    #[error("{path} is in use by a region: drop it first, or reach the file through it")]
    InRegion {
        /// The path.
        path: PathBuf,
    },
}

/// Why a region could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateRegionError {
    /// The address range or its faults could not be had: the message says what to change.
    #[error(transparent)]
    Memory(#[from] pagetide_sys::RegionError),
    /// The file beneath it could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file is open in this cache, or has pages that could not be written back: close it first.
    #[error("{path} is in use by this cache: drop its open files first")]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// The store for pages that leave memory could not be made: name another folder, or a store.
    #[error("no room to swap to could be made in {folder}: {source}")]
    Swap {
        /// Where.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The cache is shared with other processes, which look for pages in frames: build one that is
    /// not.
    #[error("a cache that is shared with other processes has no regions")]
    Shared,
    /// The memory is to be an array or an allocator, and others could change it: use
    /// [`RegionOptions::anonymous`](crate::RegionOptions::anonymous), without a store of its own.
    #[error("arrays and allocators are in anonymous regions alone, which swap to a file of ours")]
    NotPrivate,
    /// A thread to serve faults could not be started.
    #[error("a thread to serve faults could not be started: {0}")]
    Thread(#[source] io::Error),
}

/// Why a read failed. The buffer's contents are unspecified; nothing else changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The store failed. Reading again tries the store again.
    #[error("reading {len} bytes at {offset} failed: {source}")]
    Store {
        /// Where the failed request began, in bytes.
        offset: u64,
        /// How long it was, in bytes.
        len: u64,
        /// What the store said.
        source: io::Error,
    },
    /// The page is past the end of the file; [`crate::File::read_at`] returns 0 there instead.
    #[error("page {index} is past the end of the file, which is {len} bytes long")]
    PastEnd {
        /// The page asked for.
        index: u64,
        /// The file's length, in bytes.
        len: u64,
    },
    /// The file ends before what the read is to fill: [`crate::File::read_at`] reads what there is.
    #[error("the file is {len} bytes long, and the read is to go on to byte {end}")]
    UnexpectedEnd {
        /// Where the read would end, in bytes.
        end: u64,
        /// The file's length, in bytes.
        len: u64,
    },
    /// The handle was opened without read access.
    #[error("the file was opened without read access")]
    NotReadable,
    /// A guard needs a frame, and every frame is in use: drop guards, or read by copying, which
    /// always works.
    #[error("no frame is free for a guard: all {frames} are pinned, dirty or busy")]
    NoFrame {
        /// Frames in the cache.
        frames: u64,
    },
    /// The call would wait for a guard that its own thread has: drop the guard first.
    #[error("this thread has a guard of page {index}, and would wait for itself: drop it first")]
    WouldDeadlock {
        /// The guard's page.
        index: u64,
    },
}

/// Why a write failed. Bytes before the failing page may have been written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The store failed while the rest of a page was read, or while writing through.
    #[error("writing {len} bytes at {offset} failed: {source}")]
    Store {
        /// Where the failed request began, in bytes.
        offset: u64,
        /// How long it was, in bytes.
        len: u64,
        /// What the store said.
        source: io::Error,
    },
    /// The store did not take the new length; the file is as long as it was.
    #[error("setting the length to {len} bytes failed: {source}")]
    SetLen {
        /// The length asked for, in bytes.
        len: u64,
        /// What the store said.
        source: io::Error,
    },
    /// The handle was opened without write access.
    #[error("the file was opened without write access")]
    NotWritable,
    /// The write would end beyond the longest file there can be.
    #[error("a write up to byte {end} would pass the longest file, of {most} bytes")]
    TooLong {
        /// Where it would end, in bytes.
        end: u64,
        /// The most there can be, in bytes.
        most: u64,
    },
    /// The page is past the end of the file: grow it with `set_len` first.
    #[error("page {index} is past the end of the file, which is {len} bytes long")]
    PastEnd {
        /// The page asked for.
        index: u64,
        /// The file's length, in bytes.
        len: u64,
    },
    /// A guard needs a frame, and every frame is in use: drop guards, or use `write_at`, which
    /// always works.
    #[error("no frame is free for a guard: all {frames} are pinned, dirty or busy")]
    NoFrame {
        /// Frames in the cache.
        frames: u64,
    },
    /// The call would wait for a guard that its own thread has: drop the guard first.
    #[error("this thread has a guard of page {index}, and would wait for itself: drop it first")]
    WouldDeadlock {
        /// The guard's page.
        index: u64,
    },
}

/// Why a sync failed: some data written before it is not known to be stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// Write-back failed since this handle's last sync. The pages are dirty still: make room or
    /// repair the device, then sync again.
    #[error("writing back failed: {0}; the data stays in memory, dirty")]
    Writeback(#[source] io::Error),
    /// The store could not be made durable: any write since the last good sync may be lost if the
    /// machine fails, and no later sync can tell which. Write again what must not be lost.
    #[error("the store could not be made durable: {0}")]
    Store(#[source] io::Error),
    /// The call would wait for a guard that its own thread has: drop the guard first.
    #[error("this thread has a guard of page {index}, and would wait for itself: drop it first")]
    WouldDeadlock {
        /// The guard's page.
        index: u64,
    },
}

/// Why advice was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdviseError {
    /// Dirty pages had to be written first, and could not.
    #[error("dirty pages could not be written before being dropped: {0}")]
    Writeback(#[source] io::Error),
    /// The call would wait for a guard that its own thread has: drop the guard first.
    #[error("this thread has a guard of page {index}, and would wait for itself: drop it first")]
    WouldDeadlock {
        /// The guard's page.
        index: u64,
    },
}

/// Why a group could not be made, changed, or asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The cache knows no groups.
    #[error("this cache was built without groups: call `groups(true)` on its builder")]
    Off,
    /// Another group has the name: choose another, or use that one.
    #[error("there is a group named {name:?} already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The limit is below the least that works.
    #[error("a limit of {limit} is too small for a group: give it at least {least}")]
    TooSmall {
        /// What was asked for.
        limit: Bytes,
        /// The least that works.
        least: Bytes,
    },
    /// It is to keep more than it may use.
    #[error("a {what} of {given} is above the limit of {limit}: lower one, or raise the other")]
    AboveLimit {
        /// `min` or `low`.
        what: &'static str,
        /// What was asked for.
        given: Bytes,
        /// The limit.
        limit: Bytes,
    },
    /// More is promised than there is.
    #[error(
        "a min of {given} beside the {others} of other groups is more than the {memory} there is: \
         ask for less"
    )]
    Overcommitted {
        /// What was asked for.
        given: Bytes,
        /// What other groups of the first level are promised.
        others: Bytes,
        /// The cache's memory.
        memory: Bytes,
    },
    /// There are as many groups as can be told apart: remove some.
    #[error("all {} groups there can be are in use, or still have pages: remove some", GROUPS_MAX)]
    TooMany,
    /// It was removed: make another.
    #[error("the group {name:?} was removed")]
    Removed {
        /// Its name.
        name: String,
    },
    /// Groups below it must be removed first.
    #[error("the group {name:?} has {nr_children} groups below it: remove those first")]
    HasChildren {
        /// Its name.
        name: String,
        /// How many there are.
        nr_children: usize,
    },
}

/// Why the cache could not be resized.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResizeError {
    /// Outside what was reserved when the cache was built.
    #[error("a size of {given} is outside {least} to {most}, what this cache was built for")]
    OutOfRange {
        /// What was asked for.
        given: Bytes,
        /// The least that works.
        least: Bytes,
        /// What was reserved.
        most: Bytes,
    },
    /// There are fewer tiers; they count from 0, the fastest.
    #[error("there is no tier {given}: this cache has {tiers}, the fastest is 0")]
    NoSuchTier {
        /// What was asked for.
        given: usize,
        /// How many there are.
        tiers: usize,
    },
    /// Groups are promised more: lower their `min` first.
    #[error("a size of {given} is less than the {min} that groups are promised: lower their min")]
    Promised {
        /// What was asked for.
        given: Bytes,
        /// What groups of the first level are promised.
        min: Bytes,
    },
    /// Too many frames are pinned or dirty to give up so many; some were given up.
    #[error("only {given_up} of {wanted} frames could be given up: the rest are pinned or dirty")]
    Busy {
        /// Frames that left.
        given_up: u64,
        /// Frames that should have.
        wanted: u64,
    },
}

impl From<SyncError> for AdviseError {
    fn from(error: SyncError) -> AdviseError {
        match error {
            SyncError::Writeback(source) | SyncError::Store(source) => {
                AdviseError::Writeback(source)
            }
            SyncError::WouldDeadlock { index } => AdviseError::WouldDeadlock { index },
        }
    }
}
