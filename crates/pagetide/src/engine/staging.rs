//! Memory in a row that scattered reads go through.
//!
//! Problem: a stream that goes round in a few frames finds them scattered, and a device takes a
//! descriptor for each piece of memory. Idea: a few buffers of a request's length, in a huge page
//! beside the frames; a request whose frames are scattered goes through one of them, and is copied.
//!
//! ```text
//!   device --one piece--> [ 512 KiB ] --copy--> frames, wherever they are
//! ```
//!
//! They are made when the first request wants one, and are [`staging_bytes`] beside the limit. When
//! all are on their way, the next request goes straight to its frames.
//!
//! Ignored: systems without huge pages, where a buffer is scattered itself.

use pagetide_core::ids::FrameId;
use pagetide_core::readahead::{is_scattered, staging_bytes};
use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::huge_buffer::{HugeBuffer, HugePart};
use pagetide_sys::{Lock, WordRef};

/// The buffers that are not on their way.
pub(crate) struct Staging {
    idle: Vec<HugePart>,
    /// Buffers that are on their way.
    nr_out: usize,
    /// Buffers that have not been made yet.
    nr_unmade: usize,
    /// Bytes of a buffer.
    len: usize,
}

impl Staging {
    /// For requests of at most `nr_pages`, in a memory of `nr_frames`.
    pub(crate) fn new(nr_frames: u64, nr_pages: u64) -> Staging {
        let len = nr_pages as usize * PAGE_BYTES;
        Staging {
            idle: Vec::new(),
            nr_out: 0,
            nr_unmade: staging_bytes(nr_frames) as usize / len,
            len,
        }
    }

    /// Whether there may be a buffer for the next request.
    pub(crate) fn has_any(&self) -> bool {
        self.nr_unmade > 0 || !self.idle.is_empty()
    }

    /// Whether there is none now, and will be once one comes back.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.has_any() && self.nr_out > 0
    }

    /// A buffer for a request for these pages, if it is better off with one, or `wanted` all the
    /// same.
    pub(crate) fn take_for(&mut self, pages: &[Lock<WordRef>], wanted: bool) -> Option<HugePart> {
        if !wanted && !is_scattered(pages.len(), nr_pieces(pages)) {
            return None;
        }
        // Where the machine has no memory to give, it is not asked again.
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

    /// Takes a buffer back.
    pub(crate) fn give_back(&mut self, part: HugePart) {
        self.nr_out -= 1;
        self.idle.push(part);
    }
}

/// Pieces of memory that the pages' frames are.
fn nr_pieces(pages: &[Lock<WordRef>]) -> usize {
    let follows = |pair: &[Lock<WordRef>]| {
        let [one, next] = [0, 1].map(|nth| pair[nth].frame());
        next == one.map(|frame| FrameId(frame.0 + 1))
    };
    pages.len() - pages.windows(2).filter(|pair| follows(pair)).count()
}
