//! What a run was: a few lines for people, one document for scripts.

use super::served_file::say_reason;
use super::server::Server;
use crate::failure::Failure;
use pagetide::CacheStats;
use pagetide_core::units::Bytes;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The end of a run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    exit_code: u8,
    policy: String,
    memory_bytes: u64,
    resident_bytes_max: u64,
    accesses: u64,
    hits: u64,
    misses: u64,
    hit_ratio: f64,
    refaults: u64,
    evictions: u64,
    device_reads: u64,
    device_read_bytes: u64,
    device_writes: u64,
    device_write_bytes: u64,
    dirty_bytes: u64,
    direct_io: bool,
    processes: u64,
    /// Files that the kernel has instead, by reason.
    kernel_files: BTreeMap<&'static str, u64>,
}

impl Summary {
    /// What `server` has done, for a program that ended with `exit_code`.
    pub(super) fn collect(server: &Server, exit_code: u8) -> Summary {
        let stats: CacheStats = server.cache.stats();
        let kernel_files = server.handed_over().filter(|(_, nr)| *nr > 0);
        Summary {
            exit_code,
            policy: stats.policy.to_string(),
            memory_bytes: stats.memory_bytes,
            resident_bytes_max: stats.resident_bytes_max.max(stats.resident_bytes),
            accesses: stats.accesses,
            hits: stats.hits,
            misses: stats.misses,
            hit_ratio: stats.hit_ratio(),
            refaults: stats.refaults,
            evictions: stats.evictions,
            device_reads: stats.device_reads,
            device_read_bytes: stats.device_read_bytes,
            device_writes: stats.device_writes,
            device_write_bytes: stats.device_write_bytes,
            dirty_bytes: stats.dirty_bytes,
            direct_io: stats.direct_io,
            processes: server.nr_processes(),
            kernel_files: kernel_files.map(|(reason, nr)| (say_reason(reason), nr)).collect(),
        }
    }

    /// Writes the document.
    ///
    /// # Errors
    /// What the system says of the file.
    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|error| Failure::on("write JSON", &error))?;
        text.push('\n');
        std::fs::write(path, text).map_err(|error| Failure::on_path("write", path, &error))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "pagetide: {} accesses, hit ratio {:.3}, {} refaults, {} evictions ({})",
            self.accesses, self.hit_ratio, self.refaults, self.evictions, self.policy
        )?;
        write!(
            f,
            "pagetide: read {}, wrote {}; resident at most {} of {}",
            Bytes(self.device_read_bytes),
            Bytes(self.device_write_bytes),
            Bytes(self.resident_bytes_max),
            Bytes(self.memory_bytes)
        )?;
        let left: u64 = self.kernel_files.values().sum();
        if left > 0 {
            let reasons: Vec<String> =
                self.kernel_files.iter().map(|(reason, nr)| format!("{nr} {reason}")).collect();
            write!(f, "\npagetide: {left} files were the kernel's: {}", reasons.join(", "))?;
        }
        Ok(())
    }
}
