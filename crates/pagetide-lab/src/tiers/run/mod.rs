//! One run: a program on a machine, warmed up, then measured.
//!
//! **Problem.** The published machine has tens of gigabytes: a scan takes a minute, and the
//! threshold settles in ten. **Idea.** A model with every amount `scale` times smaller, in real
//! time:
//!
//! ```text
//!   machine          640 GiB   48 threads   79 GB/s   scan 256 MiB a run, 10 a second at most
//!   model, 1 : 8192   80 MiB    x 1/8192   x 1/8192         8 pages,      10 a second
//! ```
//!
//! Counts per page equal the machine's. A [`TierRow`] multiplies rates back up. Core keeps its
//! default settings except amounts of memory.
//!
//! **Data and invariants.** All subjects of one seed play the same touches for the same virtual
//! time.
//!
//! **Ignored.** The program's history: it writes its memory once in address order, the first part
//! into fast memory. Everything that the prices ignore.
//!
//! **Source.** "memory tiering: hot page selection", Huang Ying, 2022, for the periods. Assumed, as
//! unpublished: two sockets with 64 GiB of DRAM and 256 GiB of Optane each, 48 threads, and a rate
//! limit of 256 MB a second, which promotes about the published 165 MB a second. The replacement
//! policy is two lists, the default of that kernel.

use super::access_loop::{AccessLoop, Counts, Node, TierAccess};
use super::judge::{Flat, Hottest, Placement};
use super::prices::{Item, TierPrices};
use super::programs::AccessStream;
use super::tally::Migrations;
use super::world::{World, WorldConfig};
use crate::machine::Nanos;
use pagetide_core::lru::PolicyName;
use pagetide_core::tiering::{
    AbstractDistance, MemoryPerformance, Stage, TieringKnobs, TieringSwitches, Topology,
    TopologyError, frames_per_second,
};
use pagetide_core::units::PAGE_BYTES;
use serde::Serialize;

/// Length of the judge's window, in touches per page.
const WINDOW_TOUCHES: usize = 32;
/// Maximum touches between two calls of `keep_on`.
const STRETCH: usize = 1 << 18;

/// The placer of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placer {
    /// None: all memory is fast.
    AllFast,
    /// None: all memory is slow.
    AllSlow,
    /// The first touch: early pages keep fast memory.
    FirstTouch,
    /// An oracle that knows the next window of touches and moves pages for free.
    Oracle,
    /// Core, with these mechanisms.
    Core {
        /// Enabled mechanisms.
        switches: TieringSwitches,
        /// Name in rows.
        name: &'static str,
    },
}

impl Placer {
    /// The bounds, worst first.
    pub const JUDGES: [Placer; 4] =
        [Placer::AllSlow, Placer::FirstTouch, Placer::Oracle, Placer::AllFast];

    /// Returns core with the mechanisms of a stage.
    pub const fn stage(stage: Stage) -> Placer {
        Placer::Core { switches: stage.switches(), name: stage.as_str() }
    }

    /// Returns the name in rows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Placer::AllFast => "all-fast",
            Placer::AllSlow => "all-slow",
            Placer::FirstTouch => "first-touch",
            Placer::Oracle => "oracle",
            Placer::Core { name, .. } => name,
        }
    }
}

/// The machine and the duration of a run.
#[derive(Clone, Copy, Debug)]
pub struct TierSetup {
    /// Frames of the model's nodes, fast and slow.
    pub nr_frames: [u32; 2],
    /// Maximum pages of the program.
    pub nr_pages: u32,
    /// Threads of the machine.
    pub threads: u32,
    /// Size of the machine over the size of the model.
    pub scale: u32,
    /// Prices of the memory.
    pub prices: TierPrices,
    /// Replacement policy, which selects pages to demote.
    pub policy: PolicyName,
    /// Tiering settings of the model, with amounts divided by the scale.
    pub knobs: TieringKnobs,
    /// Run time before the measurement.
    pub warm_up: Nanos,
    /// Duration of the measurement.
    pub measured: Nanos,
}

/// Frames of slow memory per frame of fast memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ratio(pub u32);

