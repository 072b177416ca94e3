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
//! - *pass*: how long one round of the scan takes, by what rounds cost and find (`pace.rs`). The
//!   scan leaps about (`scattered`): hot pages that lie together are found a few at a time, as
//!   reclaim can make room for them, and some of them soon after they have become hot.
//!
//! **Data and invariants.** In a window no more is spent on moves than an eighth of the threads'
//! time. A saturated fast node, slower under load than slow memory, gets no page.
//!
//! **Deliberately ignored.** What other pages gain when slow memory has less to do.
//!
//! Sources: the thresholds that follow from averages, costs and benefits: ARMS ("Adaptive and
//! robust memory tiering system", 2025). Loaded latencies: Colloid (SOSP 2024). The rest is ours.

mod costs;
mod pace;

pub use costs::TierCosts;

use super::heat::{DOUBLING, Heat, Moved, log_of, log_of_rate, rate_of};
use super::returns::Returns;
use super::sparing::Sparing;
use crate::folio::Folio;
use crate::units::Millis;
use pace::{Pace, WINDOW};

/// Heat to spare, in parts of a doubling, below which a promotion is looked at to set the bar.
const BARELY: u32 = DOUBLING / 2;
/// The highest bar, in the same.
const BAR_MAX: i32 = 4 * DOUBLING as i32;
/// In so long, as many pages should have been demoted as the node has.
const TURNOVER_S: u64 = 12_288;
/// One part in so many of the threads' time at most goes into moves.
const MOVE_PART: u64 = 8;
/// Fast pages that a round of the scan arms: one for so many slow pages.
const SLOW_A_FAST: u64 = 8;

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
    pace: Pace,
    sparing: Sparing,
    /// The time last told.
    now: Millis,
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

    /// Notes what things cost now, and ends the window if it is over. To be called a few times a
    /// window.
    pub fn tell_costs(&mut self, now: Millis, costs: &TierCosts) {
        self.costs = *costs;
        self.now = now;
        let elapsed = now.0.saturating_sub(self.window_start.0);
        if elapsed >= WINDOW.0 {
            self.window_start = now;
            self.end_window(elapsed);
        }
    }

    /// What happens next happens now.
    pub(super) fn tell_time(&mut self, now: Millis) {
        self.now = now;
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
        self.promoted.count_moved(self.now);
        if is_barely {
            self.barely.count_moved(self.now);
        }
        let moved = if is_barely { Moved::Barely } else { Moved::Promoted };
        folio.set_heat(heat.with_moved(moved).0);
        self.nr_promoted += 1;
    }

    /// A page was demoted.
    pub(super) fn note_demoted(&mut self, folio: &Folio) {
        self.demoted.count_moved(self.now);
        self.nr_demoted += 1;
        folio.set_heat(Heat(folio.heat()).with_moved(Moved::Demoted).0);
    }

    /// How long a round of the scan over slow memory should take.
    pub fn pass(&self) -> Millis {
        self.pace.pass(&self.costs)
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

    /// What is known of demoted pages ages where none are demoted: as if some had been, and were
    /// cold. Otherwise a time in which hot ones were would end promotion, and itself never.
    fn doubt(&mut self, elapsed: u64) {
        let turnover = self.nr_fast * elapsed / 1000;
        self.short = (self.short + turnover).saturating_sub(self.nr_demoted * TURNOVER_S);
        self.demoted.count_cold(self.short / TURNOVER_S);
        self.short %= TURNOVER_S;
    }

    /// What a promotion gains in 1024 s, in nanoseconds, as those of late turned out.
    fn gain_of_one(&self) -> u64 {
        let of_page = if self.promoted.is_known() { self.promoted.rate() } else { self.need };
        of_page.saturating_sub(self.leaving()) * self.delta()
    }

    /// Raises the bar if the last to pass it should not have, and lowers it otherwise.
    fn adjust_bar(&mut self) {
        let nr_news = self.barely.take_news();
        if !self.barely.is_known() || nr_news < 4 {
            // Slowly, so that a page passes some day.
            self.bar = (self.bar - i32::from(self.nr_windows.is_multiple_of(8))).max(0);
            return;
        }
        let step = if self.barely.rate() < self.need { 16 } else { -8 };
        self.bar = (self.bar + step).clamp(0, BAR_MAX);
    }

    /// What a page needs, from all that is known.
    fn look(&mut self) {
        let earned = self.delta().saturating_mul(self.pace.stay(self.nr_fast)).max(1);
        self.need = self.leaving() + (self.costs.move_ns * 1024).div_ceil(earned);
        self.cut = log_of_rate(self.need).saturating_sub(self.bar.unsigned_abs());
    }
}

#[cfg(test)]
mod tests;
