//! Every policy alone, for a cache with memory of its own: one list of tests for all.

#![expect(unsafe_code, reason = "an allocator that counts")]

use pagetide::policy::{
    Capacity, CapacityError, InsertError, Policy, PolicyBuilder, PolicyName, ShardedPolicy, key_of,
};
use pagetide_lab::replay::{self, Contender};
use pagetide_lab::trace::DenseTrace;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static NR_ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: S32: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = NR_ALLOCATIONS.try_with(|nr| nr.set(nr.get() + 1));
        // SAFETY: S32: the caller's duties are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: S32: likewise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0 >> 33
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns low numbers much more often than high ones.
    fn skewed(&mut self, end: u64) -> u64 {
        let bound = self.below(end) + 1;
        let bound = self.below(bound) + 1;
        self.below(bound)
    }
}

fn policy(name: PolicyName, nr_entries: u64) -> Policy {
    Policy::new(name, Capacity::entries(nr_entries)).unwrap()
}

/// Reads a key through the policy.
fn read(policy: &mut Policy, key: u64) {
    if !policy.access(key) {
        policy.insert(key).unwrap();
    }
}

/// Reads with skew, a scan, a loop, and other keys in the end.
fn reads() -> Vec<u64> {
    let mut random = Random(7);
    let mut reads: Vec<u64> = (0..60_000).map(|_| random.skewed(5000)).collect();
    for at in 0..20_000 {
        reads.push(random.skewed(3000));
        reads.push(100_000 + at);
    }
    reads.extend((0..10).flat_map(|_| 50_000..51_500));
    reads.extend((0..40_000).map(|_| 7000 + random.skewed(4000)));
    reads
}

#[test]
fn decisions_are_those_of_a_replay() {
    let reads = reads();
    let trace = DenseTrace::from_reads(reads.iter().copied());
    for name in PolicyName::ALL.iter().copied() {
        for nr_entries in [1, 20, 300, 2000] {
            let capacity = Capacity::entries(nr_entries);
            let mut policy = PolicyBuilder::new(name, capacity).history(1 << 20).build().unwrap();
            reads.iter().for_each(|key| read(&mut policy, *key));
            let replayed = replay::run(Contender::Policy(name), &trace, nr_entries as u32);
            let stats = policy.stats();
            policy.validate();
            if replayed.bypasses > 0 {
                // A replay gives up after one pass. A policy tries again.
                assert!(nr_entries == 1, "{name} with {nr_entries} entries");
                continue;
            }
            assert_eq!(
                (stats.accesses, stats.misses, stats.evicted),
                (replayed.accesses, replayed.misses, replayed.evictions),
                "{name} with {nr_entries} entries"
            );
        }
    }
}

/// A replay never forgets a page. `mglru` and `mglru-6.1` hit up to four points more often if old
/// pages are forgotten.
#[test]
fn the_default_history_loses_at_most_half_a_point_to_a_replay() {
    let reads = reads();
    let trace = DenseTrace::from_reads(reads.iter().copied());
    for name in PolicyName::ALL.iter().copied() {
        for nr_entries in [100, 1000] {
            let mut policy = policy(name, nr_entries);
            reads.iter().for_each(|key| read(&mut policy, *key));
            let replayed = replay::run(Contender::Policy(name), &trace, nr_entries as u32);
            let ratio = 1.0 - replayed.miss_ratio();
            let difference = policy.stats().hit_ratio() - ratio;
            assert!(difference > -0.005, "{name} {nr_entries}: {difference} from {ratio}");
        }
    }
}

/// A naive cache: present keys with their lengths and pins.
#[derive(Default)]
struct Twin {
    present: BTreeMap<u64, (u64, u32)>,
}

impl Twin {
    fn evict(&mut self, keys: &[u64]) {
        for key in keys {
            let (_, nr_pins) = self.present.remove(key).expect("an evicted key was present");
            assert_eq!(nr_pins, 0, "an evicted key was not pinned");
        }
    }
}

