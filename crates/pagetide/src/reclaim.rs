//! Reclaim, the world's side: the short loop around core's pass.
//!
//! Core hands out victims; each is claimed here by locking its page word, which fails where the
//! page is pinned, locked, young or dirty. Claimed words stay locked until core has settled the
//! batch and named the shadows; then they are published, unlocked, and the frames freed together.

use crate::counters::Event;
use crate::engine::Engine;
use crate::locks::Wake;
use crate::node::Node;
use crate::registry::Slots;
use pagetide_core::folio::Flags;
use pagetide_core::ids::{CpuId, FrameId, PageId, PageIndex};
use pagetide_core::lru::lru_gen::{Detail, GenCommandError, parse_commands};
use pagetide_core::lru::page_table::{LeafId, LeafLook, YoungPages, pages_around, wants_around};
use pagetide_core::lru::{Lruvec, Refusal};
use pagetide_core::page_alloc::Outcome;
use pagetide_core::reclaim::{
    ReclaimBatch, ReclaimPass, Scan, Settled, Step, VICTIMS_MAX, Verdict, Victim,
};
use pagetide_core::record;
use pagetide_core::units::Millis;
use pagetide_sys::{
    Claim, LeafRef, Lock, PageRef, current_cpu, read_monotonic_ns, read_thread_cpu_time_ns,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The pages of one batch whose words are locked for eviction, in the victims' order.
type Claimed<'m> = Vec<Lock<PageRef<'m>>>;

const YOUNG: Verdict = Verdict::Refused(Refusal::Young);

impl Engine {
    /// One direct pass by a thread that needs a frame.
    pub(crate) fn reclaim_directly(&self, cpu: CpuId, node: &Node) -> Outcome {
        self.counters.count(Event::DirectPass);
        let pass = self.start_pass(cpu, node, ReclaimPass::direct);
        let scan = self.run_pass(cpu, node, pass);
        if scan.reclaimed > 0 { Outcome::Progress } else { Outcome::Failed }
    }

    /// Background passes until the high watermark is reached or a pass frees nothing.
    fn reclaim_in_background(&self, node: &Node) {
        node.frames.set_reclaim_active(true);
        loop {
            let target = node.frames.background_target();
            if target == 0 {
                break;
            }
            let cpu = current_cpu();
            self.counters.count(Event::BackgroundPass);
            let start = |lruvec: &Lruvec| ReclaimPass::background(lruvec, target);
            let pass = self.start_pass(cpu, node, start);
            let scan = self.run_pass(cpu, node, pass);
            if scan.reclaimed == 0 {
                break;
            }
        }
        node.frames.set_reclaim_active(false);
    }

    /// Frees at least `target` frames if it can; returns how many.
    pub(crate) fn reclaim_pages(&self, node: &Node, target: u64) -> u64 {
        let cpu = current_cpu();
        let start = |lruvec: &Lruvec| ReclaimPass::background(lruvec, target).ignoring_age();
        let pass = self.start_pass(cpu, node, start);
        self.run_pass(cpu, node, pass).reclaimed
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
            let start = |lruvec: &Lruvec| ReclaimPass::on_command(lruvec, &command);
            let pass = self.start_pass(cpu, node, start)?;
            nr_evicted += self.run_pass(cpu, node, pass).reclaimed;
        }
        Ok(nr_evicted)
    }

    /// Writes the generations, their ages up to date.
    pub(crate) fn describe_lru_gen(&self, detail: Detail) -> String {
        self.nodes.drain_logs();
        let mut text = String::new();
        for node in self.nodes.iter() {
            let write = |lruvec: &Lruvec| lruvec.write_lru_gen(&mut text, "/", detail);
            self.start_pass(current_cpu(), node, write).expect("a string has room");
        }
        text
    }

    /// Begins a pass on lists that know of all this CPU did.
    fn start_pass<T>(&self, cpu: CpuId, node: &Node, start: impl FnOnce(&Lruvec) -> T) -> T {
        let now = Millis(self.started_at.elapsed().as_millis() as u64);
        let mut log = node.lock_log(cpu);
        let mut lruvec = node.lock_lruvec();
        lruvec.tell_time(now);
        lruvec.drain(&mut log);
        start(&lruvec)
    }

    fn run_pass(&self, cpu: CpuId, node: &Node, mut pass: ReclaimPass) -> Scan {
        let started_ns = read_thread_cpu_time_ns();
        node.frames.sample_resident();
        let mappings = self.mappings.read();
        let mut batch = ReclaimBatch::new();
        let mut claimed: Claimed<'_> = Vec::with_capacity(VICTIMS_MAX);
        loop {
            let step = node.lock_lruvec().reclaim(&mut pass, &mut batch);
            self.publish(cpu, &mappings, &batch.settled, &mut claimed);
            match step {
                Step::TryEvict => {
                    let (victims, around) = batch.victims_and_around();
                    victims.iter().for_each(|victim| fetch_word(&mappings, victim));
                    for victim in victims {
                        victim.verdict = self.try_victim(&mappings, victim, &mut claimed);
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
                Step::WalkTables => self.walk_tables(&mappings, node),
                Step::Done => break,
            }
        }
        if pass.scan.wants_flusher() {
            self.flusher.notify();
        }
        let spent_ns = read_thread_cpu_time_ns().saturating_sub(started_ns);
        self.counters.add(Event::ReclaimCpuNs, spent_ns);
        pass.scan
    }

    fn try_victim<'m>(
        &self,
        mappings: &'m Slots,
        victim: &Victim,
        claimed: &mut Claimed<'m>,
    ) -> Verdict {
        const UNCLEAN: Flags = Flags::DIRTY.with(Flags::WRITEBACK);
        if self.folios[victim.frame].flags().any(UNCLEAN) {
            return Verdict::Refused(Refusal::Dirty);
        }
        let page = mappings
            .get(victim.page.mapping)
            .and_then(|mapping| mapping.table.page(victim.page.index));
        let lock = match page.map(PageRef::try_claim) {
            Some(Claim::Locked(lock)) => lock,
            Some(Claim::Young) => return YOUNG,
            Some(Claim::Busy | Claim::Gone) | None => return Verdict::Refused(Refusal::Busy),
        };
        // The word may hold another frame by now, and a writer may have come before the lock.
        if lock.frame() != Some(victim.frame) {
            return Verdict::Refused(Refusal::Busy);
        }
        if self.folios[victim.frame].flags().any(UNCLEAN) {
            return Verdict::Refused(Refusal::Dirty);
        }
        claimed.push(lock);
        Verdict::Claimed
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
                    let mut lock = locks.next().expect("a lock for each evicted victim");
                    debug_assert_eq!(lock.frame(), Some(frame));
                    if self.folios[frame].flags().any(Flags::PREFETCHED) {
                        self.counters.count(Event::ReadaheadWasted);
                        if let Some(mapping) = mappings.get(page.mapping) {
                            mapping.wasted.fetch_add(1, Relaxed);
                        }
                    }
                    if let Some(recorder) = &self.recorder {
                        recorder.record(page, record::AccessKind::Evict);
                    }
                    let taken = lock.evict(shadow.map(|shadow| shadow.bits()));
                    free.push(self.arena.release(taken));
                }
                Settled::Demoted { frame, .. } | Settled::Orphan { frame } => free.push(frame),
            }
        }
        debug_assert!(locks.next().is_none(), "every claimed page was settled");
        drop(locks);
        self.nodes.free(cpu, &free);
    }

    /// Collects the pages accessed through tables since the last walk, of the tables core wants.
    fn walk_tables(&self, mappings: &Slots, node: &Node) {
        let mut walk = node.lock_lruvec().start_walk();
        for mapping in mappings.iter() {
            mapping.table.for_each_touched_leaf(|words| {
                let pages = words.pages();
                let leaf = LeafId::of(PageId { mapping: mapping.id, index: pages.start });
                if walk.wants(leaf) {
                    words.take_touched();
                    read_words(words, pages, node, |_| true, walk.found().look_at(leaf)).done();
                }
                if walk.is_full() {
                    node.lock_lruvec().report_walk(&mut walk);
                }
            });
        }
        node.lock_lruvec().report_walk(&mut walk);
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
    let period = engine.nodes.first().frames.tick_period();
    loop {
        let wake = engine.background.wait(period);
        let now = Millis(read_monotonic_ns() / 1_000_000);
        engine.nodes.iter().for_each(|node| node.frames.tick(now));
        match wake {
            Wake::Stop => return,
            Wake::Work => engine.nodes.iter().for_each(|node| engine.reclaim_in_background(node)),
            Wake::Timeout => {}
        }
    }
}
