//! fio's iolog, versions 2 and 3. Each file name is a mapping. Bytes are cut into pages.
//!
//! ```text
//!   fio version 2 iolog           fio version 3 iolog
//!   f.bin add                     20 f.bin add
//!   f.bin read 4046848 4096       3436 f.bin read 4046848 4096
//! ```
//!
//! The first word of version 3 is the time in milliseconds. A trim discards its pages. Open, close,
//! sync and wait lines touch no page.
//!
//! Source: fio documentation, "Trace file format".

use super::mappings::Mappings;
use super::{AccessKind, LineProblem, Micros, Request, TextParser, Wrong, number};

#[derive(Default)]
pub(super) struct Fio {
    version: Option<Version>,
    mappings: Mappings,
}

#[derive(Clone, Copy, PartialEq)]
enum Version {
    Two,
    Three,
}

impl TextParser for Fio {
    fn parse_text(&mut self, line: &str) -> Result<Option<Request>, Wrong> {
        let Some(version) = self.version else {
            self.version = Some(match line.trim() {
                "fio version 2 iolog" => Version::Two,
                "fio version 3 iolog" => Version::Three,
                _ => return Err(LineProblem::WrongFirstLine.into()),
            });
            return Ok(None);
        };
        let mut words = line.split_ascii_whitespace().peekable();
        if words.peek().is_none() {
            return Ok(None);
        }
        let at = match version {
            Version::Two => None,
            Version::Three => Some(Micros::from_millis(number(words.next(), "timestamp")?)),
        };
        let file = words.next().ok_or(LineProblem::NoField { field: "file" })?;
        let action = words.next().ok_or(LineProblem::NoField { field: "action" })?;
        let kind = match action {
            "read" => AccessKind::Read,
            "write" => AccessKind::Write,
            "trim" => AccessKind::Discard,
            "add" | "open" | "close" | "wait" | "sync" | "datasync" => return Ok(None),
            _ => return Err(LineProblem::UnknownWord { field: "action" }.at(action)),
        };
        let offset_bytes = number(words.next(), "offset")?;
        let len_bytes = number(words.next(), "length")?;
        let request = Request::bytes(self.mappings.number(file), offset_bytes, len_bytes, kind)?;
        Ok(Some(request.at(at)))
    }
}
