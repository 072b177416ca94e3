//! A naive twin: the same rules over plain vectors and sequence numbers, for files only.
//!
//! It shares no code with the policy but the shadow's layout. Random operations are applied to
//! both; after each pass, the evictions (pages, order and shadows), the window and the counts of
//! all tiers must be the same. It does not check anonymous, unevictable or dropped pages.

use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, MappingId, PageId, PageIndex, PageType};
use crate::lru::{
    AccessKind, AccessLog, LruConfig, Lruvec, LruvecId, Marked, PolicyName, Refusal, Room,
    ShadowEntry,
};
use crate::reclaim::{ReclaimBatch, ReclaimKind, ReclaimPass, Settled, Step, Verdict};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use proptest::prelude::*;

const FRAMES: u32 = 160;
const PAGES: u64 = 400;

/// What one pass evicted, in order.
type Evicted = Vec<(u64, ShadowEntry)>;

/// What the world, which both share, answers to a trial.
#[derive(Default)]
struct World {
    young: BTreeSet<u64>,
    dirty: BTreeSet<u64>,
    busy: BTreeSet<u64>,
}

impl World {
    fn refusal(&mut self, page: u64) -> Option<Refusal> {
        if self.young.remove(&page) {
            Some(Refusal::Young)
        } else if self.dirty.contains(&page) {
            Some(Refusal::Dirty)
        } else if self.busy.contains(&page) {
            Some(Refusal::Busy)
        } else {
            None
        }
    }
}

#[derive(Clone, Copy, Default)]
struct TwinPage {
    referenced: bool,
    refs: u32,
    workingset: bool,
    active: bool,
    reclaim: bool,
    seq: u64,
}

impl TwinPage {
    fn count(&self) -> u32 {
        if self.referenced { self.refs + 1 } else { 0 }
    }

    fn tier(&self) -> usize {
        if self.workingset { 3 } else { [0, 0, 1, 2, 2][self.count() as usize] }
    }

    fn mark(&mut self) {
        if !self.referenced {
            (self.referenced, self.refs) = (true, 0);
        } else if self.refs < 3 {
            self.refs += 1;
        } else {
            self.workingset = true;
        }
    }

    /// Returns whether it had been seen before.
    fn see_young(&mut self) -> bool {
        let again = self.referenced || self.workingset;
        (self.referenced, self.refs) = (!again, 0);
        self.workingset |= again;
        again
    }
}

enum TwinLog {
    Add(u64),
    Rotate(u64),
}

#[derive(Default)]
struct Twin {
    max: u64,
    min: u64,
    /// Front = head = youngest.
    lists: BTreeMap<u64, VecDeque<u64>>,
    pages: BTreeMap<u64, TwinPage>,
    listed: BTreeSet<u64>,
    log: Vec<TwinLog>,
    /// By tier: averages of refaulted and total, then refaulted, evicted, protected.
    counts: [[u64; 5]; 4],
}

impl Twin {
    fn insert(&mut self, world: &World, page: u64, rotated: bool) {
        let (max, min) = (self.max, self.min);
        let twin = self.pages.get_mut(&page).unwrap();
        let wanted = match (twin.active, rotated) {
            (true, _) if twin.workingset => max,
            (true, _) => max - 1,
            (false, true) => max - 3,
            (false, false) if twin.reclaim && world.dirty.contains(&page) => max - 1,
            (false, false) if twin.workingset => max - 2,
            (false, false) => max - 3,
        };
        (twin.seq, twin.active) = (wanted.max(min), false);
        let list = self.lists.entry(twin.seq).or_default();
        if rotated {
            list.push_back(page)
        } else {
            list.push_front(page)
        }
        self.listed.insert(page);
    }

    fn drain(&mut self, world: &World) {
        for entry in core::mem::take(&mut self.log) {
            match entry {
                TwinLog::Add(page) => self.insert(world, page, false),
                TwinLog::Rotate(page) if self.listed.contains(&page) => {
                    self.lists.values_mut().for_each(|list| list.retain(|other| *other != page));
                    self.insert(world, page, true);
                }
                TwinLog::Rotate(_) => {}
            }
        }
    }

    fn push_log(&mut self, world: &World, entry: TwinLog) {
        self.log.push(entry);
        if self.log.len() == 31 {
            self.drain(world);
        }
    }

