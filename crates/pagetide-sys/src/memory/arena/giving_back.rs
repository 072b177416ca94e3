//! Memory of frames that are not in use: given back to the system, and taken again.
//!
//! What must not come again by itself, and how that is seen to: `memory/frames/given_back.rs`.

use super::{ClaimedFrame, FrameArena};
use pagetide_core::ids::FrameId;
use std::io;
use std::ops::Range;

impl FrameArena {
    /// Gives the memory of the unclaimed frames in `frames` back to the system; returns how many.
    ///
    /// Frames that are claimed are skipped. The frames stay usable: the next access finds zeros,
    /// and memory comes back. Until then it does not, whatever huge pages their neighbours could be
    /// part of. Used when the limit is lowered.
    ///
    /// # Errors
    /// What `madvise` said; the frames are unclaimed again.
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

    /// Gives the memory of a claimed frame back to the system, where pages have theirs elsewhere.
    ///
    /// Panics when the frame was claimed from another arena.
    pub fn empty(&self, claimed: &mut ClaimedFrame) {
        assert_eq!(claimed.arena, self.id, "S3: claimed from another arena");
        let frame = claimed.frame.0;
        // SAFETY: S3 (one claim a frame), S4: by `&mut`, it is the caller's alone.
        if unsafe { self.memory.empty(frame..frame + 1) }.is_ok() {
            self.note_memory_gone(frame);
        }
    }

    /// Frames that are not in service yet, and are to have no memory before they are: not as parts
    /// of huge pages, nor by pre-touching.
    pub fn withhold(&self, frames: Range<FrameId>) {
        if self.is_touched {
            // Memory that cannot be given back stays, as it does when the limit is lowered.
            let _ = self.discard(frames);
        } else {
            self.memory.withhold(frames.start.0..frames.end.0);
        }
    }

    /// Frames that were [discarded](Self::discard) or [withheld](Self::withhold) are in service:
    /// their memory may be of huge pages again, once that of all their neighbours may.
    pub fn take_again(&self, frames: Range<FrameId>) {
        self.memory.take_again(frames.start.0..frames.end.0);
    }

    /// Discards a contiguous run of claimed frames, and releases them.
    fn discard_run(&self, run: &mut Vec<ClaimedFrame>) -> io::Result<u32> {
        let (Some(first), nr_frames) = (run.first(), run.len() as u32) else { return Ok(0) };
        let start = first.frame.0;
        // SAFETY: S3 (one claim a frame): all of them are in `run`, which this function was given.
        let result = unsafe { self.memory.discard(start..start + nr_frames) };
        for claimed in run.drain(..) {
            self.release(claimed);
        }
        result.map(|()| nr_frames)
    }
}
