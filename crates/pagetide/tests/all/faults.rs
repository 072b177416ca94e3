//! A store that fails at its n-th operation, for every n: the right call reports the failure, and
//! nothing is lost. Failed operations are retried once. At the end the store must equal a plain
//! vector.

use crate::common::store::{Fault, FaultyStore, Kind, Manner};
use crate::common::{PAGE, pattern_at};
use libc::{EIO, ENOSPC};
use pagetide::{
    Advice, Bytes, File, PageCache, PolicyName, ReadError, Store, SyncError, WriteError,
};
use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

const NR_PAGES: usize = 40;
const NR_FRAMES: u64 = 20;

fn quiet_cache(policy: PolicyName) -> PageCache {
    PageCache::builder()
        .memory(Bytes::from_pages(NR_FRAMES))
        .policy(policy)
        .background(false)
        .build()
        .unwrap()
}

fn os_code(error: &io::Error) -> Option<i32> {
    error.raw_os_error()
}

/// A run of the scenario: a cache without threads, two handles, and a vector as model.
struct Run {
    store: FaultyStore,
    handles: [File; 2],
    twin: Vec<u8>,
    kind: Kind,
    code: i32,
    /// Write-back failures that each handle has yet to report.
    unreported: [bool; 2],
    seed: u64,
    _cache: PageCache,
}

impl Run {
    fn new(policy: PolicyName, kind: Kind, code: i32) -> Run {
        let twin = pattern_at(0, NR_PAGES * PAGE - 700);
        let store = FaultyStore::with_contents(&twin);
        let cache = quiet_cache(policy);
        let file = cache.open_store(store.boxed()).unwrap();
        let handles = [file.reopen(), file];
        Run { store, handles, twin, kind, code, unreported: [false; 2], seed: 7, _cache: cache }
    }

    fn random(&mut self, below: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.seed >> 33) as usize % below
    }

    /// Retries a failure once. A failed write that no call reported belongs to a write-back.
    fn attempt<E: std::fmt::Debug>(
        &mut self,
        op: impl Fn(&File) -> Result<(), E>,
        code_of: impl Fn(&E) -> Option<i32>,
    ) {
        let faults_before = self.store.nr_faults();
        let which = self.random(2);
        let result = op(&self.handles[which]);
        let nr_new = self.store.nr_faults() - faults_before;
        match result {
            // A failure in readahead is not reported.
            Ok(()) => {
                if nr_new > 0 && self.kind == Kind::Write {
                    self.unreported = [true; 2];
                }
            }
            Err(error) => {
                assert!(nr_new > 0, "an error without a fault: {error:?}");
                assert_eq!(code_of(&error), Some(self.code), "{error:?}");
                // The fault lasts for one operation.
                op(&self.handles[which]).unwrap();
            }
        }
    }

    fn read(&mut self) {
        let offset = self.random(NR_PAGES * PAGE);
        let len = 1 + self.random(3 * PAGE);
        let expected =
            self.twin[offset.min(self.twin.len())..(offset + len).min(self.twin.len())].to_vec();
        self.attempt(
            |file| {
                let mut bytes = vec![0xaa; len];
                let nr = file.read_at(&mut bytes, offset as u64)?;
                assert!(bytes[..nr] == expected, "wrong bytes at {offset}");
                Ok(())
            },
            read_code,
        );
    }

    fn write(&mut self, is_whole: bool) {
        let (offset, len) = if is_whole {
            (self.random(NR_PAGES) * PAGE, PAGE)
        } else {
            (self.random(NR_PAGES * PAGE), 1 + self.random(2 * PAGE))
        };
        let byte = self.random(256) as u8;
        let source = vec![byte; len];
        self.attempt(|file| file.write_at(&source, offset as u64).map(|_| ()), write_code);
        let end = offset + len;
        if self.twin.len() < end {
            self.twin.resize(end, 0);
        }
        self.twin[offset..end].fill(byte);
    }

    fn change_in_place(&mut self) {
        let index = self.random(self.twin.len() / PAGE);
        let byte = self.random(256) as u8;
        self.attempt(
            |file| {
                file.page_mut(index as u64)?[5] = byte;
                Ok(())
            },
            // A guard may be refused if every frame is dirty and cannot be written.
            write_code,
        );
        self.twin[index * PAGE + 5] = byte;
    }

    fn set_len(&mut self) {
        let len = (NR_PAGES / 2) * PAGE + self.random(NR_PAGES / 2 * PAGE);
        self.attempt(|file| file.set_len(len as u64), write_code);
        self.twin.resize(len, 0);
    }

    /// A sync fails exactly if this handle has a failure to report.
    fn sync(&mut self) {
        let which = self.random(2);
        let faults_before = self.store.nr_faults();
        let result = self.handles[which].sync_data();
        if self.store.nr_faults() > faults_before {
            self.unreported = [true; 2];
        }
        let should_fail = std::mem::take(&mut self.unreported[which]);
        assert_eq!(result.is_err(), should_fail, "handle {which}: {result:?}");
        if let Err(error) = result {
            let (SyncError::Writeback(source) | SyncError::Store(source)) = error else {
                panic!("{error:?}")
            };
            assert_eq!(os_code(&source), Some(self.code));
        }
    }

    fn play(&mut self) {
        for step in 0..70 {
            match step % 7 {
                0 | 3 => self.read(),
                1 => self.write(true),
                2 | 4 => self.write(false),
                5 => self.change_in_place(),
                _ if step % 3 == 0 => self.set_len(),
                _ => self.sync(),
            }
        }
    }

    fn finish(mut self) -> u64 {
        let nr_faults = self.store.lift();
        for which in [0, 1] {
            let should_fail = std::mem::take(&mut self.unreported[which]);
            assert_eq!(self.handles[which].sync_data().is_err(), should_fail, "handle {which}");
            self.handles[which].sync_all().unwrap();
        }
        assert!(self.store.contents() == self.twin, "the store differs from the vector");
        let mut all = vec![0; self.twin.len() + 1];
        assert_eq!(self.handles[0].read_at(&mut all, 0).unwrap(), self.twin.len());
        assert!(all[..self.twin.len()] == self.twin);
        nr_faults
    }
}

