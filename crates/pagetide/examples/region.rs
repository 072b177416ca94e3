//! A file as plain memory, with a limit on the resident part.
//!
//!   cargo run --release -p pagetide --example region
//!
//! Needs Linux 5.7 or newer with userfaultfd allowed.

use pagetide::{Bytes, PageCache, RegionOptions};
use std::sync::atomic::Ordering::Relaxed;

const LIMIT: Bytes = Bytes(4 << 20);

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("table");
    std::fs::write(&path, vec![0; 16 << 20])?;

    let cache = PageCache::builder().memory(LIMIT).build()?;
    let table = cache.region(RegionOptions::over(&path))?;

    // Loads and stores as in a mapped file, but the cache's own policy frees memory for absent
    // pages. Words are atomics, as other threads may store to them.
    let words = table.words();
    for (nth, word) in words.iter().enumerate().step_by(512) {
        word.store(nth as u64, Relaxed);
    }
    let sum: u64 = words.iter().step_by(512).map(|word| word.load(Relaxed)).sum();
    assert_eq!(sum, (0..words.len() as u64).step_by(512).sum::<u64>());

    table.sync()?; // on the device when this returns
    assert_eq!(std::fs::read(&path)?[4096..4104], 512_u64.to_le_bytes());

    let stats = table.stats();
    assert!(stats.resident_bytes <= LIMIT.0);
    println!("{} MiB of memory for {} MiB of table", stats.resident_bytes >> 20, table.len() >> 20);
    println!("{} faults on absent pages", stats.missing_faults);
    Ok(())
}
