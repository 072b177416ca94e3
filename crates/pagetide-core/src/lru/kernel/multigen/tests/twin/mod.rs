//! A naive twin: the same rules over plain maps and sequence numbers, for each profile.
//!
//! Random operations run on both. After each pass the evictions (pages, order and shadows), the
//! window, the tier counts and every counter of the model must be equal. The model (`model.rs`) has
//! no unevictable folios, no switches but the minimal patch, and no concurrent passes.

mod model;

use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, MappingId, PageId, PageIndex, PageType};
use crate::lru::{
    AccessLog, AccessPath, LruConfig, Lruvec, Marked, Mechanism, PolicyName, ReclaimBatch, Room,
    Settled, ShadowEntry, Switches, Verdict,
};
use crate::reclaim::{ReclaimPass, Step};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use model::{Evicted, Logged, Model, Rules, World};
use proptest::prelude::*;

const FRAMES: u32 = 160;
const PAGES: u64 = 400;

struct Real {
    folios: Arc<Folios>,
    lruvec: Lruvec,
    log: AccessLog,
}

impl Real {
    fn new(policy: PolicyName, rules: &Rules) -> Real {
        let folios = Arc::new(Folios::new(FRAMES));
        let mut switches = Switches::default();
        if rules.minimal {
            switches = switches.with(Mechanism::MinimalPatch);
        }
        let config = LruConfig {
            can_swap: rules.swappiness > 0,
            swappiness: rules.swappiness as u8,
            switches,
            ..LruConfig::file_only(FRAMES)
        };
        let lruvec = Lruvec::new(policy, &config, folios.clone());
        Real { folios, lruvec, log: AccessLog::new() }
    }

    fn pass(&mut self, world: &mut World, mut pass: ReclaimPass) -> Evicted {
        self.lruvec.drain(&mut self.log);
        let mut evicted = Vec::new();
        let mut batch = ReclaimBatch::new();
        loop {
            match self.lruvec.isolate(&mut pass, &mut batch) {
                Step::TryEvict => {
                    for victim in batch.victims_mut() {
                        let refusal = world.refusal(victim.page.index.0);
                        victim.verdict = refusal.map_or(Verdict::Claimed, Verdict::Refused);
                    }
                }
                Step::WalkTables => self.walk(world),
                Step::Look => unreachable!("young pages are learnt from walks and trials"),
                Step::Done => return evicted,
            }
            self.lruvec.settle(&mut pass, &mut batch);
            for settled in batch.settled.drain(..) {
                if let Settled::Evicted { page, shadow, .. } = settled {
                    evicted.push((page.index.0, shadow.expect("a multi-gen LRU leaves shadows")));
                }
            }
        }
    }

    fn walk(&mut self, world: &mut World) {
        let is_young = |frame: &u32| {
            let index = self.folios[FrameId(*frame)].page().index.0;
            world.young.contains(&index)
        };
        let young: Vec<FrameId> = (0..FRAMES).filter(is_young).map(FrameId).collect();
        self.lruvec.report_young(&young);
        world.young.clear();
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// Reads consecutive pages, `times` each.
    Read {
        first: u64,
        nr: u64,
        times: u32,
    },
    Table {
        page: u64,
    },
    Dirty {
        page: u64,
    },
    /// Writes back consecutive pages.
    Clean {
        first: u64,
        nr: u64,
    },
    Busy {
        page: u64,
    },
    Idle,
    Discard {
        page: u64,
    },
    Background {
        target: u64,
        priority: u8,
    },
    Direct {
        priority: u8,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..PAGES, 1..40u64, 1..7u32)
            .prop_map(|(first, nr, times)| Op::Read { first, nr, times }),
        // Exceeds memory, so that pages refault and the controller decides.
        1 => (0..PAGES, 150..300u64, 1..4u32)
            .prop_map(|(first, nr, times)| Op::Read { first, nr, times }),
        8 => (0..PAGES).prop_map(|page| Op::Table { page }),
        4 => (0..PAGES).prop_map(|page| Op::Dirty { page }),
        2 => (0..PAGES, 1..200u64).prop_map(|(first, nr)| Op::Clean { first, nr }),
        2 => (0..PAGES).prop_map(|page| Op::Busy { page }),
        1 => Just(Op::Idle),
        1 => (0..PAGES).prop_map(|page| Op::Discard { page }),
        1 => (1..100u64, 0..13u8)
            .prop_map(|(target, priority)| Op::Background { target, priority }),
        1 => (0..13u8).prop_map(|priority| Op::Direct { priority }),
    ]
}

struct Pair {
    world: World,
    real: Real,
    model: Model,
    resident: BTreeMap<u64, FrameId>,
    shadows: BTreeMap<u64, ShadowEntry>,
    free: Vec<FrameId>,
}

fn type_of(page: u64) -> PageType {
    if page.is_multiple_of(3) { PageType::Anon } else { PageType::File }
}

impl Pair {
    fn new(policy: PolicyName, rules: Rules) -> Pair {
        Pair {
            world: World::default(),
            real: Real::new(policy, &rules),
            model: Model::new(rules),
            resident: BTreeMap::new(),
            shadows: BTreeMap::new(),
            free: (0..FRAMES).map(FrameId).collect(),
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Read { first, nr, times } => {
                for page in (first..first + nr).map(|page| page % PAGES) {
                    (0..times).for_each(|_| self.access(page, false));
                }
            }
            Op::Table { page } => self.access(page, true),
            Op::Dirty { page } => {
                if let Some(frame) = self.resident.get(&page) {
                    self.real.folios[*frame].set(Flags::DIRTY);
                    self.world.dirty.insert(page);
                }
            }
            Op::Clean { first, nr } => {
                (first..first + nr).for_each(|page| self.clean(page % PAGES));
            }
            Op::Busy { page } => {
                self.world.busy.insert(page);
            }
            Op::Idle => self.world.busy.clear(),
            Op::Discard { page } => self.discard(page),
            Op::Background { target, priority } => {
                let mut pass = ReclaimPass::background(&self.real.lruvec, target);
                pass.scan.priority = priority;
                self.reclaim(pass);
            }
            Op::Direct { priority } => {
                let mut pass = ReclaimPass::direct(&self.real.lruvec);
                pass.scan.priority = priority;
                self.reclaim(pass);
            }
        }
        self.real.lruvec.validate();
    }

