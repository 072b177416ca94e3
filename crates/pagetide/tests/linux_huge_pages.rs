//! Blocks of 2 MiB are huge pages, as counted by the kernel in `/proc/self/smaps`.
//!
//! A separate binary, so that no other arena is counted. Skipped without free huge pages.

mod common;

use pagetide::{Bytes, FrameAllocator, Order};
use std::fs::read_to_string;

const HUGE: u64 = 2 << 20;
const MEMORY: u64 = 8 * HUGE;

fn read_huge_bytes(address: usize) -> u64 {
    let smaps = read_to_string("/proc/self/smaps").expect("/proc is mounted");
    let holds = |line: &&str| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        range.is_some_and(|(start, end)| {
            let parsed = [start, end].map(|end| usize::from_str_radix(end, 16));
            matches!(parsed, [Ok(start), Ok(end)] if (start..end).contains(&address))
        })
    };
    let mut lines = smaps.lines().skip_while(|line| !holds(line));
    let line = lines.find_map(|line| line.strip_prefix("AnonHugePages:")).expect("a mapping");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kibibytes");
    kib << 10
}

/// Returns why this system provides no huge pages on request.
fn reason_to_skip() -> Option<&'static str> {
    const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    match read_to_string(ENABLED) {
        Err(_) => return Some("the kernel has no transparent huge pages"),
        Ok(modes) if modes.contains("[never]") => return Some("huge pages are turned off"),
        Ok(_) => {}
    }
    let status = read_to_string("/proc/self/status").expect("/proc is mounted");
    status.contains("THP_enabled:\t0").then_some("huge pages are turned off for this process")
}

/// Returns the number of failed huge page allocations so far.
fn read_fallbacks() -> Option<u64> {
    let vmstat = read_to_string("/proc/vmstat").ok()?;
    let line = vmstat.lines().find_map(|line| line.strip_prefix("thp_fault_fallback "))?;
    line.parse().ok()
}

fn touched(huge_pages: bool) -> FrameAllocator {
    let builder = FrameAllocator::builder().memory(Bytes(MEMORY)).pretouch(true);
    builder.huge_pages(huge_pages).build().expect("16 MiB")
}

#[test]
fn blocks_of_2_mib_are_huge_pages_when_asked_for() {
    const NAME: &str = "blocks_of_2_mib_are_huge_pages_when_asked_for";
    if let Some(why) = reason_to_skip() {
        return common::skip(NAME, why);
    }
    let before = read_fallbacks();
    let allocator = touched(true);
    let blocks: Vec<_> = std::iter::from_fn(|| allocator.alloc(Order(9))).collect();
    assert_eq!(blocks.len() as u64, MEMORY / HUGE);
    assert!(blocks.iter().all(|block| (block.as_ptr() as u64).is_multiple_of(HUGE)));
    let address = blocks[0].as_ptr() as usize;
    let huge_bytes = read_huge_bytes(address);
    if huge_bytes < MEMORY && read_fallbacks() > before {
        return common::skip(NAME, "the system has too few free huge pages");
    }
    assert_eq!(huge_bytes, MEMORY, "each block is a huge page");

    // Splits, joins and frees make no system calls.
    let mut parts = blocks.into_iter().flat_map(|block| block.split(Order(8)));
    let (one, two) = (parts.next().expect("of 16"), parts.next().expect("of 16"));
    drop(parts);
    let whole = one.join(two).expect("the halves of the first");
    assert_eq!((whole.order(), read_huge_bytes(address)), (Order(9), MEMORY));
}

#[test]
fn memory_comes_in_base_pages_when_huge_ones_are_not_asked_for() {
    let allocator = touched(false);
    let block = allocator.alloc(Order(9)).expect("16 MiB are free");
    assert_eq!(read_huge_bytes(block.as_ptr() as usize), 0);
}
