//! The limit holds minutes later as well, and with huge pages: the kernel does not reallocate freed
//! memory.
//!
//! A separate binary, so that no other test's memory is counted. `PAGETIDE_LONG=1` observes for two
//! minutes. Otherwise khugepaged is accelerated, if run by root.

mod common;

use common::kernel_memory::{HurriedKhugepaged, resident_bytes};
use common::pages::Random;
use common::regions::{region, store};
use common::{PAGE, skip, watchdog::Watchdog};
use pagetide::{Bytes, File, OpenOptions, PageCache, RegionOptions};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
const TWO_MINUTES: Duration = Duration::from_secs(120);
/// Overhead: `results/notes.md`, "Resident size", for 256 MiB of pages.
const OVERHEAD: u64 = 20 * MIB;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the maximum of resident bytes while memory is used, or `None` if unavailable.
fn look(test: &str, mut use_memory: impl FnMut()) -> Option<u64> {
    if std::env::var_os("PAGETIDE_LONG").is_some_and(|value| value == "1") {
        let until = Instant::now() + TWO_MINUTES;
        let mut most = 0;
        while Instant::now() < until {
            use_memory();
            most = most.max(resident_bytes());
        }
        return Some(most);
    }
    match HurriedKhugepaged::new() {
        Ok(hurried) => {
            hurried.work_for_full_scans(use_memory);
            Some(resident_bytes())
        }
        Err(why) => {
            skip(test, &why);
            None
        }
    }
}

fn check(resident: u64, before: u64, limit: u64) {
    let more = resident.saturating_sub(before);
    assert!(more <= limit + OVERHEAD, "{} for a limit of {}", Bytes(more), Bytes(limit));
}

fn full(memory: u64, folder: &std::path::Path) -> (PageCache, File) {
    let path = folder.join("sparse");
    std::fs::File::create(&path).expect("a file").set_len(256 * MIB).expect("sparse");
    let cache = PageCache::builder().memory(Bytes(memory)).build().expect("a cache");
    let file = cache.open(&path, OpenOptions::new().read(true)).expect("opened");
    read_all(&file, 256 * MIB);
    (cache, file)
}

/// Reads a few pages of each 2 MiB that [`read_all`] has read.
fn read_hot(file: &File) {
    let mut bytes = [0; PAGE];
    for page in (0..120 * MIB).step_by(8 * PAGE) {
        file.read_at(&mut bytes, page).expect("read");
    }
}

fn read_all(file: &File, len: u64) {
    let mut bytes = vec![0; MIB as usize];
    for offset in (0..len).step_by(bytes.len()) {
        file.read_at(&mut bytes, offset).expect("read");
    }
}

#[test]
fn what_a_resize_gives_back_stays_away() {
    const NAME: &str = "what_a_resize_gives_back_stays_away";
    let _alone = alone();
    let _watchdog = Watchdog::of_a_run(TWO_MINUTES);
    let folder = tempfile::tempdir().expect("a folder");
    let before = resident_bytes();
    let (cache, file) = full(128 * MIB, folder.path());
    // The remaining pages are scattered over the old memory.
    read_all(&file, 120 * MIB);
    let read_hot = || read_hot(&file);
    (0..8).for_each(|_| read_hot());
    cache.resize(Bytes(32 * MIB)).expect("nothing is pinned");
    check(resident_bytes(), before, 32 * MIB);
    let Some(most) = look(NAME, read_hot) else { return };
    check(most, before, 32 * MIB);
    // Memory returns when requested.
    cache.resize(Bytes(128 * MIB)).expect("grown");
    read_all(&file, 100 * MIB);
    let now = resident_bytes();
    assert!(now > before + 80 * MIB, "{} of 128M", Bytes(now - before));
    check(now, before, 128 * MIB);
}

#[test]
fn a_region_and_the_frames_it_stands_for_are_not_both_resident() {
    const NAME: &str = "a_region_and_the_frames_it_stands_for_are_not_both_resident";
    const NR_PAGES: u64 = 192 * MIB / PAGE as u64;
    let _alone = alone();
    let _watchdog = Watchdog::of_a_run(TWO_MINUTES);
    let folder = tempfile::tempdir().expect("a folder");
    let before = resident_bytes();
    let (cache, file) = full(128 * MIB, folder.path());
    let options = RegionOptions::anonymous(Bytes(NR_PAGES * PAGE as u64));
    let Some(region) = region(NAME, &cache, options) else { return };
    read_all(&file, 120 * MIB);
    (0..8).for_each(|_| read_hot(&file));
    (0..NR_PAGES).for_each(|page| store(&region, page as usize, page));
    check(resident_bytes(), before, 128 * MIB);
    let mut random = Random::new(1);
    let use_both = || {
        read_hot(&file);
        (0..1000).for_each(|_| store(&region, random.below(NR_PAGES) as usize, 1));
    };
    let Some(most) = look(NAME, use_both) else { return };
    check(most, before, 128 * MIB);
}
