//! A request of a trace: some pages used together at one time.
//!
//! ```text
//!   a line or record --> Request { mapping, first, nr_pages, kind, thread, at } --> accesses
//! ```

use super::LineProblem;
use super::digits::whole;
use pagetide_core::ids::{MappingId, PageId, PageIndex};
use pagetide_core::record::AccessKind;
use pagetide_core::units::PAGE_SHIFT;

/// Maximum pages in one request: 64 GiB. More means a damaged trace.
const REQUEST_PAGES_MAX: u64 = 1 << 24;

/// Some consecutive pages of one mapping, used together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) mapping: MappingId,
    pub(super) first: u64,
    pub(super) nr_pages: u64,
    pub(super) kind: AccessKind,
    pub(super) thread: u32,
    pub(super) at: Option<Micros>,
}

/// Microseconds of the trace's clock, from an arbitrary start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Micros(pub(super) u64);

impl Micros {
    pub(super) fn from_secs(secs: u64) -> Micros {
        Micros(secs.saturating_mul(1_000_000))
    }

    /// Parses seconds, whole or with a fraction. Returns `None` if the text is not a number.
    pub(super) fn parse_secs(text: impl AsRef<[u8]>) -> Option<Micros> {
        let text = text.as_ref();
        let parse = || str::from_utf8(text).ok()?.trim().parse().ok();
        // The cast saturates: an out-of-range time counts as the largest time.
        let rounded = |secs: f64| secs.is_finite().then(|| Micros((secs * 1e6).round() as u64));
        whole(text).map(Micros::from_secs).or_else(|| parse().and_then(rounded))
    }

    pub(super) fn from_millis(millis: u64) -> Micros {
        Micros(millis.saturating_mul(1000))
    }
}

impl Request {
    /// Returns a request of one page of mapping 0 by thread 0.
    pub(super) fn page(index: u64, kind: AccessKind) -> Request {
        Request { mapping: MappingId(0), first: index, nr_pages: 1, kind, thread: 0, at: None }
    }

    pub(super) fn at(self, at: Option<Micros>) -> Request {
        Request { at, ..self }
    }

    pub(super) fn page_at(&self, nth: u64) -> PageId {
        PageId { mapping: self.mapping, index: PageIndex(self.first.wrapping_add(nth)) }
    }

    pub(super) fn pages(
        mapping: MappingId,
        first: u64,
        nr_pages: u64,
        kind: AccessKind,
    ) -> Result<Request, LineProblem> {
        let is_sane = nr_pages <= REQUEST_PAGES_MAX && first.checked_add(nr_pages).is_some();
        let request = Request { mapping, first, nr_pages, kind, thread: 0, at: None };
        if is_sane { Ok(request) } else { Err(LineProblem::TooManyPages) }
    }

    /// Returns a request of the pages that hold `len_bytes` bytes from `offset_bytes`. A length of
    /// 0 gives no pages.
    pub(super) fn bytes(
        mapping: MappingId,
        offset_bytes: u64,
        len_bytes: u64,
        kind: AccessKind,
    ) -> Result<Request, LineProblem> {
        if len_bytes == 0 {
            return Request::pages(mapping, 0, 0, kind);
        }
        let last_byte = offset_bytes.checked_add(len_bytes - 1).ok_or(LineProblem::TooManyPages)?;
        let first = offset_bytes >> PAGE_SHIFT;
        Request::pages(mapping, first, (last_byte >> PAGE_SHIFT) - first + 1, kind)
    }
}
