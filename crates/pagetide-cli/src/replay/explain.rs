//! `--explain`: the settings chosen by a policy, with times and reasons.
//!
//! ```text
//!   pagetide, 14354 frames: 1 page in 16 sampled, into miniatures of 897 frames
//!     accesses       setting    hits   chosen by
//!     0              tight   71.20 %   the start
//!     203112         loose   79.93 %   lead 61 in 200 disagreements, price 0
//! ```

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::Meter;
use pagetide_lab::replay::{Cell, Course, ReplayRow, SettingStay, course_of};
use pagetide_lab::trace::{DenseTrace, ReadaheadUse};
use serde::Serialize;
use std::fmt::Write;

const NR_POINTS: usize = 200;

#[derive(Debug)]
pub(super) struct Explained {
    pub(super) policy: &'static str,
    pub(super) frames: u32,
    pub(super) course: Course,
}

/// Repeats the replays of policies with settings.
///
/// # Errors
/// Fails with a usage error if there is no such policy.
pub(super) fn courses(
    trace: &DenseTrace,
    cells: &[Cell],
    interrupt: &Interrupt,
) -> Result<Vec<Explained>, Failure> {
    let meter = Meter::new("replaying what has settings, to explain".to_owned(), None);
    let mut courses: Vec<Explained> = Vec::new();
    for cell in cells {
        let (Some(setup), policy) = (cell.setup, cell.contender.as_str()) else { continue };
        if courses.iter().any(|it| it.policy == policy && it.frames == cell.frames) {
            continue;
        }
        let keep_on = |entries| {
            meter.add(entries);
            !interrupt.is_set()
        };
        let course = course_of(setup, trace, NR_POINTS, keep_on);
        interrupt.check()?;
        courses.extend(course.map(|course| Explained { policy, frames: cell.frames, course }));
    }
    if courses.is_empty() {
        return Err(Failure::Usage(
            "--explain tells of policies that choose between settings: add --policy pagetide"
                .to_owned(),
        ));
    }
    Ok(courses)
}

#[derive(Debug, Serialize)]
pub(super) struct Described<'a> {
    #[serde(flatten)]
    row: &'a ReplayRow,
    /// Use of the recorded readahead.
    readahead: ReadaheadUse,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<&'a [SettingStay]>,
}

pub(super) fn described<'a>(
    rows: &'a [ReplayRow],
    readahead: ReadaheadUse,
    courses: &'a [Explained],
) -> Vec<Described<'a>> {
    let is_of =
        |row: &ReplayRow, it: &Explained| it.policy == row.policy && it.frames == row.frames;
    let settings = |row| courses.iter().find(|it| is_of(row, it)).map(|it| &it.course.stays[..]);
    rows.iter().map(|row| Described { row, readahead, settings: settings(row) }).collect()
}

pub(super) fn text(courses: &[Explained]) -> String {
    let mut text = String::new();
    for Explained { policy, frames, course } in courses {
        let _ = write!(
            text,
            "\n{policy}, {frames} frames: 1 page in {} sampled, into miniatures of {} frames\n\
             {:>12}  {:<10} {:>8}  chosen by\n",
            course.sampled_one_in, course.miniature_frames, "accesses", "setting", "hits",
        );
        for stay in &course.stays {
            let _ = writeln!(
                text,
                "{:>12}  {:<10} {:>6.2} %  {}",
                stay.since,
                stay.setting,
                hit_percent(stay),
                chosen_by(stay),
            );
        }
    }
    text
}

fn hit_percent(stay: &SettingStay) -> f64 {
    100.0 * (stay.accesses - stay.misses) as f64 / stay.accesses.max(1) as f64
}

fn chosen_by(stay: &SettingStay) -> String {
    match (stay.lead, stay.nr_disagreed, stay.lost, stay.price) {
        (Some(lead), Some(nr), Some(lost), Some(price)) => format!(
            "a lead of {lead} in {nr} disagreements; {lost} hits were lost to it, and the change \
             cost {price}"
        ),
        _ => "nothing: the policy starts so".to_owned(),
    }
}
