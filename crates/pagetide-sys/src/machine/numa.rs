//! Memory nodes: their speed and free memory.
//!
//! Problem: slow memory (CXL, persistent memory) is a node, described by small optional files.
//! Idea: read once, and report only known values.
//!
//! ```text
//!   /sys/devices/system/node/
//!     online                        0-1
//!     node1/cpulist                 (empty: memory only)
//!     node1/meminfo                 Node 1 MemFree:  8123456 kB  ...
//!     node1/distance                20 10                        by node, in order of number
//!     node1/access1/initiators/     read_latency (ns), read_bandwidth (MB/s), write_...
//! ```
//!
//! Ignored: differences between processors (the fastest initiator counts), memory hotplug, generic
//! initiators (`access0`, read only without `access1`).
//!
//! Source: Linux documentation, "NUMA Locality" (admin-guide/mm/numaperf), stable ABI of
//! `/sys/devices/system/node`.

use std::fs;
use std::io;
use std::path::Path;

use pagetide_core::units::Bytes;

/// The system's folder of nodes.
pub const NODES: &str = "/sys/devices/system/node";

/// A node's speed for the nearest CPUs, by the firmware.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodePerformance {
    /// Read latency in nanoseconds.
    pub read_latency_ns: u32,
    /// Write latency in nanoseconds.
    pub write_latency_ns: u32,
    /// Read bandwidth in MB/s (10^6 bytes).
    pub read_mb_per_s: u32,
    /// Write bandwidth in MB/s.
    pub write_mb_per_s: u32,
}

/// A memory node of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryNode {
    /// The node's number.
    pub number: u32,
    /// True if CPUs belong to the node. Otherwise the node is memory only.
    pub has_cpus: bool,
    /// The total memory.
    pub total: Bytes,
    /// The memory that is free, or holds droppable file pages.
    pub available: Bytes,
    /// Distances to all nodes by number, 10 to itself. Empty if unknown.
    pub distances: Vec<u32>,
    /// The speed, if the firmware reports it.
    pub performance: Option<NodePerformance>,
}

/// Describes the online nodes, by number. `root` is [`NODES`], or a copy of such a tree.
///
/// # Errors
/// Fails if `root/online` is missing or not a list of numbers: the system has no nodes.
///
/// # Cost
/// About ten small files per node.
pub fn read_nodes(root: impl AsRef<Path>) -> io::Result<Vec<MemoryNode>> {
    let root = root.as_ref();
    let online = fs::read_to_string(root.join("online"))?;
    let numbers = parse_list(&online).ok_or_else(|| {
        let message = format!("{:?} is no list of nodes", online.trim());
        io::Error::new(io::ErrorKind::InvalidData, message)
    })?;
    Ok(numbers.into_iter().map(|number| read_node(root, number)).collect())
}

fn read_node(root: &Path, number: u32) -> MemoryNode {
    let folder = root.join(format!("node{number}"));
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let meminfo = read("meminfo");
    let kib = |field| parse_meminfo(&meminfo, field).unwrap_or(0);
    let available = kib("MemFree") + kib("Active(file)") + kib("Inactive(file)");
    let distances = read("distance").split_whitespace().map_while(|one| one.parse().ok()).collect();
    MemoryNode {
        number,
        has_cpus: parse_list(&read("cpulist")).is_some_and(|cpus| !cpus.is_empty()),
        total: Bytes(kib("MemTotal") << 10),
        available: Bytes(available << 10),
        distances,
        performance: ["access1", "access0"]
            .iter()
            .find_map(|class| read_performance(&folder.join(class).join("initiators"))),
    }
}

fn read_performance(folder: &Path) -> Option<NodePerformance> {
    let read = |name: &str| -> Option<u32> {
        let number = fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()?;
        (number > 0).then_some(number)
    };
    Some(NodePerformance {
        read_latency_ns: read("read_latency")?,
        write_latency_ns: read("write_latency")?,
        read_mb_per_s: read("read_bandwidth")?,
        write_mb_per_s: read("write_bandwidth")?,
    })
}

