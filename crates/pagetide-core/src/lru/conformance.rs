//! Conformance tests of all policies.
//!
//! A tiny world (resident pages, random refusals) drives the public interface of the lruvec. After
//! every step it checks that no folio is lost, duplicated or freed twice. Checks safety and
//! progress, not quality.

use super::{
    AccessLog, AccessPath, LruConfig, Lruvec, Marked, Mechanism, PolicyName, Refusal, Room,
    ShadowEntry, Switches,
};
use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, MappingId, PageId, PageIndex, PageType};
use crate::lru::{ReclaimBatch, Settled, VICTIMS_MAX, Verdict};
use crate::reclaim::{ReclaimPass, Step};
use crate::vmstat::Counter;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use proptest::prelude::*;

const NR_FRAMES: u32 = 96;
const STEPS_MAX: usize = 100_000;

#[derive(Clone, Debug)]
enum Op {
    /// Reads a page through a descriptor or a table.
    Access { page: u64, table: bool },
    /// Dirties the page.
    Dirty { page: u64 },
    /// Ends the page's write-back.
    Clean { page: u64 },
    /// Drops the page.
    Discard { page: u64 },
    /// Runs a background pass.
    Background { target: u64 },
    /// Moves the page to another node.
    Move { page: u64 },
    /// Demotes one victim in `one_in` from now on (0: none), dirty or not.
    Demote { one_in: u8 },
    /// Refuses one victim in `one_in` from now on (0: none).
    Refuse { one_in: u8, how: u8 },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => (0..200u64, any::<bool>()).prop_map(|(page, table)| Op::Access { page, table }),
        3 => (0..200u64).prop_map(|page| Op::Dirty { page }),
        3 => (0..200u64).prop_map(|page| Op::Clean { page }),
        2 => (0..200u64).prop_map(|page| Op::Discard { page }),
        1 => (1..64u64).prop_map(|target| Op::Background { target }),
        2 => (0..200u64).prop_map(|page| Op::Move { page }),
        1 => (0..4u8).prop_map(|one_in| Op::Demote { one_in }),
        1 => (0..4u8, 0..3u8).prop_map(|(one_in, how)| Op::Refuse { one_in, how }),
    ]
}

struct World {
    folios: Arc<Folios>,
    lruvec: Lruvec,
    log: AccessLog,
    resident: BTreeMap<u64, FrameId>,
    shadows: BTreeMap<u64, ShadowEntry>,
    young: BTreeMap<u64, bool>,
    /// Pages in another node's memory, with their state.
    elsewhere: BTreeMap<u64, Folios>,
    free: Vec<FrameId>,
    refuse_one_in: u8,
    refusal: Refusal,
    demote_one_in: u8,
    tried: u64,
    types: fn(u64) -> PageType,
}

impl World {
    fn new(name: PolicyName, types: fn(u64) -> PageType, can_swap: bool) -> World {
        World::with_switches(name, types, can_swap, Switches::default())
    }

    fn with_switches(
        name: PolicyName,
        types: fn(u64) -> PageType,
        can_swap: bool,
        switches: Switches,
    ) -> World {
        let folios = Arc::new(Folios::new(NR_FRAMES));
        let config = LruConfig { can_swap, switches, ..LruConfig::file_only(NR_FRAMES) };
        World {
            lruvec: Lruvec::new(name, &config, folios.clone()),
            folios,
            log: AccessLog::new(),
            resident: BTreeMap::new(),
            shadows: BTreeMap::new(),
            young: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            free: (0..NR_FRAMES).map(FrameId).collect(),
            refuse_one_in: 0,
            refusal: Refusal::Busy,
            demote_one_in: 0,
            tried: 0,
            types,
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Access { page, table } => self.access(page, table),
            Op::Dirty { page } => self.flag(page, |folio| {
                folio.set(Flags::DIRTY);
            }),
            Op::Clean { page } => self.clean(page),
            Op::Discard { page } => self.discard(page),
            Op::Background { target } => {
                let pass = ReclaimPass::background(&self.lruvec, target);
                self.reclaim(pass);
            }
            Op::Move { page } => self.move_away(page),
            Op::Demote { one_in } => self.demote_one_in = one_in,
            Op::Refuse { one_in, how } => {
                self.refuse_one_in = one_in;
                self.refusal = [Refusal::Busy, Refusal::Young, Refusal::Dirty][usize::from(how)];
            }
        }
        self.check();
    }

    fn flag(&mut self, page: u64, change: impl FnOnce(&crate::folio::Folio)) {
        if let Some(frame) = self.resident.get(&page) {
            change(&self.folios[*frame]);
        }
    }

