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
//! Readahead beyond the call, but for whole windows under the condition that asks for them. Time,
//! but for what accesses and background reclaim cost.

use crate::replay::{Memory, ReplayOutcome, Setup, World};
use crate::trace::{Access, AccessKind, DenseTrace};
use pagetide_core::ids::{MappingId, PageId, PageIndex};
use pagetide_core::units::Millis;
use std::collections::VecDeque;
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

    pub(super) fn nr_frames(self) -> u32 {
        match self.memory {
            Memory::Group { nr_frames } | Memory::Machine { nr_frames } => nr_frames,
            Memory::Zone(zone) => zone.nr_frames,
            Memory::Tiers(memory) => memory.whole.nr_frames,
            memory @ Memory::KernelGroup { .. } => memory.nr_frames_max(),
        }
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
    /// Pages until the next question: those that were accessed, and those asked for ahead.
    stretch_left: u32,
    /// Accesses since the last one.
    nr_played: u64,
    ahead: Ahead,
    /// Windows under way, oldest first, of the file that is being read.
    in_flight: VecDeque<Range<u32>>,
}

/// How files are read ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ahead {
    /// Not beyond the call.
    Nothing,
    /// A miss brings in so many pages, and waits for them.
    Window(u32),
    /// The same, but the next window is asked for as soon as the reader is at the start of one, so
    /// that two are locked at a time.
    Stream {
        /// Pages of a window.
        window: u32,
        /// How long the device takes for one.
        time: Millis,
    },
}

impl<'a> Machine<'a> {
    pub(super) fn new(
        setup: Setup,
        layout: &'a Layout,
        ahead: Ahead,
        keep_on: &'a dyn Fn(u64) -> bool,
    ) -> Machine<'a> {
        fn nobody(_: PageId) {}
        let world = World::new(setup, &layout.pages, nobody as fn(PageId));
        let in_flight = VecDeque::new();
        Machine { world, keep_on, stretch_left: STRETCH, nr_played: 0, ahead, in_flight }
    }

    /// One call that reads pages `index..index + nr_pages` of a file, cut at its end; returns how
    /// many were absent, those that were read ahead with them included.
    pub(super) fn read(&mut self, area: Area, index: u32, nr_pages: u32) -> Result<u32, Stopped> {
        self.call(area, index, nr_pages, AccessKind::Read)
    }

    /// Reads one page; returns 1 if it was absent, and 0 if not, whatever was read ahead with it.
    pub(super) fn read_page(&mut self, area: Area, index: u32) -> Result<u32, Stopped> {
        let nr_absent = u32::from(!self.world.is_resident(area.first + index));
        self.read(area, index, 1)?;
        Ok(nr_absent)
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
        if let Ahead::Stream { window, time } = self.ahead {
            return self.call_in_stream(area, ranks, kind, window, time);
        }
        let mut nr_absent = self.count_absent(ranks.clone());
        if let (true, Ahead::Window(window)) = (nr_absent > 0, self.ahead) {
            let ahead = ranks.start..area.first + (index + window).max(end).min(area.nr_pages);
            nr_absent = self.count_absent(ahead.clone());
            self.fill(ahead, AccessKind::Readahead);
        } else if nr_absent > 0 && ranks.len() > 1 {
            self.fill(ranks.clone(), AccessKind::Fill);
        }
        for rank in ranks {
            self.world.apply(rank, kind);
            self.tick()?;
        }
        Ok(nr_absent)
    }

    /// As [`Machine::call`], with windows in flight.
    fn call_in_stream(
        &mut self,
        area: Area,
        ranks: Range<u32>,
        kind: AccessKind,
        window: u32,
        time: Millis,
    ) -> Result<u32, Stopped> {
        let end = area.first + area.nr_pages;
        let mut nr_absent = 0;
        for rank in ranks {
            if !self.world.is_resident(rank) {
                nr_absent += self.ask_for(rank..(rank + window).min(end))?;
            }
            if self.in_flight.back().is_some_and(|last| last.start == rank) {
                let next = self.in_flight.back().map_or(end, |last| last.end);
                nr_absent += self.ask_for(next..(next + window).min(end))?;
            }
            while let Some(first) = self.in_flight.pop_front_if(|first| first.start <= rank) {
                self.world.advance_to(Millis(self.world.now().0 + time.0));
                self.world.end_fill_of(first);
            }
            self.world.apply(rank, kind);
            self.tick()?;
        }
        Ok(nr_absent)
    }

    /// Asks the device for what is absent of a window; returns how many pages that are.
    fn ask_for(&mut self, window: Range<u32>) -> Result<u32, Stopped> {
        let first = window.clone().find(|&rank| !self.world.is_resident(rank));
        let Some(first) = first else { return Ok(0) };
        let ranks = first..window.end;
        let nr_absent = self.count_absent(ranks.clone());
        for rank in ranks.clone() {
            self.world.apply(rank, AccessKind::Readahead);
            self.pass()?;
        }
        self.in_flight.push_back(ranks);
        Ok(nr_absent)
    }

    fn count_absent(&self, ranks: Range<u32>) -> u32 {
        ranks.filter(|&rank| !self.world.is_resident(rank)).count() as u32
    }

    /// Brings in what is absent, as one group.
    fn fill(&mut self, ranks: Range<u32>, kind: AccessKind) {
        let first = ranks.start;
        for rank in ranks {
            self.world.apply(rank, kind);
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

    /// Whether its readers look at what is resident, where others read once more to see.
    pub(super) fn looks_at_residents(&self) -> bool {
        matches!(self.ahead, Ahead::Stream { .. })
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

    /// Counts an access.
    fn tick(&mut self) -> Result<(), Stopped> {
        self.nr_played += 1;
        self.pass()
    }

    /// A page was dealt with: asks now and then whether to go on.
    fn pass(&mut self) -> Result<(), Stopped> {
        self.stretch_left -= 1;
        if self.stretch_left > 0 {
            return Ok(());
        }
        self.stretch_left = STRETCH;
        if (self.keep_on)(std::mem::take(&mut self.nr_played)) { Ok(()) } else { Err(Stopped) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetide_core::lru::PolicyName;

    #[test]
    fn a_stream_of_windows_misses_each_page_once_and_takes_the_devices_time() {
        let mut layout = Layout::new();
        let file = layout.file(256);
        let setup = Setup::new(PolicyName::Mglru, Memory::Machine { nr_frames: 1024 });
        let ahead = Ahead::Stream { window: 32, time: Millis(10) };
        let mut machine = Machine::new(setup, &layout, ahead, &|_| true);
        assert_eq!(machine.read(file, 0, 1), Ok(64), "the second window is asked for at once");
        assert!(
            machine.in_flight.iter().eq(std::iter::once(&(32..64))),
            "and still under way when the first has come"
        );
        assert_eq!(machine.read_all(file, 0, 8), Ok(256 - 64));
        assert_eq!(machine.nr_resident(file), 256);
        assert!(
            (80..90).contains(&machine.world.now().0),
            "{:?} for 8 windows",
            machine.world.now()
        );
        assert!(machine.in_flight.is_empty());
        assert_eq!(machine.read_all(file, 0, 8), Ok(0));
    }
}
