//! Promotion without knobs: a page moves up when that is expected to pay.
//!
//! **Problem.** A threshold says which pages are hot, a rate how many of them move, a period how
//! soon they are found. The right numbers depend on the program, and on how much fast memory there
//! is; found by trial, they are right for yesterday.
//!
//! **Idea.** A place in fast memory costs the page that has to leave it, and the move. Both are
//! measured: every page that is moved is armed at once, in either direction, and its next fault
//! says how hot it was.
//!
//! ```text
//!   slow page, heat so far -----> worth more than the page that would leave? --yes--> promoted
//!        ^--- unsure: again at once -----'                                               |
//!                                        ^                                               |
//!   demoted pages: how soon touched? ----+  need = leaving + price / (gain x stay)       |
//!                                        ^                                               |
//!                                        +---- raise or lower the bar <-- how soon touched?
//! ```
//!
//! - *need*: the accesses that a page must have to be promoted. Those of the pages demoted of late,
//!   and as many more as earn the move back: each gains what slow memory takes longer than fast
//!   memory, loaded as they are, for as long as pages stay (the node's frames by the promotions a
//!   second).
//! - *bar*: heat is an estimate, and the pages chosen by it are colder than it says. Those promoted
//!   with no heat to spare are looked at: colder than *need*, and the bar goes up.
//! - *pass*: how long one round of the scan takes. Fast rounds cost faults, slow ones leave hot
//!   pages where they are; with `cost` of a round and `gain` found a second the sum is least at
//!   sqrt(2 cost / gain). The gain is the larger of a short average and a long one, so that a hot
//!   set that has moved is looked for at once.
//!
//! **Data and invariants.** In a window no more is spent on moves than an eighth of the threads'
//! time. A saturated fast node, slower under load than slow memory, gets no page.
//!
//! **Deliberately ignored.** What other pages gain when slow memory has less to do.
//!
//! Sources: the thresholds that follow from averages, costs and benefits: ARMS ("Adaptive and
//! robust memory tiering system", 2025). Loaded latencies: Colloid (SOSP 2024). The rest is ours.

use super::heat::{DOUBLING, Heat, Moved, log_of, log_of_rate, rate_of};
use super::returns::Returns;
use super::sparing::Sparing;
use super::topology::AbstractDistance;
use crate::folio::Folio;
use crate::units::Millis;

/// How long a window is.
const WINDOW: Millis = Millis(1000);
/// The bar, in parts of a doubling of heat.
/// Heat to spare, below which a promotion is looked at to set the bar.
const BARELY: u32 = DOUBLING / 2;
const BAR_MAX: i32 = 4 * DOUBLING as i32;
/// How long pages are taken to stay, in seconds.
const STAY_MIN_S: u64 = 8;
const STAY_MAX_S: u64 = 512;
/// In so long, as many pages should have been demoted as the node has.
const TURNOVER_S: u64 = 12_288;
/// One part in so many of the threads' time at most goes into moves, and into a round of the scan;
/// and at least into a round.
const MOVE_PART: u64 = 8;
const SCAN_PART_MAX: u64 = 16;
const SCAN_PART_MIN: u64 = 64;
/// Fast pages that a round of the scan arms: one for so many slow pages.
const SLOW_A_FAST: u64 = 8;
/// Averages of windows: one part in so many is the newest.
const SHORT: u64 = 8;
const LONG: u64 = 64;

/// What only the world knows: measured, or told by whoever made the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierCosts {
    /// What an access of fast memory takes now, loaded as it is, in nanoseconds.
    pub fast_ns: u64,
    /// What one of slow memory takes.
    pub slow_ns: u64,
    /// What arming a page and its fault take.
    pub hint_fault_ns: u64,
    /// What a promotion and the demotion that makes room for it take.
    pub move_ns: u64,
    /// How much time all threads have in a second: a second each.
    pub thread_ns_per_s: u64,
    /// Pages in slow memory.
    pub nr_slow: u64,
}