fn read_code(error: &ReadError) -> Option<i32> {
    match error {
        ReadError::Store { source, .. } => os_code(source),
        _ => None,
    }
}

fn write_code(error: &WriteError) -> Option<i32> {
    match error {
        WriteError::Store { source, .. } | WriteError::SetLen { source, .. } => os_code(source),
        _ => None,
    }
}

fn fail_each(kind: Kind, fault: Fault) {
    let (Fault::Error(code) | Fault::Torn(code)) = fault else { panic!("faults with a number") };
    for policy in [PolicyName::Mglru, PolicyName::ActiveInactive] {
        for nth in 0.. {
            let mut run = Run::new(policy, kind, code);
            run.store.fail(kind, nth, fault, 1);
            run.play();
            if run.finish() == 0 {
                assert!(nth >= 3, "only {nth} operations of {kind:?}: the scenario is too small");
                break;
            }
        }
    }
}

#[test]
fn a_failed_read_reaches_its_reader_and_nobody_else() {
    fail_each(Kind::Read, Fault::Error(EIO));
    fail_each(Kind::Read, Fault::Torn(EIO));
}

#[test]
fn a_failed_write_reaches_every_handle_once_and_loses_nothing() {
    fail_each(Kind::Write, Fault::Error(EIO));
    fail_each(Kind::Write, Fault::Error(ENOSPC));
}

#[test]
fn a_torn_write_is_written_again() {
    fail_each(Kind::Write, Fault::Torn(ENOSPC));
}

#[test]
fn a_failed_sync_reaches_every_handle_once() {
    fail_each(Kind::Sync, Fault::Error(EIO));
}

