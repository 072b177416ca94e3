//! Comma-separated traces with column names on the first line, as in libCacheSim.
//!
//! ```text
//!   # time, object, size, next_access_vtime        version,time,op,size,lbn
//!   0, 13053225291711363978, 737, 13               1,5633898,2a,512,42932745
//! ```
//!
//! The first column with a name below is the page. If the first id is a word, words are hashed to
//! pages with 64-bit FNV-1a. Two more columns are read:
//!
//! ```text
//!   op     a word, a SCSI operation code in hexadecimal, or 0 (a read) and 1 (a write)
//!   time   seconds, whole or not, as in libCacheSim. A field that is no number means no time.
//! ```
//!
//! Fields may be quoted as in RFC 4180.
//!
//! Sources: libCacheSim's data folder, SCSI block commands (operation codes), Twitter's cache trace
//! (operation words), RFC 4180, and RFC 9923 (FNV hash, by Fowler, Noll and Vo).

use super::{AccessKind, LineParser, LineProblem, Micros, Request, Wrong, number};
use memchr::{memchr, memchr_iter};
use std::borrow::Cow;

const PAGE_COLUMNS: [&str; 14] = [
    "object",
    "obj",
    "obj_id",
    "obj-id",
    "object_id",
    "id",
    "lbn",
    "lba",
    "key",
    "page",
    "page_id",
    "block",
    "block_id",
    "block-id",
];
const OPERATION_COLUMNS: [&str; 4] = ["op", "operation", "opcode", "op_type"];

/// Maximum length of a row that spans lines, bytes.
const ROW_BYTES_MAX: usize = 64 << 10;

#[derive(Default)]
pub(super) struct Csv {
    columns: Option<Columns>,
    /// True if the first id was a word, false if a number.
    has_words: Option<bool>,
    /// The lines so far of a row with an open quotation mark.
    open_row: Vec<u8>,
    nr_open_lines: u64,
}

#[derive(Clone, Copy)]
struct Columns {
    page: usize,
    operation: Option<usize>,
    time: Option<usize>,
}

struct Field<'l> {
    text: Cow<'l, [u8]>,
    /// Offset of the field in its row, bytes.
    start: usize,
}

pub(super) fn has_page_column(line: &str) -> bool {
    Columns::find(line.as_bytes()).is_some()
}

impl LineParser for Csv {
    fn parse_line(&mut self, line: &[u8]) -> Result<Option<Request>, Wrong> {
        let is_open = !self.open_row.is_empty();
        let is_comment = !is_open && line.starts_with(b"#") && self.columns.is_some();
        if is_comment || !is_open && memchr(b'"', line).is_none() {
            return self.parse_plain(line);
        }
        let mut row = std::mem::take(&mut self.open_row);
        if is_open {
            row.push(b'\n');
        }
        row.extend_from_slice(line);
        let nr_lines_back = std::mem::take(&mut self.nr_open_lines);
        let outcome = match quoted_fields(&row) {
            Ok(fields) => self.parse_fields(&fields).map_err(|wrong| {
                let field = fields.iter().find(|field| wrong.is_in(&field.text));
                match field.filter(|_| !is_open) {
                    Some(field) => wrong.problem.at_column(field.start + 1, 0),
                    None => wrong,
                }
            }),
            Err(start) if row.len() > ROW_BYTES_MAX => {
                Err(LineProblem::OpenQuote.at_column(start + 1, nr_lines_back))
            }
            Err(_) => {
                (self.open_row, self.nr_open_lines) = (row, nr_lines_back + 1);
                return Ok(None);
            }
        };
        // The buffer is reused for the next row with quotation marks.
        row.clear();
        self.open_row = row;
        outcome
    }

    fn finish(&mut self) -> Result<(), Wrong> {
        let row = std::mem::take(&mut self.open_row);
        match quoted_fields(&row) {
            Err(start) => Err(LineProblem::OpenQuote.at_column(start + 1, self.nr_open_lines)),
            Ok(_) => Ok(()),
        }
    }
}

impl Csv {
    fn parse_plain(&mut self, line: &[u8]) -> Result<Option<Request>, Wrong> {
        let Some(columns) = self.columns else { return self.name_columns(line) };
        if line.is_empty() || line.starts_with(b"#") {
            return Ok(None);
        }
        self.request(columns, columns.fields_of(line)).map(Some)
    }

