//! Page-cache reads from the kernel's filemap tracepoints, reduced to csv:
//! "time_us,dev,ino_hex,first_page,npages". Each (device, inode) is a mapping.
//!
//! Source: the kernel's tracepoint `filemap:mm_filemap_get_pages` and its neighbours.

use super::mappings::Mappings;
use super::{AccessKind, LineProblem, Micros, Request, TextParser, Wrong, number};

#[derive(Default)]
pub(super) struct Filemap {
    mappings: Mappings,
}

impl TextParser for Filemap {
    fn parse_text(&mut self, line: &str) -> Result<Option<Request>, Wrong> {
        if line.is_empty() || line.starts_with("time_us,") {
            return Ok(None);
        }
        let (time, rest) = line.split_once(',').ok_or(LineProblem::NoField { field: "dev" })?;
        let mut from_the_end = rest.rsplitn(3, ',');
        let nr_pages = number(from_the_end.next(), "npages")?;
        let first = number(from_the_end.next(), "first_page")?;
        let file = from_the_end.next().ok_or(LineProblem::NoField { field: "ino_hex" })?;
        let mapping = self.mappings.number(file);
        let at = number(Some(time), "time_us").ok().map(Micros);
        Ok(Some(Request::pages(mapping, first, nr_pages, AccessKind::Read)?.at(at)))
    }
}
