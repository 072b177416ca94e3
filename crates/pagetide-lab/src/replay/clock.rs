//! Virtual time: the clock and its alarms.
//!
//! Problem: folds, flushes and background reclaim need the time, but a check at each access is too
//! slow. Idea: time is a function of existing counters, with the next check as an access count:
//!
//! ```text
//!   now      = lead + accesses x hit + misses x (miss - hit)
//!   look_at  = accesses + (due - now) / the dearest access     too early, never too late
//! ```
//!
//! Early checks at least halve the remaining distance, so the last is exact. `lead` is the advance
//! of the trace's times over the costs.
//!
//! Ignored: events in mid-access happen before the next access.

use super::setup::{ReplayCosts, StatisticsFold};
use pagetide_core::units::Millis;

const NS_PER_MS: u64 = 1_000_000;
/// Maximum delay before the policy learns the time.
const TELL_EVERY_NS: u64 = 10 * NS_PER_MS;

#[derive(Debug)]
pub(super) struct VirtualClock {
    costs: ReplayCosts,
    lead_ns: u64,
    fold: Option<Alarm>,
    /// In accesses.
    fold_by_count: Option<Alarm>,
    flush: Option<Alarm>,
}

/// A repeated event, in nanoseconds or accesses.
#[derive(Debug)]
struct Alarm {
    due: u64,
    every: u64,
}

/// Accesses and misses, which determine the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) accesses: u64,
    pub(super) misses: u64,
}

impl VirtualClock {
    pub(super) fn new(
        costs: ReplayCosts,
        statistics: StatisticsFold,
        flush_every: Option<Millis>,
    ) -> VirtualClock {
        let (fold, fold_by_count) = match statistics {
            StatisticsFold::Live => (None, None),
            StatisticsFold::Every { period, phase } => (Some(Alarm::new(phase, period)), None),
            StatisticsFold::EveryReads { nr_reads, phase } => {
                (None, Some(Alarm { due: phase, every: nr_reads.max(1) }))
            }
        };
        let flush = flush_every.map(|period| Alarm::new(period, period));
        VirtualClock { costs, lead_ns: 0, fold, fold_by_count, flush }
    }

    pub(super) fn now_ns(&self, counted: Counted) -> u64 {
        let ReplayCosts { hit_ns, miss_ns, .. } = self.costs;
        let hits = counted.accesses.saturating_sub(counted.misses);
        self.lead_ns + hits * hit_ns + counted.misses * miss_ns
    }

    pub(super) fn advance(&mut self, counted: Counted, now_ns: u64) -> bool {
        let ahead_ns = now_ns.saturating_sub(self.now_ns(counted));
        self.lead_ns += ahead_ns;
        ahead_ns > 0
    }

    /// Returns true if a fold was due, and schedules the next.
    pub(super) fn takes_fold(&mut self, counted: Counted, now_ns: u64) -> bool {
        let by_count = self.fold_by_count.as_mut();
        let is_due_by_count = by_count.is_some_and(|fold| fold.rings(counted.accesses));
        self.fold.as_mut().is_some_and(|fold| fold.rings(now_ns)) || is_due_by_count
    }

    pub(super) fn takes_flush(&mut self, now_ns: u64) -> bool {
        self.flush.as_mut().is_some_and(|flush| flush.rings(now_ns))
    }

    pub(super) fn wake_flusher(&mut self, now_ns: u64) {
        if let Some(flush) = &mut self.flush {
            flush.due = now_ns;
        }
    }

    /// Returns the access count of the next check.
    pub(super) fn next_look(&self, counted: Counted) -> u64 {
        let now_ns = self.now_ns(counted);
        let due = |alarm: &Option<Alarm>| alarm.as_ref().map_or(u64::MAX, |alarm| alarm.due);
        let due_ns = due(&self.fold).min(due(&self.flush)).min(now_ns + TELL_EVERY_NS);
        let dearest_ns = self.costs.hit_ns.max(self.costs.miss_ns).max(1);
        let by_time = counted.accesses + (due_ns.saturating_sub(now_ns) / dearest_ns).max(1);
        by_time.min(due(&self.fold_by_count))
    }
}

