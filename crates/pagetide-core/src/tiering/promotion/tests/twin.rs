//! A second implementation of Linux's promotion, compared under random faults. Then general
//! properties.
//!
//! The twin stores full times, and reduces them to the field's width only to measure.

use crate::folio::Folios;
use crate::ids::PageType;
use crate::ids::{FrameId, MappingId, PageId, PageIndex};
use crate::tiering::promotion::*;
use alloc::format;
use proptest::prelude::*;

const NR_PAGES: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Time passes.
    Wait { millis: u64 },
    /// Time passes until this moment, or 1 ms past it.
    WaitUntil { moment: Moment, is_past: bool },
    /// A scan arms the page.
    Arm { page: usize },
    /// The page of `nr_frames` faults.
    Fault { page: usize, nr_frames: u64 },
    /// The page moves to a new folio.
    Move { page: usize, is_dirty: bool },
    /// The fast node has `nr_frames` free.
    Free { nr_frames: u64 },
    /// Tiering is turned off and on.
    Restart,
}

/// Moments that change decisions.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// End of the rate window.
    Window,
    /// End of the threshold's period.
    Period,
    /// The first page has been armed for the threshold.
    Threshold,
}

fn op() -> impl Strategy<Value = Op> {
    let page = 0..NR_PAGES;
    prop_oneof![
        6 => prop_oneof![0..20u64, 0..1500u64, 0..70_000u64]
            .prop_map(|millis| Op::Wait { millis }),
        4 => (
            prop_oneof![Just(Moment::Window), Just(Moment::Period), Just(Moment::Threshold)],
            any::<bool>(),
        )
            .prop_map(|(moment, is_past)| Op::WaitUntil { moment, is_past }),
        6 => page.clone().prop_map(|page| Op::Arm { page }),
        12 => (page.clone(), prop_oneof![Just(1u64), 1..600u64])
            .prop_map(|(page, nr_frames)| Op::Fault { page, nr_frames }),
        1 => (page, any::<bool>()).prop_map(|(page, is_dirty)| Op::Move { page, is_dirty }),
        1 => (0..12_000u64).prop_map(|nr_frames| Op::Free { nr_frames }),
        1 => Just(Op::Restart),
    ]
}

fn knobs() -> impl Strategy<Value = TieringKnobs> {
    let rates = prop_oneof![0..5u64, 0..3000u64, Just(16_777_216u64)];
    (rates, 8..2000u64, 1..3000u64, 1..70_000u64, 0..10_000u64).prop_map(
        |(promote_rate_frames, threshold, window, period, free_space_frames)| TieringKnobs {
            promote_rate_frames,
            hot_threshold: Millis(threshold),
            rate_window: Millis(window),
            scan_period_min: Millis(1),
            scan_period_max: Millis(period),
            free_space_frames,
            ..TieringKnobs::default()
        },
    )
}

fn switches() -> impl Strategy<Value = TieringSwitches> {
    any::<[bool; 3]>().prop_map(|[hot_selection, rate_limit, auto_threshold]| TieringSwitches {
        hot_selection,
        rate_limit,
        auto_threshold,
        auto: false,
    })
}

/// `r` is the rate limit (`rl`), `d` the default threshold (`th`), `p` its period. `c` counts the
/// candidates, `nrl` the promotions without a limit.
struct Twin {
    r: u128,
    d: u128,
    p: u128,
    window: u128,
    free_space: u128,
    switches: TieringSwitches,
    threshold: u128,
    th_start: u128,
    th_cand: u128,
    rl_start: u128,
    rl_cand: u128,
    c: u128,
    nrl: u128,
    /// Time of the stamp by page, `None` after a move.
    stamped: [Option<u128>; NR_PAGES],
    dirty: [bool; NR_PAGES],
}

impl Twin {
    fn new(knobs: &TieringKnobs, switches: TieringSwitches) -> Twin {
        Twin {
            r: knobs.promote_rate_frames.into(),
            d: knobs.hot_threshold.0.into(),
            p: knobs.scan_period_max.0.into(),
            window: knobs.rate_window.0.into(),
            free_space: knobs.free_space_frames.into(),
            switches,
            threshold: 0,
            th_start: 0,
            th_cand: 0,
            rl_start: 0,
            rl_cand: 0,
            c: 0,
            nrl: 0,
            stamped: [None; NR_PAGES],
            dirty: [false; NR_PAGES],
        }
    }

