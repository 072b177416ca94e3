//! What a story is played on: its subject, its chance, and where it writes down what it measured.
//!
//! Problem: twelve stories would each carry the same four things around. Idea: one value that makes
//! machines, draws numbers, and collects measures.
//!
//! ```text
//!   seed ----> random ----> frames, starts, orders
//!   subject -> machine() -> Machine -> play
//!   measure("set_resident_percent", 100.0)   course("misses per pass", [...])
//! ```
//!
//! Ignored: units. A metric's name ends in its unit.

use super::machine::{Layout, Machine};
use super::random::Random;
use super::subject::Subject;
use crate::replay::Setup;

/// The play was told to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stopped;

/// What one play of a scenario measured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measures {
    /// Each metric with its value, in the order of the scenario's list.
    pub values: Vec<(&'static str, f64)>,
    /// How something went over time; for plots.
    pub courses: Vec<Course>,
    /// Accesses played.
    pub accesses: u64,
}

/// How something went, step by step.
#[derive(Clone, PartialEq, Debug)]
pub struct Course {
    /// What the steps and the values are, as in "misses per pass".
    pub name: &'static str,
    /// A value for each step.
    pub values: Vec<f64>,
}

/// Where a scenario is played.
pub(super) struct Stage<'a> {
    pub(super) subject: Subject,
    pub(super) random: Random,
    keep_on: &'a dyn Fn(u64) -> bool,
    measures: Measures,
}

impl<'a> Stage<'a> {
    pub(super) fn new(subject: Subject, seed: u64, keep_on: &'a dyn Fn(u64) -> bool) -> Self {
        Stage { subject, random: Random::new(seed), keep_on, measures: Measures::default() }
    }

    /// `base` frames, or up to 1/64 fewer or more: no two boots leave the same memory.
    pub(super) fn vary_frames(&mut self, base: u32) -> u32 {
        base - base / 64 + self.random.below(base / 32 + 1)
    }

    /// How many pages a call reads: 1 to 32, a power of two.
    pub(super) fn vary_call(&mut self) -> u32 {
        1 << self.random.below(6)
    }

    /// An empty machine whose files are `layout`'s.
    pub(super) fn machine<'b>(&self, layout: &'b Layout, nr_frames: u32) -> Machine<'b>
    where
        'a: 'b,
    {
        let Subject { policy, switches } = self.subject;
        let setup = Setup { switches, ..Setup::new(policy, nr_frames) };
        Machine::new(setup, layout, self.keep_on)
    }

    /// Writes a metric down.
    pub(super) fn measure(&mut self, name: &'static str, value: f64) {
        self.measures.values.push((name, value));
    }

    /// Writes a course down.
    pub(super) fn course(&mut self, name: &'static str, values: Vec<f64>) {
        self.measures.courses.push(Course { name, values });
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
