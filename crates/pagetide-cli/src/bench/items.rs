//! `bench items`: a cache of values larger than memory, with alternating policies.
//!
//! ```text
//!   case        contents over memory   gets of
//!   gets-even   1/0.95                 uniform keys: the memcached of docs/seeds.md, scaled
//!   gets-zipf   4                      keys by zipf 0.99
//!   sets-zipf   4                      the same with 30 % sets
//! ```
//!
//! The subject is an anonymous region under each policy, similar to `memcached -e FILE`. *swap* is
//! anonymous kernel memory in a memory cgroup of the same limit, with a swap file in the same
//! folder. Each turn is a child process that first sets all keys.

use super::interleave::{Samples, TimedRun};
use super::mapped_job::{Job, Under, Work};
use super::region::{SwapSpace, run_job};
use super::{Bench, Row, policies};
use crate::cgroup::MemoryGroup;
use crate::dataset::make_folder;
use crate::failure::Failure;
use crate::machine;
use pagetide_core::lru::PolicyName;
use pagetide_core::units::Bytes;
use std::cell::RefCell;
use std::path::Path;

const BENCH: &str = "items";
const POLICIES: [PolicyName; 3] =
    [PolicyName::Mglru, PolicyName::ActiveInactive, PolicyName::Pagetide];
const MEMORY_MIN: u64 = 16 << 20;
/// Contents / memory, in hundredths.
const TIMES_MAX: u64 = 400;

struct Case {
    name: &'static str,
    work: Work,
    times: u64,
    threads: &'static [u32],
}

const CASES: [Case; 3] = [
    Case {
        name: "gets-even",
        work: Work::Items { is_zipf: false, sets: 0 },
        times: 105,
        threads: &[1],
    },
    Case {
        name: "gets-zipf",
        work: Work::Items { is_zipf: true, sets: 0 },
        times: TIMES_MAX,
        threads: &[1, 2],
    },
    Case {
        name: "sets-zipf",
        work: Work::Items { is_zipf: true, sets: 30 },
        times: TIMES_MAX,
        threads: &[1, 2],
    },
];

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    bench.refuse_unknown(BENCH, CASES.iter().map(|case| case.name))?;
    let memory = Bytes(bench.memory(64 << 20, MEMORY_MIN).0.max(MEMORY_MIN));
    // Swap space for the kernel and as much for the region.
    let room = Bytes(memory.0 * (TIMES_MAX + 100) / 100);
    machine::check_disk(&bench.args.dir, Bytes(room.0 * 2))?;
    let folder = make_folder(&bench.args.dir)?;
    let swap = MemoryGroup::with_limit(memory).and_then(|_| SwapSpace::make(folder.path(), room));
    let refused = swap.as_ref().err().cloned().or_else(why_no_region);
    let mut rows = Vec::new();
    for case in CASES.iter().filter(|case| bench.wants(case.name)) {
        for &threads in case.threads {
            rows.extend(match &refused {
                None => measure(bench, memory, case, threads, folder.path())?,
                Some(why) => vec![case.skipped(threads, why)],
            });
        }
    }
    Ok(rows)
}

fn why_no_region() -> Option<String> {
    let cache = ::pagetide::PageCache::builder().memory(Bytes(1 << 20)).build().ok()?;
    let options = ::pagetide::RegionOptions::anonymous(Bytes(4096));
    cache.region(options).err().map(|error| error.to_string())
}

impl Case {
    fn skipped(&self, threads: u32, why: &str) -> Row {
        Row::skipped((BENCH, self.name, threads), Under::Swap.name(), why.to_owned())
    }
}

/// Policies and kernel alternate.
fn measure(
    bench: &Bench<'_>,
    memory: Bytes,
    case: &Case,
    threads: u32,
    folder: &Path,
) -> Result<Vec<Row>, Failure> {
    let asked = &bench.args.policy[..];
    let names = if asked.is_empty() { &POLICIES[..] } else { asked };
    let killed = RefCell::<Option<String>>::default();
    let timed_run = |(under, policy): (Under, PolicyName)| -> TimedRun<'_> {
        let job = Job {
            work: case.work,
            under,
            memory: memory.0,
            len: Bytes::from_pages(memory.whole_pages() * case.times / 100).0,
            threads,
            seed: 1,
            millis: bench.duration(3000).as_millis() as u64,
            data: None,
            folder: folder.to_owned(),
            policy: policy.as_str().to_owned(),
            settings: bench.args.set.clone(),
            group: None,
        };
        let killed = &killed;
        Box::new(move || Ok(run_job(bench, job.clone(), killed)?.ns))
    };
    let subjects: Vec<_> = names.iter().map(|name| (Under::Pagetide, *name)).collect();
    let swap = (Under::Swap, PolicyName::default());
    let label = format!("items {}, {threads} threads", case.name);
    let time = |contenders: &[(Under, PolicyName)]| -> Result<Vec<Samples>, Failure> {
        bench.interleave_all(&label, contenders.iter().copied().map(timed_run).collect())
    };
    let identity = (BENCH, case.name, threads);
    let samples = time(&[&subjects[..], &[swap]].concat());
    if let Some(why) = killed.take() {
        // The kernel fails if all memory is in use and swap is slow: skip the kernel.
        let mut rows = policies::rows(identity, names, &time(&subjects)?, &[]);
        rows.push(case.skipped(threads, &why));
        return Ok(rows);
    }
    let samples = samples?;
    let (swap, subjects) = samples.split_last().expect("each contender has its samples");
    Ok(policies::rows(identity, names, subjects, &[(Under::Swap.name(), swap)]))
}
