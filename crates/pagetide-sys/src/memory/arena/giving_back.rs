//! Frees the memory of unused frames, and takes it again.
//!
//! `memory/frames/given_back.rs` keeps the memory from coming back by itself.

use super::{ClaimedFrame, FrameArena};
use pagetide_core::ids::FrameId;
use std::io;
use std::ops::Range;

impl FrameArena {
    /// Frees the memory of the unclaimed frames in `frames`, and returns their number.
    ///
    /// Claimed frames are skipped. The next access reads zeros, and allocates memory. Huge pages of
    /// neighbours do not. Used when the limit is lowered.
    ///
    /// # Errors
    /// Fails with the error of `madvise`. The frames are unclaimed again.
    pub fn discard(&self, frames: Range<FrameId>) -> io::Result<u32> {
        let end = frames.end.0.min(self.nr_frames());
        let mut discarded = 0;
        let mut run: Vec<ClaimedFrame> = Vec::new();
        for frame in frames.start.0..end.max(frames.start.0) {
            match self.claim(FrameId(frame)) {
                Ok(claimed) => run.push(claimed),
                Err(_) => discarded += self.discard_run(&mut run)?,
            }
        }
        Ok(discarded + self.discard_run(&mut run)?)
    }

    /// Frees the memory of a claimed frame with its page stored elsewhere.
    ///
    /// Panics if the frame was claimed from another arena.
    pub fn empty(&self, claimed: &mut ClaimedFrame) {
        assert_eq!(claimed.arena, self.id, "S3: claimed from another arena");
        let frame = claimed.frame.0;
        // SAFETY: S3 (one claim a frame), S4: `&mut` makes the frame exclusively the caller's.
        if unsafe { self.memory.empty(frame..frame + 1) }.is_ok() {
            self.note_memory_gone(frame);
        }
    }

    /// Keeps memory from frames before they are in service, by huge pages or pre-touching.
    pub fn withhold(&self, frames: Range<FrameId>) {
        if self.is_touched {
            let _ = self.discard(frames);
        } else {
            self.memory.withhold(frames.start.0..frames.end.0);
        }
    }

    /// Puts frames in service that were [discarded](Self::discard) or [withheld](Self::withhold).
    /// Huge pages may cover them again once all their neighbours are in service.
    pub fn take_again(&self, frames: Range<FrameId>) {
        self.memory.take_again(frames.start.0..frames.end.0);
    }

    fn discard_run(&self, run: &mut Vec<ClaimedFrame>) -> io::Result<u32> {
        let (Some(first), nr_frames) = (run.first(), run.len() as u32) else { return Ok(0) };
        let start = first.frame.0;
        // SAFETY: S3 (one claim a frame): `run` holds all of them, and belongs to this function.
        let result = unsafe { self.memory.discard(start..start + nr_frames) };
        for claimed in run.drain(..) {
            self.release(claimed);
        }
        result.map(|()| nr_frames)
    }
}