/// Returns the KiB of `field` in lines like `Node 0 MemFree:   123 kB`.
fn parse_meminfo(text: &str, field: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let value = (name.split_whitespace().last()? == field).then_some(value)?;
        value.trim().strip_suffix("kB")?.trim().parse().ok()
    })
}

/// Parses a list like `0-3,8`, which may be empty.
fn parse_list(list: &str) -> Option<Vec<u32>> {
    const NUMBERS_MAX: u32 = 1 << 16;
    let mut numbers = Vec::new();
    for range in list.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last - first >= NUMBERS_MAX {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn machine_with_cxl() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path();
        write(root, "online", "0,2\n");
        write(root, "node0/cpulist", "0-15\n");
        write(root, "node0/distance", "10 20\n");
        let lines = [("MemTotal", 1000), ("MemFree", 300), ("Active(file)", 5)];
        let lines = lines.map(|(name, kib)| format!("Node 0 {name}:     {kib} kB\n"));
        write(root, "node0/meminfo", &(lines.concat() + "Node 0 Inactive(file):  20 kB\n"));
        write(root, "node2/cpulist", "\n");
        write(root, "node2/distance", "20 10\n");
        write(root, "node2/meminfo", "Node 2 MemTotal: 8000 kB\nNode 2 MemFree: 7000 kB\n");
        for (class, latency) in [("access0", 600), ("access1", 400)] {
            let file = |name| format!("node2/{class}/initiators/{name}");
            write(root, &file("read_latency"), &format!("{latency}\n"));
            write(root, &file("write_latency"), "450\n");
            write(root, &file("read_bandwidth"), "20000\n");
            write(root, &file("write_bandwidth"), "15000\n");
        }
        folder
    }

    #[test]
    fn what_the_tree_says_is_what_a_node_is() {
        let folder = machine_with_cxl();
        let nodes = read_nodes(folder.path()).expect("a tree of nodes");
        let dram = MemoryNode {
            number: 0,
            has_cpus: true,
            total: Bytes(1000 << 10),
            available: Bytes(325 << 10),
            distances: vec![10, 20],
            performance: None,
        };
        let cxl = MemoryNode {
            number: 2,
            has_cpus: false,
            total: Bytes(8000 << 10),
            available: Bytes(7000 << 10),
            distances: vec![20, 10],
            performance: Some(NodePerformance {
                read_latency_ns: 400,
                write_latency_ns: 450,
                read_mb_per_s: 20_000,
                write_mb_per_s: 15_000,
            }),
        };
        assert_eq!(nodes, [dram, cxl]);
    }

    #[test]
    fn files_that_are_missing_or_say_zero_say_nothing() {
        let folder = machine_with_cxl();
        let root = folder.path();
        write(root, "node2/access1/initiators/read_bandwidth", "0\n");
        fs::remove_file(root.join("node2/meminfo")).expect("removed");
        fs::remove_file(root.join("node2/distance")).expect("removed");
        let node = &read_nodes(root).expect("a tree of nodes")[1];
        // `access0` instead of `access1`.
        assert_eq!(node.performance.map(|seen| seen.read_latency_ns), Some(600));
        assert_eq!((node.available, node.distances.len()), (Bytes(0), 0));
    }

    #[test]
    fn a_tree_that_is_none_is_an_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert!(read_nodes(folder.path()).is_err());
        for list in ["0-", "x", "3-1", "0-4000000000"] {
            write(folder.path(), "online", list);
            let error = read_nodes(folder.path()).expect_err("no list");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{list}");
        }
    }

    #[test]
    fn this_machine_has_a_node_with_memory() {
        match read_nodes(NODES) {
            Ok(nodes) => assert!(nodes.iter().any(|node| node.total.0 > 0), "{nodes:?}"),
            Err(error) => eprintln!("SKIPPED: this_machine_has_a_node_with_memory: {error}"),
        }
    }
}