impl TierCosts {
    /// Those of a world that arms its words and moves its pages by itself, without the kernel: a
    /// fault is a lock, and a move a copy.
    pub fn in_user_space(
        fast: AbstractDistance,
        slow: AbstractDistance,
        nr_slow: u64,
    ) -> TierCosts {
        TierCosts {
            fast_ns: fast.access_ns(),
            slow_ns: slow.access_ns(),
            hint_fault_ns: 300,
            move_ns: 4000,
            nr_slow: nr_slow.max(1),
            ..TierCosts::default()
        }
    }
}

impl Default for TierCosts {
    /// Those of DRAM and of memory three times as slow, with one thread.
    fn default() -> TierCosts {
        TierCosts {
            fast_ns: 100,
            slow_ns: 300,
            hint_fault_ns: 1000,
            move_ns: 6000,
            thread_ns_per_s: 1_000_000_000,
            nr_slow: 1,
        }
    }
}

/// What a page of slow memory is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Worth {
    /// Less than a place in fast memory.
    Cold,
    /// More.
    Hot,
    /// Its last latency was short, but is not enough to go by: it is armed again.
    Unsure,
}

/// The judgement of one fast node's promotions. See the module.
#[derive(Clone, Debug)]
pub struct Auto {
    costs: TierCosts,
    nr_fast: u64,
    /// What slow pages show on average, as a logarithm.
    usual: u32,
    demoted: Returns,
    promoted: Returns,
    barely: Returns,
    /// Of pages that stay in fast memory, some.
    staying: Returns,
    /// Windows so far.
    nr_windows: u64,
    /// Marginal promotions touched or made since the bar was looked at.
    nr_news: u32,
    bar: i32,
    /// Accesses in 1024 s that a page must have.
    need: u64,
    /// That, and the bar, as a logarithm of latencies.
    cut: u32,
    window_start: Millis,
    /// Promotions and demotions of this window.
    nr_promoted: u64,
    nr_demoted: u64,
    /// Demotions short of a turnover, times [`TURNOVER_S`].
    short: u64,
    /// Promotions a second, times 1024; and what they gain: nanoseconds in 1024 s.
    promoted_long: u64,
    gain_short: u64,
    gain_long: u64,
    sparing: Sparing,
}

impl Auto {
    /// Nothing known yet of a fast node with so many frames.
    pub fn new(nr_fast: u64) -> Auto {
        // Those awaited still are to be few beside those remembered.
        let part = |part: u64, least: u32| {
            Returns::new(u32::try_from(nr_fast / part).unwrap_or(u32::MAX >> 1).max(least))
        };
        let mut auto = Auto {
            costs: TierCosts::default(),
            nr_fast,
            usual: 0,
            demoted: part(16, 256),
            promoted: part(64, 64),
            barely: part(16, 256),
            staying: part(64, 64),
            nr_windows: 0,
            nr_news: 0,
            bar: 0,
            need: 0,
            cut: 0,
            window_start: Millis(0),
            nr_promoted: 0,
            nr_demoted: 0,
            short: 0,
            promoted_long: 0,
            gain_short: 0,
            gain_long: 0,
            sparing: Sparing::default(),
        };
        auto.look();
        auto
    }

    /// Notes what things cost now, and ends the window if it is over. To be called a few times a
    /// window.
    pub fn tell_costs(&mut self, now: Millis, costs: &TierCosts) {
        self.costs = *costs;
        let elapsed = now.0.saturating_sub(self.window_start.0);
        if elapsed >= WINDOW.0 {
            self.window_start = now;
            self.end_window(elapsed);
        }
    }

