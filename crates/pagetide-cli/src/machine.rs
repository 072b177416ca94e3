//! The machine's disk and memory, and refusals before a run would exhaust them.
//!
//! ```text
//!   statvfs(dir)    -> bytes writable by an ordinary user        vs  bytes the run writes
//!   /proc/meminfo   -> MemAvailable, or a group's remaining room  vs  bytes the run holds
//! ```
//!
//! Ignored: quotas, and other programs that take the room later.

use crate::failure::Failure;
use pagetide::Estimate;
use pagetide_core::units::Bytes;
pub(crate) use pagetide_sweep::read_memory_available;
use std::fs;
use std::path::{Path, PathBuf};

const DISK_SPARE: Bytes = Bytes(64 << 20);
const MEMORY_SPARE: Bytes = Bytes(128 << 20);

pub(crate) fn describe() -> String {
    let first = |path: &str, key: &str| -> String {
        let text = fs::read_to_string(path).unwrap_or_default();
        let value = text.lines().find_map(|line| line.strip_prefix(key));
        value.unwrap_or_default().trim_start_matches([':', ' ', '\t']).trim().to_owned()
    };
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let total: u64 =
        first("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
    let (model, kernel) =
        (first("/proc/cpuinfo", "model name"), first("/proc/sys/kernel/osrelease", ""));
    format!("Linux {kernel}, {cpus} CPUs ({model}), {}", rounded(total << 10))
}

/// Formats one decimal (`Bytes` prints exactly).
pub(crate) fn rounded(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    for (shift, unit) in units {
        if bytes >= 1 << shift {
            let tenths = (u128::from(bytes) * 10) >> shift;
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
    }
    format!("{bytes} bytes")
}

/// Formats no digits below `error`.
pub(crate) fn rounded_estimate(bytes: u64, error: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >= 1 << shift) {
        Some((shift, unit)) if error > 0 => {
            let scaled = |bytes: u64| bytes as f64 / f64::from(shift).exp2();
            let estimate = Estimate { value: scaled(bytes), error: scaled(error) };
            format!("{estimate:.1} {unit}")
        }
        _ => rounded(bytes),
    }
}

/// Returns the bytes available to this user.
pub(crate) fn read_disk_free(dir: &Path) -> Result<Bytes, Failure> {
    let metadata =
        fs::metadata(dir).map_err(|error| Failure::on_path("use the folder", dir, &error))?;
    if !metadata.is_dir() {
        return Err(Failure::Refused(format!("{} is not a folder", dir.display())));
    }
    let answer = rustix::fs::statvfs(dir)
        .map_err(|errno| Failure::on_path("ask for the free space of", dir, &errno.into()))?;
    Ok(Bytes(answer.f_bavail.saturating_mul(answer.f_frsize)))
}

pub(crate) fn is_in_memory(dir: &Path) -> bool {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    rustix::fs::statfs(dir).is_ok_and(|answer| answer.f_type as u64 == TMPFS_MAGIC)
}

/// Checks for `needed` bytes and a reserve. The error has both numbers.
pub(crate) fn check_disk(dir: &Path, needed: Bytes) -> Result<(), Failure> {
    let free = read_disk_free(dir)?;
    let wanted = needed.0.saturating_add(DISK_SPARE.0);
    if free.0 >= wanted {
        return Ok(());
    }
    Err(Failure::Refused(format!(
        "not enough disk: this needs {} and {} has {} free; use a smaller --memory, or --dir on a \
         larger disk",
        rounded(wanted),
        dir.display(),
        rounded(free.0),
    )))
}

pub(crate) fn own_executable() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::on("find my own executable", &error))
}

/// Checks for `needed` bytes and a reserve. The error has both numbers.
pub(crate) fn check_memory(needed: Bytes) -> Result<(), Failure> {
    let Some(available) = read_memory_available() else { return Ok(()) };
    let wanted = needed.0.saturating_add(MEMORY_SPARE.0);
    if available.0 >= wanted {
        return Ok(());
    }
    Err(Failure::Refused(format!(
        "not enough memory: this needs {} and the machine has {} available; use a smaller --memory",
        rounded(wanted),
        rounded(available.0),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_for_sentences() {
        assert_eq!(rounded(100), "100 bytes");
        assert_eq!(rounded(1536), "1.5 KiB");
        assert_eq!(rounded(u64::MAX), "16777215.9 TiB");
    }

    #[test]
    fn too_much_is_refused_with_both_numbers() {
        let disk = check_disk(Path::new("/"), Bytes(u64::MAX)).expect_err("no disk is that large");
        assert!(disk.to_string().contains("TiB and / has"), "{disk}");
        let memory = check_memory(Bytes(1 << 60)).expect_err("no machine has that much");
        assert!(memory.to_string().contains("1048576.0 TiB"), "{memory}");
    }

    #[test]
    fn missing_folder_is_named() {
        let failure = read_disk_free(Path::new("/no/such/folder")).expect_err("it is missing");
        assert!(failure.to_string().contains("/no/such/folder"), "{failure}");
    }
}
