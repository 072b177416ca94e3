//! How many pages a trace of so many bytes can be of.
//!
//! Problem: a line of forty bytes may ask for 64 GiB, and a program that keeps the entries runs out
//! of memory over a file of a few kilobytes. Idea: each byte accounts for so many pages, and a
//! trace that claims more is damaged, or of another format.
//!
//! ```text
//!   pages of all requests so far  <=  PAGES_ALLOWED + PAGES_A_BYTE x bytes read so far
//! ```
//!
//! So entries take memory by the length of the file. A request of 160 MiB a line is read, and of 4
//! GiB in a file of any length.
//!
//! Ignored: compression; the bytes are those of the decompressed file.

use super::input::BytesRead;
use super::{Request, TraceError};

/// What a trace of any length may be of: 4 GiB.
pub const PAGES_ALLOWED: u64 = 1 << 20;
/// And for each of its bytes so many more: 4 MiB.
pub const PAGES_A_BYTE: u64 = 1 << 10;

/// What a trace has claimed so far.
pub(super) struct Claim {
    bytes_read: BytesRead,
    nr_pages: u64,
    /// As many were allowed when it was asked last.
    nr_allowed: u64,
}

impl Claim {
    pub(super) fn new(bytes_read: BytesRead) -> Claim {
        Claim { bytes_read, nr_pages: 0, nr_allowed: PAGES_ALLOWED }
    }

    /// Adds a request's pages.
    ///
    /// # Errors
    /// [`TraceError::TooManyPages`].
    #[inline]
    pub(super) fn add(&mut self, request: &Request) -> Result<(), TraceError> {
        self.nr_pages = self.nr_pages.saturating_add(request.nr_pages);
        if self.nr_pages <= self.nr_allowed {
            return Ok(());
        }
        let bytes = self.bytes_read.get();
        self.nr_allowed = PAGES_ALLOWED.saturating_add(bytes.saturating_mul(PAGES_A_BYTE));
        if self.nr_pages > self.nr_allowed {
            return Err(TraceError::TooManyPages { pages: self.nr_pages, bytes });
        }
        Ok(())
    }
}