    fn fill(&mut self, world: &World, page: u64, shadow: Option<ShadowEntry>, table: bool) {
        let mut twin = TwinPage { active: table, ..TwinPage::default() };
        if let Some(shadow) = shadow
            && self.max - (shadow.token() >> 2) < 4
        {
            let refs = (shadow.token() & 3) as u32;
            let (count, workingset) = (refs + 1, shadow.workingset());
            let tier = if workingset { 3 } else { [0, 0, 1, 2, 2][count as usize] };
            self.counts[tier][2] += 1;
            twin.workingset = workingset;
            twin.refs = if workingset { 0 } else { refs };
        }
        self.pages.insert(page, twin);
        self.push_log(world, TwinLog::Add(page));
    }

    fn tier_limit(&self) -> usize {
        let position = |tier: usize| {
            let [avg_refaulted, avg_total, refaulted, evicted, protected] = self.counts[tier];
            (u128::from(avg_refaulted + refaulted), u128::from(avg_total + evicted + protected))
        };
        let (base, base_total) = position(0);
        let is_evicted = |tier: &usize| {
            let (refaulted, total) = position(*tier);
            refaulted < 64 || refaulted * (base_total + 64) * 2 <= (base + 1) * total * 3
        };
        (1..4).take_while(is_evicted).count()
    }

    fn pass(&mut self, world: &mut World, kind: ReclaimKind, target: u64, first: u8) -> Evicted {
        self.drain(world);
        let mut evicted = Vec::new();
        let (mut scanned, mut dirty) = (0, 0);
        let mut first = first;
        for _round in 0..2 {
            for priority in (0..=first).rev() {
                self.at_priority(
                    world,
                    kind,
                    target,
                    priority,
                    &mut evicted,
                    &mut scanned,
                    &mut dirty,
                );
                if evicted.len() as u64 >= target {
                    break;
                }
            }
            let waits = scanned > 0 && scanned <= dirty;
            let again = kind == ReclaimKind::Direct && evicted.is_empty() && !waits;
            if !again || self.listed.is_empty() {
                break;
            }
            first = 12;
        }
        evicted
    }

    #[expect(clippy::too_many_arguments, reason = "the twin stays one plain function")]
    fn at_priority(
        &mut self,
        world: &mut World,
        kind: ReclaimKind,
        target: u64,
        priority: u8,
        evicted: &mut Evicted,
        all_scanned: &mut u64,
        all_dirty: &mut u64,
    ) {
        let mut progress = 0;
        while kind == ReclaimKind::Direct || (evicted.len() as u64) < target {
            let gens = self.max - self.min + 1;
            if gens < 4 && priority < 12 {
                return self.age(world);
            }
            let nr = if gens <= 2 { 0 } else { self.listed.len() as u64 >> priority };
            if nr == 0 {
                return;
            }
            let (victims, scanned, dirty) = self.scan(world, nr);
            *all_scanned += scanned;
            *all_dirty += dirty;
            let counts = !victims.is_empty() || scanned == nr.min(4096);
            let mut delta = if counts { scanned } else { 0 };
            delta += u64::from(self.retire());
            if self.max - self.min < 2 {
                delta = 0;
            }
            progress += delta;
            *all_dirty += self.settle(world, victims, evicted);
            if delta == 0 || progress >= nr {
                return;
            }
        }
    }

    fn age(&mut self, world: &mut World) {
        for page in core::mem::take(&mut world.young) {
            if self.listed.contains(&page) && self.pages.get_mut(&page).unwrap().see_young() {
                self.pages.get_mut(&page).unwrap().seq = self.max;
            }
        }
        self.max += 1;
    }

    fn retire(&mut self) -> bool {
        let before = self.min;
        while self.min + 2 <= self.max && self.lists.get(&self.min).is_none_or(VecDeque::is_empty) {
            self.min += 1;
        }
        if self.min != before {
            for counts in &mut self.counts {
                let [avg_refaulted, avg_total, refaulted, evicted, protected] = *counts;
                let total = (avg_total + evicted + protected) / 2;
                *counts = [(avg_refaulted + refaulted) / 2, total, 0, 0, 0];
            }
        }
        self.min != before
    }