#[test]
fn stores_after_one_that_cannot_be_made_durable_are() {
    let cache = quiet_cache(PolicyName::Lru);
    let stores = [EIO, ENOSPC].map(|errno| {
        let store = FaultyStore::with_contents(&[0; PAGE]);
        store.fail(Kind::Sync, 0, Fault::Error(errno), 1);
        store
    });
    let files = stores.each_ref().map(|store| cache.open_store(store.boxed()).unwrap());
    files.iter().for_each(|file| file.write_all_at(b"x", 0).unwrap());
    let error = cache.sync_all().unwrap_err();
    assert!(matches!(&error, SyncError::Store(error) if os_code(error) == Some(EIO)));
    assert_eq!(stores.each_ref().map(FaultyStore::nr_faults), [1, 1], "both were tried");
    files.iter().for_each(|file| drop(file.sync_all().unwrap_err()));
    cache.sync_all().unwrap();
}

#[test]
fn a_refused_change_of_length_changes_nothing() {
    fail_each(Kind::SetLen, Fault::Error(EIO));
    let twin = pattern_at(0, 3 * PAGE);
    let store = FaultyStore::with_contents(&twin);
    let file = quiet_cache(PolicyName::Mglru).open_store(store.boxed()).unwrap();
    store.fail(Kind::SetLen, 0, Fault::Error(EIO), 1);
    file.set_len(10).unwrap_err();
    assert_eq!(file.len(), 3 * PAGE as u64);
    let mut all = vec![0; 3 * PAGE];
    file.read_at(&mut all, 0).unwrap();
    assert!(all == twin);
}

#[test]
fn a_store_that_does_not_know_its_length_is_refused() {
    let store = FaultyStore::with_contents(&[1; 10]);
    store.fail(Kind::Len, 0, Fault::Error(EIO), 1);
    let cache = quiet_cache(PolicyName::Mglru);
    let error = cache.open_store(store.boxed()).unwrap_err();
    assert!(error.to_string().contains("custom store"), "{error}");
    assert_eq!(cache.open_store(store.boxed()).unwrap().len(), 10);
}

#[test]
fn short_and_interrupted_operations_are_finished() {
    for manner in [Manner::Short(1000), Manner::Short(PAGE + 1), Manner::Interrupted] {
        let mut run = Run::new(PolicyName::Mglru, Kind::Read, EIO);
        run.store.set_manner(manner);
        run.play();
        assert_eq!(run.finish(), 0);
    }
}

/// Every frame becomes dirty, writes go through and fail, reads bypass the cache.
#[test]
fn a_full_device_keeps_every_frame_dirty_until_there_is_room() {
    for background in [false, true] {
        let mut twin = pattern_at(0, NR_PAGES * PAGE);
        let store = FaultyStore::with_contents(&twin);
        let cache = PageCache::builder()
            .memory(Bytes::from_pages(NR_FRAMES))
            .background(background)
            .build()
            .unwrap();
        let file = cache.open_store(store.boxed()).unwrap();
        let other = file.reopen();
        store.fail(Kind::Write, 0, Fault::Error(ENOSPC), u64::MAX);
        let mut nr_refused = 0;
        for index in 0..NR_PAGES {
            let page = vec![index as u8; PAGE];
            match file.write_at(&page, (index * PAGE) as u64) {
                Ok(nr) => {
                    assert_eq!(nr, PAGE);
                    twin[index * PAGE..(index + 1) * PAGE].copy_from_slice(&page);
                }
                Err(error) => {
                    assert_eq!(write_code(&error), Some(ENOSPC), "{error}");
                    nr_refused += 1;
                }
            }
        }
        assert_eq!(nr_refused, NR_PAGES - NR_FRAMES as usize, "a frame each, then through");
        assert_eq!(cache.stats().dirty_bytes, NR_FRAMES * PAGE as u64);
        let mut all = vec![0; NR_PAGES * PAGE];
        file.read_at(&mut all, 0).unwrap();
        assert!(all == twin, "reads past the cache see what was accepted");
        for handle in [&file, &other] {
            let error = handle.sync_data().unwrap_err();
            assert_eq!(io::Error::from(error).kind(), io::ErrorKind::StorageFull);
        }
        store.lift();
        // `file` has not reported failures of the sync of `other`.
        let _ = file.sync_data();
        file.sync_data().unwrap();
        let _ = other.sync_data();
        other.sync_data().unwrap();
        assert!(store.contents() == twin);
        assert_eq!(cache.stats().dirty_bytes, 0);
    }
}