/// Runs operations from a seed, and returns all evicted keys.
fn survive(name: PolicyName, capacity: Capacity, seed: u64) -> Vec<u64> {
    let mut random = Random(seed);
    let mut policy = Policy::new(name, capacity).unwrap();
    let (mut twin, mut all) = (Twin::default(), Vec::new());
    for step in 0..3000 {
        let key = random.skewed(200);
        match random.below(20) {
            0..8 => assert_eq!(policy.access(key), twin.present.contains_key(&key)),
            8..14 => {
                let bytes = random.below(20);
                let before = policy.stats();
                let (is_in, evicted) = match policy.insert_sized(key, bytes) {
                    Ok(evicted) => (true, evicted.to_vec()),
                    Err(_) => (false, policy.evicted().to_vec()),
                };
                let was_present = twin.present.contains_key(&key);
                twin.evict(&evicted);
                if is_in {
                    twin.present.entry(key).or_default().0 = bytes;
                    let is_access = policy.stats().accesses > before.accesses;
                    assert_eq!(is_access, was_present, "an insert of a present key is an access");
                }
                all.extend(evicted);
            }
            14 => {
                assert_eq!(policy.remove(key), twin.present.remove(&key).is_some());
                assert!(!policy.contains(key), "a removed key is gone");
            }
            15 => {
                let evicted = policy.evict();
                let may_evict = twin.present.values().any(|(_, nr_pins)| *nr_pins == 0);
                assert_eq!(evicted.is_some(), may_evict, "{name}: a free key is evicted");
                twin.evict(evicted.as_slice());
                all.extend(evicted);
            }
            16 | 17 => {
                let pins = twin.present.get_mut(&key).map(|(_, nr_pins)| *nr_pins += 1);
                assert_eq!(policy.pin(key), pins.is_some());
            }
            18 => {
                let pinned = twin.present.get_mut(&key).filter(|(_, nr_pins)| *nr_pins > 0);
                assert_eq!(policy.unpin(key), pinned.map(|(_, nr_pins)| *nr_pins -= 1).is_some());
            }
            _ => {
                let part = random.below(4) + 1;
                let smaller = match capacity.nr_bytes() {
                    u64::MAX => Capacity::entries(capacity.nr_entries() * part / 4),
                    bytes => Capacity::bytes(bytes * part / 4, 10),
                };
                let resized = policy.resize(smaller).map(|evicted| evicted.to_vec());
                let evicted = resized.unwrap_or_else(|_| policy.evicted().to_vec());
                twin.evict(&evicted);
                all.extend(evicted);
            }
        }
        // Pins must not use up everything for ever.
        if step % 300 == 299 {
            for (key, (_, nr_pins)) in &mut twin.present {
                (0..std::mem::take(nr_pins)).for_each(|_| assert!(policy.unpin(*key)));
            }
        }
        let stats = policy.stats();
        assert_eq!(stats.nr_entries, twin.present.len() as u64);
        assert_eq!(stats.nr_bytes, twin.present.values().map(|(bytes, _)| bytes).sum::<u64>());
        assert!(stats.nr_entries <= policy.capacity().nr_entries(), "the capacity is a limit");
        assert!(stats.nr_bytes <= policy.capacity().nr_bytes(), "in bytes as well");
        if step % 100 == 0 {
            policy.validate();
            (0..200).for_each(|key| {
                assert_eq!(policy.contains(key), twin.present.contains_key(&key));
            });
        }
    }
    assert_eq!(policy.stats().accesses, policy.stats().hits + policy.stats().misses);
    assert_eq!(policy.stats().evicted, all.len() as u64, "each evicted key is reported");
    all
}

#[test]
fn every_policy_keeps_the_contract() {
    for name in PolicyName::ALL.iter().copied() {
        for seed in 0..8 {
            let capacity =
                [Capacity::entries(40), Capacity::bytes(400, 10)][usize::from(seed % 2 == 0)];
            let evicted = survive(name, capacity, seed);
            assert!(!evicted.is_empty());
            assert_eq!(evicted, survive(name, capacity, seed), "{name} repeats its decisions");
        }
    }
}

