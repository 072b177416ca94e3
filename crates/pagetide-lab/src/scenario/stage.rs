//! The stage of a story: subject, random numbers, machines and measures.
//!
//! Problem: every story needs the same four things. Idea: one value holds them.
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

/// Page cache of the 512 MiB machine that a scenario's memory stands for in scaled times, in pages.
const REAL_PAGES: u32 = 109_312;
/// The kernel's two-second fold of statistics, scaled, in milliseconds.
const FOLD_MS: u32 = 2_000 * FRAMES / REAL_PAGES;

/// Measures of one play.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measures {
    /// Each metric with its value, in the scenario's order.
    pub values: Vec<(&'static str, f64)>,
    /// Values over time, for plots.
    pub courses: Vec<Series>,
    /// Accesses played.
    pub accesses: u64,
}

/// A value over time, step by step.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Meaning of steps and values, as in "misses per pass".
    pub name: &'static str,
    /// A value for each step.
    pub values: Vec<f64>,
}

pub(super) struct Stage<'a> {
    pub(super) subject: PolicyVariant,
    pub(super) random: Random,
    keep_on: &'a dyn Fn(u64) -> bool,
    measures: Measures,
    /// Seed of the pages that the policy called pagetide samples.
    sampling: u64,
    fold_phase: u32,
}

impl<'a> Stage<'a> {
    pub(super) fn new(subject: PolicyVariant, seed: u64, keep_on: &'a dyn Fn(u64) -> bool) -> Self {
        let mut random = Random::new(seed);
        // Drawn under every condition, so that later draws stay the same.
        let fold_phase = random.index(FOLD_MS);
        // Unused. Published rows include this draw.
        random.bits();
        let measures = Measures::default();
        Stage { subject, random, keep_on, measures, sampling: seed, fold_phase }
    }

    /// Returns `base` frames, varied by up to 1/64.
    pub(super) fn vary_frames(&mut self, base: u32) -> u32 {
        base - base / 64 + self.random.index(base / 32 + 1)
    }

    /// Returns the pages per call: a power of two, 1 to 32.
    pub(super) fn vary_call(&mut self) -> u32 {
        1 << self.random.index(6)
    }

    pub(super) fn vary_read(&mut self, nr_pages: u32) -> (u32, u32) {
        (self.random.index(nr_pages), self.vary_call())
    }

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

    fn statistics(&self, condition: Condition) -> StatisticsFold {
        match condition {
            Condition::Tidy => StatisticsFold::Live,
            Condition::StaleStatistics => StatisticsFold::Every {
                period: Millis(FOLD_MS.into()),
                phase: Millis(self.fold_phase.into()),
            },
        }
    }

    /// Returns the list settings for a memory outside our machines.
    pub(super) fn lru_config(&self, nr_frames: u32) -> LruConfig {
        LruConfig { switches: self.subject.switches, ..LruConfig::file_only(nr_frames) }
    }

    pub(super) fn policy(&self) -> PolicyChoice {
        let tuning = Tuning { seed: self.sampling, ..Tuning::default() };
        PolicyChoice { name: self.subject.policy, config: PolicyConfig::Pagetide(tuning) }
    }

    /// Counts accesses outside our machines and asks `keep_on`.
    pub(super) fn note_played(&mut self, nr_accesses: u64) -> Result<(), Stopped> {
        self.measures.accesses += nr_accesses;
        if (self.keep_on)(nr_accesses) { Ok(()) } else { Err(Stopped) }
    }

    pub(super) fn measure(&mut self, name: &'static str, value: f64) {
        self.measures.values.push((name, value));
    }

    pub(super) fn course(&mut self, name: &'static str, values: Vec<f64>) {
        self.measures.courses.push(Series { name, values });
    }

    pub(super) fn end(&mut self, machine: Machine<'_>) {
        self.measures.accesses += machine.outcome().accesses;
    }

    pub(super) fn into_measures(self) -> Measures {
        self.measures
    }
}

/// Returns `part` of `whole` in percent, 0 of nothing.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
