//! One CPU's share of the last-level data cache: freed frames are worth keeping only while they are
//! cached.
//!
//! ```text
//!   /sys/devices/system/cpu/cpu0/cache/index3/  level 3  type Unified  size 32768K  shared by 0-7
//! ```
//!
//! **Ignored.** CPUs with different caches: CPU 0 stands for all.

use pagetide_core::units::Bytes;
use std::path::Path;

const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";

/// Returns the size of CPU 0's last-level data cache divided by the number of CPUs that share it.
/// `None` if unknown.
///
/// # Cost
/// Reads some files. Call it once.
pub fn read_cache_slice() -> Option<Bytes> {
    let entries = std::fs::read_dir(CACHES).ok()?;
    let caches = entries.filter_map(|entry| read_cache(&entry.ok()?.path()));
    caches.max_by_key(|cache| cache.level).map(|cache| cache.slice())
}

struct Cache {
    level: u32,
    len: Bytes,
    nr_sharers: u64,
}

impl Cache {
    fn slice(&self) -> Bytes {
        Bytes(self.len.0 / self.nr_sharers.max(1))
    }
}

fn read_cache(folder: &Path) -> Option<Cache> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    parse_cache(&read("level")?, &read("type")?, &read("size")?, &read("shared_cpu_list")?)
}

fn parse_cache(level: &str, kind: &str, size: &str, sharers: &str) -> Option<Cache> {
    let holds_data = matches!(kind.trim(), "Data" | "Unified");
    let level = level.trim().parse().ok()?;
    let len: Bytes = size.trim().parse().ok()?;
    holds_data.then_some(Cache { level, len, nr_sharers: count_cpus(sharers)? })
}

fn count_cpus(list: &str) -> Option<u64> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        (last.checked_sub(first)?).checked_add(1)
    };
    list.trim().split(',').map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_the_size_over_the_sharers() {
        let slice = |kind, size, sharers| {
            parse_cache("3\n", kind, size, sharers).map(|cache| cache.slice())
        };
        assert_eq!(slice("Unified\n", "32768K\n", "0-1\n"), Some(Bytes(16 << 20)));
        assert_eq!(slice("Data\n", "48K\n", "0\n"), Some(Bytes(48 << 10)));
        assert_eq!(slice("Unified\n", "32M\n", "0-3,8-11\n"), Some(Bytes(4 << 20)));
        assert_eq!(slice("Instruction\n", "32K\n", "0\n"), None);
        for (size, sharers) in [("", "0"), ("32K", ""), ("32K", "3-1"), ("32K", "0-x")] {
            assert!(slice("Data", size, sharers).is_none(), "{size:?} {sharers:?}");
        }
    }

    #[test]
    fn this_machine_says() {
        match read_cache_slice() {
            Some(slice) => assert!((4 << 10..1 << 33).contains(&slice.0), "{slice}"),
            None => eprintln!("SKIPPED: this_machine_says: no caches in {CACHES}"),
        }
    }
}
