//! Traces: recorded accesses as one stream, whatever the file format.
//!
//! **Problem.** A dozen formats list page accesses. **Idea.**
//!
//! ```text
//!   file -> zstd, gzip, xz? -> which format? -> requests -> split into pages -> Access, ...
//!            input              format         one file      Trace
//!                                              a format
//! ```
//!
//! A reader turns one line or record into one request of consecutive pages. [`Trace`] cuts requests
//! into pages.
//!
//! **Data and invariants.** Memory does not grow with the trace, except for the names of distinct
//! files. A trace ends after its first error, which names the line and column (or the byte of the
//! decompressed file) and the expected value.
//!
//! **Ignored.** Latencies. Request times count from the first request, in whole milliseconds. In
//! block and object traces one id is one page, whatever its size, as in the published miss ratios.
//! Byte offsets (fio, MSR, lackey) are cut into 4 KiB pages.
//!
//! **Sources.** Each reader names its source. The table is in `docs/formats.md`.

mod ahead;
mod arc;
mod blkparse;
mod claim;
#[cfg(test)]
mod claim_tests;
mod compact;
mod convert;
mod csv;
mod decimal;
mod dense;
mod digits;
mod facts;
mod filemap;
mod fio;
mod format;
mod input;
mod lackey;
mod line;
mod mappings;
mod msr;
mod oracle_general;
mod page_ranks;
mod perf_script;
mod raw;
mod request;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod time_tests;
mod vscsi;

pub use claim::{PAGES_A_BYTE, PAGES_ALLOWED};
pub use convert::{ConvertError, Converted, convert};
pub use dense::DenseTrace;
pub use facts::{Facts, ReadaheadUse};
pub use format::{Format, UnknownFormatName};
pub use line::LineProblem;
pub use page_ranks::PageRanks;
pub use pagetide_core::record::{Access, AccessKind, Ending, Header, Note};

use claim::Claim;
use digits::number;
use input::Input;
use line::Wrong;
use pagetide_core::ids::PageType;
use pagetide_core::record::RecordError;
use pagetide_core::units::Millis;
use request::{Micros, Request};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// An error of opening or reading a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("cannot open the trace")]
    Open {
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file cannot be read further, or the compressed data is damaged.
    #[error("cannot read the trace at byte {offset}")]
    Read {
        /// Byte of the decompressed file.
        offset: u64,
        /// The error of the operating system or the decompressor.
        source: io::Error,
    },
    /// The format is unknown. The caller can name it.
    #[error("cannot tell the trace's format from its name or its first bytes")]
    UnknownFormat,
    /// The start of the file contradicts the named format.
    #[error("byte {offset}: this is no {format} trace: expected {expected}")]
    OtherFormat {
        /// The named format.
        format: Format,
        /// Byte of the decompressed file.
        offset: usize,
        /// The expected contents at that byte.
        expected: &'static str,
    },
    /// The file is empty.
    #[error("the trace is empty")]
    Empty,
    /// A malformed line. Check the format, or repair the line.
    #[error("line {line}, column {column}: {problem}")]
    Line {
        /// The line, from 1.
        line: u64,
        /// First byte of the field in the line, from 1.
        column: u64,
        /// The problem of the field.
        problem: LineProblem,
    },
    /// The file ends inside a record of fixed length: an incomplete download, or a wrong format.
    #[error("the trace ends inside the {record_bytes}-byte record at byte {offset}")]
    Cut {
        /// Byte of the record's start.
        offset: u64,
        /// Expected length of the record, in bytes.
        record_bytes: usize,
    },
    /// The requests have too many pages for the length of the trace: damaged, or another format.
    #[error(
        "the first {bytes} bytes of the trace claim {pages} pages, more than {PAGES_A_BYTE} a byte \
         and {PAGES_ALLOWED}: it is damaged, or of another format"
    )]
    TooManyPages {
        /// Pages requested.
        pages: u64,
        /// Decompressed bytes read so far.
        bytes: u64,
    },
    /// A record of fixed length with impossible values: damaged, or another format.
    #[error("the record at byte {offset} makes no sense: too long, or past the end of numbers")]
    Damaged {
        /// Byte of the record's start.
        offset: u64,
    },
    /// A record ends inside an entry. Skipping malformed parts keeps the earlier entries.
    #[error("the record is cut off inside an entry")]
    CutOff,
    /// The trace holds no access.
    #[error("the trace has no accesses")]
    NoAccesses,
    /// A damaged access record.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Requests to read ahead.
const REQUESTS_READY: usize = 256;

trait Source: Send {
    /// Returns the next request, or `None` at the end, on every call. Only a [`TraceError::Line`]
    /// or a [`TraceError::Damaged`] can be skipped by calling again.
    fn next_request(&mut self) -> Result<Option<Request>, TraceError>;

