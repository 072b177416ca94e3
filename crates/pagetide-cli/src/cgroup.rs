//! A private memory cgroup that limits the kernel's page cache.
//!
//! Problem: memory cgroups come in two versions, are mounted anywhere and may be read-only.
//!
//! ```text
//!   /proc/self/mountinfo  -> mount point and root of the memory hierarchy
//!   /proc/self/cgroup     -> this process's group in it
//!        v1: mount/ours/pagetide-PID-N        memory.limit_in_bytes
//!        v2: mount/ancestor/pagetide-PID-N    memory.max   (nearest ancestor that lends `memory`)
//! ```
//!
//! Data: one folder, removed on drop. A process joins by writing its id. Memory touched before
//! stays charged to the old group, so a child joins late.
//!
//! Ignored: swap limits (clean file pages never swap) and ancestors' limits.
//!
//! Sources: Linux `cgroup-v1/memory.rst`, `cgroup-v2.rst`.

use pagetide_core::units::Bytes;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The longest wait for a dying member.
const REMOVE_PATIENCE: Duration = Duration::from_secs(3);
static SERIAL: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Version {
    /// One hierarchy per controller.
    V1,
    /// The unified hierarchy.
    V2,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct GroupHandle {
    version: Version,
    path: PathBuf,
}

/// A private group, removed on drop.
#[derive(Debug)]
pub(crate) struct MemoryGroup(GroupHandle);

impl MemoryGroup {
    /// Makes a group, or explains the reason in a sentence.
    pub(crate) fn with_limit(limit: Bytes) -> Result<MemoryGroup, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| {
            format!("no memory cgroup: cannot read /proc/self/mountinfo: {error}")
        })?;
        let membership = fs::read_to_string("/proc/self/cgroup")
            .map_err(|error| format!("no memory cgroup: cannot read /proc/self/cgroup: {error}"))?;
        let places = candidates(&mounts, &membership);
        let mut first_refusal = None;
        for (version, parent) in places {
            match make_under(version, &parent, limit) {
                Ok(group) => return Ok(group),
                Err(error) => {
                    first_refusal.get_or_insert(format!("under {}: {error}", parent.display()));
                }
            }
        }
        Err(match first_refusal {
            Some(refusal) => format!("no memory cgroup {refusal}; root may make one"),
            None => "no memory cgroup: no memory hierarchy is mounted".to_owned(),
        })
    }

    pub(crate) fn handle(&self) -> &GroupHandle {
        &self.0
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let started = Instant::now();
        // A killed member leaves the group shortly after its parent has reaped it.
        loop {
            // Checked first, so that one try follows the deadline.
            let is_last = started.elapsed() > REMOVE_PATIENCE;
            match fs::remove_dir(&self.0.path) {
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return,
                Err(_) => {}
            }
            if is_last {
                crate::terminal::note(&format!(
                    "could not remove the memory cgroup {}; remove it with rmdir",
                    self.0.path.display()
                ));
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// Fails if the kernel cannot shrink the group to the limit.
pub(crate) fn limit_own_group(limit: Bytes) -> io::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let membership = fs::read_to_string("/proc/self/cgroup")?;
    let places = candidates(&mounts, &membership).into_iter();
    let mut files = places.map(|(version, path)| path.join(limit_file(version)));
    let file = files.find(|file| file.exists()).ok_or(io::ErrorKind::NotFound)?;
    fs::write(file, limit.0.to_string())
}

fn limit_file(version: Version) -> &'static str {
    match version {
        Version::V1 => "memory.limit_in_bytes",
        Version::V2 => "memory.max",
    }
}

impl GroupHandle {
    /// Moves all threads of this process.
    pub(crate) fn join(&self) -> io::Result<()> {
        fs::write(self.members(), std::process::id().to_string())
    }

    pub(crate) fn members(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    pub(crate) fn read_usage(&self) -> Option<u64> {
        self.read_number(match self.version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        })
    }

    pub(crate) fn read_usage_max(&self) -> Option<u64> {
        self.read_number(match self.version {
            Version::V1 => "memory.max_usage_in_bytes",
            Version::V2 => "memory.peak",
        })
    }

    pub(crate) fn read_refaults(&self) -> Option<u64> {
        self.read_stat("workingset_refault_file")
    }

    pub(crate) fn evictions_unit(&self) -> &'static str {
        match self.version {
            Version::V1 => "folios (a page or more) that left the cgroup",
            Version::V2 => "pages reclaimed from the cgroup",
        }
    }

    /// Returns pages reclaimed (v2), or folios uncharged for any reason (v1).
    pub(crate) fn read_evictions(&self) -> Option<u64> {
        self.read_stat(match self.version {
            Version::V1 => "pgpgout",
            Version::V2 => "pgsteal",
        })
    }

    fn read_number(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.path.join(file)).ok()?.trim().parse().ok()
    }

    fn read_stat(&self, key: &str) -> Option<u64> {
        let text = fs::read_to_string(self.path.join("memory.stat")).ok()?;
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok())
    }
}