impl Ratio {
    /// The ratios in papers.
    pub const ALL: [Ratio; 5] = [Ratio(1), Ratio(2), Ratio(4), Ratio(8), Ratio(16)];
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("1:{}", self.0))
    }
}

/// An invalid ratio.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a ratio is fast to slow memory, 1:1 to 1:64, as in 1:4: fast memory is never the larger")]
pub struct NotARatio;

impl std::str::FromStr for Ratio {
    type Err = NotARatio;

    fn from_str(text: &str) -> Result<Ratio, NotARatio> {
        let slow = text.strip_prefix("1:").and_then(|slow| slow.parse().ok());
        slow.filter(|slow| (1..=64).contains(slow)).map(Ratio).ok_or(NotARatio)
    }
}

impl TierSetup {
    /// Returns the model of the presumed published machine: see the module. A fifth of memory is
    /// fast. The program takes 19/20.
    pub fn published() -> TierSetup {
        TierSetup::scaled(SCALE)
    }

    /// Returns the same model at another scale. The machine has 16 MiB of fast and 64 MiB of slow
    /// memory, times `scale` (1 to 65,536).
    ///
    /// # Panics
    /// Panics if `scale` is 0, or so large that a scan run is less than a page.
    pub fn scaled(scale: u32) -> TierSetup {
        assert!((1..=SCALE_MAX).contains(&scale), "a scale of {scale}");
        let usual = TieringKnobs::default();
        let part = |amount: u64| (amount / u64::from(scale)).max(1);
        TierSetup {
            nr_frames: [4096, 16_384],
            nr_pages: 19_456,
            threads: 48,
            scale,
            prices: TierPrices::OPTANE,
            policy: PolicyName::ActiveInactive,
            knobs: TieringKnobs {
                scan_pages: part(usual.scan_pages),
                scan_rate_max: part(usual.scan_rate_max),
                free_space_frames: part(usual.free_space_frames),
                promote_rate_frames: part(frames_per_second(RATE_LIMIT_MB_PER_S)),
                ..usual
            },
            warm_up: Nanos::from_secs(3000),
            measured: Nanos::from_secs(1800),
        }
    }

    /// Sets the rate limit, in MB (2^20 bytes) a second on the machine.
    pub fn with_rate_limit(mut self, mb_per_s: u64) -> TierSetup {
        let frames = frames_per_second(mb_per_s) / u64::from(self.scale);
        self.knobs.promote_rate_frames = frames.max(1);
        self
    }

    /// Divides the same amount of memory by this ratio.
    pub fn with_ratio(self, ratio: Ratio) -> TierSetup {
        let all = self.nr_frames[0] + self.nr_frames[1];
        let fast = all / (1 + ratio.0);
        TierSetup { nr_frames: [fast, all - fast], ..self }
    }

    /// Returns the machine's nodes in core's order, by performance.
    ///
    /// # Errors
    /// Fails with [`TopologyError`] if the slow node is not slower, or the fast node is larger.
    pub fn topology(&self) -> Result<Topology, TopologyError> {
        let performance = |[read, write, read_mb, write_mb]: [Item; 4]| {
            let number = |item| u32::try_from(self.prices.of(item)).unwrap_or(u32::MAX);
            MemoryPerformance {
                read_latency_ns: number(read),
                write_latency_ns: number(write),
                read_mb_per_s: number(read_mb),
                write_mb_per_s: number(write_mb),
            }
        };
        let fast = [Item::FastRead, Item::FastWrite, Item::FastReadMb, Item::FastWriteMb];
        let slow = [Item::SlowRead, Item::SlowWrite, Item::SlowReadMb, Item::SlowWriteMb];
        let distance = AbstractDistance::of(&performance(slow), &performance(fast))?;
        let [nr_fast, nr_slow] = self.nr_frames.map(u64::from);
        Topology::two_tiers(nr_fast, nr_slow, distance)
    }

    /// Returns the promotion rate limit, in MB (2^20 bytes) a second on the machine.
    pub fn rate_limit_mb_per_s(&self) -> f64 {
        let frames = self.knobs.promote_rate_frames * u64::from(self.scale);
        frames as f64 / frames_per_second(1) as f64
    }
}

