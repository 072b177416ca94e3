//! Reclaim, the world's side: the short loop around core's pass.
//!
//! Core hands out victims; each is claimed here by locking its page word, which fails where the
//! page is pinned, locked, young or dirty. Claimed words stay locked until core has settled the
//! batch and named the shadows; then they are published, unlocked, and the frames freed together.

use crate::engine::Engine;
use crate::engine::hint_scan::tick_interval;
use crate::engine::mapping::Mapping;
use crate::engine::registry::Slots;
use crate::memory::locks::{Wake, lock};
use crate::memory::node::Node;
use crate::stats::counters::Event;
use pagetide_core::folio::Flags;
use pagetide_core::group::{NodeLists, NodePass};
use pagetide_core::ids::{CpuId, FrameId, PageId, PageIndex};
use pagetide_core::lru::Refusal;
use pagetide_core::lru::lru_gen::{Detail, GenCommandError, parse_commands};
use pagetide_core::lru::page_table::{LeafId, LeafLook, YoungPages, pages_around, wants_around};
use pagetide_core::page_alloc::{Attempted, WatermarkLevel};
use pagetide_core::reclaim::{ReclaimBatch, Scan, Settled, Step, VICTIMS_MAX, Verdict, Victim};
use pagetide_core::record;
use pagetide_core::tiering::{Demotion, Leftover, Migration};
use pagetide_core::units::Millis;
use pagetide_sys::{
    Claim, ClaimedFrame, LeafRef, Lock, PageHandle, PageRef, current_cpu, read_monotonic_ns,
    read_thread_cpu_time_ns,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The pages of one batch whose words are locked until they are settled, in the victims' order.
type Claimed<'m> = Vec<Locked<'m>>;

/// A page whose word is locked, to be evicted, or because it was just demoted.
struct Locked<'m> {
    lock: Lock<PageRef<'m>>,
    /// Which epoch its mapping was in, before.
    epoch: u64,
    /// The frame it left, if it was demoted.
    left: Option<ClaimedFrame>,
}

/// What is the same for all victims of a pass.
struct Trial<'m> {
    mappings: &'m Slots,
    /// The node's place, where its victims move to slower memory.
    demotes_from: Option<usize>,
    /// Whether those known to be hot stay; not where somebody insists.
    spares: bool,
    /// What becomes of those for which there is no room.
    leftover: Leftover,
    /// Folios with one of these flags are not to be taken.
    unmovable: Flags,
}

impl<'m> Trial<'m> {
    fn of(nth: usize, scan: &Scan, mappings: &'m Slots) -> Trial<'m> {
        Trial {
            mappings,
            demotes_from: scan.demotes.then_some(nth),
            spares: scan.demotes && !scan.ignores_age,
            leftover: Demotion::leftover(scan.kind),
            // What moves stays dirty. What is being written is found again by its frame.
            unmovable: scan.unclean(),
        }
    }
}

const UNCLEAN: Flags = Flags::DIRTY.with(Flags::WRITEBACK);
const YOUNG: Verdict = Verdict::Refused(Refusal::Young);

impl Engine {
    /// One direct pass by a thread that needs a frame.
    pub(crate) fn reclaim_directly(&self, cpu: CpuId, node: &Node) -> Attempted {
        self.counters.count(Event::DirectPass);
        let pass = self.start_pass(cpu, node, NodePass::direct);
        let scan = self.run_pass(cpu, node, pass);
        if scan.reclaimed > 0 { Attempted::Progress } else { Attempted::Failed }
    }

    /// Background passes over the node this many places down, until it has the frames free that it
    /// should, or a pass frees nothing. Slower nodes come first: what leaves this one goes there.
    pub(crate) fn reclaim_in_background(&self, nth: usize) {
        let node = self.nodes.at(nth);
        let demotes = self.demotes(nth);
        let tiering = self.tiering.as_ref();
        let level = tiering.map_or(WatermarkLevel::High, |tiering| tiering.background_level(nth));
        node.frames.set_reclaim_active(true);
        loop {
            let mut room = 0;
            if nth + 1 < self.nodes.len() {
                self.reclaim_in_background(nth + 1);
                if demotes {
                    room = self.nodes.at(nth + 1).frames.room_for_demoted();
                }
            }
            let target = node.frames.background_target(level, room);
            if target == 0 {
                break;
            }
            let cpu = current_cpu();
            self.counters.count(Event::BackgroundPass);
            let start = |lists: &mut NodeLists| NodePass::background(lists, target);
            let pass = self.start_pass(cpu, node, start);
            let scan = self.run_pass(cpu, node, pass);
            if scan.reclaimed == 0 {
                break;
            }
        }
        node.frames.set_reclaim_active(false);
    }

