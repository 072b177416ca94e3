//! A machine with fast and slow memory, in virtual time.
//!
//! **Problem.** Scan, promotion and demotion interact only through pages, and each looks fine
//! alone. **Idea.** Core's decisions, two nodes in one frame numbering, and one clock for all
//! costs:
//!
//! ```text
//!   frames   [ fast node .......... | slow node ...................................... ]
//!
//!   touch --> plain? price --> next                                   the program's threads
//!         `-> armed: hint fault -> core judges -> moving.rs
//!         `-> absent: fast at LOW, else slow at LOW, else any frame
//!   due   --> scan.rs: a run of the hint scan                         one of the threads
//!         `-> background: a step of the fast node's reclaim           a thread beside them
//! ```
//!
//! **Data and invariants.** A page is in one frame of one node, on that node's lruvec. A page is
//! armed only if slow, or if the judge that moved it tracks the result. Used frames = resident
//! pages + unsettled demotions. The same set-up and seed give the same counts.
//!
//! **Ignored.** Files and write-back: all pages are anonymous. Eviction: the slow node holds the
//! rest. Locality between sockets.
//!
//! **Source.** Linux 6.18's NUMA balancing, memory tiers and demotion.

mod moving;
mod reclaim;
mod scan;
mod tables;

use super::access_loop::{AccessLoop, Node, TierAccess};
use super::prices::{Item, TierPrices};
use super::tally::{Migrations, Tally};
use crate::background::{self, Background};
use pagetide_core::driver::{self, MovesPages};
use pagetide_core::folio::{Flags, Folios};
use pagetide_core::group::{Grouping, NodeLists};
use pagetide_core::ids::{FrameId, MappingId, Order, PageId, PageIndex, PageType};
use pagetide_core::lru::{
    AccessLog, AccessPath, LruConfig, LruvecId, PolicyChoice, PolicyConfig, PolicyName, Room,
};
use pagetide_core::page_alloc::{AllocRequest, WatermarkLevel, Zone, ZoneConfig};
use pagetide_core::tiering::{
    Headroom, HintFaultAction, Promotion, TierCosts, TieringKnobs, TieringSwitches, Topology,
};
use pagetide_core::units::Millis;
use scan::Scan;
use std::sync::Arc;
use tables::Tables;

#[derive(Clone, Copy, Debug)]
pub(super) struct WorldConfig {
    pub(super) prices: TierPrices,
    pub(super) policy: PolicyName,
    pub(super) knobs: TieringKnobs,
    /// `None`: no hint scan and no promotion.
    pub(super) switches: Option<TieringSwitches>,
    pub(super) nr_pages: u32,
    /// Frames of the nodes, fast and slow.
    pub(super) nr_frames: [u32; 2],
    pub(super) threads: u32,
    pub(super) scale: u32,
}

pub(super) struct World {
    access_loop: AccessLoop,
    folios: Arc<Folios>,
    /// By node.
    zones: [Zone; 2],
    lists: [NodeLists; 2],
    logs: [AccessLog; 2],
    /// Frames of the fast node, and first frame of the slow node.
    nr_fast: u32,
    page_in: Vec<u32>,
    tables: Tables,
    topology: Topology,
    promotion: Promotion,
    scan: Scan,
    background: Background,
    /// A page about to move to a frame of the slow node.
    claimed: Option<(u32, FrameId)>,
    tally: Tally,
}

