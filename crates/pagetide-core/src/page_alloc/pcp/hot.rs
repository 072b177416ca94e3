//! The hottest frames of a CPU, kept in the lists' own lines.
//!
//! **Problem.** A frame's word shares its cache line with its neighbours' (eight words a line), and
//! neighbours go to different CPUs: a fresh zone gives CPU 0 frames 0 to 2 and CPU 1 frames 3 to 5.
//! A CPU that takes and returns the same few frames, and writes their words each time, then fights
//! over the line with another that does the same: three times the cost of the whole hit, measured.
//!
//! **Idea.** The last few base frames that came back are in a short array, the hot end of
//! their list. Going in and coming out they keep the word they had: `Allocated`. A line that is
//! only read is in every CPU's cache.
//!
//! ```text
//!   free --> [ f0 f1 f2 . ] --> alloc      words stay Allocated
//!              | full: the older half       words become InPcp, with links
//!              v
//!            [hot . . . . cold]             the list behind it
//! ```
//!
//! **Data and invariants.** The coldest first; this CPU's frames alone, each once. A look at
//! another CPU's frame sees it as handed out, as it was last. That is what the zone makes of
//! `InPcp` too.
//!
//! **Ignored.** A frame freed twice, on two CPUs, while it is hot on both: it is found when one of
//! them moves it on to its list, and not before. Freed twice on one CPU, it is found at once.
//!
//! Source: our own. Linux has a line for each frame's descriptor, which costs eight times as much.

use super::{FrameTable, HOT_LIST, Kind, Pcp};
use crate::ids::{FrameId, Order};
use crate::page_alloc::FrameState;

/// Frames kept. Those of a few allocations and frees in turn; more would only be searched in vain.
const HOT_FRAMES: usize = 8;

/// No frame has this number.
const NONE: u32 = u32::MAX;

/// The frames, coldest first.
#[derive(Debug)]
pub(super) struct HotFrames {
    /// Beyond the first `nr_frames`: [`NONE`].
    frames: [u32; HOT_FRAMES],
    nr_frames: u8,
}

impl HotFrames {
    pub(super) const EMPTY: HotFrames = HotFrames { frames: [NONE; HOT_FRAMES], nr_frames: 0 };

    /// Takes the hottest.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<FrameId> {
        let last = self.nr_frames.checked_sub(1)?;
        let slot = self.frames.get_mut(usize::from(last))?;
        self.nr_frames = last;
        Some(FrameId(core::mem::replace(slot, NONE)))
    }

    /// Makes `frame` the hottest, where there is room.
    #[inline]
    fn push(&mut self, frame: FrameId) {
        self.frames[usize::from(self.nr_frames)] = frame.0;
        self.nr_frames += 1;
    }

    #[inline]
    fn is_full(&self) -> bool {
        usize::from(self.nr_frames) == HOT_FRAMES
    }

    #[inline]
    pub(super) fn contains(&self, frame: FrameId) -> bool {
        self.frames.contains(&frame.0)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.nr_frames == 0
    }

    /// Takes the older half, or the only one.
    pub(super) fn take_older_half(&mut self) -> impl Iterator<Item = FrameId> + use<> {
        let nr_taken = self.frames().len().div_ceil(2);
        let older = self.frames;
        self.frames = [NONE; HOT_FRAMES];
        let younger = &older[nr_taken..usize::from(self.nr_frames)];
        self.frames[..younger.len()].copy_from_slice(younger);
        self.nr_frames -= nr_taken as u8;
        older.into_iter().take(nr_taken).map(FrameId)
    }

    /// All of them, coldest first.
    pub(super) fn frames(&self) -> &[u32] {
        &self.frames[..usize::from(self.nr_frames)]
    }
}

impl Pcp {
    /// Puts a frame before the head of its list.
    #[inline]
    pub(super) fn keep_hot(&mut self, table: &FrameTable, frame: FrameId) {
        if self.hot.contains(frame) {
            refuse_hot(frame);
        }
        self.push_hot(table, frame);
    }

    #[inline]
    pub(super) fn push_hot(&mut self, table: &FrameTable, frame: FrameId) {
        if self.hot.is_full() {
            self.cool_half(table);
        }
        self.hot.push(frame);
    }

    /// Moves the older half of the hot frames to the head of their list.
    #[cold]
    #[inline(never)]
    fn cool_half(&mut self, table: &FrameTable) {
        for frame in self.hot.take_older_half() {
            table.assert_allocated(frame, Order::BASE);
            self.lists[HOT_LIST].push_head(table, frame, Kind::InPcp, Order::BASE);
        }
    }

    /// Moves all of them: before the list is drained from its tail.
    pub(super) fn cool_all(&mut self, table: &FrameTable) {
        while !self.hot.is_empty() {
            self.cool_half(table);
        }
    }

    /// How many there are.
    pub(super) fn validate_hot(&self, table: &FrameTable) -> u32 {
        let frames = self.hot.frames();
        for (nth, frame) in frames.iter().enumerate() {
            let state = table.state(FrameId(*frame));
            assert!(matches!(state, FrameState::Allocated(Order::BASE)), "a hot {state:?}");
            assert!(!frames[..nth].contains(frame), "{} is hot twice", FrameId(*frame));
        }
        frames.len() as u32
    }
}

#[cold]
fn refuse_hot(frame: FrameId) -> ! {
    panic!("double free: {frame} is on a per-CPU list already")
}
