//! What a replay runs: policy, mechanisms, memory, and what there is around them.
//!
//! Problem: "which policy, at which size" is the short question. The long one has a clock (work
//! that is done every two seconds depends on how long an access takes), statistics that lag,
//! anonymous pages and a swap device, and a flusher. Idea: one plain value holds the answers to all
//! of it, and [`Setup::new`] is the short question.
//!
//! ```text
//!   Setup { policy, switches, tuning, memory,        the decisions
//!           swappiness
//!           clock, costs, statistics                 when
//!           swap_pages, flush_every }                what pages are, and how they get clean
//! ```

use super::Memory;
use pagetide_core::lru::own::Tuning;
use pagetide_core::lru::{PolicyName, Switches};
use pagetide_core::record::Header;
use pagetide_core::units::Millis;

/// What a replay runs: a policy, with these mechanisms, in this memory, by this clock.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The policy.
    pub policy: PolicyName,
    /// Which of its mechanisms are on.
    pub switches: Switches,
    /// The constants of the policy called pagetide.
    pub tuning: Tuning,
    /// The memory, and with it what reclaims.
    pub memory: Memory,
    /// How willing to evict anonymous pages, 0 to 200.
    pub swappiness: u8,
    /// When an access happens.
    pub clock: ReplayClock,
    /// Whose reads they are.
    pub reader: Reader,
    /// How long it takes.
    pub costs: ReplayCosts,
    /// How old the statistics are that the policy reads.
    pub statistics: StatisticsFold,
    /// How long the multi-gen LRU keeps a generation at least; while all are younger, misses get no
    /// frame. Zero asks for nothing.
    pub min_ttl: Millis,
    /// `None`: every page is a file's, whatever the trace says. Otherwise pages of anonymous
    /// mappings are anonymous, are accessed through the table, and so many of them fit on the swap
    /// device; 0 is no swap.
    pub swap_pages: Option<u64>,
    /// `None`: a written page is clean at once. Otherwise written pages are dirty until a flusher
    /// comes, so often, or sooner when reclaim meets more dirty pages than clean ones.
    pub flush_every: Option<Millis>,
}

impl Setup {
    /// The policy as it is, in this memory; files only, live statistics, the trace's clock.
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

    /// What a question about a trace means unless it says otherwise: with what made room in the
    /// recorded run, read as it was, and as fast as it goes.
    pub fn of_trace(policy: PolicyName, frames: u32, header: Option<&Header>) -> Setup {
        let reclaimer = header.and_then(|header| header.reclaimer);
        let setup = Setup::new(policy, Memory::reclaimed_by(reclaimer, frames));
        Setup { clock: ReplayClock::Costs, reader: Reader::of(header), ..setup }
    }
}

/// When an access happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayClock {
    /// At its time in the trace, or once the one before it is done, whichever is later. Traces
    /// without times run as with [`ReplayClock::Costs`].
    Trace,
    /// Once the one before it is done: the trace is run as fast as it goes.
    Costs,
}

/// Whose reads they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// As the trace says: every read is a reference, unless it is one that says it repeats.
    Recorded,
    /// One open file that all is read through, as when a trace is replayed on a kernel: to the
    /// kernel's policies, reading the page again in which the last read ended is no reference. The
    /// published policies have no such rule, and nothing changes for them.
    OneHandle,
}

impl Reader {
    /// What made a trace's reads. One that no page cache recorded is taken for the reads of one
    /// open file, as a benchmark that replays it on a kernel makes them.
    pub fn of(header: Option<&Header>) -> Reader {
        match header {
            Some(header) if header.is_of_run() => Reader::Recorded,
            _ => Reader::OneHandle,
        }
    }
}

/// What things take, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplayCosts {
    /// An access that hits.
    pub hit_ns: u64,
    /// An access that misses, reclaim and store included.
    pub miss_ns: u64,
    /// A folio that background reclaim looks at: how fast that runs beside the accesses.
    pub scan_ns: u64,
}

impl Default for ReplayCosts {
    /// Hit and miss as measured on Linux 6.18 with reads of 4 KiB from a fast device. The scan is
    /// an assumption: a microsecond a folio is what the kernel's reclaim takes, within a factor of
    /// two.
    fn default() -> ReplayCosts {
        ReplayCosts { hit_ns: 5_000, miss_ns: 17_500, scan_ns: 1_000 }
    }
}

/// How old the statistics are that a policy reads.
///
/// The kernel keeps them per CPU and folds them together every two seconds; what reclaim reads in
/// between is as old as the last fold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatisticsFold {
    /// As they are: what the kernel sees while `memory.stat` is read all the time.
    Live,
    /// As they were at the last fold; all zero before the first.
    Every {
        /// From one fold to the next, at least 1 ms.
        period: Millis,
        /// The first fold's time.
        phase: Millis,
    },
    /// The same, counted in accesses: a program that itself reads `memory.stat` after so many. No
    /// clock decides.
    EveryReads {
        /// From one fold to the next, at least 1.
        nr_reads: u64,
        /// Accesses before the first.
        phase: u64,
    },
}
