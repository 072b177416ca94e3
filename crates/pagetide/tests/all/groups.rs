//! Tenants of one cache: limits, protection, and reclaim order.

use crate::common::pages::{Random, seed};
use crate::common::store::FaultyStore;
use crate::common::watchdog::Watchdog;
use crate::common::{PAGE, pattern_at, patterned_file};
use pagetide::{
    BuildError, Bytes, Detail, File, Group, GroupError, GroupOptions, GroupStats, OpenError,
    OpenOptions, PageCache, PolicyName, ResizeError, Tier,
};
use proptest::prelude::*;
use std::path::Path;
use std::time::{Duration, Instant};

fn read_only() -> OpenOptions {
    OpenOptions::new().read(true)
}

fn pages(nr: u64) -> Bytes {
    Bytes::from_pages(nr)
}

fn cache(nr_frames: u64, policy: PolicyName) -> PageCache {
    let builder = PageCache::builder().memory(pages(nr_frames)).policy(policy);
    builder.groups(true).background(false).readahead_max(Bytes(0)).build().unwrap()
}

fn limited(nr: u64) -> GroupOptions {
    GroupOptions::new().limit(pages(nr))
}

fn usage(group: &Group) -> u64 {
    Bytes(group.stats().unwrap().usage_bytes).whole_pages()
}

fn read(file: &File, range: std::ops::Range<u64>) {
    let mut bytes = vec![0; PAGE];
    for index in range {
        let offset = index * PAGE as u64;
        assert_eq!(file.read_at(&mut bytes, offset).unwrap(), PAGE);
        assert_eq!(bytes, pattern_at(offset, PAGE), "page {index}");
    }
}

/// Returns the hit ratio of a small, warm set beside a scan of four times the memory.
fn hit_ratio_beside_a_scan(cache: &PageCache, hot: &File, scan: &File) -> f64 {
    read(hot, 0..200);
    let (mut random, mut nr_hits, mut nr_reads) = (Random::new(7), 0, 0);
    for nth in 0..4096 / 16 {
        read(scan, nth * 16..(nth + 1) * 16);
        for _ in 0..4 {
            let before = cache.stats().hits;
            let index = random.below(200);
            read(hot, index..index + 1);
            nr_hits += cache.stats().hits - before;
            nr_reads += 1;
        }
    }
    nr_hits as f64 / nr_reads as f64
}

#[test]
fn a_protected_tenant_keeps_its_pages_beside_a_scan() {
    let dir = tempfile::tempdir().unwrap();
    let hot = patterned_file(dir.path(), "hot", 200 * PAGE);
    let scan = patterned_file(dir.path(), "scan", 4096 * PAGE);
    for &policy in PolicyName::ALL {
        let cache = cache(1024, policy);
        let kept = cache.group("hot", GroupOptions::new().low(pages(256))).unwrap();
        let scans = cache.group("scan", GroupOptions::new()).unwrap();
        let (hot, scan) =
            (kept.open(&hot, read_only()).unwrap(), scans.open(&scan, read_only()).unwrap());
        let ratio = hit_ratio_beside_a_scan(&cache, &hot, &scan);
        assert!(ratio >= 0.99, "{policy}: {ratio}");
        let GroupStats { misses, evictions, usage_bytes, .. } = kept.stats().unwrap();
        assert_eq!((misses, evictions, usage_bytes), (200, 0, pages(200).0), "{policy}");
        assert!(scans.stats().unwrap().evictions > 3000, "{policy}");
        cache.validate();
    }
}

/// Control for the previous test.
#[test]
fn without_groups_the_scan_takes_them() {
    let dir = tempfile::tempdir().unwrap();
    let hot = patterned_file(dir.path(), "hot", 200 * PAGE);
    let scan = patterned_file(dir.path(), "scan", 4096 * PAGE);
    for policy in [PolicyName::Fifo, PolicyName::Lru] {
        let cache = cache(1024, policy);
        let (hot, scan) =
            (cache.open(&hot, read_only()).unwrap(), cache.open(&scan, read_only()).unwrap());
        let ratio = hit_ratio_beside_a_scan(&cache, &hot, &scan);
        assert!(ratio < 0.9, "{policy}: {ratio}");
    }
}

