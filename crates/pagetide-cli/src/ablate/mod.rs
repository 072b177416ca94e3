//! `pagetide ablate`: measures the effect of each mechanism of a policy on a trace.
//!
//! Idea: replay the unchanged policy, then flip one mechanism at a time.
//!
//! ```text
//!   policy x size --+-- as it is          --> misses, CPU time
//!                   +-- without tiers     --> difference
//!                   +-- without ...       --> difference       (all cores)
//! ```
//!
//! CPU time is the minimum over rounds of the replaying thread's own time. Parallel replays share
//! CPU caches, so `--jobs 1` measures best. Ignored: pairs of mechanisms that compensate for each
//! other.

mod report;

use crate::cells::{self, Answer};
use crate::document::Document;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine;
use crate::readahead::{self, ReadaheadArgs};
use crate::results::Measured;
use crate::rows::RowsArgs;
use crate::setup::SetupArgs;
use crate::sizes::SizeArgs;
use crate::source::SourceArgs;
use crate::table::{Table, cells, left, number, right};
use pagetide_core::lru::{Mechanism, PolicyName};
use pagetide_core::units::Bytes;
use pagetide_lab::replay::{Cell, Contender, Setup};
use pagetide_lab::trace::ReadaheadUse;
use serde::Serialize;

const EXAMPLES: &str = "Examples:
  pagetide ablate run.trace --memory 64M
  pagetide ablate twitter.csv.zst --frames 14354 --policy mglru,active-inactive
  pagetide ablate run.trace --memory 64M,256M --policy mglru --report ablation.html";

/// Switch each mechanism of a policy alone, and say what it is worth on a trace.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AblateArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    sizes: SizeArgs,
    /// Policies: those that `pagetide policies --mechanisms` lists mechanisms of.
    #[arg(long, value_delimiter = ',', default_value = "mglru")]
    policy: Vec<PolicyName>,
    #[command(flatten)]
    readahead: ReadaheadArgs,
    #[command(flatten)]
    setup: SetupArgs,
    /// Times that every variant is replayed; the least CPU time of each counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
    #[command(flatten)]
    output: RowsArgs,
}

/// Field names are as in `--json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct AblationRow {
    policy: &'static str,
    frames: u32,
    memory_bytes: u64,
    /// `None` for the unchanged policy.
    mechanism: Option<&'static str>,
    /// The new state of the mechanism.
    is_on: Option<bool>,
    /// Use of the recorded readahead: "none" in the trace, "without", or "recorded".
    readahead: ReadaheadUse,
    misses: u64,
    /// Difference from the unchanged policy, as in all `_more` fields.
    misses_more: i64,
    /// Percentage points of all accesses.
    points_more: f64,
    /// Bytes read by misses and readahead.
    device_read_bytes: u64,
    evictions: u64,
    /// `None` without evictions.
    cpu_ns_per_eviction: Option<f64>,
    cpu_ns_per_eviction_more: Option<f64>,
    cpu_ns_per_access: f64,
    cpu_ns_per_access_more: f64,
}

pub(crate) fn run(args: &AblateArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let sizes = args.sizes.frames()?;
    check_policies(&args.policy)?;
    args.output.check()?;
    let contenders: Vec<Contender> = args.policy.iter().copied().map(Contender::Policy).collect();
    args.setup.check(&contenders, &sizes)?;
    let (mut trace, facts) = args.source.read_dense(interrupt)?;
    let readahead_use = args.readahead.apply(&mut trace);
    let groups: Vec<Vec<Variant>> = sizes
        .iter()
        .flat_map(|&frames| args.policy.iter().map(move |&policy| (policy, frames)))
        .map(|(policy, frames)| variants(args.setup.setup(policy, frames, &facts), frames))
        .collect();
    let cells: Vec<Cell> = groups.iter().flatten().map(|variant| variant.cell).collect();
    let rounds = cells.repeat(args.runs as usize);
    let answers = cells::run(&trace, &rounds, args.output.jobs, interrupt)?;
    let rows = rows(&groups, &least_of_rounds(&answers, cells.len()), readahead_use);
    if let Some(path) = &args.output.report {
        report::write(path, &args.source.file, &trace, readahead_use, &rows)?;
    }
    args.output.results.append(|| rows.iter().map(|row| to_result(&args.source, row)).collect())?;
    let text = || format!("{}\n{}", readahead::describe(readahead_use), table(&rows).to_text());
    args.output.json.print(&Document::new("pagetide.ablate/1", &rows), text)
}

#[derive(Clone, Copy, Debug)]
struct Variant {
    flipped: Option<(Mechanism, bool)>,
    cell: Cell,
}

fn check_policies(policies: &[PolicyName]) -> Result<(), Failure> {
    match policies.iter().find(|policy| Mechanism::of(**policy).next().is_none()) {
        Some(policy) => Err(Failure::Usage(format!(
            "{policy} has no mechanism to switch: `pagetide policies --mechanisms` lists them"
        ))),
        None => Ok(()),
    }
}

/// Returns the unchanged setup, then one setup per flipped mechanism.
fn variants(setup: Setup, frames: u32) -> Vec<Variant> {
    let variant = |flipped: Option<(Mechanism, bool)>| {
        let switches = match flipped {
            Some((mechanism, _)) => setup.switches.flipped(mechanism),
            None => setup.switches,
        };
        let setup = Setup { switches, ..setup };
        let cell = Cell::new(Contender::Policy(setup.policy), frames, |_, _| setup);
        Variant { flipped, cell }
    };
    let flips = Mechanism::of(setup.policy).map(|it| Some((it, !setup.switches.has(it))));
    std::iter::once(None).chain(flips).map(variant).collect()
}

