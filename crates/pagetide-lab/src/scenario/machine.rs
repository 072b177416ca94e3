//! The machine of a scenario: the replay's world, driven call by call instead of by a trace.
//!
//! **Problem.** "Read the file until it is fully cached" is no trace: what comes next depends on
//! what was missed. A story also wants to speak of files and calls, not of ranks.
//!
//! **Idea.**
//!
//! ```text
//!   Layout   file 0: ranks 0..3072    file 1: ranks 3072..6144    ...
//!   read(area, 70, 4)  ->  fill what is absent of pages 70..74, as one group; then read each
//! ```
//!
//! A layout lists every page there will be, once, as a trace of its own; the machine applies
//! accesses to the world over it, and counts what was absent.
//!
//! **Data and invariants.** Areas are disjoint stretches of ranks, each a mapping of its own. A
//! call reads each page once, and it is absent pages, not accesses, that are counted as misses.
//!
//! **Ignored.** Readahead beyond the call. Time, but for what accesses and background reclaim cost.

use crate::replay::{Memory, ReplayOutcome, Setup, World};
use crate::trace::{Access, AccessKind, DenseTrace};
use pagetide_core::ids::{MappingId, PageId, PageIndex};
use std::ops::Range;

/// Accesses between two questions whether to go on.
const STRETCH: u32 = 1 << 12;

/// The play was told to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stopped;

/// What a machine is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    pub(super) memory: Memory,
    pub(super) swappiness: u8,
    /// Pages its swap device holds; none, and nothing anonymous, without.
    pub(super) swap_pages: Option<u64>,
}

impl Host {
    /// A memory group with this limit, for files only.
    pub(super) fn group(nr_frames: u32) -> Host {
        Host { memory: Memory::Group { nr_frames }, swappiness: 60, swap_pages: None }
    }

    /// A machine of its own, with background reclaim, for files only.
    pub(super) fn machine(nr_frames: u32) -> Host {
        Host { memory: Memory::Machine { nr_frames }, ..Host::group(nr_frames) }
    }

    /// The same with anonymous memory, and a swap device of so many pages.
    pub(super) fn with_swap(self, nr_pages: u64) -> Host {
        Host { swap_pages: Some(nr_pages), ..self }
    }

    /// The same, so willing to swap (0 to 200).
    pub(super) fn with_swappiness(self, swappiness: u8) -> Host {
        Host { swappiness, ..self }
    }
}

/// A stretch of pages: a file, or a program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Area {
    first: u32,
    /// How many pages it has.
    pub(super) nr_pages: u32,
}

/// All pages a scenario will ever touch.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pages: DenseTrace,
    nr_areas: u32,
}

impl Layout {
    pub(super) fn new() -> Layout {
        Layout::default()
    }

    /// One more program's memory.
    pub(super) fn anonymous(&mut self, nr_pages: u32) -> Area {
        self.pages.mark_anonymous(MappingId(self.nr_areas));
        self.file(nr_pages)
    }

    /// One more file.
    pub(super) fn file(&mut self, nr_pages: u32) -> Area {
        let first = self.pages.nr_pages() as u32;
        let mapping = MappingId(self.nr_areas);
        self.nr_areas += 1;
        for index in 0..u64::from(nr_pages) {
            let page = PageId { mapping, index: PageIndex(index) };
            self.pages.push(Access { page, kind: AccessKind::Read, thread: 0 });
        }
        Area { first, nr_pages }
    }
}

/// A machine at work.
pub(super) struct Machine<'a> {
    world: World<'a, fn(PageId)>,
    keep_on: &'a dyn Fn(u64) -> bool,
    /// Accesses until the next question.
    stretch_left: u32,
    /// Accesses since the last one.
    nr_played: u64,
}

impl<'a> Machine<'a> {
    pub(super) fn new(
        setup: Setup,
        layout: &'a Layout,
        keep_on: &'a dyn Fn(u64) -> bool,
    ) -> Machine<'a> {
        fn ignore(_: PageId) {}
        let world = World::new(setup, &layout.pages, ignore as fn(PageId));
        Machine { world, keep_on, stretch_left: STRETCH, nr_played: 0 }
    }

    /// One call that reads pages `index..index + nr_pages` of a file, cut at its end; returns how
    /// many were absent.
    pub(super) fn read(&mut self, area: Area, index: u32, nr_pages: u32) -> Result<u32, Stopped> {
        self.call(area, index, nr_pages, AccessKind::Read)
    }

    /// As [`Machine::read`], but writes.
    pub(super) fn write(&mut self, area: Area, index: u32, nr_pages: u32) -> Result<u32, Stopped> {
        self.call(area, index, nr_pages, AccessKind::Write)
    }

    /// One access of a page through the table, of a file that is mapped or of a program's memory;
    /// returns 1 if the page was absent, and 0 if not.
    pub(super) fn touch(&mut self, area: Area, index: u32) -> Result<u32, Stopped> {
        let rank = area.first + index;
        let nr_absent = u32::from(!self.world.is_resident(rank));
        self.world.apply(rank, AccessKind::Table);
        self.tick()?;
        Ok(nr_absent)
    }

    fn call(
        &mut self,
        area: Area,
        index: u32,
        nr_pages: u32,
        kind: AccessKind,
    ) -> Result<u32, Stopped> {
        let end = (index + nr_pages).min(area.nr_pages);
        let ranks = area.first + index..area.first + end;
        let nr_absent = self.count_absent(ranks.clone());
        if nr_absent > 0 && ranks.len() > 1 {
            self.fill(ranks.clone());
        }
        for rank in ranks {
            self.world.apply(rank, kind);
            self.tick()?;
        }
        Ok(nr_absent)
    }

    fn count_absent(&self, ranks: Range<u32>) -> u32 {
        ranks.filter(|&rank| !self.world.is_resident(rank)).count() as u32
    }

    /// Brings in what is absent, as one group.
    fn fill(&mut self, ranks: Range<u32>) {
        let first = ranks.start;
        for rank in ranks {
            self.world.apply(rank, AccessKind::Fill);
        }
        self.world.apply(first, AccessKind::Filled);
    }

    /// Reads a whole file once, from page `start` round to the page before it, in calls of
    /// `call` pages; returns how many pages were absent.
    pub(super) fn read_all(&mut self, area: Area, start: u32, call: u32) -> Result<u32, Stopped> {
        let mut nr_absent = 0;
        for stretch in [start..area.nr_pages, 0..start] {
            let mut index = stretch.start;
            while index < stretch.end {
                let nr_pages = call.min(stretch.end - index);
                nr_absent += self.read(area, index, nr_pages)?;
                index += nr_pages;
            }
        }
        Ok(nr_absent)
    }

    /// How many of an area's pages are resident.
    pub(super) fn nr_resident(&self, area: Area) -> u32 {
        area.nr_pages - self.count_absent_of(area, 0..area.nr_pages)
    }

    /// How many of these pages of an area are not.
    pub(super) fn count_absent_of(&self, area: Area, pages: Range<u32>) -> u32 {
        self.count_absent(area.first + pages.start..area.first + pages.end)
    }

    /// What was counted so far.
    pub(super) fn outcome(&self) -> ReplayOutcome {
        self.world.outcome()
    }

    /// Counts an access, and asks now and then whether to go on.
    fn tick(&mut self) -> Result<(), Stopped> {
        self.nr_played += 1;
        self.stretch_left -= 1;
        if self.stretch_left > 0 {
            return Ok(());
        }
        self.stretch_left = STRETCH;
        if (self.keep_on)(std::mem::take(&mut self.nr_played)) { Ok(()) } else { Err(Stopped) }
    }
}
