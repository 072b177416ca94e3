//! `pagetide lab why`: explains why a page was not in memory.
//!
//! ```text
//!   FILE, PAGE --> replay --> hit, missed, came in, evicted: at which access, in which state
//! ```

use crate::document::Document;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::sizes::SizeArgs;
use crate::source::SourceArgs;
use crate::terminal::{JsonArgs, Meter};
use pagetide_core::ids::{MappingId, PageId, PageIndex};
use pagetide_core::lru::PolicyName;
use pagetide_lab::replay::{Setup, Story, story_of};
use pagetide_lab::trace::DenseTrace;
use serde::Serialize;

const EXAMPLES: &str = "Examples:
  pagetide lab why run.trace 1702 --memory 64M                  page 1702 of the first file
  pagetide lab why run.trace 3:1702 --memory 64M --policy mglru page 1702 of file 3
  pagetide lab why OLTP.lis 88 --format arc-lis --frames 5000 --all";

/// Lines printed without --all.
const LAST_LINES: usize = 40;

/// Tell one page's story: what its accesses met, and why it was evicted.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// The page: its index, or FILE:INDEX where the trace has several files. Decimal, or 0x...
    #[arg(value_parser = parse_page)]
    page: PageId,
    #[command(flatten)]
    sizes: SizeArgs,
    /// The policy.
    #[arg(long, default_value = "pagetide")]
    policy: PolicyName,
    /// Print the whole story, not its last 40 lines.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    json: JsonArgs,
}

pub(crate) fn run(args: &WhyArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let nr_frames = args.sizes.only_frames()?;
    let (trace, _) = args.source.read_dense(interrupt)?;
    let rank = rank_of(&trace, args.page)?;
    let meter = Meter::new("replaying".to_owned(), Some(trace.nr_entries()));
    let keep_on = |entries| {
        meter.add(entries);
        !interrupt.is_set()
    };
    let story = story_of(Setup::new(args.policy, nr_frames), &trace, rank, keep_on);
    let story = story.ok_or(Failure::Interrupted)?;
    drop(meter);
    #[derive(Serialize)]
    struct End {
        is_resident: bool,
    }
    let end = End { is_resident: story.is_resident };
    let document = Document::new("pagetide.lab.why/1", &story.events).about(end);
    args.json.print(&document, || text(args, &story))
}

fn text(args: &WhyArgs, story: &Story) -> String {
    let nr_left_out = if args.all { 0 } else { story.events.len().saturating_sub(LAST_LINES) };
    let mut text = String::new();
    if nr_left_out > 0 {
        text.push_str(&format!("{nr_left_out} lines before these; --all prints them\n"));
    }
    text.push_str(&format!("{:>12}  {:<8}  {}\n", "access", "what", "state of the page"));
    for event in &story.events[nr_left_out..] {
        let line = format!("{:>12}  {:<8}  {}", event.access, event.what.as_str(), event.state);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let end = if story.is_resident { "resident" } else { "not resident" };
    text.push_str(&format!("at the end: {end}\n"));
    text
}

fn rank_of(trace: &DenseTrace, page: PageId) -> Result<u32, Failure> {
    let ranks = 0..trace.nr_pages() as u32;
    ranks.clone().find(|rank| trace.page(*rank) == page).ok_or_else(|| {
        let first = ranks.clone().next().map(|rank| trace.page(rank)).unwrap_or_default();
        Failure::Refused(format!(
            "page {}:{} is not among the {} pages of this trace; its first is {}:{}",
            page.mapping.0,
            page.index.0,
            trace.nr_pages(),
            first.mapping.0,
            first.index.0,
        ))
    })
}

fn parse_page(text: &str) -> Result<PageId, String> {
    let (mapping, index) = text.split_once(':').unwrap_or(("0", text));
    let mapping = parse_number(mapping).and_then(|number| u32::try_from(number).ok());
    match (mapping, parse_number(index)) {
        (Some(mapping), Some(index)) => {
            Ok(PageId { mapping: MappingId(mapping), index: PageIndex(index) })
        }
        _ => Err("write it as INDEX or FILE:INDEX, as in 1702 or 3:0x6a6".to_owned()),
    }
}

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_with_and_without_a_file() {
        let page =
            |mapping, index| Ok(PageId { mapping: MappingId(mapping), index: PageIndex(index) });
        assert_eq!(parse_page("1702"), page(0, 1702));
        assert_eq!(parse_page("3:0x6a6"), page(3, 1702));
        for wrong in ["", ":", "3:", ":4", "-1", "1:2:3", "0x", "99999999999:1"] {
            assert!(parse_page(wrong).is_err(), "{wrong}");
        }
    }
}
