//! The arena: all the memory that is ever managed, reserved when the page cache is built.
//!
//! **Problem.** The hard limit must hold at every moment, and memory safety must not depend on the
//! page allocator being right: `pagetide-core` may hand out a frame twice, by a bug, and the worst
//! that may follow is a refused claim.
//!
//! **Idea.** One mapping, never grown. Beside it one atomic number a frame: a claim
//! is a token that cannot be copied, and only the token opens the frame.
//!
//! ```text
//!   versions[frame]:  31       30 ............ 18  17 ............. 0
//!                    | claimed |      unused      | version, modulo 2^18 |
//!
//!   free --claim--> ClaimedFrame --install--> page word --evict--> ClaimedFrame --release--> free
//!                   (carries the version)     (version + 1, lives in the word)
//! ```
//!
//! **Data and invariants.** S3: at most one [`ClaimedFrame`] or page word stands for a frame at a
//! time: `claim` sets the bit by compare-and-swap, a word consumes the token, eviction gives it
//! back, `release` clears the bit. A token carries its arena's number and is refused elsewhere.
//! The version travels with the frame, so (frame, version) does not come back before 2^18 installs
//! and writes.
//!
//! **Ignored.** Which frame is given out: that is core's. A token that is dropped leaks its
//! frame, which wastes memory and breaks nothing.
//!
//! Source: V. Leis et al., "Virtual-memory assisted buffer management", SIGMOD 2023 (page states in
//! one word); our per-frame claim is an addition.

use std::fmt;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use pagetide_core::ids::{FrameId, PageIndex};
use pagetide_core::units::Bytes;

use self::bare::BareFrames;
use crate::memory::frames::{FRAME_BYTES, FrameMemory};
use crate::memory::numbers::Numbers;
use crate::sync::{AtomicU32, Ordering, PlainAtomicU32};

const CLAIMED: u32 = 1 << 31;
/// A frame's version, modulo its width.
pub(crate) const VERSION_MASK: u32 = (1 << 18) - 1;

/// The most frames one arena holds: 2^28, which is 1 TiB.
pub const NR_FRAMES_MAX: u32 = 1 << 28;

/// How an arena's memory is to be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArenaOptions {
    /// Ask for 2 MiB pages (advice): faster copies, but memory comes in steps of 2 MiB.
    pub huge_pages: bool,
    /// Touch all of it now: building takes up to 1 s per 2 GiB, no later access waits for the
    /// kernel.
    pub pretouch: bool,
}

/// Frames whose memory is to come from one NUMA node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The frames.
    pub frames: Range<FrameId>,
    /// The node's number, as the system has it.
    pub node: u32,
}

/// Why an arena could not be reserved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// None, or more than [`NR_FRAMES_MAX`]; ask for a number in between.
    #[error("an arena holds 1 to {NR_FRAMES_MAX} frames of {FRAME_BYTES} bytes, not {nr_frames}")]
    FrameCount {
        /// Frames asked for.
        nr_frames: u32,
    },
    /// Touching would take more than the machine has available; ask for less, or do not pre-touch.
    #[error("{wanted} asked for, {available} available on this machine")]
    NotAvailable {
        /// Bytes asked for.
        wanted: Bytes,
        /// Bytes the kernel says it can give without swapping.
        available: Bytes,
    },
    /// The kernel does not give this process memory of that node: it is not online, the process is
    /// confined to others, or the call is forbidden. Choose another node, or lift the confinement.
    #[error("{wanted} could not be placed on node {node}")]
    NotBound {
        /// Bytes to be placed.
        wanted: Bytes,
        /// The node.
        node: u32,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The kernel refused the mapping or the touching; ask for less.
    #[error("{wanted} could not be reserved")]
    Refused {
        /// Bytes asked for.
        wanted: Bytes,
        /// What the kernel said.
        source: std::io::Error,
    },
}

impl ReserveError {
    /// The kind of [`io::Error`](std::io::Error) that says the same.
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

/// Why a frame could not be claimed. Either means that the frame was chosen wrongly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The arena has no such frame; a bug in the caller.
    #[error("{frame} is outside the arena's {nr_frames} frames")]
    OutOfRange {
        /// The frame asked for.
        frame: FrameId,
        /// Frames there are.
        nr_frames: u32,
    },
    /// The frame is claimed: it was handed out twice. Drop the frame and count the event.
    #[error("{frame} is claimed already")]
    AlreadyClaimed {
        /// The frame asked for.
        frame: FrameId,
    },
}

