//! Arrays and collections in regions larger than memory, compared with the standard library's.

use crate::common::pages::Random;
use crate::common::skip;
use allocator_api2::boxed::Box as BoxIn;
use allocator_api2::vec::Vec as VecIn;
use hashbrown::HashMap as MapIn;
use pagetide::{Bytes, CreateRegionError, PageCache, RegionAllocator, RegionOptions, Store};
use std::collections::HashMap;
use std::io;

fn cache_of(nr_frames: u64) -> PageCache {
    PageCache::builder().memory(Bytes(nr_frames << 12)).build().expect("a cache")
}

fn unless_refused<T>(test: &str, made: Result<T, CreateRegionError>) -> Option<T> {
    match made {
        Err(CreateRegionError::Memory(error)) => {
            skip(test, &error.to_string());
            None
        }
        made => Some(made.unwrap()),
    }
}

fn allocator(test: &str, cache: &PageCache, nr_pages: u64) -> Option<RegionAllocator> {
    let options = RegionOptions::anonymous(Bytes(nr_pages << 12));
    unless_refused(test, cache.region_allocator(options))
}

#[test]
fn an_array_larger_than_memory_is_sorted_as_a_vec_is() {
    let cache = cache_of(128);
    let made = cache.region_array::<[u32; 3]>(RegionOptions::anonymous(Bytes(512 << 12)));
    let Some(mut array) = unless_refused("an_array_is_sorted", made) else { return };
    assert_eq!(array.len(), (512 << 12) / 12);
    assert!(array.iter().all(|value| *value == [0; 3]));
    let mut random = Random::new(5);
    let values: Vec<[u32; 3]> =
        (0..array.len()).map(|_| [0, 1, 2].map(|_| random.below(1 << 20) as u32)).collect();
    array.copy_from_slice(&values);
    array.sort_unstable();
    let mut sorted = values;
    sorted.sort_unstable();
    assert!(*array == *sorted);
    let (parts, nr) = (array.len() / 2, array.len() as u64);
    // Halves go to two threads, as of any slice.
    let (low, high) = array.split_at_mut(parts);
    std::thread::scope(|scope| {
        for half in [low, high] {
            scope.spawn(move || half.iter_mut().for_each(|value| value[0] += 1));
        }
    });
    let sum = |values: &[[u32; 3]]| values.iter().map(|value| u64::from(value[0])).sum::<u64>();
    assert_eq!(sum(&array), sum(&sorted) + nr);
    let stats = array.owner().stats();
    assert!(stats.missing_faults > 512 && stats.resident_bytes <= 128 << 12, "{stats:?}");
    array.owner().sync().expect("all could leave memory");
}

#[test]
fn what_others_could_change_is_no_array() {
    struct Theirs;
    impl Store for Theirs {
        fn read_at(&self, _target: &mut [u8], _offset: u64) -> io::Result<usize> {
            Ok(0)
        }
        fn write_at(&self, source: &[u8], _offset: u64) -> io::Result<usize> {
            Ok(source.len())
        }
        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }
        fn len(&self) -> io::Result<u64> {
            Ok(4096)
        }
        fn set_len(&self, _len: u64) -> io::Result<()> {
            Ok(())
        }
    }
    let cache = cache_of(64);
    let refused = [
        RegionOptions::over("/proc/self/exe"),
        RegionOptions::over_store(Box::new(Theirs)),
        RegionOptions::anonymous(Bytes(4096)).swap_to(Box::new(Theirs)),
    ];
    for options in refused {
        let error = cache.region_array::<u8>(options).expect_err("it is not private");
        assert!(matches!(error, CreateRegionError::NotPrivate), "{error}");
    }
}

/// Random insertions, removals and look-ups. Values are also in the region, and the map grows from
/// empty.
#[test]
fn a_map_of_vectors_is_as_the_standard_one() {
    let cache = cache_of(96);
    let Some(memory) = allocator("a_map_of_vectors", &cache, 1024) else { return };
    let mut map = MapIn::new_in(memory.clone());
    let mut model: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut random = Random::new(9);
    for step in 0..30_000_u64 {
        let key = random.below(3000);
        match random.below(4) {
            0 => {
                let removed = map.remove(&key).map(|values: VecIn<u64, _>| values.to_vec());
                assert_eq!(removed, model.remove(&key), "step {step}");
            }
            1 => {
                let values = map.get(&key).map(|values| &values[..]);
                assert_eq!(values, model.get(&key).map(|values| &values[..]), "step {step}");
            }
            _ => {
                let values = map.entry(key).or_insert_with(|| VecIn::new_in(memory.clone()));
                let nr = random.below(20);
                values.extend((0..nr).map(|nth| step + nth));
                model.entry(key).or_default().extend((0..nr).map(|nth| step + nth));
                if step.is_multiple_of(3) {
                    let (values, of_model) = (values, model.get_mut(&key).unwrap());
                    values.truncate(values.len() / 2);
                    values.shrink_to_fit();
                    of_model.truncate(of_model.len() / 2);
                }
            }
        }
    }
    assert_eq!(map.len(), model.len());
    assert!(map.iter().all(|(key, values)| model[key] == **values));
    let stats = memory.owner().stats();
    assert!(stats.missing_faults > 200 && stats.resident_bytes <= 96 << 12, "{stats:?}");
    assert_eq!(stats.failed_faults, 0);
}

