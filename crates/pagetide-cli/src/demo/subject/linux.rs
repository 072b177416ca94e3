//! The kernel's page cache, by plain pread and pwrite.
//!
//! ```text
//!   hits            cachestat before the read (same sampling as for every subject)
//!   device reads    /proc/self/io read_bytes       (includes readahead, which runs in the reader)
//!   device writes   /proc/self/io write_bytes      (counted when a page is dirtied)
//!   refaults        memory.stat workingset_refault_file
//!   evictions       memory.stat pgpgout (v1), pgsteal (v2)
//!   resident        memory.max_usage_in_bytes (v1), memory.peak (v2): page cache and the rest
//! ```
//!
//! `memory.stat` is read only outside runs: reading flushes per-CPU statistics that reclaim depends
//! on. Ignored: CPU time in reclaim, unknown to the kernel.

use super::{Counters, MeasuredCache, MeasuredFile, OpenMode};
use crate::cgroup::GroupHandle;
use pagetide_sys::kernel_cache::read_kernel_cache;
use serde_json::{Map, Value};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The page cache under this process's cgroup limit.
#[derive(Debug)]
pub(crate) struct LinuxCache {
    group: Option<GroupHandle>,
    usage_max: AtomicU64,
}

impl LinuxCache {
    /// Takes the counters from `group`.
    pub(crate) fn new(group: Option<GroupHandle>) -> LinuxCache {
        LinuxCache { group, usage_max: AtomicU64::new(0) }
    }
}

impl MeasuredCache for LinuxCache {
    fn open(&self, path: &Path, access: OpenMode) -> io::Result<Box<dyn MeasuredFile>> {
        let file = File::options().read(true).write(access == OpenMode::ReadWrite).open(path)?;
        Ok(Box::new(LinuxFile(file)))
    }

    fn read_device_read_bytes(&self) -> u64 {
        read_own_io("read_bytes")
    }

    fn sample(&self) {
        if let Some(usage) = self.group.as_ref().and_then(GroupHandle::read_usage) {
            self.usage_max.fetch_max(usage, Ordering::Relaxed);
        }
    }

    fn read_counters(&self) -> Counters {
        let group = self.group.as_ref();
        let sampled = Some(self.usage_max.load(Ordering::Relaxed)).filter(|&usage| usage > 0);
        Counters {
            device_read_bytes: read_own_io("read_bytes"),
            device_write_bytes: read_own_io("write_bytes"),
            device_reads: None,
            device_writes: None,
            refaults: group.and_then(GroupHandle::read_refaults),
            evictions: group.and_then(GroupHandle::read_evictions),
            reclaim_cpu_ns: None,
            resident_bytes_max: group.and_then(GroupHandle::read_usage_max).or(sampled),
        }
    }

    fn describe(&self, detail: &mut Map<String, Value>) {
        detail.insert("reclaim_cpu".into(), "not accounted by the kernel".into());
        if let Some(group) = &self.group {
            detail.insert("evictions_are".into(), group.evictions_unit().into());
        }
    }
}

#[derive(Debug)]
struct LinuxFile(File);

impl MeasuredFile for LinuxFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn resident_pages(&self, offset: u64, len: u64) -> Option<u64> {
        read_kernel_cache(&self.0, offset, len).ok().map(|answer| answer.nr_cached)
    }
}

/// Returns 0 for a missing key.
fn read_own_io(key: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let value =
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": ")?.parse().ok());
    value.unwrap_or(0)
}
