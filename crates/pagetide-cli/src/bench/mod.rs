//! `pagetide bench`: measures subjects against references in the same run.
//!
//! Problem: absolute times drift between machines and minutes. Idea: each case runs the subject and
//! the reference in alternation and reports the ratio.
//!
//! ```text
//!   run 1: subject, reference    run 2: subject, reference   ...   -> medians, ratio, spread
//!
//!   bench   case             reference     time of
//!   hit     copy             memcpy        copying a random resident page of 4 KiB
//!   hit     copy             pread         the same, the kernel's page cache hitting
//!   hit     guard, guard-N   floor, memcpy taking and dropping a read guard of one of 64 Ki, or N,
//!                                          pages; the atomics alone; an 8-byte load there
//!   hit     index            slice         guard[i] of all bytes of a page; slice[i]
//!   hit     read-8           floor         8 bytes by copy; the copy between two looks at a word
//!   miss    random           direct        a random 4 KiB read over 16x memory; O_DIRECT pread
//!   seq     cold             direct        a page of a cold file in 64 KiB calls; O_DIRECT, 1 MiB
//!   zipf    disk, ram        linux         a read, zipf 0.8 over 4x memory
//!   run     see programs/    linux...      unmodified programs under `pagetide run`
//!   tier    zipf, fits       all-fast      a read, zipf 0.99, of fast memory over 4x slow memory
//!   region  see region/      kernel...     faults, loads, stores and passes of a region
//!   items   gets, sets       swap          gets and sets of a cache of values in a region
//!   evict   the policy       the first     CPU time per clean page evicted, isolate to free
//!   scan    next, batch,     off           moving a folio between lists with prefetch; CPU time
//!           evict                          per clean page evicted
//!   alloc   pair             mutex...      a frame taken and freed; a locked list, a queue
//!   alloc   fault, locked    -             time per frame over 128 MiB; through the zone's lock
//! ```
//!
//! References of the kernel run in a cgroup of the same limit.
//!
//! Data: [`Row`]. `ratio` is the median over rounds of reference / subject, above 1 if Pagetide is
//! faster. Policies also alternate (`policies`).
//!
//! Ignored: load from other programs, visible only in the spread.

mod alloc;
mod direct;
mod evict;
mod hit;
mod interleave;
mod items;
mod mapped_job;
mod miss;
mod policies;
mod programs;
mod ram_disk;
mod region;
mod row;
mod scan;
mod seq;
mod tier;
mod zipf;

pub(crate) use mapped_job::COMMAND as MAPPED_WORK;
pub(crate) use programs::{LOAD, MemcachedLoadArgs, load};
pub(crate) use programs::{OPEN_EACH, OpenEachArgs, open_each};
pub(crate) use region::{MappedArgs, serve as work_on_mapped};

use crate::dataset::{self, DataFile};
use crate::document::Document;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine;
use crate::results::ResultsArgs;
use crate::settings::{self, Setting};
use crate::terminal::{self, JsonArgs, Progress};
use ::pagetide::{Advice, Builder, File, OpenOptions, PageCache};
use interleave::{Samples, TimedRun};
use pagetide_core::lru::{PolicyName, Switches};
use pagetide_core::units::Bytes;
use row::{Identity, Row};
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = "Examples:
  pagetide bench hit
  pagetide bench hit --policy mglru,pagetide          the second against the first, too
  pagetide bench zipf --memory 256M --dir /data --runs 7
  pagetide bench run --cases seq,stream --policy pagetide
  pagetide bench run --cases mmap-random,mmap-loop    mapped files; slow, and only where asked for
  pagetide bench all --json > bench.json
  pagetide bench miss --quick               seconds instead of minutes; numbers mean little";

