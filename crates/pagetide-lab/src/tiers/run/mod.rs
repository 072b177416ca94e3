//! One run: a program on a machine, warmed up, then measured.
//!
//! **Problem.** The published figures are of a machine with tens of gigabytes, on which one scan of
//! memory takes a minute and the threshold ten minutes to settle.
//!
//! **Idea.** A model that is `scale` times smaller in everything that is an amount, and true to
//! time:
//!
//! ```text
//!   machine          640 GiB   48 threads   79 GB/s   scan 256 MiB a run, 10 a second at most
//!   model, 1 : 8192   80 MiB    x 1/8192   x 1/8192         8 pages,      10 a second
//! ```
//!
//! What matters happens per page: accesses between two scans, faults and moves per scan, and they
//! are as many as over there. Rates are multiplied up again: a [`TierRow`] is about the
//! machine. The same model is had by making time run faster instead of threads fewer; this way core
//! runs with the numbers it ships with, but for those that are amounts of memory.
//!
//! **Data and invariants.** All subjects of one seed play the same touches, for the same virtual
//! time.
//!
//! **Ignored.** How the program got there: its memory is written once, in order of addresses, so
//! that the first of it is in fast memory. Whatever the prices ignore.
//!
//! **Sources.** Ratio, distribution and periods: the benchmark specification, section D. Not in the
//! published text, and taken here: the size of memory (two sockets with 64 GiB of DRAM and 256 GiB
//! of Optane each), 48 threads, and the rate limit. That is 256 MB a second, with which the limited
//! runs promote about as much as the published ones, 165 MB a second: while the scan is where
//! memory is cold, the limit is not reached. The replacement policy is two lists, the default of
//! that kernel.

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

/// Touches of each page, on average, that the judge looks ahead.
const WINDOW_TOUCHES: usize = 32;
/// Touches between two questions whether to go on, at most.
const STRETCH: usize = 1 << 18;

/// What places pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placer {
    /// Nothing: all memory is fast.
    AllFast,
    /// Nothing: all memory is slow.
    AllSlow,
    /// The first touch: the pages that come first have fast memory, for good.
    FirstTouch,
    /// An oracle that knows the next window of touches, and moves pages for free.
    Oracle,
    /// Core, with these mechanisms.
    Core {
        /// What is on.
        switches: TieringSwitches,
        /// What to call it.
        name: &'static str,
    },
}

impl Placer {
    /// The bounds, worst first.
    pub const JUDGES: [Placer; 4] =
        [Placer::AllSlow, Placer::FirstTouch, Placer::Oracle, Placer::AllFast];

    /// The mechanisms of a stage.
    pub const fn stage(stage: Stage) -> Placer {
        Placer::Core { switches: stage.switches(), name: stage.as_str() }
    }

    /// As it is called in a row.
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

/// The machine and the stretch of time that a run is made of.
#[derive(Clone, Copy, Debug)]
pub struct TierSetup {
    /// Frames of the model's nodes, fast and slow.
    pub nr_frames: [u32; 2],
    /// Pages of the program, at most.
    pub nr_pages: u32,
    /// Threads of the machine.
    pub threads: u32,
    /// How many times larger than the model the machine is.
    pub scale: u32,
    /// What its memory costs.
    pub prices: TierPrices,
    /// Which replacement policy says what is demoted.
    pub policy: PolicyName,
    /// The numbers of tiering, for the model: amounts are divided by the scale.
    pub knobs: TieringKnobs,
    /// How long the program has run when the measurement begins.
    pub warm_up: Nanos,
    /// How long that lasts.
    pub measured: Nanos,
}

/// So many frames of slow memory to one of fast memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ratio(pub u32);

impl Ratio {
    /// The ratios that papers compare.
    pub const ALL: [Ratio; 5] = [Ratio(1), Ratio(2), Ratio(4), Ratio(8), Ratio(16)];
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("1:{}", self.0))
    }
}

