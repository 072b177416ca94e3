//! A tiny world with one of the designs: pages of one mapping or several, accesses through
//! descriptors and tables, and direct reclaim when full.

use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, MappingId, PageId, PageIndex, PageType};
use crate::lru::kernel::active_inactive::{ActiveInactive, ListId};
use crate::lru::refault_distance::ListPages;
use crate::lru::{
    AccessLog, AccessPath, LruConfig, Lruvec, Marked, Policy, PolicyName, ReclaimBatch, Refusal,
    Room, Scan, Settled, ShadowEntry, Verdict,
};
use crate::reclaim::{ReclaimPass, Step};
use crate::vmstat::Counter;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

pub(super) struct World {
    pub(super) folios: Arc<Folios>,
    pub(super) lruvec: Lruvec,
    pub(super) log: AccessLog,
    pub(super) resident: BTreeMap<u64, FrameId>,
    pub(super) shadows: BTreeMap<u64, ShadowEntry>,
    pub(super) young: BTreeSet<u64>,
    pub(super) pinned: BTreeSet<u64>,
    pub(super) free: Vec<FrameId>,
    pub(super) page_type: PageType,
    /// Pages per mapping. Page numbers continue through all mappings.
    pub(super) mapping_pages: u64,
}

impl World {
    pub(super) fn new(nr_frames: u32) -> World {
        World::with_config(&LruConfig::file_only(nr_frames))
    }

    pub(super) fn with_config(config: &LruConfig) -> World {
        World::with_policy(PolicyName::ActiveInactive, config)
    }

    pub(super) fn with_policy(name: PolicyName, config: &LruConfig) -> World {
        let folios = Arc::new(Folios::new(config.nr_frames));
        World {
            lruvec: Lruvec::new(name, config, folios.clone()),
            folios,
            log: AccessLog::new(),
            resident: BTreeMap::new(),
            shadows: BTreeMap::new(),
            young: BTreeSet::new(),
            pinned: BTreeSet::new(),
            free: (0..config.nr_frames).rev().map(FrameId).collect(),
            page_type: PageType::File,
            mapping_pages: u64::MAX,
        }
    }

    pub(super) fn policy(&mut self) -> &mut ActiveInactive {
        let Policy::ActiveInactive(policy) = &mut self.lruvec.policy else {
            panic!("asked of worlds with today's design only")
        };
        policy
    }

    /// Returns true for a miss.
    pub(super) fn read(&mut self, page: u64) -> bool {
        let (frame, missed) = match self.resident.get(&page) {
            Some(frame) => (*frame, false),
            None => (self.fill(page, AccessPath::Descriptor), true),
        };
        let rule = self.lruvec.access_rule();
        if rule.mark(&self.folios, frame) == Marked::Log && self.log.touch(frame) == Room::Full {
            self.drain();
        }
        missed
    }

    pub(super) fn read_all(&mut self, pages: Range<u64>) -> u64 {
        pages.map(|page| u64::from(self.read(page))).sum()
    }

    pub(super) fn map(&mut self, page: u64) {
        if !self.resident.contains_key(&page) {
            self.fill(page, AccessPath::Table);
        }
        self.young.insert(page);
    }

    pub(super) fn drain(&mut self) {
        self.lruvec.drain(&mut self.log);
    }

    pub(super) fn read_twice(&mut self, pages: Range<u64>) {
        for page in pages {
            self.read(page);
            self.read(page);
        }
    }

    fn fill(&mut self, page: u64, kind: AccessPath) -> FrameId {
        if self.free.is_empty() {
            self.reclaim();
        }
        let frame = self.free.pop().expect("a pass frees something here");
        let id = self.page_id(page);
        self.folios[frame].bind(id, self.page_type, Flags::NONE);
        if let Some(shadow) = self.shadows.remove(&page) {
            self.lruvec.refault(&mut self.log, frame, shadow, kind);
        }
        if self.log.add(&self.folios, frame) == Room::Full {
            self.drain();
        }
        self.resident.insert(page, frame);
        frame
    }

    fn page_id(&self, page: u64) -> PageId {
        let mapping = MappingId((page / self.mapping_pages) as u32);
        PageId { mapping, index: PageIndex(page % self.mapping_pages) }
    }

    fn page_of(&self, id: PageId) -> u64 {
        u64::from(id.mapping.0) * self.mapping_pages + id.index.0
    }

    pub(super) fn reclaim(&mut self) -> Scan {
        self.run(ReclaimPass::direct(&self.lruvec))
    }

    pub(super) fn run(&mut self, mut pass: ReclaimPass) -> Scan {
        self.drain();
        let mut batch = ReclaimBatch::new();
        loop {
            match self.lruvec.isolate(&mut pass, &mut batch) {
                Step::TryEvict => self.answer(&mut batch, true),
                Step::Look => self.answer(&mut batch, false),
                Step::WalkTables => panic!("two lists need no walk"),
                Step::Done => break,
            }
            self.lruvec.settle(&mut pass, &mut batch);
            self.publish(&mut batch);
        }
        self.lruvec.validate();
        pass.scan
    }

    /// Stops after `target`.
    pub(super) fn reclaim_in_full(&mut self, target: u64) -> Scan {
        let mut pass = ReclaimPass::direct(&self.lruvec);
        pass.scan.priority = 0;
        pass.scan.target = target;
        self.run(pass)
    }

    fn publish(&mut self, batch: &mut ReclaimBatch) {
        for settled in batch.settled.drain(..) {
            let Settled::Evicted { page, frame, shadow } = settled else {
                panic!("nothing is discarded here")
            };
            let page = self.page_of(page);
            assert_eq!(self.resident.remove(&page), Some(frame));
            if let Some(shadow) = shadow {
                self.shadows.insert(page, shadow);
            }
            self.free.push(frame);
        }
    }

    pub(super) fn answer(&mut self, batch: &mut ReclaimBatch, evict: bool) {
        for victim in batch.victims_mut() {
            let page = self.page_of(victim.page);
            let flags = self.folios[victim.frame].flags();
            if self.young.remove(&page) {
                victim.verdict = Verdict::Refused(Refusal::Young);
            } else if flags.any(Flags::DIRTY.with(Flags::WRITEBACK)) {
                victim.verdict = Verdict::Refused(Refusal::Dirty);
            } else if evict && !self.pinned.contains(&page) {
                victim.verdict = Verdict::Claimed;
            }
        }
    }

    pub(super) fn set(&self, page: u64, flags: Flags) {
        self.folios[self.resident[&page]].set(flags);
    }

    pub(super) fn flags(&self, page: u64) -> Flags {
        self.folios[self.resident[&page]].flags()
    }

    pub(super) fn pages(&mut self, list: ListId) -> Vec<u64> {
        self.drain();
        let folios = self.folios.clone();
        let frames = self.policy().lists.frames(&folios, list);
        frames.into_iter().map(|frame| folios[frame].page().index.0).collect()
    }

    pub(super) fn sizes(&mut self) -> ListPages {
        self.drain();
        self.policy().sizes()
    }

    pub(super) fn count(&self, counter: Counter) -> u64 {
        self.lruvec.vmstat().read(counter)
    }

    pub(super) fn age(&mut self) -> u64 {
        self.policy().design.age_mut().read()
    }
}
