//! `bench hit`: measures reads of resident pages.
//!
//! ```text
//!   copy        subject  file.read_at(random page) into one 4 KiB buffer, all resident
//!               memcpy   the same copy from touched anonymous memory on huge pages
//!               pread    the same read from the kernel's page cache
//!   guard-N     subject  file.page(random page), 8 bytes loaded, and dropped; N pages
//!               floor    the same pages: find the page word by index, take with one
//!                        compare-and-swap, load 8 bytes, release with one atomic
//!   guard       the same with 64 Ki pages, and against memcpy: the 8-byte load alone, the least
//!               cost of a page access
//!   index       subject  guard[i] of all bytes of a page, added up
//!               slice    the same bytes of the page by slice[i]
//!   read-8      subject  file.read_at of 8 bytes of a random page, 16 pages
//!               floor    the same pages: find the page word by index, load, copy, load again
//! ```
//!
//! The cache is an eighth larger than the file, so that reclaim does not run. Guards and small
//! reads take nanoseconds, so the fastest of many short runs counts. Ignored: copies of pages in
//! order, because the CPU caches would answer.

use super::interleave::{TimedRun, fastest_of, interleave_all, time_threads};
use super::{Bench, Identity, Row, policies};
use crate::dataset::{DataFile, drop_from_kernel_cache};
use crate::failure::Failure;
use crate::machine;
use crate::terminal;
use ::pagetide::{File, PageCache};
use pagetide_core::lru::PolicyName;
use pagetide_core::units::{Bytes, PAGE_BYTES};
use pagetide_sys::huge_buffer::HugeBuffer;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::time::Duration;

/// Numbers of pages in the guard cases, fewest first.
const GUARD_PAGES: [(&str, u64); 4] =
    [("guard-1", 1), ("guard-16", 16), ("guard-4096", 4096), ("guard", 64 << 10)];
/// Number of pages in the small-read case.
const READ_PAGES: u64 = 16;
/// Bytes of a small read.
const READ_BYTES: usize = 8;
/// Operations between looks at the clock.
const BATCH: u32 = 1024;
/// Passes over the file before the measurement, to make all pages resident.
const WARM_PASSES: u32 = 4;

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let len = bench.memory(1 << 30, 16 << 20);
    let memory = Bytes(len.0 + len.0 / 8 + (16 << 20));
    let default = [bench.policy()];
    let policies = if bench.args.policy.is_empty() { &default } else { &*bench.args.policy };
    // The caches, the memory to copy from, and the kernel's page cache.
    machine::check_memory(Bytes(memory.0 * policies.len() as u64 + 2 * len.0))?;
    let (_folder, data) = bench.make_file(&bench.args.dir, len)?;
    let subjects = policies
        .iter()
        .map(|&policy| resident(bench, policy, memory, &data))
        .collect::<Result<Vec<_>, _>>()?;
    let hits = Hits {
        bench,
        policies,
        files: subjects.iter().map(|(_, file)| file).collect(),
        plain: std::fs::File::open(&data.path)
            .map_err(|error| Failure::on_path("open", &data.path, &error))?,
        memory: HugeBuffer::new(len.0 as usize)
            .map_err(|error| Failure::on("map memory to copy from", &error))?,
        nr_pages: data.nr_pages,
    };
    let mut rows = hits.copies(1)?;
    rows.extend(hits.copies(2)?);
    for (case, nr_pages) in GUARD_PAGES {
        rows.extend(hits.guards(case, nr_pages.min(hits.nr_pages))?);
    }
    rows.extend(hits.indexed()?);
    rows.extend(hits.small_reads()?);
    drop_from_kernel_cache(&data.path)?;
    Ok(rows)
}

/// Makes a cache under `policy` with the whole file resident.
fn resident(
    bench: &Bench<'_>,
    policy: PolicyName,
    memory: Bytes,
    data: &DataFile,
) -> Result<(PageCache, File), Failure> {
    let cache = bench.make_cache(policy, memory)?;
    let file = bench.open(&cache, data)?;
    warm(bench, &file, data)?;
    Ok((cache, file))
}