impl World {
    /// Returns a machine after the program wrote all its memory in address order.
    ///
    /// # Panics
    /// Panics if the frames cannot hold the pages, or the knobs are invalid.
    pub(super) fn new(config: &WorldConfig, topology: Topology) -> World {
        let [nr_fast, nr_slow] = config.nr_frames;
        assert!(config.nr_pages < nr_fast + nr_slow, "memory holds its program");
        let folios = Arc::new(Folios::for_one_thread(nr_fast + nr_slow));
        let lists = |node: Node| {
            let id = LruvecId { group: 0, node: node as u8 };
            let (first_frame, nr_frames) = match node {
                Node::Fast => (FrameId(0), nr_fast),
                Node::Slow => (FrameId(nr_fast), nr_slow),
            };
            let lru =
                LruConfig { id, first_frame, can_swap: true, ..LruConfig::file_only(nr_frames) };
            let scale = PolicyConfig::ActiveInactive { frames_stand_for: config.scale };
            let policy = PolicyChoice { name: config.policy, config: scale };
            NodeLists::new(policy, &lru, folios.clone(), Grouping::Off)
        };
        let WorldConfig { prices, nr_pages, threads, scale, .. } = *config;
        let access_loop = AccessLoop::new(prices, nr_pages, threads, scale);
        let background = Background::new(access_loop.helper_ns(Item::Scan));
        let mut world = World {
            access_loop,
            zones: config.nr_frames.map(|nr_frames| Zone::new(ZoneConfig::with_frames(nr_frames))),
            lists: [lists(Node::Fast), lists(Node::Slow)],
            logs: [AccessLog::new(), AccessLog::new()],
            nr_fast,
            page_in: vec![u32::MAX; (nr_fast + nr_slow) as usize],
            tables: Tables::new(config.nr_pages),
            topology,
            promotion: Promotion::new(&config.knobs, config.switches.unwrap_or_default()),
            scan: Scan::new(config),
            background,
            claimed: None,
            tally: Tally::new(config.nr_pages, config.prices.accesses_to_earn_back()),
            folios,
        };
        world.plan();
        let pages: Vec<TierAccess> = (0..config.nr_pages).map(TierAccess::write).collect();
        world.play(&pages);
        world
    }

    pub(super) fn play(&mut self, touches: &[TierAccess]) {
        let mut rest = touches;
        while !rest.is_empty() {
            rest = &rest[self.access_loop.play(rest)..];
            let Some(&touch) = rest.first() else { break };
            if self.access_loop.is_due() {
                self.do_what_is_due();
            } else {
                self.attend_to(touch.page());
                self.access_loop.play_one(touch);
                rest = &rest[1..];
            }
        }
    }

    pub(super) fn start_measuring(&mut self) {
        self.tally.restart();
    }

    pub(super) fn access_loop(&self) -> &AccessLoop {
        &self.access_loop
    }

    pub(super) fn set_hot(&mut self, hottest: &[u32]) {
        self.access_loop.set_hot(hottest);
    }

    pub(super) fn migrations(&self) -> Migrations {
        self.tally.sum(|page| self.access_loop.uses(page))
    }

    pub(super) fn hot_threshold(&self) -> Millis {
        self.promotion.hot_threshold()
    }

    /// Panics on a broken invariant.
    ///
    /// # Cost
    /// O(pages + frames).
    pub(super) fn validate(&self) {
        self.zones.iter().for_each(Zone::validate);
        let mut nr_resident = [0_u64; 2];
        for page in 0..self.access_loop.nr_pages() {
            let word = self.access_loop.word(page);
            if !word.is_resident() {
                continue;
            }
            let frame = word.frame();
            nr_resident[word.node() as usize] += 1;
            assert_eq!(self.page_in[frame.0 as usize], page, "{frame} holds another page");
            assert_eq!(self.folios[frame].page(), page_id(page), "{frame}'s folio");
            assert_eq!(self.node_of(frame), word.node(), "{frame} is of the other node");
            let may_be_armed = word.node() == Node::Slow || self.promotion.auto().is_some();
            assert!(may_be_armed || !word.is_armed(), "page {page} is fast and armed");
        }
        // Demoted, and not settled yet.
        let is_left = |frame: &u32| {
            let page = self.page_in[*frame as usize];
            page != u32::MAX && self.access_loop.word(page).frame() != FrameId(*frame)
        };
        let nr_unsettled = (0..self.nr_fast).filter(is_left).count() as u64;
        let nr_used =
            |node: usize| u64::from(self.zones[node].nr_managed()) - self.zones[node].nr_free();
        assert_eq!(nr_used(0), nr_resident[0] + nr_unsettled, "frames of the fast node");
        assert_eq!(nr_used(1), nr_resident[1], "frames of the slow node");
    }