    /// Whether what reclaim takes from the node moves to slower memory.
    fn demotes(&self, nth: usize) -> bool {
        self.tiering.as_ref().is_some_and(|tiering| tiering.demotes(nth))
    }

    /// Frees at least `target` frames if it can; returns how many.
    pub(crate) fn reclaim_pages(&self, node: &Node, target: u64) -> u64 {
        let cpu = current_cpu();
        let start = |lists: &mut NodeLists| NodePass::background(lists, target).ignoring_age();
        let pass = self.start_pass(cpu, node, start);
        self.run_pass(cpu, node, pass).reclaimed
    }

    /// Frees `nr` frames for runs, where memory is short. Returns whether it freed any.
    pub(crate) fn make_room_for_runs(&self, node: &Node, nr: u64) -> bool {
        let target = node.frames.run_target(nr);
        if target == 0 {
            return false;
        }
        // Lists that keep some of them would leave holes.
        node.frames.set_reclaim_active(true);
        self.counters.count(Event::BackgroundPass);
        let cpu = current_cpu();
        let start = |lists: &mut NodeLists| NodePass::background(lists, target);
        let pass = self.start_pass(cpu, node, start);
        let scan = self.run_pass(cpu, node, pass);
        node.frames.set_reclaim_active(false);
        scan.reclaimed > 0
    }

    /// Carries out the commands of a text, in order, up to the first that cannot be; returns how
    /// many pages were evicted.
    pub(crate) fn command_lru_gen(&self, text: &str) -> Result<u64, GenCommandError> {
        // On request, what other CPUs have not told yet counts, too.
        self.nodes.drain_logs();
        let mut nr_evicted = 0;
        for command in parse_commands(text) {
            let (command, cpu) = (command?, current_cpu());
            let node = self.nodes.first();
            let start = |lists: &mut NodeLists| NodePass::on_command(lists, &command);
            let pass = self.start_pass(cpu, node, start)?;
            nr_evicted += self.run_pass(cpu, node, pass).reclaimed;
        }
        Ok(nr_evicted)
    }

    /// Writes the generations, their ages up to date.
    pub(crate) fn describe_lru_gen(&self, detail: Detail) -> String {
        self.nodes.drain_logs();
        let mut text = String::new();
        let paths = self.group_paths();
        for node in self.nodes.iter() {
            let write = |lists: &mut NodeLists| lists.write_lru_gen(&mut text, &paths, detail);
            self.start_pass(current_cpu(), node, write).expect("a string has room");
        }
        text
    }

    /// Begins a pass on lists that know of all this CPU did.
    pub(crate) fn start_pass<T>(
        &self,
        cpu: CpuId,
        node: &Node,
        start: impl FnOnce(&mut NodeLists) -> T,
    ) -> T {
        let now = Millis(self.started_at.elapsed().as_millis() as u64);
        let mut log = node.lock_log(cpu);
        let mut lists = node.lock_lists();
        lists.tell_time(now);
        lists.drain(&mut log);
        start(&mut lists)
    }

    pub(crate) fn run_pass(&self, cpu: CpuId, node: &Node, mut pass: NodePass) -> Scan {
        let nth = self.nodes.index_of(node.range().start);
        if self.demotes(nth) {
            pass = pass.demoting();
        }
        let started_ns = read_thread_cpu_time_ns();
        node.frames.sample_resident();
        let mappings = self.mappings.read();
        let trial = Trial::of(nth, pass.scan(), &mappings);
        let mut batch = ReclaimBatch::new();
        let mut claimed: Claimed<'_> = Vec::with_capacity(VICTIMS_MAX);
        loop {
            let step = node.lock_lists().reclaim(&mut pass, &mut batch);
            self.publish(cpu, &mappings, &batch.settled, &mut claimed);
            match step {
                Step::TryEvict => {
                    let (victims, around) = batch.victims_and_around();
                    victims.iter().for_each(|victim| fetch_word(&mappings, victim));
                    for victim in victims {
                        if self.spares(&trial, victim) {
                            victim.verdict = YOUNG;
                            continue;
                        }
                        victim.verdict = self.try_victim(cpu, &trial, victim, &mut claimed);
                        if pass.looks_around() && victim.verdict == YOUNG {
                            self.look_around(&mappings, node, victim.page, around);
                        }
                    }
                }
                Step::Look => {
                    for victim in batch.victims_mut() {
                        if is_young(&mappings, victim) {
                            victim.verdict = YOUNG;
                        }
                    }
                }
                Step::WalkTables => self.walk_tables(&mappings, node, &pass),
                Step::Done => break,
            }
        }
        if pass.scan().wants_flusher() {
            self.flusher.notify();
        }
        let spent_ns = read_thread_cpu_time_ns().saturating_sub(started_ns);
        self.counters.add(Event::ReclaimCpuNs, spent_ns);
        *pass.scan()
    }