const RATE_LIMIT_MB_PER_S: u64 = 256;
/// Machine size over model size, for 64 GiB and 256 GiB a socket.
const SCALE: u32 = 8192;
/// The scale at which a scan run has one page.
pub const SCALE_MAX: u32 = 1 << 16;

/// A row of the table. `--json` prints the field names, so they are stable.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct TierRow {
    /// The program.
    pub workload: &'static str,
    /// The placer.
    pub stage: &'static str,
    /// Accesses a second, on the machine.
    pub accesses_per_s: f64,
    /// Promotion rate, in MB (2^20 bytes) a second, on the machine.
    pub promotion_mb_per_s: f64,
    /// Demotion rate, in the same unit.
    pub demotion_mb_per_s: f64,
    /// Hint faults during the measurement, on the machine.
    pub hint_faults: u64,
    /// Share of accesses that fast memory served, 0 to 1.
    pub fast_share: f64,
    /// Share of judged promotions that repaid their cost before demotion, 0 to 1. 0 without
    /// promotions.
    pub precision: f64,
    /// Share served by fast memory, among accesses of pages that the oracle keeps there, 0 to 1.
    pub recall: f64,
    /// Share of promotions demoted within a minute, 0 to 1.
    pub ping_pong: f64,
}

/// The result of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TierOutcome {
    /// The row of the table.
    pub row: TierRow,
    /// The final threshold, in milliseconds.
    pub threshold_ms: u64,
    /// Bytes copied between nodes during the measurement, on the machine.
    pub migration_bytes: u64,
}

/// Runs `program` with pages placed by `subject`. `keep_on` gets the finished share (0 to 1), and
/// ends the run with `None` by returning `false`.
///
/// # Panics
/// Panics if the frames cannot hold the program's pages, or [`TierSetup::topology`] fails.
///
/// # Cost
/// Some 10 ns an access. The published machine takes a second or two.
pub fn run_while(
    setup: &TierSetup,
    workload: &'static str,
    program: &mut dyn AccessStream,
    subject: Placer,
    mut keep_on: impl FnMut(f64) -> bool,
) -> Option<TierOutcome> {
    let model = Model::new(setup, program.nr_pages(), subject);
    let mut player = Player::new(model, program, setup.nr_frames[0]);
    let measured = player.play(setup, &mut keep_on)?;
    Some(outcome(setup, workload, subject, &measured))
}

/// A model with or without decisions.
enum Model {
    World(Box<World>),
    Flat(Box<Flat>),
}

impl Model {
    fn new(setup: &TierSetup, nr_pages: u32, subject: Placer) -> Model {
        let flat = |placement| {
            let access_loop = AccessLoop::new(setup.prices, nr_pages, setup.threads, setup.scale);
            Model::Flat(Box::new(Flat::new(access_loop, placement)))
        };
        let switches = match subject {
            Placer::AllFast => return flat(Placement::AllFast),
            Placer::AllSlow => return flat(Placement::AllSlow),
            Placer::Oracle => return flat(Placement::Oracle),
            Placer::FirstTouch => None,
            Placer::Core { switches, .. } => Some(switches),
        };
        let config = WorldConfig {
            prices: setup.prices,
            policy: setup.policy,
            knobs: setup.knobs,
            switches,
            nr_pages,
            nr_frames: setup.nr_frames,
            threads: setup.threads,
            scale: setup.scale,
        };
        let topology = setup.topology().expect("a set-up was checked where it came from");
        Model::World(Box::new(World::new(&config, topology)))
    }

    fn access_loop(&self) -> &AccessLoop {
        match self {
            Model::World(world) => world.access_loop(),
            Model::Flat(flat) => flat.access_loop(),
        }
    }

    fn play(&mut self, touches: &[TierAccess]) {
        match self {
            Model::World(world) => world.play(touches),
            Model::Flat(flat) => flat.play(touches),
        }
    }

    fn set_hot(&mut self, hottest: &[u32]) {
        match self {
            Model::World(world) => world.set_hot(hottest),
            Model::Flat(flat) => flat.set_hot(hottest),
        }
    }

