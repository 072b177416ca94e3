//! A limit on the pages that a trace may claim, by its length.
//!
//! Problem: a small file may claim pages that exhaust memory. Idea: each byte of the trace allows a
//! number of pages. A larger claim means damage, or another format.
//!
//! ```text
//!   pages of all requests so far  <=  PAGES_ALLOWED + PAGES_A_BYTE x bytes read so far
//! ```
//!
//! 160 MiB on each line are accepted, and one request of 4 GiB in any file.
//!
//! Ignored: compression. Decompressed bytes count.

use super::input::BytesRead;
use super::{Request, TraceError};

/// Pages for any trace: 4 GiB.
pub const PAGES_ALLOWED: u64 = 1 << 20;
/// Additional pages for each byte: 4 MiB.
pub const PAGES_A_BYTE: u64 = 1 << 10;

/// The pages that a trace has claimed so far.
pub(super) struct Claim {
    bytes_read: BytesRead,
    nr_pages: u64,
    /// The last calculated limit, in pages.
    nr_allowed: u64,
}

impl Claim {
    pub(super) fn new(bytes_read: BytesRead) -> Claim {
        Claim { bytes_read, nr_pages: 0, nr_allowed: PAGES_ALLOWED }
    }

    /// Adds a request's pages.
    ///
    /// # Errors
    /// Fails with [`TraceError::TooManyPages`] above the limit.
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
