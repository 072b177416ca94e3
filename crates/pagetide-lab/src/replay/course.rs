//! The setting timeline of a replay: active settings with their hits.
//!
//! Problem: users must see the choices of an adaptive policy. Idea: read the selection every few
//! accesses, and record each change with its reason:
//!
//! ```text
//!   accesses   0 ........ 4096 ............ 9216 ..... end
//!   setting        tight      loose              tight          stays, each with its hits
//!   points     o   o   o   o   o   o   o   o   o   o        for a plot
//! ```
//!
//! Ignored: all but the last change within [`LOOK_EVERY`] entries. Source: our own.

use super::{Setup, World};
use crate::trace::DenseTrace;
use pagetide_core::lru::own::{SelectionSummary, SettingChange};
use serde::Serialize;

const LOOK_EVERY: usize = 64;

/// A period under one setting.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct SettingStay {
    /// The setting.
    #[serde(rename = "in_charge")]
    pub setting: &'static str,
    /// Accesses before the setting took over.
    pub since: u64,
    /// Accesses under the setting.
    pub accesses: u64,
    /// Misses under the setting.
    pub misses: u64,
    /// The lead at the change, in sampled accesses: hits that only this setting had, minus hits
    /// that only the previous one had. `None` for the first setting.
    pub lead: Option<i64>,
    /// Accesses until then that hit under only one of the two.
    pub nr_disagreed: Option<u64>,
    /// Total hits lost by the previous setting until then.
    pub lost: Option<u64>,
    /// Required value of `lost`: the sampled frames that had to move.
    pub price: Option<u64>,
}

/// A point of the hit ratio over time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct CoursePoint {
    /// Accesses so far.
    pub accesses: u64,
    /// Share of hits since the last point, 0 to 1.
    pub hit_ratio: f64,
    /// The active setting.
    pub setting: &'static str,
}

/// The setting timeline of a replay.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Course {
    /// Active settings, in order.
    pub stays: Vec<SettingStay>,
    /// Hit ratio over time.
    pub points: Vec<CoursePoint>,
    /// Pages per sampled page.
    pub sampled_one_in: u32,
    /// Frames of each miniature.
    pub miniature_frames: u32,
}

/// Replays the trace and returns its timeline in about `nr_points` points. Returns `None` without
/// setting selection, or if `keep_on` ended the replay (see [`run_while`](super::run_while)).
pub fn course_of(
    setup: Setup,
    trace: &DenseTrace,
    nr_points: usize,
    mut keep_on: impl FnMut(u64) -> bool,
) -> Option<Course> {
    let mut world = World::new(setup, trace, |_| {});
    let mut clerk = Clerk::new(world.lruvec().selection_summary()?);
    let between = (trace.nr_accesses() / nr_points.max(1) as u64).max(1);
    let ended = world.play_by(LOOK_EVERY, |world, entries| {
        let outcome = world.outcome();
        if let Some(now) = world.lruvec().selection_summary() {
            clerk.look(outcome.accesses, outcome.misses, &now, between);
        }
        keep_on(entries)
    });
    ended.then(|| clerk.end(world.outcome().accesses, world.outcome().misses))
}

struct Clerk {
    course: Course,
    nr_changes: u64,
    /// Accesses and misses at the last point, and at the last change.
    at_point: (u64, u64),
    at_change: (u64, u64),
}

impl Clerk {
    fn new(start: SelectionSummary) -> Clerk {
        let SelectionSummary { sampled_one_in, miniature_frames, .. } = start;
        let course =
            Course { stays: Vec::new(), points: Vec::new(), sampled_one_in, miniature_frames };
        let mut clerk = Clerk { course, nr_changes: 0, at_point: (0, 0), at_change: (0, 0) };
        clerk.begin_stay(start.chosen, 0, None);
        clerk
    }

    fn look(&mut self, accesses: u64, misses: u64, now: &SelectionSummary, between: u64) {
        if accesses >= self.at_point.0 + between {
            self.point(accesses, misses);
        }
        if now.nr_changes != self.nr_changes {
            self.nr_changes = now.nr_changes;
            self.end_stay(accesses, misses);
            self.begin_stay(now.chosen, accesses, now.last_change);
        }
    }

    fn point(&mut self, accesses: u64, misses: u64) {
        let (accesses_before, misses_before) = self.at_point;
        let missed = (misses - misses_before) as f64 / (accesses - accesses_before) as f64;
        let setting = self.course.stays.last().map_or("", |stay| stay.setting);
        self.course.points.push(CoursePoint { accesses, hit_ratio: 1.0 - missed, setting });
        self.at_point = (accesses, misses);
    }

    fn begin_stay(&mut self, setting: &'static str, since: u64, change: Option<SettingChange>) {
        self.course.stays.push(SettingStay {
            setting,
            since,
            accesses: 0,
            misses: 0,
            lead: change.map(|change| change.to.lead),
            nr_disagreed: change.map(|change| change.to.nr_disagreed),
            lost: change.map(|change| change.to.lost),
            price: change.map(|change| change.to.price),
        });
    }

    fn end_stay(&mut self, accesses: u64, misses: u64) {
        if let Some(stay) = self.course.stays.last_mut() {
            stay.accesses = accesses - self.at_change.0;
            stay.misses = misses - self.at_change.1;
        }
        self.at_change = (accesses, misses);
    }

    fn end(mut self, accesses: u64, misses: u64) -> Course {
        if accesses > self.at_point.0 {
            self.point(accesses, misses);
        }
        self.end_stay(accesses, misses);
        self.course
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::run_setup;
    use pagetide_core::lru::{Mechanism, PolicyName};

    /// A loop, then accesses that only recency helps.
    fn trace() -> DenseTrace {
        let looped = (0..40_000).map(|at| at % 1200);
        let sliding = (0..60_000).map(|at| 10_000 + at / 4 + at % 2 * 300);
        DenseTrace::from_reads(looped.chain(sliding))
    }

    #[test]
    fn stays_and_points_add_up_to_the_replay() {
        let (setup, trace) = (Setup::new(PolicyName::Pagetide, 1000), trace());
        let course = course_of(setup, &trace, 50, |_| true).expect("it has settings");
        let outcome = run_setup(setup, &trace);
        let sum = |of: fn(&SettingStay) -> u64| course.stays.iter().map(of).sum::<u64>();
        assert_eq!(sum(|stay| stay.accesses), outcome.accesses);
        assert_eq!(sum(|stay| stay.misses), outcome.misses);
        assert!((45..=52).contains(&course.points.len()), "{} points", course.points.len());
        assert_eq!(course.points.last().expect("points").accesses, outcome.accesses);
        for (before, after) in course.stays.iter().zip(&course.stays[1..]) {
            assert_eq!(before.since + before.accesses, after.since);
            assert_ne!(before.setting, after.setting);
            assert!(after.lead > Some(0), "a change to a setting that does not lead: {after:?}");
            assert!(after.lost > after.price, "a change that did not pay: {after:?}");
        }
        assert!(course.stays.len() > 1, "nothing was chosen: {:?}", course.stays);
    }

    #[test]
    fn policies_without_arms_have_no_course() {
        let trace = trace();
        let course = |setup| course_of(setup, &trace, 10, |_| true);
        assert_eq!(course(Setup::new(PolicyName::Mglru, 1000)), None);
        let setup = Setup::new(PolicyName::Pagetide, 1000);
        let switches = setup.switches.without(Mechanism::SettingSelection);
        assert_eq!(course(Setup { switches, ..setup }), None);
        assert_eq!(course_of(setup, &trace, 10, |_| false), None, "stopped");
    }
}
