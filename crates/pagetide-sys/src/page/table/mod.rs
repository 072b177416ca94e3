//! The page table of one mapping, from page index to page word.
//!
//! **Problem.** A file may have 2^33 pages but touch ten. A hit must find its word in a few loads.
//! Aging must not read untouched words.
//!
//! **Idea.** A radix tree of three levels, allocated on first touch and freed with the table. A
//! mark in each leaf records that a word became young. The first leaves hang directly on the table,
//! because most files need no more, and the upper levels cost twenty times a leaf.
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
//! A random read misses the cache twice, on the word and on the bytes. Each leaf guesses its frame
//! numbers, so that the misses overlap.
//!
//! **Data and invariants.** S6: a leaf lives as long as its table, and a table keeps its arena
//! alive. A [`PageRef`] therefore needs no checks from index to frame memory. Install refuses
//! frames of another arena. Touched covers young: if no walk of touched leaves has seen a young
//! word, its leaf is marked, or the thread that made the word young is about to mark the leaf. Both
//! sides use sequentially consistent order.
//!
//! **Ignored.** Leaves of absent words are not freed. Pages must be evicted before the table is
//! dropped, or their frames stay claimed as long as the arena.
//!
//! Source: Linux documentation, "Page Tables" (mm/page_tables), for the shape. MGLRU's design
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
use crate::memory::target::CopyTarget;
use crate::page::wait;
use crate::page::word::{PageWord, ReadTicket, Snapshot};
use crate::sync::{AtomicBool, AtomicU32, Ordering};

pub use self::leaf_ref::LeafRef;
pub use self::word_ref::WordRef;

mod leaf_ref;
mod place;
mod word_ref;

// Loom tracks every word, so its tree is small.
const LEAF_BITS: u32 = if cfg!(loom) { 1 } else { 9 };
const MID_BITS: u32 = if cfg!(loom) { 1 } else { 12 };
const TOP_BITS: u32 = if cfg!(loom) { 1 } else { 12 };

/// Leaves that hang directly on the table.
const NEAR_LEAVES: usize = if cfg!(loom) { 1 } else { 32 };

const LEAF_WORDS: usize = 1 << LEAF_BITS;
const MID_SLOTS: usize = 1 << MID_BITS;
const TOP_SLOTS: usize = 1 << TOP_BITS;
const MID_PAGES: u64 = 1 << (LEAF_BITS + MID_BITS);

/// Maximum number of pages of one mapping: 2^33, which is 32 TiB.
pub const PAGES_MAX: u64 = 1 << (LEAF_BITS + MID_BITS + TOP_BITS);

struct Mid {
    branches: [Branch; MID_SLOTS],
}

/// A leaf slot, with a guess of the leaf's frames.
struct Branch {
    leaf: OnceBox<Leaf>,
    /// The last installed frame minus the page's slot, wrapping. Pages filled in order have
    /// consecutive frames.
    guess: AtomicU32,
}

impl Branch {
    #[inline]
    fn guess_frame(&self, index: PageIndex) -> FrameId {
        FrameId(self.guess.load(Ordering::Relaxed).wrapping_add(leaf_slot(index) as u32))
    }
}

struct Leaf {
    /// True if a word became young since the last walk. Rarely written.
    touched: AtomicBool,
    words: [PageWord; LEAF_WORDS],
}

/// The page words of one mapping, allocated on demand.
///
/// # Concurrency
/// Shared freely. Lookups take no lock and write nothing.
pub struct PageTable {
    arena: Arc<FrameArena>,
    /// The file's tag for other processes, 0 for none.
    tag: u32,
    /// The region that owns the pages, if any. Its user may have the bytes mapped.
    region: Option<Arc<RegionMemory>>,
    /// The memory file that other processes map.
    page_file: OnceBox<Arc<PageFile>>,
    /// The first leaves.
    near: [Branch; NEAR_LEAVES],
    /// All further leaves.
    top: OnceBox<[OnceBox<Mid>; TOP_SLOTS]>,
}

impl PageTable {
    /// Creates a table of absent pages, over the frames of `arena`.
    ///
    /// # Cost
    /// Half a KiB, and 4 KiB for each 2 MiB of contents that is touched. Beyond the first 64 MiB
    /// also 32 KiB, and 64 KiB for each 8 GiB.
    pub fn new(arena: Arc<FrameArena>) -> PageTable {
        PageTable::with_tag(arena, 0)
    }

