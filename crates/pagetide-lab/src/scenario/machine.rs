//! The machine of a scenario: the replay's world, driven call by call instead of by a trace.
//!
//! # Problem
//!
//! "Read the file until it is fully cached" is no trace: what comes next depends on what was
//! missed. A story also wants to speak of files and calls, not of ranks.
//!
//! # Idea
//!
//! ```text
//!   Layout   file 0: ranks 0..3072    file 1: ranks 3072..6144    ...
//!   read(area, 70, 4)  ->  fill what is absent of pages 70..74, as one group; then read each
//! ```
//!
//! A layout lists every page there will be, once, as a trace of its own; the machine applies
//! accesses to the world over it, and counts what was absent.
//!
//! # Data and invariants
//!
//! Areas are disjoint stretches of ranks, each a mapping of its own. A call reads each page once,
//! and it is absent pages, not accesses, that are counted as misses.
//!
//! # What it deliberately ignores
//!
//! Readahead beyond the call, and anything that takes time.

use super::stage::Stopped;
use crate::replay::{Outcome, Setup, World};
use crate::trace::{Access, AccessKind, DenseTrace};
use pagetide_core::ids::{MappingId, PageId, PageIndex};

/// Accesses between two questions whether to go on.
const STRETCH: u32 = 1 << 14;

/// A stretch of pages: a file.
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
    /// Until the next question.
    stretch_left: u32,
}

impl<'a> Machine<'a> {
    pub(super) fn new(
        setup: Setup,
        layout: &'a Layout,
        keep_on: &'a dyn Fn(u64) -> bool,
    ) -> Machine<'a> {
        fn nobody(_: PageId) {}
        let world = World::new(setup, &layout.pages, nobody as fn(PageId));
        Machine { world, keep_on, stretch_left: STRETCH }
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

    fn call(
        &mut self,
        area: Area,
        index: u32,
        nr_pages: u32,
        kind: AccessKind,
    ) -> Result<u32, Stopped> {
        let end = (index + nr_pages).min(area.nr_pages);
        let ranks = area.first + index..area.first + end;
        let nr_absent = ranks.clone().filter(|&rank| !self.world.is_resident(rank)).count() as u32;
        if nr_absent > 0 && ranks.len() > 1 {
            for rank in ranks.clone() {
                self.world.apply(rank, AccessKind::Fill);
            }
            self.world.apply(area.first, AccessKind::Filled);
        }
        for rank in ranks {
            self.world.apply(rank, kind);
            self.tick()?;
        }
        Ok(nr_absent)
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
        let ranks = area.first..area.first + area.nr_pages;
        ranks.filter(|&rank| self.world.is_resident(rank)).count() as u32
    }

    /// What was counted so far.
    pub(super) fn outcome(&self) -> Outcome {
        self.world.outcome()
    }

    /// Asks now and then whether to go on.
    fn tick(&mut self) -> Result<(), Stopped> {
        self.stretch_left -= 1;
        if self.stretch_left > 0 {
            return Ok(());
        }
        self.stretch_left = STRETCH;
        if (self.keep_on)(u64::from(STRETCH)) { Ok(()) } else { Err(Stopped) }
    }
}
