//! Scenarios: small machines with a story, played over and over, with the claim beside the result.
//!
//! **Problem.** A trace says what one program did once. The questions that designs of reclaim are
//! argued with are other ones: does a new working set get in, does a stream push the old one out,
//! which gives way when anonymous and file pages compete? Their answers depend on details outside
//! any control (where a read starts, what comes first, how many frames are left over), so one run
//! proves little.
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
//! A scenario reacts to what it finds ("read until fully cached"), so it is no trace: it drives the
//! replay's own [`World`](crate::replay::World) access by access. The seed chooses everything the
//! story leaves open: frames within 1/64, where reading starts, how many pages a call reads, the
//! order of popularity, which accesses are interleaved, and what a policy that samples samples.
//!
//! **Data and invariants.** The same scenario, subject and seed give the same measures, always.
//! Every metric a scenario declares is measured once a run, and no other. A claim is what a source
//! says of the same metric, as text; where no source says anything it is empty.
//!
//! **Ignored.** Seconds: a machine counts misses, residents and decisions, never how long they
//! took. Threads of our own: a caller that wants many seeds at once plays them on threads of its
//! own.
//!
//! **Sources.** Each scenario names its own. Sizes are the sources', divided so that memory is 4096
//! frames (a 16 GiB machine becomes 16 MiB) with every ratio kept.

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

/// Frames of a scenario's machine, before the seed's variation.
const FRAMES: u32 = 4096;

/// A story, with what is measured in it.
#[derive(Debug)]
pub struct Scenario {
    /// The name as typed.
    pub name: &'static str,
    /// One sentence: what happens.
    pub story: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What is measured, in the order of reports.
    pub metrics: &'static [Metric],
    play: fn(&mut Stage<'_>) -> Result<(), Stopped>,
}

/// One number a scenario measures.
#[derive(Debug)]
pub struct Metric {
    /// Its name in rows; ends in its unit where it is not a count.
    pub name: &'static str,
    /// One sentence: what it counts, and which way is better.
    pub meaning: &'static str,
    /// What sources say of it.
    pub claims: &'static [SourceClaim],
}

/// What a source says of a metric.
#[derive(Debug)]
pub struct SourceClaim {
    /// The policy it is about; of any policy without one.
    pub policy: Option<&'static str>,
    /// What it says.
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

    /// What is claimed of it for this policy; empty where no source says anything.
    pub fn claim(&self, policy: &str) -> &'static str {
        let of_policy = self.claims.iter().find(|claim| claim.policy == Some(policy));
        let claim = of_policy.or_else(|| self.claims.iter().find(|claim| claim.policy.is_none()));
        claim.map_or("", |claim| claim.says)
    }
}

impl Scenario {
    /// All of them, in the order of lists.
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

    /// The scenario of this name.
    ///
    /// # Errors
    /// [`UnknownScenario`], whose message lists those there are.
    pub fn named(name: &str) -> Result<&'static Scenario, UnknownScenario> {
        Scenario::ALL.iter().find(|it| it.name == name).ok_or(UnknownScenario)
    }

    /// Plays it once.
    ///
    /// `keep_on` is given how many accesses were played since it was asked last, some thousands at
    /// the most; its `false` ends the play with `None`.
    ///
    /// # Cost
    /// Some hundred thousand to a few million accesses, of tens to hundreds of nanoseconds each.
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

/// An unknown scenario; the message lists those there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownScenario;

impl fmt::Display for UnknownScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown scenario; there are")?;
        Scenario::ALL.iter().try_for_each(|it| write!(f, " {}", it.name))
    }
}

impl std::error::Error for UnknownScenario {}