/// Past the cache no page stays dirty: the caller gets the error at once, and no sync repeats it.
#[test]
fn failures_past_the_cache_are_the_callers() {
    let mut twin = pattern_at(0, NR_PAGES * PAGE);
    let store = FaultyStore::with_contents(&twin);
    let cache = quiet_cache(PolicyName::Mglru);
    let file = cache.open_store(store.boxed()).unwrap();
    let guards: Vec<_> = (0..NR_FRAMES).map(|index| file.page(index).unwrap()).collect();
    let at = (NR_PAGES - 1) * PAGE;
    let mut page = vec![0; PAGE];

    store.fail(Kind::Read, 0, Fault::Torn(EIO), 1);
    let error = file.read_at(&mut page, at as u64).unwrap_err();
    assert_eq!(read_code(&error), Some(EIO));
    assert_eq!(file.read_at(&mut page, at as u64).unwrap(), PAGE);
    assert!(page == twin[at..]);

    // Part of a page: the rest is read first, then the whole page is written.
    for (kind, code) in [(Kind::Read, EIO), (Kind::Write, ENOSPC)] {
        store.fail(kind, 0, Fault::Error(code), 1);
        let error = file.write_at(b"past", at as u64 + 9).unwrap_err();
        assert_eq!(write_code(&error), Some(code));
        assert!(store.contents() == twin);
    }
    file.sync_data().unwrap();
    file.write_at(b"past", at as u64 + 9).unwrap();
    twin[at + 9..at + 13].copy_from_slice(b"past");
    assert!(store.contents() == twin);
    assert!(guards.iter().zip(0..).all(|(guard, at)| guard[..] == twin[at * PAGE..][..PAGE]));
    let stats = cache.stats();
    assert_eq!((stats.bypass_reads, stats.writes_through), (2, 3));
}

#[test]
fn failed_readahead_is_silent() {
    let twin = pattern_at(0, NR_PAGES * PAGE);
    let store = FaultyStore::with_contents(&twin);
    let cache = PageCache::builder().memory(Bytes::from_pages(256)).build().unwrap();
    for nth in 0..6 {
        let file = cache.open_store(store.boxed()).unwrap();
        store.fail(Kind::Read, nth, Fault::Torn(EIO), 1);
        let mut nr_failed = 0;
        for index in 0..NR_PAGES {
            let mut page = vec![0; PAGE];
            let offset = (index * PAGE) as u64;
            if file.read_at(&mut page, offset).is_err() {
                nr_failed += 1;
                file.read_at(&mut page, offset).unwrap();
            }
            assert!(page == pattern_at(offset, PAGE));
        }
        assert!(nr_failed <= 1);
        store.lift();
    }
}

#[test]
fn a_write_guard_does_not_stop_its_owner_from_writing() {
    for background in [false, true] {
        let cache = PageCache::builder()
            .memory(Bytes::from_pages(NR_FRAMES))
            .background(background)
            .build()
            .unwrap();
        let store = FaultyStore::with_contents(&vec![0; NR_PAGES * PAGE]);
        let file = cache.open_store(store.boxed()).unwrap();
        file.write_at(&[1], 0).unwrap();
        let mut guard = file.page_mut(0).unwrap();
        guard[0] = 2;
        for index in 1..NR_PAGES {
            file.write_at(&[3; PAGE], (index * PAGE) as u64).unwrap();
        }
        drop(guard);
        file.sync_data().unwrap();
        let contents = store.contents();
        assert_eq!(contents[0], 2);
        assert!(contents[PAGE..].iter().all(|byte| *byte == 3));
    }
}

#[test]
fn a_custom_store_is_dropped_with_its_last_handle() {
    let cache = quiet_cache(PolicyName::Mglru);
    let store = FaultyStore::with_contents(&[0; PAGE]);
    let file = cache.open_store(store.boxed()).unwrap();
    let other = file.reopen();
    file.write_at(&[1], 0).unwrap();
    drop(file);
    assert_eq!(store.nr_owners(), 2);
    other.sync_data().unwrap();
    drop(other);
    assert_eq!(store.nr_owners(), 1);
    assert_eq!(store.contents()[0], 1);
}

