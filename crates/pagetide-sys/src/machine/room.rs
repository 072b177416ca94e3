//! The memory that is left to the container of this process, or to the machine.
//!
//! ```text
//!   /proc/self/cgroup, mountinfo --> the memory cgroup and its ancestors, v1 or v2
//!      limit - (usage - inactive file pages)                     the minimum of all counts
//!   /proc/meminfo                    MemTotal, MemAvailable
//!   memory.pressure, /proc/pressure/memory    time that some thread has waited for memory
//! ```
//!
//! Problem: the value is read a hundred times a second. Idea: files stay open, and a group's slow
//! statistics are read only if little memory is left. Ignored: swap.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The open files that report limits and usage.
#[derive(Debug)]
pub struct MemoryRoom {
    groups: Vec<Group>,
    meminfo: Option<File>,
    pressure: Option<File>,
}

/// Memory left, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SpareMemory {
    /// The limit of the tightest group, or the machine's memory.
    pub total: u64,
    /// Bytes that can be allocated before anything must be reclaimed.
    pub spare: u64,
    /// Microseconds that some thread has waited for memory since the start, 0 if not counted.
    pub stalled_us: u64,
}

#[derive(Debug)]
struct Group {
    limits: Vec<File>,
    usage: File,
    stat: Option<File>,
}

struct Names {
    limits: &'static [&'static str],
    usage: &'static str,
    /// In `memory.stat`.
    inactive: &'static str,
}

const V1: Names = Names {
    limits: &["memory.limit_in_bytes"],
    usage: "memory.usage_in_bytes",
    inactive: "total_inactive_file",
};
const V2: Names = Names {
    limits: &["memory.max", "memory.high"],
    usage: "memory.current",
    inactive: "inactive_file",
};

impl MemoryRoom {
    /// Opens the files that this machine has.
    pub fn find() -> MemoryRoom {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (mounts, membership) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
        let folders = group_folders(&mounts, &membership);
        let pressure = folders.iter().map(|(folder, _)| folder.join("memory.pressure"));
        let pressure = pressure.chain([PathBuf::from("/proc/pressure/memory")]);
        MemoryRoom {
            groups: folders
                .iter()
                .filter_map(|(folder, names)| Group::open(folder, names))
                .collect(),
            meminfo: File::open("/proc/meminfo").ok(),
            pressure: pressure.filter_map(|path| File::open(path).ok()).next(),
        }
    }

    /// Reads the memory left now.
    ///
    /// # Cost
    /// Two or three reads of small files per limiting group: about 20 us.
    pub fn read(&self) -> SpareMemory {
        let machine = self.meminfo.as_ref().map(read_again).map(|text| {
            let kib = |key: &str| number_after(&text, key).unwrap_or(0).saturating_mul(1024);
            SpareMemory { total: kib("MemTotal:"), spare: kib("MemAvailable:"), stalled_us: 0 }
        });
        let all = self.groups.iter().filter_map(Group::read).chain(machine);
        let tightest = all.min_by_key(|room| room.spare).unwrap_or_default();
        let pressure = self.pressure.as_ref().map(read_again).unwrap_or_default();
        let stalled_us = pressure.lines().next().and_then(|some| some.rsplit_once("total="));
        let stalled_us = stalled_us.and_then(|(_, total)| total.trim().parse().ok()).unwrap_or(0);
        SpareMemory { stalled_us, ..tightest }
    }
}

impl Group {
    fn open(folder: &Path, names: &Names) -> Option<Group> {
        let open = |name: &str| File::open(folder.join(name)).ok();
        let limits = names.limits.iter().filter_map(|name| open(name)).collect();
        Some(Group { limits, usage: open(names.usage)?, stat: open("memory.stat") })
    }

    /// `None` without a limit.
    fn read(&self) -> Option<SpareMemory> {
        let limit = |file: &File| read_again(file).trim().parse::<u64>().ok();
        // v1 reports "no limit" as many exabytes.
        let limits = self.limits.iter().filter_map(limit).filter(|limit| *limit < 1 << 60);
        let total = limits.min()?;
        let usage: u64 = read_again(&self.usage).trim().parse().ok()?;
        let mut spare = total.saturating_sub(usage);
        if spare < total / 4
            && let Some(stat) = &self.stat
        {
            let text = read_again(stat);
            let inactive =
                [V1.inactive, V2.inactive].iter().find_map(|key| number_after(&text, key));
            spare = (spare + inactive.unwrap_or(0).min(usage)).min(total);
        }
        Some(SpareMemory { total, spare, stalled_us: 0 })
    }
}

