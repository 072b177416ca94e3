//! The memory available for more work.

use pagetide_core::units::Bytes;
use std::fs;

/// Returns the bytes that the kernel can give without swapping, limited by this process's memory
/// group. `None` if unknown.
pub fn read_memory_available() -> Option<Bytes> {
    let of_group = read_group_left().unwrap_or(u64::MAX);
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes((kibibytes << 10).min(of_group)))
}

/// Returns the bytes left below the limits of the group and its ancestors (cgroups version 2).
fn read_group_left() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let number = |folder: &str, file: &str| -> Option<u64> {
        fs::read_to_string(format!("/sys/fs/cgroup/{folder}/{file}")).ok()?.trim().parse().ok()
    };
    let left = |folder: &str| {
        let cached = fs::read_to_string(format!("/sys/fs/cgroup/{folder}/memory.stat")).ok();
        let cached = cached.and_then(|text| {
            text.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok())
        });
        let used = number(folder, "memory.current")?.saturating_sub(cached.unwrap_or(0));
        Some(number(folder, "memory.max")?.saturating_sub(used))
    };
    let mut folder = path;
    let mut least = left(folder);
    while let Some((above, _)) = folder.rsplit_once('/') {
        folder = above;
        least = [least, left(folder)].into_iter().flatten().min();
    }
    least
}