    fn parse_fields(&mut self, fields: &[Field<'_>]) -> Result<Option<Request>, Wrong> {
        let Some(columns) = self.columns else {
            self.columns = Columns::of_names(fields);
            return self.columns.map(|_| None).ok_or(LineProblem::NoPageColumn.into());
        };
        let wanted = [Some(columns.page), columns.operation, columns.time];
        let texts = wanted.map(|nth| fields.get(nth?).map(|field| &*field.text));
        self.request(columns, texts).map(Some)
    }

    fn name_columns(&mut self, line: &[u8]) -> Result<Option<Request>, Wrong> {
        self.columns = Columns::find(line);
        self.columns.map(|_| None).ok_or(LineProblem::NoPageColumn.into())
    }

    fn request(&mut self, columns: Columns, fields: [Option<&[u8]>; 3]) -> Result<Request, Wrong> {
        let [page, op, time] = fields;
        let page = self.page(page.ok_or(LineProblem::NoField { field: "page" })?)?;
        let kind = match columns.operation {
            Some(_) => operation(op)?,
            None => AccessKind::Read,
        };
        Ok(Request::page(page, kind).at(time.and_then(Micros::parse_secs)))
    }

    fn page(&mut self, field: &[u8]) -> Result<u64, Wrong> {
        let id = field.trim_ascii();
        let number_or = number(Some(id), "page");
        match number_or {
            Ok(page) => {
                self.has_words.get_or_insert(false);
                Ok(page)
            }
            Err(wrong) if id.is_empty() => Err(wrong),
            Err(_) if *self.has_words.get_or_insert(true) => Ok(hash(id)),
            Err(wrong) => Err(wrong),
        }
    }
}

impl Columns {
    fn find(line: &[u8]) -> Option<Columns> {
        let fields = quoted_fields(line).ok()?;
        Columns::of_names(&fields)
    }

    fn of_names(names: &[Field<'_>]) -> Option<Columns> {
        let is = |field: &Field<'_>, known: &str| {
            let name = field.text.trim_ascii();
            let name = name.strip_prefix(b"#").unwrap_or(name).trim_ascii();
            name.eq_ignore_ascii_case(known.as_bytes())
        };
        let position = |wanted: &[&str]| {
            names.iter().position(|field| wanted.iter().any(|known| is(field, known)))
        };
        let page = position(&PAGE_COLUMNS)?;
        Some(Columns { page, operation: position(&OPERATION_COLUMNS), time: position(&["time"]) })
    }

    /// Returns the page, operation and time fields, in one scan that stops after the last of the
    /// three.
    fn fields_of<'l>(&self, line: &'l [u8]) -> [Option<&'l [u8]>; 3] {
        let wanted = [Some(self.page), self.operation, self.time];
        let mut fields = [None; 3];
        let (mut start, mut column) = (0, 0);
        let last = wanted.into_iter().flatten().max().unwrap_or(0);
        for end in memchr_iter(b',', line).chain([line.len()]).take(last + 1) {
            for (field, wanted) in fields.iter_mut().zip(wanted) {
                if wanted == Some(column) {
                    *field = Some(&line[start..end]);
                }
            }
            (start, column) = (end + 1, column + 1);
        }
        fields
    }
}

/// Splits a row with quoted fields. The error is the offset of an opening quotation mark without a
/// closing one.
fn quoted_fields(row: &[u8]) -> Result<Vec<Field<'_>>, usize> {
    let (mut fields, mut start) = (Vec::new(), 0);
    loop {
        let blank = row[start..].iter().take_while(|byte| **byte == b' ').count();
        let (text, after) = if row.get(start + blank) == Some(&b'"') {
            let (text, after) = unquote(row, start + blank + 1).ok_or(start + blank)?;
            start += blank;
            (Cow::Owned(text), after)
        } else {
            let end = memchr(b',', &row[start..]).map_or(row.len(), |len| start + len);
            (Cow::Borrowed(&row[start..end]), end)
        };
        fields.push(Field { text, start });
        // Blanks may follow the closing mark.
        match memchr(b',', &row[after..]) {
            Some(len) => start = after + len + 1,
            None => return Ok(fields),
        }
    }
}

/// Returns the text of a quoted field from `start` on, and the offset after the closing mark.
fn unquote(row: &[u8], mut start: usize) -> Option<(Vec<u8>, usize)> {
    let mut text = Vec::new();
    loop {
        let mark = start + memchr(b'"', &row[start..])?;
        text.extend_from_slice(&row[start..mark]);
        if row.get(mark + 1) != Some(&b'"') {
            return Some((text, mark + 1));
        }
        text.push(b'"');
        start = mark + 2;
    }
}

fn hash(word: &[u8]) -> u64 {
    word.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn operation(field: Option<&[u8]>) -> Result<AccessKind, Wrong> {
    let word = field.ok_or(LineProblem::NoField { field: "op" })?.trim_ascii();
    match &word.to_ascii_lowercase()[..] {
        b"0" | b"08" | b"28" | b"a8" | b"88" | b"r" | b"read" | b"get" | b"gets" => {
            Ok(AccessKind::Read)
        }
        b"1" | b"0a" | b"2a" | b"aa" | b"8a" | b"w" | b"write" | b"set" | b"put" | b"add"
        | b"replace" | b"cas" | b"append" | b"prepend" | b"incr" | b"decr" | b"update"
        | b"insert" => Ok(AccessKind::Write),
        b"delete" | b"remove" | b"trim" | b"discard" => Ok(AccessKind::Discard),
        _ => Err(LineProblem::UnknownWord { field: "op" }.at(word)),
    }
}
