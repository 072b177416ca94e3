//! `pagetide mrc`: miss ratio by memory size.
//!
//! Idea: one pass over stack distances yields LRU's whole curve. Other policies are replayed at
//! each size.
//!
//! ```text
//!   FILE --> (sample of the pages?) --+--> stack distances -----> lru   \
//!                                     +--> policy x size cells -> others --> table, JSON, SVG
//! ```
//!
//! `--sample R` follows only a share R of the pages. The lab's `curve` defines the sample and
//! `lru`.

use crate::cells;
use crate::document::Document;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine;
use crate::output;
use crate::parallel::JobsArgs;
use crate::readahead::{self, ReadaheadArgs};
use crate::report::curves::{self as drawing, Curve};
use crate::source::SourceArgs;
use crate::table::{Table, percent, right};
use crate::terminal::JsonArgs;
use pagetide_core::units::Bytes;
use pagetide_lab::curve::{CurvePoint, CurveTrace, Sampler};
use pagetide_lab::replay::Contender;
use pagetide_lab::trace::ReadaheadUse;
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  pagetide mrc run.trace
  pagetide mrc twitter.csv.zst --policy mglru,lru,opt --points 64 --svg mrc.svg
  pagetide mrc huge.ptt --sample 0.01 --json";

/// Miss ratio by memory size, as a table, JSON or picture.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MrcArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Policies: the names that `pagetide policies` lists, and opt (Belady's bound).
    #[arg(long, value_delimiter = ',', default_value = "pagetide,mglru,active-inactive,lru")]
    policy: Vec<Contender>,
    /// Sizes on the curve, evenly spaced by ratio up to the size of all pages.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=4096))]
    points: u16,
    #[command(flatten)]
    readahead: ReadaheadArgs,
    /// Follow only this share of the pages, above 0 and up to 1, as in 0.01.
    #[arg(long, value_parser = parse_sampler)]
    sample: Option<Sampler>,
    #[command(flatten)]
    jobs: JobsArgs,
    /// Draw the curves into this file.
    #[arg(long)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArgs,
}

/// Field names are as in `--json`.
#[derive(Serialize)]
struct Facts {
    accesses: u64,
    /// Distinct pages, estimated from a sample.
    pages: u64,
    sample_rate: Option<f64>,
    /// Use of the recorded readahead.
    readahead: ReadaheadUse,
}

struct Curves {
    facts: Facts,
    /// Points by policy, then by ascending size.
    points: Vec<CurvePoint>,
}

fn parse_sampler(text: &str) -> Result<Sampler, String> {
    let rate = text.parse().ok().and_then(Sampler::new);
    rate.ok_or_else(|| "a share of the pages is above 0 and at most 1, as in 0.01".to_owned())
}

pub(crate) fn run(args: &MrcArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    output::check("the picture", &args.svg)?;
    let (sample, readahead_use) = read(args, interrupt)?;
    let sizes = sample.sizes(args.points.into());
    let sizes = sizes
        .map_err(|error| Failure::Refused(format!("{error}; use a larger --sample, or none")))?;
    let cells = sample.cells(&args.policy, &sizes);
    let answers = cells::run(sample.trace(), &cells, args.jobs, interrupt)?;
    let outcomes = answers.iter().map(|answer| answer.outcome);
    let facts = Facts {
        accesses: sample.nr_accesses(),
        pages: sample.nr_pages(),
        sample_rate: args.sample.map(|sampler| sampler.rate()),
        readahead: readahead_use,
    };
    let curves = Curves { facts, points: sample.points(&args.policy, &sizes, outcomes) };
    if let Some(path) = &args.svg {
        output::write(
            "the picture",
            path,
            &drawing::alone(&title(args, &curves), &lines(args, &curves))?,
        )?;
    }
    let document = Document::new("pagetide.mrc/1", &curves.points).about(&curves.facts);
    args.json.print(&document, || text(args, &curves, &sizes))
}

fn read(args: &MrcArgs, interrupt: &Interrupt) -> Result<(CurveTrace, ReadaheadUse), Failure> {
    let mut sample = CurveTrace::new(args.sample);
    let facts = args.source.for_each(interrupt, |from, access| {
        sample.push_from(from, access);
        Ok(())
    })?;
    sample.finish(facts.header.as_ref());
    let readahead_use = args.readahead.apply(sample.trace_mut());
    Ok((sample, readahead_use))
}

fn lines<'a>(args: &MrcArgs, curves: &'a Curves) -> Vec<Curve<'a>> {
    let nr_sizes = curves.points.len() / args.policy.len().max(1);
    curves
        .points
        .chunks(nr_sizes.max(1))
        .map(|points| Curve {
            policy: points[0].policy,
            points: points.iter().map(|point| (point.frames, point.miss_ratio)).collect(),
            errors: points.iter().map(|point| point.miss_ratio_error).collect(),
        })
        .collect()
}

fn title(args: &MrcArgs, curves: &Curves) -> String {
    let name = args.source.name();
    format!("Misses by memory of {name}, {} accesses", curves.facts.accesses)
}

fn text(args: &MrcArgs, curves: &Curves, sizes: &[u32]) -> String {
    let pages = machine::rounded(Bytes::from_pages(curves.facts.pages).0);
    let mut text =
        format!("{} accesses, {} pages ({pages})", curves.facts.accesses, curves.facts.pages);
    if let Some(rate) = curves.facts.sample_rate {
        text.push_str(&format!(
            ", of which {rate} were followed; +- is one standard error, measured on lru"
        ));
    }
    format!(
        "{text}\n{}\n{}",
        readahead::describe(curves.facts.readahead),
        table(args, curves, sizes).to_text()
    )
}

fn table<'a>(args: &'a MrcArgs, curves: &Curves, sizes: &[u32]) -> Table<'a> {
    // Without readahead, bytes only repeat the misses.
    let has_bytes = curves.facts.readahead == ReadaheadUse::Recorded;
    let mut columns = vec![right("memory", 12), right("frames", 10)];
    for policy in &args.policy {
        columns.push(right(policy.as_str(), 16));
        columns.extend(has_bytes.then_some(right("read", 10)));
    }
    columns.extend(curves.facts.sample_rate.map(|_| right("+-", 7)));
    let mut table = Table::new(&columns);
    for (row, &frames) in sizes.iter().enumerate() {
        let memory = machine::rounded(Bytes::from_pages(frames.into()).0);
        let mut cells = vec![memory, frames.to_string()];
        let of_size = curves.points.iter().skip(row).step_by(sizes.len());
        for point in of_size.clone() {
            cells.push(percent(point.miss_ratio, 2));
            cells.extend(has_bytes.then(|| machine::rounded(point.device_read_bytes)));
        }
        let error = of_size.clone().next().map_or(0.0, |point| point.miss_ratio_error);
        cells.extend(curves.facts.sample_rate.map(|_| format!("{:.2}", error * 100.0)));
        table.push(cells);
    }
    table
}
