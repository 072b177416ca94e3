//! Helpers of the integration tests.
#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod failing_disk;
pub(crate) mod kernel_memory;
pub(crate) mod pages;
pub(crate) mod power;
pub(crate) mod regions;
pub(crate) mod small_fs;
pub(crate) mod store;
pub(crate) mod tiers;
pub(crate) mod watchdog;

use pagetide::{Bytes, PageCache, PolicyName};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const PAGE: usize = 4096;

pub(crate) fn cache(frames: u64, policy: PolicyName) -> PageCache {
    PageCache::builder().memory(Bytes::from_pages(frames)).policy(policy).build().unwrap()
}

pub(crate) fn pattern(offset: u64) -> u8 {
    let page = offset / PAGE as u64;
    (page.wrapping_mul(31).wrapping_add(offset)) as u8
}

pub(crate) fn pattern_at(offset: u64, len: usize) -> Vec<u8> {
    (offset..offset + len as u64).map(pattern).collect()
}

/// Writes a patterned file of `len` bytes into `dir`. Waits until a later change must get another
/// time, so that opens can trust the file.
pub(crate) fn patterned_file(dir: &Path, name: &str, len: usize) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, pattern_at(0, len)).unwrap();
    wait_until_settled(&path);
    path
}

pub(crate) fn wait_until_settled(path: &Path) {
    const SLACK_NS: i128 = 20_000_000;
    let metadata = std::fs::metadata(path).unwrap();
    let changed_ns =
        i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
    let now_ns = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i128;
    while now_ns() <= changed_ns + SLACK_NS {
        std::thread::yield_now();
    }
}

/// Reports a skipped test. The check counts these lines.
pub(crate) fn skip(test: &str, why: &str) {
    let line = format!("SKIPPED: {test}: {why}\n");
    eprint!("{line}");
    if let Ok(path) = std::env::var("PAGETIDE_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        log.write_all(line.as_bytes()).unwrap();
    }
}

/// Pins this thread to its CPU, to use a single per-CPU list and access log. Reports a skip if that
/// is not allowed.
pub(crate) fn pin_thread(test: &str) -> bool {
    use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    let pinned = sched_setaffinity(None, &here);
    if let Err(error) = pinned {
        skip(test, &format!("the thread cannot be kept on one CPU: {error}"));
    }
    pinned.is_ok()
}