    fn clean(&mut self, page: u64) {
        let Some(&frame) = self.resident.get(&page) else { return };
        let before = self.folios[frame].clear(Flags::DIRTY.with(Flags::RECLAIM));
        if before.any(Flags::RECLAIM) && self.log.rotate(frame) == Room::Full {
            self.lruvec.drain(&mut self.log);
        }
    }

    fn discard(&mut self, page: u64) {
        let Some(frame) = self.resident.remove(&page) else { return };
        self.lruvec.discard(frame);
        self.free.push(frame);
    }

    fn copy_away(&mut self, page: u64, frame: FrameId) {
        let copy = Folios::new(1);
        copy[FrameId(0)].bind_moved(&self.folios[frame], Flags::NONE);
        self.elsewhere.insert(page, copy);
    }

    fn move_away(&mut self, page: u64) {
        let Some(frame) = self.resident.remove(&page) else { return };
        self.lruvec.withdraw(frame);
        self.copy_away(page, frame);
        self.free.push(frame);
    }

    fn access(&mut self, page: u64, table: bool) {
        if table {
            self.young.insert(page, true);
        }
        if let Some(&frame) = self.resident.get(&page) {
            let rule = self.lruvec.access_rule();
            if !table
                && rule.mark(&self.folios, frame) == Marked::Log
                && self.log.touch(frame) == Room::Full
            {
                self.lruvec.drain(&mut self.log);
            }
            return;
        }
        if self.free.is_empty() {
            let pass = ReclaimPass::direct(&self.lruvec);
            self.reclaim(pass);
        }
        // After refusals no frame may be free. Then the page bypasses memory.
        if let Some(frame) = self.free.pop() {
            self.fill(page, frame, table);
        }
    }

    fn fill(&mut self, page: u64, frame: FrameId, table: bool) {
        let kind = if table { AccessPath::Table } else { AccessPath::Descriptor };
        let id = PageId { mapping: MappingId(0), index: PageIndex(page) };
        let flags = self.lruvec.access_rule().flags_on_fill(kind);
        self.folios[frame].bind(id, (self.types)(page), flags);
        if let Some(copy) = self.elsewhere.remove(&page) {
            self.folios[frame].bind_moved(&copy[FrameId(0)], flags);
            self.lruvec.moved_in(frame);
        } else if let Some(shadow) = self.shadows.remove(&page) {
            self.lruvec.refault(&mut self.log, frame, shadow, kind);
        }
        if self.log.add(&self.folios, frame) == Room::Full {
            self.lruvec.drain(&mut self.log);
        }
        self.resident.insert(page, frame);
    }

    fn reclaim(&mut self, mut pass: ReclaimPass) {
        pass.scan.demotes |= self.demote_one_in > 0;
        self.lruvec.drain(&mut self.log);
        let mut batch = ReclaimBatch::new();
        for _ in 0..STEPS_MAX {
            let step = self.lruvec.isolate(&mut pass, &mut batch);
            assert!(batch.victims_mut().len() <= VICTIMS_MAX);
            match step {
                Step::TryEvict => self.try_victims(&mut batch),
                Step::Look => self.look(&mut batch),
                Step::WalkTables => self.walk(),
                Step::Done => return,
            }
            self.lruvec.settle(&mut pass, &mut batch);
            self.publish(&mut batch);
        }
        panic!("the pass does not end: {pass:?}");
    }

    fn publish(&mut self, batch: &mut ReclaimBatch) {
        for settled in batch.settled.drain(..) {
            let (page, frame, shadow) = match settled {
                Settled::Evicted { page, frame, shadow } => (page, frame, shadow),
                Settled::Demoted { page, frame } => (page, frame, None),
            };
            assert_eq!(self.resident.remove(&page.index.0), Some(frame), "evicted twice");
            let is_demoted = matches!(settled, Settled::Demoted { .. });
            assert_eq!(self.elsewhere.contains_key(&page.index.0), is_demoted, "{page}");
            if let Some(shadow) = shadow {
                self.shadows.insert(page.index.0, shadow);
            }
            self.free.push(frame);
        }
    }

