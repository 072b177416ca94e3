//! Promotion without knobs: a page moves up if the move is expected to pay.
//!
//! **Problem.** A hot threshold, a rate limit and a scan period depend on the program and the
//! machine.
//!
//! **Idea.** A promotion costs the move and the page that leaves. Both are measured: every moved
//! page is armed at once, and its next fault shows its heat.
//!
//! ```text
//!   slow page, heat so far -----> worth more than the leaving page? ----------yes--> promoted
//!        ^--- unsure: again at once -----'                                               |
//!                                        ^                                               |
//!   demoted pages: how soon touched? ----+  need = leaving + price / (gain x stay)       |
//!                                        ^                                               |
//!                                        +---- raise or lower the bar <-- how soon touched?
//! ```
//!
//! - *need*: accesses that justify a promotion: the rate of recently demoted pages, plus the rate
//!   that repays the move. Each access gains the difference of the loaded latencies, for the mean
//!   stay (frames of the node by promotions a second).
//! - *bar*: pages chosen by an estimate are colder than it says. If pages promoted barely turn out
//!   colder than *need*, the bar rises.
//! - *pass*: duration of one scan round, from the cost and yield of rounds (`pace.rs`). The order
//!   is scattered, so that reclaim can follow when adjacent pages are hot.
//!
//! **Data and invariants.** Moves take at most an eighth of the threads' time per window. A
//! saturated fast node, slower under load than slow memory, gets no page.
//!
//! **Ignored.** The gain of other pages when slow memory has less load.
//!
//! **Sources.** Thresholds from costs and benefits: ARMS ("Adaptive and robust memory tiering
//! system", 2025). Loaded latencies: Colloid (SOSP 2024). The rest is original.

mod costs;
mod pace;

pub use costs::TierCosts;

use super::heat::{DOUBLING, Heat, Moved, log_of, log_of_rate, rate_of};
use super::returns::Returns;
use super::sparing::Sparing;
use crate::folio::Folio;
use crate::units::Millis;
use pace::{Pace, WINDOW};

/// Spare heat below which a promotion adjusts the bar. In 1/[`DOUBLING`] of a doubling.
const BARELY: u32 = DOUBLING / 2;
/// Highest bar, same unit.
const BAR_MAX: i32 = 4 * DOUBLING as i32;
/// Seconds for as many demotions as the node has pages.
const TURNOVER_S: u64 = 12_288;
/// Divisor of the threads' time that bounds moves.
const MOVE_PART: u64 = 8;
/// Slow pages per fast page that a scan round arms.
const SLOW_A_FAST: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Worth {
    /// Less than a place in fast memory.
    Cold,
    /// More than a place in fast memory.
    Hot,
    /// Unknown, after one short latency: arm again.
    Unsure,
}

/// Promotion policy of one fast node.
#[derive(Clone, Debug)]
pub struct Auto {
    costs: TierCosts,
    nr_fast: u64,
    /// Average heat of slow pages, as a logarithm.
    usual: u32,
    demoted: Returns,
    promoted: Returns,
    barely: Returns,
    /// Sample of pages that stay in fast memory.
    staying: Returns,
    nr_windows: u64,
    bar: i32,
    /// Accesses in 1024 s that a promotion needs.
    need: u64,
    /// Need and bar, as a logarithm of latency.
    cut: u32,
    window_start: Millis,
    nr_promoted: u64,
    nr_demoted: u64,
    /// Missing demotions of the turnover, times [`TURNOVER_S`].
    short: u64,
    pace: Pace,
    sparing: Sparing,
    now: Millis,
}