/// Measure against references: memcpy, pread, O_DIRECT, the kernel's page cache.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// What to measure.
    #[arg(value_enum)]
    name: BenchName,
    /// Memory limit (hit: bytes resident). Default: hit 1G, run 512M, zipf and tier
    /// (fast memory) 128M, others 64M.
    #[arg(long, value_parser = terminal::parse_size)]
    memory: Option<Bytes>,
    /// Folder for the files; they are removed at the end, also on Ctrl-C.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Times that subject and reference are run in turn.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
    /// The policy under measurement; of hit, items and evict, several, as in mglru,pagetide: they
    /// take turns in each round, and each is compared with the first. Default: evict all, items
    /// mglru, active-inactive and pagetide, others pagetide.
    #[arg(long, value_delimiter = ',')]
    policy: Vec<PolicyName>,
    /// A knob of the cache, as in readahead_max=0 (docs/config.md); may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<Setting>,
    /// Of `run`, `region` and `items`, only these cases, as in seq,stream. Of `run`, mmap-random
    /// and mmap-loop are measured only if they are named here: a file of 4x the memory, and one of
    /// 1.06x, over and over, mapped under `run --mmap cache` and in a cgroup; and so are
    /// memcached-even, memcached-zipf, sqlite-mapped, lmdb, vectors (usearch), build and mariadb.
    #[arg(long, value_name = "CASE", value_delimiter = ',')]
    cases: Vec<String>,
    /// Of `run`, what the case build makes: the folder of a C project with a Makefile. MAKEFLAGS go
    /// to make.
    #[arg(long, value_name = "FOLDER")]
    source: Option<PathBuf>,
    /// Small sizes and short runs, to see that it works.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    results: ResultsArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum BenchName {
    /// Reads and guards of resident pages.
    Hit,
    /// Random reads that miss.
    Miss,
    /// A cold sequential read.
    Seq,
    /// Skewed reads against the kernel's page cache.
    Zipf,
    /// Unmodified programs under `pagetide run` (fio, sqlite3, grep, tar, cp, cat), against the
    /// kernel's page cache; a program of one thread that reads at random is held on a CPU, then on
    /// another, both times as its reference is.
    Run,
    /// Skewed reads from fast and slow memory.
    Tier,
    /// Faults of an address range, and loads from it.
    Region,
    /// Gets and sets of a cache of values that is larger than memory, against the kernel's swap.
    Items,
    /// CPU time per evicted page.
    Evict,
    /// What prefetching saves in scans of a list, and in evictions.
    Scan,
    /// Frames from the allocator, against shared free lists.
    Alloc,
    /// All of them.
    All,
}

/// Arguments shared by all benches.
struct Bench<'a> {
    args: &'a BenchArgs,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    fn wants(&self, case: &str) -> bool {
        self.args.cases.is_empty() || self.is_named(case)
    }

    /// Returns true if the user named the case. Slow cases run only by name.
    fn is_named(&self, case: &str) -> bool {
        self.args.cases.iter().any(|named| named == case)
    }

    /// Refuses unknown case names, which would otherwise be silently missing rows.
    fn refuse_unknown<'n>(
        &self,
        bench: &str,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> Result<(), Failure> {
        let mut unknown = self.args.cases.iter();
        match unknown.find(|case| !names.clone().any(|name| name == *case)) {
            None => Ok(()),
            Some(case) => {
                Err(Failure::Usage(format!("--cases: `bench {bench}` has no case {case}")))
            }
        }
    }

    fn policy(&self) -> PolicyName {
        self.args.policy.first().copied().unwrap_or_default()
    }

    /// Returns the memory limit: the argument, or `quick` with `--quick`, or `full`.
    fn memory(&self, full: u64, quick: u64) -> Bytes {
        self.args.memory.unwrap_or(Bytes(if self.args.quick { quick } else { full }))
    }

    fn duration(&self, full_ms: u64) -> Duration {
        Duration::from_millis(if self.args.quick { full_ms / 20 } else { full_ms })
    }

    /// Makes a file of `len` bytes in a new folder, removed with the first guard.
    fn make_file(&self, dir: &Path, len: Bytes) -> Result<(tempfile::TempDir, DataFile), Failure> {
        machine::check_disk(dir, len)?;
        let folder = dataset::make_folder(dir)?;
        let data = DataFile { path: folder.path().join("big"), id: 1, nr_pages: len.whole_pages() };
        let progress = Progress::new(format!("making {} of file", machine::rounded(len.0)));
        data.create(self.interrupt, |pages| progress.set(pages as f64 / data.nr_pages as f64))?;
        Ok((folder, data))
    }

    fn open(&self, cache: &PageCache, data: &DataFile) -> Result<File, Failure> {
        cache
            .open(&data.path, OpenOptions::new().read(true))
            .map_err(|error| Failure::on_path("open", &data.path, &error.into()))
    }

    /// Opens a file and advises random reads.
    fn open_random(&self, cache: &PageCache, data: &DataFile) -> Result<File, Failure> {
        let file = self.open(cache, data)?;
        file.advise(Advice::Random, 0, data.len())
            .map_err(|error| Failure::on_path("advise on", &data.path, &error.into()))?;
        Ok(file)
    }

    fn interleave<const N: usize>(
        &self,
        label: &str,
        timed_runs: [TimedRun<'_>; N],
    ) -> Result<[Samples; N], Failure> {
        interleave::interleave(label, self.args.runs, self.interrupt, timed_runs)
    }

    fn interleave_all(
        &self,
        label: &str,
        timed_runs: Vec<TimedRun<'_>>,
    ) -> Result<Vec<Samples>, Failure> {
        interleave::interleave_all(label, self.args.runs, self.interrupt, timed_runs)
    }

    /// Makes a cache with all frames touched.
    fn make_cache(&self, policy: PolicyName, memory: Bytes) -> Result<PageCache, Failure> {
        self.make_cache_with(policy, Switches::default(), memory)
    }

    /// As [`Bench::make_cache`], with chosen mechanisms.
    fn make_cache_with(
        &self,
        policy: PolicyName,
        switches: Switches,
        memory: Bytes,
    ) -> Result<PageCache, Failure> {
        self.build(PageCache::builder().pretouch(true).switches(switches), policy, memory)
    }

    /// Makes a cache with untouched frames, like the kernel's memory.
    fn make_untouched_cache(
        &self,
        policy: PolicyName,
        memory: Bytes,
    ) -> Result<PageCache, Failure> {
        self.build(PageCache::builder(), policy, memory)
    }

    fn build(
        &self,
        builder: Builder,
        policy: PolicyName,
        memory: Bytes,
    ) -> Result<PageCache, Failure> {
        settings::apply(builder, &self.args.set)
            .map_err(|error| Failure::on("set a knob", &error))?
            .memory(memory)
            .policy(policy)
            .build()
            .map_err(|error| Failure::on(&format!("make a cache of {memory}"), &error))
    }
}

