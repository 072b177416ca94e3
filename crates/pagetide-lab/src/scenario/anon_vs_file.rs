//! anon-vs-file: unused anonymous memory against files in use, at each swappiness.
//!
//! ```text
//!   anonymous   |<-- 0.75 x memory -->|   all touched once; then only a quarter of it, hot
//!   files       |<-- 0.6 x memory  -->|   read in random orders, eight passes
//! ```
//!
//! The hot part (0.19 + 0.6 x memory) fits, so the cold anonymous pages should go to swap. At
//! swappiness 0 they may not, and the files thrash.
//!
//! The multi-gen LRU of 6.18 never swaps here. New file pages join the oldest generation, so
//! nothing ages, and the anonymous pages stay two generations from the end. Their type is chosen,
//! has nothing to evict, and files pay.
//!
//! Source: the meaning of the kernel's swappiness, 0 (files only) to 200 (anonymous only).

use super::machine::{Host, Layout, Stopped};
use super::stage::{Stage, percent};
use super::{FRAMES, Metric, Scenario, SourceClaim};

const ANON_PAGES: u32 = FRAMES / 4 * 3;
const HOT_PAGES: u32 = ANON_PAGES / 4;
const FILE_PAGES: u32 = FRAMES / 10 * 6;
const PASSES: u32 = 8;
const SWAP_PAGES: u64 = 4 * FRAMES as u64;
/// Swappiness, and the metrics: hits of the last pass, evicted cold anonymous pages, and misses of
/// all passes.
const WILLING: [(u8, &str, &str, &str); 4] = [
    (0, "file_hit_percent_s0", "cold_swapped_percent_s0", "missed_percent_s0"),
    (60, "file_hit_percent_s60", "cold_swapped_percent_s60", "missed_percent_s60"),
    (100, "file_hit_percent_s100", "cold_swapped_percent_s100", "missed_percent_s100"),
    (200, "file_hit_percent_s200", "cold_swapped_percent_s200", "missed_percent_s200"),
];
const HIT: &str = "Hits of the last pass over the files, at this swappiness; 100 is best.";
const COLD: &str = "Cold anonymous pages that are not resident at the end, at this swappiness.";
const MISSED: &str = "Misses of all passes, of files and of hot anonymous pages, as a share of the \
                      accesses; lower is better, and 6.3 is each page of the files once.";

pub(super) const SCENARIO: Scenario = Scenario {
    name: "anon-vs-file",
    story: "0.75 x memory anonymous, three quarters of it cold, against files of 0.6 x memory.",
    source: "the kernel's documentation of swappiness",
    metrics: &[
        Metric::new(WILLING[0].1, HIT, &[]),
        Metric::new(
            WILLING[0].2,
            COLD,
            &[
                SourceClaim::of("mglru", "0: files only"),
                SourceClaim::of("mglru-6.1", "0: files only"),
                SourceClaim::of("active-inactive", "0: files only"),
            ],
        ),
        Metric::new(WILLING[0].3, MISSED, &[]),
        Metric::new(WILLING[1].1, HIT, &[]),
        Metric::new(WILLING[1].2, COLD, &[]),
        Metric::new(WILLING[1].3, MISSED, &[]),
        Metric::new(WILLING[2].1, HIT, &[]),
        Metric::new(WILLING[2].2, COLD, &[]),
        Metric::new(WILLING[2].3, MISSED, &[]),
        Metric::new(WILLING[3].1, HIT, &[]),
        Metric::new(WILLING[3].2, COLD, &[]),
        Metric::new(WILLING[3].3, MISSED, &[]),
    ],
    play,
};

fn play(stage: &mut Stage<'_>) -> Result<(), Stopped> {
    let nr_frames = stage.vary_frames(FRAMES);
    for (swappiness, hit, cold, missed) in WILLING {
        let mut layout = Layout::new();
        let (program, files) = (layout.anonymous(ANON_PAGES), layout.file(FILE_PAGES));
        let host = Host::machine(nr_frames).with_swap(SWAP_PAGES).with_swappiness(swappiness);
        let mut machine = stage.machine(&layout, host);
        for index in stage.random.order(ANON_PAGES) {
            machine.touch(program, index)?;
        }
        let (mut nr_missed, mut nr_missed_in_all) = (0, 0);
        for _ in 0..PASSES {
            nr_missed = 0;
            for index in stage.random.order(FILE_PAGES) {
                nr_missed += machine.read(files, index, 1)?;
                nr_missed_in_all +=
                    u64::from(machine.touch(program, stage.random.index(HOT_PAGES))?);
            }
            nr_missed_in_all += u64::from(nr_missed);
        }
        let gone = machine.count_absent_of(program, HOT_PAGES..ANON_PAGES);
        stage.measure(hit, percent((FILE_PAGES - nr_missed).into(), FILE_PAGES.into()));
        stage.measure(cold, percent(gone.into(), (ANON_PAGES - HOT_PAGES).into()));
        let nr_accesses = 2 * u64::from(PASSES) * u64::from(FILE_PAGES);
        stage.measure(missed, percent(nr_missed_in_all, nr_accesses));
        stage.end(machine);
    }
    Ok(())
}