/// Makes every page resident, in both caches, and checks a word of each.
fn warm(bench: &Bench<'_>, file: &File, data: &DataFile) -> Result<(), Failure> {
    let refuse = |error: std::io::Error| Failure::on_path("read", &data.path, &error);
    let mut page = vec![0; PAGE_BYTES];
    let plain = std::fs::File::open(&data.path).map_err(refuse)?;
    for _ in 0..WARM_PASSES {
        for index in 0..data.nr_pages {
            bench.interrupt.check()?;
            file.read_at(&mut page, Bytes::from_pages(index).0)
                .map_err(|error| refuse(error.into()))?;
            data.check_word(index, 0, &page, 0).map_err(|wrong| data.failure(wrong))?;
            plain.read_at(&mut page, Bytes::from_pages(index).0).map_err(refuse)?;
        }
        if file.resident_pages(0, data.len()) == data.nr_pages {
            return Ok(());
        }
    }
    let resident = file.resident_pages(0, data.len());
    terminal::note(&format!(
        "note: only {resident} of {} pages are resident; the hit rows hold misses",
        data.nr_pages
    ));
    Ok(())
}

/// Returns the nanoseconds for one 4 KiB read of a random page by `read`.
fn time_copies(
    threads: u32,
    duration: Duration,
    nr_pages: u64,
    read: impl Fn(&mut [u8], u64) -> std::io::Result<usize> + Sync,
) -> Result<f64, Failure> {
    let states = (0..u64::from(threads))
        .map(|seed| (SmallRng::seed_from_u64(seed), vec![0; PAGE_BYTES]))
        .collect();
    time_threads((duration, BATCH), states, |(random, buffer)| {
        let offset = Bytes::from_pages(random.random_range(0..nr_pages)).0;
        read(buffer, offset).map_err(|error| Failure::on("read", &error))?;
        black_box(&buffer);
        Ok(())
    })
}

/// Returns the nanoseconds for one operation on a random page: the fastest of many runs. All runs
/// use the same pages in the same order.
fn time_pages(
    duration: Duration,
    nr_pages: u64,
    operate: impl Fn(u64) -> Result<(), Failure> + Sync + Copy,
) -> Result<f64, Failure> {
    // Moved, so that no operation follows a reference.
    fastest_of(duration, |duration| {
        time_threads((duration, BATCH), vec![SmallRng::seed_from_u64(7)], move |random| {
            operate(random.random_range(0..nr_pages))
        })
    })
}

/// Returns the offset to load within a page. Pages have different offsets, because a CPU cache
/// holds only a few lines at a distance of a multiple of 4 KiB.
fn place_in(index: u64) -> usize {
    (index as usize * 64) % PAGE_BYTES
}

fn load(bytes: &[u8], at: usize) -> [u8; READ_BYTES] {
    bytes[at..at + READ_BYTES].try_into().expect("as many bytes")
}

/// Adds a reader to a page word unless the lowest bit, the writer's, is set.
fn take(word: &AtomicU64) {
    let mut now = word.load(Relaxed);
    while now & 1 == 0 {
        match word.compare_exchange_weak(now, now + 2, Acquire, Relaxed) {
            Ok(_) => return,
            Err(newer) => now = newer,
        }
    }
    unreachable!("nothing locks these pages");
}

/// Makes a word for each page, like a page table without levels.
fn page_words(nr_pages: u64) -> Vec<AtomicU64> {
    (0..nr_pages).map(|_| AtomicU64::new(0)).collect()
}

/// The file in each cache, and the references.
struct Hits<'a> {
    bench: &'a Bench<'a>,
    policies: &'a [PolicyName],
    /// By policy.
    files: Vec<&'a File>,
    plain: std::fs::File,
    memory: HugeBuffer,
    nr_pages: u64,
}

