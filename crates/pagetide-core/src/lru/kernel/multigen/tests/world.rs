//! A small world for tests of single steps. Frames are used in order and once.

use crate::folio::{Flags, Folio, Folios};
use crate::ids::{FrameId, MappingId, PageId, PageIndex, PageType};
use crate::lru::kernel::multigen::MultigenSummary;
use crate::lru::{
    AccessLog, LruConfig, Lruvec, PolicyName, ReclaimBatch, Refusal, Room, Settled, ShadowEntry,
    Switches, Verdict,
};
use crate::reclaim::{ReclaimPass, Step};
use crate::vmstat::Counter;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) const ANON: usize = PageType::Anon.index();
pub(super) const FILE: usize = PageType::File.index();

pub(super) struct Steps {
    pub(super) folios: Arc<Folios>,
    pub(super) lruvec: Lruvec,
    next_frame: u32,
    pub(super) refusals: BTreeMap<FrameId, Refusal>,
    /// Young frames for the next table walk.
    pub(super) young: Vec<FrameId>,
    pub(super) trials: BTreeMap<FrameId, u32>,
    pub(super) evicted: Vec<(FrameId, ShadowEntry)>,
    pub(super) walks: u32,
}

impl Steps {
    /// Takes `None` for no swap.
    pub(super) fn new(swappiness: Option<u8>) -> Steps {
        Steps::with(PolicyName::Mglru, swappiness, Switches::default())
    }

    pub(super) fn with(policy: PolicyName, swappiness: Option<u8>, switches: Switches) -> Steps {
        let folios = Arc::new(Folios::new(4096));
        let config = LruConfig {
            can_swap: swappiness.is_some(),
            swappiness: swappiness.unwrap_or(60),
            switches,
            ..LruConfig::file_only(4096)
        };
        Steps {
            lruvec: Lruvec::new(policy, &config, folios.clone()),
            folios,
            next_frame: 0,
            refusals: BTreeMap::new(),
            young: Vec::new(),
            trials: BTreeMap::new(),
            evicted: Vec::new(),
            walks: 0,
        }
    }

    pub(super) fn bind(&mut self, page_type: PageType, flags: Flags) -> FrameId {
        let frame = FrameId(self.next_frame);
        self.next_frame += 1;
        let page = PageId { mapping: MappingId(0), index: PageIndex(frame.0.into()) };
        self.folios[frame].bind(page, page_type, flags);
        frame
    }

    pub(super) fn add_one(&mut self, page_type: PageType, flags: Flags) -> FrameId {
        let frame = self.bind(page_type, flags);
        self.log(|log, folios| log.add(folios, frame));
        frame
    }

    pub(super) fn add(&mut self, nr: u32, page_type: PageType, flags: Flags) -> Vec<FrameId> {
        (0..nr).map(|_| self.add_one(page_type, flags)).collect()
    }

    pub(super) fn log(&mut self, entry: impl FnOnce(&mut AccessLog, &Folios) -> Room) {
        let mut log = AccessLog::new();
        assert_eq!(entry(&mut log, &self.folios), Room::Left);
        self.lruvec.drain(&mut log);
    }

    pub(super) fn folio(&self, frame: FrameId) -> &Folio {
        &self.folios[frame]
    }

    pub(super) fn run(&mut self, mut pass: ReclaimPass, priority: u8) -> ReclaimPass {
        pass.scan.priority = priority;
        let mut batch = ReclaimBatch::new();
        loop {
            match self.lruvec.isolate(&mut pass, &mut batch) {
                Step::TryEvict => {
                    for victim in batch.victims_mut() {
                        *self.trials.entry(victim.frame).or_default() += 1;
                        victim.verdict = match self.refusals.get(&victim.frame) {
                            Some(refusal) => Verdict::Refused(*refusal),
                            None => Verdict::Claimed,
                        };
                    }
                }
                Step::Look => unreachable!("mglru learns of young pages from walks and trials"),
                Step::WalkTables => {
                    self.walks += 1;
                    self.lruvec.report_young(&self.young);
                }
                Step::Done => return pass,
            }
            self.lruvec.settle(&mut pass, &mut batch);
            for settled in batch.settled.drain(..) {
                if let Settled::Evicted { frame, shadow, .. } = settled {
                    self.evicted.push((frame, shadow.expect("mglru leaves shadows")));
                }
            }
            self.lruvec.validate();
        }
    }

    pub(super) fn direct(&mut self, priority: u8) -> u64 {
        let pass = ReclaimPass::direct(&self.lruvec);
        self.run(pass, priority).scan.reclaimed
    }

    pub(super) fn summary(&self) -> MultigenSummary {
        self.lruvec.multigen_summary().expect("the policy is mglru")
    }

    /// Returns the oldest first.
    pub(super) fn sizes(&self, page_type: usize) -> [u64; 4] {
        self.summary().generations.map(|generation| generation.nr_folios[page_type])
    }

    pub(super) fn counter(&self, counter: Counter) -> u64 {
        self.lruvec.vmstat().read(counter)
    }

    pub(super) fn seq_of(&self, frame: FrameId) -> u64 {
        let index = self.folio(frame).flags().generation().expect("listed");
        let seqs = self.summary().generations.map(|generation| generation.seq);
        seqs.into_iter().find(|seq| seq % 4 == u64::from(index)).expect("in the window")
    }
}