    /// Appends at least one request, except at the end or an error. Requests before an error are
    /// appended first. A batch overlaps the stores of its requests.
    fn append_requests(&mut self, ready: &mut Vec<Request>) -> Result<(), TraceError> {
        for _ in 0..REQUESTS_READY {
            let Some(request) = self.next_request()? else { break };
            ready.push(request);
        }
        Ok(())
    }

    fn header(&self) -> Option<&Header> {
        None
    }

    /// Returns the notes before the last request, or before the end, if the format has notes.
    fn notes(&self) -> &[Note] {
        &[]
    }

    /// Returns the end of the record, if the format has one.
    fn ending(&self) -> Option<Ending> {
        None
    }
}

trait LineParser: Send {
    /// Returns the request on `line` (without the line end), or `None` without one.
    fn parse_line(&mut self, line: &[u8]) -> Result<Option<Request>, Wrong>;

    /// Checks the end of the file, for entries that span lines.
    fn finish(&mut self) -> Result<(), Wrong> {
        Ok(())
    }
}

/// The parser of a line format that is split as text, which doubles the total work.
trait TextParser: Send {
    fn parse_text(&mut self, line: &str) -> Result<Option<Request>, Wrong>;
}

struct Text<P>(P);

impl<P: TextParser> LineParser for Text<P> {
    fn parse_line(&mut self, line: &[u8]) -> Result<Option<Request>, Wrong> {
        self.0.parse_text(str::from_utf8(line).map_err(|_| LineProblem::NotText)?)
    }
}

struct LineSource<P> {
    input: Input,
    parser: P,
}

impl<P: LineParser> Source for LineSource<P> {
    fn next_request(&mut self) -> Result<Option<Request>, TraceError> {
        loop {
            let line = self.input.line_number() + 1;
            let Some(bytes) = self.input.read_line()? else {
                let finished = self.parser.finish().map(|()| None);
                return finished.map_err(|wrong| error_on(line, b"", wrong));
            };
            match self.parser.parse_line(bytes) {
                Ok(None) => {}
                Ok(request) => return Ok(request),
                Err(wrong) => return Err(error_on(line, bytes, wrong)),
            }
        }
    }
}

fn error_on(line: u64, bytes: &[u8], wrong: Wrong) -> TraceError {
    let (problem, column, nr_lines_back) = wrong.locate(bytes);
    TraceError::Line { line: line - nr_lines_back, column, problem }
}

/// An open trace: an iterator of accesses that ends after the first error.
pub struct Trace {
    source: Box<dyn Source>,
    format: Format,
    claim: Claim,
    /// Requests read ahead, never empty. `ready[at]` is in progress with its remaining pages.
    ready: Vec<Request>,
    at: usize,
    failure: Option<TraceError>,
    /// The first time in the trace.
    start: Option<Micros>,
    is_over: bool,
    is_lenient: bool,
    nr_skipped: u64,
}

impl Trace {
    /// Opens the trace at `path`, decompressing zstd, gzip and xz.
    ///
    /// Without `format`, the file name and the first 4 KiB decide. The raw formats have no marker
    /// and must be named.
    ///
    /// # Errors
    /// Fails with [`TraceError::Open`], [`TraceError::Empty`], [`TraceError::UnknownFormat`] or
    /// [`TraceError::OtherFormat`]. A damaged start gives [`TraceError::Read`] or
    /// [`TraceError::Record`].
    pub fn open(path: &Path, format: Option<Format>) -> Result<Trace, TraceError> {
        let file = File::open(path).map_err(|source| TraceError::Open { source })?;
        let name = path.file_name().map(|name| name.to_string_lossy());
        Trace::from_reader(file, &name.unwrap_or_default(), format)
    }