    /// Returns the victims, the pages looked at, and the dirty ones among them.
    fn scan(&mut self, world: &World, nr: u64) -> (Vec<u64>, u64, u64) {
        let limit = self.tier_limit();
        let (mut victims, mut scanned, mut dirty) = (Vec::new(), 0, 0);
        while scanned < nr.min(4096) && victims.len() < 64 {
            let oldest = self.lists.entry(self.min).or_default();
            let Some(page) = oldest.pop_back() else { break };
            scanned += 1;
            let twin = self.pages.get_mut(&page).unwrap();
            let tier = twin.tier();
            let is_saturated = twin.workingset && twin.count() == 4;
            let is_dirty = world.dirty.contains(&page);
            if twin.seq == self.min {
                if tier > limit || is_saturated {
                    self.counts[tier][4] += u64::from(!is_saturated);
                } else if is_dirty {
                    dirty += 1;
                    twin.reclaim = true;
                } else {
                    twin.reclaim = false;
                    twin.refs *= u32::from(twin.referenced);
                    self.listed.remove(&page);
                    victims.push(page);
                    continue;
                }
                (twin.referenced, twin.refs, twin.seq) = (false, 0, self.min + 1);
            }
            self.lists.entry(twin.seq).or_default().push_front(page);
        }
        (victims, scanned, dirty)
    }

    /// Returns how many were refused as dirty.
    fn settle(&mut self, world: &mut World, victims: Vec<u64>, evicted: &mut Evicted) -> u64 {
        let mut dirty = 0;
        let mut trial = victims;
        for may_retry in [true, false] {
            let verdicts: Vec<_> =
                trial.into_iter().map(|page| (page, world.refusal(page))).collect();
            trial = Vec::new();
            for (page, refusal) in verdicts {
                let twin = self.pages.get_mut(&page).unwrap();
                let Some(refusal) = refusal else {
                    self.counts[twin.tier()][3] += 1;
                    let token = self.min << 2 | u64::from(twin.count().saturating_sub(1));
                    let id = LruvecId::default();
                    evicted.push((page, ShadowEntry::new(token, id, twin.workingset)));
                    self.pages.remove(&page);
                    continue;
                };
                twin.reclaim |= refusal == Refusal::Dirty;
                dirty += u64::from(refusal == Refusal::Dirty);
                if refusal == Refusal::Young {
                    twin.active = twin.see_young();
                }
                if refusal == Refusal::Busy && may_retry {
                    trial.push(page);
                    continue;
                }
                let ahead = if twin.workingset { 2 } else { 3 };
                let is_waiting = twin.reclaim && world.dirty.contains(&page);
                let steps = match twin.active {
                    true => u64::from(!twin.workingset),
                    false if is_waiting => 1,
                    false => ahead,
                };
                if self.max - steps <= self.min {
                    (twin.referenced, twin.refs, twin.active) = (false, 0, true);
                }
                self.insert(world, page, false);
            }
        }
        dirty
    }
}

/// The policy behind its real driver, with the same world.
struct Real {
    folios: Arc<Folios>,
    lruvec: Lruvec,
    log: AccessLog,
}

impl Real {
    fn new() -> Real {
        let folios = Arc::new(Folios::new(FRAMES));
        let config = LruConfig::file_only(FRAMES);
        let lruvec = Lruvec::new(PolicyName::Mglru, &config, folios.clone());
        Real { folios, lruvec, log: AccessLog::new() }
    }

