//! Timed work on mapped words, the same for regions and kernel mappings.
//!
//! Words of files are checked until the first store.

use super::super::super::mapped_job::{Job, Measured, Work};
use super::accesses::{SEED, time_accesses};
use super::items;
use crate::dataset::DataFile;
use crate::failure::Failure;
use crate::pages::{PagePicker, Shuffle, Skew};
use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::read_process_cpu_time_ns;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

const WORDS: usize = PAGE_BYTES / 8;
const EXPONENT: f64 = 0.99;
const NR_PASSES: u64 = 3;

/// Calls `begin` after touching all memory beside the mapping.
pub(super) fn run(
    job: &Job,
    words: &[AtomicU64],
    begin: impl FnOnce() -> Result<(), Failure>,
) -> Result<Measured, Failure> {
    let nr_pages = (words.len() / WORDS) as u64;
    match job.work {
        Work::Zipf { stores } => by_chance(job, words, Skew::Zipf(EXPONENT), stores, begin),
        Work::Uniform => by_chance(job, words, Skew::Uniform, 0, begin),
        Work::Sum => {
            begin()?;
            Ok(time_once(nr_pages, || _ = black_box(sum(words))))
        }
        Work::Again => {
            let expected = job.data.as_ref().map(checksum);
            begin()?;
            let mut is_right = expected.is_none_or(|expected| sum(words) == expected);
            let measured = time_once(NR_PASSES * nr_pages, || {
                for _ in 0..NR_PASSES {
                    let found = black_box(sum(words));
                    is_right &= expected.is_none_or(|expected| found == expected);
                }
            });
            if is_right { Ok(measured) } else { Err(wrong("words that were loaded again")) }
        }
        Work::Fill => {
            begin()?;
            Ok(time_once(nr_pages, || fill(words)))
        }
        Work::Sort => {
            begin()?;
            fill(words);
            let measured = time_once(words.len() as u64, || sort(words));
            let is_sorted = words.is_sorted_by(|a, b| a.load(Relaxed) <= b.load(Relaxed));
            if is_sorted { Ok(measured) } else { Err(wrong("words that were sorted")) }
        }
        Work::Items { is_zipf, sets } => {
            let skew = if is_zipf { Skew::Zipf(EXPONENT) } else { Skew::Uniform };
            items::run(job, words, (skew, sets), begin)
        }
    }
}

fn wrong(what: &str) -> Failure {
    Failure::Refused(format!("{what} are wrong; this is a bug, please report it"))
}

fn time_once(nr: u64, work: impl FnOnce()) -> Measured {
    let (started, cpu_ns) = (Instant::now(), read_process_cpu_time_ns());
    work();
    let (elapsed, cpu_ns) = (started.elapsed(), read_process_cpu_time_ns() - cpu_ns);
    let (ns, cpu_ns) = (elapsed.as_nanos() as f64 / nr as f64, cpu_ns as f64 / nr as f64);
    Measured { ns, cpu_ns, memory: 0 }
}

fn by_chance(
    job: &Job,
    words: &[AtomicU64],
    skew: Skew,
    stores: u32,
    begin: impl FnOnce() -> Result<(), Failure>,
) -> Result<Measured, Failure> {
    let shuffle = Shuffle::new((words.len() / WORDS) as u32, SEED);
    let pickers = |round: u64| -> Vec<PagePicker> {
        let seeds = (0..u64::from(job.threads)).map(|nth| job.seed ^ (round << 8) ^ (nth << 16));
        seeds.map(|seed| PagePicker::new(&shuffle, skew, seed)).collect()
    };
    let (warm, timed) = (pickers(1), pickers(2));
    begin()?;
    if job.data.is_none() {
        // Every page needs contents to keep.
        words.iter().step_by(WORDS).for_each(|word| word.store(SEED, Relaxed));
    }
    let access = |picker: &mut PagePicker| -> Result<(), Failure> {
        let index = picker.pick();
        let word = &words[index as usize * WORDS];
        if picker.chance(stores) {
            word.store(u64::from(index), Relaxed);
            return Ok(());
        }
        if job.work == Work::Uniform {
            black_box(sum(&words[index as usize * WORDS..][..WORDS]));
        }
        let found = word.load(Relaxed).to_ne_bytes();
        match &job.data {
            Some(data) if stores == 0 => {
                data.check_word(index.into(), 0, &found, 0).map_err(|wrong| data.failure(wrong))
            }
            _ => {
                black_box(found);
                Ok(())
            }
        }
    };
    // About a quarter of the warm-up accesses miss.
    let nr_warm = if skew == Skew::Uniform { 0 } else { job.memory / PAGE_BYTES as u64 * 8 };
    time_accesses(job, nr_warm, [warm, timed], access)
}

fn sum(words: &[AtomicU64]) -> u64 {
    words.iter().fold(0_u64, |sum, word| sum.wrapping_add(word.load(Relaxed)))
}

fn checksum(data: &DataFile) -> u64 {
    let mut page = [0; PAGE_BYTES];
    (0..data.nr_pages).fold(0_u64, |sum, index| {
        data.fill_page(index, 0, &mut page);
        let words = page.chunks_exact(8).map(|word| word.try_into().expect("eight bytes"));
        words.map(u64::from_le_bytes).fold(sum, u64::wrapping_add)
    })
}

fn fill(words: &[AtomicU64]) {
    let mut state = SEED;
    for word in words {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        word.store(state, Relaxed);
    }
}

/// The maximum length for insertion sort.
const FEW: usize = 24;

/// Sorts in place.
fn sort(mut words: &[AtomicU64]) {
    while words.len() > FEW {
        let at = partition(words);
        let (lower, higher) = (&words[..at], &words[at + 1..]);
        let (shorter, longer) =
            if lower.len() < higher.len() { (lower, higher) } else { (higher, lower) };
        sort(shorter);
        words = longer;
    }
    for end in 1..words.len() {
        let word = words[end].load(Relaxed);
        let mut at = end;
        while at > 0 && words[at - 1].load(Relaxed) > word {
            words[at].store(words[at - 1].load(Relaxed), Relaxed);
            at -= 1;
        }
        words[at].store(word, Relaxed);
    }
}

/// Moves smaller words before the pivot and returns its index.
fn partition(words: &[AtomicU64]) -> usize {
    let load = |at: usize| words[at].load(Relaxed);
    let swap = |a: usize, b: usize| {
        let word = load(a);
        words[a].store(load(b), Relaxed);
        words[b].store(word, Relaxed);
    };
    let last = words.len() - 1;
    swap(words.len() / 2, last);
    let (pivot, mut nr_less) = (load(last), 0);
    for at in 0..last {
        let word = load(at);
        // Branch-free, because a branch would mispredict half the time.
        words[at].store(load(nr_less), Relaxed);
        words[nr_less].store(word, Relaxed);
        nr_less += usize::from(word < pivot);
    }
    swap(nr_less, last);
    nr_less
}