    /// Opens a trace like [`Trace::open`], from a reader. The `name` helps to detect the format.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn from_reader(
        reader: impl Read + Send + 'static,
        name: &str,
        format: Option<Format>,
    ) -> Result<Trace, TraceError> {
        let (input, prefix) = Input::open(Box::new(reader))?;
        if prefix.is_empty() {
            return Err(TraceError::Empty);
        }
        let format = match format {
            Some(format) => format::check(format, &prefix).map(|()| format)?,
            None => format::detect(&prefix, name).ok_or(TraceError::UnknownFormat)?,
        };
        let claim = Claim::new(input.bytes_read());
        let source = source_of(format, input, &prefix)?;
        Ok(Trace {
            source,
            format,
            claim,
            ready: vec![Request { nr_pages: 0, ..Request::page(0, AccessKind::Read) }],
            at: 0,
            failure: None,
            start: None,
            is_over: false,
            is_lenient: false,
            nr_skipped: 0,
        })
    }

    #[inline]
    fn advance(&mut self) -> Result<bool, TraceError> {
        if self.at + 1 >= self.ready.len() && !self.make_ready()? {
            return Ok(false);
        }
        self.at += 1;
        let request = &self.ready[self.at];
        self.claim.add(request)?;
        self.start = self.start.or(request.at);
        Ok(true)
    }

    /// Reads more requests and keeps the current one, which has the current time.
    fn make_ready(&mut self) -> Result<bool, TraceError> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        self.ready.drain(..self.at);
        self.at = 0;
        let nr_before = self.ready.len();
        let appended = self.source.append_requests(&mut self.ready);
        if self.ready.len() == nr_before {
            return appended.map(|()| false);
        }
        self.failure = appended.err();
        Ok(true)
    }

    /// Skips and counts malformed lines from here on, including a fixed-length record cut off by
    /// the end of the file. A first line that must name columns cannot be skipped.
    pub fn skip_malformed(&mut self) {
        self.is_lenient = true;
    }

    /// Returns true if malformed lines and records are skipped.
    pub fn skips_malformed(&self) -> bool {
        self.is_lenient
    }

    /// Returns the number of lines and records skipped so far.
    pub fn nr_skipped(&self) -> u64 {
        self.nr_skipped
    }

    /// Returns true if the error can be skipped, and counts the skip.
    fn skips(&mut self, error: &TraceError) -> bool {
        let is_small = match error {
            TraceError::Line { problem, .. } => {
                !matches!(problem, LineProblem::NoPageColumn | LineProblem::WrongFirstLine)
            }
            TraceError::Cut { .. } | TraceError::Damaged { .. } => true,
            _ => false,
        };
        let skips = self.is_lenient && is_small;
        self.nr_skipped += u64::from(skips);
        skips
    }

    /// Returns the named or detected format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the time of the last access since the first request with a time, or `None` without
    /// times. May go back if the trace does.
    pub fn time(&self) -> Option<Millis> {
        let (Micros(at), Micros(start)) = (self.ready[self.at].at?, self.start?);
        Some(Millis(at.saturating_sub(start) / 1000))
    }

    /// Returns the type of the pages: anonymous if the format traces a program's memory.
    pub fn page_type(&self) -> PageType {
        match self.format {
            Format::Lackey | Format::U64LeRw => PageType::Anon,
            _ => PageType::File,
        }
    }

    /// Returns the header of the recorded run, only for [`Format::Compact`].
    pub fn header(&self) -> Option<&Header> {
        self.source.header()
    }

    /// Returns the notes before the last access, or at the end the notes after it. Only for
    /// [`Format::Compact`].
    pub fn notes(&self) -> &[Note] {
        self.source.notes()
    }

    /// Returns the end of the record after the iteration, only for [`Format::Compact`].
    pub fn ending(&self) -> Option<Ending> {
        self.source.ending()
    }
}

fn source_of(format: Format, input: Input, prefix: &[u8]) -> Result<Box<dyn Source>, TraceError> {
    fn lines<P: LineParser + 'static>(input: Input, parser: P) -> Box<dyn Source> {
        Box::new(LineSource { input, parser })
    }
    fn text<P: TextParser + 'static>(input: Input, parser: P) -> Box<dyn Source> {
        lines(input, Text(parser))
    }
    Ok(match format {
        Format::Compact => Box::new(compact::Compact::open(input)?),
        Format::OracleGeneral => Box::new(oracle_general::OracleGeneral::new(input)),
        Format::Csv => lines(input, csv::Csv::default()),
        Format::ArcLis => lines(input, arc::ArcLis),
        Format::Decimal => lines(input, decimal::Decimal),
        Format::Fio => text(input, fio::Fio::default()),
        Format::Lackey => text(input, lackey::Lackey),
        Format::Filemap => text(input, filemap::Filemap::default()),
        Format::Msr => text(input, msr::Msr::default()),
        Format::Blkparse => text(input, blkparse::Blkparse::default()),
        Format::PerfScript => text(input, perf_script::PerfScript::default()),
        Format::Vscsi => {
            format::check(Format::Vscsi, prefix)?;
            Box::new(vscsi::Vscsi::new(input, prefix)?)
        }
        Format::U32Le | Format::U64Le | Format::I32Be | Format::I64Be | Format::U64LeRw => {
            Box::new(raw::Raw::new(input, format))
        }
    })
}

impl Trace {
    /// Returns one to `nr_max` pages of the current or the next request.
    #[inline]
    fn next_pages(&mut self, nr_max: u64) -> Option<Result<Request, TraceError>> {
        while !self.is_over {
            let request = &mut self.ready[self.at];
            if request.nr_pages > 0 {
                let pages = Request { nr_pages: request.nr_pages.min(nr_max), ..*request };
                request.first = request.first.wrapping_add(pages.nr_pages);
                request.nr_pages -= pages.nr_pages;
                return Some(Ok(pages));
            }
            match self.advance() {
                Ok(is_there) => self.is_over = !is_there,
                Err(error) if self.skips(&error) => {
                    // Nothing follows a cut record.
                    self.is_over = matches!(error, TraceError::Cut { .. });
                }
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl Iterator for Trace {
    type Item = Result<Access, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let one = |it: Request| Access { page: it.page_at(0), kind: it.kind, thread: it.thread };
        self.next_pages(1).map(|request| request.map(one))
    }
}