    fn pass(&mut self, world: &mut World, mut pass: ReclaimPass) -> Evicted {
        self.lruvec.drain(&mut self.log);
        let mut evicted = Vec::new();
        let mut batch = ReclaimBatch::new();
        loop {
            let step = self.lruvec.reclaim(&mut pass, &mut batch);
            for settled in &batch.settled {
                if let Settled::Evicted { page, shadow, .. } = settled {
                    evicted.push((page.index.0, shadow.expect("mglru leaves shadows")));
                }
            }
            match step {
                Step::TryEvict => {
                    for victim in batch.victims_mut() {
                        let refusal = world.refusal(victim.page.index.0);
                        victim.verdict = refusal.map_or(Verdict::Claimed, Verdict::Refused);
                    }
                }
                Step::WalkTables => {
                    let resident = |frame: &u32| {
                        let index = self.folios[FrameId(*frame)].page().index.0;
                        world.young.contains(&index)
                    };
                    let young: Vec<FrameId> = (0..FRAMES).filter(resident).map(FrameId).collect();
                    self.lruvec.walked(&young);
                    world.young.clear();
                }
                Step::Look => unreachable!("mglru learns of young pages from walks and trials"),
                Step::Done => return evicted,
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// Read pages in a row, each so many times.
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
    Clean {
        page: u64,
    },
    Busy {
        page: u64,
    },
    Idle,
    Background {
        target: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..PAGES, 1..40u64, 1..7u32)
            .prop_map(|(first, nr, times)| Op::Read { first, nr, times }),
        8 => (0..PAGES).prop_map(|page| Op::Table { page }),
        2 => (0..PAGES).prop_map(|page| Op::Dirty { page }),
        4 => (0..PAGES).prop_map(|page| Op::Clean { page }),
        2 => (0..PAGES).prop_map(|page| Op::Busy { page }),
        1 => Just(Op::Idle),
        1 => (1..100u64).prop_map(|target| Op::Background { target }),
    ]
}

struct Pair {
    world: World,
    real: Real,
    twin: Twin,
    resident: BTreeMap<u64, FrameId>,
    shadows: BTreeMap<u64, ShadowEntry>,
    free: Vec<FrameId>,
}

impl Pair {
    fn new() -> Pair {
        Pair {
            world: World::default(),
            real: Real::new(),
            twin: Twin { max: 3, ..Twin::default() },
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
            Op::Clean { page } => self.clean(page),
            Op::Busy { page } => {
                self.world.busy.insert(page);
            }
            Op::Idle => self.world.busy.clear(),
            Op::Background { target } => {
                self.real.lruvec.drain(&mut self.real.log);
                let pass = ReclaimPass::background(&self.real.lruvec, target);
                self.reclaim(pass);
            }
        }
    }

    fn clean(&mut self, page: u64) {
        let Some(&frame) = self.resident.get(&page) else { return };
        self.world.dirty.remove(&page);
        let before = self.real.folios[frame].clear(Flags::DIRTY.with(Flags::RECLAIM));
        let twin = self.twin.pages.get_mut(&page).unwrap();
        assert_eq!(core::mem::take(&mut twin.reclaim), before.any(Flags::RECLAIM), "page {page}");
        if before.any(Flags::RECLAIM) {
            if self.real.log.rotate(frame) == Room::Full {
                self.real.lruvec.drain(&mut self.real.log);
            }
            self.twin.push_log(&self.world, TwinLog::Rotate(page));
        }
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
        let folio = &self.real.folios[self.resident[&page]];
        assert_eq!(self.real.lruvec.access_rule().mark(folio), Marked::Done);
        self.twin.pages.get_mut(&page).unwrap().mark();
    }

    fn fill(&mut self, page: u64, frame: FrameId, table: bool) {
        let Real { folios, lruvec, log } = &mut self.real;
        let kind = if table { AccessKind::Table } else { AccessKind::Descriptor };
        let id = PageId { mapping: MappingId(0), index: PageIndex(page) };
        folios[frame].bind(id, PageType::File, lruvec.access_rule().flags_on_fill(kind));
        let shadow = self.shadows.remove(&page);
        if let Some(shadow) = shadow {
            lruvec.refault(log, frame, shadow, kind);
        }
        if log.add(folios, frame) == Room::Full {
            lruvec.drain(log);
        }
        self.resident.insert(page, frame);
        self.twin.fill(&self.world, page, shadow, table);
    }

    fn reclaim(&mut self, pass: ReclaimPass) {
        let (kind, target, first) = (pass.scan.kind, pass.scan.target, pass.scan.priority);
        let mut twins_world = World {
            young: self.world.young.clone(),
            dirty: self.world.dirty.clone(),
            busy: self.world.busy.clone(),
        };
        let expected = self.twin.pass(&mut twins_world, kind, target, first);
        let evicted = self.real.pass(&mut self.world, pass);
        assert_eq!(evicted, expected, "pages evicted, in order, and their shadows");
        assert_eq!(self.world.young, twins_world.young);
        for (page, shadow) in evicted {
            self.free.push(self.resident.remove(&page).expect("it was resident"));
            self.shadows.insert(page, shadow);
        }
        let summary = self.real.lruvec.multigen_summary().expect("the policy is mglru");
        let file = PageType::File.index();
        assert_eq!((summary.max_seq, summary.min_seq[file]), (self.twin.max, self.twin.min));
        let tiers = summary.tiers[file].map(|tier| {
            [tier.avg_refaulted, tier.avg_total, tier.refaulted, tier.evicted, tier.protected]
        });
        assert_eq!(tiers, self.twin.counts);
        self.real.lruvec.validate();
    }
}

proptest! {
    #[test]
    fn the_policy_agrees_with_its_naive_twin(ops in prop::collection::vec(op(), 1..250)) {
        let mut pair = Pair::new();
        for op in &ops {
            pair.apply(op);
        }
    }
}
