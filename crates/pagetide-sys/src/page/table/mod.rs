//! The page table of one mapping: page index to page word.
//!
//! **Problem.** A file may have 2^33 pages and have touched ten; a hit must find its word in a few
//! loads; aging must not read words that were not touched.
//!
//! **Idea.** A radix tree of three levels, made as it is touched and never unmade before the table
//! is. Each leaf carries one mark that says a word in it became young. The first leaves hang on the
//! table itself: most files have no others, and the levels above would take twenty times as much as
//! a leaf.
//!
//! ```text
//!   index:   | top 12 bits | mid 12 bits | leaf 9 bits |
//!
//!   near [32] -------------------------------> leaf { touched, words [512] }
//!       64 MiB                                     4 KiB + one line for 2 MiB
//!   top [4096] --> mid { branches [4096] } --> leaf
//!       32 KiB         64 KiB for 8 GiB
//! ```
//!
//! A random reader pays two cache misses in a row: the word, and then the bytes it names. Beside
//! each leaf is a guess at where its frames are, so that a copying reader can start both.
//!
//! **Data and invariants.** S6: a leaf lives as long as its table, and a table keeps its arena
//! alive; so a [`PageRef`] may go from index to word to frame memory without further checks. A
//! table belongs to one arena: frames of another are refused at install. Touched covers young: a
//! word that is young and not yet seen by a walk of touched leaves has its leaf marked, or about to
//! be by the thread that made it young; both sides use sequentially consistent order.
//!
//! **Ignored.** Giving back leaves of words that are all absent. Before a table is dropped,
//! its pages must be evicted: frames still in it stay claimed, and are lost until the arena goes.
//!
//! Source: Linux documentation, "Page Tables" (mm/page_tables), for the shape; MGLRU's design
//! document, `multigen_lru.rst`, for skipping untouched tables.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use once_cell::race::OnceBox;
use pagetide_core::ids::{FrameId, PageIndex};

use crate::fault::page_file::PageFile;
use crate::fault::region::RegionMemory;
use crate::memory::arena::FrameArena;
use crate::page::wait;
use crate::page::word::{PageWord, ReadTicket, Snapshot};
use crate::sync::{AtomicBool, AtomicU32, Ordering};

pub use self::leaf_ref::LeafRef;
pub use self::word_ref::WordRef;

mod leaf_ref;
mod place;
mod word_ref;

// Loom makes and watches every word it could meet: its tree is small.
const LEAF_BITS: u32 = if cfg!(loom) { 1 } else { 9 };
const MID_BITS: u32 = if cfg!(loom) { 1 } else { 12 };
const TOP_BITS: u32 = if cfg!(loom) { 1 } else { 12 };

/// Leaves that hang on the table itself.
const NEAR_LEAVES: usize = if cfg!(loom) { 1 } else { 32 };

const LEAF_WORDS: usize = 1 << LEAF_BITS;
const MID_SLOTS: usize = 1 << MID_BITS;
const TOP_SLOTS: usize = 1 << TOP_BITS;
const MID_PAGES: u64 = 1 << (LEAF_BITS + MID_BITS);

/// Pages one mapping can have: 2^33, which is 32 TiB.
pub const PAGES_MAX: u64 = 1 << (LEAF_BITS + MID_BITS + TOP_BITS);

/// The middle level.
struct Mid {
    branches: [Branch; MID_SLOTS],
}

/// Where a leaf is, and a guess at where its frames are.
struct Branch {
    leaf: OnceBox<Leaf>,
    /// The frame last installed in the leaf less that page's place in it, wrapping. Pages that were
    /// filled in order sit in frames in order, so this guesses the others' frames.
    guess: AtomicU32,
}

struct Leaf {
    /// A word here became young since the last walk. Written when it was not set, so seldom.
    touched: AtomicBool,
    words: [PageWord; LEAF_WORDS],
}

/// The page words of one mapping, made as they are asked for.
///
/// # Concurrency
/// Shared freely; lookups take no lock and write nothing.
pub struct PageTable {
    arena: Arc<FrameArena>,
    /// By which other processes know the file; 0 where they do not.
    tag: u32,
    /// In whose user's mapping the pages' bytes may be, in place of their frames.
    region: Option<Arc<RegionMemory>>,
    /// In which other processes map the pages, once they do.
    page_file: OnceBox<Arc<PageFile>>,
    /// The branches of the first leaves.
    near: [Branch; NEAR_LEAVES],
    /// The branches of the other leaves.
    top: OnceBox<[OnceBox<Mid>; TOP_SLOTS]>,
}

