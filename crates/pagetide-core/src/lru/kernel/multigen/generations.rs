//! Lists and sizes of the generations.
//!
//! A folio's generation (GEN field, which the sizes follow) and the list it is linked on (LINK
//! field) are separate. Promotion writes one word and two counters. Eviction later moves the folio
//! to the list of its generation.
//!
//! ```text
//!              lists                     GEN    sizes
//!   gen 3  head  D  tail                  D:3   {D, B}
//!   gen 2  head     tail
//!   gen 1  head  C  tail                  C:1   {C}
//!   gen 0  head  A B  tail   B promoted:  A:0   {A}        B waits to be sorted
//!                                         B:3
//! ```
//!
//! Invariants: GEN and LINK are written under the lruvec's lock only. A folio on a generation's
//! list has ACTIVE clear and a GEN inside its type's window. `nr_folios` agrees with the GEN
//! fields. Unevictable folios are on a separate list and have no generation. Source:
//! `Documentation/mm/multigen_lru.rst`, "Workflow overview".

use super::swappiness::Swappiness;
use super::window::{MAX_NR_GENS, Window, evictable, index_of};
use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, PageType};
use crate::list::FolioList;

const UNEVICTABLE_LINK: u32 = MAX_NR_GENS as u32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The young end.
    Head,
    /// The old end, where eviction scans.
    Tail,
}

#[derive(Debug)]
pub(super) struct Generations {
    pub(super) window: Window,
    lists: [[FolioList; 2]; MAX_NR_GENS],
    nr_folios: [[u64; 2]; MAX_NR_GENS],
    unevictable: FolioList,
}

impl Generations {
    pub(super) const fn new() -> Generations {
        Generations {
            window: Window::new(),
            lists: [const { [const { FolioList::new() }; 2] }; MAX_NR_GENS],
            nr_folios: [[0; 2]; MAX_NR_GENS],
            unevictable: FolioList::new(),
        }
    }

    /// Parks unevictable folios. Clears ACTIVE.
    #[inline]
    pub(super) fn add(&mut self, folios: &Folios, frame: FrameId, seq: u64, end: End) {
        let flags = folios[frame].flags();
        if flags.any(Flags::UNEVICTABLE) {
            return self.park(folios, frame);
        }
        let index = index_of(seq);
        let page_type = flags.page_type().index();
        folios[frame].update(|flags| {
            let flags = flags.without(Flags::ACTIVE).with_link(index as u32);
            Some(flags.with_generation(Some(index as u32)))
        });
        self.nr_folios[index][page_type] += 1;
        self.push(folios, frame, index, page_type, end);
    }

    /// Clears GEN and LINK, and applies `change` to the rest.
    pub(super) fn unlink(
        &mut self,
        folios: &Folios,
        frame: FrameId,
        change: impl Fn(Flags) -> Flags,
    ) {
        let flags =
            folios[frame].update(|flags| Some(change(flags).with_generation(None).with_link(0)));
        if is_parked(flags) {
            return self.unevictable.remove(folios, frame);
        }
        let page_type = flags.page_type().index();
        self.lists[flags.link() as usize][page_type].remove(folios, frame);
        self.nr_folios[generation_of(flags)][page_type] -= 1;
    }

    /// Unlinks the oldest folio, which is in its list's generation.
    #[inline]
    pub(super) fn pop_oldest(
        &mut self,
        folios: &Folios,
        page_type: PageType,
        change: impl Fn(Flags) -> Flags,
    ) -> FrameId {
        let oldest = index_of(self.window.oldest(page_type));
        let list = &mut self.lists[oldest][page_type.index()];
        let frame = list.pop_tail(folios).expect("the generation has a folio");
        folios[frame].update(|flags| Some(change(flags).with_generation(None).with_link(0)));
        self.nr_folios[oldest][page_type.index()] -= 1;
        frame
    }

    fn park(&mut self, folios: &Folios, frame: FrameId) {
        folios[frame].update(|flags| {
            Some(flags.without(Flags::ACTIVE).with_generation(None).with_link(UNEVICTABLE_LINK))
        });
        self.unevictable.push_head(folios, frame);
    }

    /// Moves a promoted folio to the young end of its generation's list.
    pub(super) fn sort(&mut self, folios: &Folios, frame: FrameId) {
        let flags = folios[frame].flags();
        let (from, to) = (flags.link() as usize, generation_of(flags));
        let page_type = flags.page_type().index();
        self.lists[from][page_type].remove(folios, frame);
        folios[frame].update(|flags| Some(flags.with_link(to as u32)));
        self.push(folios, frame, to, page_type, End::Head);
    }

