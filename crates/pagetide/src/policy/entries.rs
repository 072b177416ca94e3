//! A world of core's driver with entries of a cache instead of pages.
//!
//! **Problem.** The decisions of core are about frames and page words. **Idea.** A frame is a place
//! for an entry, without memory. The key is the index of the page. All entries are clean, and no
//! table maps them, so a victim is refused only for its pins.
//!
//! ```text
//!   hit       index --> frame: mark, log a touch if the mark says so
//!   fill      driver: take, reclaim --> bind --> refault by the shadow --> log the addition
//!   evict     driver: claim if no pin --> history has the shadow, index forgets the key
//! ```
//!
//! **Data and invariants.** The order of a fill is that of the page cache and of the lab's replays.
//! Resident entries plus free frames are the frames. The sum of the lengths never exceeds the
//! limit.
//!
//! **Ignored.** Time, groups, nodes, and background reclaim.

use super::history::History;
use super::index::{Index, hash_of};
use pagetide_core::driver::{self, Driven, DrivenPass, FIRST, LeafRead, Woken};
use pagetide_core::folio::{Flags, Folios};
use pagetide_core::group::{Grouping, NodeLists};
use pagetide_core::ids::{FrameId, MappingId, NodeId, PageId, PageIndex, PageType};
use pagetide_core::lru::page_table::{LeafId, LeafLook};
use pagetide_core::lru::{
    AccessLog, AccessPath, AccessRule, LruConfig, Marked, Mechanism, PolicyName, ReclaimBatch,
    Refusal, Room, ShadowEntry, Switches, Victim,
};
use pagetide_core::page_alloc::{Starving, WatermarkLevel};
use pagetide_sys::huge_buffer;
use std::sync::Arc;

/// Keys evicted by the last call for which there is room from the start.
const EVICTED_ROOM: usize = 256;

/// The limits of all entries together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limits {
    pub(super) nr_entries: u32,
    pub(super) bytes: u64,
}

/// Counts of entries, and of their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Usage {
    pub(super) nr_entries: u32,
    pub(super) bytes: u64,
}

impl Usage {
    fn add(&mut self, bytes: u64) {
        self.nr_entries += 1;
        self.bytes += bytes;
    }

    fn subtract(&mut self, bytes: u64) {
        self.nr_entries -= 1;
        self.bytes -= bytes;
    }
}

pub(super) struct Entries {
    lists: NodeLists,
    folios: Arc<Folios>,
    rule: AccessRule,
    log: AccessLog,
    /// `None` during a pass.
    batch: Option<Box<ReclaimBatch>>,
    free: Vec<FrameId>,
    index: Index,
    history: History,
    /// By frame.
    pins: Box<[u32]>,
    /// Length of each entry, by frame.
    bytes: Box<[u64]>,
    pub(super) limits: Limits,
    pub(super) used: Usage,
    /// The pinned part of `used`.
    pub(super) pinned: Usage,
    /// Keys evicted since the last clear, in order.
    pub(super) evicted: Vec<u64>,
}

impl Entries {
    /// Creates the lists for at most `nr_max` entries, with the shadows of the last `nr_evictions`.
    pub(super) fn new(policy: PolicyName, nr_max: u32, nr_evictions: u32, limits: Limits) -> Self {
        let folios = Arc::new(Folios::for_one_thread(nr_max));
        // Walks would copy the filter, and find no table.
        let switches = Switches::default().without(Mechanism::BloomFilter);
        let config = LruConfig { switches, ..LruConfig::file_only(nr_max) };
        let lists = NodeLists::new(policy, &config, Arc::clone(&folios), Grouping::Off);
        let index = Index::new(nr_max);
        index.move_to_huge_pages();
        huge_buffer::move_to_huge_pages(folios.as_slice());
        Entries {
            rule: lists.root().access_rule(),
            lists,
            folios,
            log: AccessLog::new(),
            batch: Some(Box::new(ReclaimBatch::with_room())),
            free: (0..nr_max).rev().map(FrameId).collect(),
            index,
            history: History::new(nr_evictions),
            pins: vec![0; nr_max as usize].into(),
            bytes: vec![0; nr_max as usize].into(),
            limits,
            used: Usage::default(),
            pinned: Usage::default(),
            evicted: Vec::with_capacity(EVICTED_ROOM),
        }
    }

    /// Returns the most entries that the lists were made for.
    pub(super) fn nr_max(&self) -> u32 {
        self.folios.nr_frames()
    }

    pub(super) fn policy_name(&self) -> PolicyName {
        self.lists.root().policy_name()
    }

    /// Returns the frame of a resident key.
    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<FrameId> {
        let is_key = |number| self.folios[FrameId(number)].page().index.0 == key;
        self.index.find(hash_of(key), is_key).map(FrameId)
    }

