//! Frames that hold a page but have no memory, because the page's bytes are elsewhere.
//!
//! **Problem.** A page must be in memory once, so its frame's memory is freed. Freeing absent
//! memory costs as much as freeing present memory. **Idea.** Remember empty frames.
//!
//! **Data and invariants.** One number per frame: how often in a row its memory was freed. At
//! [`TIMES`] the frame is empty: after the first time, another process may still read the frame,
//! which brings back zeros. Wrong numbers only waste memory or time. Only the frame's owner changes
//! its number.
//!
//! **Ignored.** Unused frames that were never freed.

use super::FrameArena;
use once_cell::race::OnceBox;
use pagetide_core::ids::FrameId;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

const TIMES: u8 = 2;

/// Empty if all frames have memory.
#[derive(Default)]
pub(super) struct BareFrames(OnceBox<Box<[AtomicU8]>>);

impl BareFrames {
    fn times(&self, frame: u32) -> Option<&AtomicU8> {
        self.0.get()?.get(frame as usize)
    }
}

impl FrameArena {
    #[inline]
    pub(crate) fn note_memory_used(&self, frame: FrameId) {
        if let Some(times) = self.bare.times(frame.0)
            && times.load(Relaxed) > 0
        {
            times.store(0, Relaxed);
        }
    }

    pub(crate) fn expect_bare_frames(&self) {
        let all = || (0..self.nr_frames()).map(|_| AtomicU8::new(0)).collect();
        self.bare.0.get_or_init(|| Box::new(all()));
    }

    /// No other process may read the frame.
    pub(crate) fn note_memory_gone(&self, frame: u32) {
        if let Some(times) = self.bare.times(frame) {
            times.store(TIMES, Relaxed);
        }
    }

    pub(crate) fn is_bare(&self, frame: u32) -> bool {
        self.bare.times(frame).is_some_and(|times| times.load(Relaxed) >= TIMES)
    }

    /// Frees the memory of frames with pages stored elsewhere, skipping empty frames.
    ///
    /// # Safety
    /// S4: the caller owns all frames exclusively, and their contents are not needed.
    ///
    /// # Cost
    /// One system call per run of frames with memory.
    pub(crate) unsafe fn give_back_memory(&self, frames: &mut [u32]) {
        frames.sort_unstable();
        let mut run = 0..0;
        let give = |run: &Range<u32>| {
            if !run.is_empty() {
                // SAFETY: S4, by the caller's word. On failure, the memory is counted twice until
                // the frame is used again.
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