    fn clean(&mut self, page: u64) {
        let Some(&frame) = self.resident.get(&page) else { return };
        self.world.dirty.remove(&page);
        let before = self.real.folios[frame].clear(Flags::DIRTY.with(Flags::RECLAIM));
        let was_wanted = before.any(Flags::RECLAIM);
        assert_eq!(self.model.clean(page), was_wanted, "page {page}");
        if was_wanted {
            if self.real.log.rotate(frame) == Room::Full {
                self.real.lruvec.drain(&mut self.real.log);
            }
            self.model.push_log(&self.world, Logged::Rotate(page));
        }
    }

    fn discard(&mut self, page: u64) {
        let Some(frame) = self.resident.remove(&page) else { return };
        self.real.lruvec.drain(&mut self.real.log);
        self.real.lruvec.discard(frame);
        self.model.discard(&self.world, page);
        self.world.dirty.remove(&page);
        self.world.young.remove(&page);
        self.free.push(frame);
    }

    fn access(&mut self, page: u64, table: bool) {
        if !self.resident.contains_key(&page) {
            if self.free.is_empty() {
                let pass = ReclaimPass::direct(&self.real.lruvec);
                self.reclaim(pass);
            }
            let Some(frame) = self.free.pop() else { return };
            self.fill(page, frame, table);
        }
        if table {
            self.world.young.insert(page);
            return;
        }
        let frame = self.resident[&page];
        assert_eq!(self.real.lruvec.access_rule().mark(&self.real.folios, frame), Marked::Done);
        self.model.mark(page);
    }

    fn fill(&mut self, page: u64, frame: FrameId, table: bool) {
        let Real { folios, lruvec, log } = &mut self.real;
        let kind = if table { AccessPath::Table } else { AccessPath::Descriptor };
        let id = PageId { mapping: MappingId(0), index: PageIndex(page) };
        folios[frame].bind(id, type_of(page), lruvec.access_rule().flags_on_fill(kind));
        let shadow = self.shadows.remove(&page);
        if let Some(shadow) = shadow {
            lruvec.refault(log, frame, shadow, kind);
        }
        if log.add(folios, frame) == Room::Full {
            lruvec.drain(log);
        }
        self.resident.insert(page, frame);
        self.model.fill(&self.world, page, type_of(page).index(), shadow, table);
    }

    fn reclaim(&mut self, pass: ReclaimPass) {
        let (kind, target, first) = (pass.scan.kind, pass.scan.target, pass.scan.priority);
        let mut models_world = self.world.clone();
        let expected = self.model.pass(&mut models_world, kind, target, first);
        let evicted = self.real.pass(&mut self.world, pass);
        assert_eq!(evicted, expected, "pages evicted, in order, and their shadows");
        assert_eq!(self.world.young, models_world.young);
        for (page, shadow) in evicted {
            self.free.push(self.resident.remove(&page).expect("it was resident"));
            self.shadows.insert(page, shadow);
        }
        self.compare();
    }

    fn compare(&self) {
        let summary = self.real.lruvec.multigen_summary().expect("a multi-gen LRU");
        assert_eq!((summary.max_seq, summary.min_seq), (self.model.max, self.model.min));
        let tiers = summary.tiers.map(|tiers| {
            tiers.map(|tier| {
                [tier.avg_refaulted, tier.avg_total, tier.refaulted, tier.evicted, tier.protected]
            })
        });
        assert_eq!(tiers, self.model.counts);
        let counters: BTreeMap<&str, u64> =
            self.real.lruvec.vmstat().iter().filter(|(_, value)| *value > 0).collect();
        assert_eq!(counters, self.model.stat);
    }
}

fn agrees(policy: PolicyName, rules: Rules, ops: &[Op]) {
    let mut pair = Pair::new(policy, rules);
    ops.iter().for_each(|op| pair.apply(op));
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..250)
}

/// Includes no swap and both ends of the range.
fn swappiness(max: u64) -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(60), 2..200u64, 200..=max]
}

proptest! {
    #[test]
    fn mglru_agrees_with_its_naive_twin(swappiness in swappiness(201), ops in ops()) {
        let rules = Rules { a: false, c: false, minimal: false, swappiness };
        agrees(PolicyName::Mglru, rules, &ops);
    }

    #[test]
    fn mglru_7_3_agrees_with_its_naive_twin(swappiness in swappiness(201), ops in ops()) {
        let rules = Rules { a: false, c: true, minimal: false, swappiness };
        agrees(PolicyName::Mglru73, rules, &ops);
    }

    #[test]
    fn mglru_6_1_agrees_with_its_naive_twin(swappiness in swappiness(200), ops in ops()) {
        let rules = Rules { a: true, c: false, minimal: false, swappiness };
        agrees(PolicyName::Mglru61, rules, &ops);
    }

    #[test]
    fn the_minimal_patch_agrees_with_its_naive_twin(swappiness in swappiness(200), ops in ops()) {
        let rules = Rules { a: true, c: false, minimal: true, swappiness };
        agrees(PolicyName::Mglru61, rules, &ops);
    }
}