    /// Whether the page is too hot to be demoted, as far as core knows.
    fn spares(&self, trial: &Trial<'_>, victim: &Victim) -> bool {
        let (true, Some(tiering)) = (trial.spares, &self.tiering) else { return false };
        let mapping = trial.mappings.get(victim.page.mapping);
        let Some(page) = mapping.and_then(|mapping| mapping.table.page(victim.page.index)) else {
            return false;
        };
        let (is_armed, folio) = (page.load().is_hint(), &self.folios[victim.frame]);
        lock(&tiering.promotion).spares(tiering.now(), folio, is_armed)
    }

    fn try_victim<'m>(
        &self,
        cpu: CpuId,
        trial: &Trial<'m>,
        victim: &Victim,
        claimed: &mut Claimed<'m>,
    ) -> Verdict {
        if self.folios[victim.frame].flags().any(trial.unmovable) {
            return Verdict::Refused(Refusal::Dirty);
        }
        let Some(mapping) = trial.mappings.get(victim.page.mapping) else {
            return Verdict::Refused(Refusal::Busy);
        };
        // Before the lock: what is dropped from here on is noticed.
        let epoch = mapping.epoch.load(Relaxed);
        let page = mapping.table.page(victim.page.index);
        let mut lock = match page.map(PageRef::try_claim) {
            Some(Claim::Locked(lock)) => lock,
            Some(Claim::Young) => return YOUNG,
            Some(Claim::Busy | Claim::Gone) | None => return Verdict::Refused(Refusal::Busy),
        };
        // The word may hold another frame by now, and a writer may have come before the lock.
        if lock.frame() != Some(victim.frame) {
            return Verdict::Refused(Refusal::Busy);
        }
        if self.folios[victim.frame].flags().any(trial.unmovable) {
            return Verdict::Refused(Refusal::Dirty);
        }
        let left = trial.demotes_from.and_then(|nth| self.demote(cpu, nth, &mut lock));
        if left.is_none() {
            if self.folios[victim.frame].flags().any(UNCLEAN) {
                return Verdict::Refused(Refusal::Dirty);
            }
            if trial.demotes_from.is_some() && trial.leftover == Leftover::Keep {
                return Verdict::Refused(Refusal::Busy);
            }
        }
        let verdict = if left.is_some() { Verdict::Demoted } else { Verdict::Claimed };
        claimed.push(Locked { lock, epoch, left });
        verdict
    }

    /// Moves a page that was claimed to slower memory, if there is a frame for it without reclaim;
    /// returns the claim on the frame it left.
    fn demote<H: PageHandle>(
        &self,
        cpu: CpuId,
        nth: usize,
        page: &mut Lock<H>,
    ) -> Option<ClaimedFrame> {
        let target = self.alloc_demoted(cpu, nth)?;
        Some(self.move_page(page, target, Flags::NONE))
    }

    fn publish(
        &self,
        cpu: CpuId,
        mappings: &Slots,
        settled: &[Settled],
        claimed: &mut Claimed<'_>,
    ) {
        let mut locks = claimed.drain(..);
        let mut free: Vec<FrameId> = Vec::with_capacity(settled.len());
        for one in settled {
            match *one {
                Settled::Evicted { page, frame, shadow } => {
                    let locked = locks.next().expect("a lock for each evicted victim");
                    debug_assert_eq!(locked.lock.frame(), Some(frame));
                    let shadow = shadow.map(|shadow| shadow.bits());
                    free.push(self.evict(mappings, page, locked, shadow));
                }
                Settled::Demoted { frame, .. } => {
                    let locked = locks.next().expect("a lock for each demoted victim");
                    let left = locked.left.expect("a demoted page left a frame");
                    debug_assert_eq!(left.frame(), frame);
                    self.list_moved(cpu, &locked.lock, Migration::Demotion);
                    free.push(self.arena.release(left));
                }
                Settled::Orphan { frame } => free.push(frame),
            }
        }
        debug_assert!(locks.next().is_none(), "every claimed page was settled");
        drop(locks);
        self.nodes.free(cpu, &free);
    }

