//! Traces: recorded accesses, in the formats people hold, as one stream.
//!
//! **Problem.** Block traces, object traces, memory traces and our own records say the same thing
//! in a dozen ways: a page was used. Everything after this module wants only that.
//!
//! **Idea.**
//!
//! ```text
//!   file -> zstd, gzip, xz? -> which format? -> requests -> split into pages -> Access, ...
//!            input              format         one file      Trace
//!                                              a format
//! ```
//!
//! A format's reader turns one line or record into one request: some consecutive pages of one
//! mapping. [`Trace`] cuts requests into pages, so no reader and no user has to.
//!
//! **Data and invariants.** Reading streams: memory does not grow with the trace, save for one name
//! per distinct file in the formats that name files. A trace ends after its first error. Errors say
//! the line and column, or the byte of the decompressed file, and the value that is expected there.
//!
//! **Ignored.** Latencies, and the parts of a millisecond that are left when a request's time is
//! counted from the first one's. In block and object traces an id is a page: their sizes are
//! ignored, as the published miss ratios for them do. Byte offsets (fio, MSR, lackey) are cut into
//! pages of 4 KiB.
//!
//! **Sources.** Each reader names its own; the table is in `docs/formats.md`.

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

/// Why a trace could not be opened, or read on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be opened; the operating system says why.
    #[error("cannot open the trace")]
    Open {
        /// What the operating system said.
        source: io::Error,
    },
    /// The file cannot be read on, or its compression is damaged.
    #[error("cannot read the trace at byte {offset}")]
    Read {
        /// The byte of the decompressed file.
        offset: u64,
        /// What the operating system, or the decompressor, said.
        source: io::Error,
    },
    /// No known format looks like this; name the format.
    #[error("cannot tell the trace's format from its name or its first bytes")]
    UnknownFormat,
    /// The file begins as no file of the named format does.
    #[error("byte {offset}: this is no {format} trace: expected {expected}")]
    OtherFormat {
        /// The format that was named.
        format: Format,
        /// The byte of the decompressed file.
        offset: usize,
        /// What a file of that format has there.
        expected: &'static str,
    },
    /// The file has no byte in it.
    #[error("the trace is empty")]
    Empty,
    /// A line is not what the format says; check the format, or repair the line.
    #[error("line {line}, column {column}: {problem}")]
    Line {
        /// The line, from 1.
        line: u64,
        /// The byte of the line where the field begins, from 1.
        column: u64,
        /// What is wrong with it.
        problem: LineProblem,
    },
    /// The file ends inside a record of fixed length; the download or the format is wrong.
    #[error("the trace ends inside the {record_bytes}-byte record at byte {offset}")]
    Cut {
        /// Where the record starts.
        offset: u64,
        /// How long it should be.
        record_bytes: usize,
    },
    /// The requests are of more pages than a trace of this length can be of; it is damaged, or of
    /// another format.
    #[error(
        "the first {bytes} bytes of the trace claim {pages} pages, more than {PAGES_A_BYTE} a byte \
         and {PAGES_ALLOWED}: it is damaged, or of another format"
    )]
    TooManyPages {
        /// The pages that they ask for.
        pages: u64,
        /// The decompressed bytes they were read from.
        bytes: u64,
    },
    /// A record of fixed length says what cannot be; the file is damaged, or of another format.
    #[error("the record at byte {offset} makes no sense: too long, or past the end of numbers")]
    Damaged {
        /// Where it starts.
        offset: u64,
    },
    /// A record ends inside an entry: its last part is missing. What is before it can be used by
    /// skipping what is malformed.
    #[error("the record is cut off inside an entry")]
    CutOff,
    /// Nothing in the trace is an access; a policy has nothing to do.
    #[error("the trace has no accesses")]
    NoAccesses,
    /// A damaged access record.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Requests that are read before they are wanted.
const REQUESTS_READY: usize = 256;

/// A format's reader.
trait Source: Send {
    /// The next request, or `None` at the end, also when it is asked again. Not called again after
    /// an error, but for [`TraceError::Line`] and [`TraceError::Damaged`], which are passed over.
    fn next_request(&mut self) -> Result<Option<Request>, TraceError>;

    /// Appends the next requests: at least one, unless it is the end or an error, which comes after
    /// those that were appended. Many, so that none waits for what the one before has stored.
    fn append_requests(&mut self, ready: &mut Vec<Request>) -> Result<(), TraceError> {
        for _ in 0..REQUESTS_READY {
            let Some(request) = self.next_request()? else { break };
            ready.push(request);
        }
        Ok(())
    }

