//! The access loop: the accesses of all threads, one after another, at the pace of the memory.
//!
//! **Problem.** A result needs some hundred million accesses, almost all to resident pages.
//! **Idea.** One loop with one word a page and one price per kind of access. The loop stops when an
//! access needs a decision or an event is due.
//!
//! ```text
//!   word   [ frame, 26 bits | hot young armed resident slow ]
//!   play   touch touch touch touch -X  not resident, armed, or not young: to the world
//!          |    price each   |
//!          now ------------------------------> due: load window, scanner, reclaim thread
//! ```
//!
//! Threads wait in parallel: an access takes 1 / threads of its latency. A model of a machine
//! `scale` times as large has 1 / `scale` of the threads and bandwidth, with equal rates per page.
//!
//! **Data and invariants.** Time is an integer in 1/1024 nanoseconds and never goes back. `uses`
//! counts every access of a page.
//!
//! **Deliberately ignored.** The thread of an access.

use super::load::{Bandwidth, Moved};
use super::prices::{Item, TierPrices};
use pagetide_core::ids::{FrameId, NodeId};
use pagetide_core::tiering::TierCosts;

const TICKS_PER_NS: u64 = 1024;
const LOAD_WINDOW_NS: u64 = 100_000_000;
const PAGE_BYTES: u64 = pagetide_core::units::PAGE_BYTES as u64;

/// One access of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierAccess(u32);

impl TierAccess {
    /// Returns a read.
    pub const fn read(page: u32) -> TierAccess {
        TierAccess(page << 1)
    }

    /// Returns a write.
    pub const fn write(page: u32) -> TierAccess {
        TierAccess(page << 1 | 1)
    }

    /// Returns the page.
    pub const fn page(self) -> u32 {
        self.0 >> 1
    }

    /// Returns true for a write.
    pub const fn is_write(self) -> bool {
        self.0 & 1 != 0
    }
}

/// One of the two memory nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Node {
    /// Fast memory.
    Fast = 0,
    /// Slow memory.
    Slow = 1,
}