#[test]
fn counts_are_by_group_and_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| patterned_file(dir.path(), name, 50 * PAGE);
    let cache = cache(256, PolicyName::Lru);
    let [a, b] = ["a", "b"].map(|name| cache.group(name, GroupOptions::new()).unwrap());
    let names = || cache.groups().iter().map(|group| group.name().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(), ["a", "b"]);
    let of_a = a.open(path("of-a"), read_only()).unwrap();
    let of_b = b.open(path("of-b"), read_only()).unwrap();
    let of_none = cache.open(path("of-none"), read_only()).unwrap();
    (0..3).for_each(|_| read(&of_a, 0..50));
    read(&of_b, 0..20);
    read(&of_none, 0..10);
    let counts = |group: &Group| {
        let stats = group.stats().unwrap();
        (stats.hits, stats.misses, Bytes(stats.usage_bytes).whole_pages())
    };
    assert_eq!((counts(&a), counts(&b)), ((100, 50, 50), (0, 20, 20)));
    let all = cache.stats();
    assert_eq!((all.hits, all.misses), (100, 80));
    let also_of_a = b.open(dir.path().join("of-a"), read_only()).unwrap();
    read(&also_of_a, 0..50);
    assert_eq!((counts(&a), counts(&b)), ((150, 50, 50), (0, 20, 20)));
    a.remove().unwrap();
    read(&of_a, 0..50);
    let all = cache.stats();
    assert_eq!((all.hits, all.misses), (200, 80), "the handle outlives the group");
    drop((of_a, also_of_a));
    // A closed file belongs to the group that opens it next.
    let again = b.open(dir.path().join("of-a"), read_only()).unwrap();
    read(&again, 0..50);
    assert_eq!(counts(&b), (50, 20, 20), "its pages stay charged as they were");
    assert_eq!((cache.stats().hits, cache.stats().misses), (250, 80));
    assert_eq!(names(), ["b"]);
    cache.validate();
}

/// A limit covers a group with its descendants, and evicts their pages only.
#[test]
fn a_full_group_reclaims_from_itself_and_those_below() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| patterned_file(dir.path(), name, 300 * PAGE);
    for &policy in PolicyName::ALL {
        let cache = cache(1024, policy);
        let top = cache.group("top", limited(100)).unwrap();
        let left = top.group("left", limited(64)).unwrap();
        let right = top.group("right", GroupOptions::new()).unwrap();
        let other = cache.group("other", GroupOptions::new()).unwrap();
        let open = |group: &Group| group.open(file(group.name()), read_only()).unwrap();
        let files = [&left, &right, &other].map(open);
        read(&files[2], 0..300);
        let mut most = 0;
        for file in &files[..2] {
            for index in 0..300 {
                read(file, index..index + 1);
                assert!(usage(&left) <= 64 && usage(&top) <= 100, "{policy}, {index}");
                most = most.max(usage(&top));
            }
        }
        assert_eq!(most, 100, "{policy}: what it may use, it uses");
        assert_eq!(usage(&other), 300, "{policy}: the memory is not short");
        assert_eq!(cache.stats().bypass_reads, 0, "{policy}");
        cache.validate();
    }
}

#[test]
fn a_removed_group_gives_its_files_to_its_parent_and_its_pages_first() {
    let dir = tempfile::tempdir().unwrap();
    let [mine, others] = ["mine", "others"].map(|it| patterned_file(dir.path(), it, 900 * PAGE));
    for &policy in PolicyName::ALL {
        let cache = cache(512, policy);
        let parent = cache.group("parent", GroupOptions::new()).unwrap();
        let child = parent.group("child", limited(200)).unwrap();
        let file = child.open(&mine, read_only()).unwrap();
        read(&file, 0..150);
        let refused = parent.remove().unwrap_err();
        assert!(matches!(refused, GroupError::HasChildren { nr_children: 1, .. }), "{refused}");
        child.remove().unwrap();
        cache.validate();
        assert_eq!(usage(&parent), 150, "{policy}: its pages are there still");
        read(&file, 0..150);
        assert_eq!(cache.stats().misses, 150, "{policy}");
        read(&file, 150..170);
        assert_eq!(usage(&parent), 170, "{policy}: the parent pays from now on");
        let beside = cache.group("beside", GroupOptions::new()).unwrap();
        let scan = beside.open(&others, read_only()).unwrap();
        read(&scan, 0..900);
        cache.validate();
        assert_eq!(file.resident_pages(0, 150 * PAGE as u64), 0, "{policy}: they went");
        // The number and the name are free again.
        let again = parent.group("child", limited(16)).unwrap();
        assert_eq!(usage(&again), 0, "{policy}");
        cache.validate();
    }
}

