//! Problems of a line, with their places.
//!
//! ```text
//!   parser --> Wrong { problem, place } --LineSource--> "line 3, column 9: field ..."
//! ```
//!
//! Parsers rarely count bytes, so the memory address of the wrong field gives the column.

/// A problem of a line of a text format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineProblem {
    /// A field is missing.
    #[error("no field \"{field}\": expected {}", expected_field(field))]
    NoField {
        /// The field's name.
        field: &'static str,
    },
    /// A field is not a number, or the number does not fit.
    #[error("field \"{field}\" is not a number of the right size: expected {}", number_of(field))]
    NotANumber {
        /// The field's name.
        field: &'static str,
    },
    /// A field holds a word that is unknown to the format.
    #[error("field \"{field}\" has an unknown word: expected {}", words_of(field))]
    UnknownWord {
        /// The field's name.
        field: &'static str,
    },
    /// The first line names no column that can be the page.
    #[error(
        "the first line names no column for the page: expected object, obj, obj_id, object_id, id, \
         key, page, page_id, block, block_id, lbn or lba"
    )]
    NoPageColumn,
    /// The first line is not the first line of this format.
    #[error(
        "not the first line of a file in this format: expected \"fio version 2 iolog\" or \"fio \
         version 3 iolog\""
    )]
    WrongFirstLine,
    /// The request is longer than 2^24 pages, or runs past the largest offset.
    #[error("the request spans too many pages: expected at most 2^24, of bytes below 2^64")]
    TooManyPages,
    /// A quoted field has no closing mark.
    #[error("a quoted field has no end: expected a second quotation mark within 64 KiB")]
    OpenQuote,
    /// The line is longer than 64 KiB or not UTF-8, so the file is not text.
    #[error("the line is too long or not text: expected UTF-8, and at most 64 KiB a line")]
    NotText,
}

fn expected_field(field: &str) -> &'static str {
    match field {
        "event" => "\"time: group:name: fields\", as in \"12.3: filemap:mm_filemap_fault: \"",
        "address" => "\"access address,size\", as in \" L 1ffeff7e8,8\"",
        _ => "one more field",
    }
}

fn number_of(field: &str) -> &'static str {
    match field {
        "address" => "a hexadecimal number below 2^64",
        "ofs" | "region" => "whole numbers below 2^64, the smaller one first",
        _ => "a whole number below 2^64",
    }
}

fn words_of(field: &str) -> &'static str {
    match field {
        "op" => {
            "0 or r, read, get, gets; 1 or w, write, set, put, add, replace, cas, append, prepend, \
             incr, decr, update, insert; delete, remove, trim, discard; or a SCSI code (28, 2a)"
        }
        "type" => "Read or Write",
        "access" => "I, L, S or M",
        "action" => "read, write, trim, add, open, close, wait, sync or datasync",
        "device" => "\"major,minor\", as in 8,0",
        _ => "another word",
    }
}

impl LineProblem {
    pub(super) fn at(self, field: impl AsRef<[u8]>) -> Wrong {
        Wrong { problem: self, place: Place::Address(field.as_ref().as_ptr().addr()) }
    }

    /// Returns the problem at a column of an earlier line, `nr_lines_back` lines before.
    pub(super) fn at_column(self, column: usize, nr_lines_back: u64) -> Wrong {
        Wrong { problem: self, place: Place::Column { column, nr_lines_back } }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Wrong {
    pub(super) problem: LineProblem,
    place: Place,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Unknown,
    /// The address of the field in memory.
    Address(usize),
    Column {
        column: usize,
        nr_lines_back: u64,
    },
}

impl From<LineProblem> for Wrong {
    fn from(problem: LineProblem) -> Wrong {
        Wrong { problem, place: Place::Unknown }
    }
}

impl Wrong {
    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        let start = bytes.as_ptr().addr();
        let is_there = |at: usize| (start..=start + bytes.len()).contains(&at);
        matches!(self.place, Place::Address(at) if is_there(at))
    }

    /// Returns the problem, the column from 1, and the distance in lines to the line with the
    /// problem.
    pub(super) fn locate(self, line: &[u8]) -> (LineProblem, u64, u64) {
        if let Err(error) = str::from_utf8(line) {
            return (LineProblem::NotText, error.valid_up_to() as u64 + 1, 0);
        }
        let start = line.as_ptr().addr();
        let (column, nr_lines_back) = match self.place {
            Place::Address(at) if (start..=start + line.len()).contains(&at) => (at - start + 1, 0),
            Place::Column { column, nr_lines_back } => (column, nr_lines_back),
            _ if matches!(self.problem, LineProblem::NoField { .. }) => (line.len() + 1, 0),
            _ => (1, 0),
        };
        (self.problem, column as u64, nr_lines_back)
    }
}