    fn th(&self) -> u128 {
        if self.threshold == 0 { self.d } else { self.threshold }
    }

    /// Returns the time since the stamp, with the wrap.
    fn latency(&self, now: u128, page: usize) -> u128 {
        let wrap = 1 << 32;
        let held = match self.stamped[page] {
            Some(time) => time % wrap,
            None => wrap - 1,
        };
        (now % wrap + wrap - held) % wrap
    }

    fn moment(&self, moment: Moment) -> Option<u128> {
        match moment {
            Moment::Window => Some(self.rl_start + self.window),
            Moment::Period => Some(self.th_start + self.p),
            Moment::Threshold => self.stamped[0].map(|stamped| stamped + self.th() - 1),
        }
    }

    fn fault(&mut self, now: u128, page: usize, nr: u128, room: &Headroom) -> Decision {
        if room.nr_frames == 0 {
            return Decision::NoTarget;
        }
        let because = if !self.switches.hot_selection
            && !self.switches.rate_limit
            && !self.switches.auto_threshold
        {
            PromotionReason::Touched
        } else {
            // At least 1 GiB, or a sixteenth of the node, above PROMO.
            let enough = self.free_space.max(u128::from(room.nr_frames) / 16);
            if u128::from(room.nr_free) > u128::from(room.promo) + enough {
                self.threshold = 0;
                self.nrl += nr;
                PromotionReason::FreeSpace
            } else {
                match self.judge(now, page, nr) {
                    Ok(()) => PromotionReason::Hot,
                    Err(refusal) => return refusal,
                }
            }
        };
        if self.dirty[page] {
            Decision::Unmovable
        } else if u128::from(room.nr_free) > u128::from(room.high) + nr {
            Decision::Promote(because)
        } else {
            Decision::NoRoom
        }
    }

    fn judge(&mut self, now: u128, page: usize, nr: u128) -> Result<(), Decision> {
        if self.switches.auto_threshold && now - self.th_start > self.p {
            self.th_start = now;
            let reference = self.r * self.p / 1000;
            let diff = self.c - self.th_cand;
            let unit = 2 * self.d / 16;
            let th = self.th();
            self.threshold = if diff > reference * 11 / 10 {
                if th < 2 * unit { unit } else { th - unit }
            } else if diff < reference * 9 / 10 {
                (th + unit).min(2 * self.d)
            } else {
                th
            };
            self.th_cand = self.c;
        }
        if self.switches.hot_selection {
            let latency = self.latency(now, page);
            self.stamped[page] = Some(now);
            if latency >= self.th() {
                return Err(Decision::TooCold);
            }
        }
        self.c += nr;
        if self.switches.rate_limit {
            if now - self.rl_start > self.window {
                self.rl_start = now;
                self.rl_cand = self.c;
            }
            if self.c - self.rl_cand >= self.r * self.window / 1000 {
                return Err(Decision::RateLimited);
            }
        }
        Ok(())
    }
}

struct Pair {
    folios: Folios,
    promotion: Promotion,
    twin: Twin,
    room: Headroom,
    now: Millis,
}

impl Pair {
    fn new(knobs: &TieringKnobs, switches: TieringSwitches, start: u64) -> Pair {
        Pair {
            folios: Folios::new(NR_PAGES as u32),
            promotion: Promotion::new(knobs, switches),
            twin: Twin::new(knobs, switches),
            room: Headroom { nr_frames: 20_000, nr_free: 5000, high: 1000, promo: 2000 },
            now: Millis(start),
        }
    }

