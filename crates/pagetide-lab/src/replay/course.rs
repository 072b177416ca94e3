//! The course of a replay: which setting was in charge when, and how often it hit meanwhile.
//!
//! Problem: a policy that adapts is believed once one can see what it did and why. Idea: stop every
//! few accesses, look at the selection, and write down each change with what it was won by:
//!
//! ```text
//!   accesses   0 ........ 4096 ............ 9216 ..... end
//!   setting        tight      loose              tight          stays, each with its hits
//!   points     o   o   o   o   o   o   o   o   o   o        for a plot
//! ```
//!
//! Ignored: what happens between two looks ([`LOOK_EVERY`] entries); of several changes there, the
//! last is seen. Source: our own.

use super::{Setup, World};
use crate::trace::DenseTrace;
use pagetide_core::lru::own::{SelectionSummary, SettingChange};
use serde::Serialize;

/// Entries between two looks.
const LOOK_EVERY: usize = 64;

/// A stretch of accesses under one setting.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct SettingStay {
    /// The setting.
    #[serde(rename = "in_charge")]
    pub setting: &'static str,
    /// Accesses before it took charge.
    pub since: u64,
    /// Accesses under it.
    pub accesses: u64,
    /// Those of them that missed.
    pub misses: u64,
    /// The lead it won by: sampled accesses that it would have hit and the setting before missed,
    /// less the others. `None` for the first.
    pub lead: Option<i64>,
    /// Accesses at which the two disagreed, by then.
    pub nr_disagreed: Option<u64>,
    /// Hits that the setting before had lost to it by then, in all.
    pub lost: Option<u64>,
    /// What those had to be worth: the sampled frames that had to move.
    pub price: Option<u64>,
}

/// A point of the hit ratio's course.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct CoursePoint {
    /// Accesses so far.
    pub accesses: u64,
    /// Share of the accesses since the last point that hit.
    pub hit_ratio: f64,
    /// The setting in charge.
    pub setting: &'static str,
}

/// How a replay went.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Course {
    /// The settings in charge, one after the other.
    pub stays: Vec<SettingStay>,
    /// The hit ratio's course.
    pub points: Vec<CoursePoint>,
    /// A page in so many is sampled.
    pub sampled_one_in: u32,
    /// Frames of each miniature.
    pub miniature_frames: u32,
}

/// Replays the trace and writes down its course, in about `nr_points` points. `None`: the policy
/// does not choose between settings (or has that switched off), or `keep_on` ended it (see
/// [`run_while`](super::run_while)).
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

/// Writes it down.
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
