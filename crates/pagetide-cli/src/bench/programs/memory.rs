//! Memory of a run's processes: anonymous and shared memory, shared pages pro rata (`Pss_Anon` and
//! `Pss_Shmem` of proc(5) smaps_rollup), without code.

use std::fs;

/// Sums the memory of `process` and its descendants.
///
/// # Cost
/// A walk over each page table: some 10 ns per mapped page.
pub(in crate::bench) fn read_memory_below(process: u32) -> u64 {
    let (mut unseen, mut sum) = (vec![process], 0);
    while let Some(one) = unseen.pop() {
        // The process may have ended.
        let text = fs::read_to_string(format!("/proc/{one}/smaps_rollup")).unwrap_or_default();
        sum += read_kib(&text, "Pss_Anon:") + read_kib(&text, "Pss_Shmem:");
        for thread in fs::read_dir(format!("/proc/{one}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            unseen.extend(children.split_whitespace().filter_map(|one| one.parse::<u32>().ok()));
        }
    }
    sum << 10
}

fn read_kib(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_touches_is_counted() {
        let own = std::process::id();
        let before = read_memory_below(own);
        let touched = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = read_memory_below(own);
        // Concurrent tests allocate in this process.
        assert!(after > before / 2 + (32 << 20), "{before} bytes, then {after}");
        assert_eq!(touched[1 << 20], 1);
        assert_eq!(read_kib("Pss:  7 kB\nPss_Anon:    12 kB\n", "Pss_Anon:"), 12);
    }
}