    fn apply(&mut self, op: Op) {
        let now = u128::from(self.now.0);
        match op {
            Op::Wait { millis } => self.now.0 += millis,
            Op::WaitUntil { moment, is_past } => {
                let moment = self.twin.moment(moment).unwrap_or(now) + u128::from(is_past);
                self.now = Millis(now.max(moment) as u64);
            }
            Op::Arm { page } => {
                let stamp = hint_stamp(self.now);
                self.folios[FrameId(page as u32)].swap_hint_stamp(stamp);
                self.twin.stamped[page] = Some(now);
            }
            Op::Fault { page, nr_frames } => {
                let folio = &self.folios[FrameId(page as u32)];
                let fault = HintFault { folio, nr_frames };
                let decided = self.promotion.decide(self.now, &fault, &self.room);
                let expected = self.twin.fault(now, page, nr_frames.into(), &self.room);
                assert_eq!(decided, expected, "at {now}");
            }
            Op::Move { page, is_dirty } => {
                let id = PageId { mapping: MappingId(0), index: PageIndex(page as u64) };
                let flags = if is_dirty { Flags::DIRTY } else { Flags::NONE };
                self.folios[FrameId(page as u32)].bind(id, PageType::File, flags);
                self.twin.stamped[page] = None;
                self.twin.dirty[page] = is_dirty;
            }
            Op::Free { nr_frames } => self.room.nr_free = nr_frames,
            Op::Restart => {
                self.promotion.restart(self.now);
                self.twin.threshold = 0;
                self.twin.th_start = now;
                self.twin.th_cand = self.twin.c;
            }
        }
        self.compare();
    }

    fn compare(&self) {
        let (promotion, twin) = (&self.promotion, &self.twin);
        assert_eq!(u128::from(promotion.hot_threshold().0), twin.th());
        assert_eq!(u128::from(promotion.nr_candidates()), twin.c);
        let nrl = promotion.vmstat().read(Counter::PgpromoteCandidateNrl);
        assert_eq!(u128::from(nrl), twin.nrl);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn twin_decides_the_same(
        knobs in knobs(),
        switches in switches(),
        start in prop_oneof![0..10_000u64, Just(u64::from(u32::MAX) - 5000)],
        ops in prop::collection::vec(op(), 1..300),
    ) {
        let mut pair = Pair::new(&knobs, switches, start);
        ops.iter().for_each(|op| pair.apply(*op));
    }

    #[test]
    fn the_same_faults_end_in_the_same_state(
        knobs in knobs(),
        switches in switches(),
        ops in prop::collection::vec(op(), 1..100),
    ) {
        let ended = || {
            let mut pair = Pair::new(&knobs, switches, 1000);
            ops.iter().for_each(|op| pair.apply(*op));
            format!("{:?}", pair.promotion)
        };
        prop_assert_eq!(ended(), ended());
    }

    /// From the first candidate on: the rate plus one window's share. A large folio that opens a
    /// window may exceed this.
    #[test]
    fn rate_is_exceeded_by_one_window_at_most(
        knobs in knobs(),
        faults in prop::collection::vec((0..400u64, 1..40u64), 1..400),
    ) {
        let stage = crate::tiering::Stage::RateLimit;
        let mut promotion = Promotion::new(&knobs, stage.switches());
        let folios = Folios::new(1);
        let room = Headroom { nr_frames: 1, nr_free: 5000, high: 1000, promo: 5000 };
        let share = knobs.promote_rate_frames * knobs.rate_window.0 / 1000;
        let first = knobs.rate_window.0 + 1;
        let mut now = first;
        let mut nr_promoted = 0;
        for (wait, nr_faults) in faults {
            now += wait;
            for _ in 0..nr_faults {
                folios[FrameId(0)].swap_hint_stamp(hint_stamp(Millis(now)));
                let fault = HintFault { folio: &folios[FrameId(0)], nr_frames: 1 };
                let decision = promotion.decide(Millis(now), &fault, &room);
                nr_promoted += u64::from(decision == Decision::Promote(PromotionReason::Hot));
            }
            let nr_windows = (now - first) / knobs.rate_window.0 + 1;
            prop_assert!(nr_promoted <= share * nr_windows, "{nr_promoted} by {now}");
        }
    }

    #[test]
    fn threshold_stays_in_its_range(
        knobs in knobs(),
        ops in prop::collection::vec(op(), 1..300),
    ) {
        let mut pair = Pair::new(&knobs, TieringSwitches::default(), 0);
        let default = knobs.hot_threshold.0;
        for op in ops {
            pair.apply(op);
            let threshold = pair.promotion.hot_threshold().0;
            prop_assert!((default / 8..=2 * default).contains(&threshold), "{threshold}");
        }
    }
}
