//! A page cache with a fixed size over a file, and its estimates for other sizes.
//!
//!   cargo run --release -p pagetide --example page_cache

use pagetide::{Bytes, OpenOptions, PageCache};

const PAGE: u64 = 4096;
const LIMIT: Bytes = Bytes(8 << 20);

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("rows");
    std::fs::write(&path, vec![7; 16 << 20])?;

    let cache = PageCache::builder().memory(LIMIT).build()?;
    let rows = cache.open(&path, OpenOptions::new().read(true))?;

    // Nine of ten reads are of 4 MiB, the rest of all 16 MiB, twice the memory.
    let mut row = [0; 100];
    for nth in 0..40_000_u64 {
        let spread = nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let nr_pages = if nth % 10 == 0 { 4096 } else { 1024 };
        rows.read_at(&mut row, spread % nr_pages * PAGE)?;
    }

    let stats = cache.stats();
    assert!(stats.resident_bytes_max <= LIMIT.0, "the limit holds at every moment");
    println!("{} reads, {:.1} % hits", stats.accesses, 100.0 * stats.hit_ratio());

    // The cache samples accesses all the time, and so can estimate other sizes.
    let sizing = stats.sizing();
    for mib in [2, 4, 8, 16] {
        let hits = 100.0 * sizing.hit_ratio(Bytes(mib << 20));
        println!("with {mib:2} MiB: about {hits:.1} % hits");
    }
    println!("nine tenths of its hits take {}", sizing.working_set(0.9));
    Ok(())
}