    /// Judges a page of slow memory that was touched so long after it was armed.
    pub(super) fn judge(&mut self, latency: Millis, folio: &Folio) -> Worth {
        let sample = log_of(latency);
        let heat = Heat(folio.heat());
        if heat.is_armed_again()
            && let Some(in_burst) = heat.in_burst(sample)
        {
            folio.set_heat(in_burst.0);
            return Worth::Unsure;
        }
        if heat.moved() == Moved::Demoted {
            self.demoted.count_back(latency);
        }
        self.usual = match self.usual {
            0 => sample,
            usual => (usual * 63 + sample) / 64,
        };
        let heat = heat.with_sample(sample, self.usual);
        let (worth, heat) = if heat.log() < self.cut && self.has_gain() {
            (Worth::Hot, heat)
        } else if sample < self.cut && self.has_gain() && !heat.is_settled() {
            (Worth::Unsure, heat.armed_again())
        } else {
            (Worth::Cold, heat)
        };
        folio.set_heat(heat.0);
        worth
    }

    /// The same of a page of fast memory, which was armed when it was promoted; `true` asks for
    /// that again.
    pub(super) fn note_fast(&mut self, latency: Millis, folio: &Folio) -> bool {
        let sample = log_of(latency);
        let heat = Heat(folio.heat());
        let is_promoted = matches!(heat.moved(), Moved::Promoted | Moved::Barely);
        if is_promoted && let Some(in_burst) = heat.in_burst(sample) {
            folio.set_heat(in_burst.0);
            return true;
        }
        match heat.moved() {
            Moved::No | Moved::Demoted => self.staying.count_back(latency),
            Moved::Promoted => self.promoted.count_back(latency),
            Moved::Barely => {
                self.promoted.count_back(latency);
                self.barely.count_back(latency);
                self.nr_news += 1;
            }
        }
        folio.set_heat(heat.with_sample(sample, self.usual).0);
        false
    }

    /// Whether a victim of reclaim stays; `waited` is how long it has been armed, if it is.
    pub(super) fn spares(&mut self, folio: &Folio, waited: Option<Millis>) -> bool {
        self.sparing.spares(Heat(folio.heat()), waited)
    }

    /// Whether the window allows one more promotion.
    pub(super) fn is_affordable(&self) -> bool {
        self.nr_promoted < self.moves_max()
    }

    /// Promotions that a window allows.
    pub fn moves_max(&self) -> u64 {
        (self.costs.thread_ns_per_s / MOVE_PART / self.costs.move_ns.max(1)).max(1)
    }

    /// A page was promoted: its folio is the new one.
    pub(super) fn note_promoted(&mut self, folio: &Folio) {
        let heat = Heat(folio.heat());
        let is_barely = heat.log() + BARELY > self.cut;
        self.promoted.count_moved();
        if is_barely {
            self.barely.count_moved();
        }
        let moved = if is_barely { Moved::Barely } else { Moved::Promoted };
        folio.set_heat(heat.with_moved(moved).0);
        self.nr_promoted += 1;
    }

    /// A page was demoted.
    pub(super) fn note_demoted(&mut self, folio: &Folio) {
        self.demoted.count_moved();
        self.nr_demoted += 1;
        folio.set_heat(Heat(folio.heat()).with_moved(Moved::Demoted).0);
    }

    /// How long a round of the scan over slow memory should take.
    pub fn pass(&self) -> Millis {
        let cost = self.costs.nr_slow.saturating_mul(self.costs.hint_fault_ns);
        let found = self.gain_short.max(self.gain_long).max(1);
        // In seconds, squared, times 2^20: milliseconds are close enough to 1024ths.
        let square = u128::from(cost) * 2 * 1024 * (1 << 20) / u128::from(found);
        let millis = u64::try_from(square).unwrap_or(u64::MAX).isqrt();
        let of_time = |part: u64| {
            u128::from(cost) * 1000 * u128::from(part)
                / u128::from(self.costs.thread_ns_per_s.max(1))
        };
        let [min, max] = [SCAN_PART_MAX, SCAN_PART_MIN]
            .map(|part| u64::try_from(of_time(part)).unwrap_or(u64::MAX).max(1));
        Millis(millis.clamp(min, max))
    }

    /// The latency below which a page is promoted.
    pub fn threshold(&self) -> Millis {
        Millis(1024 * 1000 / rate_of(self.cut).max(1))
    }

