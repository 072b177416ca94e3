//! Scenarios: small machines that play a story under many seeds, beside published claims.
//!
//! **Problem.** A trace shows one program once, and details such as start offsets decide, so one
//! run proves little.
//!
//! **Idea.**
//!
//! ```text
//!   Scenario + PolicyVariant + seed --> Stage --> play: a Machine, read page by page --> Measures
//!      (story)  (policy,   |                  |  ^                                 one seed's
//!                switches) |                  v  |
//!                          |                 World (the replay's, page by page)
//!                          +-- x 10 seeds --> summarize: median, low and high --> SummaryRow
//! ```
//!
//! A scenario reacts to results, and drives the replay's [`World`](crate::replay::World) access by
//! access. The seed chooses all open details: frames within 1/64, read offsets, pages per call,
//! popularity order, interleaving, and a sampling policy's samples.
//!
//! **Data and invariants.** The same scenario, subject and seed give the same measures. Each run
//! measures every declared metric once. A claim is a source's text about a metric, or empty.
//!
//! **Ignored.** Time: a machine counts misses, residents and decisions. Threads: the caller plays
//! seeds in parallel.
//!
//! **Sources.** Each scenario names its own. Sizes are scaled to 4096 frames of memory (16 GiB
//! become 16 MiB).

mod anon_vs_file;
mod copy_a_large_file;
mod fair_zones;
mod fio_randread;
mod get_scan;
mod kernbench;
mod machine;
mod memcachetest;
mod memory_group_oom;
mod micro;
mod oldest_generation_stuck;
mod pft;
mod stage;
mod summary;
#[cfg(test)]
mod tests;
mod variant;
mod wschange;
mod wsprotect;
pub mod zipf;

pub use stage::{Measures, Series};
pub use summary::{SummaryRow, summarize};
pub use variant::{Condition, ParseVariantError, PolicyVariant};

use machine::Stopped;
use stage::Stage;
use std::fmt;

/// Frames of a machine, before the seed's variation.
const FRAMES: u32 = 4096;

/// A story and its metrics.
#[derive(Debug)]
pub struct Scenario {
    /// The name on the command line.
    pub name: &'static str,
    /// The story, in one sentence.
    pub story: &'static str,
    /// The source of the scenario.
    pub source: &'static str,
    /// The metrics, in report order.
    pub metrics: &'static [Metric],
    play: fn(&mut Stage<'_>) -> Result<(), Stopped>,
}

/// One measured number.
#[derive(Debug)]
pub struct Metric {
    /// The name in rows. Ends in the unit unless a count.
    pub name: &'static str,
    /// The meaning and the better direction, in one sentence.
    pub meaning: &'static str,
    /// Published claims.
    pub claims: &'static [SourceClaim],
}

/// A published claim about a metric.
#[derive(Debug)]
pub struct SourceClaim {
    /// The policy, or `None` for any policy.
    pub policy: Option<&'static str>,
    /// The text of the claim.
    pub says: &'static str,
}

impl SourceClaim {
    const fn of(policy: &'static str, says: &'static str) -> SourceClaim {
        SourceClaim { policy: Some(policy), says }
    }

    const fn of_all(says: &'static str) -> SourceClaim {
        SourceClaim { policy: None, says }
    }
}

impl Metric {
    const fn new(
        name: &'static str,
        meaning: &'static str,
        claims: &'static [SourceClaim],
    ) -> Metric {
        Metric { name, meaning, claims }
    }

    /// Returns the claim for this policy, empty if no source makes one.
    pub fn claim(&self, policy: &str) -> &'static str {
        let of_policy = self.claims.iter().find(|claim| claim.policy == Some(policy));
        let claim = of_policy.or_else(|| self.claims.iter().find(|claim| claim.policy.is_none()));
        claim.map_or("", |claim| claim.says)
    }
}

impl Scenario {
    /// All scenarios, in list order.
    pub const ALL: &'static [Scenario] = &[
        wschange::SCENARIO,
        wsprotect::SCENARIO,
        memcachetest::SCENARIO,
        micro::SCENARIO,
        pft::SCENARIO,
        kernbench::SCENARIO,
        fair_zones::SCENARIO,
        get_scan::SCENARIO,
        oldest_generation_stuck::SCENARIO,
        anon_vs_file::SCENARIO,
        copy_a_large_file::SCENARIO,
        memory_group_oom::SCENARIO,
        fio_randread::SCENARIO,
    ];

    /// Returns the scenario of this name.
    ///
    /// # Errors
    /// Fails with [`UnknownScenario`] if there is none. The message lists all names.
    pub fn named(name: &str) -> Result<&'static Scenario, UnknownScenario> {
        Scenario::ALL.iter().find(|it| it.name == name).ok_or(UnknownScenario)
    }

    /// Plays the scenario once.
    ///
    /// `keep_on` gets the number of accesses since its last call, at most some thousands, and ends
    /// the play with `None` by returning `false`.
    ///
    /// # Cost
    /// Some hundred thousand to a few million accesses of tens to hundreds of nanoseconds.
    pub fn play(
        &self,
        subject: PolicyVariant,
        seed: u64,
        keep_on: &dyn Fn(u64) -> bool,
    ) -> Option<Measures> {
        let mut stage = Stage::new(subject, seed, keep_on);
        (self.play)(&mut stage).ok()?;
        let measures = stage.into_measures();
        let declared = self.metrics.iter().map(|metric| metric.name);
        assert!(
            declared.eq(measures.values.iter().map(|(name, _)| *name)),
            "{} measures what it declares, in order",
            self.name
        );
        Some(measures)
    }
}

/// An unknown scenario. The message lists all names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownScenario;

impl fmt::Display for UnknownScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown scenario; there are")?;
        Scenario::ALL.iter().try_for_each(|it| write!(f, " {}", it.name))
    }
}

impl std::error::Error for UnknownScenario {}
