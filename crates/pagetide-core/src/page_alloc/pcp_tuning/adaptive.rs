//! The limit grows by what would have saved a contended visit, and by nothing else. Our own.
//!
//! **Problem.** A refill alone says little: a CPU that only allocates refills all day, and longer
//! lists would hold nothing for it. Nor does a refill hurt while the lock is free.
//!
//! **Idea.** Keep the *balance of trade* with the zone: frames fetched less frames sent back, of
//! late. Frames that come free while the balance is positive were fetched a moment ago, and will
//! be wanted again; frames fetched while it is negative were sent back too early. Either way `high`
//! was short by that much, and is raised by it, but only while the zone's lock is contended.
//!
//! ```text
//!   balance   +  .---fetch---.
//!             0 -'            `--free: high += balance, keep--.        fetch: high += -balance
//!             -                                               `--send--'
//!
//!   allocates only:  balance > 0, nothing comes free  -> high stays, batches grow
//!   frees only:      balance < 0, nothing is fetched  -> high stays, batches grow
//!   both, in turns:  high grows to the depth of the turns, in one turn
//!   no wait:         nothing grows
//! ```
//!
//! A tick halves the balance, so that what was fetched long ago earns nothing. It also knows how
//! few frames the lists came down to since the last one: those were not needed, and `high` gives
//! them up, an eighth of it after one such tick, a quarter after the next, then half. Lists that
//! came down to an eighth of `high` in between are busy, and keep all they have.
//!
//! While free frames are under HIGH, lists are no store any more, but batches stay large where the
//! lock is contended: small ones would make all CPUs wait, and free no frame sooner. A run of
//! allocations fetches 7 batches at a time, a run of frees collects 16 before it sends them: less
//! than four are idle on average, and what a run leaves behind goes with the second tick. While
//! background reclaim is at work, four batches are the most.
//!
//! **Data and invariants.** 16 bytes. A free adds to `free_count`, an allocation halves it and
//! notes the least count; all else happens at refills, drains and ticks. `high` is moved only
//! between its bounds, never up while free frames are under HIGH, and down with the frees then.
//!
//! **Deliberately ignored.** Which CPU waited: contention felt by one CPU does not make another one
//! grow its lists. What a visit costs that waits for nothing: a thread alone never waits, so its
//! `high` stays at the minimum, and of a loop that takes and returns 32,768 frames all but 1079 go
//! through the zone both ways, as with `fixed` (`pagetide bench alloc`, `locked adaptive`). A world
//! without ticks never forgets; it should be short-lived.
//!
//! Source: our own; the reviewers' seventeen concerns are the page allocator specification's,
//! section 6, and `concerns.rs` has a test for each.

use super::traffic::Traffic;
use super::{Gauge, LockWait, PCP_BATCH_SCALE_MAX, Tune, ZoneView};
use crate::ids::Order;

/// Ticks for which a wait for the zone's lock counts as contention.
const WAIT_TICKS: u8 = 2;
/// An idle tick gives up `high >> (this - idle ticks)` frames.
const IDLE_SHIFT: u8 = 3;

/// Batches fetched at most while free frames are under HIGH: half of them are idle on average.
const PRESSED_FETCH: u32 = 7;
/// Batches that a run of frees collects then, before it sends them back.
const PRESSED_RUN: u32 = 16;

/// The limit that follows contention.
#[derive(Debug, Default)]
pub(in crate::page_alloc) struct Adaptive {
    /// Frames fetched from the zone less frames sent back, of late.
    pub(super) balance: i32,
    /// The least frames on the lists since the last tick.
    least_count: u32,
    /// Ticks until the last wait for the lock is forgotten.
    wait_ticks: u8,
    /// Ticks in a row that left frames unused, up to [`IDLE_SHIFT`].
    idle_ticks: u8,
    traffic: Traffic,
}

impl Tune for Adaptive {
    #[inline]
    fn note_alloc(&mut self, gauge: &Gauge, nr_frames: u32) {
        self.traffic.note_alloc();
        self.least_count = self.least_count.min(gauge.count.saturating_sub(nr_frames));
    }