#[test]
fn pages_asked_for_are_freed_by_whom_was_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| patterned_file(dir.path(), name, 300 * PAGE);
    for &policy in PolicyName::ALL {
        let cache = cache(1024, policy);
        let [a, b] = ["a", "b"].map(|name| cache.group(name, GroupOptions::new()).unwrap());
        let files = [&a, &b].map(|group| group.open(path(group.name()), read_only()).unwrap());
        files.iter().for_each(|file| read(file, 0..300));
        let freed = a.reclaim(pages(100)).unwrap();
        // A pass may finish its batch of 64.
        assert!((100..=164).contains(&freed.whole_pages()), "{policy}: {freed}");
        assert_eq!((usage(&a), usage(&b)), (300 - freed.whole_pages(), 300), "{policy}");
        assert_eq!(a.reclaim(Bytes(0)).unwrap(), Bytes(0));
        let all = a.reclaim(pages(1000)).unwrap();
        assert_eq!((freed.whole_pages() + all.whole_pages(), usage(&a)), (300, 0), "{policy}");
        cache.validate();
    }
}

#[test]
fn a_lowered_limit_takes_what_is_above_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "file", 300 * PAGE);
    for &policy in PolicyName::ALL {
        let cache = cache(1024, policy);
        let group = cache.group("group", GroupOptions::new()).unwrap();
        let file = group.open(&path, read_only()).unwrap();
        read(&file, 0..300);
        let pinned: Vec<_> = (0..20).map(|index| file.page(index).unwrap()).collect();
        group.set(limited(16)).unwrap();
        // Pages in use stay, and so may pages that a pass cannot reach.
        assert!((20..=40).contains(&usage(&group)), "{policy}: {}", usage(&group));
        read(&file, 100..150);
        let bypasses = cache.stats().bypass_reads;
        assert!((30..=50).contains(&bypasses), "{policy}: {bypasses} past the cache meanwhile");
        drop(pinned);
        read(&file, 200..240);
        assert!(usage(&group) <= 16, "{policy}: {}", usage(&group));
        assert_eq!(cache.stats().bypass_reads, bypasses, "{policy}");
        cache.validate();
    }
}

#[test]
fn a_group_full_of_dirty_pages_writes_through() {
    let cache = cache(1024, PolicyName::Mglru);
    let group = cache.group("writer", limited(16)).unwrap();
    let store = FaultyStore::with_contents(&vec![0; 100 * PAGE]);
    let file = group.open_store(store.boxed()).unwrap();
    for index in 0..100u64 {
        file.write_at(&pattern_at(index * PAGE as u64, PAGE), index * PAGE as u64).unwrap();
        assert!(usage(&group) <= 16);
    }
    assert!(group.stats().unwrap().writes_through > 0);
    read(&file, 0..100);
    file.sync_data().unwrap();
    read(&file, 0..100);
    cache.validate();
}

#[test]
fn a_cache_with_groups_shrinks_to_what_they_are_promised() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "file", 900 * PAGE);
    for &policy in PolicyName::ALL {
        let cache = cache(1024, policy);
        let kept = cache.group("kept", GroupOptions::new().min(pages(256))).unwrap();
        let file = kept.open(&path, read_only()).unwrap();
        let rest = cache.open(patterned_file(dir.path(), "rest", 900 * PAGE), read_only()).unwrap();
        read(&file, 0..200);
        read(&rest, 0..700);
        let refused = cache.resize(pages(255)).unwrap_err();
        assert!(matches!(refused, ResizeError::Promised { .. }), "{refused}");
        cache.resize(pages(300)).unwrap();
        assert!(cache.stats().resident_bytes <= pages(300).0);
        assert_eq!(usage(&kept), 200, "{policy}");
        cache.validate();
        cache.resize(pages(800)).unwrap();
        read(&rest, 0..500);
        cache.validate();
    }
}

