//! Sweeps over generated traces: interrupted, sharded, repeated, with damaged traces among them.

use pagetide_lab::replay::{self, Contender, Setup};
use pagetide_lab::trace::DenseTrace;
use pagetide_sweep::{
    Journal, MemorySize, Question, Reading, Shard, Source, Sweep, TableRow, Watch, run_unit,
    summarize, table_of, write_table,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Continues until this many parts are done.
struct Until(AtomicU64);

impl Until {
    fn parts(nr_parts: u64) -> Until {
        Until(AtomicU64::new(nr_parts))
    }
}

impl Watch for Until {
    fn keep_on(&self) -> bool {
        self.0.load(Relaxed) > 0
    }

    fn progress(&self, _: u64, _: u64) {
        let _ = self.0.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(1)));
    }
}

fn reads(seed: u64) -> Vec<u64> {
    (0..4000 + 97 * seed).map(|step| (step * step + seed) % (301 + 10 * seed) % 400).collect()
}

fn write_traces(folder: &Path, nr_traces: u64) -> Vec<Source> {
    let path_of = |seed: u64| {
        let group = folder.join(format!("group-{}", seed % 3));
        fs::create_dir_all(&group).expect("a folder");
        let mut text = String::new();
        reads(seed).iter().for_each(|page| writeln!(text, "{page}").expect("text"));
        let path: PathBuf = group.join(format!("{seed}.txt"));
        fs::write(&path, text).expect("a trace");
        Source::file(&path)
    };
    (0..nr_traces).map(path_of).collect()
}

fn question(policies: &[&str]) -> Question {
    let contenders = policies.iter().map(|name| name.parse().expect("a policy")).collect();
    let sizes = ["128K", "10%"].map(|text| text.parse::<MemorySize>().expect("a size")).into();
    Question { contenders, sizes, reading: Reading::default() }
}

fn sweep(sources: &[Source], question: &Question, folder: &Path, watch: &Until) -> Vec<TableRow> {
    let journal = Journal::open(folder, question).expect("a folder");
    let failures = Sweep::run(sources, question, &journal, Some(3), watch).expect("room");
    // Reads the journal as the next process would.
    let journal = Journal::open(folder, question).expect("a folder");
    let names = sources.iter().map(|source| source.name.as_str());
    table_of(names, question, &journal, &failures)
}

fn nr_rows_written(folder: &Path) -> usize {
    let lines =
        |path: PathBuf| fs::read_to_string(path).expect("lines").matches("{\"row\"").count();
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries.map(|entry| lines(entry.expect("an entry").path())).sum()
}

/// Returns the rows without durations, which differ between runs.
fn timeless(rows: &[TableRow]) -> Vec<TableRow> {
    let mut rows = rows.to_vec();
    rows.iter_mut().flat_map(|row| &mut row.numbers).for_each(|numbers| numbers.seconds = 0.0);
    rows
}

#[test]
fn an_interrupted_sweep_goes_on_where_it_was_and_counts_as_a_plain_replay() {
    let folder = tempfile::tempdir().expect("a folder");
    let (sources, question) =
        (write_traces(folder.path(), 12), question(&["lru", "s3fifo", "opt"]));
    let [once, twice] = ["once", "twice"].map(|name| folder.path().join(name));
    let whole = sweep(&sources, &question, &once, &Until::parts(u64::MAX));
    assert_eq!(whole.len(), 12 * 3 * 2);

    let part = sweep(&sources, &question, &twice, &Until::parts(20));
    assert!((1..70).contains(&part.len()), "{} rows after an interrupt", part.len());
    let resumed = sweep(&sources, &question, &twice, &Until::parts(u64::MAX));
    assert_eq!(timeless(&resumed), timeless(&whole));
    assert_eq!(nr_rows_written(&twice), whole.len(), "nothing was done twice");
    sweep(&sources, &question, &twice, &Until::parts(u64::MAX));
    assert_eq!(nr_rows_written(&twice), whole.len(), "there was nothing left to do");

    for row in &whole {
        let name = Path::new(&row.trace).file_stem().expect("a name").to_string_lossy();
        let trace = DenseTrace::from_reads(reads(name.parse().expect("a seed")));
        let numbers = row.numbers.expect("no trace is damaged");
        let outcome = match row.policy.parse().expect("a policy") {
            Contender::Policy(policy) => {
                replay::run_setup(Setup::of_trace(policy, numbers.frames, None), &trace)
            }
            opt => replay::run(opt, &trace, numbers.frames),
        };
        assert_eq!((numbers.misses, numbers.accesses), (outcome.misses, outcome.accesses));
    }
}

