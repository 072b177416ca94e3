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
    fn parse_line(&mut self, line: &str) -> Result<Option<Request>, LineProblem> {
        let Some(columns) = self.columns else {
            let page = page_column(line).ok_or(LineProblem::NoPageColumn)?;
            let position = |wanted| names(line).position(|name| name.eq_ignore_ascii_case(wanted));
            let (operation, time) = (position("op"), position("time"));
            self.columns = Some(Columns { page, operation, time });
            return Ok(None);
        };
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let page = number(line.split(',').nth(columns.page), "page")?;
        let kind = match columns.operation {
            Some(column) => operation(line.split(',').nth(column))?,
            None => AccessKind::Read,
        };
        let at = columns.time.and_then(|column| Micros::parse_secs(line.split(',').nth(column)?));
        Ok(Some(Request::page(page, kind).at(at)))
    }
}

fn operation(field: Option<&str>) -> Result<AccessKind, LineProblem> {
    let word = field.ok_or(LineProblem::NoField { field: "op" })?.trim().to_ascii_lowercase();
    match word.as_str() {
        "08" | "28" | "a8" | "88" | "r" | "read" | "get" | "gets" => Ok(AccessKind::Read),
        "0a" | "2a" | "aa" | "8a" | "w" | "write" | "set" | "put" | "add" | "replace" | "cas"
        | "append" | "prepend" | "incr" | "decr" => Ok(AccessKind::Write),
        "delete" => Ok(AccessKind::Discard),
        _ => Err(LineProblem::UnknownWord { field: "op" }),
    }
}
