//! A hash map that is larger than the memory it may take.
//!
//!   cargo run --release -p pagetide --example hash_map_in_a_region
//!
//! It needs Linux 5.19 or newer, where userfaultfd is allowed.

use pagetide::{Bytes, PageCache, Region, RegionOptions};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const LIMIT: Bytes = Bytes(1 << 20);
const CONTENTS: Bytes = Bytes(4 << 20);

/// From numbers to numbers, neither of them 0; for one thread at a time.
///
/// A place is two words, key and value; a key stands at the place of its hash, or after it, before
/// the next that is free. So an access is one page, and a region's zeros are an empty map.
struct Map {
    region: Region,
}

impl Map {
    fn place_of(&self, key: u64) -> &[AtomicU64] {
        let words = self.region.words();
        let nr_places = words.len() / 2;
        let mut nth = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % nr_places;
        loop {
            let place = &words[2 * nth..2 * nth + 2];
            let found = place[0].load(Relaxed);
            if found == key || found == 0 {
                return place;
            }
            nth = (nth + 1) % nr_places;
        }
    }

    /// There must be a place left.
    fn insert(&self, key: u64, value: u64) {
        let place = self.place_of(key);
        place[0].store(key, Relaxed);
        place[1].store(value, Relaxed);
    }

    fn get(&self, key: u64) -> Option<u64> {
        let place = self.place_of(key);
        (place[0].load(Relaxed) == key).then(|| place[1].load(Relaxed))
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = PageCache::builder().memory(LIMIT).build()?;
    // What does not fit goes to a file without a name, in TMPDIR.
    let map = Map { region: cache.region(RegionOptions::anonymous(CONTENTS))? };

    const NR_KEYS: u64 = 20_000;
    (1..=NR_KEYS).for_each(|key| map.insert(key, key * key));
    for key in (1..=NR_KEYS).step_by(7) {
        assert_eq!(map.get(key), Some(key * key));
    }
    assert_eq!(map.get(NR_KEYS + 1), None);

    let stats = map.region.stats();
    assert!(stats.resident_bytes <= LIMIT.0);
    println!("{NR_KEYS} keys in {LIMIT}, spread over {CONTENTS}");
    println!("{} faults on absent pages", stats.missing_faults);
    Ok(())
}
