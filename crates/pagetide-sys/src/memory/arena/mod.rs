//! The arena: all managed memory, reserved when the page cache is built.
//!
//! **Problem.** The hard limit must always hold, and memory safety must not depend on the page
//! allocator: a frame handed out twice must only lead to a refused claim.
//!
//! **Idea.** One mapping that never grows, and one atomic number per frame. Only a token, which
//! cannot be copied, gives access to a frame.
//!
//! ```text
//!   versions[frame]:  31       30 ............ 18  17 ............. 0
//!                    | claimed |      unused      | version, modulo 2^18 |
//!
//!   free --claim--> ClaimedFrame --install--> page word --evict--> ClaimedFrame --release--> free
//!                   (carries the version)     (version + 1, lives in the word)
//! ```
//!
//! **Data and invariants.** S3: at most one [`ClaimedFrame`] or page word stands for a frame.
//! `claim` sets the bit atomically, a page word consumes the token, eviction returns it, and
//! `release` clears the bit. Other arenas refuse the token. A pair (frame, version) recurs only
//! after 2^18 installs and writes.
//!
//! **Ignored.** The choice of frames, which is core's. A dropped token leaks its frame.
//!
//! Source: V. Leis et al., "Virtual-memory assisted buffer management", SIGMOD 2023 (page states in
//! one word).

use std::fmt;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use pagetide_core::ids::{FrameId, PageIndex};
use pagetide_core::units::Bytes;

use self::bare::BareFrames;
use crate::memory::frames::{FRAME_BYTES, FrameMemory};
use crate::memory::numbers::Numbers;
use crate::memory::target::CopyTarget;
use crate::sync::{AtomicU32, Ordering, PlainAtomicU32};

const CLAIMED: u32 = 1 << 31;
pub(crate) const VERSION_MASK: u32 = (1 << 18) - 1;

/// The maximum number of frames of an arena: 2^28, which is 1 TiB.
pub const NR_FRAMES_MAX: u32 = 1 << 28;

/// Options for an arena's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArenaOptions {
    /// Requests 2 MiB pages (advice): faster copies, but memory is allocated in steps of 2 MiB.
    pub huge_pages: bool,
    /// Touches all memory when the arena is built, which takes up to 1 s per 2 GiB. Later accesses
    /// do not wait for the kernel.
    pub pretouch: bool,
}

/// Frames with memory from one NUMA node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The frames.
    pub frames: Range<FrameId>,
    /// The system's number of the node.
    pub node: u32,
}

/// The reason why an arena could not be reserved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// Zero frames, or more than [`NR_FRAMES_MAX`]. Ask for a number in between.
    #[error("an arena holds 1 to {NR_FRAMES_MAX} frames of {FRAME_BYTES} bytes, not {nr_frames}")]
    FrameCount {
        /// Frames requested.
        nr_frames: u32,
    },
    /// Touching would take more memory than is available. Ask for less, or do not pre-touch.
    #[error("{wanted} asked for, {available} available on this machine")]
    NotAvailable {
        /// Bytes requested.
        wanted: Bytes,
        /// Bytes that the kernel can give without swapping.
        available: Bytes,
    },
    /// The kernel gives this process no memory of the node, which is offline or forbidden. Choose
    /// another node, or lift the confinement.
    #[error("{wanted} could not be placed on node {node}")]
    NotBound {
        /// Bytes to be placed.
        wanted: Bytes,
        /// The node.
        node: u32,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The kernel refused the mapping or the touching. Ask for less.
    #[error("{wanted} could not be reserved")]
    Refused {
        /// Bytes requested.
        wanted: Bytes,
        /// The kernel's error.
        source: std::io::Error,
    },
}

impl ReserveError {
    /// Returns the matching [`io::ErrorKind`](std::io::ErrorKind).
    pub fn kind(&self) -> std::io::ErrorKind {
        match self {
            ReserveError::FrameCount { .. } => std::io::ErrorKind::InvalidInput,
            ReserveError::NotAvailable { .. } => std::io::ErrorKind::OutOfMemory,
            ReserveError::NotBound { source, .. } | ReserveError::Refused { source, .. } => {
                source.kind()
            }
        }
    }
}