impl PageTable {
    /// A table whose pages are all absent, and will live in frames of `arena`.
    ///
    /// # Cost
    /// Half a KiB, and 4 KiB for each 2 MiB of contents that is touched; beyond the first 64 MiB
    /// also 64 KiB for each 8 GiB, and 32 KiB.
    pub fn new(arena: Arc<FrameArena>) -> PageTable {
        PageTable::with_tag(arena, 0)
    }

    /// As [`PageTable::new`], for a file that other processes know by `tag`; 0 for none.
    pub fn with_tag(arena: Arc<FrameArena>, tag: u32) -> PageTable {
        PageTable {
            arena,
            tag,
            region: None,
            page_file: OnceBox::new(),
            near: branches(),
            top: OnceBox::new(),
        }
    }

    /// As [`PageTable::new`], for the pages of a region, and over the arena that lends it memory.
    pub fn over_region(region: Arc<RegionMemory>) -> PageTable {
        let arena = Arc::clone(region.lender().arena());
        PageTable { region: Some(region), ..PageTable::new(arena) }
    }

    /// The region whose pages these are, if they are one's.
    pub fn region(&self) -> Option<&Arc<RegionMemory>> {
        self.region.as_ref()
    }

    /// The memory file in which other processes map these pages, once there is one.
    #[inline]
    pub fn page_file(&self) -> Option<&Arc<PageFile>> {
        self.page_file.get()
    }

    /// As [`PageTable::page_file`]; made for `nr_pages` pages if there is none. Frames are of small
    /// pages from then on: their memory goes one by one.
    ///
    /// # Errors
    /// What [`PageFile::new`] says.
    pub fn page_file_or_make(&self, nr_pages: u64) -> io::Result<&Arc<PageFile>> {
        self.page_file.get_or_try_init(|| {
            let file = PageFile::new(nr_pages)?;
            self.arena.memory().stay_small();
            Ok(Box::new(Arc::new(file)))
        })
    }

    /// The arena whose frames hold this table's pages.
    pub fn arena(&self) -> &Arc<FrameArena> {
        &self.arena
    }