    fn try_victims(&mut self, batch: &mut ReclaimBatch) {
        for victim in batch.victims_mut() {
            self.tried += 1;
            let index = victim.page.index.0;
            assert_eq!(self.resident.get(&index), Some(&victim.frame), "not this page's frame");
            let flags = self.folios[victim.frame].flags();
            let is_one_in = |nr: u8| nr > 0 && self.tried.is_multiple_of(u64::from(nr));
            let (refuse, demote) = (is_one_in(self.refuse_one_in), is_one_in(self.demote_one_in));
            victim.verdict = if self.young.remove(&index).is_some() {
                Verdict::Refused(Refusal::Young)
            } else if demote {
                self.copy_away(index, victim.frame);
                Verdict::Demoted
            } else if flags.any(Flags::DIRTY.with(Flags::WRITEBACK)) {
                Verdict::Refused(Refusal::Dirty)
            } else if refuse {
                Verdict::Refused(self.refusal)
            } else {
                Verdict::Claimed
            };
        }
    }

    fn look(&mut self, batch: &mut ReclaimBatch) {
        for victim in batch.victims_mut() {
            let index = victim.page.index.0;
            assert_eq!(self.resident.get(&index), Some(&victim.frame), "not this page's frame");
            if self.young.remove(&index).is_some() {
                victim.verdict = Verdict::Refused(Refusal::Young);
            }
        }
    }

    fn walk(&mut self) {
        let young: Vec<FrameId> = core::mem::take(&mut self.young)
            .keys()
            .filter_map(|page| self.resident.get(page).copied())
            .collect();
        self.lruvec.report_young(&young);
    }

    fn check(&mut self) {
        self.lruvec.validate();
        assert_eq!(self.resident.len() + self.free.len(), NR_FRAMES as usize, "frames lost");
        let pending = self
            .resident
            .values()
            .filter(|frame| self.folios[**frame].flags().any(Flags::PENDING))
            .count();
        assert_eq!(self.lruvec.nr_folios() as usize + pending, self.resident.len());
    }

    fn demote_all(&mut self) {
        self.demote_one_in = 1;
        for _ in 0..20 {
            let mut pass = ReclaimPass::background(&self.lruvec, u64::from(NR_FRAMES));
            pass.scan.demotes = true;
            self.reclaim(pass);
        }
    }
}

fn all_files(_page: u64) -> PageType {
    PageType::File
}

fn half_anon(page: u64) -> PageType {
    if page.is_multiple_of(2) { PageType::File } else { PageType::Anon }
}

pub(crate) fn survives_anything(name: PolicyName) {
    let ops = prop::collection::vec(op(), 1..400);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(64));
    runner
        .run(&(ops, any::<bool>()), |(ops, anon)| {
            let types = if anon { half_anon } else { all_files };
            let mut world = World::new(name, types, anon);
            for op in &ops {
                world.apply(op);
            }
            Ok(())
        })
        .unwrap();
}

/// Toggles each mechanism and each pair.
pub(crate) fn survives_anything_with_two_switches(name: PolicyName) {
    let mechanisms: Vec<Mechanism> = Mechanism::of(name).collect();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(4));
    for (at, first) in mechanisms.iter().enumerate() {
        for second in &mechanisms[at..] {
            // Paired with itself: toggled alone.
            let switches = Switches::default().flipped(*first);
            let switches = if first == second { switches } else { switches.flipped(*second) };
            runner
                .run(&(prop::collection::vec(op(), 1..200), any::<bool>()), |(ops, anon)| {
                    let types = if anon { half_anon } else { all_files };
                    let mut world = World::with_switches(name, types, anon, switches);
                    ops.iter().for_each(|op| world.apply(op));
                    Ok(())
                })
                .unwrap_or_else(|error| panic!("{name} with {first}, {second}: {error}"));
        }
    }
}

pub(crate) fn frees_everything_when_asked(name: PolicyName) {
    let mut world = World::new(name, all_files, false);
    for page in 0..u64::from(NR_FRAMES) {
        for _ in 0..page % 7 + 1 {
            world.access(page, page % 5 == 0);
        }
    }
    for _ in 0..20 {
        let pass = ReclaimPass::background(&world.lruvec, u64::from(NR_FRAMES));
        world.reclaim(pass);
    }
    assert_eq!(world.free.len(), NR_FRAMES as usize, "{name} keeps folios for ever");
    world.check();
}

pub(crate) fn frees_one_folio_when_asked(name: PolicyName) {
    let mut world = World::new(name, all_files, false);
    for page in 0..u64::from(NR_FRAMES) {
        for _ in 0..page % 7 + 1 {
            world.access(page, false);
        }
    }
    world.lruvec.drain(&mut world.log);
    for nr_free in 0..NR_FRAMES as usize {
        for is_forced in [false, true, true] {
            if world.free.len() == nr_free {
                let mut pass = ReclaimPass::background(&world.lruvec, 1);
                pass.scan.victims_max = 1;
                pass.scan.forced = is_forced;
                world.reclaim(pass);
            }
        }
        assert_eq!(world.free.len(), nr_free + 1, "{name} evicts one page");
    }
    world.check();
}

