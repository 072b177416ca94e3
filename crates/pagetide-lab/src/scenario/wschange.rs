//! wschange: tests if a new working set displaces an established one.
//!
//! ```text
//!   memory   |<------------- 4096 ------------->|
//!   file 1   |<-------- 3072 -------->|   read until a pass misses nothing, then twice more
//!   file 2                 the same       ... and 3, and the same round again
//! ```
//!
//! One file fits, two do not. The last file's pages are active when the next file comes, and half
//! of memory is too small to prove new pages. A policy that never ages active pages thrashes for
//! ever.
//!
//! Stale statistics (`@stale-statistics`) save the two lists a read. Multi-gen never caches the
//! first file of round 2 here, as in three kernel boots of five.
//!
//! Sources: the thrash detection series of 2013 (16 GiB, files of 12 GiB, up to 30 reads). Booted
//! 6.18 kernels (512 MiB, files of 300 MiB, 5 boots). Reads include the pass without misses, as in
//! the series' table.

use super::machine::{Area, Host, Layout, Machine, Stopped};
use super::stage::{Stage, percent};
use super::{FRAMES, Metric, Scenario, SourceClaim};

const FILE_PAGES: u32 = FRAMES / 4 * 3;
const FILES: usize = 3;
const ROUNDS: usize = 2;
/// Reads after which a file counts as never cached.
const READS_MAX: u32 = 30;
/// Reads of a cached file, "for activation".
const READS_MORE: u32 = 2;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "wschange",
    story: "Three files of 0.75 x memory, each read until fully cached and twice more; two rounds.",
    source: "thrash detection series, 2013 (wschange); booted 6.18 kernels",
    metrics: &[
        Metric::new(
            "round_1_reads",
            "Most reads a file of the first round took, the one that missed nothing included; \
             2 is best, 30 is never.",
            &[
                SourceClaim::of("active-inactive-vanilla", "30, never cached"),
                SourceClaim::of("active-inactive-2013", "6"),
                SourceClaim::of("active-inactive", "2013 series: 6; 6.18 in 5 boots: 2-6"),
                SourceClaim::of("mglru", "6.18 in 5 boots: 2"),
            ],
        ),
        Metric::new(
            "round_2_reads",
            "As round_1_reads, of the second round.",
            &[
                SourceClaim::of("active-inactive-2013", "5"),
                SourceClaim::of("active-inactive", "2013 series: 5; 6.18 in 5 boots: 3-6"),
                SourceClaim::of("mglru", "6.18 in 5 boots: never in 3, 2-3 in 2"),
            ],
        ),
        Metric::new(
            "round_2_first_file_reads",
            "As round_2_reads, of the first file alone.",
            &[SourceClaim::of("mglru", "6.18 in 5 boots: never in 3, 2-3 in 2")],
        ),
        Metric::new(
            "files_never_cached",
            "Files, of six, that still missed after 30 reads; 0 is best.",
            &[
                SourceClaim::of("active-inactive-vanilla", "the second file, and there it stopped"),
                SourceClaim::of("active-inactive-2013", "0"),
                SourceClaim::of("active-inactive", "0"),
                SourceClaim::of("mglru", "6.18: files 1 and 2 of round 2, in 3 boots of 5"),
            ],
        ),
        Metric::new(
            "round_2_resident_percent",
            "The least of a file resident after its reads in round 2; 100 is best.",
            &[
                SourceClaim::of("active-inactive", "100"),
                SourceClaim::of("mglru", "6.18: 3-67 in 3 boots, 100 in 2"),
            ],
        ),
        Metric::new(
            "round_2_missed_percent",
            "Misses of round 2 as a share of its files' pages; 100 is each page once, the best.",
            &[],
        ),
    ],
    play,
};

fn play(stage: &mut Stage<'_>) -> Result<(), Stopped> {
    let nr_frames = stage.vary_frames(FRAMES);
    let plan = Plan::new(stage, FILE_PAGES, READS_MAX);
    let mut layout = Layout::new();
    let files = files(&mut layout, FILE_PAGES);
    let mut machine = stage.machine(&layout, Host::group(nr_frames));
    let rounds = plan.run(&mut machine, files)?;
    let of_round = |round: usize| rounds.iter().filter(move |file| file.round == round);
    let most = |round| of_round(round).map(|file| file.nr_reads).max().unwrap_or(0);
    let second_missed: u64 = of_round(1).map(FileRead::nr_missed).sum();
    let least = of_round(1).map(|file| file.nr_resident).min().unwrap_or(0);
    stage.measure("round_1_reads", most(0).into());
    stage.measure("round_2_reads", most(1).into());
    let first = of_round(1).map(|file| file.nr_reads).next().unwrap_or(0);
    stage.measure("round_2_first_file_reads", first.into());
    stage
        .measure("files_never_cached", rounds.iter().filter(|file| !file.is_cached).count() as f64);
    stage.measure("round_2_resident_percent", percent(least.into(), FILE_PAGES.into()));
    stage.measure(
        "round_2_missed_percent",
        percent(second_missed, FILES as u64 * u64::from(FILE_PAGES)),
    );
    let passes = rounds.iter().flat_map(|file| &file.missed);
    stage.course("misses per read", passes.map(|missed| f64::from(*missed)).collect());
    stage.end(machine);
    Ok(())
}

/// The seed's choices for reading.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    start: u32,
    call: u32,
    reads_max: u32,
}

struct FileRead {
    round: usize,
    nr_reads: u32,
    is_cached: bool,
    nr_resident: u32,
    missed: Vec<u32>,
}

impl FileRead {
    fn nr_missed(&self) -> u64 {
        self.missed.iter().copied().map(u64::from).sum()
    }
}

impl Plan {
    pub(super) fn new(stage: &mut Stage<'_>, file_pages: u32, reads_max: u32) -> Plan {
        let (start, call) = stage.vary_read(file_pages);
        Plan { start, call, reads_max }
    }

    /// Plays two rounds over fresh files, to age a machine.
    pub(super) fn wear(
        &self,
        machine: &mut Machine<'_>,
        files: [Area; FILES],
    ) -> Result<(), Stopped> {
        self.run(machine, files).map(|_| ())
    }

    fn run(
        &self,
        machine: &mut Machine<'_>,
        files: [Area; FILES],
    ) -> Result<Vec<FileRead>, Stopped> {
        let mut reads = Vec::with_capacity(ROUNDS * FILES);
        for round in 0..ROUNDS {
            for file in files {
                reads.push(self.read_until_cached(machine, file, round)?);
            }
        }
        Ok(reads)
    }

    fn read_until_cached(
        &self,
        machine: &mut Machine<'_>,
        file: Area,
        round: usize,
    ) -> Result<FileRead, Stopped> {
        let mut missed = Vec::new();
        let is_cached = loop {
            missed.push(machine.read_all(file, self.start, self.call)?);
            if missed.last() == Some(&0) {
                break true;
            }
            if missed.len() as u32 == self.reads_max {
                break false;
            }
        };
        let (nr_reads, nr_resident) = (missed.len() as u32, machine.nr_resident(file));
        for _ in 0..READS_MORE {
            missed.push(machine.read_all(file, self.start, self.call)?);
        }
        Ok(FileRead { round, nr_reads, is_cached, nr_resident, missed })
    }
}

pub(super) fn files(layout: &mut Layout, nr_pages: u32) -> [Area; FILES] {
    std::array::from_fn(|_| layout.file(nr_pages))
}