/// Returns possible parent folders, best first.
fn candidates(mounts: &str, membership: &str) -> Vec<(Version, PathBuf)> {
    let mut places = Vec::new();
    for (version, mount, root) in mounts.lines().filter_map(parse_mount) {
        let Some(ours) = parse_membership(membership, version) else { continue };
        let inside = ours.strip_prefix(&root).unwrap_or(&ours).trim_start_matches('/').to_owned();
        let own = if inside.is_empty() { mount.clone() } else { mount.join(inside) };
        match version {
            Version::V1 => places.push((version, own)),
            // v2 lends controllers only to children of groups without processes, so look upwards.
            Version::V2 => {
                let up = own.ancestors().take_while(|place| place.starts_with(&mount));
                places.extend(up.map(|place| (version, place.to_owned())));
            }
        }
    }
    places
}

/// Returns version, mount point and root of a memory hierarchy.
fn parse_mount(line: &str) -> Option<(Version, PathBuf, String)> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, mount) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (kind, options) = (right.next()?, right.nth(1).unwrap_or(""));
    let version = match kind {
        "cgroup" if options.split(',').any(|option| option == "memory") => Version::V1,
        "cgroup2" => Version::V2,
        _ => return None,
    };
    let root = if root == "/" { "" } else { root };
    Some((version, Path::new(&mount.replace("\\040", " ")).to_owned(), root.to_owned()))
}

fn parse_membership(membership: &str, version: Version) -> Option<String> {
    membership.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (hierarchy, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_ours = match version {
            Version::V1 => controllers.split(',').any(|controller| controller == "memory"),
            Version::V2 => hierarchy == "0" && controllers.is_empty(),
        };
        is_ours.then(|| path.to_owned())
    })
}

fn make_under(version: Version, parent: &Path, limit: Bytes) -> Result<MemoryGroup, String> {
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let path = parent.join(format!("pagetide-{}-{serial}", std::process::id()));
    fs::create_dir(&path).map_err(|error| error.to_string())?;
    let group = MemoryGroup(GroupHandle { version, path: path.clone() });
    let file = limit_file(version);
    if !path.join(file).exists() {
        return Err("the memory controller is not lent to children here".to_owned());
    }
    fs::write(path.join(file), limit.0.to_string())
        .map_err(|error| format!("cannot set {file}: {error}"))?;
    // Tests early that a process could join.
    fs::OpenOptions::new()
        .write(true)
        .open(path.join("cgroup.procs"))
        .map_err(|error| format!("cannot join: {error}"))?;
    Ok(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v1_group_goes_under_our_own() {
        let mounts = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let places = candidates(mounts, "4:memory:/a/b\n0::/\n");
        assert_eq!(places[0], (Version::V1, "/sys/fs/cgroup/memory/a/b".into()));
        assert_eq!(places[1], (Version::V2, "/sys/fs/cgroup/unified".into()));
    }

    #[test]
    fn v2_looks_upwards_to_the_mount() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let places: Vec<PathBuf> =
            candidates(mounts, "0::/user.slice/me\n").into_iter().map(|(_, path)| path).collect();
        let expected =
            ["/sys/fs/cgroup/user.slice/me", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"];
        assert_eq!(places, expected.map(PathBuf::from));
    }

    #[test]
    fn bind_mounted_hierarchy_is_stripped_of_its_root() {
        let mounts = "35 31 0:32 /docker/x /sys/fs/cgroup/memory ro - cgroup cgroup ro,memory\n";
        let places = candidates(mounts, "4:memory:/docker/x\n");
        assert_eq!(places, [(Version::V1, "/sys/fs/cgroup/memory".into())]);
    }

    #[test]
    fn group_is_made_and_removed() {
        match MemoryGroup::with_limit(Bytes(16 << 20)) {
            Ok(group) => {
                let path = group.handle().path.clone();
                assert!(path.is_dir());
                assert_eq!(group.handle().read_usage(), Some(0));
                drop(group);
                assert!(!path.exists());
            }
            Err(reason) => eprintln!("SKIPPED: {reason}"),
        }
    }
}