    fn blocks_to_fetch(&mut self, gauge: &mut Gauge, order: Order, below_high: bool) -> u32 {
        let batch = gauge.batch();
        gauge.set_high(gauge.high);
        if gauge.high < batch {
            return 1;
        }
        let is_contended = self.is_contended(gauge);
        if !is_contended {
            self.traffic.alloc_factor = 0;
        }
        let mut wanted = if order.0 > 0 { batch } else { batch << self.traffic.alloc_factor };
        if is_contended {
            if !below_high {
                // Frames that were sent back too early.
                gauge.raise_high(wanted.min(self.balance.min(0).unsigned_abs()));
            }
            if order.0 == 0 {
                let bound = gauge.limits.high_max() / 4;
                let most = if below_high { PRESSED_FETCH * batch } else { bound }.max(batch);
                if wanted <= most && self.traffic.alloc_factor < PCP_BATCH_SCALE_MAX {
                    self.traffic.alloc_factor += 1;
                }
                wanted = wanted.min(most);
            }
        }
        let nr_blocks = Gauge::blocks_of(wanted, order);
        self.balance = self.balance.saturating_add_unsigned(nr_blocks << order.0);
        nr_blocks
    }

    #[inline]
    fn frames_to_drain(&mut self, gauge: &mut Gauge, order: Order, zone: ZoneView) -> u32 {
        let is_run = self.traffic.note_free(gauge, order);
        if gauge.count < gauge.high && !(is_run || zone.signals.reclaim_active || zone.below_high) {
            return 0;
        }
        let nr_frames = self.drain_at_limit(gauge, is_run, zone);
        self.balance = self.balance.saturating_sub_unsigned(nr_frames);
        nr_frames
    }

    #[inline]
    fn note_kept(&mut self, gauge: &Gauge) -> bool {
        self.traffic.note_free(gauge, Order::BASE);
        true
    }

    fn tick(&mut self, gauge: &mut Gauge) -> u32 {
        self.wait_ticks = self.wait_ticks.saturating_sub(1);
        self.balance /= 2;
        let nr_unused = self.least_count.min(gauge.count);
        if nr_unused <= gauge.batch().max(gauge.high >> IDLE_SHIFT) {
            self.idle_ticks = 0;
        } else {
            let most = gauge.high >> (IDLE_SHIFT - self.idle_ticks);
            self.idle_ticks = (self.idle_ticks + 1).min(IDLE_SHIFT);
            gauge.lower_high(most);
        }
        let nr_frames = gauge.count.saturating_sub(gauge.high).min(nr_unused);
        self.least_count = gauge.count - nr_frames;
        nr_frames
    }

    fn note_visit(&mut self, wait: LockWait) {
        if wait == LockWait::Waited {
            self.wait_ticks = WAIT_TICKS;
        }
    }

    fn follow_limits(&mut self, gauge: &mut Gauge) {
        gauge.set_high(gauge.high);
    }
}

impl Adaptive {
    fn is_contended(&self, gauge: &Gauge) -> bool {
        self.wait_ticks > 0 && gauge.is_tunable()
    }

    fn drain_at_limit(&mut self, gauge: &mut Gauge, is_run: bool, zone: ZoneView) -> u32 {
        gauge.set_high(gauge.high);
        if gauge.high == 0 {
            return 1;
        }
        if is_run {
            gauge.lower_high(gauge.batch_max());
            return gauge.count.min(gauge.batch_max());
        }
        let (batch, high_min) = (gauge.batch(), gauge.high_min());
        let freed = self.traffic.free_count.max(batch);
        if zone.signals.reclaim_active || (zone.below_high && gauge.is_tunable()) {
            gauge.lower_high(freed);
            let high = if zone.signals.reclaim_active {
                gauge.high.min(4 * batch)
            } else if self.is_contended(gauge) {
                high_min.max(PRESSED_RUN * batch)
            } else {
                high_min
            };
            let drains = gauge.count >= high;
            return if drains { gauge.bounded_drain(freed, gauge.count.max(high)) } else { 0 };
        }
        let high = gauge.high;
        if !self.is_contended(gauge) {
            return if gauge.count >= high { gauge.bounded_drain(batch, high) } else { 0 };
        }
        // Frames that were fetched a moment ago.
        gauge.raise_high(self.balance.max(0).unsigned_abs());
        self.balance = self.balance.min(0);
        if gauge.count < gauge.high {
            return 0;
        }
        // The next drain of this run is to leave a batch.
        let high = gauge.high;
        gauge.set_high(high.max(self.traffic.free_count + batch));
        gauge.bounded_drain(self.traffic.free_count, high)
    }
}