impl<'a> Hits<'a> {
    fn copies(&'a self, threads: u32) -> Result<Vec<Row>, Failure> {
        let (duration, nr_pages) = (self.bench.duration(400), self.nr_pages);
        let of_cache = |file: &'a File| -> TimedRun<'a> {
            Box::new(move || {
                time_copies(threads, duration, nr_pages, |buffer, offset| {
                    file.read_at(buffer, offset).map_err(std::io::Error::from)
                })
            })
        };
        let memcpy = move || {
            time_copies(threads, duration, nr_pages, |buffer, offset| {
                buffer.copy_from_slice(&self.memory[offset as usize..][..PAGE_BYTES]);
                Ok(PAGE_BYTES)
            })
        };
        let pread = move || {
            let read = |buffer: &mut [u8], offset| self.plain.read_at(buffer, offset);
            time_copies(threads, duration, nr_pages, read)
        };
        let references: [(_, TimedRun<'_>); 2] =
            [("memcpy", Box::new(memcpy)), ("pread", Box::new(pread))];
        self.measure(("hit", "copy", threads), of_cache, references)
    }

    fn guards(&'a self, case: &'static str, nr_pages: u64) -> Result<Vec<Row>, Failure> {
        let duration = self.bench.duration(300);
        let of_cache = |file: &'a File| -> TimedRun<'a> {
            Box::new(move || {
                time_pages(duration, nr_pages, move |index| {
                    let guard = file.page(index);
                    let guard = guard.map_err(|error| Failure::on("take a guard", &error))?;
                    black_box(load(&guard, place_in(index)));
                    Ok(())
                })
            })
        };
        let floor = move || {
            let words = &*page_words(nr_pages);
            time_pages(duration, nr_pages, move |index| {
                let word = &words[index as usize];
                take(word);
                black_box(self.bytes_of(index));
                word.fetch_sub(2, Release);
                Ok(())
            })
        };
        let load = move || {
            time_pages(duration, nr_pages, move |index| {
                black_box(self.bytes_of(index));
                Ok(())
            })
        };
        let identity = ("hit", case, 1);
        match case {
            "guard" => {
                let references: [(_, TimedRun<'_>); 2] =
                    [("floor", Box::new(floor)), ("memcpy", Box::new(load))];
                self.measure(identity, of_cache, references)
            }
            _ => self.measure(identity, of_cache, [("floor", Box::new(floor))]),
        }
    }

    /// Loads bytes of a page of the reference memory.
    fn bytes_of(&self, index: u64) -> [u8; READ_BYTES] {
        load(&self.memory, index as usize * PAGE_BYTES + place_in(index))
    }

    fn indexed(&'a self) -> Result<Vec<Row>, Failure> {
        let duration = self.bench.duration(100);
        let of_cache = |file: &'a File| -> TimedRun<'a> {
            Box::new(move || {
                time_pages(duration, 1, move |index| {
                    let guard = file.page(index);
                    let guard = guard.map_err(|error| Failure::on("take a guard", &error))?;
                    black_box((0..PAGE_BYTES).map(|at| u64::from(guard[at])).sum::<u64>());
                    Ok(())
                })
            })
        };
        let slice = move || {
            time_pages(duration, 1, move |_| {
                let page = black_box(&self.memory[..PAGE_BYTES]);
                black_box((0..PAGE_BYTES).map(|at| u64::from(page[at])).sum::<u64>());
                Ok(())
            })
        };
        self.measure(("hit", "index", 1), of_cache, [("slice", Box::new(slice))])
    }

    fn small_reads(&'a self) -> Result<Vec<Row>, Failure> {
        let (duration, nr_pages) = (self.bench.duration(300), self.nr_pages.min(READ_PAGES));
        let of_cache = |file: &'a File| -> TimedRun<'a> {
            Box::new(move || {
                time_pages(duration, nr_pages, move |index| {
                    let mut bytes = [0; READ_BYTES];
                    let offset = Bytes::from_pages(index).0 + place_in(index) as u64;
                    let read = file.read_at(&mut bytes, offset);
                    read.map_err(|error| Failure::on("read", &error))?;
                    black_box(&bytes);
                    Ok(())
                })
            })
        };
        let floor = move || {
            let words = &*page_words(nr_pages);
            time_pages(duration, nr_pages, move |index| {
                let word = &words[index as usize];
                let before = word.load(Acquire);
                black_box(&self.bytes_of(index));
                fence(Acquire);
                black_box(before == word.load(Relaxed));
                Ok(())
            })
        };
        self.measure(("hit", "read-8", 1), of_cache, [("floor", Box::new(floor))])
    }

    /// Runs each policy's contender and the references in turn.
    fn measure<const N: usize>(
        &'a self,
        identity: Identity<'_>,
        of_cache: impl Fn(&'a File) -> TimedRun<'a>,
        references: [(&'static str, TimedRun<'a>); N],
    ) -> Result<Vec<Row>, Failure> {
        let (bench, case, threads) = identity;
        let (names, others): (Vec<_>, Vec<_>) = references.into_iter().unzip();
        let timed_runs = self.files.iter().copied().map(of_cache).chain(others).collect();
        let label = format!("{bench} {case}, {threads} threads");
        let Bench { args, interrupt } = self.bench;
        let samples = interleave_all(&label, args.runs, interrupt, timed_runs)?;
        let (subjects, others) = samples.split_at(self.policies.len());
        let references: Vec<_> = names.into_iter().zip(others).collect();
        Ok(policies::rows(identity, self.policies, subjects, &references))
    }
}
