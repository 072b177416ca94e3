//! Huge pages of an arena that others look at: made ahead of use, and for runs of many frames.
//!
//! What is made when: `memory/frames/huge.rs`.

use super::FrameArena;
use pagetide_core::ids::FrameId;
use std::ops::Range;

impl FrameArena {
    /// Whether [`FrameArena::grow`] is of use: of an arena that others may look at, and that is to
    /// be of huge pages. All others get theirs as they are touched.
    pub fn can_grow(&self) -> bool {
        self.memory.can_grow()
    }

    /// Whether frames have come into use since the last question, and there may be more to make.
    #[inline]
    pub fn wants_growth(&self) -> bool {
        self.memory.wants_growth()
    }

    /// Makes huge pages ahead of the frames in use, 8 MiB at most; returns whether there may be
    /// more to make now.
    ///
    /// # Cost
    /// 0.1 to 5 ms for 2 MiB. The use of a frame there meanwhile waits.
    pub fn grow(&self) -> bool {
        self.memory.grow()
    }

    /// Makes huge pages of what these frames lie in, if [`FrameArena::can_grow`], where it is
    /// neither in use nor being made; waits where it is being made.
    ///
    /// # Cost
    /// As [`FrameArena::grow`] for each 2 MiB that was never used before; else a load.
    pub fn make_huge(&self, frames: Range<FrameId>) {
        self.memory.make_huge(frames.start.0..frames.end.0);
    }
}
