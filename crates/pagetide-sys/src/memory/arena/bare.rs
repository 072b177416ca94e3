//! Frames that hold a page and have no memory of their own, because the page's bytes are elsewhere.
//!
//! **Problem.** Where pages are put into a memory file that other processes map, or before the user
//! of a region, a frame's memory is given back so that no page is counted twice. To give back what
//! is gone already costs as much as to give back what is there. **Idea.** It is remembered.
//!
//! **Data and invariants.** A number a frame: how often in a row its memory was given back since it
//! was last used. At [`TIMES`] there is none: the first time, another process may still be looking
//! at the frame, which fills it with zeros once more. A wrong number wastes memory or time, and
//! nothing else. Changed by the owner of the frame alone.
//!
//! **Ignored.** Frames that were never used, until they are given back.

use super::FrameArena;
use once_cell::race::OnceBox;
use pagetide_core::ids::FrameId;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// After so often it is gone.
const TIMES: u8 = 2;

/// What is known of each frame's memory; of no frames where all have theirs.
#[derive(Default)]
pub(super) struct BareFrames(OnceBox<Box<[AtomicU8]>>);

impl BareFrames {
    fn times(&self, frame: u32) -> Option<&AtomicU8> {
        self.0.get()?.get(frame as usize)
    }
}

impl FrameArena {
    /// The frame's memory is about to be written.
    #[inline]
    pub(crate) fn note_memory_used(&self, frame: FrameId) {
        if let Some(times) = self.bare.times(frame.0)
            && times.load(Relaxed) > 0
        {
            times.store(0, Relaxed);
        }
    }

    /// There will be frames without memory of their own.
    pub(crate) fn expect_bare_frames(&self) {
        let all = || (0..self.nr_frames()).map(|_| AtomicU8::new(0)).collect();
        self.bare.0.get_or_init(|| Box::new(all()));
    }

    /// The frame's memory is gone, and no other process looks at it.
    pub(crate) fn note_memory_gone(&self, frame: u32) {
        if let Some(times) = self.bare.times(frame) {
            times.store(TIMES, Relaxed);
        }
    }

    /// Whether the frame is known to have no memory of its own.
    pub(crate) fn is_bare(&self, frame: u32) -> bool {
        self.bare.times(frame).is_some_and(|times| times.load(Relaxed) >= TIMES)
    }

    /// Gives the memory of frames back to the system whose pages' bytes are elsewhere; a frame that
    /// has none is left alone.
    ///
    /// # Safety
    /// S4: the caller owns every one of the frames exclusively, and what is in them is not needed.
    ///
    /// # Cost
    /// A system call for each run of frames that have memory.
    pub(crate) unsafe fn give_back_memory(&self, frames: &mut [u32]) {
        frames.sort_unstable();
        let mut run = 0..0;
        let give = |run: &Range<u32>| {
            if !run.is_empty() {
                // SAFETY: S4, by the caller's word. What cannot be given back is counted twice
                // until the frame is used again.
                let _ = unsafe { self.memory.discard(run.clone()) };
            }
        };
        for &frame in frames.iter().filter(|frame| !self.is_bare(**frame)) {
            if let Some(times) = self.bare.times(frame) {
                times.store(times.load(Relaxed) + 1, Relaxed);
            }
            if frame != run.end {
                give(&run);
                run = frame..frame;
            }
            run.end += 1;
        }
        give(&run);
    }
}