pub(crate) fn run(args: &BenchArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    if args.memory.is_some_and(|memory| memory.0 < 4 << 20) {
        return Err(Failure::Usage("--memory is too small: a bench needs at least 4M".to_owned()));
    }
    use BenchName::{Evict, Hit, Items, Region, Run};
    if !args.cases.is_empty() && !matches!(args.name, Run | Region | Items) {
        return Err(Failure::Usage(
            "--cases is for `bench run`, `bench region` and `bench items`".to_owned(),
        ));
    }
    if args.policy.len() > 1 && !matches!(args.name, Hit | Items | Evict) {
        return Err(Failure::Usage(
            "several policies are for `bench hit`, `bench items` and `bench evict`".to_owned(),
        ));
    }
    machine::read_disk_free(&args.dir)?;
    args.results.check()?;
    let bench = Bench { args, interrupt };
    let is_wanted = |name| args.name == BenchName::All || args.name == name;
    let mut rows = Vec::new();
    type Measure = fn(&Bench<'_>) -> Result<Vec<Row>, Failure>;
    let benches: [(BenchName, Measure); 11] = [
        (Hit, hit::run),
        (BenchName::Miss, miss::run),
        (BenchName::Seq, seq::run),
        (BenchName::Zipf, zipf::run),
        (Run, programs::run),
        (BenchName::Tier, tier::run),
        (Region, region::run),
        (Items, items::run),
        (Evict, evict::run),
        (BenchName::Scan, scan::run),
        (BenchName::Alloc, alloc::run),
    ];
    for (_, run) in benches.into_iter().filter(|&(name, _)| is_wanted(name)) {
        let new = run(&bench)?;
        new.iter().for_each(Row::note_spread);
        rows.extend(new);
    }
    args.results.append(|| rows.iter().filter_map(|row| row.to_result(args.runs)).collect())?;
    args.json.print(&Document::new("pagetide.bench/1", &rows), || row::table(&rows).to_text())?;
    match rows.first().and_then(|row| row.skipped.as_ref()) {
        Some(why) if rows.iter().all(|row| row.skipped.is_some()) => {
            Err(Failure::Refused(format!("nothing could be measured: {why}")))
        }
        _ => Ok(()),
    }
}
