//! A minimal world of maps, with a log of calls.

use crate::driver::{Driven, DrivenPass, LeafRead, Resizes, Woken};
use crate::folio::{Flags, Folio, Folios};
use crate::group::{Grouping, NodeLists};
use crate::ids::{FrameId, GroupId, MappingId, NodeId, PageId, PageIndex, PageType};
use crate::lru::page_table::{LeafId, LeafLook};
use crate::lru::{
    AccessLog, LruConfig, LruvecId, PolicyName, ReclaimBatch, ReclaimKind, Refusal, Scan,
    ShadowEntry, Victim,
};
use crate::page_alloc::{Starving, WatermarkLevel};
use ::alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use ::alloc::sync::Arc;
use ::alloc::vec::Vec;

/// Frames of a node.
pub(super) const NR_FRAMES: u32 = 64;
/// Free frames reserved by each level.
pub(super) const LEVELS: [(WatermarkLevel, usize); 3] =
    [(WatermarkLevel::Min, 4), (WatermarkLevel::Low, 8), (WatermarkLevel::High, 12)];

/// Logged calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    Wake,
    WakeFlusher,
    Pass(u8, ReclaimKind),
    DrainFrames(u8),
    DrainLogs(u8),
    Active(u8, bool),
    Evict(FrameId),
    ListDemoted(FrameId),
    Free(FrameId),
    ReadAround(u64),
    Walk,
}

/// One node, or two with demotion.
pub(super) struct Toy {
    pub(super) folios: Arc<Folios>,
    pub(super) lists: Vec<NodeLists>,
    pub(super) free: Vec<Vec<FrameId>>,
    /// Page by frame.
    pub(super) page_in: BTreeMap<FrameId, u64>,
    pub(super) frame_of: BTreeMap<u64, FrameId>,
    pub(super) shadows: BTreeMap<u64, Option<ShadowEntry>>,
    pub(super) young: BTreeSet<u64>,
    pub(super) pinned: BTreeSet<u64>,
    pub(super) hot: BTreeSet<u64>,
    /// Pages dirtied after the first look.
    pub(super) about_to_be_dirty: BTreeSet<u64>,
    pub(super) woken: Woken,
    pub(super) may_walk: bool,
    pub(super) calls: Vec<Call>,
    pub(super) nr_write_backs: u32,
    claimed: VecDeque<(u64, Option<FrameId>)>,
}

impl Toy {
    pub(super) fn new(policy: PolicyName, nr_nodes: u8, grouping: Grouping) -> Toy {
        let folios = Arc::new(Folios::for_one_thread(NR_FRAMES * u32::from(nr_nodes)));
        let lists = |node: u8| {
            let config = LruConfig {
                first_frame: FrameId(u32::from(node) * NR_FRAMES),
                id: LruvecId { group: 0, node },
                ..LruConfig::file_only(NR_FRAMES)
            };
            NodeLists::new(policy, &config, folios.clone(), grouping)
        };
        let frames = |node: u8| {
            let first = u32::from(node) * NR_FRAMES;
            (first..first + NR_FRAMES).rev().map(FrameId).collect()
        };
        Toy {
            lists: (0..nr_nodes).map(lists).collect(),
            free: (0..nr_nodes).map(frames).collect(),
            folios,
            page_in: BTreeMap::new(),
            frame_of: BTreeMap::new(),
            shadows: BTreeMap::new(),
            young: BTreeSet::new(),
            pinned: BTreeSet::new(),
            hot: BTreeSet::new(),
            about_to_be_dirty: BTreeSet::new(),
            woken: Woken::Thread,
            may_walk: true,
            calls: Vec::new(),
            nr_write_backs: 0,
            claimed: VecDeque::new(),
        }
    }

    /// Makes a page resident in a taken frame.
    pub(super) fn fill(&mut self, page: u64, frame: FrameId, payer: GroupId) {
        let id = PageId { mapping: MappingId(0), index: PageIndex(page) };
        self.folios[frame].bind(id, PageType::File, Flags::NONE);
        self.folios[frame].set_group(payer);
        self.place(page, frame);
    }