/// Returns the first round's answers with the minimum CPU time of all rounds.
fn least_of_rounds(answers: &[Answer], nr_cells: usize) -> Vec<Answer> {
    let mut least = answers[..nr_cells].to_vec();
    for round in answers.chunks(nr_cells) {
        for (least, again) in least.iter_mut().zip(round) {
            least.cpu_ns = least.cpu_ns.min(again.cpu_ns);
        }
    }
    least
}

/// Makes rows, each compared with the group's first.
fn rows(groups: &[Vec<Variant>], answers: &[Answer], readahead: ReadaheadUse) -> Vec<AblationRow> {
    let mut rows = Vec::with_capacity(answers.len());
    let mut left = answers;
    for group in groups {
        let (of_group, others) = left.split_at(group.len());
        left = others;
        let as_it_is = &of_group[0];
        let answered = group.iter().zip(of_group);
        let compared = answered.map(|(variant, it)| row(variant, it, as_it_is, readahead));
        rows.extend(compared);
    }
    rows
}

fn row(
    variant: &Variant,
    answer: &Answer,
    as_it_is: &Answer,
    readahead: ReadaheadUse,
) -> AblationRow {
    let outcome = &answer.outcome;
    let misses_more = outcome.misses as i64 - as_it_is.outcome.misses as i64;
    let accesses = outcome.accesses.max(1) as f64;
    let per_eviction = |answer: &Answer| {
        let evictions = answer.outcome.evictions;
        (evictions > 0).then(|| answer.cpu_ns as f64 / evictions as f64)
    };
    let (mine, its) = (per_eviction(answer), per_eviction(as_it_is));
    AblationRow {
        policy: variant.cell.contender.as_str(),
        frames: variant.cell.frames,
        memory_bytes: Bytes::from_pages(variant.cell.frames.into()).0,
        mechanism: variant.flipped.map(|(mechanism, _)| mechanism.as_str()),
        is_on: variant.flipped.map(|(_, is_on)| is_on),
        readahead,
        misses: outcome.misses,
        misses_more,
        points_more: misses_more as f64 / accesses * 100.0,
        device_read_bytes: outcome.device_read_bytes(),
        evictions: outcome.evictions,
        cpu_ns_per_eviction: mine,
        cpu_ns_per_eviction_more: mine.zip(its).map(|(mine, its)| mine - its),
        cpu_ns_per_access: answer.cpu_ns as f64 / accesses,
        cpu_ns_per_access_more: (answer.cpu_ns as f64 - as_it_is.cpu_ns as f64) / accesses,
    }
}

fn table(rows: &[AblationRow]) -> Table<'static> {
    let columns = [
        left("policy", 20),
        right("frames", 9),
        left("flipped", 26),
        right("misses", 11),
        right("more", 11),
        right("points", 8),
        right("read", 10),
        right("ns/evict", 10),
        right("more", 8),
        right("ns/access", 10),
        right("more", 8),
    ];
    let cells_of = |row: &AblationRow| {
        cells![
            row.policy,
            row.frames,
            name_of(row),
            row.misses,
            format!("{:+}", row.misses_more),
            format!("{:+.2}", row.points_more),
            machine::rounded(row.device_read_bytes),
            number(row.cpu_ns_per_eviction, 0),
            number(row.cpu_ns_per_eviction_more, 0),
            format!("{:.1}", row.cpu_ns_per_access),
            format!("{:+.1}", row.cpu_ns_per_access_more),
        ]
    };
    Table::new(&columns).with_rows(rows.iter().map(cells_of))
}

fn to_result(source: &SourceArgs, row: &AblationRow) -> Measured {
    let case = format!("{}, {} frames, {}", source.name(), row.frames, name_of(row));
    Measured::once(case, row.policy, "points more", row.points_more)
}

fn name_of(row: &AblationRow) -> String {
    match (row.mechanism, row.is_on) {
        (Some(name), Some(true)) => format!("{name} on"),
        (Some(name), _) => format!("{name} off"),
        (None, _) => "as it is".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::JobsArgs;
    use pagetide_lab::trace::DenseTrace;

    #[test]
    fn each_mechanism_is_flipped_alone_and_compared_with_none() {
        let setup = Setup::new(PolicyName::Mglru, 64);
        let group = variants(setup, 64);
        assert_eq!(group.len(), 1 + Mechanism::of(PolicyName::Mglru).count());
        for variant in &group[1..] {
            let (mechanism, is_on) = variant.flipped.expect("flipped");
            let flipped = variant.cell.setup.expect("a policy").switches;
            assert_eq!(flipped.has(mechanism), is_on);
            assert_eq!(flipped.flipped(mechanism), setup.switches);
        }
        let trace = DenseTrace::from_reads((0..9000).map(|step| step * step % 997 % 200));
        let cells: Vec<Cell> = group.iter().map(|variant| variant.cell).collect();
        let answers = cells::run(&trace, &cells, JobsArgs::default(), &Interrupt::default())
            .expect("it runs");
        let rows = rows(&[group], &answers, ReadaheadUse::None);
        assert_eq!((rows[0].mechanism, rows[0].misses_more), (None, 0));
        assert_eq!((rows[0].cpu_ns_per_access_more, rows[0].points_more), (0.0, 0.0));
        for row in &rows[1..] {
            assert_eq!(row.misses as i64 - rows[0].misses as i64, row.misses_more);
        }
        assert_eq!(table(&rows).to_text().lines().count(), rows.len() + 1);
    }
}