#[test]
fn a_warm_policy_allocates_nothing() {
    for name in PolicyName::ALL.iter().copied() {
        let mut policy = policy(name, 2000);
        let mut random = Random(3);
        (0..40_000).for_each(|_| read(&mut policy, random.skewed(10_000)));
        let before = NR_ALLOCATIONS.get();
        for round in 0..40_000 {
            let key = random.skewed(10_000);
            read(&mut policy, key);
            match round % 16 {
                0 => assert!(!policy.remove(key) || !policy.contains(key)),
                1 => assert!(!policy.pin(key) || policy.unpin(key)),
                2 => assert!(policy.evict().is_some()),
                _ => {}
            }
        }
        assert_eq!(NR_ALLOCATIONS.get() - before, 0, "{name}");
    }
}

#[test]
fn a_request_evicts_one_key() {
    for name in PolicyName::ALL.iter().copied() {
        let mut policy = policy(name, 500);
        let mut random = Random(5);
        (0..5000).for_each(|_| read(&mut policy, random.skewed(2000)));
        let pinned = (0..2000).find(|key| policy.pin(*key)).unwrap();
        for nr_left in (1..policy.len()).rev() {
            let evicted = policy.evict().unwrap_or_else(|| panic!("{name} finds no victim"));
            assert!(!policy.contains(evicted) && policy.len() == nr_left, "{name}");
        }
        assert_eq!((policy.evict(), policy.contains(pinned)), (None, true), "{name}");
        assert!(policy.unpin(pinned) && !policy.unpin(pinned));
        assert_eq!((policy.evict(), policy.evict()), (Some(pinned), None), "{name}");
    }
}

#[test]
fn a_long_entry_replaces_several_short_ones() {
    for name in PolicyName::ALL.iter().copied() {
        let mut policy = Policy::new(name, Capacity::bytes(1000, 10)).unwrap();
        for key in 0..100 {
            assert_eq!(policy.insert_sized(key, 10), Ok(&[][..]), "{name}");
        }
        assert!(policy.insert_sized(100, 300).unwrap().len() >= 30, "{name}");
        assert!(policy.contains(100), "{name}");
        let stats = policy.stats();
        assert!(stats.nr_bytes <= 1000);
        let too_large = InsertError::TooLarge { bytes: 1001, capacity: 1000 };
        assert_eq!(policy.insert_sized(101, 1001), Err(too_large));
        assert_eq!(policy.stats(), stats, "a refused insert changes nothing");
        // Longer and shorter again, in place.
        policy.insert_sized(100, 1000).unwrap();
        assert_eq!((policy.len(), policy.stats().nr_bytes), (1, 1000));
        policy.insert_sized(100, 1).unwrap();
        assert_eq!((policy.len(), policy.stats().nr_bytes), (1, 1));
    }
}

#[test]
fn bad_input_is_an_error_with_a_remedy() {
    let unknown = "mru".parse::<PolicyName>().unwrap_err().to_string();
    assert!(PolicyName::ALL.iter().all(|name| unknown.contains(name.as_str())), "{unknown}");
    let new = |capacity| Policy::new(PolicyName::Lru, capacity).map(|_| ());
    for capacity in [Capacity::entries(0), Capacity::bytes(0, 1), Capacity::bytes(1, 0)] {
        assert_eq!(new(capacity), Err(CapacityError::Zero));
    }
    let too_large = CapacityError::TooLarge { given: u64::MAX, most: 1 << 28 };
    assert_eq!(new(Capacity::entries(u64::MAX)), Err(too_large));
    assert_eq!(new(Capacity::bytes(u64::MAX, 1)), Err(too_large));
    let mut policy = policy(PolicyName::Lru, 2);
    let too_large = CapacityError::TooLarge { given: 3, most: 2 };
    assert_eq!(policy.resize(Capacity::entries(3)), Err(too_large));
    assert_eq!(policy.resize(Capacity::entries(0)), Err(CapacityError::Zero));
    assert!(!policy.remove(1) && !policy.pin(1) && !policy.unpin(1));
    assert_eq!(policy.evict(), None);
    (0..2).for_each(|key| assert!(policy.insert(key).is_ok() && policy.pin(key)));
    let pinned = InsertError::Pinned { pinned_entries: 2, nr_entries: 2 };
    assert_eq!(policy.insert(2), Err(pinned));
    assert!(policy.insert(1).is_ok(), "a present key needs no room");
    let pinned = CapacityError::Pinned { pinned_entries: 2, pinned_bytes: 2 };
    assert_eq!(policy.resize(Capacity::entries(1)), Err(pinned));
    assert_eq!(std::io::Error::from(pinned).kind(), std::io::ErrorKind::ResourceBusy);
    assert!(policy.remove(1) && policy.insert(2).is_ok(), "a removed key has no pins");
}