/// Innermost first, in each hierarchy with memory.
fn group_folders(mounts: &str, membership: &str) -> Vec<(PathBuf, &'static Names)> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (left, right): (Vec<&str>, Vec<&str>) =
            (left.split(' ').collect(), right.split(' ').collect());
        let (Some(root), Some(point), Some(kind)) = (left.get(3), left.get(4), right.first())
        else {
            continue;
        };
        let has_memory = right.get(2).is_some_and(|all| all.split(',').any(|it| it == "memory"));
        let (names, controller) = match *kind {
            "cgroup2" => (&V2, ""),
            "cgroup" if has_memory => (&V1, "memory"),
            _ => continue,
        };
        let ours = membership.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            controllers.split(',').any(|it| it == controller).then_some(path)
        });
        let Some(ours) = ours else { continue };
        // In containers, only a part of the hierarchy may be mounted.
        let below = Path::new(ours).strip_prefix(root).unwrap_or(Path::new(""));
        let below =
            if *root == "/" { ours.trim_start_matches('/') } else { &below.to_string_lossy() };
        let mut folder = Path::new(point).join(below);
        while folder.starts_with(point) {
            found.push((folder.clone(), names));
            if !folder.pop() {
                break;
            }
        }
    }
    found
}

fn read_again(file: &File) -> String {
    let mut buffer = vec![0; 8192];
    let nr = file.read_at(&mut buffer, 0).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..nr]).into_owned()
}

fn number_after(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix([' ', '\t']))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_from_the_innermost_up() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n";
        let membership = "9:cpu:/c\n4:memory:/a/b\n0::/\n";
        let folders: Vec<PathBuf> =
            group_folders(mounts, membership).into_iter().map(|(folder, _)| folder).collect();
        let memory = Path::new("/sys/fs/cgroup/memory");
        let unified = PathBuf::from("/sys/fs/cgroup/unified");
        assert_eq!(folders, [memory.join("a/b"), memory.join("a"), memory.to_owned(), unified]);
    }

    #[test]
    fn in_a_container_its_own_part_is_what_is_mounted() {
        let mounts = "30 25 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let folders = group_folders(mounts, "0::/docker/x/inner\n");
        assert_eq!(folders[0].0, Path::new("/sys/fs/cgroup/inner"));
        assert_eq!(group_folders(mounts, "0::/\n")[0].0, Path::new("/sys/fs/cgroup"));
    }

    #[test]
    fn what_is_left_is_read_as_each_version_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |files: &[(&str, &str)]| {
            files
                .iter()
                .for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
        };
        let read = |names| Group::open(folder.path(), names).and_then(|group| group.read());
        let room = |total, spare| Some(SpareMemory { total, spare, stalled_us: 0 });
        assert_eq!(read(&V2), None, "no files");
        write(&[("memory.max", "max\n"), ("memory.high", "max\n"), ("memory.current", "700\n")]);
        assert_eq!(read(&V2), None, "no limit");
        write(&[("memory.max", "1000\n"), ("memory.stat", "anon 1\ninactive_file 50\n")]);
        assert_eq!(read(&V2), room(1000, 300));
        write(&[("memory.high", "800\n")]);
        assert_eq!(read(&V2), room(800, 150), "little is left: files that are not in use count");
        write(&[("memory.limit_in_bytes", "9223372036854771712\n")]);
        write(&[("memory.usage_in_bytes", "900\n"), ("memory.stat", "total_inactive_file 30\n")]);
        assert_eq!(read(&V1), None, "no limit");
        write(&[("memory.limit_in_bytes", "1000\n")]);
        assert_eq!(read(&V1), room(1000, 130));
    }

    #[test]
    fn numbers_are_found_by_the_word_before_them() {
        let text = "inactive_file 4096\ntotal_inactive_file 8192\nMemTotal:   12 kB\n";
        assert_eq!(number_after(text, "inactive_file"), Some(4096));
        assert_eq!(number_after(text, "total_inactive_file"), Some(8192));
        assert_eq!(number_after(text, "MemTotal:"), Some(12));
        assert_eq!(number_after(text, "Mem"), None);
    }

    #[test]
    fn this_machine_has_some_memory_left() {
        let room = MemoryRoom::find().read();
        assert!(room.total > 1 << 20 && room.spare <= room.total, "{room:?}");
    }
}
