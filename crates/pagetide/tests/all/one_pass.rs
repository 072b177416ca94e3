//! A file read once, front to back: each page is read from the device about once. Memory is small,
//! so that windows are as large a part of it as possible.
//!
//! Excludes policies that follow their papers and do not know readahead: new pages wait on a queue
//! of a hundredth (LIRS, LIRS2, W-TinyLFU) to a tenth (S3-FIFO, Clock2Q+) of memory, which may be
//! shorter than a window. 2Q's, of a quarter, is long enough.

use pagetide::{Bytes, OpenOptions, PageCache, PolicyName};
use std::path::Path;

const PAGE: u64 = 4096;
const FILE_TIMES: u64 = 4;
/// The last has windows of the default size.
const MEMORIES: [u64; 3] = [512, 2048, 4096];
const SHORT_QUEUES: [PolicyName; 5] = [
    PolicyName::S3Fifo,
    PolicyName::Clock2QPlus,
    PolicyName::WTinyLfu,
    PolicyName::Lirs,
    PolicyName::Lirs2,
];

fn device_bytes_per_byte(path: &Path, memory: u64, policy: PolicyName, len: usize) -> f64 {
    let builder = PageCache::builder().memory(Bytes::from_pages(memory)).policy(policy);
    let cache = builder.build().expect("a cache");
    let file = cache.open(path, OpenOptions::new().read(true)).expect("a file");
    let (mut bytes, mut at) = (vec![0; len], 0);
    loop {
        let nr_read = file.read_at(&mut bytes, at).expect("bytes");
        at += nr_read as u64;
        if nr_read == 0 {
            break;
        }
    }
    assert_eq!(at, FILE_TIMES * memory * PAGE);
    cache.stats().device_read_bytes as f64 / at as f64
}

/// Returns the smallest ratio, or the first that is at most `enough`.
fn least_of(ratios: impl Iterator<Item = f64>, enough: f64) -> f64 {
    let mut least = f64::INFINITY;
    for ratio in ratios {
        least = least.min(ratio);
        if least <= enough {
            break;
        }
    }
    least
}

#[test]
fn a_stream_reads_each_page_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("file");
    let policies = PolicyName::ALL.iter().filter(|policy| !SHORT_QUEUES.contains(policy));
    for memory in MEMORIES {
        let len = FILE_TIMES * memory * PAGE;
        std::fs::write(&path, vec![1; len as usize]).expect("room");
        for &policy in policies.clone() {
            for len in [4 << 10, 32 << 10, 128 << 10] {
                // A delayed worker reads pages that the reader has passed.
                let ratios = (0..3).map(|_| device_bytes_per_byte(&path, memory, policy, len));
                let ratio = least_of(ratios, 1.05);
                assert!(
                    ratio <= 1.05,
                    "{policy}, {memory} frames, {len} bytes at a time: {ratio:.3} of the file read"
                );
            }
        }
    }
}
