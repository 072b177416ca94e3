//! A small world with groups. A page belongs to the group that read it.

use crate::folio::{Flags, Folios};
use crate::group::{GlobalOrder, GroupConfig, GroupPass, Groups, GroupsConfig, UNLIMITED};
use crate::ids::{FrameId, GroupId, MappingId, PageId, PageIndex, PageType};
use crate::lru::{
    AccessLog, AccessPath, LruConfig, Marked, PolicyName, ReclaimBatch, ReclaimKind, Refusal, Room,
    Settled, ShadowEntry, Verdict,
};
use crate::reclaim::Step;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// More steps than any finite pass needs.
const STEPS_MAX: usize = 100_000;
const RETRIES_MAX: usize = 16;

pub(super) struct World {
    pub(super) folios: Arc<Folios>,
    pub(super) groups: Groups,
    pub(super) log: AccessLog,
    pub(super) resident: BTreeMap<u64, FrameId>,
    pub(super) shadows: BTreeMap<u64, ShadowEntry>,
    pub(super) free: Vec<FrameId>,
    /// Evictions by paying group.
    pub(super) evictions: BTreeMap<GroupId, u64>,
    pub(super) refuse_one_in: u64,
    nr_tried: u64,
    /// First anonymous page.
    pub(super) first_anon: u64,
}

impl World {
    pub(super) fn new(policy: PolicyName, nr_frames: u32) -> World {
        World::with_config(policy, nr_frames, false, GlobalOrder::Rotation)
    }

    pub(super) fn with_config(
        policy: PolicyName,
        nr_frames: u32,
        can_swap: bool,
        global_order: GlobalOrder,
    ) -> World {
        let folios = Arc::new(Folios::new(nr_frames));
        let lru = LruConfig { can_swap, ..LruConfig::file_only(nr_frames) };
        let config =
            GroupsConfig { policy: policy.into(), lru, limit: UNLIMITED, global_order, seed: 1 };
        World {
            groups: Groups::new(config, folios.clone()),
            folios,
            log: AccessLog::new(),
            resident: BTreeMap::new(),
            shadows: BTreeMap::new(),
            free: (0..nr_frames).rev().map(FrameId).collect(),
            evictions: BTreeMap::new(),
            refuse_one_in: 0,
            nr_tried: 0,
            first_anon: u64::MAX,
        }
    }

    pub(super) fn create(&mut self, parent: GroupId, config: GroupConfig) -> GroupId {
        self.groups.create(parent, config).unwrap()
    }

    /// Returns false if the page could not be made resident.
    pub(super) fn access(&mut self, group: GroupId, page: u64) -> bool {
        if let Some(&frame) = self.resident.get(&page) {
            let marked = self.groups.access_rule().mark(&self.folios, frame);
            if marked == Marked::Log && self.log.touch(frame) == Room::Full {
                self.groups.drain(&mut self.log);
            }
            return true;
        }
        let Some(frame) = self.alloc(group) else { return false };
        let id = PageId { mapping: MappingId(0), index: PageIndex(page) };
        let page_type = if page < self.first_anon { PageType::File } else { PageType::Anon };
        let flags = self.groups.access_rule().flags_on_fill(AccessPath::Descriptor);
        self.folios[frame].bind(id, page_type, flags);
        self.groups.own(frame, group);
        if let Some(shadow) = self.shadows.remove(&page) {
            self.groups.refault(&mut self.log, frame, shadow, AccessPath::Descriptor);
        }
        self.resident.insert(page, frame);
        if self.log.add(&self.folios, frame) == Room::Full {
            self.groups.drain(&mut self.log);
        }
        let _ = self.groups.access_rule().mark_fill(&self.folios, frame);
        true
    }

    pub(super) fn read_all(&mut self, group: GroupId, pages: core::ops::Range<u64>) {
        pages.for_each(|page| assert!(self.access(group, page), "page {page} of {group}"));
    }

    /// Charges, then takes a frame, with reclaim for each.
    fn alloc(&mut self, group: GroupId) -> Option<FrameId> {
        let mut nr_tries = 0;
        while let Err(full) = self.groups.charge(group) {
            nr_tries += 1;
            if nr_tries > RETRIES_MAX {
                return None;
            }
            let pass = GroupPass::for_limit(&mut self.groups, full.group);
            self.reclaim(pass);
        }
        for _ in 0..RETRIES_MAX {
            if let Some(frame) = self.free.pop() {
                return Some(frame);
            }
            let pass = GroupPass::global(&mut self.groups, ReclaimKind::Direct, None);
            self.reclaim(pass);
        }
        self.groups.cancel_charge(group);
        None
    }

    pub(super) fn reclaim(&mut self, mut pass: GroupPass) -> u64 {
        self.groups.drain(&mut self.log);
        let mut batch = ReclaimBatch::new();
        for _ in 0..STEPS_MAX {
            match self.groups.isolate(&mut pass, &mut batch) {
                Step::TryEvict => self.try_victims(&mut batch),
                Step::Look | Step::WalkTables => {}
                Step::Done => return pass.nr_reclaimed(),
            }
            self.groups.settle(&mut pass, &mut batch);
            self.publish(&mut batch);
        }
        panic!("the pass does not end: {pass:?}");
    }

    fn publish(&mut self, batch: &mut ReclaimBatch) {
        for settled in batch.settled.drain(..) {
            let Settled::Evicted { page, frame, shadow } = settled else {
                panic!("nothing is discarded during these passes")
            };
            assert_eq!(self.resident.remove(&page.index.0), Some(frame), "evicted twice");
            if let Some(shadow) = shadow {
                self.shadows.insert(page.index.0, shadow);
            }
            *self.evictions.entry(self.folios[frame].group()).or_default() += 1;
            self.free.push(frame);
        }
    }

    fn try_victims(&mut self, batch: &mut ReclaimBatch) {
        for victim in batch.victims_mut() {
            self.nr_tried += 1;
            let refuses =
                self.refuse_one_in > 0 && self.nr_tried.is_multiple_of(self.refuse_one_in);
            let flags = self.folios[victim.frame].flags();
            victim.verdict = if flags.any(Flags::DIRTY) {
                Verdict::Refused(Refusal::Dirty)
            } else if refuses {
                Verdict::Refused(Refusal::Busy)
            } else {
                Verdict::Claimed
            };
        }
    }

    pub(super) fn discard(&mut self, page: u64) {
        let Some(frame) = self.resident.remove(&page) else { return };
        self.groups.discard(frame);
        self.free.push(frame);
    }

    pub(super) fn nr_resident(&self, group: GroupId) -> usize {
        self.resident.values().filter(|frame| self.folios[**frame].group() == group).count()
    }

    pub(super) fn global(&mut self, kind: ReclaimKind, target: u64) -> u64 {
        let pass = GroupPass::global(&mut self.groups, kind, Some(target));
        self.reclaim(pass)
    }

    pub(super) fn check(&self) {
        self.groups.validate();
        let nr_frames = self.folios.nr_frames() as usize;
        assert_eq!(self.resident.len() + self.free.len(), nr_frames, "frames lost");
        let usage = self.groups.tree().usage(GroupId::ROOT);
        assert_eq!(usage, self.resident.len() as u64, "pages charged and resident");
    }
}