    fn do_what_is_due(&mut self) {
        self.access_loop.look_at_load();
        let room = Headroom::of(&self.zones[Node::Fast as usize]);
        let costs = TierCosts { nr_slow: self.nr_slow_pages(), ..self.access_loop.tier_costs() };
        self.promotion.tell_costs(self.now(), &room, &costs);
        let now_ns = self.access_loop.now_ns();
        background::run(self, now_ns);
        if self.scan.due_ns() <= now_ns {
            self.scan_some(now_ns);
        }
        self.plan();
    }

    fn plan(&mut self) {
        let next = self.scan.due_ns().min(self.background.due_ns());
        self.access_loop.stop_at_ns(next);
    }

    fn attend_to(&mut self, page: u32) {
        let word = self.access_loop.word(page);
        if !word.is_resident() {
            self.fault(page);
        } else if word.is_armed() {
            self.hint_fault(page);
        }
        if !self.access_loop.word(page).is_young() {
            self.access_loop.set_young(page);
        }
        self.tables.touch(page);
    }

    fn hint_fault(&mut self, page: u32) {
        let word = self.access_loop.word(page);
        self.access_loop.disarm(page);
        self.access_loop.charge(Item::HintFault, 1);
        self.tally.hint_fault();
        match driver::judge_fault(self, word.frame()) {
            HintFaultAction::Stay => {}
            HintFaultAction::Arm => self.arm(&page),
            HintFaultAction::Move => self.promote(page, word.frame()),
        }
    }

    fn fault(&mut self, page: u32) {
        self.access_loop.charge(Item::PageFault, 1);
        let (node, frame) = self.alloc();
        let rule = self.lists[node as usize].root().access_rule();
        self.put(page, node, frame, rule.flags_on_fill(AccessPath::Table));
    }

    /// Allocates a frame, fast if there are frames to spare.
    fn alloc(&mut self) -> (Node, FrameId) {
        let found = driver::take_above_low(self).or_else(|| driver::alloc_slowly(self));
        found.expect("memory holds its program")
    }

    fn take_frame(&mut self, node: Node, level: Option<WatermarkLevel>) -> Option<(Node, FrameId)> {
        let request = AllocRequest::fast(Order::BASE).at(level);
        let frame = self.zones[node as usize].alloc(&request)?;
        Some((node, FrameId(frame.0 + self.first_frame(node))))
    }

    fn free_frame(&mut self, frame: FrameId) {
        let node = self.node_of(frame);
        let in_zone = FrameId(frame.0 - self.first_frame(node));
        self.page_in[frame.0 as usize] = u32::MAX;
        self.zones[node as usize].free(in_zone, Order::BASE);
    }

    fn put(&mut self, page: u32, node: Node, frame: FrameId, flags: Flags) {
        self.folios[frame].bind(page_id(page), PageType::Anon, flags);
        self.page_in[frame.0 as usize] = page;
        self.access_loop.place(page, node, frame);
        self.log_add(node, frame);
    }

    fn log_add(&mut self, node: Node, frame: FrameId) {
        let (log, lists) = (&mut self.logs[node as usize], &mut self.lists[node as usize]);
        if log.add(&self.folios, frame) == Room::Full {
            lists.drain(log);
        }
    }

    fn first_frame(&self, node: Node) -> u32 {
        if node == Node::Fast { 0 } else { self.nr_fast }
    }

    fn node_of(&self, frame: FrameId) -> Node {
        if frame.0 < self.nr_fast { Node::Fast } else { Node::Slow }
    }

    fn nr_slow_pages(&self) -> u64 {
        let zone = &self.zones[Node::Slow as usize];
        u64::from(zone.nr_managed()) - zone.nr_free()
    }

    fn now(&self) -> Millis {
        Millis(self.access_loop.now_ns() / 1_000_000)
    }
}

/// Returns the page in the only mapping.
fn page_id(page: u32) -> PageId {
    PageId { mapping: MappingId(0), index: PageIndex(page.into()) }
}

#[cfg(test)]
mod tests;
