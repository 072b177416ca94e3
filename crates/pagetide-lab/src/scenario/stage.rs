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
use super::machine::{Ahead, Host, Layout, Machine, Stopped};
use super::variant::{Condition, PolicyVariant};
use crate::random::Random;
use crate::replay::{Memory, ReplayCosts, Setup, StatisticsFold};
use pagetide_core::lru::own::Tuning;
use pagetide_core::lru::{LruConfig, PolicyChoice, PolicyConfig};
use pagetide_core::units::Millis;
use std::ops::Range;

/// What a scenario's memory stands for where a time or a window is scaled with it: the pages that a
/// machine of 512 MiB has left for its page cache.
const REAL_PAGES: u32 = 109_312;
/// The kernel's period of summing statistics up.
const REAL_FOLD_MS: u32 = 2_000;
/// A readahead window of 8 MiB.
const REAL_WINDOW_PAGES: u32 = 2_048;
/// The same, scaled.
const FOLD_MS: u32 = REAL_FOLD_MS * FRAMES / REAL_PAGES;
const WINDOW_PAGES: u32 = REAL_WINDOW_PAGES * FRAMES / REAL_PAGES;
/// How long the device takes for a window: 300 MiB in 0.3 to 0.6 seconds.
const WINDOW_MS: Range<u32> = 8..16;
/// A page of a sequential read, copied at 4 GB/s. Folios of up to 2 MiB make looking at a page
/// cheap: at 100 ns, reclaim is never what readers wait for.
const BOOTED_COSTS: ReplayCosts = ReplayCosts { hit_ns: 1_000, miss_ns: 2_000, scan_ns: 100 };

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
    window: u32,
    window_ms: u32,
}

impl<'a> Stage<'a> {
    pub(super) fn new(subject: PolicyVariant, seed: u64, keep_on: &'a dyn Fn(u64) -> bool) -> Self {
        let mut random = Random::new(seed);
        // Drawn whatever the condition: it must not change what else the seed decides.
        let fold_phase = random.index(FOLD_MS);
        let window = WINDOW_PAGES + random.index(WINDOW_PAGES + 1);
        // By another chance: what the seed decided before there was a device stays.
        let window_ms = WINDOW_MS.start + Random::new(!seed).index(WINDOW_MS.end - WINDOW_MS.start);
        let measures = Measures::default();
        Stage { subject, random, keep_on, measures, sampling: seed, fold_phase, window, window_ms }
    }

    /// Pages of the machine's memory: a small one's, or the booted machine's own.
    pub(super) fn nr_pages(&self) -> u32 {
        if self.is_booted() { REAL_PAGES } else { FRAMES }
    }

    /// Whether sizes, costs and calls are the booted machine's.
    pub(super) fn is_booted(&self) -> bool {
        matches!(self.subject.condition, Condition::Booted | Condition::BootedFresh)
    }

    /// `base` frames, or up to 1/64 fewer or more: no two boots leave the same memory.
    pub(super) fn vary_frames(&mut self, base: u32) -> u32 {
        base - base / 64 + self.random.index(base / 32 + 1)
    }

    /// How many pages a call reads: 1 to 32, a power of two.
    pub(super) fn vary_call(&mut self) -> u32 {
        1 << self.random.index(6)
    }

    /// Where reads of so many pages start, and how many pages a call reads. A booted machine's
    /// started at 0.
    pub(super) fn vary_read(&mut self, nr_pages: u32) -> (u32, u32) {
        let (start, call) = (self.random.index(nr_pages), self.vary_call());
        if self.is_booted() { (0, call) } else { (start, call) }
    }

    /// An empty machine whose pages are `layout`'s.
    pub(super) fn machine<'b>(&self, layout: &'b Layout, host: Host) -> Machine<'b>
    where
        'a: 'b,
    {
        let PolicyVariant { policy, switches, condition } = self.subject;
        let usual = Setup {
            switches,
            tuning: Tuning { seed: self.sampling, ..Tuning::default() },
            swappiness: host.swappiness,
            swap_pages: host.swap_pages,
            ..Setup::new(policy, host.memory)
        };
        // A group's limit has no background reclaim, and knows no locked folios.
        let memory = match condition {
            Condition::Tidy | Condition::StaleStatistics => usual.memory,
            Condition::BackgroundReclaim
            | Condition::ReadaheadInFlight
            | Condition::Booted
            | Condition::BootedFresh => Memory::Machine { nr_frames: host.nr_frames() },
        };
        let costs = if self.is_booted() { BOOTED_COSTS } else { usual.costs };
        let setup = Setup { memory, statistics: self.statistics(), costs, ..usual };
        Machine::new(setup, layout, self.ahead(), self.keep_on)
    }

    /// When what a policy knows of itself is summed up.
    fn statistics(&self) -> StatisticsFold {
        let every = |period: u32, phase: u32| {
            let [period, phase] = [period, phase].map(|ms| Millis(ms.into()));
            StatisticsFold::Every { period, phase }
        };
        match self.subject.condition {
            Condition::StaleStatistics => every(FOLD_MS, self.fold_phase),
            Condition::Booted => every(REAL_FOLD_MS, self.fold_phase * REAL_FOLD_MS / FOLD_MS),
            Condition::Tidy
            | Condition::BackgroundReclaim
            | Condition::ReadaheadInFlight
            | Condition::BootedFresh => StatisticsFold::Live,
        }
    }

    /// What is on its way from the device while something else is read.
    fn ahead(&self) -> Ahead {
        match self.subject.condition {
            Condition::Tidy | Condition::StaleStatistics | Condition::BackgroundReclaim => {
                Ahead::Nothing
            }
            Condition::ReadaheadInFlight => Ahead::Window(self.window),
            Condition::Booted | Condition::BootedFresh => {
                let time = Millis(self.window_ms.into());
                Ahead::Stream { window: REAL_WINDOW_PAGES, time }
            }
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
