//! Replay options: policy, mechanisms, memory, clock and page types.
//!
//! Problem: a result depends on more than policy and size: the clock, statistics that lag,
//! anonymous pages with swap, and a flusher. Idea: one plain value holds all options.
//! [`Setup::new`] fills in defaults.
//!
//! ```text
//!   Setup { policy, switches, tuning, memory,        the decisions
//!           swappiness
//!           clock, costs, statistics                 the times
//!           swap_pages, flush_every }                page types, and cleaning
//! ```

use super::Memory;
use pagetide_core::lru::own::Tuning;
use pagetide_core::lru::{PolicyName, Switches};
use pagetide_core::record::Header;
use pagetide_core::units::Millis;

/// All options of a replay.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The policy.
    pub policy: PolicyName,
    /// Enabled mechanisms of the policy.
    pub switches: Switches,
    /// The constants of the policy called pagetide.
    pub tuning: Tuning,
    /// The memory, including its kind of reclaim.
    pub memory: Memory,
    /// Preference for evicting anonymous pages, 0 to 200.
    pub swappiness: u8,
    /// The time of an access.
    pub clock: ReplayClock,
    /// The source of the reads.
    pub reader: Reader,
    /// Duration of accesses and scans.
    pub costs: ReplayCosts,
    /// Age of the statistics that the policy reads.
    pub statistics: StatisticsFold,
    /// Minimum lifetime of an MGLRU generation. While all are younger, misses get no frame. Zero
    /// disables the limit.
    pub min_ttl: Millis,
    /// Capacity of the swap device in pages, 0 for no swap. Pages of anonymous mappings are
    /// anonymous, accessed through the page table. With `None`, every page is a file page.
    pub swap_pages: Option<u64>,
    /// Interval of the flusher, which also runs when reclaim meets more dirty than clean pages.
    /// With `None`, a written page is clean at once.
    pub flush_every: Option<Millis>,
}

impl Setup {
    /// Returns the default setup: file pages only, live statistics, the trace's clock.
    pub fn new(policy: PolicyName, memory: impl Into<Memory>) -> Setup {
        let memory = memory.into();
        Setup {
            policy,
            switches: Switches::default(),
            tuning: Tuning::default(),
            memory,
            swappiness: memory.swappiness(),
            clock: ReplayClock::Trace,
            reader: Reader::Recorded,
            costs: ReplayCosts::default(),
            statistics: StatisticsFold::Live,
            min_ttl: Millis::default(),
            swap_pages: None,
            flush_every: None,
        }
    }

    /// Returns the default setup for a trace: the recorded kind of reclaim and reads, at full
    /// speed.
    pub fn of_trace(policy: PolicyName, frames: u32, header: Option<&Header>) -> Setup {
        let reclaimer = header.and_then(|header| header.reclaimer);
        let setup = Setup::new(policy, Memory::reclaimed_by(reclaimer, frames));
        Setup { clock: ReplayClock::Costs, reader: Reader::of(header), ..setup }
    }
}

/// The time of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayClock {
    /// The later of the recorded time and the end of the previous access. A trace without times
    /// runs as with [`ReplayClock::Costs`].
    Trace,
    /// The end of the previous access: the trace runs at full speed.
    Costs,
}

/// The source of the reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// As recorded: every read is a reference, unless marked as a repeat.
    Recorded,
    /// One open file for all reads, as in a replay on a kernel. For the kernel's policies, a read
    /// of the page in which the last read ended is no reference.
    OneHandle,
}

impl Reader {
    /// Returns the reader of a trace: one open file, unless a page cache recorded it.
    pub fn of(header: Option<&Header>) -> Reader {
        match header {
            Some(header) if header.is_of_run() => Reader::Recorded,
            _ => Reader::OneHandle,
        }
    }
}

/// Durations in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplayCosts {
    /// A hit.
    pub hit_ns: u64,
    /// A miss, including reclaim and store.
    pub miss_ns: u64,
    /// A folio scanned by background reclaim.
    pub scan_ns: u64,
}

impl Default for ReplayCosts {
    /// Hit and miss are measured on Linux 6.18 with 4 KiB reads from a fast device. The scan is an
    /// assumption, within a factor of two of kernel reclaim.
    fn default() -> ReplayCosts {
        ReplayCosts { hit_ns: 5_000, miss_ns: 17_500, scan_ns: 1_000 }
    }
}

/// Age of the statistics that a policy reads.
///
/// The kernel keeps statistics per CPU and folds them every two seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatisticsFold {
    /// Exact: the kernel's view while `memory.stat` is read all the time.
    Live,
    /// The state at the last fold; all zero before the first.
    Every {
        /// Time between folds, at least 1 ms.
        period: Millis,
        /// Time of the first fold.
        phase: Millis,
    },
    /// Folds counted in accesses: a program reads `memory.stat` at this interval.
    EveryReads {
        /// Accesses between folds, at least 1.
        nr_reads: u64,
        /// Accesses before the first fold.
        phase: u64,
    },
}
