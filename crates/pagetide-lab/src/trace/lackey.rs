//! The memory trace of `valgrind --tool=lackey --trace-mem=yes`.
//!
//! ```text
//!   I  0023c790,2      instruction fetch: address in hexadecimal, bytes in decimal
//!    S be80199c,4      store
//!    L be801950,4      load
//!    M 0025747c,1      modify: a load and a store
//! ```
//!
//! All accesses go through the page table. Valgrind's own lines (`==pid==`) are skipped. A modify
//! counts as one write access.
//!
//! Source: Valgrind manual, "Lackey: an example tool".

use super::{AccessKind, LineProblem, Request, TextParser, Wrong, number};
use pagetide_core::ids::MappingId;

pub(super) struct Lackey;

impl TextParser for Lackey {
    fn parse_text(&mut self, line: &str) -> Result<Option<Request>, Wrong> {
        parse(line)
    }
}

pub(super) fn parse(line: &str) -> Result<Option<Request>, Wrong> {
    if line.starts_with("==") || line.starts_with("--") || line.trim().is_empty() {
        return Ok(None);
    }
    let (word, range) =
        line.trim().split_once(' ').ok_or(LineProblem::NoField { field: "address" })?;
    let kind = match word {
        "I" | "L" => AccessKind::Table,
        "S" | "M" => AccessKind::TableWrite,
        _ => return Err(LineProblem::UnknownWord { field: "access" }.at(word)),
    };
    let (address, len_bytes) =
        range.trim().split_once(',').ok_or(LineProblem::NoField { field: "size" })?;
    let address = u64::from_str_radix(address, 16)
        .map_err(|_| LineProblem::NotANumber { field: "address" }.at(address))?;
    let len_bytes = number(Some(len_bytes), "size")?;
    Ok(Some(Request::bytes(MappingId(0), address, len_bytes, kind)?))
}
