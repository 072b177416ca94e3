//! One decimal page number a line. A line with only `*` is a mark in the LIRS traces: skipped.
//!
//! Source: Jiang and Zhang, "LIRS", SIGMETRICS 2002, and the traces that come with it.

use super::{AccessKind, LineParser, Request, Wrong, number};

pub(super) struct Decimal;

impl LineParser for Decimal {
    fn parse_line(&mut self, line: &[u8]) -> Result<Option<Request>, Wrong> {
        match line.trim_ascii() {
            b"" | b"*" => Ok(None),
            word => Ok(Some(Request::page(number(Some(word), "page")?, AccessKind::Read))),
        }
    }
}