    /// Records a hit.
    #[inline]
    pub(super) fn mark(&mut self, frame: FrameId) {
        let marked = self.rule.mark(&self.folios, frame);
        if self.rule.logs_hits() && self.log.touch_if(marked, frame) == Room::Full {
            self.lists.drain(&mut self.log);
        }
    }

    /// Adds an absent key, after evictions. Returns false without room.
    pub(super) fn fill(&mut self, key: u64, bytes: u64) -> bool {
        let shadow = self.history.take(key);
        let Some(frame) = self.alloc(bytes, shadow) else { return false };
        let page = PageId { mapping: MappingId(0), index: PageIndex(key) };
        let kind = AccessPath::Descriptor;
        self.folios[frame].bind(page, PageType::File, self.rule.flags_on_fill(kind));
        if let Some(shadow) = shadow {
            self.lists.refault(&mut self.log, frame, shadow, kind);
        }
        self.index.insert(hash_of(key), frame.0);
        self.bytes[frame.0 as usize] = bytes;
        self.used.add(bytes);
        if self.log.add(&self.folios, frame) == Room::Full {
            self.lists.drain(&mut self.log);
        }
        if self.rule.mark_fill(&self.folios, frame) == Marked::Log
            && self.log.touch(frame) == Room::Full
        {
            self.lists.drain(&mut self.log);
        }
        true
    }

    /// Changes the length of an entry, after evictions of others. Returns false without room.
    pub(super) fn change_length(&mut self, frame: FrameId, bytes: u64) -> bool {
        let before = self.bytes[frame.0 as usize];
        if bytes > before {
            self.pin(frame);
            let has_room = self.make_room(bytes - before, None);
            self.unpin(frame);
            if !has_room {
                return false;
            }
        }
        self.bytes[frame.0 as usize] = bytes;
        self.used.bytes = self.used.bytes - before + bytes;
        if self.pins[frame.0 as usize] > 0 {
            self.pinned.bytes = self.pinned.bytes - before + bytes;
        }
        true
    }

    /// Returns the length of an entry that may not be evicted, 0 for others.
    pub(super) fn pinned_bytes(&self, frame: FrameId) -> u64 {
        if self.pins[frame.0 as usize] > 0 { self.bytes[frame.0 as usize] } else { 0 }
    }

    /// Evicts the next victim, if there is one.
    pub(super) fn evict_one(&mut self) -> bool {
        self.used.nr_entries > self.pinned.nr_entries && driver::reclaim_one(self, FIRST)
    }

    /// Evicts until the limits hold. Returns false if all entries left are pinned.
    pub(super) fn shrink(&mut self) -> bool {
        let Limits { nr_entries, bytes } = self.limits;
        while self.used.nr_entries > nr_entries || self.used.bytes > bytes {
            if !self.evict_one() {
                return false;
            }
        }
        true
    }

    /// Drops a resident key with its pins.
    pub(super) fn remove(&mut self, key: u64, frame: FrameId) {
        self.lists.discard(frame);
        let pins = std::mem::take(&mut self.pins[frame.0 as usize]);
        if pins > 0 {
            self.pinned.subtract(self.bytes[frame.0 as usize]);
        }
        self.forget(key, frame);
        self.free.push(frame);
    }

    /// Drops the history of an absent key.
    pub(super) fn remove_shadow(&mut self, key: u64) {
        self.history.take(key);
    }

    pub(super) fn pin(&mut self, frame: FrameId) {
        let pins = &mut self.pins[frame.0 as usize];
        *pins = pins.checked_add(1).expect("no caller pins an entry 2^32 times");
        if *pins == 1 {
            self.pinned.add(self.bytes[frame.0 as usize]);
        }
    }

    /// Returns false if the entry has no pin.
    pub(super) fn unpin(&mut self, frame: FrameId) -> bool {
        let pins = &mut self.pins[frame.0 as usize];
        if *pins == 0 {
            return false;
        }
        *pins -= 1;
        if *pins == 0 {
            self.pinned.subtract(self.bytes[frame.0 as usize]);
        }
        true
    }

    /// Checks all invariants, and panics if one is broken. O(entries).
    pub(super) fn validate(&mut self) {
        self.lists.drain(&mut self.log);
        self.lists.validate();
        assert_eq!(self.lists.nr_folios(), u64::from(self.used.nr_entries), "listed entries");
        let nr_used = self.nr_max() - self.free.len() as u32;
        assert_eq!(nr_used, self.used.nr_entries, "frames in use and entries");
        let listed = (0..self.nr_max())
            .map(FrameId)
            .filter(|frame| self.folios[*frame].flags().any(Flags::ON_LIST));
        let mut found = [Usage::default(); 2];
        for frame in listed {
            assert_eq!(self.find(self.folios[frame].page().index.0), Some(frame));
            let bytes = self.bytes[frame.0 as usize];
            found[0].add(bytes);
            if self.pins[frame.0 as usize] > 0 {
                found[1].add(bytes);
            }
        }
        assert_eq!(found, [self.used, self.pinned], "entries and their sums");
    }