    /// Fills the node with pages `first..`, leaving `nr_free` frames.
    pub(super) fn fill_node(&mut self, node: u8, first: u64, nr_free: usize) {
        for page in first.. {
            if self.free[usize::from(node)].len() <= nr_free {
                break;
            }
            let frame = self.take(NodeId(node), None).expect("frames are left");
            self.fill(page, frame, GroupId::ROOT);
        }
    }

    pub(super) fn dirty(&mut self, page: u64) {
        self.folios[self.frame_of[&page]].set(Flags::DIRTY);
    }

    /// Every frame is free or holds one page, and nothing is claimed.
    pub(super) fn validate(&self) {
        assert!(self.claimed.is_empty(), "claims are ended");
        let nr_free: usize = self.free.iter().map(Vec::len).sum();
        assert_eq!(nr_free + self.page_in.len(), self.folios.as_slice().len());
        assert_eq!(self.page_in.len(), self.frame_of.len());
        self.lists.iter().for_each(NodeLists::validate);
    }

    fn place(&mut self, page: u64, frame: FrameId) {
        self.page_in.insert(frame, page);
        self.frame_of.insert(page, frame);
        let mut log = AccessLog::new();
        let _ = log.add(&self.folios, frame);
        self.lists[node_of(frame)].drain(&mut log);
    }
}

fn node_of(frame: FrameId) -> usize {
    (frame.0 / NR_FRAMES) as usize
}

fn mark(level: WatermarkLevel) -> usize {
    LEVELS.iter().find(|(one, _)| *one == level).map_or(0, |(_, nr)| *nr)
}

impl Driven for Toy {
    type Frame = FrameId;
    type Pass<'p> = Toy;

    fn nr_nodes(&self) -> u8 {
        self.lists.len() as u8
    }

    fn take(&mut self, node: NodeId, level: Option<WatermarkLevel>) -> Option<FrameId> {
        let free = &mut self.free[node.index()];
        if free.len() > level.map_or(0, mark) { free.pop() } else { None }
    }

    fn drain_frames(&mut self, node: NodeId) -> Option<Starving> {
        self.calls.push(Call::DrainFrames(node.0));
        None
    }

    fn drain_logs(&mut self, node: NodeId) {
        self.calls.push(Call::DrainLogs(node.0));
    }

    fn wake_background(&mut self) -> Woken {
        self.calls.push(Call::Wake);
        self.woken
    }

    fn wake_flusher(&mut self) {
        self.calls.push(Call::WakeFlusher);
    }

    fn demotes(&self, node: NodeId) -> bool {
        node.index() + 1 < self.lists.len()
    }

    fn background_target(&mut self, node: NodeId, room_below: u64) -> u64 {
        let target =
            mark(WatermarkLevel::High).saturating_sub(self.free[node.index()].len()) as u64;
        if room_below > 0 { target.min(room_below) } else { target }
    }

    fn room_for_demoted(&mut self, node: NodeId) -> u64 {
        self.free[node.index()].len().saturating_sub(mark(WatermarkLevel::Min)) as u64
    }

    fn set_reclaim_active(&mut self, node: NodeId, is_active: bool) {
        self.calls.push(Call::Active(node.0, is_active));
    }

    fn lend_lists<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T {
        use_lists(&mut self.lists[node.index()])
    }

    fn lend_current<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T {
        use_lists(&mut self.lists[node.index()])
    }

    fn in_pass(&mut self, node: NodeId, run: impl FnOnce(&mut Toy, &mut ReclaimBatch)) {
        assert!(self.nr_nodes() > node.0, "a node there is");
        run(self, &mut ReclaimBatch::new());
    }

    fn end_pass(&mut self, node: NodeId, scan: &Scan) {
        self.calls.push(Call::Pass(node.0, scan.kind));
    }
}

impl Resizes for Toy {
    fn take_out_of_service(&mut self, node: NodeId, nr_frames: u32) -> u32 {
        let free = &mut self.free[node.index()];
        let in_node = |frame: &&FrameId| node_of(**frame) == node.index();
        let nr_now = free.len() + self.page_in.keys().filter(in_node).count();
        free.truncate(free.len().saturating_sub(nr_now - nr_frames as usize));
        (free.len() + self.page_in.keys().filter(in_node).count()) as u32
    }

