//! What a story is played on: its subject, its chance, and where it writes down what it measured.
//!
//! Problem: every story would carry the same four things around. Idea: one value that makes
//! machines, draws numbers, and collects measures.
//!
//! ```text
//!   seed ----> random ----> frames, starts, orders
//!   subject -> machine() -> Machine -> play
//!   measure("set_resident_percent", 100.0)   course("misses per pass", [...])
//! ```
//!
//! Ignored: units. A metric's name ends in its unit.

use super::FRAMES;
use super::machine::{Host, Layout, Machine, Stopped};
use super::variant::{Condition, PolicyVariant};
use crate::random::Random;
use crate::replay::{Setup, StatisticsFold};
use pagetide_core::lru::own::Tuning;
use pagetide_core::lru::{LruConfig, PolicyChoice, PolicyConfig};
use pagetide_core::units::Millis;

/// What a scenario's memory stands for where a time is scaled with it: the pages that a machine of
/// 512 MiB has left for its page cache.
const REAL_PAGES: u32 = 109_312;
/// The kernel's period of summing statistics up, two seconds, scaled.
const FOLD_MS: u32 = 2_000 * FRAMES / REAL_PAGES;

/// What one play of a scenario measured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measures {
    /// Each metric with its value, in the order of the scenario's list.
    pub values: Vec<(&'static str, f64)>,
    /// How something went over time; for plots.
    pub courses: Vec<Series>,
    /// Accesses played.
    pub accesses: u64,
}

/// How something went, step by step.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// What the steps and the values are, as in "misses per pass".
    pub name: &'static str,
    /// A value for each step.
    pub values: Vec<f64>,
}

/// Where a scenario is played.
pub(super) struct Stage<'a> {
    pub(super) subject: PolicyVariant,
    pub(super) random: Random,
    keep_on: &'a dyn Fn(u64) -> bool,
    measures: Measures,
    /// Which pages the policy called pagetide samples.
    sampling: u64,
    fold_phase: u32,
}

impl<'a> Stage<'a> {
    pub(super) fn new(subject: PolicyVariant, seed: u64, keep_on: &'a dyn Fn(u64) -> bool) -> Self {
        let mut random = Random::new(seed);
        // Drawn whatever the condition: it must not change what else the seed decides.
        let fold_phase = random.index(FOLD_MS);
        // For nothing: published rows are of seeds that drew once more here.
        random.bits();
        let measures = Measures::default();
        Stage { subject, random, keep_on, measures, sampling: seed, fold_phase }
    }

    /// `base` frames, or up to 1/64 fewer or more: no two boots leave the same memory.
    pub(super) fn vary_frames(&mut self, base: u32) -> u32 {
        base - base / 64 + self.random.index(base / 32 + 1)
    }

    /// How many pages a call reads: 1 to 32, a power of two.
    pub(super) fn vary_call(&mut self) -> u32 {
        1 << self.random.index(6)
    }

    /// Where reads of so many pages start, and how many pages a call reads.
    pub(super) fn vary_read(&mut self, nr_pages: u32) -> (u32, u32) {
        (self.random.index(nr_pages), self.vary_call())
    }

    /// An empty machine whose pages are `layout`'s.
    pub(super) fn machine<'b>(&self, layout: &'b Layout, host: Host) -> Machine<'b>
    where
        'a: 'b,
    {
        let PolicyVariant { policy, switches, condition } = self.subject;
        let setup = Setup {
            switches,
            tuning: Tuning { seed: self.sampling, ..Tuning::default() },
            swappiness: host.swappiness,
            swap_pages: host.swap_pages,
            statistics: self.statistics(condition),
            ..Setup::new(policy, host.memory)
        };
        Machine::new(setup, layout, self.keep_on)
    }

    /// When what a policy knows of itself is summed up.
    fn statistics(&self, condition: Condition) -> StatisticsFold {
        match condition {
            Condition::Tidy => StatisticsFold::Live,
            Condition::StaleStatistics => StatisticsFold::Every {
                period: Millis(FOLD_MS.into()),
                phase: Millis(self.fold_phase.into()),
            },
        }
    }

    /// The lists of so many frames, for a memory that is no machine of ours.
    pub(super) fn lru_config(&self, nr_frames: u32) -> LruConfig {
        LruConfig { switches: self.subject.switches, ..LruConfig::file_only(nr_frames) }
    }

    /// The policy of such lists.
    pub(super) fn policy(&self) -> PolicyChoice {
        let tuning = Tuning { seed: self.sampling, ..Tuning::default() };
        PolicyChoice { name: self.subject.policy, config: PolicyConfig::Pagetide(tuning) }
    }

    /// Counts accesses that no machine of ours has played, and asks whether to go on.
    pub(super) fn note_played(&mut self, nr_accesses: u64) -> Result<(), Stopped> {
        self.measures.accesses += nr_accesses;
        if (self.keep_on)(nr_accesses) { Ok(()) } else { Err(Stopped) }
    }

    /// Writes a metric down.
    pub(super) fn measure(&mut self, name: &'static str, value: f64) {
        self.measures.values.push((name, value));
    }

    /// Writes a course down.
    pub(super) fn course(&mut self, name: &'static str, values: Vec<f64>) {
        self.measures.courses.push(Series { name, values });
    }

    /// Adds the accesses of a machine that has done its part.
    pub(super) fn end(&mut self, machine: Machine<'_>) {
        self.measures.accesses += machine.outcome().accesses;
    }

    pub(super) fn into_measures(self) -> Measures {
        self.measures
    }
}

/// `part` of `whole`, in percent; 0 of nothing.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
