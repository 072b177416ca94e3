//! A compressed tier takes its configured memory, as counted by the kernel, with any contents.
//!
//! A separate binary, so that no other test's memory is counted.

mod common;

use common::kernel_memory::resident_bytes;
use common::pages::Random;
use common::{PAGE, watchdog::Watchdog};
use pagetide::{Bytes, PageCache, Store, Tier};
use std::io;

const MIB: u64 = 1 << 20;
const FAST: u64 = 4 * MIB;
const COMPRESSED: u64 = 32 * MIB;
const NR_PAGES: u64 = 64 << 10;

/// Contents with a compressed size by page number, from a hundred bytes to nearly all.
struct Compressible;

impl Compressible {
    fn nr_random(index: u64) -> usize {
        match index * 4 / NR_PAGES {
            0 => 40,
            1 => 2800,
            2 => 300 + (index * 97 % 2000) as usize,
            _ => (index * 31 % 3000) as usize,
        }
    }
}

impl Store for Compressible {
    fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        for (page, index) in target.chunks_mut(PAGE).zip(offset / PAGE as u64..) {
            let mut random = Random::new(index + 1);
            let nr = Compressible::nr_random(index).min(page.len());
            page[..nr].fill_with(|| random.below(256) as u8);
            page[nr..].fill(index as u8);
        }
        Ok(target.len())
    }

    fn write_at(&self, _source: &[u8], _offset: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(NR_PAGES * PAGE as u64)
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Returns the maximum memory of a cache with these tiers, over several changes of contents.
fn measure(tiers: &[Tier]) -> u64 {
    let before = resident_bytes();
    let builder = tiers.iter().fold(PageCache::builder(), |builder, tier| builder.tier(*tier));
    let cache = builder.readahead_max(Bytes(0)).huge_pages(false).build().expect("a cache");
    let file = cache.open_store(Box::new(Compressible)).expect("opened");
    let mut random = Random::new(3);
    let mut bytes = vec![0; PAGE];
    let mut most = 0;
    let mut read = |index: u64| {
        file.read_at(&mut bytes, index * PAGE as u64).expect("read");
        assert_eq!(bytes[PAGE - 1], index as u8);
    };
    const QUARTER: u64 = NR_PAGES / 4;
    // The page table is allocated first, and excluded.
    (0..NR_PAGES).step_by(512).for_each(&mut read);
    for round in 0..8 {
        // One kind of pages displaces another.
        let first = round % 4 * QUARTER;
        (first..first + QUARTER).for_each(&mut read);
        most = most.max(resident_bytes());
        // Used pages leave from anywhere in the pool.
        (0..QUARTER).for_each(|_| read(random.below(NR_PAGES)));
        most = most.max(resident_bytes());
    }
    if let Some(pool) = cache.stats().tiering.and_then(|tiering| tiering.compressed) {
        println!("{pool:?}");
        assert!(pool.hits > 1000 && pool.pushed_out > 10_000, "{pool:?}");
        assert!(pool.used_bytes > COMPRESSED / 100 * 98, "it is not full: {pool:?}");
    }
    most - before
}

#[test]
fn a_compressed_tier_takes_the_memory_it_was_given() {
    let _watchdog = Watchdog::new();
    let fast = Tier::dram(Bytes(FAST));
    // Initial allocations happen only once.
    measure(&[fast]);
    let without = measure(&[fast]);
    let with = measure(&[fast, Tier::compressed(Bytes(COMPRESSED))]);
    let taken = with.saturating_sub(without);
    println!("{} of 32M", Bytes(taken));
    assert!(taken <= COMPRESSED / 100 * 105, "{} of 32M", Bytes(taken));
}