    /// Same as [`PageTable::new`], with the file's tag for other processes, 0 for none.
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

    /// Same as [`PageTable::new`], for a region's pages, over the arena that lends memory to the
    /// region.
    pub fn over_region(region: Arc<RegionMemory>) -> PageTable {
        let arena = Arc::clone(region.lender().arena());
        PageTable { region: Some(region), ..PageTable::new(arena) }
    }

    /// Returns the region of these pages, if any.
    pub fn region(&self) -> Option<&Arc<RegionMemory>> {
        self.region.as_ref()
    }

    /// Returns the memory file that other processes map, if created.
    #[inline]
    pub fn page_file(&self) -> Option<&Arc<PageFile>> {
        self.page_file.get()
    }

    /// Returns the [memory file](PageTable::page_file), created for `nr_pages` pages if missing.
    /// Creation makes the arena use small pages, so that memory can be freed frame by frame.
    ///
    /// # Errors
    /// Fails as [`PageFile::new`] does.
    pub fn page_file_or_make(&self, nr_pages: u64) -> io::Result<&Arc<PageFile>> {
        self.page_file.get_or_try_init(|| {
            let file = PageFile::new(nr_pages)?;
            self.arena.memory().stay_small();
            Ok(Box::new(Arc::new(file)))
        })
    }

    /// Returns the arena of the pages.
    pub fn arena(&self) -> &Arc<FrameArena> {
        &self.arena
    }

    /// Returns the page at `index`, or `None` if its leaf is missing, and the page thus absent.
    ///
    /// # Cost
    /// One load in the first 64 MiB, three dependent loads beyond.
    #[inline]
    pub fn page(&self, index: PageIndex) -> Option<PageRef<'_>> {
        let leaf = self.branch(index)?.leaf.get()?;
        Some(PageRef { table: self, leaf, index })
    }

    /// Returns the page at `index`, and a [guess](Self::guess_frame) of its frame.
    ///
    /// # Cost
    /// As [`PageTable::page`].
    #[inline]
    pub fn page_and_guess(&self, index: PageIndex) -> Option<(PageRef<'_>, FrameId)> {
        let branch = self.branch(index)?;
        let page = PageRef { table: self, leaf: branch.leaf.get()?, index };
        Some((page, branch.guess_frame(index)))
    }

    /// Returns a guess of the page's frame, which may be wrong or not exist.
    ///
    /// A reader can [fetch](FrameArena::fetch) the guessed bytes before the word is known, so that
    /// the two cache misses overlap. A wrong guess costs one fetched line.
    #[inline]
    pub fn guess_frame(&self, index: PageIndex) -> Option<FrameId> {
        self.branch(index).map(|branch| branch.guess_frame(index))
    }

    /// Returns the page at `index`, with missing levels allocated, or `None` from [`PAGES_MAX`] on.
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

    #[inline]
    fn branch(&self, index: PageIndex) -> Option<&Branch> {
        if let Some(near) = self.near.get(leaf_number(index)) {
            return Some(near);
        }
        let mid = self.top.get()?.get(top_slot(index))?.get()?;
        Some(&mid.branches[mid_slot(index)])
    }

    /// Returns a handle that shares the table. See [`page_or_make`](Self::page_or_make).
    pub fn word_ref(self: &Arc<PageTable>, index: PageIndex) -> Option<WordRef> {
        self.page_or_make(index)?;
        Some(WordRef { table: Arc::clone(self), index })
    }

    /// Calls `each` with every leaf that has words made young since its last
    /// [`take_touched`](LeafRef::take_touched).
    pub fn for_each_touched_leaf<'a>(&'a self, mut each: impl FnMut(LeafRef<'a>)) {
        self.for_each_leaf(0..PAGES_MAX, |leaf, first| {
            if leaf.touched.load(Ordering::Relaxed) {
                each(LeafRef { table: self, leaf, first });
            }
        });
    }

    /// Returns the leaf that holds the word of `index`, if allocated.
    pub fn leaf(&self, index: PageIndex) -> Option<LeafRef<'_>> {
        let leaf = self.page(index)?.leaf;
        let first = index.0 - leaf_slot(index) as u64;
        Some(LeafRef { table: self, leaf, first })
    }

    /// Calls `each` in order for every page of `range` that is resident, locked, or has a shadow
    /// entry, with a snapshot of its word.
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

    /// Returns true if any page is resident.
    pub fn is_any_resident(&self) -> bool {
        let mut is_any = false;
        self.for_each_leaf(0..PAGES_MAX, |leaf, _| {
            is_any = is_any || leaf.words.iter().any(|word| word.load().is_resident());
        });
        is_any
    }

    /// Calls `each` with every allocated leaf of `range`, and the leaf's first index.
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

