//! The measured subjects: the kernel's page cache, and Pagetide's policies.
//!
//! Each subject implements a trait, in a child process. Clients check residence before a read, for
//! all subjects alike.
//!
//! ```text
//!   workload --> MeasuredFile: read_at write_at sync_data resident_pages
//!                    |                         |
//!                  linux: pread, cachestat   pagetide: File of a PageCache
//! ```
//!
//! Ignored: asynchronous callers.

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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SubjectName {
    Linux,
    Pagetide(PolicyName, MemoryShape),
}

pub(crate) const TIERED_NAMES: &str = "mglru@fast-only,mglru,mglru@all-fast";
/// Subjects in table order.
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpenMode {
    Read,
    ReadWrite,
}

/// Totals since the subject was made, `None` if not counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counters {
    pub(crate) device_read_bytes: u64,
    pub(crate) device_write_bytes: u64,
    /// Read requests.
    pub(crate) device_reads: Option<u64>,
    /// Write requests.
    pub(crate) device_writes: Option<u64>,
    pub(crate) refaults: Option<u64>,
    /// Evicted pages.
    pub(crate) evictions: Option<u64>,
    pub(crate) reclaim_cpu_ns: Option<u64>,
    /// Peak of resident bytes.
    pub(crate) resident_bytes_max: Option<u64>,
}

pub(crate) trait MeasuredCache: Send + Sync {
    fn open(&self, path: &Path, access: OpenMode) -> io::Result<Box<dyn MeasuredFile>>;
    /// Reads the counter without disturbing the run.
    fn read_device_read_bytes(&self) -> u64;
    /// Samples the resident size if the subject has no peak counter.
    fn sample(&self) {}
    /// Reads all totals. Call only outside runs: the kernel flushes its statistics.
    fn read_counters(&self) -> Counters;
    /// Adds facts about the subject to a row.
    fn describe(&self, detail: &mut Map<String, Value>);
}

pub(crate) trait MeasuredFile: Send + Sync {
    /// Reads at `offset`, short only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn sync_data(&self) -> io::Result<()>;
    /// Returns pages, `None` if unknown.
    fn resident_pages(&self, offset: u64, len: u64) -> Option<u64>;
}

/// Makes a subject. Pagetide uses `tiers` and the job's settings. The kernel's counters use the
/// job's cgroup.
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
