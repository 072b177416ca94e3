//! `pagetide sweep`: replays many traces by policies and sizes, skipping known results.
//!
//! ```text
//!   TRACES (files, folders) --shard?--> sweep crate: workers, journal --> OUT.rows/*.jsonl
//!                                                                     --> OUT.parquet, stdout
//! ```
//!
//! An interrupted sweep resumes. `--shard` writes only rows. After all shards, the same command
//! without `--shard` makes the table.
//!
//! Ignored: other rows in OUT.rows.

use crate::document::Document;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{self, NewFile};
use crate::parallel::JobsArgs;
use crate::readahead::ReadaheadArgs;
use crate::source::FormatArgs;
use crate::table::{Table, cells, left, percent, right};
use crate::terminal::{JsonArgs, Progress};
use pagetide_lab::replay::Contender;
use pagetide_sweep::{
    Journal, MemorySize, Question, Reading, Shard, Source, Standing, Sweep, TableRow, Watch,
    summarize, table_of, write_table,
};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "Examples:
  pagetide sweep traces/ --policy lru,s3fifo,pagetide --memory 64M,256M --out results.parquet
  pagetide sweep a.csv.zst b.csv.zst --policy arc,opt --memory 0.1%,1%,10% --out results.parquet
  pagetide sweep traces/ --policy lru --memory 1% --out results.parquet --shard 3/16";

/// Replay many traces through policies and sizes: what is missing of a table, and the table.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SweepArgs {
    /// Traces, and folders of traces with all that is below them.
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// Policies: the names that `pagetide policies` lists, and opt (Belady's bound).
    #[arg(long, value_delimiter = ',', required = true)]
    policy: Vec<Contender>,
    /// Memory sizes: 64M, or shares of each trace's pages such as 1%.
    #[arg(long, value_delimiter = ',', required = true)]
    memory: Vec<MemorySize>,
    /// The table, a Parquet file. Rows are kept as they come in a folder beside it, OUT.rows.
    #[arg(long)]
    out: PathBuf,
    /// Do only the traces of one of so many parts, as in 1/16, and make no table.
    #[arg(long)]
    shard: Option<Shard>,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    readahead: ReadaheadArgs,
    #[command(flatten)]
    jobs: JobsArgs,
    #[command(flatten)]
    json: JsonArgs,
}

/// Field names are as in `--json`.
#[derive(Serialize)]
struct Swept<'a> {
    traces: usize,
    cells: usize,
    failed: Vec<FailedCell<'a>>,
}

#[derive(Serialize)]
struct FailedCell<'a> {
    trace: &'a str,
    policy: &'static str,
    size: &'a str,
    error: &'a str,
}

fn failure_of(row: &TableRow) -> Option<FailedCell<'_>> {
    let TableRow { trace, policy, size, error, .. } = row;
    error.as_ref().map(|error| FailedCell { trace, policy, size, error })
}

/// Keeps finished rows at an interrupt.
pub(crate) fn run(args: &SweepArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    if args.shard.is_none() {
        output::check("the table", [&args.out])?;
    }
    let sources = collect_sources(args)?;
    let reading = Reading { has_readahead: args.readahead.is_recorded(), ..args.format.reading() };
    let question =
        Question { contenders: args.policy.clone(), sizes: args.memory.clone(), reading };
    let mut folder = args.out.clone().into_os_string();
    folder.push(".rows");
    let refuse = |error| Failure::on("keep rows", &error);
    let journal = Journal::open(Path::new(&folder), &question).map_err(refuse)?;
    let watch = Watched { interrupt, bar: Progress::with_time_left(label(&sources)) };
    let failures = Sweep::run(&sources, &question, &journal, args.jobs.asked(), &watch);
    let failures = failures.map_err(refuse)?;
    drop(watch);
    if interrupt.is_set() {
        return Err(Failure::InterruptedWith(format!(
            "the rows so far are in {}, and the same command does the rest",
            folder.display()
        )));
    }
    let names = sources.iter().map(|source| source.name.as_str());
    let rows = table_of(names, &question, &journal, &failures);
    if args.shard.is_none() {
        let mut file = NewFile::create("the table", &args.out)?;
        write_table(&rows, &mut file).map_err(|error| Failure::on("write the table", &error))?;
        file.finish()?;
    }
    let failed = rows.iter().filter_map(failure_of).collect();
    let standings = summarize(&rows);
    let swept = Swept { traces: sources.len(), cells: rows.len(), failed };
    let document = Document::new("pagetide.sweep/1", &standings).about(&swept);
    args.json.print(&document, || text(&swept, &standings))
}