#[test]
fn a_full_region_says_so_and_what_is_freed_is_whole_again() {
    let cache = cache_of(64);
    let Some(memory) = allocator("a_full_region_says_so", &cache, 256) else { return };
    const HALF: usize = 128 << 12;
    let vector_of = |nr_bytes: usize| {
        let mut vector = VecIn::<u8, _>::new_in(memory.clone());
        vector.try_reserve_exact(nr_bytes).map(|()| vector)
    };
    assert!(vector_of(257 << 12).is_err());
    for round in 0..3 {
        let mut vector = vector_of(HALF).expect("there is room for one");
        vector.resize(HALF, round);
        assert!(vector.try_reserve_exact(1 << 20).is_err(), "there is not");
        assert!(vector_of(HALF).is_err(), "nor for two, with what is before each");
        let mut small = Vec::new();
        while let Ok(one) = BoxIn::try_new_in([7_u8; 1000], memory.clone()) {
            small.push(one);
        }
        assert!((400..=HALF / 1000).contains(&small.len()), "{} of them", small.len());
        assert!(small.iter().all(|one| **one == [7; 1000]));
        assert!(vector.len() == HALF && vector.iter().all(|byte| *byte == round));
    }
    assert_eq!(memory.owner().stats().failed_faults, 0);
}

#[test]
fn blocks_are_aligned_and_keep_their_bytes() {
    let cache = cache_of(64);
    let Some(memory) = allocator("blocks_are_aligned", &cache, 512) else { return };
    let mut random = Random::new(21);
    let mut vectors: Vec<(VecIn<u8, _>, Vec<u8>)> = Vec::new();
    for step in 0..4000_u64 {
        match random.below(3) {
            0 if vectors.len() > 20 => {
                let at = random.below(vectors.len() as u64) as usize;
                let (ours, model) = vectors.swap_remove(at);
                assert!(*ours == *model, "step {step}");
            }
            1 if !vectors.is_empty() => {
                let at = random.below(vectors.len() as u64) as usize;
                let (ours, model) = &mut vectors[at];
                let bytes = vec![step as u8; random.below(9000) as usize];
                ours.extend_from_slice(&bytes);
                model.extend_from_slice(&bytes);
            }
            _ => {
                let bytes = vec![step as u8; random.below(3000) as usize];
                let mut ours = VecIn::new_in(memory.clone());
                ours.extend_from_slice(&bytes);
                vectors.push((ours, bytes));
            }
        }
        if vectors.len() > 60 {
            vectors.truncate(30);
        }
    }
    assert!(vectors.iter().all(|(ours, model)| **ours == **model));
    #[repr(align(1024))]
    struct Wide([u8; 1500]);
    let wide = [1, 2, 3].map(|byte| BoxIn::new_in(Wide([byte; 1500]), memory.clone()));
    for (one, byte) in wide.iter().zip(1..) {
        assert!(std::ptr::from_ref(&**one).addr().is_multiple_of(1024));
        assert_eq!(one.0, [byte; 1500]);
    }
    let nothing = BoxIn::new_in((), memory.clone());
    assert_eq!(*nothing, ());
}

#[test]
fn threads_allocate_from_one_region() {
    let cache = cache_of(128);
    let Some(memory) = allocator("threads_allocate", &cache, 2048) else { return };
    let maps = std::thread::scope(|scope| {
        let threads = [0, 1, 2].map(|thread| {
            let memory = memory.clone();
            scope.spawn(move || {
                let mut map = MapIn::new_in(memory.clone());
                for key in 0..3000_u64 {
                    map.insert(key, BoxIn::new_in([key + thread; 16], memory.clone()));
                    if key % 3 == 2 {
                        map.remove(&(key / 2));
                    }
                }
                map
            })
        });
        threads.map(|thread| thread.join().expect("no panic"))
    });
    // Collections keep the region alive.
    drop(memory);
    for (thread, map) in maps.iter().enumerate() {
        assert!(map.len() > 1000);
        assert!(map.iter().all(|(key, values)| **values == [key + thread as u64; 16]));
    }
    assert!(cache.stats().evictions > 0);
}