    fn write_back(&mut self) {
        self.nr_write_backs += 1;
        for folio in self.folios.as_slice() {
            folio.clear(Flags::DIRTY);
        }
    }
}

impl DrivenPass for Toy {
    fn lists(&mut self, node: NodeId) -> &mut NodeLists {
        &mut self.lists[node.index()]
    }

    fn unlock_lists(&mut self) {
        let is_isolated = |folio: &Folio| folio.flags().any(Flags::ISOLATED);
        assert!(!self.folios.as_slice().iter().any(is_isolated), "a victim is left off the lists");
    }

    fn flags(&self, frame: FrameId) -> Flags {
        self.folios[frame].flags()
    }

    fn spares(&mut self, victim: &Victim) -> bool {
        self.hot.contains(&victim.page.index.0)
    }

    fn claim(&mut self, victim: &Victim) -> Result<(), Refusal> {
        let page = victim.page.index.0;
        if self.pinned.contains(&page) || self.frame_of.get(&page) != Some(&victim.frame) {
            return Err(Refusal::Busy);
        }
        if self.young.remove(&page) {
            return Err(Refusal::Young);
        }
        if self.about_to_be_dirty.remove(&page) {
            self.dirty(page);
        }
        self.claimed.push_back((page, None));
        Ok(())
    }

    fn release(&mut self) {
        let (_, left) = self.claimed.pop_back().expect("a claim to release");
        assert_eq!(left, None, "a page that moved is not released");
    }

    fn demote(&mut self, node: NodeId) -> bool {
        let below = NodeId(node.0 + 1);
        let Some(target) = self.take(below, Some(WatermarkLevel::Min)) else { return false };
        let (page, left) = self.claimed.back_mut().expect("what is demoted is claimed");
        let source = self.frame_of[page];
        self.folios[target].bind_moved(&self.folios[source], Flags::NONE);
        *left = Some(target);
        true
    }

    fn evict(&mut self, page: PageId, frame: FrameId, shadow: Option<ShadowEntry>) {
        self.calls.push(Call::Evict(frame));
        assert_eq!(self.claimed.pop_front(), Some((page.index.0, None)), "claims end in order");
        self.frame_of.remove(&page.index.0);
        self.shadows.insert(page.index.0, shadow);
    }

    fn list_demoted(&mut self, frame: FrameId) {
        self.calls.push(Call::ListDemoted(frame));
        let (page, target) = self.claimed.pop_front().expect("claims end in order");
        assert_eq!(self.frame_of[&page], frame);
        let target = target.expect("a demoted page has moved");
        self.lists[node_of(target)].whole_mut().moved_in(target);
        self.place(page, target);
    }

    fn free(&mut self, frames: impl Iterator<Item = FrameId> + Clone) {
        for frame in frames {
            self.calls.push(Call::Free(frame));
            self.page_in.remove(&frame);
            self.free[node_of(frame)].push(frame);
        }
    }

    fn may_walk(&mut self) -> bool {
        self.may_walk
    }

    fn take_young(&mut self, victim: &Victim) -> bool {
        self.young.remove(&victim.page.index.0)
    }

    fn collect_touched(&mut self, leaves: &mut Vec<LeafId>) {
        self.calls.push(Call::Walk);
        if !self.young.is_empty() {
            leaves.push(LeafId { mapping: MappingId(0), number: 0 });
        }
    }

    fn read_leaf(
        &mut self,
        _node: NodeId,
        leaf: LeafId,
        read: &LeafRead,
        look: &mut LeafLook<'_>,
    ) -> bool {
        let pages = match read {
            LeafRead::Walk => leaf.pages(),
            LeafRead::Around(pages) => {
                self.calls.push(Call::ReadAround(pages.start));
                pages.clone()
            }
        };
        for (&page, &frame) in self.frame_of.range(pages) {
            let takes = *read == LeafRead::Walk || self.folios[frame].flags().any(Flags::ON_LIST);
            match takes && self.young.remove(&page) {
                true => look.young(PageIndex(page), frame),
                false => look.resident(PageIndex(page)),
            }
        }
        true
    }
}
