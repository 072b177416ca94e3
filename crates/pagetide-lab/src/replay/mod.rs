//! Replay: a trace, a policy, so many frames; how many misses?
//!
//! **Problem.** To size memory or to choose a policy one has to know what the real thing would have
//! done: the very code, with its batches and its bounds, not a model of it.
//!
//! **Idea.**
//!
//! ```text
//!   DenseTrace --entry--> World -----mark, add, touch, refault----> core's Lruvec
//!                           |  <---- victims, shadows ------------
//!                           +-- page words, frames, free list: plain vectors
//! ```
//!
//! [`World`] does for core what the `pagetide` crate does on real files: it keeps page words and
//! frames, runs a direct reclaim pass when there is no free frame, and carries out what the pass
//! says. It decides nothing. [`run`] drives it over a trace and counts.
//!
//! Two uses, told apart by the [`Memory`]: *what if* (any trace, any size, in a group's limit), and
//! *again*: a record of one thread without background threads, in the memory it had, evicts the
//! same pages in the same order and ends with the same counters. That is the replay law.
//!
//! **Data and invariants.** The same trace, policy and frames give the same outcome to the last
//! counter, always. Resident pages and free frames together are the memory, at every step
//! ([`World::validate`]).
//!
//! **Ignored.** Threads: one thread accesses; background reclaim, where the [`Memory`] has any,
//! runs beside it in virtual time. The store answers in a fixed time. Guards, but for repeating a
//! record.
//!
//! **Sources.** The memory-group flow of the kernel's reclaim: the allocating thread itself makes
//! room when the group is at its limit. The global flow: background reclaim between the watermarks.

mod cell;
mod clock;
mod course;
mod memory;
mod phases;
mod setup;
mod story;
mod world;

pub use cell::Cell;
pub use course::{Course, CoursePoint, SettingStay, course_of};
pub use memory::{Memory, TierMemory, ZoneMemory};
pub use phases::{NR_PHASES, Phases};
pub use setup::{Reader, ReplayClock, ReplayCosts, Setup, StatisticsFold};
pub use story::{Event, Happening, Story, story_of};
pub use world::{TierCounts, World};

use crate::judge::opt;
use crate::trace::DenseTrace;
use pagetide_core::ids::PageId;
use pagetide_core::lru::PolicyName;
use pagetide_core::units::Bytes;
use pagetide_core::vmstat::{Counter, VmStat};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// What can be run over a trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Contender {
    /// One of core's policies.
    Policy(PolicyName),
    /// Belady's optimum, "opt": knows the future, so it is only a bound.
    Opt,
}

/// A name that is neither a policy's nor "opt".
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{unknown} (and opt, in the lab)")]
pub struct UnknownContender {
    unknown: pagetide_core::lru::UnknownPolicy,
}

impl Contender {
    /// All of core's policies, then the optimum.
    pub fn all() -> impl Iterator<Item = Contender> {
        PolicyName::ALL.iter().copied().map(Contender::Policy).chain([Contender::Opt])
    }

    /// The name as typed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Contender::Policy(name) => name.as_str(),
            Contender::Opt => "opt",
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Contender {
    type Err = UnknownContender;

    fn from_str(text: &str) -> Result<Contender, UnknownContender> {
        match text {
            "opt" => Ok(Contender::Opt),
            name => {
                name.parse().map(Contender::Policy).map_err(|unknown| UnknownContender { unknown })
            }
        }
    }
}

/// What a replay counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplayOutcome {
    /// Accesses: readahead, fills and discards do not count.
    pub accesses: u64,
    /// Accesses that found their page absent, be it at the access or at the fill before it.
    pub misses: u64,
    /// Misses on a file's pages for which no frame came free; they did not become resident.
    pub bypasses: u64,
    /// The same for anonymous pages: no memory, and no swap. A real program would have ended at the
    /// first; the replay goes on.
    pub out_of_memory: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Pages that the recorded readahead brought in, where the trace still has it; of the optimum,
    /// those it had a use for.
    pub pages_ahead: u64,
    /// Core's counters; all zero for the optimum.
    pub vmstat: VmStat,
    /// What each kind of memory did, where there were several.
    pub tiers: Option<TierCounts>,
}

impl ReplayOutcome {
    /// Misses per access; 0 for an empty trace.
    pub fn miss_ratio(&self) -> f64 {
        if self.accesses == 0 { 0.0 } else { self.misses as f64 / self.accesses as f64 }
    }

    /// Bytes that came from the store: a page for each miss, and those that came unasked. As if
    /// each write that missed had read its page first.
    pub fn device_read_bytes(&self) -> u64 {
        Bytes::from_pages(self.misses + self.pages_ahead).0
    }

    /// Misses on pages that a shadow entry remembered. Policies without shadow entries have none.
    pub fn refaults(&self) -> u64 {
        self.vmstat.read(Counter::WorkingsetRefaultAnon)
            + self.vmstat.read(Counter::WorkingsetRefaultFile)
    }

    /// Refaults whose pages were taken for hot at once.
    pub fn activations(&self) -> u64 {
        self.vmstat.read(Counter::WorkingsetActivateAnon)
            + self.vmstat.read(Counter::WorkingsetActivateFile)
    }

