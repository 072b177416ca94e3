//! A limit on the pages that a trace may claim, by its length.
//!
//! Problem: a line of forty bytes may ask for 64 GiB. A program that keeps the entries then runs
//! out of memory over a file of a few kilobytes. Idea: each byte of the trace allows a number of
//! pages. A trace that claims more pages is damaged, or of another format.
//!
//! ```text
//!   pages of all requests so far  <=  PAGES_ALLOWED + PAGES_A_BYTE x bytes read so far
//! ```
//!
//! The limit ties the memory for entries to the length of the file. A request of 160 MiB on each
//! line is accepted, and so is one request of 4 GiB in a file of any length.
//!
//! Ignored: compression. The counted bytes are decompressed bytes.

use super::input::BytesRead;
use super::{Request, TraceError};

/// Pages that a trace of any length may claim: 4 GiB.
pub const PAGES_ALLOWED: u64 = 1 << 20;
/// Pages that each byte of the trace allows in addition: 4 MiB.
pub const PAGES_A_BYTE: u64 = 1 << 10;

/// The pages that a trace has claimed so far.
pub(super) struct Claim {
    bytes_read: BytesRead,
    nr_pages: u64,
    /// The limit in pages, as of the last calculation.
    nr_allowed: u64,
}

impl Claim {
    pub(super) fn new(bytes_read: BytesRead) -> Claim {
        Claim { bytes_read, nr_pages: 0, nr_allowed: PAGES_ALLOWED }
    }

    /// Adds a request's pages.
    ///
    /// # Errors
    /// Fails with [`TraceError::TooManyPages`] if the trace now claims more pages than its length
    /// allows.
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