impl Node {
    /// Returns core's identifier of the node.
    pub const fn id(self) -> NodeId {
        NodeId(self as u8)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Word(u32);

impl Word {
    const SLOW: u32 = 1 << 0;
    const RESIDENT: u32 = 1 << 1;
    /// The next access is a hint fault.
    const ARMED: u32 = 1 << 2;
    const YOUNG: u32 = 1 << 3;
    /// Among the hottest of the window. Only the judge knows.
    const HOT: u32 = 1 << 4;
    const FRAME_SHIFT: u32 = 6;
    const PLAIN_MASK: u32 = Self::RESIDENT | Self::ARMED | Self::YOUNG;
    const PLAIN: u32 = Self::RESIDENT | Self::YOUNG;

    pub(super) fn is_resident(self) -> bool {
        self.0 & Self::RESIDENT != 0
    }

    pub(super) fn is_armed(self) -> bool {
        self.0 & Self::ARMED != 0
    }

    pub(super) fn is_young(self) -> bool {
        self.0 & Self::YOUNG != 0
    }

    pub(super) fn node(self) -> Node {
        if self.0 & Self::SLOW != 0 { Node::Slow } else { Node::Fast }
    }

    pub(super) fn frame(self) -> FrameId {
        FrameId(self.0 >> Self::FRAME_SHIFT)
    }

    fn is_plain(self) -> bool {
        self.0 & Self::PLAIN_MASK == Self::PLAIN
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Counts {
    /// `[hot, node, write]`.
    by_kind: [u64; 8],
}

impl Counts {
    pub(super) fn since(&self, before: &Counts) -> Counts {
        Counts { by_kind: std::array::from_fn(|at| self.by_kind[at] - before.by_kind[at]) }
    }

    pub(super) fn all(&self) -> u64 {
        self.by_kind.iter().sum()
    }

    pub(super) fn of(&self, node: Node) -> u64 {
        self.sum(|at| at >> 1 & 1 == node as usize)
    }

    /// Returns the accesses of hot pages: all, and in fast memory.
    pub(super) fn hot(&self) -> (u64, u64) {
        (self.sum(|at| at >> 2 == 1), self.sum(|at| at >> 1 == 0b10))
    }

    fn writes_of(&self, node: usize) -> u64 {
        self.sum(|at| at >> 1 & 1 == node && at & 1 == 1)
    }

    fn sum(&self, takes: impl Fn(usize) -> bool) -> u64 {
        (0..8).filter(|at| takes(*at)).map(|at| self.by_kind[at]).sum()
    }
}

#[derive(Debug)]
pub(super) struct AccessLoop {
    words: Vec<Word>,
    uses: Vec<u32>,
    now: u64,
    /// Time of the next event, in ticks.
    stop_at: u64,
    /// Price under load, by `[node, write]`, in ticks.
    cost: [u64; 4],
    counts: Counts,
    prices: TierPrices,
    bandwidth: Bandwidth,
    /// Latency under load over idle latency, by node.
    factors: [f64; 2],
    write_share: f64,
    /// Ticks per nanosecond of a program thread, and of a helper thread.
    ticks_of_threads: f64,
    ticks_of_helper: u64,
    /// Start of the load window, with the counts at the start and the bytes migrated since.
    window_start: u64,
    window_counts: Counts,
    window_moved: Moved,
}

impl AccessLoop {
    /// Returns a loop over `nr_pages` absent pages, as 1 / `scale` of a machine with `threads`
    /// threads.
    pub(super) fn new(prices: TierPrices, nr_pages: u32, threads: u32, scale: u32) -> AccessLoop {
        let mut access_loop = AccessLoop {
            words: vec![Word::default(); nr_pages as usize],
            uses: vec![0; nr_pages as usize],
            now: 0,
            stop_at: u64::MAX,
            cost: [0; 4],
            counts: Counts::default(),
            prices,
            bandwidth: Bandwidth::new(&prices, scale),
            factors: [1.0; 2],
            write_share: 0.0,
            ticks_of_threads: (TICKS_PER_NS * u64::from(scale)) as f64 / f64::from(threads),
            ticks_of_helper: TICKS_PER_NS * u64::from(scale),
            window_start: 0,
            window_counts: Counts::default(),
            window_moved: Moved::default(),
        };
        access_loop.set_costs([1.0; 2]);
        access_loop
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now / TICKS_PER_NS
    }

    /// Makes [`AccessLoop::play`] stop at this time, or at the end of the load window.
    pub(super) fn stop_at_ns(&mut self, at_ns: u64) {
        self.stop_at = at_ns.saturating_mul(TICKS_PER_NS).min(self.window_end());
    }

    pub(super) fn is_due(&self) -> bool {
        self.now >= self.stop_at
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(super) fn nr_pages(&self) -> u32 {
        self.words.len() as u32
    }

    pub(super) fn word(&self, page: u32) -> Word {
        self.words[page as usize]
    }

    /// Returns the number of accesses of the page, which wraps.
    pub(super) fn uses(&self, page: u32) -> u32 {
        self.uses[page as usize]
    }

    /// Puts the page into a frame: resident, young, not armed. The hot bit stays.
    pub(super) fn place(&mut self, page: u32, node: Node, frame: FrameId) {
        debug_assert!(frame.0 < 1 << (32 - Word::FRAME_SHIFT));
        let word = &mut self.words[page as usize];
        let hot = word.0 & Word::HOT;
        let slow = if node == Node::Slow { Word::SLOW } else { 0 };
        *word = Word(frame.0 << Word::FRAME_SHIFT | Word::PLAIN | slow | hot);
    }

    pub(super) fn arm(&mut self, page: u32) {
        debug_assert!(self.word(page).is_resident());
        self.words[page as usize].0 |= Word::ARMED;
    }

    pub(super) fn disarm(&mut self, page: u32) {
        self.words[page as usize].0 &= !Word::ARMED;
    }

    pub(super) fn set_young(&mut self, page: u32) {
        self.words[page as usize].0 |= Word::YOUNG;
    }

    pub(super) fn take_young(&mut self, page: u32) -> bool {
        let was_young = self.word(page).is_young();
        self.words[page as usize].0 &= !Word::YOUNG;
        was_young
    }

    pub(super) fn set_hot(&mut self, hottest: &[u32]) {
        self.words.iter_mut().for_each(|word| word.0 &= !Word::HOT);
        for &page in hottest {
            self.words[page as usize].0 |= Word::HOT;
        }
    }

    /// Plays touches until one needs a decision or an event is due. Returns the number played.
    #[inline]
    pub(super) fn play(&mut self, touches: &[TierAccess]) -> usize {
        let AccessLoop { words, uses, cost, counts, stop_at, .. } = self;
        let (words, uses) = (&words[..], &mut uses[..words.len()]);
        let mut now = self.now;
        let mut nr_played = touches.len();
        for (at, touch) in touches.iter().enumerate() {
            let page = touch.page() as usize;
            let word = words[page];
            if !word.is_plain() || now >= *stop_at {
                nr_played = at;
                break;
            }
            let kind = (word.0 & Word::SLOW) as usize * 2 + touch.is_write() as usize;
            now += cost[kind];
            counts.by_kind[(word.0 >> 2) as usize & 4 | kind] += 1;
            uses[page] = uses[page].wrapping_add(1);
        }
        self.now = now;
        nr_played
    }

    /// Plays one touch of a resident page in any state.
    pub(super) fn play_one(&mut self, touch: TierAccess) {
        let word = self.word(touch.page());
        debug_assert!(word.is_resident());
        let kind = (word.0 & Word::SLOW) as usize * 2 + touch.is_write() as usize;
        self.now += self.cost[kind];
        self.counts.by_kind[(word.0 >> 2) as usize & 4 | kind] += 1;
        let uses = &mut self.uses[touch.page() as usize];
        *uses = uses.wrapping_add(1);
    }

    /// Charges `nr` items to one program thread. The rest run on.
    pub(super) fn charge(&mut self, item: Item, nr: u64) {
        self.now += ((self.prices.of(item) * nr) as f64 * self.ticks_of_threads) as u64;
    }

    /// Returns the duration of an item on a helper thread, in nanoseconds.
    pub(super) fn helper_ns(&self, item: Item) -> u64 {
        self.prices.of(item) * self.ticks_of_helper / TICKS_PER_NS
    }

    pub(super) fn count_copy(&mut self, from: Node, to: Node) {
        self.window_moved.read[from as usize] += PAGE_BYTES;
        self.window_moved.written[to as usize] += PAGE_BYTES;
    }

    /// Ends the load window if due, and derives the latencies of the next window.
    pub(super) fn look_at_load(&mut self) {
        if self.now < self.window_end() {
            return;
        }
        let counts = self.counts.since(&self.window_counts);
        let mut moved = self.window_moved;
        let lines = [Item::FastLine, Item::SlowLine].map(|item| self.prices.of(item));
        for (node, line) in lines.into_iter().enumerate() {
            let writes = counts.writes_of(node);
            let all = counts.sum(|at| at >> 1 & 1 == node);
            // A write reads its line first.
            moved.read[node] += all * line;
            moved.written[node] += writes * line;
        }
        let elapsed_ns = (self.now - self.window_start) / TICKS_PER_NS;
        self.set_costs(self.bandwidth.factors(&moved, elapsed_ns));
        let nr_writes = counts.writes_of(0) + counts.writes_of(1);
        self.write_share = nr_writes as f64 / (counts.all() as f64).max(1.0);
        self.window_start = self.now;
        self.window_counts = self.counts;
        self.window_moved = Moved::default();
    }

    fn window_end(&self) -> u64 {
        self.window_start + LOAD_WINDOW_NS * TICKS_PER_NS
    }

    /// Returns the current costs. The caller sets the number of slow pages.
    pub(super) fn tier_costs(&self) -> TierCosts {
        let latency = |node: usize, read: Item, write: Item| {
            let [read, write] = [read, write].map(|item| self.prices.of(item) as f64);
            let mixed = read * (1.0 - self.write_share) + write * self.write_share;
            (mixed * self.factors[node]) as u64
        };
        let sum = |items: &[Item]| items.iter().map(|item| self.prices.of(*item)).sum();
        TierCosts {
            fast_ns: latency(0, Item::FastRead, Item::FastWrite),
            slow_ns: latency(1, Item::SlowRead, Item::SlowWrite),
            hint_fault_ns: sum(&[Item::Arm, Item::HintFault]),
            move_ns: sum(&[Item::MovePage, Item::Demote]),
            thread_ns_per_s: (1e9 * TICKS_PER_NS as f64 / self.ticks_of_threads) as u64,
            nr_slow: 0,
        }
    }

    fn set_costs(&mut self, factors: [f64; 2]) {
        self.factors = factors;
        let items = [Item::FastRead, Item::FastWrite, Item::SlowRead, Item::SlowWrite];
        let cpu = self.prices.of(Item::Cpu) as f64;
        for (at, item) in items.into_iter().enumerate() {
            let latency = self.prices.of(item) as f64 * factors[at / 2];
            self.cost[at] = ((cpu + latency) * self.ticks_of_threads) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access_loop(threads: u32, scale: u32) -> AccessLoop {
        let mut access_loop = AccessLoop::new(TierPrices::OPTANE, 4, threads, scale);
        access_loop.place(0, Node::Fast, FrameId(7));
        access_loop.place(1, Node::Slow, FrameId(9));
        access_loop
    }

    #[test]
    fn accesses_cost_what_their_node_costs_divided_by_the_threads() {
        let touches =
            [TierAccess::read(0), TierAccess::read(1), TierAccess::write(0), TierAccess::write(1)];
        let mut one = access_loop(1, 1);
        assert_eq!(one.play(&touches), 4);
        assert_eq!(one.now_ns(), 4 * 100 + 101 + 305 + 57 + 62);
        let mut model = access_loop(16, 64);
        model.play(&touches);
        assert_eq!(model.now_ns(), 4 * one.now_ns(), "64 times smaller, with 16 threads");
        assert_eq!((model.counts().of(Node::Fast), model.counts().of(Node::Slow)), (2, 2));
        assert_eq!((model.uses(0), model.uses(2)), (2, 0));
    }

    #[test]
    fn play_stops_at_what_needs_attention_and_when_something_is_due() {
        let mut access_loop = access_loop(1, 1);
        let touches = [TierAccess::read(0), TierAccess::read(2), TierAccess::read(0)];
        assert_eq!(access_loop.play(&touches), 1, "page 2 is absent");
        access_loop.arm(1);
        assert_eq!(
            access_loop.play(&[TierAccess::read(0), TierAccess::read(1)]),
            1,
            "page 1 is armed"
        );
        access_loop.disarm(1);
        assert!(access_loop.take_young(1) && !access_loop.take_young(1));
        assert_eq!(access_loop.play(&[TierAccess::read(1)]), 0, "page 1 is not young");
        access_loop.play_one(TierAccess::read(1));
        assert_eq!(access_loop.counts().of(Node::Slow), 1);
        access_loop.stop_at_ns(access_loop.now_ns() + 300);
        assert_eq!(access_loop.play(&[TierAccess::read(0); 9]), 2);
        assert!(access_loop.is_due());
        assert_eq!(
            (access_loop.word(1).frame(), access_loop.word(1).node()),
            (FrameId(9), Node::Slow)
        );
    }

    #[test]
    fn accesses_of_hot_pages_are_counted_apart() {
        let mut access_loop = access_loop(1, 1);
        access_loop.set_hot(&[1]);
        access_loop.play(&[TierAccess::read(0), TierAccess::write(1), TierAccess::read(1)]);
        assert_eq!(access_loop.counts().hot(), (2, 0));
        access_loop.place(1, Node::Fast, FrameId(3));
        let before = *access_loop.counts();
        access_loop.play(&[TierAccess::read(1)]);
        assert_eq!(
            access_loop.counts().since(&before).hot(),
            (1, 1),
            "a page that moves stays hot"
        );
        access_loop.set_hot(&[]);
        access_loop.play(&[TierAccess::read(1)]);
        assert_eq!(access_loop.counts().hot(), (3, 1));
    }

    #[test]
    fn a_window_full_of_migrations_makes_the_next_one_slower() {
        let mut access_loop = access_loop(1, 1);
        let per_access = |access_loop: &mut AccessLoop| {
            let before = access_loop.now_ns();
            access_loop.play_one(TierAccess::read(1));
            access_loop.now_ns() - before
        };
        assert_eq!(per_access(&mut access_loop), 405);
        // 100 ms at 27.8 GB/s of writes is 678711 pages.
        (0..600_000).for_each(|_| access_loop.count_copy(Node::Fast, Node::Slow));
        access_loop.charge(Item::PageFault, 100_000);
        access_loop.look_at_load();
        assert!(per_access(&mut access_loop) > 405);
        access_loop.charge(Item::PageFault, 100_000);
        access_loop.look_at_load();
        assert_eq!(per_access(&mut access_loop), 405, "and the one after it is idle again");
    }
}
