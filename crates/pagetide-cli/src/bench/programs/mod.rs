//! `bench run`: unmodified programs under `pagetide run`, against the kernel's page cache.
//!
//! ```text
//!   zipf      fio psync randread, zipf 0.8 over 4x memory, cold, 1 and 2 jobs: ends before much
//!             is evicted
//!   warm      the same with a quarter of memory, timed after memory has been full for a while
//!   resident  the same, uniform, over 3/8 of memory, timed once all is resident
//!   seq       fio psync read of the file of 4x memory, 128 KiB, cold, once: per KiB
//!   stream    the same by read(2), which has a position
//!   sqlite    point queries by rowid in a database of 4x a quarter of memory, cold: see scripts/
//!   small-open, one-pass-cat   many small files; a large file, once: see small.rs
//!   only by name:
//!   mmap-*    loads of a mapped file: see mapped.rs
//!   memcached-*   with its values in a mapped file: see memcached.rs
//!   sqlite-mapped, lmdb, vectors, build, mariadb   as sqlite
//! ```
//!
//! The reference is the same program in a memory cgroup of the same limit, plus the program's own
//! memory. Each turn drops the file from the kernel's page cache and touches as much free memory as
//! the limit, because a virtual machine's host takes free memory back.
//!
//! Ignored: memory of the program beside its files.

mod contest;
mod fio;
mod mapped;
mod memcached;
mod memory;
mod program;
mod scripts;
mod small;
mod turns;

use super::{Bench, Identity, Row};
use crate::failure::Failure;
use crate::machine;
use pagetide_core::units::Bytes;
use program::{LINUX, why_not};

pub(super) use fio::read_fio;
pub(crate) use memcached::{LOAD, MemcachedLoadArgs, load};
pub(super) use memory::read_memory_below;
pub(super) use program::{output_of, why_not_there};
pub(crate) use small::{OPEN_EACH, OpenEachArgs, open_each};

const BENCH: &str = "run";
const FILE_TIMES: u64 = 4;
/// Cases with job counts.
const FIO_CASES: [(&str, u32); 7] = [
    ("zipf", 1),
    ("zipf", 2),
    ("warm", 1),
    ("warm", 2),
    ("resident", 1),
    ("seq", 1),
    ("stream", 1),
];

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let fio = FIO_CASES.iter().map(|(case, _)| *case);
    let named = mapped::CASES.into_iter().chain(memcached::CASES);
    let named = named.chain(small::CASES).chain(scripts::names());
    bench.refuse_unknown(BENCH, fio.chain(named))?;
    let memory = bench.memory(512 << 20, 16 << 20);
    machine::check_memory(Bytes(memory.0 * 2))?;
    let mut cases = FIO_CASES.to_vec();
    cases.retain(|(case, _)| bench.wants(case));
    let mut rows = Vec::new();
    match why_not(memory, "fio") {
        _ if cases.is_empty() => {}
        None => rows.extend(fio::measure(bench, memory, &cases)?),
        Some(why) => {
            rows.extend(cases.iter().map(|&(case, jobs)| skipped((BENCH, case, jobs), &why)));
        }
    }
    rows.extend(scripts::run(bench, memory)?);
    match why_not(memory, "cat") {
        None => rows.extend(small::run(bench, memory)?),
        Some(why) => {
            let names = small::ROWS.iter().filter(|(case, _)| bench.wants(case));
            rows.extend(names.map(|(_, name)| skipped((BENCH, name, 1), &why)));
        }
    }
    rows.extend(mapped::run(bench, memory)?);
    rows.extend(memcached::run(bench, memory)?);
    Ok(rows)
}

fn skipped(identity: Identity<'_>, why: &str) -> Row {
    Row::skipped(identity, LINUX, why.to_owned())
}
