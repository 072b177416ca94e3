//! Replay: counts the misses of a policy on a trace with a number of frames.
//!
//! **Problem.** Sizing and choice of policy need results of the real code, not of a model.
//!
//! **Idea.**
//!
//! ```text
//!   DenseTrace --entry--> World -----mark, add, touch, refault----> core's Lruvec
//!                           |  <---- victims, shadows ------------
//!                           +-- page words, frames, free list: plain vectors
//! ```
//!
//! [`World`] stands in for the `pagetide` crate: page words, frames, direct reclaim, and core's
//! decisions carried out. [`run`] drives it over a trace and counts.
//!
//! The [`Memory`] selects the use. *What if* runs any trace at any size. *Again* repeats a record
//! of one thread without background threads in the recorded memory, with the same evictions and
//! counters. This is the replay law.
//!
//! **Data and invariants.** The same trace, policy and frames give the same counters. Resident
//! pages plus free frames are the memory ([`World::validate`]).
//!
//! **Ignored.** Threads: background reclaim runs in virtual time. The store answers in a fixed
//! time. Guards count only in *again*.
//!
//! **Sources.** The memory-group flow of the kernel's reclaim: the allocating thread makes room at
//! the group's limit. The global flow: background reclaim between the watermarks.

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

/// A subject of a replay.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Contender {
    /// One of core's policies.
    Policy(PolicyName),
    /// Belady's optimum, "opt": a bound that knows the future.
    Opt,
}

/// An unknown name: no policy and not "opt".
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{unknown} (and opt, in the lab)")]
pub struct UnknownContender {
    unknown: pagetide_core::lru::UnknownPolicy,
}

impl Contender {
    /// Returns all of core's policies, then the optimum.
    pub fn all() -> impl Iterator<Item = Contender> {
        PolicyName::ALL.iter().copied().map(Contender::Policy).chain([Contender::Opt])
    }

    /// Returns the name on the command line.
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

/// Counts of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplayOutcome {
    /// Accesses, without readahead, fills and discards.
    pub accesses: u64,
    /// Accesses of absent pages, including pages absent at the preceding fill.
    pub misses: u64,
    /// Misses on file pages that got no frame. The pages stayed absent.
    pub bypasses: u64,
    /// Misses on anonymous pages without memory or swap. A real program would end at the first.
    pub out_of_memory: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Pages read by recorded readahead. The optimum counts only used pages.
    pub pages_ahead: u64,
    /// Core's counters, all zero for the optimum.
    pub vmstat: VmStat,
    /// Counts of each tier, if several.
    pub tiers: Option<TierCounts>,
}

impl ReplayOutcome {
    /// Returns misses per access, 0 for an empty trace.
    pub fn miss_ratio(&self) -> f64 {
        if self.accesses == 0 { 0.0 } else { self.misses as f64 / self.accesses as f64 }
    }

    /// Returns the bytes read from the store: a page for each miss (writes included) and for
    /// readahead.
    pub fn device_read_bytes(&self) -> u64 {
        Bytes::from_pages(self.misses + self.pages_ahead).0
    }

    /// Returns the misses on pages with a shadow entry. Always 0 for policies without shadow
    /// entries.
    pub fn refaults(&self) -> u64 {
        self.vmstat.read(Counter::WorkingsetRefaultAnon)
            + self.vmstat.read(Counter::WorkingsetRefaultFile)
    }

    /// Returns the refaults that were activated.
    pub fn activations(&self) -> u64 {
        self.vmstat.read(Counter::WorkingsetActivateAnon)
            + self.vmstat.read(Counter::WorkingsetActivateFile)
    }

    /// Returns a report row. The caller measures `seconds`, as the lab has no clock.
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

/// A report row. `replay --json` prints the field names, so they are stable.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ReplayRow {
    /// Name of the policy.
    pub policy: &'static str,
    /// Memory, in frames.
    pub frames: u32,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Accesses replayed.
    pub accesses: u64,
    /// Misses.
    pub misses: u64,
    /// Misses per access.
    pub miss_ratio: f64,
    /// Bytes from the store, including readahead.
    pub device_read_bytes: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Misses on pages with a shadow entry.
    pub refaults: u64,
    /// Activated refaults.
    pub activations: u64,
    /// Duration of the replay.
    pub seconds: f64,
    /// Lowest miss ratio, if the row is a mean of several replays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub miss_ratio_min: Option<f64>,
    /// Highest miss ratio, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub miss_ratio_max: Option<f64>,
    /// Counts of each tier, if several.
    #[serde(flatten)]
    pub tiers: Option<TierCounts>,
}

/// Replays the whole trace with `frames` frames.
///
/// # Cost
/// 68 bytes a frame and 8 bytes a page of the trace. Tens to a few hundred nanoseconds an access.
pub fn run(contender: Contender, trace: &DenseTrace, frames: u32) -> ReplayOutcome {
    match contender {
        Contender::Policy(name) => run_observed(Setup::new(name, frames), trace, |_| {}),
        Contender::Opt => run_opt(trace, frames, |_| true).expect("nothing stopped it"),
    }
}

/// Replays like [`run`]. `keep_on` gets the number of entries since its last call, some ten
/// thousands, and ends the replay with `None` by returning `false`.
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

/// Replays in any setup, with the `keep_on` of [`run_while`].
pub fn run_setup_while(
    setup: Setup,
    trace: &DenseTrace,
    keep_on: impl FnMut(u64) -> bool,
) -> Option<ReplayOutcome> {
    let mut world = World::new(setup, trace, |_| {});
    world.play(keep_on).then(|| world.outcome())
}

/// Returns the maximum memory of a [`run`] besides the trace, in bytes.
pub fn bytes_needed(contender: Contender, trace: &DenseTrace, frames: u32) -> u64 {
    const FRAME_BYTES: u64 = 96;
    const PAGE_BYTES: u64 = 64;
    // The optimum's next uses, and at worst one heap entry for each.
    const OPT_ENTRY_BYTES: u64 = 4 + 16;
    match contender {
        Contender::Policy(_) => {
            FRAME_BYTES * u64::from(frames) + PAGE_BYTES * trace.nr_pages() as u64
        }
        Contender::Opt => OPT_ENTRY_BYTES * trace.nr_entries() + 5 * trace.nr_pages() as u64,
    }
}

/// Replays a policy in any setup and reports each eviction to `evicted` in order.
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
