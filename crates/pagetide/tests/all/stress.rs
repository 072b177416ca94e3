//! Threads that read, write, sync, truncate and resize at random, on self-describing pages.
//!
//! A read must find the last version written, the last one begun, or one between. Locks of the test
//! serialize writers of a page, and truncations of a file. One file's store may fail. At the end
//! everything must be stored.
//!
//! Not checked: order between pages of one call.

use crate::common::pages::{Random, seed, stamp, version_of};
use crate::common::store::{Fault, FaultyStore, Kind};
use crate::common::watchdog::Watchdog;
use crate::common::{PAGE, pattern_at};
use pagetide::{
    Advice, Bytes, File, OpenOptions, PageCache, PolicyName, ReadError, ResizeError, WriteError,
};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

const NR_PAGES: u64 = 200;

#[derive(Default)]
struct PageModel {
    /// Held during a write. Counts the versions.
    next: Mutex<u64>,
    begun: AtomicU64,
    done: AtomicU64,
}

struct FileModel {
    number: u64,
    path: Option<PathBuf>,
    store: FaultyStore,
    file: File,
    /// The store fails at times: an operation may fail, and a failed write may have happened.
    is_faulty: bool,
    pages: Vec<PageModel>,
    /// The length. Read-locked by writers, write-locked by truncations.
    length: RwLock<AtomicU64>,
    /// Odd during a truncation.
    nr_cuts: AtomicU64,
}

impl FileModel {
    fn cuts(&self) -> Option<u64> {
        Some(self.nr_cuts.load(SeqCst)).filter(|nr| nr % 2 == 0)
    }

    fn reopen(&self, cache: &PageCache) -> File {
        match &self.path {
            Some(path) => cache.open(path, OpenOptions::new().read(true).write(true)).unwrap(),
            None => self.file.reopen(),
        }
    }

    fn check(&self, index: u64, bytes: &[u8], done: u64, cuts: Option<u64>) {
        let begun = self.pages[index as usize].begun.load(SeqCst);
        let is_quiet = cuts.is_some() && cuts == self.cuts();
        if bytes.len() < PAGE {
            assert!(bytes.is_empty(), "lengths are whole pages: {}", bytes.len());
            assert!(!is_quiet || done == 0, "page {index} is gone, version {done} was written");
            return;
        }
        let version =
            version_of(bytes, self.number, index).unwrap_or_else(|wrong| panic!("{wrong}"));
        if is_quiet {
            assert!(
                (done..=begun).contains(&version),
                "file {} page {index}: version {version}, expected {done} to {begun}",
                self.number
            );
        }
    }

    fn done(&self, index: u64) -> u64 {
        self.pages[index as usize].done.load(SeqCst)
    }

    fn read(&self, file: &File, first: u64, nr: u64) {
        let nr = nr.min(NR_PAGES - first);
        let cuts = self.cuts();
        let done: Vec<u64> = (first..first + nr).map(|index| self.done(index)).collect();
        let mut bytes = vec![0xaa; nr as usize * PAGE];
        let nr_read = match file.read_at(&mut bytes, first * PAGE as u64) {
            Ok(nr_read) => nr_read,
            Err(ReadError::Store { .. }) if self.is_faulty => return,
            Err(other) => panic!("{other}"),
        };
        for (at, done) in done.into_iter().enumerate() {
            let start = (at * PAGE).min(nr_read);
            let end = ((at + 1) * PAGE).min(nr_read);
            self.check(first + at as u64, &bytes[start..end], done, cuts);
        }
    }

