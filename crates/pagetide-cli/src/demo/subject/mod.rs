//! What is measured: the kernel's page cache, or one of Pagetide's policies.
//!
//! Problem: a fair comparison runs the same loop over both and counts hits the same way.
//! Idea: a small seam of what a workload needs; each subject sits behind it, in a process of its
//! own, and a hit is counted for both by sampling, before a read, whether the pages are resident.
//!
//! ```text
//!   workload --> MeasuredFile: read_at write_at sync_data resident_pages
//!                    |                         |
//!                  linux: pread, cachestat   pagetide: File of a PageCache
//! ```
//!
//! Ignored: asynchronous callers; both subjects are driven by blocking threads.

mod linux;
mod pagetide;

use super::job::Job;
use super::tiers::MemoryShape;
use ::pagetide::Tier;
use pagetide_core::units::Bytes;
use serde_json::{Map, Value};
use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

pub(crate) use linux::LinuxCache;
pub(crate) use pagetide::PagetideCache;
use pagetide_core::lru::PolicyName;

/// A subject's name on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SubjectName {
    /// The kernel's page cache in a memory cgroup.
    Linux,
    Pagetide(PolicyName, MemoryShape),
}

/// The subjects of a demo with tiers.
pub(crate) const TIERED_NAMES: &str = "mglru@fast-only,mglru,mglru@all-fast";
/// The subjects of a demo, in the order of its table, as typed.
pub(crate) const DEFAULT_NAMES: &str = "linux,lru,active-inactive,mglru,s3fifo,w-tinylfu,pagetide";

impl fmt::Display for SubjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubjectName::Linux => f.write_str("linux"),
            SubjectName::Pagetide(policy, shape) => write!(f, "{policy}{shape}"),
        }
    }
}

impl FromStr for SubjectName {
    type Err = String;

    fn from_str(text: &str) -> Result<SubjectName, String> {
        if text == "linux" {
            return Ok(SubjectName::Linux);
        }
        let (policy, shape) = MemoryShape::split(text);
        policy.parse().map(|policy| SubjectName::Pagetide(policy, shape)).map_err(|_| {
            let policies: Vec<&str> =
                PolicyName::ALL.iter().map(|policy| policy.as_str()).collect();
            format!("no subject named {text:?}; there are linux, {}", policies.join(", "))
        })
    }
}

/// Whether a file will be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpenMode {
    /// Read only.
    Read,
    /// Read and written.
    ReadWrite,
}

/// Totals since the subject was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counters {
    pub(crate) device_read_bytes: u64,
    /// Bytes written to the device.
    pub(crate) device_write_bytes: u64,
    /// Requests of the device to read, where the subject counts them.
    pub(crate) device_reads: Option<u64>,
    /// Requests of the device to write, likewise.
    pub(crate) device_writes: Option<u64>,
    /// Refaults, where the subject counts them.
    pub(crate) refaults: Option<u64>,
    /// Pages evicted, where the subject counts them.
    pub(crate) evictions: Option<u64>,
    /// CPU time spent in reclaim, where it is counted.
    pub(crate) reclaim_cpu_ns: Option<u64>,
    /// Highest resident size seen.
    pub(crate) resident_bytes_max: Option<u64>,
}

/// A page cache under measurement.
pub(crate) trait MeasuredCache: Send + Sync {
    /// Opens `path` through this cache.
    fn open(&self, path: &Path, access: OpenMode) -> io::Result<Box<dyn MeasuredFile>>;
    /// Bytes read from the device so far; cheap, and disturbs nothing.
    fn read_device_read_bytes(&self) -> u64;
    /// Looks at the resident size, for subjects that only know it at the moment. Cheap.
    fn sample(&self) {}
    /// All totals. May disturb the subject (the kernel folds its statistics when they are read):
    /// called before and after a run, not within.
    fn read_counters(&self) -> Counters;
    /// What a reader of the row should know about this subject.
    fn describe(&self, detail: &mut Map<String, Value>);
}

/// A file open through a [`MeasuredCache`].
pub(crate) trait MeasuredFile: Send + Sync {
    /// Reads at `offset`; short only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at `offset`; never short without an error.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes all writes so far durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Pages of the range that are resident now; `None` where they cannot be counted.
    fn resident_pages(&self, offset: u64, len: u64) -> Option<u64>;
}

/// Makes the subject named `name` with `memory` as its limit; `tiers`, which make it up if there
/// are any, and the job's settings are for ours, its group, the cgroup that will hold
/// this process, for the kernel's counters.
///
/// # Errors
/// Where the cache cannot be built; the kernel's needs nothing.
pub(crate) fn make(
    name: SubjectName,
    memory: Bytes,
    tiers: &[Tier],
    job: &Job,
) -> io::Result<Box<dyn MeasuredCache>> {
    match name {
        SubjectName::Linux => Ok(Box::new(LinuxCache::new(job.group.clone()))),
        SubjectName::Pagetide(policy, _) => {
            Ok(Box::new(PagetideCache::new(policy, memory, tiers, job)?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_print_and_parse_back() {
        for name in DEFAULT_NAMES.split(',').chain(TIERED_NAMES.split(',')) {
            let subject: SubjectName = name.parse().expect("a name of ours");
            assert_eq!(subject.to_string(), name);
        }
    }

    #[test]
    fn unknown_name_is_answered_with_the_known_ones() {
        let sentence = "windows".parse::<SubjectName>().expect_err("no such subject");
        assert!(sentence.contains("linux") && sentence.contains("mglru"), "{sentence}");
    }
}
