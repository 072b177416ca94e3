//! Refill tuning: each refill shows that the lists were too short.
//!
//! **Problem.** Bursts are shorter than any sampling period.
//!
//! **Idea.** A refill raises `high` by the fetched frames, and doubles the next refill. A run of
//! frees doubles its drains. Ticks (one a second) and pressure lower `high`.
//!
//! ```text
//!   high |         ,-------- refills            pressure:  below HIGH     no growth, frees drain
//!        |      ,--'       `-._  ticks, 1/8 each           reclaim active at most 4 batches
//!        |   ,--'              `-._
//!   min  |---'                     `------
//!        +--------------------------------> time
//! ```
//!
//! **Data and invariants.** `alloc_factor` halves with every free, `free_count` with every
//! allocation, so mixed traffic keeps batches small. With equal bounds only batches are tuned.
//!
//! **Ignored.** Contention of the zone's lock.
//!
//! **Source.** Linux 6.18's page allocator. Y. Huang, "mm: PCP high auto-tuning", version 3,
//! October 2023.

use super::traffic::Traffic;
use super::{Gauge, PCP_BATCH_SCALE_MAX, Tune, ZoneView};
use crate::ids::Order;

#[derive(Debug, Default)]
pub(in crate::page_alloc) struct Refill {
    pub(super) traffic: Traffic,
}

impl Tune for Refill {
    #[inline]
    fn note_alloc(&mut self, _gauge: &Gauge, _nr_frames: u32) {
        self.traffic.note_alloc();
    }

    fn blocks_to_fetch(&mut self, gauge: &mut Gauge, order: Order, below_high: bool) -> u32 {
        let batch = gauge.batch();
        gauge.set_high(gauge.high);
        if gauge.high < batch {
            return 1;
        }
        let mut wanted = if order.0 > 0 { batch } else { batch << self.traffic.alloc_factor };
        if gauge.is_tunable() && !below_high {
            gauge.raise_high(wanted);
        }
        if order.0 == 0 {
            let room = gauge.high.saturating_sub(gauge.count).saturating_sub(batch).max(batch);
            if wanted <= room && self.traffic.alloc_factor < PCP_BATCH_SCALE_MAX {
                self.traffic.alloc_factor += 1;
            }
            wanted = wanted.min(room);
        }
        Gauge::blocks_of(wanted, order)
    }

    #[inline]
    fn frames_to_drain(&mut self, gauge: &mut Gauge, order: Order, zone: ZoneView) -> u32 {
        let is_run = self.traffic.note_free(gauge, order);
        // Common case: nothing below would change anything.
        if gauge.count < gauge.high && !(is_run || zone.signals.reclaim_active || zone.below_high) {
            return 0;
        }
        self.drain_at_limit(gauge, is_run, zone)
    }

    #[inline]
    fn note_kept(&mut self, gauge: &Gauge) -> bool {
        self.traffic.note_free(gauge, Order::BASE);
        true
    }

    fn tick(&mut self, gauge: &mut Gauge) -> u32 {
        if gauge.high > gauge.high_min() {
            let kept = gauge.count.saturating_sub(gauge.batch_max());
            let decayed = gauge.high - (gauge.high >> 3);
            gauge.high = kept.max(decayed).max(gauge.high_min());
        }
        gauge.count.saturating_sub(gauge.high)
    }

    fn follow_limits(&mut self, gauge: &mut Gauge) {
        gauge.set_high(gauge.high);
    }
}

impl Refill {
    fn drain_at_limit(&mut self, gauge: &mut Gauge, is_run: bool, zone: ZoneView) -> u32 {
        let high = self.limit(gauge, is_run, zone);
        if gauge.count < high {
            0
        } else if is_run {
            gauge.count.min(gauge.batch_max())
        } else {
            gauge.bounded_drain(self.traffic.free_count, high)
        }
    }

    /// Adjusts `high`. Returns the count at which this free drains.
    fn limit(&self, gauge: &mut Gauge, is_run: bool, zone: ZoneView) -> u32 {
        let batch = gauge.batch();
        gauge.set_high(gauge.high);
        if gauge.high == 0 {
            return 0;
        }
        if is_run {
            gauge.lower_high(gauge.batch_max());
            return 0;
        }
        let freed = self.traffic.free_count.max(batch);
        if zone.signals.reclaim_active {
            gauge.lower_high(freed);
            return gauge.high.min(4 * batch);
        }
        if !gauge.is_tunable() {
            return gauge.high;
        }
        if zone.below_high {
            gauge.lower_high(freed);
            return gauge.count.max(gauge.high_min());
        }
        let high = gauge.high;
        if gauge.count >= high {
            // The next drain of this run leaves a batch.
            gauge.set_high(high.max(self.traffic.free_count + batch));
        }
        high
    }
}