pub(crate) fn keeps_dirty_folios(name: PolicyName) {
    let mut world = World::new(name, all_files, false);
    for page in 0..u64::from(NR_FRAMES) {
        world.access(page, false);
        world.apply(&Op::Dirty { page });
    }
    world.access(1000, false);
    assert!(!world.resident.contains_key(&1000), "a frame came free though all were dirty");
    for page in 0..u64::from(NR_FRAMES) {
        world.apply(&Op::Clean { page });
    }
    world.access(1000, false);
    assert!(world.resident.contains_key(&1000), "no frame came free though all were clean");
}

pub(crate) fn demotes_everything_without_a_trace(name: PolicyName) {
    let mut world = World::new(name, half_anon, true);
    for round in 0..3 {
        for page in 0..u64::from(NR_FRAMES) {
            world.access(page, page % 5 == 0);
            world.access(page, false);
            // The kernel's multi-gen LRU leaves dirty file pages to the flusher.
            let is_multigen = matches!(name, PolicyName::Mglru | PolicyName::Mglru61);
            if !is_multigen || half_anon(page) == PageType::Anon {
                world.apply(&Op::Dirty { page });
            }
        }
        world.lruvec.drain(&mut world.log);
        world.demote_all();
        world.check();
        let nr_demoted = (round + 1) * u64::from(NR_FRAMES);
        let vmstat = world.lruvec.vmstat();
        assert_eq!(vmstat.read(Counter::PgdemoteBackground), nr_demoted, "{name}");
        assert_eq!(vmstat.read(Counter::PgstealBackground), nr_demoted, "{name}");
        assert_eq!(world.elsewhere.len(), NR_FRAMES as usize);
        let is_dirty = |page: &u64| world.elsewhere[page][FrameId(0)].flags().any(Flags::DIRTY);
        assert!((1..96).step_by(2).all(|page| is_dirty(&page)), "dirty pages stay dirty");
    }
    assert!(world.shadows.is_empty());
    let nr_refaults = world.lruvec.vmstat().read(Counter::WorkingsetRefaultFile);
    assert_eq!(nr_refaults, 0, "a page that was demoted does not refault");
}

pub(crate) fn finds_the_one_clean_folio(name: PolicyName) {
    for (clean, nr_before) in [(0, 0), (1, 5), (47, 3), (94, 40), (95, 0)] {
        let mut world = World::new(name, all_files, false);
        for page in 1000..1000 + nr_before {
            world.access(page, false);
        }
        for page in 0..u64::from(NR_FRAMES) {
            world.access(page, false);
            world.access(page, false);
        }
        // Not every policy keeps the last page.
        let clean = *world.resident.range(clean..).next().expect("a page is resident").0;
        for page in world.resident.keys().copied().collect::<Vec<_>>() {
            if page != clean {
                world.apply(&Op::Dirty { page });
            }
        }
        // Allocations fail only after two passes.
        world.access(2000, false);
        world.access(2000, false);
        assert!(world.resident.contains_key(&2000), "{name} does not find page {clean}");
    }
}

macro_rules! conformance {
    ($($name:ident)+) => {
        $(#[expect(non_snake_case, reason = "named as the policy's variant")]
        mod $name {
            use crate::lru::PolicyName;
            use crate::lru::conformance as every_policy;

            #[test]
            fn survives_anything() {
                every_policy::survives_anything(PolicyName::$name);
            }

            #[test]
            fn survives_anything_with_two_switches() {
                every_policy::survives_anything_with_two_switches(PolicyName::$name);
            }

            #[test]
            fn frees_everything_when_asked() {
                every_policy::frees_everything_when_asked(PolicyName::$name);
            }

            #[test]
            fn frees_one_folio_when_asked() {
                every_policy::frees_one_folio_when_asked(PolicyName::$name);
            }

            #[test]
            fn keeps_dirty_folios() {
                every_policy::keeps_dirty_folios(PolicyName::$name);
            }

            #[test]
            fn demotes_everything_without_a_trace() {
                every_policy::demotes_everything_without_a_trace(PolicyName::$name);
            }

            #[test]
            fn finds_the_one_clean_folio() {
                every_policy::finds_the_one_clean_folio(PolicyName::$name);
            }
        })+
    };
}
pub(crate) use conformance;