/// The right to use one frame: unique, and given up only to a page word or by
/// [`FrameArena::release`].
#[must_use = "a dropped claim loses its frame until the arena is dropped"]
#[derive(PartialEq, Eq)]
pub struct ClaimedFrame {
    frame: FrameId,
    version: u32,
    arena: u32,
}

impl ClaimedFrame {
    /// The frame claimed.
    pub fn frame(&self) -> FrameId {
        self.frame
    }

    /// The claim on a frame that was just taken out of its page word.
    pub(crate) fn from_parts(frame: FrameId, version: u32, arena: &FrameArena) -> ClaimedFrame {
        ClaimedFrame { frame, version, arena: arena.id }
    }

    /// Turns the claim into what a page word of arena `arena` stores; panics in any other arena.
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
/// Shared freely; every method takes `&self` and none takes a lock.
pub struct FrameArena {
    memory: FrameMemory,
    /// `[nr_frames]`: claimed bit and the version the frame was released with.
    versions: Box<[AtomicU32]>,
    /// What other processes are told by, if there are any.
    numbers: Option<Numbers>,
    /// Which frames have no memory, where their pages' bytes may be elsewhere.
    bare: BareFrames,
    /// All of it was touched when it was reserved.
    is_touched: bool,
    /// Distinguishes this process's arenas from each other; never reused.
    id: u32,
}

impl FrameArena {
    /// Reserves memory for `nr_frames` frames of one base page, 2 MiB aligned and zero.
    ///
    /// # Errors
    /// [`ReserveError`], with the numbers. # Cost: one `mmap`, 4 bytes a frame, and the touching.
    pub fn reserve(nr_frames: u32, options: ArenaOptions) -> Result<FrameArena, ReserveError> {
        FrameArena::reserve_on(nr_frames, &[], options)
    }

    /// As [`FrameArena::reserve`]; the memory of each `place` comes from its node alone, the rest
    /// from where the system pleases.
    ///
    /// # Errors
    /// [`ReserveError`], with the numbers. Panics where a place leaves the arena.
    pub fn reserve_on(
        nr_frames: u32,
        places: &[Placement],
        options: ArenaOptions,
    ) -> Result<FrameArena, ReserveError> {
        FrameArena::reserve_by(nr_frames, places, options, FrameMemory::reserve)
    }

    /// As [`FrameArena::reserve`]; other processes can be given [views](crate::shared::FrameView)
    /// of the frames.
    ///
    /// # Errors
    /// [`ReserveError`], with the numbers.
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

    /// An arena over what `reserve` makes of the number of frames and the wish for huge pages.
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

    /// Frames in the arena, claimed or not.
    pub fn nr_frames(&self) -> u32 {
        self.memory.nr_frames()
    }

    /// Bytes of the arena the kernel holds memory for right now: `mincore` over all of it.
    ///
    /// # Cost
    /// About 10 ns a frame.
    pub fn count_resident_bytes(&self) -> u64 {
        self.memory.count_resident_bytes()
    }

    /// Blocks of 2 MiB that become huge pages only by [`FrameArena::collapse`] and
    /// [`FrameArena::make_huge`]: those of an arena
    /// that other processes may look at, and that is to be of huge pages. Private memory becomes
    /// huge as it is touched.
    pub fn nr_to_collapse(&self) -> u32 {
        self.memory.nr_to_collapse()
    }

    /// Makes a huge page of the 2 MiB that begin with frame `512 * block`, if all of them are in
    /// memory; returns whether they are. Contents stay what they are, for all processes that look
    /// at them. Nothing happens where the system has no huge page (`MADV_COLLAPSE`, Linux 6.1).
    ///
    /// # Cost
    /// 3 us to see that a frame is missing, else 0.2 to 5 ms.
    pub fn collapse(&self, block: u32) -> bool {
        self.memory.collapse(block)
    }

    /// Makes huge pages of the blocks that `frames` lie in, if they are among
    /// [these](Self::nr_to_collapse), before they are used for the first time: once for each, and
    /// again after a part of it was [taken again](Self::take_again). What was in them stays. Where
    /// huge pages come slowly, most blocks are left to small ones.
    ///
    /// # Cost
    /// As long as 2 MiB take to clear, and 0.1 ms: less than to touch 512 frames one by one. Once
    /// made, a load.
    pub fn make_huge(&self, frames: Range<FrameId>) {
        self.memory.make_huge(frames.start.0..frames.end.0);
    }