#[test]
fn generations_are_told_by_group() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(256, PolicyName::Mglru);
    let tenant = cache.group("tenant", GroupOptions::new()).unwrap();
    let below = tenant.group("below", GroupOptions::new()).unwrap();
    let file = below.open(patterned_file(dir.path(), "file", 60 * PAGE), read_only()).unwrap();
    read(&file, 0..60);
    let text = cache.describe_lru_gen(Detail::Sizes);
    let heads: Vec<_> = text.lines().filter(|line| line.starts_with("memcg")).collect();
    assert_eq!(heads, ["memcg     0 /", "memcg     1 /tenant", "memcg     2 /tenant/below"]);
    assert_eq!(cache.command_lru_gen("- 2 0 1 0 30").unwrap(), 30);
    assert_eq!(usage(&tenant), 30);
    assert!(cache.command_lru_gen("- 3 0 1").is_err(), "there is no such group");
    cache.validate();
}

#[test]
fn what_cannot_be_is_refused_with_one_sentence() {
    let none = PageCache::builder().memory(pages(64)).build().unwrap();
    assert_eq!(none.group("a", GroupOptions::new()).unwrap_err(), GroupError::Off);
    assert!(none.groups().is_empty());
    let slow = Tier::emulated(Bytes(8 << 20), Duration::from_nanos(300));
    let tiered = PageCache::builder().tier(Tier::dram(Bytes(2 << 20))).tier(slow).groups(true);
    let refused = tiered.build().unwrap_err();
    assert!(matches!(refused, BuildError::Tiers(_)), "{refused}");
    assert!(refused.to_string().contains("2 kinds of memory and groups"), "{refused}");

    let cache = cache(1000, PolicyName::Mglru);
    let a = cache.group("a", GroupOptions::new().min(pages(600))).unwrap();
    let says = |name: &str, options: GroupOptions, text: &str| {
        let error = cache.group(name, options).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    };
    says("a", GroupOptions::new(), "named \"a\" already");
    says("b", limited(0), "a limit of 0 is too small for a group: give it at least 64K");
    says("b", limited(15), "at least 64K");
    says("b", limited(16).min(pages(17)), "a min of 68K is above the limit of 64K");
    says("b", limited(16).low(pages(17)), "a low of 68K is above the limit of 64K");
    let over = "a min of 1604K beside the 2400K of other groups is more than the 4000K there is";
    says("b", GroupOptions::new().min(pages(401)), over);
    let error = a.set(GroupOptions::new().min(pages(1001))).unwrap_err();
    assert!(matches!(error, GroupError::Overcommitted { others: Bytes(0), .. }), "{error}");
    cache.group("b", GroupOptions::new().min(pages(400)).low(pages(5000))).unwrap();
    // Children may ask for more than their parent has: core distributes it.
    let child = a.group("child", GroupOptions::new().min(pages(900))).unwrap();

    child.remove().unwrap();
    let is_removed = |error: GroupError| {
        assert_eq!(error, GroupError::Removed { name: "child".into() });
    };
    is_removed(child.remove().unwrap_err());
    is_removed(child.stats().unwrap_err());
    is_removed(child.reclaim(pages(1)).unwrap_err());
    is_removed(child.set(GroupOptions::new()).unwrap_err());
    is_removed(child.group("below", GroupOptions::new()).unwrap_err());
    let error = child.open(Path::new("/nowhere"), read_only()).unwrap_err();
    assert!(matches!(error, OpenError::GroupRemoved { .. }), "{error}");
}