#[test]
fn a_policy_grows_up_to_its_maximum() {
    for name in PolicyName::ALL.iter().copied() {
        let builder = PolicyBuilder::new(name, Capacity::entries(50)).entries_max(100);
        let mut policy = builder.build().unwrap();
        (0..100).for_each(|key| read(&mut policy, key));
        assert!(policy.len() <= 50);
        policy.resize(Capacity::entries(100)).unwrap();
        (0..100).for_each(|key| read(&mut policy, key));
        assert_eq!(policy.len(), 100, "{name}");
        let len = policy.resize(Capacity::entries(10)).unwrap().len();
        assert_eq!((len, policy.len()), (90, 10), "{name}");
        policy.validate();
    }
}

#[test]
fn threads_share_the_shards_of_a_policy() {
    for name in PolicyName::ALL.iter().copied() {
        let policy = ShardedPolicy::new(name, Capacity::entries(1001), 3).unwrap();
        let nr_evicted: u64 = std::thread::scope(|scope| {
            let threads = [1, 2, 3].map(|seed| {
                let policy = &policy;
                scope.spawn(move || {
                    let mut random = Random(seed);
                    let mut nr_evicted = 0;
                    for _ in 0..5000 {
                        let key = key_of(&random.skewed(5000).to_le_bytes());
                        if !policy.access(key) {
                            policy.insert(key, |_| nr_evicted += 1).unwrap();
                        }
                    }
                    nr_evicted
                })
            });
            threads.map(|thread| thread.join().unwrap()).into_iter().sum()
        });
        let stats = policy.stats();
        assert!(stats.nr_entries <= 1001);
        assert_eq!(stats.evicted, nr_evicted, "{name}");
        assert_eq!(stats.inserted, nr_evicted + stats.nr_entries, "{name}");
        let nr_left = std::iter::from_fn(|| policy.evict()).count() as u64;
        assert_eq!((nr_left, policy.stats().nr_entries), (stats.nr_entries, 0), "{name}");
    }
    let too_few = ShardedPolicy::new(PolicyName::Lru, Capacity::entries(3), 4).map(|_| ());
    assert_eq!(too_few, Err(CapacityError::Zero));
}

/// The passes of a policy meet all other entries first, in the worst case.
#[test]
fn the_one_free_entry_among_many_pinned_ones_is_evicted() {
    for name in PolicyName::ALL.iter().copied() {
        for free in [0, 777, 1999] {
            let mut policy = policy(name, 2000);
            (0..2000).for_each(|key| read(&mut policy, key));
            (0..2000).for_each(|key| read(&mut policy, key % 500));
            let free = if policy.contains(free) { free } else { 1999 };
            let keys: Vec<u64> = (0..2000).filter(|key| policy.contains(*key)).collect();
            let nr_pinned =
                keys.iter().filter(|key| **key != free && policy.pin(**key)).count() as u64;
            let mut fresh = 10_000;
            while policy.len() < 2000 {
                policy.insert(fresh).unwrap();
                policy.pin(fresh);
                fresh += 1;
            }
            assert_eq!(policy.insert(5000), Ok(&[free][..]), "{name} free {free} of {nr_pinned}");
            assert_eq!(policy.evict(), Some(5000), "{name}");
            assert_eq!(policy.evict(), None, "{name}");
            policy.validate();
        }
    }
}