impl From<ReserveError> for std::io::Error {
    fn from(error: ReserveError) -> std::io::Error {
        std::io::Error::new(error.kind(), error)
    }
}

/// The reason why a claim was refused: a wrong choice of the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The arena has no such frame, by a bug in the caller.
    #[error("{frame} is outside the arena's {nr_frames} frames")]
    OutOfRange {
        /// The frame requested.
        frame: FrameId,
        /// Frames of the arena.
        nr_frames: u32,
    },
    /// The frame was handed out twice. Drop the frame and count the event.
    #[error("{frame} is claimed already")]
    AlreadyClaimed {
        /// The frame requested.
        frame: FrameId,
    },
}

/// The unique right to use one frame. Consumed by a page word or by [`FrameArena::release`].
#[must_use = "a dropped claim loses its frame until the arena is dropped"]
#[derive(PartialEq, Eq)]
pub struct ClaimedFrame {
    frame: FrameId,
    version: u32,
    arena: u32,
}

impl ClaimedFrame {
    /// Returns the claimed frame.
    pub fn frame(&self) -> FrameId {
        self.frame
    }

    pub(crate) fn from_parts(frame: FrameId, version: u32, arena: &FrameArena) -> ClaimedFrame {
        ClaimedFrame { frame, version, arena: arena.id }
    }

    /// Panics if the claim is from another arena.
    pub(crate) fn into_parts(self, arena: &FrameArena) -> (FrameId, u32) {
        assert!(self.arena == arena.id, "S3: {} was claimed from another arena", self.frame);
        (self.frame, self.version)
    }
}

impl fmt::Debug for ClaimedFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimedFrame({} v{})", self.frame, self.version)
    }
}

/// All frames, and the claims on them.
///
/// # Concurrency
/// Shared freely. Every method takes `&self` and none takes a lock.
pub struct FrameArena {
    memory: FrameMemory,
    /// `[nr_frames]`: the claimed bit, and the version at the last release.
    versions: Box<[AtomicU32]>,
    numbers: Option<Numbers>,
    /// Frames without memory.
    bare: BareFrames,
    is_touched: bool,
    /// The number of this arena in the process. Never reused.
    id: u32,
}

impl FrameArena {
    /// Reserves memory for `nr_frames` frames of one base page, 2 MiB aligned and zero.
    ///
    /// # Errors
    /// Fails with [`ReserveError`] if the kernel refuses. # Cost: one `mmap`, 4 bytes per frame,
    /// and the touching.
    pub fn reserve(nr_frames: u32, options: ArenaOptions) -> Result<FrameArena, ReserveError> {
        FrameArena::reserve_on(nr_frames, &[], options)
    }

    /// As [`FrameArena::reserve`], with the memory of each place from its node alone.
    ///
    /// # Errors
    /// Fails with [`ReserveError`] if the kernel refuses. Panics if a place is outside the arena.
    pub fn reserve_on(
        nr_frames: u32,
        places: &[Placement],
        options: ArenaOptions,
    ) -> Result<FrameArena, ReserveError> {
        FrameArena::reserve_by(nr_frames, places, options, FrameMemory::reserve)
    }

    /// As [`FrameArena::reserve`]. Other processes can be given [views](crate::shared::FrameView)
    /// of the frames.
    ///
    /// # Errors
    /// Fails with [`ReserveError`] if the kernel refuses.
    pub fn reserve_shared(
        nr_frames: u32,
        options: ArenaOptions,
    ) -> Result<FrameArena, ReserveError> {
        let mut arena =
            FrameArena::reserve_by(nr_frames, &[], options, FrameMemory::reserve_shared)?;
        let numbers = Numbers::new(nr_frames);
        arena.numbers = Some(numbers.map_err(|source| ReserveError::Refused {
            wanted: Bytes::from_pages(nr_frames.into()),
            source,
        })?);
        arena.expect_bare_frames();
        Ok(arena)
    }