    /// The outcome as a line of a report. `seconds` is how long the replay took by the caller's
    /// clock; the lab has none.
    pub fn to_row(&self, contender: Contender, frames: u32, seconds: f64) -> ReplayRow {
        ReplayRow {
            policy: contender.as_str(),
            frames,
            memory_bytes: Bytes::from_pages(frames.into()).0,
            accesses: self.accesses,
            misses: self.misses,
            miss_ratio: self.miss_ratio(),
            device_read_bytes: self.device_read_bytes(),
            evictions: self.evictions,
            refaults: self.refaults(),
            activations: self.activations(),
            seconds,
            miss_ratio_min: None,
            miss_ratio_max: None,
            tiers: self.tiers,
        }
    }
}

/// A line of a report. The field names are what `replay --json` prints, and stay.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ReplayRow {
    /// The contender's name.
    pub policy: &'static str,
    /// Memory, in frames.
    pub frames: u32,
    /// The same in bytes.
    pub memory_bytes: u64,
    /// Accesses replayed.
    pub accesses: u64,
    /// Accesses that missed.
    pub misses: u64,
    /// Misses per access.
    pub miss_ratio: f64,
    /// Bytes from the store, by misses and by readahead.
    pub device_read_bytes: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Misses on pages a shadow entry remembered.
    pub refaults: u64,
    /// Refaults taken for hot at once.
    pub activations: u64,
    /// How long the replay took.
    pub seconds: f64,
    /// The lowest miss ratio, where the row is the mean of several replays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub miss_ratio_min: Option<f64>,
    /// The highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub miss_ratio_max: Option<f64>,
    /// What each kind of memory did, where there were several.
    #[serde(flatten)]
    pub tiers: Option<TierCounts>,
}

/// Replays the whole trace with `frames` frames.
///
/// # Cost
/// 68 bytes a frame and 8 bytes a page of the trace; tens to a few hundred nanoseconds an access.
pub fn run(contender: Contender, trace: &DenseTrace, frames: u32) -> ReplayOutcome {
    match contender {
        Contender::Policy(name) => run_observed(Setup::new(name, frames), trace, |_| {}),
        Contender::Opt => run_opt(trace, frames, |_| true).expect("nothing stopped it"),
    }
}

/// As [`run`], but stops early: `keep_on` is given how many entries were replayed since it was
/// asked last, some ten thousands, and its `false` ends the replay with `None`.
pub fn run_while(
    contender: Contender,
    trace: &DenseTrace,
    frames: u32,
    keep_on: impl FnMut(u64) -> bool,
) -> Option<ReplayOutcome> {
    match contender {
        Contender::Policy(name) => run_setup_while(Setup::new(name, frames), trace, keep_on),
        Contender::Opt => run_opt(trace, frames, keep_on),
    }
}

/// Replays the whole trace in any setup.
pub fn run_setup(setup: Setup, trace: &DenseTrace) -> ReplayOutcome {
    run_observed(setup, trace, |_| {})
}

/// As [`run_while`], in any setup.
pub fn run_setup_while(
    setup: Setup,
    trace: &DenseTrace,
    keep_on: impl FnMut(u64) -> bool,
) -> Option<ReplayOutcome> {
    let mut world = World::new(setup, trace, |_| {});
    world.play(keep_on).then(|| world.outcome())
}

/// The most memory a [`run`] with `frames` frames takes besides the trace, in bytes.
pub fn bytes_needed(contender: Contender, trace: &DenseTrace, frames: u32) -> u64 {
    const FRAME_BYTES: u64 = 96;
    const PAGE_BYTES: u64 = 64;
    // The optimum's next uses, and a heap that at worst has an entry for each.
    const OPT_ENTRY_BYTES: u64 = 4 + 16;
    match contender {
        Contender::Policy(_) => {
            FRAME_BYTES * u64::from(frames) + PAGE_BYTES * trace.nr_pages() as u64
        }
        Contender::Opt => OPT_ENTRY_BYTES * trace.nr_entries() + 5 * trace.nr_pages() as u64,
    }
}

/// As [`run`], for a policy in any setup, and tells `evicted` of each eviction in order.
pub fn run_observed(
    setup: Setup,
    trace: &DenseTrace,
    evicted: impl FnMut(PageId),
) -> ReplayOutcome {
    let mut world = World::new(setup, trace, evicted);
    world.play(|_| true);
    world.outcome()
}

fn run_opt(
    trace: &DenseTrace,
    frames: u32,
    keep_on: impl FnMut(u64) -> bool,
) -> Option<ReplayOutcome> {
    let next_uses = opt::next_uses(trace);
    let best = opt::judge_while(trace, &next_uses, frames as usize, keep_on)?;
    Some(ReplayOutcome {
        accesses: trace.nr_accesses(),
        misses: best.misses,
        bypasses: 0,
        out_of_memory: 0,
        evictions: best.evictions,
        pages_ahead: best.pages_ahead,
        vmstat: VmStat::default(),
        tiers: None,
    })
}
