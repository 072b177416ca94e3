//! The hottest frames of a CPU, kept in the lists' own cache lines.
//!
//! **Problem.** Eight frame words share a cache line, and neighbours go to different CPUs. A CPU
//! that takes and returns a few frames contends for the line, at three times the cost of a hit.
//!
//! **Idea.** A short array holds the last base frames freed, the hot end of their list. The words
//! stay `Allocated`, so the lines stay shared.
//!
//! ```text
//!   free --> [ f0 f1 f2 . ] --> alloc      words stay Allocated
//!              | full: the older half       words become InPcp, with links
//!              v
//!            [hot . . . . cold]             the list behind it
//! ```
//!
//! **Data and invariants.** Coldest first, this CPU's frames only, each once. Other CPUs see the
//! frames as allocated, which the zone treats like `InPcp`.
//!
//! **Ignored.** A double free on two CPUs, while hot on both, is detected only when the frame moves
//! to a list.
//!
//! **Source.** Original. Linux has a line per frame descriptor, at eight times the cost.

use super::{FrameTable, HOT_LIST, Kind, Pcp};
use crate::ids::{FrameId, Order};
use crate::page_alloc::FrameState;

/// Frames kept. More would lengthen the search.
const HOT_FRAMES: usize = 8;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct HotFrames {
    /// [`NONE`] beyond `nr_frames`.
    frames: [u32; HOT_FRAMES],
    nr_frames: u8,
}

impl HotFrames {
    pub(super) const EMPTY: HotFrames = HotFrames { frames: [NONE; HOT_FRAMES], nr_frames: 0 };

    #[inline]
    pub(super) fn pop(&mut self) -> Option<FrameId> {
        let last = self.nr_frames.checked_sub(1)?;
        let slot = self.frames.get_mut(usize::from(last))?;
        self.nr_frames = last;
        Some(FrameId(core::mem::replace(slot, NONE)))
    }

    /// Adds `frame` as the hottest. The array must not be full.
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

    pub(super) fn take_older_half(&mut self) -> impl Iterator<Item = FrameId> + use<> {
        let nr_taken = self.frames().len().div_ceil(2);
        let older = self.frames;
        self.frames = [NONE; HOT_FRAMES];
        let younger = &older[nr_taken..usize::from(self.nr_frames)];
        self.frames[..younger.len()].copy_from_slice(younger);
        self.nr_frames -= nr_taken as u8;
        older.into_iter().take(nr_taken).map(FrameId)
    }

    pub(super) fn frames(&self) -> &[u32] {
        &self.frames[..usize::from(self.nr_frames)]
    }
}

impl Pcp {
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

    /// Moves the older half to the head of the list.
    #[cold]
    #[inline(never)]
    fn cool_half(&mut self, table: &FrameTable) {
        for frame in self.hot.take_older_half() {
            table.assert_allocated(frame, Order::BASE);
            self.lists[HOT_LIST].push_head(table, frame, Kind::InPcp, Order::BASE);
        }
    }

    /// Moves all frames, before a drain from the tail.
    pub(super) fn cool_all(&mut self, table: &FrameTable) {
        while !self.hot.is_empty() {
            self.cool_half(table);
        }
    }

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
