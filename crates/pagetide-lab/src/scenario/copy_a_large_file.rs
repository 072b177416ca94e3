//! copy-a-large-file: `cp`, beside a working set.
//!
//! ```text
//!   set      |<-- 0.5 x memory -->|        read 4 times; then a page of it now and then, or never
//!   source   ========== 4 x memory ==========>   read once, in large calls
//!   copy     ========== 4 x memory ==========>   written once, just behind
//! ```
//!
//! Half reads, half writes. Played with a working set in use (a random read for every 8 pages
//! copied), and with an idle one.
//!
//! Source: the thrash detection series of 2013 ("like a nightly backup evicting all the interactive
//! user program data").

use super::machine::{Host, Layout, Stopped};
use super::stage::{Stage, percent};
use super::{FRAMES, Metric, Scenario, SourceClaim};

const SET_PAGES: u32 = FRAMES / 2;
const SET_READS: u32 = 4;
const COPY_PAGES: u32 = 4 * FRAMES;
const COPIED_TO_A_READ: u32 = 8;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "copy-a-large-file",
    story: "A file of 4 x memory is copied beside a set of 0.5 x memory, in use or left alone.",
    source: "thrash detection series, 2013 (the nightly backup)",
    metrics: &[
        Metric::new(
            "used_set_hit_percent",
            "Reads of the set that hit while the copy runs; higher is better.",
            &[],
        ),
        Metric::new(
            "used_set_resident_percent",
            "How much of a set in use is resident after the copy; 100 is best.",
            &[],
        ),
        Metric::new(
            "idle_set_resident_percent",
            "How much of a set left alone is resident after the copy; 100 is best.",
            &[SourceClaim::of(
                "active-inactive",
                "2013 series: stays, with the other half to reclaim",
            )],
        ),
    ],
    play,
};

#[derive(Clone, Copy, PartialEq)]
enum Set {
    Used,
    Idle,
}

fn play(stage: &mut Stage<'_>) -> Result<(), Stopped> {
    let nr_frames = stage.vary_frames(FRAMES);
    let (start, call) = (stage.random.index(SET_PAGES), stage.vary_call().max(COPIED_TO_A_READ));
    let (used_hits, used_left) = run(stage, nr_frames, (start, call), Set::Used)?;
    let (_, idle_left) = run(stage, nr_frames, (start, call), Set::Idle)?;
    stage.measure("used_set_hit_percent", used_hits);
    stage.measure("used_set_resident_percent", used_left);
    stage.measure("idle_set_resident_percent", idle_left);
    Ok(())
}

/// Returns the set's hits during the copy and its resident share after, in percent.
fn run(
    stage: &mut Stage<'_>,
    nr_frames: u32,
    (start, call): (u32, u32),
    use_of_set: Set,
) -> Result<(f64, f64), Stopped> {
    let mut layout = Layout::new();
    let set = layout.file(SET_PAGES);
    let (source, copy) = (layout.file(COPY_PAGES), layout.file(COPY_PAGES));
    let mut machine = stage.machine(&layout, Host::group(nr_frames));
    for _ in 0..SET_READS {
        machine.read_all(set, start, 1)?;
    }
    let mut left = Vec::new();
    let (mut nr_reads, mut nr_missed) = (0, 0);
    for index in (0..COPY_PAGES).step_by(call as usize) {
        machine.read(source, index, call)?;
        machine.write(copy, index, call)?;
        if use_of_set == Set::Used {
            for _ in 0..call / COPIED_TO_A_READ {
                nr_reads += 1;
                let page = stage.random.index(SET_PAGES);
                nr_missed += u64::from(machine.read(set, page, 1)?);
            }
        }
        if index % (COPY_PAGES / 16) == 0 {
            left.push(percent(machine.nr_resident(set).into(), SET_PAGES.into()));
        }
    }
    let at_end = percent(machine.nr_resident(set).into(), SET_PAGES.into());
    left.push(at_end);
    stage.course(
        match use_of_set {
            Set::Used => "set in use: resident, in percent",
            Set::Idle => "set left alone: resident, in percent",
        },
        left,
    );
    stage.end(machine);
    Ok((percent(nr_reads - nr_missed, nr_reads), at_end))
}