/// A borrowed page of a table. Three words long and freely copied.
#[derive(Clone, Copy)]
pub struct PageRef<'a> {
    table: &'a PageTable,
    leaf: &'a Leaf,
    index: PageIndex,
}

impl<'a> PageRef<'a> {
    /// Returns the page's index in its mapping.
    pub fn index(self) -> PageIndex {
        self.index
    }

    /// Returns the address of the page's word, unique while the table lives.
    pub fn word_address(self) -> usize {
        std::ptr::from_ref(self.word()).addr()
    }

    /// Loads the word.
    pub fn load(self) -> Snapshot {
        self.word().load()
    }

    /// Prefetches the word.
    #[inline]
    pub fn fetch(self) {
        crate::machine::prefetch::fetch(self.word());
    }

    /// Prefetches the word, to be changed.
    #[inline]
    pub fn fetch_to_write(self) {
        crate::machine::prefetch::fetch_to_write(self.word());
    }

    /// Begins an optimistic read. Returns `None` unless the page is resident and unlocked, with its
    /// bytes in its frame.
    ///
    /// Copy with [`FrameArena::read`] from the ticket's frame, then check [`still`](Self::still).
    #[inline]
    pub fn peek(self) -> Option<ReadTicket> {
        let ticket = self.word().peek()?;
        // After the ticket: a page that goes to the file later gets a new version. The lock's
        // holder sets ASK before the bytes leave the frame.
        (!ticket.asks() || !self.is_in_file()).then_some(ticket)
    }

    /// Copies bytes from `offset` of a resident, [plain](crate::Pin::make_plain) page. Returns the
    /// frame if the copy is whole. Otherwise `target` is unspecified.
    ///
    /// Panics if the range leaves the page. Takes no lock and writes nothing shared.
    #[inline]
    pub fn read_plain(
        self,
        offset: usize,
        target: &mut (impl CopyTarget + ?Sized),
    ) -> Option<FrameId> {
        let ticket = self.word().peek_plain_ticket()?;
        let frame = ticket.frame();
        self.arena().read(frame, offset, target);
        self.still(ticket).then_some(frame)
    }

    /// Returns true if the copy since the ticket is whole and of this page.
    #[inline]
    pub fn still(self, ticket: ReadTicket) -> bool {
        self.word().still(ticket)
    }

    /// Renews the page's hint for other processes in a shared arena, because hints get lost.
    /// Returns true if the page is resident and unlocked.
    pub fn publish(self) -> bool {
        let Some(ticket) = self.peek() else { return false };
        if let Some(numbers) = self.arena().numbers() {
            // If the page leaves meanwhile, the hint leads nowhere.
            numbers.hint_again(ticket.frame().0, self.tag(), self.index);
        }
        true
    }

    pub(crate) fn tag(self) -> u32 {
        self.table.tag
    }

    /// Clears HINT. Returns true if the page had HINT.
    pub fn test_and_clear_hint(self) -> bool {
        self.word().take_hint()
    }

    /// Sleeps until the page is not locked. May be locked again on return.
    pub fn wait_while_locked(self) {
        wait::wait_while(self.word(), Snapshot::is_locked);
    }

    /// Sleeps until the page is neither locked nor pinned. May be in use again on return.
    pub fn wait_while_in_use(self) {
        wait::wait_while(self.word(), |seen| !seen.is_free());
    }

    #[inline]
    pub(crate) fn word(self) -> &'a PageWord {
        &self.leaf.words[leaf_slot(self.index)]
    }

    /// Stores the page's frame for later guesses.
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

    /// Marks the leaf. Called by the thread that made the page young.
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