#[derive(Clone, Debug)]
enum Op {
    Read {
        file: usize,
        index: u64,
        nr: u64,
    },
    Write {
        file: usize,
        index: u64,
    },
    Pin {
        file: usize,
        index: u64,
    },
    Unpin,
    Sync {
        file: usize,
    },
    Discard {
        file: usize,
    },
    Set {
        group: usize,
        limit: u64,
        low: u64,
    },
    Reclaim {
        group: usize,
        nr: u64,
    },
    /// Removed and created again.
    Renew {
        group: usize,
        limit: u64,
    },
    Resize {
        nr_frames: u64,
    },
}

const NR_GROUPS: usize = 4;
const FILE_PAGES: u64 = 80;

fn op() -> impl Strategy<Value = Op> {
    let (group, file) = (|| 0..NR_GROUPS, || 0..NR_GROUPS + 1);
    let (index, limit) = (|| 0..FILE_PAGES, || 16..100u64);
    prop_oneof![
        20 => (file(), index(), 1..9u64).prop_map(|(file, index, nr)| Op::Read { file, index, nr }),
        6 => (file(), index()).prop_map(|(file, index)| Op::Write { file, index }),
        2 => (file(), index()).prop_map(|(file, index)| Op::Pin { file, index }),
        2 => Just(Op::Unpin),
        2 => file().prop_map(|file| Op::Sync { file }),
        1 => file().prop_map(|file| Op::Discard { file }),
        1 => (group(), limit(), 0..16u64)
            .prop_map(|(group, limit, low)| Op::Set { group, limit, low }),
        1 => (group(), 0..60u64).prop_map(|(group, nr)| Op::Reclaim { group, nr }),
        1 => (group(), limit()).prop_map(|(group, limit)| Op::Renew { group, limit }),
        1 => (60..200u64).prop_map(|nr_frames| Op::Resize { nr_frames }),
    ]
}

/// Tenants 0 and 1 at the top, 2 below 0, 3 below 2, with a file each, and a file without tenant.
struct Tenants {
    cache: PageCache,
    groups: Vec<Group>,
    files: Vec<File>,
    /// Limits, or usage above a lowered limit.
    most: Vec<u64>,
}

impl Tenants {
    fn new(policy: PolicyName) -> Tenants {
        let cache = cache(128, policy);
        let mut tenants = Tenants { cache, groups: vec![], files: vec![], most: vec![] };
        for nth in 0..NR_GROUPS {
            let group = tenants.create(nth, 64);
            tenants.files.push(group.open_store(store().boxed()).unwrap());
            tenants.groups.push(group);
            tenants.most.push(64);
        }
        tenants.files.push(tenants.cache.open_store(store().boxed()).unwrap());
        tenants
    }

    fn create(&self, nth: usize, limit: u64) -> Group {
        let name = nth.to_string();
        match nth {
            0 | 1 => self.cache.group(&name, limited(limit)).unwrap(),
            2 => self.groups[0].group(&name, limited(limit)).unwrap(),
            _ => self.groups[2].group(&name, limited(limit)).unwrap(),
        }
    }

    fn check_limits(&mut self) {
        for (group, most) in self.groups.iter().zip(&mut self.most) {
            let stats = group.stats().unwrap();
            let limit = stats.limit_bytes.unwrap();
            assert!(stats.usage_bytes <= limit.max(pages(*most).0), "{stats:?}, before {most}");
            *most = Bytes(stats.usage_bytes.max(limit)).whole_pages();
        }
    }
}

