//! `pagetide mrc`: miss ratio by memory size.
//!
//! Problem: "how much memory?" wants a curve, not a guess at a few sizes. Idea: LRU's whole curve
//! comes from one pass over stack distances; the other policies are replayed at each of the sizes.
//!
//! ```text
//!   FILE --> (sample of the pages?) --+--> stack distances -----> lru   \
//!                                     +--> policy x size cells -> others --> table, JSON, SVG
//! ```
//!
//! With `--sample R` only a share R of the pages is followed, and sizes shrink with them. The error
//! is measured on LRU's curve; the replays of the other policies are of the same sample, and its
//! error stands for theirs. A replay in a memory of very few frames says little about any policy,
//! so a sampled curve starts where the shrunken memory has some tens.
//!
//! Here `lru` is strict: each access is a use. In `replay` it is core's, for which a repeated read
//! or a table access is not; for traces of plain reads and writes they are the same. Stack
//! distances know nothing of readahead: where all get what was recorded (see `readahead.rs`), `lru`
//! is replayed as the others are, and the error stays that of the curve without.
//!
//! Sources: see the lab's `curve`; replaying a sample in a shrunken memory is Waldspurger,
//! Saemundsson, Ahmad and Park, "Cache Modeling and Optimization using Miniature Simulations",
//! USENIX ATC 2017.

use crate::cells::{self, Cell};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine;
use crate::output;
use crate::parallel::JobsArgs;
use crate::readahead::{ReadaheadArgs, ReadaheadUse};
use crate::report::curves::{self as drawing, Curve};
use crate::setup;
use crate::source::SourceArgs;
use crate::table::{Table, percent, right};
use crate::terminal::JsonArgs;
use pagetide_core::lru::PolicyName;
use pagetide_core::units::Bytes;
use pagetide_lab::curve::{self, SampledCurve, Sampler};
use pagetide_lab::judge::opt;
use pagetide_lab::replay::{Contender, Reader, Setup};
use pagetide_lab::trace::DenseTrace;
use serde::Serialize;
use std::path::PathBuf;

/// The smallest memory of a curve is this part of the pages, or more.
const RANGE: u32 = 1024;
/// The fewest frames a sampled page set is replayed in.
const SCALED_FRAMES_MIN: f64 = 32.0;
/// The fewest sampled pages that say anything.
const SAMPLED_PAGES_MIN: usize = 256;

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

/// The field names are what `--json` prints, and stay.
#[derive(Serialize)]
struct Curves {
    accesses: u64,
    /// Distinct pages; estimated where sampled.
    pages: u64,
    sample_rate: Option<f64>,
    /// What became of the recorded readahead: "none" was recorded, or all are "without", or all
    /// have what was "recorded".
    readahead: ReadaheadUse,
    /// Policy by policy, ascending sizes.
    points: Vec<Point>,
}

#[derive(Serialize)]
struct Point {
    policy: &'static str,
    frames: u32,
    memory_bytes: u64,
    miss_ratio: f64,
    /// Bytes from the store, by misses and by readahead.
    device_read_bytes: u64,
    /// One standard error of the miss ratio, from sampling; 0 when every page was followed.
    error: f64,
}

/// The trace, or as much of it as is followed.
struct Sample {
    sampler: Sampler,
    trace: DenseTrace,
    /// Of the whole trace.
    nr_accesses: u64,
    reader: Reader,
    readahead_use: ReadaheadUse,
}

fn parse_sampler(text: &str) -> Result<Sampler, String> {
    let rate = text.parse().ok().and_then(Sampler::new);
    rate.ok_or_else(|| "a share of the pages is above 0 and at most 1, as in 0.01".to_owned())
}

/// Runs the command.
///
/// # Errors
/// A trace that cannot be read, or has too few pages for the sample; no memory for a replay; a
/// picture that cannot be written; an interrupt.
pub(crate) fn run(args: &MrcArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    output::check("the picture", &args.svg)?;
    let sample = read(args, interrupt)?;
    let nr_pages = opt::count_pages(&sample.trace) as f64 / sample.sampler.rate();
    let sizes = sizes(args, &sample, nr_pages)?;
    let curves = Curves {
        accesses: sample.nr_accesses,
        pages: nr_pages.round() as u64,
        sample_rate: args.sample.map(|sampler| sampler.rate()),
        readahead: sample.readahead_use,
        points: points(args, &sample, &sizes, interrupt)?,
    };
    if let Some(path) = &args.svg {
        output::write("the picture", path, &drawing::alone(&lines(args, &curves))?)?;
    }
    args.json.print(&curves, || text(args, &curves, &sizes))
}

fn read(args: &MrcArgs, interrupt: &Interrupt) -> Result<Sample, Failure> {
    let sampler = args.sample.or(Sampler::new(1.0)).expect("1 is a share");
    let (mut trace, mut nr_accesses) = (DenseTrace::default(), 0);
    let facts = args.source.for_each(interrupt, |from, access| {
        nr_accesses += u64::from(access.kind.is_access());
        if sampler.takes(access.page) {
            trace.push_from(from, access);
        }
        Ok(())
    })?;
    // In a sample, reads that follow each other did not in the trace.
    let reader = if args.sample.is_some() { Reader::Recorded } else { setup::reader_of(&facts) };
    let readahead_use = args.readahead.apply(&mut trace);
    Ok(Sample { sampler, trace, nr_accesses, reader, readahead_use })
}

