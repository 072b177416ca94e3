//! Comma-separated traces whose first line names the columns, as libCacheSim's.
//!
//! ```text
//!   # time, object, size, next_access_vtime        version,time,op,size,lbn
//!   0, 13053225291711363978, 737, 13               1,5633898,2a,512,42932745
//! ```
//!
//! The page is the first column with one of the names below; `op`, if there, tells reads from
//! writes: in words, or as the SCSI operation code in hexadecimal. `time` is in seconds, whole or
//! not, as in libCacheSim's; one that is no number is no time. Other columns are ignored.
//!
//! Sources: libCacheSim's data folder; SCSI block commands (operation codes); Twitter's cache trace
//! (operation words).

use super::{AccessKind, LineParser, LineProblem, Micros, Request, number};
use memchr::memchr_iter;

const PAGE_COLUMNS: [&str; 8] =
    ["object", "obj_id", "obj-id", "object_id", "id", "lbn", "lba", "key"];

#[derive(Default)]
pub(super) struct Csv {
    columns: Option<Columns>,
}

#[derive(Clone, Copy)]
struct Columns {
    page: usize,
    operation: Option<usize>,
    time: Option<usize>,
}

/// The position of the page's column, when `line` names the columns.
pub(super) fn page_column(line: &str) -> Option<usize> {
    names(line).position(|name| PAGE_COLUMNS.iter().any(|known| name.eq_ignore_ascii_case(known)))
}

fn names(line: &str) -> impl Iterator<Item = &str> {
    line.trim_start_matches('#').split(',').map(str::trim)
}

impl LineParser for Csv {
    fn parse_line(&mut self, line: &[u8]) -> Result<Option<Request>, LineProblem> {
        let Some(columns) = self.columns else {
            let line = str::from_utf8(line).map_err(|_| LineProblem::NotText)?;
            let page = page_column(line).ok_or(LineProblem::NoPageColumn)?;
            let position = |wanted| names(line).position(|name| name.eq_ignore_ascii_case(wanted));
            let (operation, time) = (position("op"), position("time"));
            self.columns = Some(Columns { page, operation, time });
            return Ok(None);
        };
        if line.is_empty() || line.starts_with(b"#") {
            return Ok(None);
        }
        let [page, op, time] = columns.fields_of(line);
        let page = number(page, "page")?;
        let kind = match columns.operation {
            Some(_) => operation(op)?,
            None => AccessKind::Read,
        };
        Ok(Some(Request::page(page, kind).at(time.and_then(Micros::parse_secs))))
    }
}

impl Columns {
    /// The fields of page, operation and time, in one walk up to the last of them.
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

fn operation(field: Option<&[u8]>) -> Result<AccessKind, LineProblem> {
    let word = field.ok_or(LineProblem::NoField { field: "op" })?.trim_ascii();
    match &word.to_ascii_lowercase()[..] {
        b"08" | b"28" | b"a8" | b"88" | b"r" | b"read" | b"get" | b"gets" => Ok(AccessKind::Read),
        b"0a" | b"2a" | b"aa" | b"8a" | b"w" | b"write" | b"set" | b"put" | b"add" | b"replace"
        | b"cas" | b"append" | b"prepend" | b"incr" | b"decr" => Ok(AccessKind::Write),
        b"delete" => Ok(AccessKind::Discard),
        _ => Err(LineProblem::UnknownWord { field: "op" }),
    }
}