    /// Moves a folio to the next generation. Applies `change` to the flags.
    pub(super) fn move_on(
        &mut self,
        folios: &Folios,
        frame: FrameId,
        end: End,
        change: impl Fn(Flags) -> Flags,
    ) {
        let flags = folios[frame].flags();
        let page_type = flags.page_type().index();
        let old = generation_of(flags);
        let new = (old + 1) % MAX_NR_GENS;
        self.lists[flags.link() as usize][page_type].remove(folios, frame);
        folios[frame].update(|flags| {
            Some(change(flags).with_generation(Some(new as u32)).with_link(new as u32))
        });
        self.nr_folios[old][page_type] -= 1;
        self.nr_folios[new][page_type] += 1;
        self.push(folios, frame, new, page_type, end);
    }

    /// Writes no list. Returns true if the folio was in an older generation.
    pub(super) fn promote(&mut self, folios: &Folios, frame: FrameId) -> bool {
        let youngest = index_of(self.window.max_seq);
        let flags = folios[frame].flags();
        let (page_type, old) = (flags.page_type().index(), generation_of(flags));
        if old == youngest {
            return false;
        }
        folios[frame].update(|flags| Some(flags.with_generation(Some(youngest as u32))));
        self.nr_folios[old][page_type] -= 1;
        self.nr_folios[youngest][page_type] += 1;
        true
    }

    #[inline]
    fn push(&mut self, folios: &Folios, frame: FrameId, index: usize, page_type: usize, end: End) {
        let list = &mut self.lists[index][page_type];
        match end {
            End::Head => list.push_head(folios, frame),
            End::Tail => list.push_tail(folios, frame),
        }
    }

    /// Uses [`FolioList::scan_tail`].
    pub(super) fn oldest_folio<const PREFETCH: bool>(
        &self,
        folios: &Folios,
        page_type: PageType,
    ) -> Option<FrameId> {
        self.list(page_type, self.window.oldest(page_type)).scan_tail::<PREFETCH>(folios)
    }

    pub(super) fn is_empty(&self, page_type: PageType, seq: u64) -> bool {
        self.list(page_type, seq).is_empty()
    }

    fn list(&self, page_type: PageType, seq: u64) -> &FolioList {
        &self.lists[index_of(seq)][page_type.index()]
    }

    pub(super) fn nr_in(&self, page_type: PageType, seq: u64) -> u64 {
        self.nr_folios[index_of(seq)][page_type.index()]
    }

    /// Counts folios in generations up to `max_seq - younger`.
    pub(super) fn nr_evictable(&self, swappiness: Swappiness, younger: u64) -> u64 {
        let youngest = self.window.max_seq - younger;
        evictable(swappiness)
            .flat_map(|page_type| {
                let oldest = self.window.oldest(page_type);
                (oldest..=youngest).map(move |seq| self.nr_in(page_type, seq))
            })
            .sum()
    }

    /// Counts folios in generation `max_seq - steps`.
    pub(super) fn nr_evictable_in(&self, swappiness: Swappiness, steps: u64) -> u64 {
        let seq = self.window.max_seq - steps;
        evictable(swappiness)
            .filter(|page_type| seq >= self.window.oldest(*page_type))
            .map(|page_type| self.nr_in(page_type, seq))
            .sum()
    }

    pub(super) fn nr_folios(&self) -> u64 {
        let on_lists: u64 = self.nr_folios.iter().flatten().sum();
        on_lists + u64::from(self.unevictable.len())
    }

    pub(super) fn validate(&self, folios: &Folios, swappiness: Swappiness) {
        let mut nr_folios = [[0; 2]; MAX_NR_GENS];
        for (link, lists) in self.lists.iter().enumerate() {
            for page_type in PageType::ALL {
                let list = &lists[page_type.index()];
                list.validate(folios);
                for frame in list.iter(folios) {
                    let flags = folios[frame].flags();
                    assert_eq!(flags.link() as usize, link, "{frame} says another list");
                    assert_eq!(flags.page_type(), page_type, "{frame} is of the other type");
                    assert!(flags.any(Flags::ON_LIST) && !flags.any(Flags::ACTIVE), "{frame}");
                    nr_folios[generation_of(flags)][page_type.index()] += 1;
                }
            }
        }
        assert_eq!(nr_folios, self.nr_folios, "sizes and GEN fields");
        self.unevictable.validate(folios);
        assert!(self.unevictable.iter(folios).all(|frame| is_parked(folios[frame].flags())));
        for page_type in evictable(swappiness) {
            let nr_gens = self.window.nr_gens(page_type);
            assert!((2..=4).contains(&nr_gens), "{nr_gens} generations");
            let in_window = (self.window.oldest(page_type)..=self.window.max_seq)
                .map(|seq| self.nr_in(page_type, seq))
                .sum::<u64>();
            let all = nr_folios.iter().map(|sizes| sizes[page_type.index()]).sum::<u64>();
            assert_eq!(in_window, all, "folios outside the window");
        }
    }
}

pub(super) fn is_parked(flags: Flags) -> bool {
    flags.link() == UNEVICTABLE_LINK
}

fn generation_of(flags: Flags) -> usize {
    flags.generation().expect("invariant: a listed folio belongs to a generation") as usize
}