    fn look(&self, file: &File, index: u64) {
        let cuts = self.cuts();
        let done = self.done(index);
        match file.page(index) {
            Ok(page) => self.check(index, &page, done, cuts),
            Err(ReadError::PastEnd { .. }) => self.check(index, &[], done, cuts),
            Err(ReadError::NoFrame { .. }) => {}
            Err(ReadError::Store { .. }) if self.is_faulty => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn write(&self, file: &File, first: u64, nr: u64) {
        let length = self.length.read().unwrap();
        let indices = first..(first + nr).min(NR_PAGES);
        let mut turns: Vec<_> = Vec::new();
        let mut bytes = vec![0; (indices.end - first) as usize * PAGE];
        for (index, page) in indices.clone().zip(bytes.chunks_exact_mut(PAGE)) {
            let model = &self.pages[index as usize];
            let mut next = model.next.lock().unwrap();
            *next += 1;
            stamp(page, self.number, index, *next);
            model.begun.store(*next, SeqCst);
            turns.push((model, next));
        }
        match file.write_at(&bytes, first * PAGE as u64) {
            Ok(nr) => assert_eq!(nr, bytes.len()),
            Err(WriteError::Store { .. }) if self.is_faulty => {
                length.fetch_max(file.len().div_ceil(PAGE as u64), SeqCst);
                return;
            }
            Err(other) => panic!("{other}"),
        }
        length.fetch_max(indices.end, SeqCst);
        turns.iter().for_each(|(model, next)| model.done.store(**next, SeqCst));
    }

    fn change_in_place(&self, file: &File, index: u64) {
        let length = self.length.read().unwrap();
        let model = &self.pages[index as usize];
        let mut next = model.next.lock().unwrap();
        // Only grows while locked: another thread may write behind this page.
        let at_least = length.load(SeqCst);
        match file.page_mut(index) {
            Ok(mut page) => {
                let version = version_of(&page, self.number, index).unwrap();
                let expected = self.versions(index);
                assert!(expected.contains(&version), "{version} under the guard of page {index}");
                *next += 1;
                model.begun.store(*next, SeqCst);
                stamp(&mut page, self.number, index, *next);
                drop(page);
                model.done.store(*next, SeqCst);
            }
            Err(WriteError::PastEnd { .. }) => assert!(index >= at_least),
            Err(WriteError::NoFrame { .. }) => {}
            Err(WriteError::Store { .. }) if self.is_faulty => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn truncate(&self, file: &File, len: u64) {
        let mut length = self.length.write().unwrap();
        self.nr_cuts.fetch_add(1, SeqCst);
        file.set_len(len * PAGE as u64).unwrap();
        *length.get_mut() = len;
        for page in &self.pages[len as usize..] {
            page.begun.store(0, SeqCst);
            page.done.store(0, SeqCst);
        }
        self.nr_cuts.fetch_add(1, SeqCst);
    }

    /// Returns the possible versions of page `index` without a write in progress: one, unless a
    /// write failed.
    fn versions(&self, index: u64) -> RangeInclusive<u64> {
        let begun = self.pages[index as usize].begun.load(SeqCst);
        let done = self.done(index);
        assert!(done == begun || self.is_faulty);
        done..=begun
    }

    fn break_store(&self, random: &mut Random) {
        let kind = [Kind::Read, Kind::Write, Kind::Write, Kind::Sync][random.below(4) as usize];
        let code = [libc::EIO, libc::ENOSPC][random.below(2) as usize];
        self.store.fail(kind, random.below(20), Fault::Error(code), 1 + random.below(20));
    }

    fn check_store(&self) {
        let contents = match &self.path {
            Some(path) => std::fs::read(path).unwrap(),
            None => self.store.contents(),
        };
        let length = self.length.read().unwrap().load(SeqCst);
        assert_eq!(contents.len() as u64, length * PAGE as u64, "length of file {}", self.number);
        for (index, page) in (0..).zip(contents.chunks_exact(PAGE)) {
            let version = version_of(page, self.number, index).unwrap();
            let expected = self.versions(index);
            assert!(expected.contains(&version), "{version} in file {} page {index}", self.number);
        }
    }
}

#[derive(Clone, Copy)]
struct Shape {
    policy: PolicyName,
    nr_threads: u64,
    nr_frames: u64,
    resizes: bool,
    faults: bool,
    time: Duration,
}

fn run(shape: Shape, seed: u64) {
    let _watchdog = Watchdog::of_a_run(shape.time);
    let dir = tempfile::tempdir().unwrap();
    let cache = PageCache::builder()
        .memory(Bytes::from_pages(shape.nr_frames))
        .policy(shape.policy)
        .build()
        .unwrap();
    let files: Vec<FileModel> = (0..3)
        .map(|number| {
            let store = FaultyStore::default();
            let path = (number < 2).then(|| dir.path().join(number.to_string()));
            let options = OpenOptions::new().read(true).write(true).create(true);
            let file = match &path {
                Some(path) => cache.open(path, options).unwrap(),
                None => cache.open_store(store.boxed()).unwrap(),
            };
            FileModel {
                number: number + 1,
                path,
                store,
                file,
                is_faulty: shape.faults && number == 2,
                pages: (0..NR_PAGES).map(|_| PageModel::default()).collect(),
                length: RwLock::default(),
                nr_cuts: AtomicU64::new(0),
            }
        })
        .collect();
    let end = Instant::now() + shape.time;
    std::thread::scope(|scope| {
        for thread in 0..shape.nr_threads {
            let (files, cache) = (&files, &cache);
            let random = Random::new(seed ^ (thread << 32));
            scope.spawn(move || work(cache, files, random, shape, end));
        }
    });
    for model in &files {
        model.store.lift();
        // Reports earlier failures, and writes all the same.
        let result = model.file.sync_all();
        assert!(result.is_ok() || model.is_faulty, "{result:?}");
        model.file.sync_all().unwrap();
    }
    files.iter().for_each(FileModel::check_store);
    let stats = cache.stats();
    assert!(stats.resident_bytes_max <= shape.nr_frames * PAGE as u64, "{stats:?}");
    assert_eq!(stats.dirty_bytes, 0, "everything was synced");
    println!(
        "{} {} threads {} frames: {} accesses, {} evictions, {} written through, {} past the cache",
        shape.policy,
        shape.nr_threads,
        shape.nr_frames,
        stats.accesses,
        stats.evictions,
        stats.writes_through,
        stats.bypass_reads
    );
}

fn work(cache: &PageCache, files: &[FileModel], mut random: Random, shape: Shape, end: Instant) {
    let mut handles: Vec<File> = files.iter().map(|model| model.reopen(cache)).collect();
    // Runs until pages were evicted: machine or disk may be slow.
    while Instant::now() < end || cache.stats().evictions == 0 {
        let which = random.below(files.len() as u64) as usize;
        let (model, file) = (&files[which], &handles[which]);
        let index = random.below(NR_PAGES);
        match random.below(1000) {
            0..500 => model.read(file, index, 1 + random.below(4)),
            500..620 => model.look(file, index),
            620..820 => model.write(file, index, 1 + random.below(3)),
            820..920 => model.change_in_place(file, index),
            920..950 => {
                let result = file.sync_data();
                assert!(result.is_ok() || model.is_faulty, "{result:?}");
            }
            950..965 => file.advise(Advice::WillNeed, index << 12, 32 << 12).unwrap(),
            965..975 => {
                let result = file.advise(Advice::DontNeed, index << 12, 32 << 12);
                assert!(result.is_ok() || model.is_faulty, "{result:?}");
            }
            975..980 if model.is_faulty => model.break_store(&mut random),
            975..990 => handles[which] = model.reopen(cache),
            990..995 => model.truncate(file, NR_PAGES / 2 + random.below(NR_PAGES / 2)),
            _ if shape.resizes => {
                let nr_frames = 16 + random.below(shape.nr_frames - 16 + 1);
                match cache.resize(Bytes::from_pages(nr_frames)) {
                    Ok(()) | Err(ResizeError::Busy { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            // A scan, for readahead.
            _ => (0..NR_PAGES).step_by(16).for_each(|first| model.read(file, first, 16)),
        }
    }
}

/// Duration of each run: `PAGETIDE_STRESS_SECONDS`, or a little.
fn run_time(fallback_ms: u64) -> Duration {
    let given = std::env::var("PAGETIDE_STRESS_SECONDS").ok().and_then(|text| text.parse().ok());
    given.map_or(Duration::from_millis(fallback_ms), Duration::from_secs)
}

#[test]
fn kernel_policies_keep_every_page_right() {
    let seed = seed();
    for policy in [PolicyName::Mglru, PolicyName::ActiveInactive] {
        for (nr_threads, nr_frames) in [(2, 256), (4, 64)] {
            let time = run_time(1500);
            run(
                Shape {
                    policy,
                    nr_threads,
                    nr_frames,
                    resizes: nr_threads == 2,
                    faults: false,
                    time,
                },
                seed,
            );
        }
    }
}

/// Two threads while memory grows and shrinks. The policy must adapt its shares, epochs and
/// miniatures.
#[test]
fn our_own_policy_keeps_every_page_right() {
    let is_long = std::env::var_os("PAGETIDE_LONG").is_some_and(|value| value == "1");
    let time = run_time(if is_long { 30_000 } else { 1500 });
    let (policy, nr_threads) = (PolicyName::Pagetide, 2);
    for (nr_frames, resizes, faults) in [(256, true, false), (48, false, true)] {
        run(Shape { policy, nr_threads, nr_frames, resizes, faults, time }, seed());
    }
}

#[test]
fn plain_policies_keep_every_page_right() {
    let seed = seed();
    for policy in [PolicyName::Lru, PolicyName::Clock] {
        for (nr_threads, nr_frames) in [(2, 64), (4, 256)] {
            let time = run_time(1000);
            run(
                Shape {
                    policy,
                    nr_threads,
                    nr_frames,
                    resizes: nr_threads == 4,
                    faults: false,
                    time,
                },
                seed,
            );
        }
    }
}

#[test]
fn sixteen_frames_are_enough_for_every_policy() {
    let seed = seed();
    for policy in PolicyName::ALL {
        let time = run_time(500);
        run(
            Shape {
                policy: *policy,
                nr_threads: 2,
                nr_frames: 16,
                resizes: false,
                faults: false,
                time,
            },
            seed,
        );
    }
}

#[test]
fn a_store_that_fails_at_times_loses_nothing() {
    let seed = seed();
    for (policy, nr_frames) in [(PolicyName::Mglru, 128), (PolicyName::ActiveInactive, 32)] {
        let time = run_time(1500);
        run(Shape { policy, nr_threads: 3, nr_frames, resizes: true, faults: true, time }, seed);
    }
}

/// One thread appends records of odd sizes, another syncs, a third reads: write-back must never
/// truncate a page that a write has just extended.
#[test]
fn appended_records_are_all_there() {
    let (mut random, time) = (Random::new(seed()), run_time(1500));
    let _watchdog = Watchdog::of_a_run(time);
    let end = Instant::now() + time;
    loop {
        append_beside_sync_and_read(&mut random);
        if Instant::now() >= end {
            break;
        }
    }
}

fn append_beside_sync_and_read(random: &mut Random) {
    const LEN_MAX: u64 = 4 << 20;
    let store = FaultyStore::default();
    let cache = PageCache::builder().memory(Bytes::from_pages(64)).build().unwrap();
    let file = cache.open_store(store.boxed()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                file.sync_data().unwrap();
            }
        });
        scope.spawn(|| {
            let mut random = Random::new(1);
            while !is_over.load(SeqCst) {
                let len = file.len();
                let start = random.below(len + 1);
                let mut bytes = vec![0; 3000.min(len - start) as usize];
                assert_eq!(file.read_at(&mut bytes, start).unwrap(), bytes.len());
                assert!(bytes == pattern_at(start, bytes.len()), "read at {start} of {len}");
            }
        });
        while file.len() < LEN_MAX {
            let len = 1 + random.below(600) as usize;
            file.write_at(&pattern_at(file.len(), len), file.len()).unwrap();
        }
        is_over.store(true, SeqCst);
    });
    file.sync_data().unwrap();
    let contents = store.contents();
    assert_eq!(contents.len() as u64, file.len());
    let wrong = contents.iter().zip(0..).position(|(byte, at)| *byte != crate::common::pattern(at));
    assert_eq!(wrong, None, "of {} bytes", contents.len());
    assert!(cache.stats().evictions > 0);
}