impl Auto {
    /// Creates the policy for a fast node with `nr_fast` frames.
    pub fn new(nr_fast: u64) -> Auto {
        // Awaited pages must be few compared to remembered ones.
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
            bar: 0,
            need: 0,
            cut: 0,
            window_start: Millis(0),
            nr_promoted: 0,
            nr_demoted: 0,
            short: 0,
            pace: Pace::default(),
            sparing: Sparing::default(),
            now: Millis(0),
        };
        auto.look();
        auto
    }

    /// Records current costs. Call this a few times per window.
    pub fn tell_costs(&mut self, now: Millis, costs: &TierCosts) {
        self.costs = *costs;
        self.now = now;
        let elapsed = now.0.saturating_sub(self.window_start.0);
        if elapsed >= WINDOW.0 {
            self.window_start = now;
            self.end_window(elapsed);
        }
    }

    pub(super) fn tell_time(&mut self, now: Millis) {
        self.now = now;
    }

    /// Judges a slow page touched `latency` after it was armed.
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
            self.demoted.count_back(self.now, latency);
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

    /// Records the latency of a fast page. Returns true to arm it again.
    pub(super) fn note_fast(&mut self, latency: Millis, folio: &Folio) -> bool {
        let sample = log_of(latency);
        let heat = Heat(folio.heat());
        let is_promoted = matches!(heat.moved(), Moved::Promoted | Moved::Barely);
        if is_promoted && let Some(in_burst) = heat.in_burst(sample) {
            folio.set_heat(in_burst.0);
            return true;
        }
        match heat.moved() {
            Moved::No | Moved::Demoted => self.staying.count_back(self.now, latency),
            Moved::Promoted => self.promoted.count_back(self.now, latency),
            Moved::Barely => {
                self.promoted.count_back(self.now, latency);
                self.barely.count_back(self.now, latency);
            }
        }
        folio.set_heat(heat.with_sample(sample, self.usual).0);
        false
    }

    /// Returns true if a victim stays. `waited` is the time since arming.
    pub(super) fn spares(&mut self, folio: &Folio, waited: Option<Millis>) -> bool {
        self.sparing.spares(Heat(folio.heat()), waited)
    }

    pub(super) fn is_affordable(&self) -> bool {
        self.nr_promoted < self.moves_max()
    }

    /// Returns the promotions allowed per window.
    pub fn moves_max(&self) -> u64 {
        (self.costs.thread_ns_per_s / MOVE_PART / self.costs.move_ns.max(1)).max(1)
    }

    pub(super) fn note_promoted(&mut self, folio: &Folio) {
        let heat = Heat(folio.heat());
        let is_barely = heat.log() + BARELY > self.cut;
        self.promoted.count_moved(self.now);
        if is_barely {
            self.barely.count_moved(self.now);
        }
        let moved = if is_barely { Moved::Barely } else { Moved::Promoted };
        folio.set_heat(heat.with_moved(moved).0);
        self.nr_promoted += 1;
    }

    pub(super) fn note_demoted(&mut self, folio: &Folio) {
        self.demoted.count_moved(self.now);
        self.nr_demoted += 1;
        folio.set_heat(Heat(folio.heat()).with_moved(Moved::Demoted).0);
    }

    /// Returns the duration of a scan round over slow memory.
    pub fn pass(&self) -> Millis {
        self.pace.pass(&self.costs)
    }

    /// Returns the latency below which pages are promoted.
    pub fn threshold(&self) -> Millis {
        Millis(1024 * 1000 / rate_of(self.cut).max(1))
    }

    /// Returns the gain of an access in fast memory, ns.
    fn delta(&self) -> u64 {
        self.costs.slow_ns.saturating_sub(self.costs.fast_ns)
    }

    fn has_gain(&self) -> bool {
        self.delta() > 0
    }

    /// Returns the rate of leaving pages, in accesses per 1024 s.
    fn leaving(&self) -> u64 {
        let staying = if self.staying.is_known() { self.staying.rate() } else { u64::MAX };
        self.demoted.rate().min(staying)
    }

    /// Returns true if the scan arms this fast page as a sample.
    pub(super) fn wants_fast(&mut self, page: u64) -> bool {
        let stride = (self.nr_fast * SLOW_A_FAST / self.costs.nr_slow.max(1)).max(1);
        let is_wanted = (page + self.nr_windows).is_multiple_of(stride);
        if is_wanted {
            self.staying.count_moved(self.now);
        }
        is_wanted
    }

    fn end_window(&mut self, elapsed: u64) {
        self.pace.end_window(elapsed, self.nr_promoted, self.gain_of_one());
        self.doubt(elapsed);
        (self.nr_promoted, self.nr_demoted) = (0, 0);
        self.nr_windows += 1;
        let now = self.now;
        for returns in [&mut self.demoted, &mut self.promoted, &mut self.barely, &mut self.staying]
        {
            returns.tell_time(now);
        }
        self.adjust_bar();
        self.look();
    }

    /// Counts missing demotions as cold pages, lest hot demotions end promotion for good.
    fn doubt(&mut self, elapsed: u64) {
        let turnover = self.nr_fast * elapsed / 1000;
        self.short = (self.short + turnover).saturating_sub(self.nr_demoted * TURNOVER_S);
        self.demoted.count_cold(self.short / TURNOVER_S);
        self.short %= TURNOVER_S;
    }

    /// Returns the gain of a recent promotion in 1024 s, ns.
    fn gain_of_one(&self) -> u64 {
        let of_page = if self.promoted.is_known() { self.promoted.rate() } else { self.need };
        of_page.saturating_sub(self.leaving()) * self.delta()
    }

    /// Raises the bar if the last promoted pages were too cold, else lowers it.
    fn adjust_bar(&mut self) {
        let nr_news = self.barely.take_news();
        if !self.barely.is_known() || nr_news < 4 {
            // Slowly, so that some page passes eventually.
            self.bar = (self.bar - i32::from(self.nr_windows.is_multiple_of(8))).max(0);
            return;
        }
        let step = if self.barely.rate() < self.need { 16 } else { -8 };
        self.bar = (self.bar + step).clamp(0, BAR_MAX);
    }

    fn look(&mut self) {
        let earned = self.delta().saturating_mul(self.pace.stay(self.nr_fast)).max(1);
        self.need = self.leaving() + (self.costs.move_ns * 1024).div_ceil(earned);
        self.cut = log_of_rate(self.need).saturating_sub(self.bar.unsigned_abs());
    }
}

#[cfg(test)]
mod tests;