    /// The page at `index`, or `None` if nothing near it was ever made (so it is absent).
    ///
    /// # Cost
    /// One load in the first 64 MiB, beyond them three dependent ones.
    #[inline]
    pub fn page(&self, index: PageIndex) -> Option<PageRef<'_>> {
        let leaf = self.branch(index)?.leaf.get()?;
        Some(PageRef { table: self, leaf, index })
    }

    /// Returns the page at `index`, and the frame it is [probably in](Self::guess_frame).
    ///
    /// # Cost
    /// As [`PageTable::page`].
    #[inline]
    pub fn page_and_guess(&self, index: PageIndex) -> Option<(PageRef<'_>, FrameId)> {
        let branch = self.branch(index)?;
        let base = branch.guess.load(Ordering::Relaxed);
        let guess = FrameId(base.wrapping_add(leaf_slot(index) as u32));
        Some((PageRef { table: self, leaf: branch.leaf.get()?, index }, guess))
    }

    /// The frame the page is probably in, if it is resident: it need not be, nor exist.
    ///
    /// For a reader that is going to look the page up and copy it: it can start fetching the bytes
    /// before the word is known ([`FrameArena::fetch`]), so that the two cache misses pass side by
    /// side. A wrong guess costs a fetched line, and nothing may depend on it.
    #[inline]
    pub fn guess_frame(&self, index: PageIndex) -> Option<FrameId> {
        let base = self.branch(index)?.guess.load(Ordering::Relaxed);
        Some(FrameId(base.wrapping_add(leaf_slot(index) as u32)))
    }

    /// The page at `index`, or `None` if `index` is not below [`PAGES_MAX`]. Makes what is missing.
    pub fn page_or_make(&self, index: PageIndex) -> Option<PageRef<'_>> {
        let branch = match self.near.get(leaf_number(index)) {
            Some(near) => near,
            None => {
                let top = self.top.get_or_init(slots).get(top_slot(index))?;
                let mid = top.get_or_init(|| Box::new(Mid { branches: branches() }));
                &mid.branches[mid_slot(index)]
            }
        };
        let leaf = branch.leaf.get_or_init(|| Box::new(Leaf::new()));
        Some(PageRef { table: self, leaf, index })
    }

    /// Where the leaf of `index` hangs, if that was ever made.
    #[inline]
    fn branch(&self, index: PageIndex) -> Option<&Branch> {
        if let Some(near) = self.near.get(leaf_number(index)) {
            return Some(near);
        }
        let mid = self.top.get()?.get(top_slot(index))?.get()?;
        Some(&mid.branches[mid_slot(index)])
    }

    /// As [`page_or_make`](Self::page_or_make), for a handle that shares the table.
    pub fn word_ref(self: &Arc<PageTable>, index: PageIndex) -> Option<WordRef> {
        self.page_or_make(index)?;
        Some(WordRef { table: Arc::clone(self), index })
    }

    /// Calls `each` with every leaf in which a word became young since
    /// [`take_touched`](LeafRef::take_touched) was last called on it.
    pub fn for_each_touched_leaf<'a>(&'a self, mut each: impl FnMut(LeafRef<'a>)) {
        self.for_each_leaf(0..PAGES_MAX, |leaf, first| {
            if leaf.touched.load(Ordering::Relaxed) {
                each(LeafRef { table: self, leaf, first });
            }
        });
    }

    /// The leaf that holds the word of `index`, or `None` if nothing near it was ever made.
    pub fn leaf(&self, index: PageIndex) -> Option<LeafRef<'_>> {
        let leaf = self.page(index)?.leaf;
        let first = index.0 - leaf_slot(index) as u64;
        Some(LeafRef { table: self, leaf, first })
    }

    /// Calls `each` for every page of `range` that is resident, locked, or has a shadow entry,
    /// in order, with its word as it was when looked at. For truncation and for counting.
    pub fn for_each_present<'a>(
        &'a self,
        range: Range<PageIndex>,
        mut each: impl FnMut(PageRef<'a>, Snapshot),
    ) {
        let range = range.start.0..range.end.0.min(PAGES_MAX);
        self.for_each_leaf(range.clone(), |leaf, first| {
            for (word, index) in leaf.words.iter().zip(first..) {
                let seen = word.load();
                if range.contains(&index) && (!seen.is_absent() || seen.is_locked()) {
                    each(PageRef { table: self, leaf, index: PageIndex(index) }, seen);
                }
            }
        });
    }

    /// Whether any page is resident.
    pub fn is_any_resident(&self) -> bool {
        let mut is_any = false;
        self.for_each_leaf(0..PAGES_MAX, |leaf, _| {
            is_any = is_any || leaf.words.iter().any(|word| word.load().is_resident());
        });
        is_any
    }

    /// Calls `each` with every leaf made that has words in `range`, and its first index.
    fn for_each_leaf<'a>(&'a self, range: Range<u64>, mut each: impl FnMut(&'a Leaf, u64)) {
        if range.is_empty() {
            return;
        }
        let (first, last) = (range.start, range.end - 1);
        let slots = leaf_number(PageIndex(first))..=leaf_number(PageIndex(last));
        for (branch, slot) in self.near.iter().zip(0..).filter(|(_, slot)| slots.contains(slot)) {
            if let Some(leaf) = branch.leaf.get() {
                each(leaf, (slot << LEAF_BITS) as u64);
            }
        }
        let Some(tops) = self.top.get() else { return };
        let slots = top_slot(PageIndex(first))..=top_slot(PageIndex(last));
        for (mid, top) in tops[slots.clone()].iter().zip(slots) {
            let Some(mid) = mid.get() else { continue };
            let base = top as u64 * MID_PAGES;
            let from = first.max(base);
            let to = last.min(base + MID_PAGES - 1);
            let slots = mid_slot(PageIndex(from))..=mid_slot(PageIndex(to));
            for (branch, slot) in mid.branches[slots.clone()].iter().zip(slots) {
                if let Some(leaf) = branch.leaf.get() {
                    each(leaf, base + (slot << LEAF_BITS) as u64);
                }
            }
        }
    }
}

impl fmt::Debug for PageTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageTable({:?})", self.arena)
    }
}

impl Leaf {
    fn new() -> Leaf {
        Leaf {
            touched: AtomicBool::new(false),
            words: std::array::from_fn(|_| PageWord::new_absent()),
        }
    }
}

/// A page of a table, borrowed. What most calls go through: it is three words, and copied freely.
#[derive(Clone, Copy)]
pub struct PageRef<'a> {
    table: &'a PageTable,
    leaf: &'a Leaf,
    index: PageIndex,
}

impl<'a> PageRef<'a> {
    /// The page's index in its mapping.
    pub fn index(self) -> PageIndex {
        self.index
    }

    /// The address of the page's word, which no other page has while the table lives.
    pub fn word_address(self) -> usize {
        std::ptr::from_ref(self.word()).addr()
    }

    /// The word now.
    pub fn load(self) -> Snapshot {
        self.word().load()
    }

