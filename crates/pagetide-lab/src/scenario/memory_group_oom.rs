//! memory-group-oom: a group without swap should evict file pages before a kill.
//!
//! ```text
//!   limit       |<----------------- 48 ---------------->|
//!   file        |<- 8 ->|                                    read first, and again now and then
//!   anonymous           |<------------- 44 ------------>|    touched page by page: 4 too many
//!   more                                                |+4..   until nothing of the file is left
//! ```
//!
//! First half the file must go. Running out of memory there is reclaim's fault: the design may not
//! touch the youngest generations, or gives up when one scan finds every page young. Then the
//! program grows past the limit, and must run out once the file is gone.
//!
//! Source: a memory group runs out of memory only if nothing in it can be reclaimed. The sizes (44
//! anonymous and 8 of a file in 48, 64 pages for each MiB) are our own.

use super::machine::{Area, Host, Layout, Machine, Stopped};
use super::stage::{Stage, percent};
use super::{Metric, Scenario, SourceClaim};
use crate::random::Random;

/// Pages for a MiB.
const SCALE: u32 = 64;
const LIMIT: u32 = 48 * SCALE;
const FILE_PAGES: u32 = 8 * SCALE;
const ANON_PAGES: u32 = 44 * SCALE;
/// Enough to run out for certain.
const MORE_PAGES: u32 = 8 * SCALE;
const PAGES_TO_A_READ: u32 = 4;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "memory-group-oom",
    story: "44 MiB anonymous and 8 of a file in a group of 48, without swap; then more.",
    source: "a memory group's promise; sizes of its own",
    metrics: &[
        Metric::new(
            "early_out_of_memory",
            "Times memory ran out although half the file would have been enough; 0 is right.",
            &[SourceClaim::of_all("0: file pages are reclaimed first")],
        ),
        Metric::new(
            "file_left_percent",
            "How much of the file is resident once 44 MiB are; about 50 fits.",
            &[],
        ),
        Metric::new(
            "anonymous_at_first_out_of_memory_percent",
            "Anonymous pages when memory first ran out, as a share of the limit; 100 is best.",
            &[SourceClaim::of_all("about 100: only when the file is gone")],
        ),
        Metric::new(
            "file_at_first_out_of_memory_percent",
            "How much of the file was resident then; 0 is right.",
            &[SourceClaim::of_all("0")],
        ),
    ],
    play,
};

fn play(stage: &mut Stage<'_>) -> Result<(), Stopped> {
    let nr_frames = stage.vary_frames(LIMIT);
    let mut layout = Layout::new();
    let file = layout.file(FILE_PAGES);
    let (program, more) = (layout.anonymous(ANON_PAGES), layout.anonymous(MORE_PAGES));
    let mut machine = stage.machine(&layout, Host::group(nr_frames).with_swap(0));
    machine.read_all(file, stage.random.index(FILE_PAGES), 8)?;
    grow(&mut machine, program, file, &mut stage.random)?;
    stage.measure("early_out_of_memory", machine.outcome().out_of_memory as f64);
    let left = |machine: &Machine<'_>| percent(machine.nr_resident(file).into(), FILE_PAGES.into());
    stage.measure("file_left_percent", left(&machine));
    grow(&mut machine, more, file, &mut stage.random)?;
    let nr_anonymous = machine.nr_resident(program) + machine.nr_resident(more);
    stage.measure(
        "anonymous_at_first_out_of_memory_percent",
        percent(nr_anonymous.into(), nr_frames.into()),
    );
    stage.measure("file_at_first_out_of_memory_percent", left(&machine));
    stage.end(machine);
    Ok(())
}

/// Touches the area page by page with some reads of the file, until done or out of memory.
fn grow(
    machine: &mut Machine<'_>,
    area: Area,
    file: Area,
    random: &mut Random,
) -> Result<(), Stopped> {
    for index in 0..area.nr_pages {
        machine.touch(area, index)?;
        if machine.outcome().out_of_memory > 0 {
            break;
        }
        if index % PAGES_TO_A_READ == 0 {
            machine.read(file, random.index(FILE_PAGES), 1)?;
        }
    }
    Ok(())
}