/// There is no such ratio.
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
    /// The model of the machine that the published figures may be of: see the module. Fast memory
    /// is a fifth, and 19 parts in 20 of all memory are the program's.
    pub fn published() -> TierSetup {
        TierSetup::scaled(SCALE)
    }

    /// The same model, of a machine of another size: 16 MiB of fast and 64 MiB of slow memory,
    /// times `scale` (1 to 65,536).
    ///
    /// # Panics
    /// With a scale of 0, or one at which a run of the scan is less than a page.
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

    /// The same with another rate limit: MB (2^20 bytes) a second, on the machine.
    pub fn with_rate_limit(mut self, mb_per_s: u64) -> TierSetup {
        let frames = frames_per_second(mb_per_s) / u64::from(self.scale);
        self.knobs.promote_rate_frames = frames.max(1);
        self
    }

    /// The same amount of memory, divided like this.
    pub fn with_ratio(self, ratio: Ratio) -> TierSetup {
        let all = self.nr_frames[0] + self.nr_frames[1];
        let fast = all / (1 + ratio.0);
        TierSetup { nr_frames: [fast, all - fast], ..self }
    }

    /// The machine's nodes as core orders them, by how they perform.
    ///
    /// # Errors
    /// [`TopologyError`], if the slow node is no slower, or the fast one the larger.
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

    /// Promotions a second, in MB (2^20 bytes) on the machine, at which the limit is.
    pub fn rate_limit_mb_per_s(&self) -> f64 {
        let frames = self.knobs.promote_rate_frames * u64::from(self.scale);
        frames as f64 / frames_per_second(1) as f64
    }
}

/// See the module.
const RATE_LIMIT_MB_PER_S: u64 = 256;
/// How many times as large as the model the machine is taken to be: 64 GiB and 256 GiB a socket.
const SCALE: u32 = 8192;
/// A run of the scan has one page.
pub const SCALE_MAX: u32 = 1 << 16;

/// A line of the table. The field names are what `--json` prints, and stay.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct TierRow {
    /// The program.
    pub workload: &'static str,
    /// What placed its pages.
    pub stage: &'static str,
    /// Accesses a second, on the machine.
    pub accesses_per_s: f64,
    /// Promoted, in MB (2^20 bytes) a second, on the machine.
    pub promotion_mb_per_s: f64,
    /// Demoted.
    pub demotion_mb_per_s: f64,
    /// Hint faults of the measured stretch, on the machine.
    pub hint_faults: u64,
    /// Accesses that fast memory served, 0 to 1.
    pub fast_share: f64,
    /// Promotions that earned their cost back before they were demoted, of those judged: 0 to 1,
    /// and 0 without promotions.
    pub precision: f64,
    /// Accesses of the pages that the oracle has in fast memory that fast memory served, 0 to 1.
    pub recall: f64,
    /// Promotions demoted within a minute, of all: 0 to 1.
    pub ping_pong: f64,
}

/// What a run answers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TierOutcome {
    /// The line of the table.
    pub row: TierRow,
    /// The threshold at the end, in milliseconds.
    pub threshold_ms: u64,
    /// Bytes copied from node to node in the measured stretch, on the machine.
    pub migration_bytes: u64,
}

/// Runs `program` where `subject` places its pages: `None` when `keep_on`, which is given how much
/// of it is done (0 to 1), said no.
///
/// # Panics
/// When the frames do not hold the program's pages, or [`TierSetup::topology`] fails.
///
/// # Cost
/// Some 10 ns an access; with the published machine a second or two.
pub fn run_while(
    setup: &TierSetup,
    workload: &'static str,
    program: &mut dyn AccessStream,
    subject: Placer,
    keep_on: impl FnMut(f64) -> bool,
) -> Option<TierOutcome> {
    let model = Model::new(setup, program.nr_pages(), subject);
    let mut player = Player::new(model, program, setup.nr_frames[0]);
    let measured = player.play(setup, keep_on)?;
    Some(outcome(setup, workload, subject, &measured))
}

/// With decisions, or without.
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

/// What was measured, in the model.
struct Measured {
    elapsed_ns: u64,
    counts: Counts,
    migrations: Migrations,
    threshold_ms: u64,
}

/// A machine, a program, and the window of touches under way.
struct Player<'a> {
    model: Model,
    program: &'a mut dyn AccessStream,
    window: Vec<TierAccess>,
    /// Touches of the window that were played.
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
        mut keep_on: impl FnMut(f64) -> bool,
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

    /// Plays a stretch of the window, or of the next one.
    fn play_some(&mut self) {
        if self.at == self.window.len() {
            self.window.clear();
            self.at = 0;
            let nr = self.program.nr_pages() as usize * WINDOW_TOUCHES;
            self.program.touch(nr, &mut self.window);
            self.model.set_hot(self.hottest.of(&self.window, self.nr_hottest));
        }
        // Short enough that all subjects end at about the same time.
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