impl Alarm {
    fn new(first: Millis, every: Millis) -> Alarm {
        let every = every.0.max(1).saturating_mul(NS_PER_MS);
        Alarm { due: first.0.saturating_mul(NS_PER_MS), every }
    }

    /// Rings once, even after several missed periods.
    fn rings(&mut self, now: u64) -> bool {
        let is_due = now >= self.due;
        if is_due {
            let nr_missed = (now - self.due) / self.every;
            self.due += (nr_missed + 1) * self.every;
        }
        is_due
    }
}

pub(super) fn millis(now_ns: u64) -> Millis {
    Millis(now_ns / NS_PER_MS)
}

pub(super) fn nanos(now: Millis) -> u64 {
    now.0.saturating_mul(NS_PER_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_early_and_find_the_spot() {
        let costs = ReplayCosts { hit_ns: 10_000, miss_ns: 40_000, scan_ns: 1 };
        let statistics = StatisticsFold::Every { period: Millis(8), phase: Millis(2) };
        let mut clock = VirtualClock::new(costs, statistics, None);
        let mut counted = Counted { accesses: 0, misses: 0 };
        let (mut folds, mut looks) = (Vec::new(), 0);
        let mut look_at = clock.next_look(counted);
        while counted.accesses < 10_000 {
            if counted.accesses == look_at {
                looks += 1;
                let now_ns = clock.now_ns(counted);
                if clock.takes_fold(counted, now_ns) {
                    folds.push(now_ns);
                }
                look_at = clock.next_look(counted);
            }
            counted.accesses += 1;
            counted.misses += u64::from(counted.accesses.is_multiple_of(4));
        }
        // 10,000 accesses of 17.5 us on average: 175 ms, a fold at 2, 10, 18, ...
        assert_eq!(folds.len(), 22);
        for (fold, at_ns) in (0..).zip(&folds) {
            let due_ns = (2 + 8 * fold) * NS_PER_MS;
            assert!((due_ns..due_ns + costs.miss_ns).contains(at_ns), "fold {fold} at {at_ns} ns");
        }
        assert!(looks < 22 * 16, "{looks} looks for 22 folds");
    }

    #[test]
    fn the_clock_is_pushed_forward_only() {
        let mut clock = VirtualClock::new(ReplayCosts::default(), StatisticsFold::Live, None);
        let counted = Counted { accesses: 100, misses: 10 };
        let now_ns = clock.now_ns(counted);
        assert_eq!(now_ns, 90 * 5_000 + 10 * 17_500);
        assert!(!clock.advance(counted, now_ns - 1));
        assert!(clock.advance(counted, now_ns + 7));
        assert_eq!(clock.now_ns(counted), now_ns + 7);
        assert!(!clock.takes_flush(u64::MAX) && !clock.takes_fold(counted, u64::MAX));
    }

    #[test]
    fn a_fold_after_so_many_accesses_is_on_the_spot() {
        let statistics = StatisticsFold::EveryReads { nr_reads: 500, phase: 200 };
        let mut clock = VirtualClock::new(ReplayCosts::default(), statistics, None);
        let (mut folds, mut look_at) = (Vec::new(), 0);
        for accesses in 0..2_000 {
            let counted = Counted { accesses, misses: accesses / 3 };
            if accesses >= look_at {
                if clock.takes_fold(counted, clock.now_ns(counted)) {
                    folds.push(accesses);
                }
                look_at = clock.next_look(counted);
            }
        }
        assert_eq!(folds, [200, 700, 1200, 1700]);
    }

    #[test]
    fn missed_alarms_ring_once() {
        let mut clock =
            VirtualClock::new(ReplayCosts::default(), StatisticsFold::Live, Some(Millis(5)));
        assert!(!clock.takes_flush(4 * NS_PER_MS));
        assert!(clock.takes_flush(23 * NS_PER_MS));
        assert!(!clock.takes_flush(24 * NS_PER_MS));
        assert!(clock.takes_flush(25 * NS_PER_MS));
    }
}