#[test]
fn two_shards_are_one_sweep_and_a_policy_more_asks_for_that_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (sources, mut question) = (write_traces(folder.path(), 10), question(&["lru", "sieve"]));
    let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
    let whole = sweep(&sources, &question, &one, &Until::parts(u64::MAX));
    for shard in ["1/2", "2/2"] {
        let shard: Shard = shard.parse().expect("a shard");
        let (part, _): (Vec<_>, Vec<_>) =
            sources.iter().cloned().partition(|source| shard.takes(&source.name));
        assert!(!part.is_empty());
        sweep(&part, &question, &two, &Until::parts(u64::MAX));
    }
    let sharded = sweep(&sources, &question, &two, &Until::parts(u64::MAX));
    assert_eq!(timeless(&sharded), timeless(&whole));
    assert_eq!(nr_rows_written(&two), whole.len());

    question.contenders.push("fifo".parse().expect("a policy"));
    let more = sweep(&sources, &question, &two, &Until::parts(u64::MAX));
    assert_eq!((more.len(), nr_rows_written(&two)), (30 * 2, 30 * 2));
}

#[test]
fn what_fails_is_a_row_and_a_torn_line_is_done_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut sources, question) = (write_traces(folder.path(), 2), question(&["lru"]));
    let damaged = folder.path().join("damaged.txt");
    fs::write(&damaged, "1\n2\nthree\n").expect("a file");
    sources.extend([Source::file(&damaged), Source::file(&folder.path().join("absent"))]);
    let rows_folder = folder.path().join("rows");
    let rows = sweep(&sources, &question, &rows_folder, &Until::parts(u64::MAX));
    let failed: Vec<&TableRow> = rows.iter().filter(|row| row.error.is_some()).collect();
    assert_eq!((rows.len(), failed.len()), (8, 4));
    assert!(failed[0].error.as_deref().is_some_and(|it| it.contains("No such file")), "{failed:?}");
    assert!(failed[2].error.as_deref().is_some_and(|it| it.contains("line 3")), "{failed:?}");

    let file = fs::read_dir(&rows_folder).expect("a folder").next().expect("a file").expect("it");
    let mut text = fs::read_to_string(file.path()).expect("lines");
    text.truncate(text.len() - 9);
    fs::write(file.path(), text).expect("it is torn");
    let again = sweep(&sources, &question, &rows_folder, &Until::parts(u64::MAX));
    assert_eq!(timeless(&again), timeless(&rows));
}

#[test]
fn a_unit_run_elsewhere_is_the_same_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let (sources, question) = (write_traces(folder.path(), 3), question(&["arc", "opt"]));
    let [here, elsewhere] = ["here", "elsewhere"].map(|name| folder.path().join(name));
    let whole = sweep(&sources, &question, &here, &Until::parts(u64::MAX));
    let journal = Journal::open(&elsewhere, &question).expect("a folder");
    for source in &sources {
        let lines = run_unit(source, &question, None, &Until::parts(u64::MAX)).expect("it runs");
        journal.append(&lines).expect("room");
        // The late answer of a worker that was presumed dead.
        journal.append(&lines).expect("room");
    }
    let names = sources.iter().map(|source| source.name.as_str());
    let rows = table_of(names, &question, &journal, &BTreeMap::new());
    assert_eq!(timeless(&rows), timeless(&whole));
}

#[test]
fn the_summary_says_which_policy_won_where_and_parquet_has_every_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let (sources, question) = (write_traces(folder.path(), 6), question(&["lru", "fifo", "opt"]));
    let rows = sweep(&sources, &question, &folder.path().join("rows"), &Until::parts(u64::MAX));
    let standings = summarize(&rows);
    assert_eq!(standings.len(), 4 * 2, "three groups and all, two policies");
    let all = &standings[6..];
    assert!(all.iter().all(|it| it.group.is_none() && it.nr_cells == 12), "{all:?}");
    assert!(all[0].regret_mean <= all[1].regret_mean);
    assert!(all[0].win_rate + all[1].win_rate >= 1.0, "each cell has a winner: {all:?}");
    let worst = rows.iter().find(|row| {
        (&row.trace, &row.size, row.policy)
            == (&all[1].worst_trace, &all[1].worst_size, all[1].policy)
    });
    assert!(worst.is_some(), "the worst row is one of the table's");

    let mut bytes = Vec::new();
    write_table(&rows, &mut bytes).expect("memory takes all");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    write_table(&[], Vec::new()).expect("no row is no error");
}
