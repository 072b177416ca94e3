//! The naive model: Linux's rules over plain vectors, maps and sequence numbers.
//!
//! Shares only the shadow's layout with the policy. Rules of several versions stand side by side:
//! `a` is Linux 6.1, `c` is 7.3. With neither, the rules are those of 6.18.

use crate::lru::{LruvecId, ReclaimKind, Refusal, ShadowEntry};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

const ANON: usize = 0;
const FILE: usize = 1;

pub(super) type Evicted = Vec<(u64, ShadowEntry)>;

/// The world's answers to a trial, shared by both.
#[derive(Clone, Default)]
pub(super) struct World {
    pub(super) young: BTreeSet<u64>,
    pub(super) dirty: BTreeSet<u64>,
    pub(super) busy: BTreeSet<u64>,
}

impl World {
    pub(super) fn refusal(&mut self, page: u64) -> Option<Refusal> {
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

#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Linux 6.1.
    pub(super) a: bool,
    /// Linux 7.3, based on 6.18.
    pub(super) c: bool,
    /// Patch 6 of the series.
    pub(super) minimal: bool,
    /// 0 to 201, 0 without swap.
    pub(super) swappiness: u64,
}

impl Rules {
    fn evicts(&self, page_type: usize) -> bool {
        if page_type == ANON { self.swappiness > 0 } else { self.swappiness <= 200 }
    }

    fn types(&self) -> impl Iterator<Item = usize> {
        [ANON, FILE].into_iter().filter(|page_type| self.evicts(*page_type))
    }

    fn gain(&self, page_type: usize) -> u64 {
        if page_type == ANON { self.swappiness } else { 200u64.saturating_sub(self.swappiness) }
    }
}

#[derive(Clone, Copy, Default)]
struct Page {
    page_type: usize,
    referenced: bool,
    refs: u64,
    workingset: bool,
    active: bool,
    reclaim: bool,
    seq: u64,
}

impl Page {
    fn mark(&mut self, a: bool) {
        match (self.referenced, self.workingset, self.refs) {
            (false, _, refs) => (self.referenced, self.refs) = (true, if a { refs } else { 0 }),
            (true, false, _) if a => self.workingset = true,
            (true, _, 0..3) => self.refs += 1,
            (true, _, _) => self.workingset = true,
        }
    }

    fn nr_refs(&self, a: bool) -> u64 {
        if a {
            self.refs + u64::from(self.workingset)
        } else if self.referenced {
            self.refs + 1
        } else {
            0
        }
    }

    fn tier(&self, a: bool) -> usize {
        tier_of(a, self.nr_refs(a), self.workingset)
    }

    fn is_saturated(&self, a: bool) -> bool {
        !a && self.workingset && self.nr_refs(a) == 4
    }

    fn forget(&mut self, a: bool) {
        (self.referenced, self.refs) = (false, 0);
        self.workingset &= !a;
    }

    /// Returns true if the page is promoted.
    fn see_young(&mut self, a: bool) -> bool {
        let again = a || self.referenced || self.workingset;
        (self.referenced, self.refs) = (!again, 0);
        self.workingset = !a && (self.workingset || again);
        again
    }
}

fn tier_of(a: bool, nr_refs: u64, workingset: bool) -> usize {
    match (a, workingset) {
        (true, _) => [0, 1, 2, 2, 3][nr_refs as usize],
        (false, true) => 3,
        (false, false) => [0, 0, 1, 2, 2][nr_refs as usize],
    }
}

pub(super) enum Logged {
    Add(u64),
    Rotate(u64),
}

/// Averages (refaulted, total), then refaulted, evicted, protected.
pub(super) type Counts = [u64; 5];

/// Refaulted, total, gain.
type Side = (u64, u64, u64);

fn side(counts: &[Counts], gain: u64) -> Side {
    let sum = |at: &[usize]| counts.iter().flat_map(|c| at.iter().map(|i| c[*i])).sum();
    (sum(&[0, 2]), sum(&[1, 3, 4]), gain)
}

fn is_ok(setpoint: Side, value: Side) -> bool {
    let lhs = u128::from(value.0) * u128::from(setpoint.1 + 64) * u128::from(setpoint.2);
    let rhs = u128::from(setpoint.0 + 1) * u128::from(value.1) * u128::from(value.2);
    value.0 < 64 || lhs <= rhs
}

struct Pass {
    kind: ReclaimKind,
    target: u64,
    evicted: Evicted,
    scanned: u64,
    dirty: u64,
}

impl Pass {
    fn is_satisfied(&self) -> bool {
        self.evicted.len() as u64 >= self.target
    }
}

pub(super) struct Model {
    rules: Rules,
    pub(super) max: u64,
    pub(super) min: [u64; 2],
    /// By type and sequence number. Front = head = youngest.
    lists: [BTreeMap<u64, VecDeque<u64>>; 2],
    pages: BTreeMap<u64, Page>,
    listed: BTreeSet<u64>,
    log: Vec<Logged>,
    pub(super) counts: [[Counts; 4]; 2],
    pub(super) stat: BTreeMap<&'static str, u64>,
}

impl Model {
    pub(super) fn new(rules: Rules) -> Model {
        Model {
            rules,
            max: 3,
            min: [0, 0],
            lists: Default::default(),
            pages: BTreeMap::new(),
            listed: BTreeSet::new(),
            log: Vec::new(),
            counts: Default::default(),
            stat: BTreeMap::new(),
        }
    }

