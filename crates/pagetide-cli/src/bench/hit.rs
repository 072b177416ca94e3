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

use super::interleave::{interleave, time_threads};
use super::{Bench, Row};
use crate::demo::dataset::{DataFile, drop_from_kernel_cache};
use crate::failure::Failure;
use crate::machine;
use crate::terminal;
use ::pagetide::{File, OpenOptions};
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
    // The cache, the memory to copy from, and the kernel's page cache.
    machine::check_memory(Bytes(memory.0 + 2 * len.0))?;
    let (_folder, data) = bench.make_file(&bench.args.dir, len)?;
    let cache = bench.make_cache(bench.args.policy, memory)?;
    let file = cache
        .open(&data.path, OpenOptions::new().read(true))
        .map_err(|error| Failure::on(&format!("open {}", data.path.display()), &error))?;
    warm(bench, &file, &data)?;
    let plain = std::fs::File::open(&data.path)
        .map_err(|error| Failure::on_path("open", &data.path, &error))?;
    let memory = HugeBuffer::new(len.0 as usize)
        .map_err(|error| Failure::on("map memory to copy from", &error))?;
    let duration = bench.duration(400);
    let mut rows = Vec::new();
    for threads in [1, 2] {
        let read = |buffer: &mut [u8], offset: u64| {
            file.read_at(buffer, offset).map_err(std::io::Error::from)
        };
        let copy = |buffer: &mut [u8], offset: u64| {
            buffer.copy_from_slice(&memory[offset as usize..offset as usize + PAGE_BYTES]);
            Ok(PAGE_BYTES)
        };
        let pread = |buffer: &mut [u8], offset: u64| plain.read_at(buffer, offset);
        let [subject, memcpy, kernel] = interleave(
            &format!("hit copy, {threads} threads"),
            bench.args.runs,
            bench.interrupt,
            [
                Box::new(|| time_copies(threads, duration, data.nr_pages, read)),
                Box::new(|| time_copies(threads, duration, data.nr_pages, copy)),
                Box::new(|| time_copies(threads, duration, data.nr_pages, pread)),
            ],
        )?;
        rows.push(Row::measured(("hit", "copy", threads), "memcpy", &subject, &memcpy));
        rows.push(Row::measured(("hit", "copy", threads), "pread", &subject, &kernel));
    }
    rows.push(guard(bench, &file, &memory, data.nr_pages.min(GUARD_PAGES))?);
    drop_from_kernel_cache(&data.path)?;
    Ok(rows)
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

fn guard(
    bench: &Bench<'_>,
    file: &File,
    memory: &HugeBuffer,
    nr_pages: u64,
) -> Result<Row, Failure> {
    let duration = bench.duration(300);
    let states = || vec![SmallRng::seed_from_u64(7)];
    let [subject, load] = interleave(
        "hit guard",
        bench.args.runs,
        bench.interrupt,
        [
            Box::new(|| {
                time_threads((duration, BATCH), states(), |random| {
                    let guard = file.page(random.random_range(0..nr_pages));
                    let guard = guard.map_err(|error| Failure::on("take a guard", &error))?;
                    black_box(guard.as_ptr());
                    Ok(())
                })
            }),
            Box::new(|| {
                time_threads((duration, BATCH), states(), |random| {
                    let start = random.random_range(0..nr_pages) as usize * PAGE_BYTES;
                    let word: [u8; 8] = memory[start..start + 8].try_into().expect("eight bytes");
                    black_box(u64::from_le_bytes(word));
                    Ok(())
                })
            }),
        ],
    )?;
    Ok(Row::measured(("hit", "guard", 1), "memcpy", &subject, &load))
}
