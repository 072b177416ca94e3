//! The `.lis` format of the ARC traces: "start count ignore n" a line, `count` blocks from `start`.
//!
//! Source: Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003, and
//! the notes that come with its traces.

use super::{AccessKind, LineParser, Request, Wrong, number};
use pagetide_core::ids::MappingId;

pub(super) struct ArcLis;

impl LineParser for ArcLis {
    fn parse_line(&mut self, line: &[u8]) -> Result<Option<Request>, Wrong> {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(start) = words.next() else { return Ok(None) };
        let start = number(Some(start), "start")?;
        let count = number(words.next(), "count")?;
        Ok(Some(Request::pages(MappingId(0), start, count, AccessKind::Read)?))
    }
}
