//! `perf script` output of the kernel's page-cache tracepoints and of DAMON's tracepoint.
//!
//! ```text
//!   cat 93 [1] 12.345: filemap:mm_filemap_get_pages: dev=254:0 ino=4fa7d ofs=0-8191        read
//!   cat 93 [1] 12.345: filemap:mm_filemap_fault: dev=254:0 ino=4fa7d ofs=4096              table
//!   cat 93 [1] 12.345: filemap:mm_filemap_map_pages: dev=254:0 ino=4fa7d ofs=0-65535       -
//!   cat 93 [1] 12.345: filemap:mm_filemap_add_to_page_cache: dev 254:0 ino 4fa7d ...       -
//!   kdamond.0 9 [2] 7.1: damon:damon_aggregated: target_id=0 nr_regions=11 4096-16384: 3 9 table
//! ```
//!
//! The kernel's `trace` and `trace_pipe` files, without the group, are accepted too. Each (device,
//! inode) and each DAMON target is a mapping. Offsets and addresses are bytes. Other events are
//! skipped, also mappings around a fault and additions to the page cache.
//!
//! A DAMON line reports an accessed region. Every page counts as one access a line, which
//! overstates large regions.
//!
//! Sources: the format files of `events/filemap` in tracefs, and the kernel's documentation of
//! DAMON, "Tracepoints for Monitoring Results".

use super::mappings::Mappings;
use super::{AccessKind, LineProblem, Micros, Request, TextParser, Wrong, number};

#[derive(Default)]
pub(super) struct PerfScript {
    mappings: Mappings,
}

impl TextParser for PerfScript {
    fn parse_text(&mut self, line: &str) -> Result<Option<Request>, Wrong> {
        let Some((event, fields)) = event_of(line) else {
            let is_comment = line.trim().is_empty() || line.starts_with('#');
            let problem = LineProblem::NoField { field: "event" }.at(line);
            return if is_comment { Ok(None) } else { Err(problem) };
        };
        let request = match event {
            "filemap:mm_filemap_get_pages" | "mm_filemap_get_pages" => {
                self.file_pages(fields, AccessKind::Read)
            }
            "filemap:mm_filemap_fault" | "mm_filemap_fault" => {
                self.file_pages(fields, AccessKind::Table)
            }
            "damon:damon_aggregated" => self.region(fields),
            _ => Ok(None),
        }?;
        // A request event has a line head with the time.
        let at = line.split_once(event).and_then(|(head, _)| time_of(head));
        Ok(request.map(|request| request.at(at)))
    }
}

impl PerfScript {
    fn file_pages(&mut self, fields: &str, kind: AccessKind) -> Result<Option<Request>, Wrong> {
        let (dev, ino) = (field(fields, "dev")?, field(fields, "ino")?);
        let offsets = field(fields, "ofs")?;
        let (first, last) = offsets.split_once('-').unwrap_or((offsets, offsets));
        let (first, last) = (number(Some(first), "ofs")?, number(Some(last), "ofs")?);
        let mapping = self.mappings.number(&format!("{dev},{ino}"));
        let len_bytes =
            length(first, last).ok_or(LineProblem::NotANumber { field: "ofs" }.at(offsets))?;
        let len_bytes = len_bytes.checked_add(1).ok_or(LineProblem::TooManyPages)?;
        Ok(Some(Request::bytes(mapping, first, len_bytes, kind)?))
    }

    fn region(&mut self, fields: &str) -> Result<Option<Request>, Wrong> {
        let target = field(fields, "target_id")?;
        let mut words = fields.split_ascii_whitespace().skip(2);
        let missing = LineProblem::NoField { field: "region" };
        let range = words.next().and_then(|word| word.strip_suffix(':')).ok_or(missing)?;
        let (start, end) = range.split_once('-').ok_or(missing)?;
        let (start, end) = (number(Some(start), "region")?, number(Some(end), "region")?);
        if number(words.next(), "accesses")? == 0 {
            return Ok(None);
        }
        let mapping = self.mappings.number(target);
        let len_bytes =
            length(start, end).ok_or(LineProblem::NotANumber { field: "region" }.at(range))?;
        Ok(Some(Request::bytes(mapping, start, len_bytes, AccessKind::Table)?))
    }
}

fn length(first: u64, last: u64) -> Option<u64> {
    last.checked_sub(first)
}

/// Returns the event name ("group:name") and the text after its colon.
pub(super) fn event_of(line: &str) -> Option<(&str, &str)> {
    // "comm pid [cpu] time: group:name: fields". The comm may hold blanks and colons.
    let (head, _) = ["filemap:", "damon:"]
        .iter()
        .find_map(|group| line.find(&format!(": {group}")).map(|at| line.split_at(at + 2)))
        .or_else(|| other_event(line))?;
    line[head.len()..].split_once(": ")
}

/// Parses the time in "comm pid [cpu] time: ".
fn time_of(head: &str) -> Option<Micros> {
    let word = head.trim_end().strip_suffix(':')?.rsplit(' ').next()?;
    Micros::parse_secs(word)
}

/// Finds any other "time: group:name: fields", which the caller skips.
fn other_event(line: &str) -> Option<(&str, &str)> {
    let (at, _) = line.match_indices(": ").find(|(at, _)| {
        let time = line[..*at].rsplit(' ').next().unwrap_or("");
        !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    })?;
    Some(line.split_at(at + 2))
}

/// Returns the value of "name=value" or "name value".
fn field<'a>(fields: &'a str, name: &'static str) -> Result<&'a str, Wrong> {
    let mut words = fields.split([' ', '=']);
    words.by_ref().find(|word| *word == name);
    words.next().ok_or(LineProblem::NoField { field: name }.into())
}
