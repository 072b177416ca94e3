//! A cache of values in mapped words, similar to memcached's slabs.
//!
//! ```text
//!   index   key's hash --> number of its item, or the next slot       half of the slots are free
//!   items   | key, version, 6 words more | 250 words of value |  ...   2000 bytes (docs/seeds.md)
//! ```
//!
//! A get touches one page of the index and one or two pages of items, and checks each word of the
//! value, a function of key and version.
//!
//! Ignored: sockets, request parsing, and eviction by the cache.

use super::super::super::mapped_job::{Job, Measured};
use super::accesses::{SEED, time_accesses};
use crate::failure::Failure;
use crate::pages::{PagePicker, Shuffle, Skew};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const HEADER_WORDS: usize = 8;
const VALUE_WORDS: usize = 250;
const ITEM_WORDS: usize = HEADER_WORDS + VALUE_WORDS;
/// Maximum index words per item: the next power of two of twice the items.
const INDEX_WORDS_MAX: usize = 4;

/// Keys are 1 to `nr`, each owned by one thread.
struct Items<'a> {
    index: &'a [AtomicU64],
    items: &'a [AtomicU64],
    nr: usize,
}

impl<'a> Items<'a> {
    fn over(words: &'a [AtomicU64]) -> Items<'a> {
        let nr = words.len() / (ITEM_WORDS + INDEX_WORDS_MAX);
        let (index, items) = words.split_at((2 * nr).next_power_of_two());
        Items { index, items, nr }
    }

    /// Returns the key's slot: free, or its item's number, counted from 1.
    fn slot(&self, key: u64) -> &AtomicU64 {
        let mut nth = mix(key) as usize % self.index.len();
        loop {
            match self.index[nth].load(Relaxed) {
                0 => return &self.index[nth],
                number if self.item(number)[0].load(Relaxed) == key => return &self.index[nth],
                _ => nth = (nth + 1) % self.index.len(),
            }
        }
    }

    fn item(&self, number: u64) -> &[AtomicU64] {
        &self.items[(number as usize - 1) * ITEM_WORDS..][..ITEM_WORDS]
    }

    /// Sets a value. A new key gets the item of its own number.
    fn set(&self, key: u64, version: u64) {
        let slot = self.slot(key);
        if slot.load(Relaxed) == 0 {
            slot.store(key, Relaxed);
        }
        let item = self.item(slot.load(Relaxed));
        item[0].store(key, Relaxed);
        item[1].store(version, Relaxed);
        let first = mix(key ^ mix(version));
        for (word, nth) in item[HEADER_WORDS..].iter().zip(0..) {
            word.store(first.wrapping_add(nth), Relaxed);
        }
    }

    /// Returns the version after a check of all words.
    fn get(&self, key: u64) -> Option<u64> {
        let number = self.slot(key).load(Relaxed);
        let item = self.item(Some(number).filter(|number| *number > 0)?);
        let version = item[1].load(Relaxed);
        let first = mix(key ^ mix(version));
        let is_whole = item[HEADER_WORDS..]
            .iter()
            .zip(0..)
            .all(|(word, nth)| word.load(Relaxed) == first.wrapping_add(nth));
        is_whole.then_some(version)
    }
}

/// Sets all keys, then gets random keys with `sets` sets per 100 operations.
pub(super) fn run(
    job: &Job,
    words: &[AtomicU64],
    (skew, sets): (Skew, u32),
    begin: impl FnOnce() -> Result<(), Failure>,
) -> Result<Measured, Failure> {
    let items = &Items::over(words);
    let threads = u64::from(job.threads);
    let shuffle = Shuffle::new((items.nr as u64 / threads) as u32, SEED);
    let clients = |round: u64| -> Vec<(u64, PagePicker)> {
        let seed = |nth: u64| job.seed ^ (round << 8) ^ (nth << 16);
        (0..threads).map(|nth| (nth, PagePicker::new(&shuffle, skew, seed(nth)))).collect()
    };
    let rounds = [clients(1), clients(2)];
    begin()?;
    (1..=items.nr as u64).for_each(|key| items.set(key, 1));
    // Memory is already full.
    time_accesses(job, 0, rounds, |(nth, picker)| {
        let key = u64::from(picker.pick()) * threads + *nth + 1;
        match items.get(key) {
            None => Err(Failure::Refused(format!(
                "the value of key {key} is wrong; this is a bug, please report it"
            ))),
            Some(version) if picker.chance(sets) => {
                items.set(key, version + 1);
                Ok(())
            }
            Some(_) => Ok(()),
        }
    })
}

/// Mixes bits by splitmix64's finisher.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_was_set_last_and_a_word_that_is_not_is_seen() {
        let words: Vec<AtomicU64> = (0..300 * 262).map(|_| AtomicU64::new(0)).collect();
        let items = Items::over(&words);
        assert_eq!((items.nr, items.index.len()), (300, 1024));
        assert_eq!(items.get(7), None);
        (1..=300).for_each(|key| items.set(key, 1));
        (1..=300).filter(|key| key % 3 == 0).for_each(|key| items.set(key, 2));
        assert!((1..=300).all(|key| items.get(key) == Some(if key % 3 == 0 { 2 } else { 1 })));
        let place = items.slot(9).load(Relaxed);
        items.item(place)[ITEM_WORDS - 1].fetch_add(1, Relaxed);
        assert_eq!((items.get(9), items.get(10)), (None, Some(1)));
    }
}