    fn alloc(&mut self, bytes: u64, incoming: Option<ShadowEntry>) -> Option<FrameId> {
        if !self.make_room(bytes, incoming) {
            return None;
        }
        self.take(FIRST, None)
            .or_else(|| {
                driver::reclaim_for_page(self, FIRST, incoming);
                self.take(FIRST, None)
            })
            .or_else(|| driver::alloc_slowly(self))
            .or_else(|| if self.evict_one() { self.take(FIRST, None) } else { None })
    }

    /// Evicts until so many bytes fit.
    fn make_room(&mut self, bytes: u64, incoming: Option<ShadowEntry>) -> bool {
        while self.limits.bytes - self.used.bytes < bytes {
            if driver::reclaim_for_page(self, FIRST, incoming) == 0 && !self.evict_one() {
                return false;
            }
        }
        true
    }

    fn forget(&mut self, key: u64, frame: FrameId) {
        self.index.remove(hash_of(key), frame.0);
        self.used.subtract(self.bytes[frame.0 as usize]);
    }
}

impl Driven for Entries {
    type Frame = FrameId;
    type Pass<'p> = Entries;

    fn nr_nodes(&self) -> u8 {
        1
    }

    fn take(&mut self, _node: NodeId, _level: Option<WatermarkLevel>) -> Option<FrameId> {
        if self.used.nr_entries < self.limits.nr_entries { self.free.pop() } else { None }
    }

    fn drain_frames(&mut self, _node: NodeId) -> Option<Starving> {
        None
    }

    fn drain_logs(&mut self, _node: NodeId) {
        self.lists.drain(&mut self.log);
    }

    fn wake_background(&mut self) -> Woken {
        Woken::Thread
    }

    fn wake_flusher(&mut self) {}

    fn demotes(&self, _node: NodeId) -> bool {
        false
    }

    fn background_target(&mut self, _node: NodeId, _room_below: u64) -> u64 {
        0
    }

    fn room_for_demoted(&mut self, _node: NodeId) -> u64 {
        0
    }

    fn set_reclaim_active(&mut self, _node: NodeId, _is_active: bool) {}

    fn lend_lists<T>(&mut self, _node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T {
        use_lists(&mut self.lists)
    }

    fn lend_current<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T {
        self.drain_logs(node);
        use_lists(&mut self.lists)
    }

    fn in_pass(&mut self, _node: NodeId, run: impl FnOnce(&mut Self, &mut ReclaimBatch)) {
        let mut batch = self.batch.take().unwrap_or_default();
        run(self, &mut batch);
        self.batch = Some(batch);
    }
}

impl DrivenPass for Entries {
    #[inline]
    fn lists(&mut self, _node: NodeId) -> &mut NodeLists {
        &mut self.lists
    }

    #[inline]
    fn flags(&self, frame: FrameId) -> Flags {
        self.folios[frame].flags()
    }

    fn spares(&mut self, _victim: &Victim) -> bool {
        false
    }

    #[inline]
    fn claim(&mut self, victim: &Victim) -> Result<(), Refusal> {
        match self.pins[victim.frame.0 as usize] {
            0 => Ok(()),
            _ => Err(Refusal::Busy),
        }
    }

    fn release(&mut self) {}

    fn demote(&mut self, _node: NodeId) -> bool {
        false
    }

    #[inline]
    fn evict(&mut self, page: PageId, frame: FrameId, shadow: Option<ShadowEntry>) {
        let key = page.index.0;
        self.forget(key, frame);
        if let Some(shadow) = shadow {
            self.history.push(key, shadow);
        }
        self.evicted.push(key);
    }

    fn list_demoted(&mut self, _frame: FrameId) {}

    #[inline]
    fn free(&mut self, frames: impl Iterator<Item = FrameId> + Clone) {
        self.free.extend(frames);
    }

    fn take_young(&mut self, _victim: &Victim) -> bool {
        false
    }

    fn collect_touched(&mut self, _leaves: &mut Vec<LeafId>) {}

    fn read_leaf(
        &mut self,
        _node: NodeId,
        _leaf: LeafId,
        _read: &LeafRead,
        _look: &mut LeafLook<'_>,
    ) -> bool {
        false
    }
}
