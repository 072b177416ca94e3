//! Block traces as printed by `blkparse`.
//!
//! ```text
//!   8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
//!   dev    cpu      seq   time          pid  action RWBS  sector + sectors
//! ```
//!
//! Only action Q counts: the request as submitted. Each device is a mapping, a sector is 512 bytes,
//! and a discard drops its pages. Requests without sectors and the final summary are skipped.
//!
//! Source: the blkparse(1) manual page, default output format.

use super::mappings::Mappings;
use super::{AccessKind, LineProblem, Micros, Request, TextParser, Wrong, number};

const SECTOR_BYTES: u64 = 512;

#[derive(Default)]
pub(super) struct Blkparse {
    mappings: Mappings,
    is_over: bool,
}

impl TextParser for Blkparse {
    fn parse_text(&mut self, line: &str) -> Result<Option<Request>, Wrong> {
        let mut words = line.split_ascii_whitespace();
        let Some(device) = words.next() else { return Ok(None) };
        self.is_over |= device.starts_with("CPU") || device == "Total";
        if self.is_over {
            return Ok(None);
        }
        if !is_device(device) {
            return Err(LineProblem::UnknownWord { field: "device" }.at(device));
        }
        let at = words.nth(2).and_then(Micros::parse_secs);
        let action = words.nth(1).ok_or(LineProblem::NoField { field: "action" })?;
        let kind = words.next().and_then(kind_of);
        let (Some(kind), "Q") = (kind, action) else { return Ok(None) };
        let sector = words.next();
        if words.next() != Some("+") {
            return Ok(None);
        }
        let sector = number(sector, "sector")?;
        let nr_sectors = number(words.next(), "sectors")?;
        let bytes =
            |sectors: u64| sectors.checked_mul(SECTOR_BYTES).ok_or(LineProblem::TooManyPages);
        let mapping = self.mappings.number(device);
        Ok(Some(Request::bytes(mapping, bytes(sector)?, bytes(nr_sectors)?, kind)?.at(at)))
    }
}

pub(super) fn looks_right(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().take(5).collect();
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    words.len() == 5 && is_device(words[0]) && words[1..].iter().all(|word| is_number(word))
}

fn is_device(word: &str) -> bool {
    let is_number = |part: &str| part.parse::<u32>().is_ok();
    word.split_once(',').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

/// Returns the access kind of the RWBS letters. Other letters (flush, synchronous, metadata) are
/// ignored.
fn kind_of(letters: &str) -> Option<AccessKind> {
    let has = |letter| letters.contains(letter);
    if has('D') {
        Some(AccessKind::Discard)
    } else if has('W') {
        Some(AccessKind::Write)
    } else {
        has('R').then_some(AccessKind::Read)
    }
}