    /// Nanoseconds that an access gains in fast memory.
    fn delta(&self) -> u64 {
        self.costs.slow_ns.saturating_sub(self.costs.fast_ns)
    }

    fn has_gain(&self) -> bool {
        self.delta() > 0
    }

    /// Accesses in 1024 s of the pages that make room. They are the coldest: if those that stay are
    /// colder, the hot set has moved since any were demoted.
    fn leaving(&self) -> u64 {
        let staying = if self.staying.is_known() { self.staying.rate() } else { u64::MAX };
        self.demoted.rate().min(staying)
    }

    /// Whether the scan arms this page of fast memory, to know how hot those are that stay.
    pub(super) fn wants_fast(&mut self, page: u64) -> bool {
        let stride = (self.nr_fast * SLOW_A_FAST / self.costs.nr_slow.max(1)).max(1);
        let is_wanted = (page + self.nr_windows).is_multiple_of(stride);
        if is_wanted {
            self.staying.count_moved();
        }
        is_wanted
    }

    /// Seconds that a page stays in fast memory.
    fn stay(&self) -> u64 {
        (self.nr_fast * 1024 / self.promoted_long.max(1)).clamp(STAY_MIN_S, STAY_MAX_S)
    }

    fn end_window(&mut self, elapsed: u64) {
        let per_second = |amount: u64| u128::from(amount) * 1000 / u128::from(elapsed);
        let promoted = per_second(self.nr_promoted * 1024) as u64;
        let gain = promoted.saturating_mul(self.gain_of_one()) >> 10;
        let average = |old: u64, new: u64, part: u64| (old * (part - 1) + new).div_ceil(part);
        let windows = (elapsed / WINDOW.0).min(4 * LONG);
        for _ in 0..windows {
            self.gain_short = average(self.gain_short, gain, SHORT);
            self.gain_long = average(self.gain_long, gain, LONG);
            self.promoted_long = average(self.promoted_long, promoted, LONG);
        }
        self.doubt(elapsed);
        (self.nr_promoted, self.nr_demoted) = (0, 0);
        self.nr_windows += 1;
        self.staying.adjust();
        self.demoted.adjust();
        self.promoted.adjust();
        self.barely.adjust();
        self.adjust_bar();
        self.look();
    }

    /// What is known of demoted pages ages where none are demoted: as if some had been, and were
    /// cold. Otherwise a time in which hot ones were would end promotion, and itself never.
    fn doubt(&mut self, elapsed: u64) {
        let turnover = self.nr_fast * elapsed / 1000;
        self.short = (self.short + turnover).saturating_sub(self.nr_demoted * TURNOVER_S);
        for _ in 0..(self.short / TURNOVER_S).min(self.demoted.memory.into()) {
            self.demoted.count_moved();
        }
        self.short %= TURNOVER_S;
    }

    /// What a promotion gains in 1024 s, in nanoseconds, as those of late turned out.
    fn gain_of_one(&self) -> u64 {
        let of_page = if self.promoted.is_known() { self.promoted.rate() } else { self.need };
        of_page.saturating_sub(self.leaving()) * self.delta()
    }

    /// Raises the bar if the last to pass it should not have, and lowers it otherwise.
    fn adjust_bar(&mut self) {
        if !self.barely.is_known() || self.nr_news < 4 {
            // Slowly, so that somebody passes some day.
            self.bar = (self.bar - i32::from(self.nr_windows.is_multiple_of(8))).max(0);
            return;
        }
        self.nr_news = 0;
        let step = if self.barely.rate() < self.need { 16 } else { -8 };
        self.bar = (self.bar + step).clamp(0, BAR_MAX);
    }

    /// What a page needs, from all that is known.
    fn look(&mut self) {
        let earned = self.delta().saturating_mul(self.stay()).max(1);
        self.need = self.leaving() + (self.costs.move_ns * 1024).div_ceil(earned);
        self.cut = log_of_rate(self.need).saturating_sub(self.bar.unsigned_abs());
    }
}

#[cfg(test)]
mod tests;