/// A panic or a wrong count is a failure like any other: the caller gets an error, locks are
/// released, and no page exposes a frame's old contents.
#[test]
fn a_store_that_panics_or_lies_has_failed() {
    let twin = pattern_at(0, NR_PAGES * PAGE);
    for fault in [Fault::Panic, Fault::Lie] {
        for background in [false, true] {
            let store = FaultyStore::with_contents(&twin);
            let cache = PageCache::builder()
                .memory(Bytes::from_pages(NR_FRAMES))
                .background(background)
                .build()
                .unwrap();
            let file = cache.open_store(store.boxed()).unwrap();
            let mut page = vec![0; PAGE];
            store.fail(Kind::Read, 0, fault, 2);
            file.read_at(&mut page, 5 * PAGE as u64).unwrap_err();
            store.lift();
            file.read_at(&mut page, 5 * PAGE as u64).unwrap();
            assert!(page == twin[5 * PAGE..6 * PAGE]);
            file.write_at(&[0; PAGE], 7 * PAGE as u64).unwrap();
            store.fail(Kind::Write, 0, fault, 1);
            file.sync_data().unwrap_err();
            store.lift();
            file.sync_data().unwrap();
            assert_eq!(&store.contents()[7 * PAGE..8 * PAGE], &[0; PAGE]);
            if fault == Fault::Panic {
                store.fail(Kind::SetLen, 0, fault, 1);
                file.set_len(10).unwrap_err();
                store.fail(Kind::Sync, 0, fault, 1);
                file.sync_data().unwrap_err();
            }
            assert_eq!(file.len(), twin.len() as u64);
        }
    }
}

#[test]
fn a_cache_over_a_broken_store_ends() {
    let store = FaultyStore::with_contents(&[0; PAGE]);
    let file = cache_of(64).open_store(store.boxed()).unwrap();
    file.write_at(&[1; 3 * PAGE], 0).unwrap();
    store.fail(Kind::Write, 0, Fault::Error(EIO), u64::MAX);
    drop(file);
    assert_eq!(store.nr_owners(), 1);
    assert!(store.nr_faults() > 0, "it tried");
}

fn cache_of(nr_frames: u64) -> PageCache {
    PageCache::builder().memory(Bytes::from_pages(nr_frames)).build().unwrap()
}

struct StalledStore {
    reads_begun: Sender<()>,
    gate: Mutex<Receiver<()>>,
}

impl Store for StalledStore {
    fn read_at(&self, target: &mut [u8], _offset: u64) -> io::Result<usize> {
        let gate = self.gate.lock().unwrap();
        // No receiver is left after the test.
        let _ = self.reads_begun.send(());
        let _ = gate.recv();
        target.fill(7);
        Ok(target.len())
    }

    fn write_at(&self, source: &[u8], _offset: u64) -> io::Result<usize> {
        Ok(source.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(200 * PAGE as u64)
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn stalled_readahead_leaves_frames_for_others() {
    let cache = PageCache::builder().memory(Bytes::from_pages(24)).build().unwrap();
    let (reads_begun, begun) = channel();
    // Dropped before the cache, which waits for its readahead.
    let (pass, gate) = channel();
    let stalled = StalledStore { reads_begun, gate: Mutex::new(gate) };
    let stalled = cache.open_store(Box::new(stalled)).unwrap();
    let twin = pattern_at(0, NR_PAGES * PAGE);
    let other = cache.open_store(FaultyStore::with_contents(&twin).boxed()).unwrap();
    stalled.advise(Advice::WillNeed, 0, 200 * PAGE as u64).unwrap();
    begun.recv().unwrap();
    let three_quarters = (0..18).map(|index| other.page(index).unwrap());
    let guards: Vec<_> = three_quarters.collect();
    for (index, page) in guards.iter().enumerate() {
        assert!(page[..] == twin[index * PAGE..(index + 1) * PAGE]);
    }
    drop(pass);
}