    /// Starts bringing the word into the processor's cache, for a look at it a little later.
    #[inline]
    pub fn fetch(self) {
        crate::machine::prefetch::fetch(self.word());
    }

    /// Begins an optimistic read: `None` unless the page is resident and unlocked, with its bytes
    /// in its frame.
    ///
    /// Copy with [`FrameArena::read`] from the ticket's frame, then ask [`still`](Self::still).
    #[inline]
    pub fn peek(self) -> Option<ReadTicket> {
        let ticket = self.word().peek()?;
        // After the ticket: a page that goes there later does so with a new version. ASK is set
        // before the bytes leave the frame, under the page's lock.
        (!ticket.asks() || !self.is_in_file()).then_some(ticket)
    }

    /// Copies bytes of the page from `offset`, if it is resident and no access of it has to ask for
    /// more than its bytes (see [`Pin::make_plain`](crate::Pin::make_plain)). Returns the frame if
    /// the copy is whole. If it is not, the contents of `target` are unspecified.
    ///
    /// Panics when the range leaves the page. Takes no lock and writes nothing shared.
    #[inline]
    pub fn read_plain(self, offset: usize, target: &mut [u8]) -> Option<FrameId> {
        let ticket = self.word().peek_plain_ticket()?;
        let frame = ticket.frame();
        self.arena().read(frame, offset, target);
        self.still(ticket).then_some(frame)
    }

    /// Whether what was copied since the ticket was taken is whole, and this page's.
    #[inline]
    pub fn still(self, ticket: ReadTicket) -> bool {
        self.word().still(ticket)
    }

    /// Lets other processes find the page, if it is resident and unlocked, in an arena that is
    /// shared: their hints get lost now and then. Returns whether it is.
    pub fn publish(self) -> bool {
        let Some(ticket) = self.peek() else { return false };
        if let Some(numbers) = self.arena().numbers() {
            // A page that leaves meanwhile leaves a hint that leads nowhere.
            numbers.hint_again(ticket.frame().0, self.tag(), self.index);
        }
        true
    }

    /// The table's tag.
    pub(crate) fn tag(self) -> u32 {
        self.table.tag
    }

    /// Takes HINT away; returns whether the page had it.
    pub fn test_and_clear_hint(self) -> bool {
        self.word().take_hint()
    }

    /// Sleeps until the page is not locked; it may be again by the time this returns.
    pub fn wait_while_locked(self) {
        wait::wait_while(self.word(), Snapshot::is_locked);
    }

    /// Sleeps until the page is neither locked nor pinned; it may be again by the time this
    /// returns.
    pub fn wait_while_in_use(self) {
        wait::wait_while(self.word(), |seen| !seen.is_free());
    }

    #[inline]
    pub(crate) fn word(self) -> &'a PageWord {
        &self.leaf.words[leaf_slot(self.index)]
    }

    /// Remembers where the page went, for later guesses.
    pub(crate) fn note_frame(self, frame: FrameId) {
        let base = frame.0.wrapping_sub(leaf_slot(self.index) as u32);
        if let Some(branch) = self.table.branch(self.index) {
            branch.guess.store(base, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn arena(self) -> &'a FrameArena {
        &self.table.arena
    }

    /// Called by the thread that made the page young.
    #[cold]
    pub(crate) fn note_touched(self) {
        if !self.leaf.touched.load(Ordering::SeqCst) {
            self.leaf.touched.store(true, Ordering::SeqCst);
        }
    }
}

impl fmt::Debug for PageRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.index, self.load())
    }
}

/// An array of empty slots, made on the heap.
fn slots<T, const N: usize>() -> Box<[OnceBox<T>; N]> {
    let slots: Box<[OnceBox<T>]> = (0..N).map(|_| OnceBox::new()).collect();
    slots.try_into().expect("the slice was made N long")
}

fn branches<const N: usize>() -> [Branch; N] {
    std::array::from_fn(|_| Branch { leaf: OnceBox::new(), guess: AtomicU32::new(0) })
}

fn top_slot(index: PageIndex) -> usize {
    (index.0 >> (LEAF_BITS + MID_BITS)) as usize
}

#[inline]
fn leaf_number(index: PageIndex) -> usize {
    (index.0 >> LEAF_BITS) as usize
}

#[inline]
fn leaf_slot(index: PageIndex) -> usize {
    index.0 as usize % LEAF_WORDS
}

fn mid_slot(index: PageIndex) -> usize {
    leaf_number(index) % MID_SLOTS
}

#[cfg(test)]
mod tests;
