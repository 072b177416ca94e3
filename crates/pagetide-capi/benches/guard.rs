//! The cost of a guard through C's functions, beside Rust's: random pages in memory are pinned,
//! read and unpinned.
//!
//! ```text
//!   cargo bench -p pagetide-capi --bench guard    by turns, many rounds
//!   cargo test                                    small: does it still run?
//! ```
//!
//! Calls go through pointers that the compiler cannot see through, as from C. Both sides read the
//! page's first line, of the same file.
//!
//! Ignored: the shared library, which adds about 4 ns because its thread-locals are found by a
//! call.
#![expect(unsafe_code, reason = "C's functions are called")]

use pagetide::{Bytes, File, OpenOptions, PageCache};
use pagetide_capi::file::pt_file;
use pagetide_capi::page::{pt_page, pt_page_pin, pt_page_unpin};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Instant;

const PAGE_BYTES: usize = 4096;

fn main() {
    let is_real = std::env::args().any(|word| word == "--bench");
    let (nr_rounds, nr_pins) = if is_real { (10_001, 1_000) } else { (2, 100) };
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let path = folder.path().join("a");
    for nr_pages in [16, 4096] {
        std::fs::write(&path, vec![1; nr_pages * PAGE_BYTES]).expect("it has room");
        let file = open(&path);
        let c_file = pt_file(file.clone());
        let (mut samples, mut random) = ([Vec::new(), Vec::new()], 1);
        for round in 0..nr_rounds {
            for turn in [round % 2, 1 - round % 2] {
                let took = match turn {
                    0 => time(nr_pins, nr_pages, &mut random, |index| pin(&file, index)),
                    _ => time(nr_pins, nr_pages, &mut random, |index| pin_from_c(&c_file, index)),
                };
                samples[turn].push(took);
            }
        }
        let more = samples[1].iter().zip(&samples[0]).map(|(c, rust)| c - rust).collect();
        let [rust, c] = samples;
        for (name, samples) in [("Rust", rust), ("C", c), ("C more than Rust", more)] {
            print(&format!("{nr_pages} pages, {name}"), samples);
        }
    }
}

fn open(path: &Path) -> File {
    let cache = PageCache::builder().memory(Bytes(64 << 20)).build().expect("there is memory");
    cache.open(path, OpenOptions::new().read(true)).expect("the file is there")
}

/// Returns the nanoseconds per pin.
fn time(nr_pins: u32, nr_pages: usize, random: &mut u64, mut pin: impl FnMut(u64) -> u64) -> f64 {
    let mut sum = 0;
    let start = Instant::now();
    for _ in 0..nr_pins {
        *random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        sum += pin((*random >> 33) % nr_pages as u64);
    }
    let took = start.elapsed();
    assert_eq!(sum, u64::from(nr_pins));
    took.as_nanos() as f64 / f64::from(nr_pins)
}

fn pin(file: &File, index: u64) -> u64 {
    let guard = file.page(index).expect("it is in memory");
    black_box(guard[0]).into()
}

fn pin_from_c(file: &pt_file, index: u64) -> u64 {
    let (pin, unpin) = black_box((
        pt_page_pin as extern "C" fn(_, _, _) -> _,
        pt_page_unpin as extern "C" fn(_) -> _,
    ));
    let mut page = MaybeUninit::<pt_page>::uninit();
    assert_eq!(pin(Some(file), index, Some(&mut page)), 0);
    // SAFETY: S35: pinned, by a structure that does not move.
    let page = unsafe { page.assume_init_mut() };
    // SAFETY: S35: the page has at least one byte.
    let byte = black_box(unsafe { *page.data });
    assert_eq!(unpin(Some(page)), 0);
    byte.into()
}

fn print(case: &str, mut samples: Vec<f64>) {
    samples.sort_by(f64::total_cmp);
    let [low, middle, high] = [1, 5, 9].map(|tenths| samples[samples.len() * tenths / 10]);
    println!("{case:<28} {middle:>8.2} ns   {low:.2} to {high:.2} in eight rounds of ten");
}