fn sizes(args: &MrcArgs, sample: &Sample, nr_pages: f64) -> Result<Vec<u32>, Failure> {
    if args.sample.is_some() && sample.trace.nr_pages() < SAMPLED_PAGES_MIN {
        return Err(Failure::Refused(format!(
            "a sample of {} pages says nothing: at least {SAMPLED_PAGES_MIN} are needed; use a \
             larger --sample, or none",
            sample.trace.nr_pages()
        )));
    }
    // Saturates at the most frames there can be.
    let frames_max = (nr_pages.round() as u32).max(1);
    let scaled_min = match args.sample {
        Some(sampler) => (SCALED_FRAMES_MIN / sampler.rate()).ceil() as u32,
        None => 1,
    };
    let frames_min = frames_max.div_ceil(RANGE).max(scaled_min).min(frames_max);
    Ok(curve::sizes(frames_min, frames_max, args.points.into()))
}

fn points(
    args: &MrcArgs,
    sample: &Sample,
    sizes: &[u32],
    interrupt: &Interrupt,
) -> Result<Vec<Point>, Failure> {
    let Sample { sampler, trace, nr_accesses, reader, readahead_use } = sample;
    let has_curve = |contender| is_lru(contender) && *readahead_use != ReadaheadUse::Recorded;
    let setup = |policy, frames: u32| Setup { reader: *reader, ..Setup::new(policy, frames) };
    let lru = SampledCurve::new(*sampler, trace, *nr_accesses);
    interrupt.check()?;
    let pairs =
        || args.policy.iter().flat_map(|&policy| sizes.iter().map(move |&size| (policy, size)));
    let cells: Vec<Cell> = pairs()
        .filter(|(contender, _)| !has_curve(*contender))
        .map(|(contender, size)| Cell::new(contender, sampler.scale(size), setup))
        .collect();
    let mut answers = cells::run(trace, &cells, args.jobs, interrupt)?.into_iter();
    let point = |(contender, frames): (Contender, u32)| {
        let (miss_ratio, pages_ahead) = if has_curve(contender) {
            (lru.miss_ratio(frames), 0)
        } else {
            let answer = answers.next().expect("an answer for each cell").outcome;
            (sampler.miss_ratio(answer.misses, *nr_accesses), answer.pages_ahead)
        };
        let nr_misses = miss_ratio * *nr_accesses as f64;
        let pages_read = (nr_misses + pages_ahead as f64 / sampler.rate()).round() as u64;
        let memory_bytes = Bytes::from_pages(frames.into()).0;
        let policy = contender.as_str();
        let device_read_bytes = Bytes::from_pages(pages_read).0;
        let error = lru.error(frames);
        Point { policy, frames, memory_bytes, miss_ratio, device_read_bytes, error }
    };
    Ok(pairs().map(point).collect())
}

fn is_lru(contender: Contender) -> bool {
    contender == Contender::Policy(PolicyName::Lru)
}

fn lines<'a>(args: &MrcArgs, curves: &'a Curves) -> Vec<Curve<'a>> {
    let nr_sizes = curves.points.len() / args.policy.len().max(1);
    curves
        .points
        .chunks(nr_sizes.max(1))
        .map(|points| Curve {
            policy: points[0].policy,
            points: points.iter().map(|point| (point.frames, point.miss_ratio)).collect(),
            errors: points.iter().map(|point| point.error).collect(),
        })
        .collect()
}

/// What was followed, and the table.
fn text(args: &MrcArgs, curves: &Curves, sizes: &[u32]) -> String {
    let pages = machine::rounded(Bytes::from_pages(curves.pages).0);
    let mut text = format!("{} accesses, {} pages ({pages})", curves.accesses, curves.pages);
    if let Some(rate) = curves.sample_rate {
        text.push_str(&format!(
            ", of which {rate} were followed; +- is one standard error, measured on lru"
        ));
    }
    format!("{text}\n{}\n{}", curves.readahead.describe(), table(args, curves, sizes).to_text())
}

/// A row a size, a column a policy; with readahead another for what the store gave.
fn table<'a>(args: &'a MrcArgs, curves: &Curves, sizes: &[u32]) -> Table<'a> {
    // Without readahead it is a page for each miss, and says nothing new.
    let has_bytes = curves.readahead == ReadaheadUse::Recorded;
    let mut columns = vec![right("memory", 12), right("frames", 10)];
    for policy in &args.policy {
        columns.push(right(policy.as_str(), 16));
        columns.extend(has_bytes.then_some(right("read", 10)));
    }
    columns.extend(curves.sample_rate.map(|_| right("+-", 7)));
    let mut table = Table::new(&columns);
    for (row, &frames) in sizes.iter().enumerate() {
        let memory = machine::rounded(Bytes::from_pages(frames.into()).0);
        let mut cells = vec![memory, frames.to_string()];
        let of_size = curves.points.iter().skip(row).step_by(sizes.len());
        for point in of_size.clone() {
            cells.push(percent(point.miss_ratio, 2));
            cells.extend(has_bytes.then(|| machine::rounded(point.device_read_bytes)));
        }
        let error = of_size.clone().next().map_or(0.0, |point| point.error);
        cells.extend(curves.sample_rate.map(|_| format!("{:.2}", error * 100.0)));
        table.push(cells);
    }
    table
}