fn store() -> FaultyStore {
    FaultyStore::with_contents(&pattern_at(0, FILE_PAGES as usize * PAGE))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn limits_hold_at_each_step(
        policy in prop::sample::select(PolicyName::ALL),
        ops in prop::collection::vec(op(), 1..250),
    ) {
        let mut tenants = Tenants::new(policy);
        let files = tenants.files.clone();
        let mut pins = Vec::new();
        for op in ops {
            match op {
                Op::Read { file, index, nr } => {
                    read(&files[file], index..(index + nr).min(FILE_PAGES));
                }
                Op::Write { file, index } => {
                    // A pinned page waits for its pins.
                    pins.clear();
                    let offset = index * PAGE as u64;
                    files[file].write_at(&pattern_at(offset, PAGE), offset).unwrap();
                }
                Op::Pin { file, index } => pins.extend(files[file].page(index)),
                Op::Unpin => pins.clear(),
                Op::Sync { file } => {
                    pins.clear();
                    files[file].sync_data().unwrap();
                }
                Op::Discard { file } => {
                    pins.clear();
                    files[file].set_len(0).unwrap();
                    let all = pattern_at(0, FILE_PAGES as usize * PAGE);
                    files[file].write_at(&all, 0).unwrap();
                }
                Op::Set { group, limit, low } => {
                    tenants.most[group] = tenants.most[group].max(usage(&tenants.groups[group]));
                    tenants.groups[group].set(limited(limit).low(pages(low))).unwrap();
                }
                Op::Reclaim { group, nr } => {
                    let (group, before) = (&tenants.groups[group], usage(&tenants.groups[group]));
                    let freed = group.reclaim(pages(nr)).unwrap().whole_pages();
                    prop_assert_eq!(before - usage(group), freed);
                }
                Op::Renew { group, limit } => {
                    if tenants.groups[group].remove().is_ok() {
                        tenants.groups[group] = tenants.create(group, limit);
                        tenants.most[group] = limit;
                    }
                }
                Op::Resize { nr_frames } => {
                    // As far as pins and dirty pages allow.
                    let _ = tenants.cache.resize(pages(nr_frames.min(128)));
                }
            }
            tenants.check_limits();
            if pins.is_empty() {
                tenants.cache.validate();
            }
        }
    }
}

/// Two tenants in two threads. A third thread creates and removes a group, lowers limits, and
/// reclaims.
#[test]
fn tenants_in_threads_keep_every_page_right() {
    let is_long = std::env::var_os("PAGETIDE_LONG").is_some_and(|value| value == "1");
    let _watchdog = Watchdog::new();
    let end = Instant::now() + Duration::from_secs(if is_long { 30 } else { 0 });
    let mut seed = seed();
    let mut nr_rounds = 0;
    while nr_rounds < 4 || Instant::now() < end {
        for &policy in PolicyName::ALL {
            run_threads(policy, seed);
            seed = seed.wrapping_add(1);
        }
        nr_rounds += 1;
    }
}

fn run_threads(policy: PolicyName, seed: u64) {
    const NR_OPS: u64 = 600;
    let cache = cache(96, policy);
    let tenants = ["a", "b"].map(|name| {
        let group = cache.group(name, limited(64).low(pages(16))).unwrap();
        let file = group.open_store(store().boxed()).unwrap();
        (group, file)
    });
    let shared = cache.open_store(store().boxed()).unwrap();
    std::thread::scope(|scope| {
        for (nth, (_, file)) in tenants.iter().enumerate() {
            let shared = &shared;
            scope.spawn(move || {
                let mut random = Random::new(seed ^ nth as u64);
                for _ in 0..NR_OPS {
                    let index = random.below(FILE_PAGES);
                    let offset = index * PAGE as u64;
                    match random.below(10) {
                        0 => file.write_at(&pattern_at(offset, PAGE), offset).map(drop).unwrap(),
                        1 => drop(file.page(index)),
                        2 => read(shared, index..index + 1),
                        3 if random.below(20) == 0 => file.sync_data().unwrap(),
                        _ => read(file, index..index + 1),
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut random = Random::new(seed ^ 99);
            for nth in 0..NR_OPS / 20 {
                let (group, _) = &tenants[random.below(2) as usize];
                let child = group.group(&format!("child {nth}"), limited(16)).unwrap();
                let file = child.open_store(store().boxed()).unwrap();
                read(&file, 0..20);
                child.remove().unwrap();
                read(&file, 20..30);
                match random.below(3) {
                    0 => group.set(limited(16 + random.below(60))).unwrap(),
                    1 => drop(group.reclaim(pages(random.below(30))).unwrap()),
                    _ => drop(cache.describe_lru_gen(Detail::Sizes)),
                }
                drop(group.stats().unwrap());
            }
        });
    });
    for (group, file) in &tenants {
        file.sync_data().unwrap();
        let stats = group.stats().unwrap();
        assert!(stats.usage_bytes <= stats.limit_bytes.unwrap().max(pages(64).0), "{stats:?}");
    }
    cache.validate();
}
