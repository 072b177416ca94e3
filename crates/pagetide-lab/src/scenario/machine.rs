//! The machine of a scenario: the replay's world, driven call by call.
//!
//! **Problem.** Stories use files and calls, and react to misses ("read until fully cached").
//! **Idea.**
//!
//! ```text
//!   Layout   file 0: ranks 0..3072    file 1: ranks 3072..6144    ...
//!   read(area, 70, 4)  ->  fill the absent pages of 70..74, as one group; then read each
//! ```
//!
//! A layout lists every page once, as a trace. The machine applies accesses to a world over this
//! trace.
//!
//! **Data and invariants.** Areas are disjoint ranges of ranks with separate mappings. A call reads
//! each page once. Misses count absent pages.
//!
//! **Ignored.** Readahead beyond the call. Time, except the cost of accesses and background
//! reclaim.

use crate::replay::{Memory, ReplayOutcome, Setup, World};
use crate::trace::{Access, AccessKind, DenseTrace};
use pagetide_core::ids::{MappingId, PageId, PageIndex};
use std::ops::Range;

/// Accesses between two calls of `keep_on`.
const STRETCH: u32 = 1 << 12;

/// `keep_on` ended the play.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stopped;

#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    pub(super) memory: Memory,
    pub(super) swappiness: u8,
    /// Capacity of the swap device in pages. `None`: no swap and no anonymous pages.
    pub(super) swap_pages: Option<u64>,
}

impl Host {
    pub(super) fn group(nr_frames: u32) -> Host {
        Host { memory: Memory::Group { nr_frames }, swappiness: 60, swap_pages: None }
    }

    pub(super) fn machine(nr_frames: u32) -> Host {
        Host { memory: Memory::Machine { nr_frames }, ..Host::group(nr_frames) }
    }

    pub(super) fn with_swap(self, nr_pages: u64) -> Host {
        Host { swap_pages: Some(nr_pages), ..self }
    }

    pub(super) fn with_swappiness(self, swappiness: u8) -> Host {
        Host { swappiness, ..self }
    }
}

/// A range of pages: a file, or a program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Area {
    first: u32,
    pub(super) nr_pages: u32,
}

#[derive(Debug, Default)]
pub(super) struct Layout {
    pages: DenseTrace,
    nr_areas: u32,
}

impl Layout {
    pub(super) fn new() -> Layout {
        Layout::default()
    }

    pub(super) fn anonymous(&mut self, nr_pages: u32) -> Area {
        self.pages.mark_anonymous(MappingId(self.nr_areas));
        self.file(nr_pages)
    }

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

pub(super) struct Machine<'a> {
    world: World<'a>,
    keep_on: &'a dyn Fn(u64) -> bool,
    /// Accesses until the next call of `keep_on`.
    stretch_left: u32,
    /// Accesses since the last call of `keep_on`.
    nr_played: u64,
}

impl<'a> Machine<'a> {
    pub(super) fn new(
        setup: Setup,
        layout: &'a Layout,
        keep_on: &'a dyn Fn(u64) -> bool,
    ) -> Machine<'a> {
        let world = World::new(setup, &layout.pages, |_| {});
        Machine { world, keep_on, stretch_left: STRETCH, nr_played: 0 }
    }

    /// Reads pages `index..index + nr_pages` of a file in one call, cut at its end. Returns the
    /// absent pages.
    pub(super) fn read(&mut self, area: Area, index: u32, nr_pages: u32) -> Result<u32, Stopped> {
        self.call(area, index, nr_pages, AccessKind::Read)
    }

    pub(super) fn write(&mut self, area: Area, index: u32, nr_pages: u32) -> Result<u32, Stopped> {
        self.call(area, index, nr_pages, AccessKind::Write)
    }

    /// Accesses a page through the page table. Returns 1 if the page was absent, else 0.
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

    fn fill(&mut self, ranks: Range<u32>) {
        let first = ranks.start;
        for rank in ranks {
            self.world.apply(rank, AccessKind::Fill);
        }
        self.world.apply(first, AccessKind::Filled);
    }

    /// Reads a whole file once from page `start` and around, in calls of `call` pages. Returns the
    /// absent pages.
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

    pub(super) fn nr_resident(&self, area: Area) -> u32 {
        area.nr_pages - self.count_absent_of(area, 0..area.nr_pages)
    }

    pub(super) fn count_absent_of(&self, area: Area, pages: Range<u32>) -> u32 {
        self.count_absent(area.first + pages.start..area.first + pages.end)
    }

    pub(super) fn outcome(&self) -> ReplayOutcome {
        self.world.outcome()
    }

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