    fn count(&mut self, name: &'static str) {
        *self.stat.entry(name).or_default() += 1;
    }

    fn count_by_type(&mut self, page_type: usize, names: [&'static str; 2]) {
        self.count(names[page_type]);
    }

    pub(super) fn mark(&mut self, page: u64) {
        self.pages.get_mut(&page).unwrap().mark(self.rules.a);
    }

    /// Returns true if reclaim waited for it.
    pub(super) fn clean(&mut self, page: u64) -> bool {
        core::mem::take(&mut self.pages.get_mut(&page).unwrap().reclaim)
    }

    pub(super) fn discard(&mut self, world: &World, page: u64) {
        self.drain(world);
        self.count("pgdiscard");
        self.unlink(page);
        self.pages.remove(&page);
    }

    fn unlink(&mut self, page: u64) {
        self.listed.remove(&page);
        for list in self.lists.iter_mut().flat_map(BTreeMap::values_mut) {
            list.retain(|other| *other != page);
        }
    }

    fn insert(&mut self, world: &World, page: u64, rotated: bool) {
        let Page { page_type, active, reclaim, .. } = self.pages[&page];
        let (max, min) = (self.max, self.min[page_type]);
        let is_dirty = world.dirty.contains(&page);
        let is_late = is_dirty && (page_type == ANON || reclaim);
        let seq = if self.rules.a {
            match (active, is_late) {
                (true, _) => max,
                (false, true) => min + 1,
                (false, false) => min,
            }
        } else {
            let steps = if rotated && !active { 3 } else { self.steps_in(page, is_late) };
            (max - steps).max(min)
        };
        let state = self.pages.get_mut(&page).unwrap();
        (state.seq, state.active) = (seq, false);
        let list = self.lists[page_type].entry(seq).or_default();
        if rotated {
            list.push_back(page)
        } else {
            list.push_front(page)
        }
        self.listed.insert(page);
    }

    /// Returns the distance from the youngest generation, in 6.18 and 7.3.
    fn steps_in(&self, page: u64, is_late: bool) -> u64 {
        let Page { active, workingset, referenced, .. } = self.pages[&page];
        match (active, is_late) {
            (true, _) => u64::from(!workingset),
            (false, true) => 1,
            (false, false) => 3 - u64::from(workingset || self.rules.c && referenced),
        }
    }

    pub(super) fn drain(&mut self, world: &World) {
        for entry in core::mem::take(&mut self.log) {
            match entry {
                Logged::Add(page) => {
                    let state = self.pages.get_mut(&page).unwrap();
                    if self.rules.c && state.active && !state.workingset {
                        state.mark(false);
                        state.active = state.page_type == ANON;
                    }
                    self.insert(world, page, false);
                }
                Logged::Rotate(page) => {
                    self.count("pgrotated");
                    self.unlink(page);
                    self.insert(world, page, true);
                }
            }
        }
    }

    pub(super) fn push_log(&mut self, world: &World, entry: Logged) {
        self.log.push(entry);
        if self.log.len() == 31 {
            self.drain(world);
        }
    }

    pub(super) fn fill(
        &mut self,
        world: &World,
        page: u64,
        page_type: usize,
        shadow: Option<ShadowEntry>,
        table: bool,
    ) {
        let mut state = Page { page_type, active: table, ..Page::default() };
        if let Some(shadow) = shadow {
            self.refault(&mut state, shadow, table);
        }
        self.pages.insert(page, state);
        self.push_log(world, Logged::Add(page));
    }

    fn refault(&mut self, state: &mut Page, shadow: ShadowEntry, table: bool) {
        const REFAULT: [&str; 2] = ["workingset_refault_anon", "workingset_refault_file"];
        const ACTIVATE: [&str; 2] = ["workingset_activate_anon", "workingset_activate_file"];
        const RESTORE: [&str; 2] = ["workingset_restore_anon", "workingset_restore_file"];
        let Rules { a, c, .. } = self.rules;
        let (seq, page_type) = (shadow.token() >> 2, state.page_type);
        let is_recent = if a { seq == self.min[page_type] } else { self.max - seq < 4 };
        if is_recent || !a {
            self.count_by_type(page_type, REFAULT);
        }
        if !is_recent {
            return;
        }
        let workingset = shadow.workingset();
        let nr_refs = (shadow.token() & 3) + if a { u64::from(workingset) } else { 1 };
        self.counts[page_type][tier_of(a, nr_refs, workingset)][2] += 1;
        if !a && table && (!c || workingset) {
            self.count_by_type(page_type, ACTIVATE);
        }
        if if a { table || nr_refs == 4 } else { workingset } {
            state.workingset = true;
            self.count_by_type(page_type, RESTORE);
        } else if !a {
            state.refs = nr_refs - 1;
        }
    }

    /// Measures the tiers against tier 0 of the other type, or of the same type.
    fn tier_limit(&self, page_type: usize, against_other: bool) -> usize {
        let (base, gains) = match (against_other, self.rules.a) {
            (true, _) => {
                (1 - page_type, (self.rules.gain(1 - page_type), self.rules.gain(page_type)))
            }
            (false, true) => (page_type, (1, 2)),
            (false, false) => (page_type, (2, 3)),
        };
        let setpoint = side(&self.counts[base][..1], gains.0);
        let tiers = &self.counts[page_type];
        (1..4).take_while(|tier| is_ok(setpoint, side(&tiers[*tier..=*tier], gains.1))).count()
    }

    /// Returns the type to evict and its tier limit.
    fn choose(&self) -> (usize, usize) {
        let Rules { a, swappiness, .. } = self.rules;
        let shortcut = match swappiness {
            0 => Some(FILE),
            _ if a && self.min[ANON] < self.min[FILE] => Some(ANON),
            1 => Some(FILE),
            200.. => Some(ANON),
            _ => None,
        };
        if let Some(page_type) = shortcut {
            return (page_type, self.tier_limit(page_type, false));
        }
        let nr_tiers = if a { 1 } else { 4 };
        let of = |t: usize| side(&self.counts[t][..nr_tiers], self.rules.gain(t));
        let page_type = if is_ok(of(ANON), of(FILE)) { FILE } else { ANON };
        (page_type, self.tier_limit(page_type, a))
    }

    fn nr_listed(&self, is_in: impl Fn(&Page) -> bool) -> u64 {
        let pages = self.listed.iter().map(|page| &self.pages[page]);
        pages.filter(|page| self.rules.evicts(page.page_type) && is_in(page)).count() as u64
    }

    /// Returns the oldest generation that counts for aging.
    fn low(&self) -> u64 {
        match (self.rules.a, self.rules.swappiness) {
            (true, 0) => self.min[FILE],
            (true, _) => self.min[ANON],
            (false, _) => self.rules.types().map(|t| self.min[t]).min().unwrap(),
        }
    }

    fn should_age(&self) -> bool {
        let (low, max) = (self.low(), self.max);
        if low + 2 != max {
            return low + 2 > max;
        }
        let total = self.nr_listed(|_| true);
        let young = self.nr_listed(|page| page.seq == max);
        let old = self.nr_listed(|page| page.seq + 2 == max);
        !self.rules.a || young * 2 > total || old * 4 < total
    }

    pub(super) fn pass(
        &mut self,
        world: &mut World,
        kind: ReclaimKind,
        target: u64,
        mut first: u8,
    ) -> Evicted {
        self.drain(world);
        let mut pass = Pass { kind, target, evicted: Vec::new(), scanned: 0, dirty: 0 };
        for _round in 0..2 {
            for priority in (0..=first).rev() {
                if self.rules.c {
                    self.at_priority_c(world, &mut pass, priority);
                } else {
                    self.at_priority(world, &mut pass, priority);
                }
                if pass.is_satisfied() {
                    break;
                }
            }
            let waits = pass.scanned > 0 && pass.scanned <= pass.dirty;
            let again = kind == ReclaimKind::Direct && pass.evicted.is_empty() && !waits;
            if !again || self.nr_listed(|_| true) == 0 {
                break;
            }
            first = 12;
        }
        pass.evicted
    }

    /// Runs the loop over one lruvec.
    fn at_priority(&mut self, world: &mut World, pass: &mut Pass, priority: u8) {
        let Rules { a, minimal, .. } = self.rules;
        let is_background = pass.kind == ReclaimKind::Background;
        let first_max = self.max;
        let (mut progress, mut took_anon) = (0, false);
        if a && is_background && self.should_age() {
            self.age(world);
        }
        loop {
            let is_over = if a {
                let is_satisfied = pass.is_satisfied();
                let is_balanced = is_background && priority <= 10 && is_satisfied;
                !minimal && (self.max - first_max > 1 || is_satisfied && took_anon || is_balanced)
            } else {
                is_background && pass.is_satisfied()
            };
            let can_evict = self.low() + 2 <= self.max;
            let nr = if can_evict { self.nr_listed(|_| true) >> priority } else { 0 };
            let must_age = priority < 12 && self.should_age();
            if is_over || must_age && a && is_background {
                return;
            }
            if must_age {
                self.age(world);
            }
            if nr == 0 || must_age && !a {
                return;
            }
            let delta = self.evict(world, pass, nr, &mut took_anon);
            progress += delta;
            if delta == 0 || progress >= nr {
                return;
            }
        }
    }

    /// Runs the loop of 7.3, which ages within the pass.
    fn at_priority_c(&mut self, world: &mut World, pass: &mut Pass, priority: u8) {
        let mut nr = self.nr_listed(|_| true) >> priority;
        let (mut has_aged, mut took_anon) = (false, false);
        while nr > 0 {
            let low = self.low();
            if low + 2 > self.max || priority < 12 && low + 2 == self.max {
                self.age(world);
                has_aged = true;
            }
            let delta = self.evict(world, pass, nr.min(64), &mut took_anon);
            let is_global = pass.kind == ReclaimKind::Background;
            if delta == 0 || pass.is_satisfied() || has_aged && is_global {
                return;
            }
            nr -= delta.min(nr);
        }
    }

    fn age(&mut self, world: &mut World) {
        let Rules { a, minimal, .. } = self.rules;
        if !minimal {
            for page in core::mem::take(&mut world.young) {
                if !self.listed.contains(&page) {
                    continue;
                }
                let state = self.pages.get_mut(&page).unwrap();
                if state.see_young(a) && state.seq != self.max {
                    state.seq = self.max;
                    self.count("lru_gen_walk_promoted");
                }
            }
        }
        for page_type in [ANON, FILE] {
            if self.max - self.min[page_type] == 3 {
                assert!(!self.rules.evicts(page_type), "passes age while less than four are left");
                self.strand(page_type);
            }
        }
        self.max += 1;
        self.count("lru_gen_aged");
    }

    /// Turns the type's oldest list into the youngest.
    fn strand(&mut self, page_type: usize) {
        let oldest = self.min[page_type];
        for page in self.pages.values_mut() {
            if page.page_type == page_type && page.seq == oldest {
                page.seq += 4;
            }
        }
        if let Some(list) = self.lists[page_type].remove(&oldest) {
            self.lists[page_type].insert(oldest + 4, list);
        }
        self.fold(page_type);
        self.min[page_type] += 1;
    }

    fn fold(&mut self, page_type: usize) {
        for counts in &mut self.counts[page_type] {
            let [avg_refaulted, avg_total, refaulted, evicted, protected] = *counts;
            let total = (avg_total + evicted + protected) / 2;
            *counts = [(avg_refaulted + refaulted) / 2, total, 0, 0, 0];
        }
    }

    /// Skips empty generations at the old end. Returns true if any was skipped.
    fn retire(&mut self) -> bool {
        let before = self.min;
        let mut after = before;
        for page_type in self.rules.types() {
            let lists = &self.lists[page_type];
            let is_empty = |seq: u64| lists.get(&seq).is_none_or(VecDeque::is_empty);
            while after[page_type] + 2 <= self.max && is_empty(after[page_type]) {
                after[page_type] += 1;
            }
        }
        let q = self.max - 2;
        if self.rules.a && self.rules.swappiness > 0 {
            after[ANON] = after[ANON].min(after[FILE]);
            after[FILE] = after[ANON].max(before[FILE]);
        } else if !self.rules.a && (1..=200).contains(&self.rules.swappiness) {
            match after {
                [anon, file] if anon > q && file < q => after[ANON] = q.max(before[ANON]),
                [anon, file] if file > q && anon < q => after[FILE] = q.max(before[FILE]),
                _ => {}
            }
        }
        self.min = after;
        for page_type in [ANON, FILE] {
            if after[page_type] != before[page_type] {
                self.fold(page_type);
            }
        }
        after != before
    }

    fn evict(&mut self, world: &mut World, pass: &mut Pass, nr: u64, took_anon: &mut bool) -> u64 {
        let c = self.rules.c;
        if c {
            self.retire();
        }
        let mut victims = Vec::new();
        let (mut page_type, limit) = self.choose();
        let mut delta = self.scan(world, pass, page_type, limit, nr, &mut victims);
        if delta == 0 && self.rules.evicts(1 - page_type) {
            page_type = 1 - page_type;
            let limit = self.tier_limit(page_type, false);
            delta = self.scan(world, pass, page_type, limit, nr, &mut victims);
        } else if c && victims.is_empty() && self.rules.evicts(1 - page_type) {
            let limit = self.tier_limit(page_type, false);
            delta += self.scan(world, pass, page_type, limit, nr, &mut victims);
        }
        *took_anon |= page_type == ANON && !victims.is_empty();
        let has_retired = self.retire();
        if !c {
            let is_stuck = self.low() + 2 > self.max;
            delta = if is_stuck { 0 } else { delta + u64::from(has_retired) };
        }
        self.settle(world, pass, victims);
        delta
    }

    fn scan(
        &mut self,
        world: &World,
        pass: &mut Pass,
        page_type: usize,
        limit: usize,
        nr: u64,
        victims: &mut Vec<u64>,
    ) -> u64 {
        let min = self.min[page_type];
        if self.max - min < 2 {
            return 0;
        }
        let budget = if self.rules.a { 4096 } else { nr.min(4096) };
        let mut scanned = 0;
        while scanned < budget && victims.len() < 64 {
            let oldest = self.lists[page_type].entry(min).or_default();
            let Some(page) = oldest.pop_back() else { break };
            scanned += 1;
            self.count(match pass.kind {
                ReclaimKind::Background => "pgscan_kswapd",
                ReclaimKind::Direct => "pgscan_direct",
                ReclaimKind::Proactive => "pgscan_proactive",
            });
            if self.sort(world, pass, page, limit) {
                continue;
            }
            let Rules { a, c, .. } = self.rules;
            let state = self.pages.get_mut(&page).unwrap();
            state.reclaim &= c;
            if !state.referenced {
                state.refs = 0;
                state.workingset &= !a;
            }
            state.referenced &= !a;
            self.listed.remove(&page);
            victims.push(page);
        }
        pass.scanned += scanned;
        let counts = self.rules.c || !victims.is_empty() || scanned == budget;
        if counts { scanned } else { 0 }
    }

    /// Moves a page that must not be evicted. Returns true if the page moved.
    fn sort(&mut self, world: &World, pass: &mut Pass, page: u64, limit: usize) -> bool {
        const ACTIVATE: [&str; 2] = ["workingset_activate_anon", "workingset_activate_file"];
        let a = self.rules.a;
        let Page { page_type, seq, .. } = self.pages[&page];
        let min = self.min[page_type];
        let (tier, is_saturated) = (self.pages[&page].tier(a), self.pages[&page].is_saturated(a));
        if seq != min {
            self.count("lru_gen_sorted");
            self.lists[page_type].entry(seq).or_default().push_front(page);
            return true;
        }
        let is_protected = tier > limit || is_saturated;
        let awaits_flush = !self.rules.c && page_type == FILE && world.dirty.contains(&page);
        if !(is_protected || awaits_flush) {
            return false;
        }
        let state = self.pages.get_mut(&page).unwrap();
        state.forget(a);
        state.seq = min + 1;
        let next = self.lists[page_type].entry(min + 1).or_default();
        if is_protected && a {
            next.push_back(page);
        } else {
            next.push_front(page);
        }
        if is_saturated {
            self.count("lru_gen_promoted_lazily");
        } else if is_protected {
            self.counts[page_type][tier][4] += 1;
            self.count("lru_gen_protected");
            if a {
                self.count_by_type(page_type, ACTIVATE);
            }
        } else {
            state.reclaim = true;
            pass.dirty += 1;
            self.count("lru_gen_unwritten");
        }
        true
    }

    /// Tries to evict the victims. Retries busy victims once.
    fn settle(&mut self, world: &mut World, pass: &mut Pass, victims: Vec<u64>) {
        let mut trial = victims;
        for round in 0..2 {
            let verdicts: Vec<_> =
                trial.into_iter().map(|page| (page, world.refusal(page))).collect();
            trial = Vec::new();
            for (page, refusal) in verdicts {
                match refusal {
                    None => self.let_go(pass, page),
                    Some(refusal) => {
                        self.count("pgsteal_refused");
                        pass.dirty += u64::from(refusal == Refusal::Dirty);
                        if refusal == Refusal::Busy && round == 0 && !self.rules.minimal {
                            trial.push(page);
                        } else {
                            self.survive(world, page, refusal);
                        }
                    }
                }
            }
        }
    }

    fn let_go(&mut self, pass: &mut Pass, page: u64) {
        let a = self.rules.a;
        let state = self.pages.remove(&page).unwrap();
        let (page_type, nr_refs) = (state.page_type, state.nr_refs(a));
        self.counts[page_type][state.tier(a)][3] += 1;
        self.count_by_type(page_type, ["pgsteal_anon", "pgsteal_file"]);
        self.count(match pass.kind {
            ReclaimKind::Background => "pgsteal_kswapd",
            ReclaimKind::Direct => "pgsteal_direct",
            ReclaimKind::Proactive => "pgsteal_proactive",
        });
        let token = self.min[page_type] << 2 | nr_refs.saturating_sub(1);
        let w = if a { nr_refs > 0 } else { state.workingset };
        pass.evicted.push((page, ShadowEntry::new(token, LruvecId::default(), w)));
    }

    fn survive(&mut self, world: &World, page: u64, refusal: Refusal) {
        let Rules { a, c, .. } = self.rules;
        let is_dirty = world.dirty.contains(&page);
        let state = self.pages.get_mut(&page).unwrap();
        let page_type = state.page_type;
        state.reclaim |= refusal == Refusal::Dirty;
        let waits = state.reclaim && is_dirty;
        if a {
            state.referenced |= state.workingset;
            state.active = !waits;
            return self.insert(world, page, false);
        }
        if refusal == Refusal::Young {
            let was_seen = state.referenced || state.workingset;
            if c && was_seen && state.nr_refs(a) < 2 {
                state.refs += u64::from(state.referenced);
                (state.referenced, state.active) = (true, true);
            } else {
                state.active = state.see_young(a);
            }
        }
        state.active |= c && refusal == Refusal::Dirty && page_type == FILE;
        let steps = self.steps_in(page, waits || is_dirty && page_type == ANON);
        if self.max - steps <= self.min[page_type] {
            let state = self.pages.get_mut(&page).unwrap();
            (state.referenced, state.refs, state.active) = (false, 0, true);
        }
        self.insert(world, page, false);
    }
}
