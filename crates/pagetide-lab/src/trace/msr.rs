//! The MSR Cambridge block traces: "timestamp,host,disk,type,offset,size,response". Each (host,
//! disk) is a mapping. Bytes are cut into pages. Timestamps are in units of 100 ns.
//!
//! Source: Narayanan, Donnelly and Rowstron, "Write Off-Loading", FAST 2008, and SNIA's readme of
//! the traces.

use super::mappings::Mappings;
use super::{AccessKind, LineProblem, Micros, Request, TextParser, Wrong, number};

#[derive(Default)]
pub(super) struct Msr {
    mappings: Mappings,
}

impl TextParser for Msr {
    fn parse_text(&mut self, line: &str) -> Result<Option<Request>, Wrong> {
        if line.is_empty() || line.starts_with("Timestamp") {
            return Ok(None);
        }
        let kind = kind_of(line)?;
        let mut fields = line.split(',').skip(4);
        let offset_bytes = number(fields.next(), "offset")?;
        let len_bytes = number(fields.next(), "size")?;
        let mapping = self.mappings.number(disk_of(line)?);
        let ticks = number(line.split(',').next(), "timestamp").ok();
        let request = Request::bytes(mapping, offset_bytes, len_bytes, kind)?;
        Ok(Some(request.at(ticks.map(|ticks| Micros(ticks / 10)))))
    }
}

/// Returns the access kind of the line's fourth field.
pub(super) fn kind_of(line: &str) -> Result<AccessKind, Wrong> {
    let word = line.split(',').nth(3).ok_or(LineProblem::NoField { field: "type" })?;
    match word {
        "Read" => Ok(AccessKind::Read),
        "Write" => Ok(AccessKind::Write),
        _ => Err(LineProblem::UnknownWord { field: "type" }.at(word)),
    }
}

/// Returns "host,disk" as one name.
fn disk_of(line: &str) -> Result<&str, Wrong> {
    let no_disk = LineProblem::NoField { field: "disk" };
    let (_, rest) = line.split_once(',').ok_or(no_disk)?;
    let (end, _) = rest.match_indices(',').nth(1).ok_or(no_disk)?;
    Ok(&rest[..end])
}
