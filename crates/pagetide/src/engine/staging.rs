//! Contiguous buffers for scattered reads. Problem: a device needs a descriptor for each piece of
//! memory. Idea: read into a buffer and copy.
//!
//! ```text
//!   device --one piece--> [ 512 KiB ] --copy--> scattered frames
//! ```
//!
//! The buffers are in a huge page, allocated at first use, and take [`staging_bytes`] beyond the
//! limit. If all are in flight, the next request is read into its frames directly.
//!
//! Ignored: systems without huge pages, where a buffer is scattered itself.

use pagetide_core::ids::FrameId;
use pagetide_core::readahead::{is_scattered, staging_bytes};
use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::huge_buffer::{HugeBuffer, HugePart};
use pagetide_sys::{Lock, WordRef};

pub(crate) struct Staging {
    idle: Vec<HugePart>,
    /// Buffers in flight.
    nr_out: usize,
    /// Buffers to be allocated.
    nr_unmade: usize,
    len: usize,
}

impl Staging {
    /// `nr_pages` is the longest request.
    pub(crate) fn new(nr_frames: u64, nr_pages: u64) -> Staging {
        let len = nr_pages as usize * PAGE_BYTES;
        Staging {
            idle: Vec::new(),
            nr_out: 0,
            nr_unmade: staging_bytes(nr_frames) as usize / len,
            len,
        }
    }

    pub(crate) fn has_any(&self) -> bool {
        self.nr_unmade > 0 || !self.idle.is_empty()
    }

    /// Returns true if a buffer will be available after a read completes.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.has_any() && self.nr_out > 0
    }

    /// Takes a buffer for a request if its frames are scattered, or if `wanted`.
    pub(crate) fn take_for(&mut self, pages: &[Lock<WordRef>], wanted: bool) -> Option<HugePart> {
        if !wanted && !is_scattered(pages.len(), nr_pieces(pages)) {
            return None;
        }
        // After a failed allocation there is no second attempt.
        let nr_unmade = std::mem::take(&mut self.nr_unmade);
        if nr_unmade > 0
            && let Ok(buffer) = HugeBuffer::new(nr_unmade * self.len)
        {
            self.idle = buffer.into_parts(self.len);
        }
        let part = self.idle.pop()?;
        self.nr_out += 1;
        Some(part)
    }

    pub(crate) fn give_back(&mut self, part: HugePart) {
        self.nr_out -= 1;
        self.idle.push(part);
    }
}

/// Returns the number of contiguous runs of frames.
fn nr_pieces(pages: &[Lock<WordRef>]) -> usize {
    let follows = |pair: &[Lock<WordRef>]| {
        let [one, next] = [0, 1].map(|nth| pair[nth].frame());
        next == one.map(|frame| FrameId(frame.0 + 1))
    };
    pages.len() - pages.windows(2).filter(|pair| follows(pair)).count()
}