    fn reserve_by(
        nr_frames: u32,
        places: &[Placement],
        options: ArenaOptions,
        reserve: impl FnOnce(u32, bool) -> std::io::Result<FrameMemory>,
    ) -> Result<FrameArena, ReserveError> {
        if nr_frames == 0 || nr_frames > NR_FRAMES_MAX {
            return Err(ReserveError::FrameCount { nr_frames });
        }
        let wanted = Bytes::from_pages(nr_frames.into());
        let refused = |source| ReserveError::Refused { wanted, source };
        let available = if options.pretouch { read_available_memory() } else { None };
        if let Some(available) = available.filter(|available| *available < wanted) {
            return Err(ReserveError::NotAvailable { wanted, available });
        }
        let memory = reserve(nr_frames, options.huge_pages).map_err(refused)?;
        for place in places {
            memory.bind(place.frames.start.0..place.frames.end.0, place.node).map_err(
                |source| {
                    let wanted =
                        Bytes::from_pages(u64::from(place.frames.end.0 - place.frames.start.0));
                    ReserveError::NotBound { wanted, node: place.node, source }
                },
            )?;
        }
        if options.pretouch {
            memory.touch().map_err(refused)?;
        }
        let versions = (0..nr_frames).map(|_| AtomicU32::new(0)).collect();
        Ok(FrameArena {
            memory,
            versions,
            numbers: None,
            bare: BareFrames::default(),
            is_touched: options.pretouch,
            id: next_arena_id(),
        })
    }

    /// Returns the number of frames, claimed or not.
    pub fn nr_frames(&self) -> u32 {
        self.memory.nr_frames()
    }

    /// Returns the arena's resident bytes, by `mincore`.
    ///
    /// # Cost
    /// About 10 ns per frame.
    pub fn count_resident_bytes(&self) -> u64 {
        self.memory.count_resident_bytes()
    }

    /// Returns the number of 2 MiB blocks that become huge only by [`FrameArena::collapse`] and
    /// [`FrameArena::make_huge`]. Not 0 only in a shared arena with huge pages.
    pub fn nr_to_collapse(&self) -> u32 {
        self.memory.nr_to_collapse()
    }

    /// Collapses the 2 MiB from frame `512 * block` into a huge page, if all frames have memory.
    /// Returns true if they do. Contents are kept. Does nothing without free huge pages
    /// (`MADV_COLLAPSE`, Linux 6.1).
    ///
    /// # Cost
    /// 3 us to find a missing frame, otherwise 0.2 to 5 ms.
    pub fn collapse(&self, block: u32) -> bool {
        self.memory.collapse(block)
    }

    /// Makes huge pages of the [collapsible](Self::nr_to_collapse) blocks that overlap `frames`,
    /// before their first use, and again after a part was [taken again](Self::take_again). Contents
    /// are kept. If huge pages are slow, most blocks stay small.
    ///
    /// # Cost
    /// The time to clear 2 MiB, plus 0.1 ms: less than touching 512 frames. Afterwards one load.
    pub fn make_huge(&self, frames: Range<FrameId>) {
        self.memory.make_huge(frames.start.0..frames.end.0);
    }

    /// Takes `frame` for the caller's exclusive use.
    ///
    /// # Errors
    /// Fails with [`ClaimError`] if the frame was chosen wrongly. Nothing was changed.
    pub fn claim(&self, frame: FrameId) -> Result<ClaimedFrame, ClaimError> {
        let Some(entry) = self.versions.get(frame.0 as usize) else {
            return Err(ClaimError::OutOfRange { frame, nr_frames: self.nr_frames() });
        };
        // Acquire: the last owner's use happened before its release.
        let before = entry.fetch_or(CLAIMED, Ordering::Acquire);
        if before & CLAIMED != 0 {
            return Err(ClaimError::AlreadyClaimed { frame });
        }
        Ok(ClaimedFrame { frame, version: before, arena: self.id })
    }

