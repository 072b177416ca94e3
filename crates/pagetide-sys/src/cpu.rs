//! Where we run, how long we ran, what we take: three questions to the kernel, none of which waits.
//!
//! Decisions take these as arguments (core has no clock); this is where the real world gets them.
//! The C library answers the first from the thread's restartable-sequence area and the clocks from
//! the vDSO, so that they cost nanoseconds, except thread CPU time, which is a system call.

use pagetide_core::ids::CpuId;
use pagetide_core::units::Bytes;
use rustix::time::{ClockId, clock_gettime};

/// The CPU this thread runs on, or ran on a moment ago; CPU 0 where the system does not say.
///
/// # Cost
/// A few nanoseconds.
#[inline]
pub fn current_cpu() -> CpuId {
    // SAFETY: S9 (a call without pointers): sched_getcpu takes nothing and has no pre-condition.
    let cpu = unsafe { libc::sched_getcpu() };
    CpuId(u32::try_from(cpu).unwrap_or(0))
}

/// One more than the greatest CPU number this machine can ever have: per-CPU tables are this long.
///
/// # Cost
/// Reads a file; ask once.
pub fn read_nr_cpus_possible() -> u32 {
    let from_file = std::fs::read_to_string("/sys/devices/system/cpu/possible");
    let configured = || {
        // SAFETY: S9 (a call without pointers): sysconf has no pre-condition.
        let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        u32::try_from(count).unwrap_or(1).max(1)
    };
    from_file.ok().and_then(|text| parse_last_cpu(&text)).map_or_else(configured, |last| last + 1)
}

/// CPU time this thread has used, in nanoseconds.
///
/// # Cost
/// A system call: some 100 ns.
pub fn read_thread_cpu_time_ns() -> u64 {
    read_clock_ns(ClockId::ThreadCPUTime)
}

/// Time since some fixed point, never going back, in nanoseconds.
///
/// # Cost
/// About 25 ns.
pub fn read_monotonic_ns() -> u64 {
    read_clock_ns(ClockId::Monotonic)
}

/// Memory and swap space of the machine; `None` where `/proc` is not mounted.
///
/// # Cost
/// Reads a file: some microseconds.
pub fn read_total_memory() -> Option<Bytes> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let read_kib = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    Some(Bytes((read_kib("MemTotal:")? + read_kib("SwapTotal:").unwrap_or(0)) << 10))
}

/// Memory the kernel holds for this process now; `None` where `/proc` is not mounted.
///
/// # Cost
/// Reads a file: some microseconds.
pub fn read_self_resident_bytes() -> Option<Bytes> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Bytes(pages * rustix::param::page_size() as u64))
}

fn read_clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The greatest number in a list like `0-3,8-11`, which ends with it.
fn parse_last_cpu(list: &str) -> Option<u32> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn current_cpu_is_a_possible_one() {
        assert!(current_cpu().0 < read_nr_cpus_possible());
    }

    #[test]
    fn possible_cpus_are_counted_from_the_last_one() {
        for (list, last) in
            [("0\n", Some(0)), ("0-3\n", Some(3)), ("0-3,8-11", Some(11)), ("", None)]
        {
            assert_eq!(parse_last_cpu(list), last);
        }
    }

    #[test]
    fn clocks_advance_with_work() {
        let (cpu, wall) = (read_thread_cpu_time_ns(), read_monotonic_ns());
        let mut sum = 0_u64;
        while read_thread_cpu_time_ns() < cpu + 100_000 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0);
        // Within a factor: the two clocks tick differently, and CPU time may be read a tick late.
        assert!(read_monotonic_ns() >= wall + 90_000);
    }

    #[test]
    fn resident_bytes_follow_the_memory_in_use() {
        let before = read_self_resident_bytes().expect("/proc is mounted");
        let memory = std::hint::black_box(vec![1_u8; 64 << 20]);
        let with = read_self_resident_bytes().expect("/proc is mounted");
        // Other tests of this process come and go meanwhile: half is enough to tell.
        assert!(with.0 > before.0 + (memory.len() / 2) as u64, "{before} {with}");
    }
}

/// Starts bringing the line that `value` begins in into the processor's cache. Costs a few cycles,
/// and changes nothing but time.
#[inline]
pub fn fetch<T>(value: &T) {
    fetch_line(std::ptr::from_ref(value).cast());
}

/// As [`fetch`], for a value that will be written: the line is fetched for this processor alone, so
/// that the write need not ask for it again.
#[inline]
pub fn fetch_to_write<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: S12 (a prefetch is only a hint; processors without it take it for a no-op).
        unsafe {
            std::arch::asm!(
                "prefetchw [{line}]",
                line = in(reg) std::ptr::from_ref(value),
                options(nostack, preserves_flags, readonly),
            );
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = value;
}

/// As [`fetch`], by address; any address will do.
#[inline]
pub(crate) fn fetch_line(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: S12 (a prefetch is only a hint).
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}
