//! A hash map larger than its memory limit.
//!
//!   cargo run --release -p pagetide --example hash_map_in_a_region
//!
//! Needs Linux 5.7 or newer with userfaultfd allowed. Other programs must enable the feature
//! `allocator-api2`.

use hashbrown::HashMap;
use pagetide::{Bytes, PageCache, RegionOptions};

const LIMIT: Bytes = Bytes(1 << 20);
const CONTENTS: Bytes = Bytes(4 << 20);

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = PageCache::builder().memory(LIMIT).build()?;
    // Evicted pages go to an unnamed file in TMPDIR.
    let memory = cache.region_allocator(RegionOptions::anonymous(CONTENTS))?;

    const NR_KEYS: u64 = 60_000;
    let mut squares = HashMap::new_in(memory.clone());
    // Reserves once: a growing map briefly takes its space twice.
    squares.try_reserve(NR_KEYS as usize).map_err(|why| format!("{CONTENTS}: {why:?}"))?;
    squares.extend((0..NR_KEYS).map(|key| (key, key * key)));
    for key in (0..NR_KEYS).step_by(7) {
        assert_eq!(squares[&key], key * key);
    }
    assert_eq!(squares.get(&NR_KEYS), None);

    let stats = memory.owner().stats();
    assert!(stats.resident_bytes <= LIMIT.0);
    println!("{NR_KEYS} keys in {LIMIT}, {} faults on absent pages", stats.missing_faults);
    Ok(())
}