    /// The header, in the one format that has one.
    fn header(&self) -> Option<&Header> {
        None
    }

    /// What stands before the last request, or before the end, and is none, in the one format that
    /// has such.
    fn notes(&self) -> &[Note] {
        &[]
    }

    /// How the trace ended, in the one format that says so.
    fn ending(&self) -> Option<Ending> {
        None
    }
}

/// A format of lines: what one means.
trait LineParser: Send {
    /// The request on `line` (without its line end), or `None` when the line holds none.
    fn parse_line(&mut self, line: &[u8]) -> Result<Option<Request>, Wrong>;

    /// Called at the end of the file, for a format whose entries may span lines.
    fn finish(&mut self) -> Result<(), Wrong> {
        Ok(())
    }
}

/// A format whose lines are taken apart as text, which takes as long as all else.
trait TextParser: Send {
    /// As [`LineParser::parse_line`].
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

/// An open trace: an iterator of accesses. It ends after the first error.
pub struct Trace {
    source: Box<dyn Source>,
    format: Format,
    claim: Claim,
    /// Read already, never none: the one at `at` is under way, with its pages that are left.
    ready: Vec<Request>,
    at: usize,
    /// What came after those.
    failure: Option<TraceError>,
    /// The first time there was.
    start: Option<Micros>,
    is_over: bool,
    is_lenient: bool,
    nr_skipped: u64,
}

impl Trace {
    /// Opens the trace at `path`, decompressing it if it is zstd, gzip or xz.
    ///
    /// Without `format`, the format is told by the file's name and first 4 KiB. The raw formats
    /// have no mark to be told by: they must be named.
    ///
    /// # Errors
    /// [`TraceError::Open`], [`TraceError::UnknownFormat`], [`TraceError::OtherFormat`], and for a
    /// damaged start [`TraceError::Read`] and [`TraceError::Record`].
    pub fn open(path: &Path, format: Option<Format>) -> Result<Trace, TraceError> {
        let file = File::open(path).map_err(|source| TraceError::Open { source })?;
        let name = path.file_name().map(|name| name.to_string_lossy());
        Trace::from_reader(file, &name.unwrap_or_default(), format)
    }

    /// As [`Trace::open`], for bytes that come from elsewhere; `name` helps to tell the format.
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

    /// Goes on to the next request, where it can be one; false at the end.
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

    /// Reads more requests after the last one, which stays: it says what time it is.
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

    /// From here on, lines that make no sense are skipped and counted instead of ending the trace,
    /// and so is a record of fixed length that the end of the file cuts off. A first line that
    /// says what the columns are cannot be skipped.
    pub fn skip_malformed(&mut self) {
        self.is_lenient = true;
    }

    /// Whether it skips them.
    pub fn skips_malformed(&self) -> bool {
        self.is_lenient
    }

    /// Lines and records skipped so far.
    pub fn nr_skipped(&self) -> u64 {
        self.nr_skipped
    }

    /// Whether the error is skipped: it is counted then.
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

    /// The trace's format: as named, or as detected.
    pub fn format(&self) -> Format {
        self.format
    }

    /// When the access that came last was made, counted from the first request that had a time;
    /// `None` in formats without times. Times may go back where a trace's do.
    pub fn time(&self) -> Option<Millis> {
        let (Micros(at), Micros(start)) = (self.ready[self.at].at?, self.start?);
        Some(Millis(at.saturating_sub(start) / 1000))
    }

    /// Whose pages they are: formats that trace a program's memory tell of anonymous ones.
    pub fn page_type(&self) -> PageType {
        match self.format {
            Format::Lackey | Format::U64LeRw => PageType::Anon,
            _ => PageType::File,
        }
    }

    /// What the recorded run said about itself; [`Format::Compact`] only.
    pub fn header(&self) -> Option<&Header> {
        self.source.header()
    }

    /// What happened between the access that came last and the one before it, or after the last
    /// one, once the iteration has ended; [`Format::Compact`] only.
    pub fn notes(&self) -> &[Note] {
        self.source.notes()
    }

    /// How the record ended, once the iteration has; [`Format::Compact`] only.
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
        Format::Vscsi => Box::new(vscsi::Vscsi::new(input, prefix)?),
        Format::U32Le | Format::U64Le | Format::I32Be | Format::I64Be | Format::U64LeRw => {
            Box::new(raw::Raw::new(input, format))
        }
    })
}

impl Trace {
    /// The next pages that are used together, at most `nr_max`: what is left of a request, or the
    /// next one. Never none.
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
                    // After the cut there is nothing.
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