    fn start_measuring(&mut self) {
        if let Model::World(world) = self {
            world.start_measuring();
        }
    }
}

struct Measured {
    elapsed_ns: u64,
    counts: Counts,
    migrations: Migrations,
    threshold_ms: u64,
}

struct Player<'a> {
    model: Model,
    program: &'a mut dyn AccessStream,
    window: Vec<TierAccess>,
    at: usize,
    hottest: Hottest,
    nr_hottest: u32,
}

impl<'a> Player<'a> {
    fn new(model: Model, program: &'a mut dyn AccessStream, nr_hottest: u32) -> Player<'a> {
        let hottest = Hottest::new(program.nr_pages());
        Player { model, program, window: Vec::new(), at: 0, hottest, nr_hottest }
    }

    fn play(
        &mut self,
        setup: &TierSetup,
        keep_on: &mut dyn FnMut(f64) -> bool,
    ) -> Option<Measured> {
        let end = setup.warm_up + setup.measured;
        let mut play_to = |player: &mut Player<'_>, until: Nanos| {
            while player.model.access_loop().now_ns() < until.0 {
                player.play_some();
                let now = Nanos(player.model.access_loop().now_ns());
                if !keep_on((now.as_secs() / end.as_secs()).min(1.0)) {
                    return None;
                }
            }
            Some(())
        };
        play_to(self, setup.warm_up)?;
        self.model.start_measuring();
        let (start_ns, before) =
            (self.model.access_loop().now_ns(), *self.model.access_loop().counts());
        play_to(self, end)?;
        let (migrations, threshold_ms) = match &self.model {
            Model::World(world) => (world.migrations(), world.hot_threshold().0),
            Model::Flat(_) => (Migrations::default(), 0),
        };
        if cfg!(debug_assertions)
            && let Model::World(world) = &self.model
        {
            world.validate();
        }
        Some(Measured {
            elapsed_ns: self.model.access_loop().now_ns() - start_ns,
            counts: self.model.access_loop().counts().since(&before),
            migrations,
            threshold_ms,
        })
    }

    fn play_some(&mut self) {
        if self.at == self.window.len() {
            self.window.clear();
            self.at = 0;
            let nr = self.program.nr_pages() as usize * WINDOW_TOUCHES;
            self.program.touch(nr, &mut self.window);
            self.model.set_hot(self.hottest.of(&self.window, self.nr_hottest));
        }
        // Short, so that all subjects end at about the same time.
        let nr = (self.window.len() / 8).clamp(1, STRETCH).min(self.window.len() - self.at);
        self.model.play(&self.window[self.at..][..nr]);
        self.at += nr;
    }
}

fn outcome(
    setup: &TierSetup,
    workload: &'static str,
    subject: Placer,
    measured: &Measured,
) -> TierOutcome {
    let Measured { elapsed_ns, counts, migrations, threshold_ms } = measured;
    let scale = u64::from(setup.scale);
    let per_second = |nr: u64| (nr * scale) as f64 / (*elapsed_ns as f64 / 1e9).max(1e-9);
    let mb_per_s = |frames: u64| per_second(frames) / frames_per_second(1) as f64;
    let share = |part: u64, whole: u64| part as f64 / (whole as f64).max(1.0);
    let (hot, hot_fast) = counts.hot();
    let nr_moved = migrations.nr_promoted + migrations.nr_demoted;
    TierOutcome {
        row: TierRow {
            workload,
            stage: subject.as_str(),
            accesses_per_s: per_second(counts.all()),
            promotion_mb_per_s: mb_per_s(migrations.nr_promoted),
            demotion_mb_per_s: mb_per_s(migrations.nr_demoted),
            hint_faults: migrations.nr_hint_faults * scale,
            fast_share: share(counts.of(Node::Fast), counts.all()),
            precision: share(migrations.nr_paid, migrations.nr_judged),
            recall: share(hot_fast, hot),
            ping_pong: share(migrations.nr_ping_pong, migrations.nr_promoted),
        },
        threshold_ms: *threshold_ms,
        migration_bytes: nr_moved * scale * PAGE_BYTES as u64,
    }
}

#[cfg(test)]
mod tests;