struct Watched<'a> {
    interrupt: &'a Interrupt,
    bar: Progress,
}

impl Watch for Watched<'_> {
    fn keep_on(&self) -> bool {
        !self.interrupt.is_set()
    }

    fn progress(&self, nr_done: u64, nr_parts: u64) {
        self.bar.set(nr_done as f64 / nr_parts.max(1) as f64);
    }
}

fn label(sources: &[Source]) -> String {
    format!("sweeping {} traces", sources.len())
}

/// Returns the shard's traces, sorted by name.
fn collect_sources(args: &SweepArgs) -> Result<Vec<Source>, Failure> {
    let mut paths = Vec::new();
    for path in &args.traces {
        collect_files(path, &mut paths)?;
    }
    let nr_all = paths.len();
    let mut sources: Vec<Source> = paths.iter().map(|path| Source::file(path)).collect();
    sources.retain(|source| args.shard.is_none_or(|shard| shard.takes(&source.name)));
    sources.sort();
    sources.dedup();
    if nr_all == 0 {
        return Err(Failure::Refused("there is no file in these folders".to_owned()));
    }
    Ok(sources)
}

/// Keeps a missing file, so that its row reports the error.
fn collect_files(path: &Path, to: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if path == Path::new("-") {
        let why = "a sweep reads its traces more than once, so not from standard input: name files";
        return Err(Failure::Refused(why.to_owned()));
    }
    if !path.is_dir() {
        to.push(path.to_owned());
        return Ok(());
    }
    let refuse = |error| Failure::on_path("read the folder", path, &error);
    for entry in fs::read_dir(path).map_err(refuse)? {
        collect_files(&entry.map_err(refuse)?.path(), to)?;
    }
    Ok(())
}

fn text(swept: &Swept<'_>, standings: &[Standing]) -> String {
    let mut text = format!("{} traces, {} rows\n", swept.traces, swept.cells);
    let columns = [
        left("traces in", 0),
        left("policy", 16),
        right("compared", 9),
        right("won", 8),
        right("regret", 8),
        right("largest", 8),
        left("with frames or share, trace", 0),
    ];
    let cells_of = |it: &Standing| {
        cells![
            it.group.as_deref().unwrap_or("all"),
            it.policy,
            it.nr_cells,
            percent(it.win_rate, 1),
            format!("{:.2}", 100.0 * it.regret_mean),
            format!("{:.2}", 100.0 * it.regret_max),
            if it.regret_max > 0.0 {
                format!("{}, {}", it.worst_size, it.worst_trace)
            } else {
                String::new()
            },
        ]
    };
    let table = Table::new(&columns).spaced("", "  ");
    text += &table.with_rows(standings.iter().map(cells_of)).to_text();
    if !standings.is_empty() {
        text += "won: missed least, ties included; regret: missed more than the best did, mean and \
                 largest, in percent of the accesses\n";
    }
    let mut said: Vec<(&str, &str)> = Vec::new();
    for row in &swept.failed {
        let failure = (row.trace, row.error);
        if !said.contains(&failure) {
            said.push(failure);
        }
    }
    for (trace, error) in said {
        text += &format!("failed: {trace}: {error}\n");
    }
    text
}