#[test]
fn the_largest_keys_and_lengths_are_counted() {
    for name in PolicyName::ALL.iter().copied() {
        let mut policy = policy(name, 3);
        assert_eq!(policy.insert_sized(u64::MAX, u64::MAX), Ok(&[][..]), "{name}");
        assert!(policy.access(u64::MAX) && !policy.access(0));
        assert_eq!(policy.insert_sized(0, 1), Ok(&[u64::MAX][..]), "{name}");
        assert_eq!(policy.insert_sized(u64::MAX, 7), Ok(&[][..]), "{name}");
        assert_eq!(policy.insert_sized(u64::MAX, u64::MAX), Ok(&[0][..]), "{name}");
        assert!(policy.pin(u64::MAX));
        assert!(matches!(policy.insert_sized(0, 1), Err(InsertError::Pinned { .. })), "{name}");
        assert_eq!(policy.insert_sized(0, 0), Ok(&[][..]), "{name}");
        policy.validate();
        assert!(policy.remove(u64::MAX));
        policy.validate();
    }
}

#[test]
fn a_capacity_of_no_bytes_is_refused() {
    let none = Capacity::entries(9).with_bytes(0);
    assert_eq!(Policy::new(PolicyName::Lru, none).map(|_| ()), Err(CapacityError::Zero));
    let few = Capacity::entries(100).with_bytes(3);
    let sharded = ShardedPolicy::new(PolicyName::Lru, few, 4).map(|_| ());
    assert_eq!(sharded, Err(CapacityError::Zero), "a shard could hold nothing");
}

#[test]
fn the_lengths_in_all_shards_may_exceed_a_number() {
    let policy = ShardedPolicy::new(PolicyName::Lru, Capacity::entries(1000), 4).unwrap();
    (0..100).for_each(|key| policy.insert_sized(key, u64::MAX, |_| {}).unwrap());
    assert_eq!(policy.stats().nr_bytes, u64::MAX);
}

#[test]
fn a_policy_without_history_works() {
    for name in PolicyName::ALL.iter().copied() {
        let mut policy =
            PolicyBuilder::new(name, Capacity::entries(100)).history(0).build().unwrap();
        reads().iter().take(20_000).for_each(|key| read(&mut policy, *key));
        policy.validate();
    }
}

#[test]
fn a_refused_resize_evicts_nothing() {
    for name in PolicyName::ALL.iter().copied() {
        let mut policy = policy(name, 500);
        (0..500).for_each(|key| read(&mut policy, key));
        let nr_pinned = (0..500).step_by(2).filter(|key| policy.pin(*key)).count() as u64;
        let before = policy.stats();
        assert!(policy.resize(Capacity::entries(nr_pinned - 1)).is_err());
        assert_eq!((policy.stats(), policy.evicted()), (before, &[][..]), "{name}");
        policy.resize(Capacity::entries(nr_pinned)).unwrap();
        assert_eq!(policy.len(), nr_pinned, "{name}");
    }
}

#[test]
fn a_panic_of_a_closure_leaves_the_shards_usable() {
    let policy = ShardedPolicy::new("s3fifo".parse().unwrap(), Capacity::entries(4), 1).unwrap();
    (0..4).for_each(|key| policy.insert(key, |_| {}).unwrap());
    let panicking = std::panic::AssertUnwindSafe(|| policy.insert(9, |_| panic!("by the caller")));
    std::panic::catch_unwind(panicking).unwrap_err();
    assert!(policy.contains(9));
    policy.insert(10, |_| {}).unwrap();
    assert_eq!(policy.stats().nr_entries, 4);
}