    /// Gives up a claim, and returns the frame's id for the page allocator. The contents stay.
    ///
    /// Panics if the frame was claimed from another arena.
    pub fn release(&self, claimed: ClaimedFrame) -> FrameId {
        let (frame, version) = claimed.into_parts(self);
        // Release: pairs with the next claim. S3: concurrently, only failing claims write the
        // entry, without changing it.
        let entry = &self.versions[frame.0 as usize];
        let before = entry.swap(version & VERSION_MASK, Ordering::Release);
        assert!(before & CLAIMED != 0, "S3: {frame} was claimed until now");
        frame
    }

    /// Returns the address of `frame`. The address gives no right to access the memory.
    ///
    /// Panics if the arena has no such frame.
    pub fn address(&self, frame: FrameId) -> *mut u8 {
        assert!(frame.0 < self.nr_frames(), "{frame} is outside the arena");
        self.memory.frame_ptr(frame.0)
    }

    /// Prefetches the entry of a claimed `frame`, for its release. Costs a few cycles.
    #[inline]
    pub fn fetch_claim(&self, frame: FrameId) {
        if let Some(entry) = self.versions.get(frame.0 as usize) {
            crate::machine::prefetch::fetch_to_write(entry);
        }
    }

    /// Prefetches the cache line at `offset` of `frame`, if it exists. Costs a few cycles.
    #[inline]
    pub fn fetch(&self, frame: FrameId, offset: usize) {
        self.memory.fetch(frame.0, offset);
    }

    /// Prefetches the shared numbers of page `index` of the file with the tag, before its
    /// [`install`](crate::Lock::install). Costs a few cycles.
    #[inline]
    pub fn fetch_hints(&self, tag: u32, index: PageIndex) {
        if let Some(numbers) = &self.numbers {
            numbers.fetch_hints(tag, index);
        }
    }

    /// Copies bytes of `frame` from `offset` to `target`. The bytes are valid only if a
    /// [`ReadTicket`](crate::ReadTicket) taken before still holds afterwards.
    ///
    /// Panics if the range leaves the frame. Takes no lock and writes nothing shared.
    #[inline]
    pub fn read(&self, frame: FrameId, offset: usize, target: &mut (impl CopyTarget + ?Sized)) {
        self.memory.read(frame.0, offset, target);
    }

    /// Returns the two files of a [view](crate::shared::FrameView): the frames and their numbers.
    /// `None` if the arena is not shared.
    pub fn shared_files(&self) -> Option<[BorrowedFd<'_>; 2]> {
        Some([self.memory.file()?, self.numbers.as_ref()?.file()])
    }

    #[inline]
    pub(crate) fn numbers(&self) -> Option<&Numbers> {
        self.numbers.as_ref()
    }

    /// Marks the contents of `frame` as changing.
    #[inline]
    pub(crate) fn begin_change(&self, frame: Option<FrameId>) {
        if let (Some(numbers), Some(frame)) = (&self.numbers, frame) {
            numbers.begin(frame.0);
        }
    }

    #[inline]
    pub(crate) fn end_change(&self, frame: Option<FrameId>) {
        if let (Some(numbers), Some(frame)) = (&self.numbers, frame) {
            numbers.end(frame.0);
        }
    }

    /// Names the changing `frame` as page `index` of the file with the tag.
    #[inline]
    pub(crate) fn name(&self, frame: FrameId, tag: u32, index: PageIndex) {
        if let Some(numbers) = &self.numbers {
            numbers.name(frame.0, tag, index);
        }
    }

    #[inline]
    pub(crate) fn unname(&self, frame: FrameId) {
        if let Some(numbers) = &self.numbers {
            numbers.unname(frame.0);
        }
    }

    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.numbers.is_some()
    }

    pub(crate) fn memory(&self) -> &FrameMemory {
        &self.memory
    }
}

impl fmt::Debug for FrameArena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameArena({} frames)", self.nr_frames())
    }
}

fn next_arena_id() -> u32 {
    static NEXT: PlainAtomicU32 = PlainAtomicU32::new(0);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(id != u32::MAX, "S3: arena numbers are never reused");
    id
}

/// Returns the memory that is available without swapping, if the kernel reports it.
fn read_available_memory() -> Option<Bytes> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes(kib << 10))
}

mod bare;
mod giving_back;
#[cfg(test)]
mod tests;
