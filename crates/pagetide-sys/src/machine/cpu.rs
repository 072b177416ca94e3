//! The current CPU, the clocks, and the memory in use, as arguments of decisions: core has no
//! clock.

use pagetide_core::ids::CpuId;
use pagetide_core::units::Bytes;
use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU that this thread runs on or has just left, 0 if unknown. The number chooses a
/// slot, and gives no right to it.
///
/// Read from the restartable-sequence area (glibc 2.35 and later), otherwise from the C library.
///
/// # Cost
/// About a nanosecond, or a few by the C library.
#[inline]
pub fn current_cpu() -> CpuId {
    match rseq::read_cpu() {
        Some(cpu) => CpuId(cpu),
        None => ask_for_cpu(),
    }
}

#[cold]
fn ask_for_cpu() -> CpuId {
    // SAFETY: S9 (a call without pointers): sched_getcpu has no arguments and no pre-condition.
    let cpu = unsafe { libc::sched_getcpu() };
    CpuId(u32::try_from(cpu).unwrap_or(0))
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod rseq {
    use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

    /// A signed 32-bit number, by the kernel's interface.
    const CPU_ID_AT: isize = 4;
    /// The minimum length with the number.
    const LEN_MIN: u32 = 8;
    const NOT_LOOKED_UP: isize = 0;
    /// The area is 32 bytes aligned, so real offsets are even.
    const NONE: isize = 1;

    /// The distance from the thread pointer, equal for all threads.
    static CPU_ID_OFFSET: AtomicIsize = AtomicIsize::new(NOT_LOOKED_UP);

    #[inline]
    pub(super) fn read_cpu() -> Option<u32> {
        let offset = match CPU_ID_OFFSET.load(Relaxed) {
            NOT_LOOKED_UP => look_up(),
            offset => offset,
        };
        if offset == NONE {
            return None;
        }
        let cpu: i32;
        // SAFETY: S14 (the restartable-sequence area): its number lies `offset` from this thread's
        // thread pointer, and is four bytes long. Only the kernel writes it, on this thread's way
        // back to user space, between two instructions.
        unsafe {
            std::arch::asm!(
                "mov {cpu:e}, dword ptr fs:[{offset}]",
                cpu = out(reg) cpu,
                offset = in(reg) offset,
                options(nostack, preserves_flags, readonly),
            );
        }
        // Negative: this thread's registration failed or ended.
        u32::try_from(cpu).ok()
    }

    #[cold]
    fn look_up() -> isize {
        let offset = read_symbols().unwrap_or(NONE);
        CPU_ID_OFFSET.store(offset, Relaxed);
        offset
    }

    fn read_symbols() -> Option<isize> {
        let find = |name: &std::ffi::CStr| {
            // SAFETY: S14 (the restartable-sequence area): a terminated name, looked up among the
            // program's symbols.
            let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            (!symbol.is_null()).then_some(symbol)
        };
        let (offset, len) = (find(c"__rseq_offset")?, find(c"__rseq_size")?);
        // SAFETY: S14: the C library defines it as `const ptrdiff_t`.
        let offset = unsafe { offset.cast::<isize>().read() };
        // SAFETY: S14: the C library defines it as `const unsigned int`.
        let len = unsafe { len.cast::<u32>().read() };
        (len >= LEN_MIN && offset != 0).then_some(offset + CPU_ID_AT)
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod rseq {
    pub(super) fn read_cpu() -> Option<u32> {
        None
    }
}

/// Returns one more than the largest possible CPU number: the length of per-CPU tables.
///
/// # Cost
/// Reads a file. Call it once.
pub fn read_nr_cpus_possible() -> u32 {
    let from_file = std::fs::read_to_string("/sys/devices/system/cpu/possible");
    let configured = || {
        // SAFETY: S9 (a call without pointers): sysconf has no pre-condition.
        let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        u32::try_from(count).unwrap_or(1).max(1)
    };
    from_file.ok().and_then(|text| parse_last_cpu(&text)).map_or_else(configured, |last| last + 1)
}

/// Returns this thread's CPU time in nanoseconds.
///
/// # Cost
/// A system call: about 100 ns.
pub fn read_thread_cpu_time_ns() -> u64 {
    read_clock_ns(ClockId::ThreadCPUTime)
}

/// Returns the CPU time of all threads of this process in nanoseconds.
///
/// # Cost
/// A system call: about 100 ns, and a visit of each thread.
pub fn read_process_cpu_time_ns() -> u64 {
    read_clock_ns(ClockId::ProcessCPUTime)
}

/// Returns monotonic time in nanoseconds.
///
/// # Cost
/// About 25 ns.
pub fn read_monotonic_ns() -> u64 {
    read_clock_ns(ClockId::Monotonic)
}

/// Returns the machine's memory and swap space, `None` without `/proc`.
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

/// Returns this process's anonymous memory, without frames shared with other processes. `None` if
/// `/proc` does not report it.
///
/// # Cost
/// Reads a file: some microseconds.
pub fn read_self_anonymous_bytes() -> Option<Bytes> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Bytes(kibibytes << 10))
}

fn read_clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn parse_last_cpu(list: &str) -> Option<u32> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_cpu_is_a_possible_one() {
        assert!(current_cpu().0 < read_nr_cpus_possible());
    }

    #[test]
    fn both_ways_to_ask_name_the_same_cpu() {
        // The thread may move between the two calls, but not every time.
        assert!((0..1000).any(|_| current_cpu() == ask_for_cpu()));
        let known = rseq::read_cpu();
        if known.is_none() {
            eprintln!("SKIPPED: both_ways_to_ask_name_the_same_cpu: no registered area here");
        }
    }

    #[test]
    fn every_thread_has_an_area_and_follows_its_affinity() {
        let nr_cpus = read_nr_cpus_possible();
        std::thread::spawn(move || {
            for cpu in 0..nr_cpus {
                if !pin_to(cpu) {
                    eprintln!("SKIPPED: every_thread_has_an_area: CPU {cpu} is not ours");
                    continue;
                }
                assert_eq!(current_cpu(), CpuId(cpu));
                assert_eq!(ask_for_cpu(), CpuId(cpu));
            }
        })
        .join()
        .expect("no panic");
    }

    fn pin_to(cpu: u32) -> bool {
        let mut cpus = rustix::thread::CpuSet::new();
        cpus.set(cpu as usize);
        rustix::thread::sched_setaffinity(None, &cpus).is_ok()
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
        // With slack: the clocks tick differently, and CPU time may lag by a tick.
        assert!(read_monotonic_ns() >= wall + 90_000);
    }

    #[test]
    fn anonymous_bytes_follow_the_memory_in_use() {
        let before = read_self_anonymous_bytes().expect("/proc is mounted");
        let memory = std::hint::black_box(vec![1_u8; 64 << 20]);
        let with = read_self_anonymous_bytes().expect("/proc is mounted");
        // Other tests run meanwhile, so half is enough.
        assert!(with.0 > before.0 + (memory.len() / 2) as u64, "{before} {with}");
    }
}