    /// Takes the frame of a page whose eviction is settled.
    fn evict(
        &self,
        mappings: &Slots,
        page: PageId,
        locked: Locked<'_>,
        shadow: Option<u64>,
    ) -> FrameId {
        let Locked { mut lock, epoch, .. } = locked;
        let mapping = mappings.get(page.mapping);
        let flags = lock.frame().map(|frame| self.folios[frame].flags());
        if let Some(flags) = flags.filter(|flags| flags.any(Flags::PREFETCHED)) {
            self.count_wasted(mapping.map(|one| &**one), flags);
        }
        if let Some(recorder) = &self.recorder {
            recorder.record(page, record::AccessKind::Evict);
        }
        if let (Some(pool), Some(mapping)) = (&self.pool, mapping) {
            pool.store(mapping, page.index, epoch, lock.bytes());
        }
        self.arena.release(lock.evict(shadow))
    }

    /// A page leaves that nobody has read. Of a stream, the stream's window learns of it.
    fn count_wasted(&self, mapping: Option<&Mapping>, flags: Flags) {
        if !flags.any(Flags::STREAMED) {
            return self.counters.count(Event::AroundWasted);
        }
        self.counters.count(Event::ReadaheadWasted);
        if let Some(mapping) = mapping {
            mapping.wasted.fetch_add(1, Relaxed);
        }
    }

    /// Collects the pages accessed through tables since the last walk, of the tables core wants.
    fn walk_tables(&self, mappings: &Slots, node: &Node, pass: &NodePass) {
        let Some(mut walk) = node.lock_lists().start_walk(pass) else { return };
        for mapping in mappings.iter() {
            mapping.table.for_each_touched_leaf(|words| {
                let pages = words.pages();
                let leaf = LeafId::of(PageId { mapping: mapping.id, index: pages.start });
                if walk.wants(leaf) {
                    words.take_touched();
                    read_words(words, pages, node, |_| true, walk.found().look_at(leaf)).done();
                }
                if walk.is_full() {
                    node.lock_lists().report_walk(pass, &mut walk);
                }
            });
        }
        node.lock_lists().report_walk(pass, &mut walk);
    }

    /// Takes the young bits beside a page whose own was just taken.
    fn look_around(&self, mappings: &Slots, node: &Node, page: PageId, around: &mut YoungPages) {
        let mapping = mappings.get(page.mapping);
        let Some(words) = mapping.and_then(|mapping| mapping.table.leaf(page.index)) else {
            return;
        };
        let mut look = around.look_at(LeafId::of(page));
        look.young_victim(page.index);
        let window = pages_around(page.index);
        let window = PageIndex(window.start)..PageIndex(window.end);
        let takes = |frame: FrameId| wants_around(self.folios[frame].flags());
        read_words(words, window, node, takes, look).done();
    }
}

/// Tells `look` what the words of `range` say of the node's frames; takes the young bits of those
/// that `takes` names. Young pages of other nodes keep theirs, and their leaf its mark.
fn read_words<'a>(
    words: LeafRef<'_>,
    range: Range<PageIndex>,
    node: &Node,
    mut takes: impl FnMut(FrameId) -> bool,
    mut look: LeafLook<'a>,
) -> LeafLook<'a> {
    let mut leaves_young = false;
    let takes = |frame| {
        leaves_young |= !node.has(frame);
        node.has(frame) && takes(frame)
    };
    words.for_each_resident(range, takes, |index, frame, was_young| match was_young {
        true => look.young(index, frame),
        false if node.has(frame) => look.resident(index),
        false => {}
    });
    if leaves_young {
        words.mark_touched();
    }
    look
}

/// Starts fetching the victim's page word: the misses of a whole batch then pass side by side.
fn fetch_word(mappings: &Slots, victim: &Victim) {
    let mapping = mappings.get(victim.page.mapping);
    if let Some(page) = mapping.and_then(|mapping| mapping.table.page(victim.page.index)) {
        page.fetch();
    }
}

/// Whether the victim's page was accessed through a table since the last look; clears the bit.
fn is_young(mappings: &Slots, victim: &Victim) -> bool {
    mappings
        .get(victim.page.mapping)
        .and_then(|mapping| mapping.table.page(victim.page.index))
        .is_some_and(|page| {
            page.load().frame() == Some(victim.frame) && page.test_and_clear_young()
        })
}

/// The background reclaim thread: sleeps until an allocation finds the low watermark passed, and
/// wakes as often as the per-CPU lists want to know the time, to let them shrink.
pub(crate) fn run_background(engine: &Arc<Engine>) {
    let mut period = engine.nodes.first().frames.tick_period();
    if let Some(tiering) = &engine.tiering {
        period = period.min(tick_interval(&tiering.options.knobs));
    }
    loop {
        let wake = engine.background.wait(period);
        engine.tick(Millis(read_monotonic_ns() / 1_000_000));
        match wake {
            Wake::Stop => return,
            Wake::Work => engine.reclaim_in_background(0),
            Wake::Timeout => {}
        }
    }
}