    /// Takes `frame` for the caller alone, to be used.
    ///
    /// # Errors
    /// [`ClaimError`]: the frame was chosen wrongly; nothing was changed.
    pub fn claim(&self, frame: FrameId) -> Result<ClaimedFrame, ClaimError> {
        let Some(entry) = self.versions.get(frame.0 as usize) else {
            return Err(ClaimError::OutOfRange { frame, nr_frames: self.nr_frames() });
        };
        // Acquire: what the last owner did to the frame happened before its release.
        let before = entry.fetch_or(CLAIMED, Ordering::Acquire);
        if before & CLAIMED != 0 {
            return Err(ClaimError::AlreadyClaimed { frame });
        }
        Ok(ClaimedFrame { frame, version: before, arena: self.id })
    }

    /// Gives a frame up, and returns its id for the page allocator. Its contents stay as they are.
    ///
    /// Panics when the frame was claimed from another arena.
    pub fn release(&self, claimed: ClaimedFrame) -> FrameId {
        let (frame, version) = claimed.into_parts(self);
        // Release: pairs with the next claim. A plain store will do: S3, nothing else may write it
        // but failing claims, which set a bit that is set already.
        let entry = &self.versions[frame.0 as usize];
        let before = entry.swap(version & VERSION_MASK, Ordering::Release);
        assert!(before & CLAIMED != 0, "S3: {frame} was claimed until now");
        frame
    }

    /// Where `frame` begins in memory. Having the address is no right to what is there.
    ///
    /// Panics when the arena has no such frame.
    pub fn address(&self, frame: FrameId) -> *mut u8 {
        assert!(frame.0 < self.nr_frames(), "{frame} is outside the arena");
        self.memory.frame_ptr(frame.0)
    }

    /// Starts bringing the line at `offset` of `frame` into the processor's cache, if there is such
    /// a frame. Costs a few cycles, and changes nothing but time.
    #[inline]
    pub fn fetch(&self, frame: FrameId, offset: usize) {
        self.memory.fetch(frame.0, offset);
    }

    /// Starts bringing in what tells other processes of page `index` of the file that has the tag:
    /// some pages ahead of its [`install`](crate::Lock::install). Costs a few cycles, and changes
    /// nothing but time.
    #[inline]
    pub fn fetch_hints(&self, tag: u32, index: PageIndex) {
        if let Some(numbers) = &self.numbers {
            numbers.fetch_hints(tag, index);
        }
    }

    /// Copies bytes of `frame` from `offset` to `target`; they mean something only if a
    /// [`ReadTicket`](crate::ReadTicket) taken before still holds afterwards.
    ///
    /// Panics when the range leaves the frame. Takes no lock and writes nothing shared.
    #[inline]
    pub fn read(&self, frame: FrameId, offset: usize, target: &mut [u8]) {
        self.memory.read(frame.0, offset, target);
    }

    /// The two files that a [view](crate::shared::FrameView) of the frames is made of: the frames'
    /// and their numbers'. `None` unless the arena was reserved to be shared.
    pub fn shared_files(&self) -> Option<[BorrowedFd<'_>; 2]> {
        Some([self.memory.file()?, self.numbers.as_ref()?.file()])
    }

    /// What other processes are told by, if there are any.
    #[inline]
    pub(crate) fn numbers(&self) -> Option<&Numbers> {
        self.numbers.as_ref()
    }

    /// The contents of `frame` may change from here on, or be another page's.
    #[inline]
    pub(crate) fn begin_change(&self, frame: Option<FrameId>) {
        if let (Some(numbers), Some(frame)) = (&self.numbers, frame) {
            numbers.begin(frame.0);
        }
    }

    /// The contents of `frame` are a page's again.
    #[inline]
    pub(crate) fn end_change(&self, frame: Option<FrameId>) {
        if let (Some(numbers), Some(frame)) = (&self.numbers, frame) {
            numbers.end(frame.0);
        }
    }

    /// `frame`, whose contents are being changed, is to be page `index` of the file that has the
    /// tag.
    #[inline]
    pub(crate) fn name(&self, frame: FrameId, tag: u32, index: PageIndex) {
        if let Some(numbers) = &self.numbers {
            numbers.name(frame.0, tag, index);
        }
    }

    /// `frame`, whose contents are being changed, is no page.
    #[inline]
    pub(crate) fn unname(&self, frame: FrameId) {
        if let Some(numbers) = &self.numbers {
            numbers.unname(frame.0);
        }
    }

    /// Whether other processes are told of frames.
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

/// What the kernel says can be had without swapping; `None` where it does not say.
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
