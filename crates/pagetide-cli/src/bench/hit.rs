//! `bench hit`: what a resident page costs to read.
//!
//! ```text
//!   copy    subject     file.read_at(random page) into one 4 KiB buffer, all resident
//!           memcpy      the same copy from touched anonymous memory on huge pages
//!           pread       the same read from the kernel's page cache
//!   guard   subject     file.page(random page) taken and dropped, 64 Ki pages
//!           memcpy      an 8-byte load from a random page of as much memory: what touching a page
//!                       costs at least
//! ```
//!
//! The cache is an eighth larger than the file, so that reclaim has no reason to run. Ignored:
//! pages that are not random; the caches of the processor would answer.

use super::interleave::{TimedRun, interleave_all, time_threads};
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
use std::time::Duration;

/// Pages that guards are taken of.
const GUARD_PAGES: u64 = 64 << 10;
/// Operations between looks at the clock.
const BATCH: u32 = 1024;
/// Passes over the file to make it resident.
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
    rows.extend(hits.guards()?);
    drop_from_kernel_cache(&data.path)?;
    Ok(rows)
}

/// A cache under `policy` with all of the file in it.
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

/// Nanoseconds for one 4 KiB read of a random page by `read`.
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

/// The file in each cache, and what reading it there is compared with.
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

    fn guards(&'a self) -> Result<Vec<Row>, Failure> {
        let (duration, nr_pages) = (self.bench.duration(300), self.nr_pages.min(GUARD_PAGES));
        let states = || vec![SmallRng::seed_from_u64(7)];
        let of_cache = |file: &'a File| -> TimedRun<'a> {
            Box::new(move || {
                time_threads((duration, BATCH), states(), |random| {
                    let guard = file.page(random.random_range(0..nr_pages));
                    let guard = guard.map_err(|error| Failure::on("take a guard", &error))?;
                    black_box(guard.as_ptr());
                    Ok(())
                })
            })
        };
        let load = move || {
            time_threads((duration, BATCH), states(), |random| {
                let start = random.random_range(0..nr_pages) as usize * PAGE_BYTES;
                let word: [u8; 8] = self.memory[start..start + 8].try_into().expect("eight bytes");
                black_box(u64::from_le_bytes(word));
                Ok(())
            })
        };
        self.measure(("hit", "guard", 1), of_cache, [("memcpy", Box::new(load))])
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
