//! The world's side of allocation and reclaim: the short loops around core's slow path and pass.
//!
//! They are the `pagetide` crate's, step by step, without locks and threads: waking background
//! reclaim does nothing but in a machine's memory (see `background.rs`) and in memory of several
//! kinds (see `tiering.rs`). A change there without one here breaks the replay law, and the test of
//! it.
//!
//! ```text
//!   alloc    take --> reclaim directly --> take --> drain --> reclaim --> take what is left
//!   reclaim  drain the log; publish, try, publish, ... until the pass is done
//! ```

use super::node::Node;
use super::{Backing, DIRECT, Mark, Page, Word, World};
use crate::replay::memory::{Frames, Slot};
use crate::trace::DenseTrace;
use pagetide_core::folio::Flags;
use pagetide_core::group::NodePass;
use pagetide_core::ids::{FrameId, GroupId, PageId};
use pagetide_core::lru::lru_gen::{Detail, GenCommandError, parse_commands};
use pagetide_core::lru::page_table::{LeafId, LeafLook, pages_around, wants_around};
use pagetide_core::lru::{Refusal, ShadowEntry};
use pagetide_core::page_alloc::{Attempt, Attempted, SlowPath, WatermarkLevel};
use pagetide_core::reclaim::{DEF_PRIORITY, Settled, Step, Verdict};
use pagetide_core::tiering::{Demotion, Leftover, Migration};
use std::ops::Range;

const UNCLEAN: Flags = Flags::DIRTY.with(Flags::WRITEBACK);

/// A name for a group, of which a record knows only the number.
fn path_of(group: GroupId) -> String {
    if group == GroupId::ROOT { "/".to_owned() } else { format!("/{group}") }
}

impl<Evicted: FnMut(PageId)> World<'_, Evicted> {
    /// A frame for the page of this rank, or `None` when none comes free.
    ///
    /// A group's reclaim knows the page it makes room for, as the papers have it; a zone's does
    /// not, as the page cache's does not.
    pub(super) fn alloc(&mut self, rank: u32) -> Option<FrameId> {
        match self.nodes[0].frames {
            Frames::Group(_) => self.alloc_in_limit(rank),
            Frames::KernelGroup(_) => {
                let frame = self.alloc_in_limit(rank)?;
                let has_slot = self.grow_tree(rank) || {
                    self.reclaim(0, self.shadow_of(rank));
                    self.grow_tree(rank)
                };
                if !has_slot {
                    self.nodes[0].frames.free(frame);
                }
                has_slot.then_some(frame)
            }
            Frames::Zone(_) if self.tiering.is_some() => self.alloc_from_tiers(),
            Frames::Zone(_) => self.alloc_from_zone(0, SlowPath::new()),
        }
    }

    /// A frame for the page, if there is one for which no page has to go.
    pub(super) fn take_free(&mut self, rank: u32) -> Option<FrameId> {
        let take = |node: &mut Node| node.frames.take(Some(WatermarkLevel::Low));
        let frame = self.nodes.iter_mut().find_map(take)?;
        let has_slot = self.grow_tree(rank);
        if !has_slot {
            self.nodes[0].frames.free(frame);
        }
        has_slot.then_some(frame)
    }

    fn alloc_in_limit(&mut self, rank: u32) -> Option<FrameId> {
        self.nodes[0].frames.take(None).or_else(|| {
            self.reclaim(0, self.shadow_of(rank));
            self.nodes[0].frames.take(None)
        })
    }

    /// Charges the nodes that a page of a file needs; says whether they are there.
    fn grow_tree(&mut self, rank: u32) -> bool {
        match &mut self.nodes[0].frames {
            Frames::KernelGroup(group) => {
                self.pages[rank as usize].backing() != Backing::File || group.grow(rank)
            }
            Frames::Group(_) | Frames::Zone(_) => true,
        }
    }

    /// A frame of the node, by what `path` says is left to try.
    pub(super) fn alloc_from_zone(&mut self, nth: usize, mut path: SlowPath) -> Option<FrameId> {
        let mut outcome = Attempted::Failed;
        let mut _starving = None;
        loop {
            outcome = match path.next(outcome) {
                Attempt::Take(level) => match self.nodes[nth].frames.take(level) {
                    Some(frame) => return Some(frame),
                    None => Attempted::Failed,
                },
                Attempt::WakeBackground => {
                    self.wake_background();
                    Attempted::Progress
                }
                Attempt::DirectReclaim => self.reclaim(nth, None),
                Attempt::DrainCpus => {
                    _starving = self.nodes[nth].frames.drain();
                    self.nodes[nth].drain();
                    Attempted::Progress
                }
                Attempt::GiveUp => return None,
            };
        }
    }

    /// One direct pass.
    pub(super) fn reclaim(&mut self, nth: usize, incoming: Option<ShadowEntry>) -> Attempted {
        self.settle_lists(nth);
        let pass = NodePass::direct_for(&mut self.nodes[nth].lists, incoming);
        let nr_reclaimed = self.run_pass(nth, DIRECT, pass);
        if nr_reclaimed > 0 { Attempted::Progress } else { Attempted::Failed }
    }

    /// Carries out commands in the shape of `lru_gen`, up to the first that cannot be; returns how
    /// many pages were evicted.
    ///
    /// # Errors
    /// [`GenCommandError`], for that one.
    pub fn command_lru_gen(&mut self, text: &str) -> Result<u64, GenCommandError> {
        let mut nr_evicted = 0;
        for command in parse_commands(text) {
            self.settle_lists(0);
            let pass = NodePass::on_command(&mut self.nodes[0].lists, &command?)?;
            nr_evicted += self.run_pass(0, DIRECT, pass);
        }
        Ok(nr_evicted)
    }

    /// Describes the generations in the shape of `lru_gen`; groups have only numbers here.
    pub fn describe_lru_gen(&mut self, detail: Detail) -> String {
        let mut text = String::new();
        for nth in 0..self.nodes.len() {
            self.settle_lists(nth);
            let written = self.nodes[nth].lists.write_lru_gen(&mut text, &path_of, detail);
            written.expect("a string has room");
        }
        text
    }

    /// Lists that know of all that was done, and the time.
    pub(super) fn settle_lists(&mut self, nth: usize) {
        let now = self.now();
        self.nodes[nth].settle(now);
    }

    /// Runs a pass to its end, and says how many frames it freed.
    pub(super) fn run_pass(&mut self, nth: usize, batch: usize, mut pass: NodePass) -> u64 {
        if self.tiering.as_ref().is_some_and(|tiering| tiering.demotes(nth)) {
            pass = pass.demoting();
        }
        loop {
            let step = self.nodes[nth].lists.reclaim(&mut pass, &mut self.batches[batch]);
            if !self.batches[batch].settled.is_empty() {
                self.publish(batch);
            }
            match step {
                Step::TryEvict => self.try_victims(nth, batch, &pass),
                Step::Look => self.look_at_victims(batch),
                Step::WalkTables => self.walk_tables(nth, &pass),
                Step::Done => break,
            }
        }
        self.trim_shadows(pass.scan().priority);
        if self.has_flusher && pass.scan().wants_flusher() {
            self.wake_flusher();
        }
        pass.scan().reclaimed
    }

    /// Forgets what a group's limit on shadows says, after a pass down to this priority. The kernel
    /// asks after each priority, we at the end.
    fn trim_shadows(&mut self, last_priority: u8) {
        let Node { frames: Frames::KernelGroup(group), lists, .. } = &mut self.nodes[0] else {
            return;
        };
        let nr_pages = lists.root().nr_pages_for_shadows();
        for priority in (last_priority..=DEF_PRIORITY).rev() {
            for _ in 0..group.nr_leaves_to_drop(nr_pages, priority) {
                for &rank in group.drop_oldest_leaf() {
                    self.pages[rank as usize].set_word(Word::Absent);
                }
            }
        }
    }

    /// Publishes what was settled in one of the batches.
    pub(super) fn publish(&mut self, batch: usize) {
        if self.is_plain {
            return self.publish_evicted(batch);
        }
        for at in 0..self.batches[batch].settled.len() {
            match self.batches[batch].settled[at] {
                Settled::Evicted { page, frame, shadow } => {
                    let rank = self.rank_in[frame.0 as usize];
                    let left = if shadow.is_some() { Slot::Shadow } else { Slot::Empty };
                    if self.pages[rank as usize].backing() == Backing::File {
                        self.nodes[0].frames.change_slot(rank, Slot::Page, left);
                    }
                    let word = shadow.map_or(Word::Absent, Word::Shadow);
                    self.pages[rank as usize].set_word(word);
                    self.node_of(frame).frames.free(frame);
                    (self.evicted)(page);
                }
                Settled::Demoted { frame, .. } => {
                    let rank = self.rank_in[frame.0 as usize];
                    let moved = self.frame_of(rank).expect("a demoted page is resident");
                    self.list_moved(rank, moved, Migration::Demotion);
                    self.node_of(frame).frames.free(frame);
                }
                Settled::Orphan { frame } => self.node_of(frame).frames.free(frame),
            }
        }
    }

    pub(super) fn try_victims(&mut self, nth: usize, batch: usize, pass: &NodePass) {
        // What moves stays dirty.
        let unmovable = pass.scan().unclean();
        if self.is_plain && self.claim_plain(batch, unmovable) {
            return;
        }
        let (victims, around) = self.batches[batch].victims_and_around();
        for victim in victims {
            let rank = self.rank_in[victim.frame.0 as usize];
            let page = &mut self.pages[rank as usize];
            let flags = self.folios[victim.frame].flags();
            if let Some(tiering) = self.tiering.as_mut().filter(|_| pass.scan().demotes)
                && tiering.spares(&self.folios[victim.frame], page.has(Mark::Armed))
            {
                victim.verdict = Verdict::Refused(Refusal::Young);
                continue;
            }
            victim.verdict = if flags.any(unmovable) {
                Verdict::Refused(Refusal::Dirty)
            } else if page.has(Mark::Filling)
                || self.nr_pins.get(rank as usize).is_some_and(|nr_pins| *nr_pins > 0)
                || page.word() != Word::Resident(victim.frame)
            {
                Verdict::Refused(Refusal::Busy)
            } else if page.take(Mark::Young) {
                Verdict::Refused(Refusal::Young)
            } else if page.backing() == Backing::Nothing && self.swap_left == 0 {
                Verdict::Refused(Refusal::Busy)
            } else if let Some(tiering) = self.tiering.as_ref().filter(|_| pass.scan().demotes) {
                match tiering.alloc_demoted(&mut self.nodes, nth) {
                    Some(target) => {
                        self.folios[target].bind_moved(&self.folios[victim.frame], Flags::NONE);
                        page.move_to(target);
                        self.rank_in[target.0 as usize] = rank;
                        Verdict::Demoted
                    }
                    None if flags.any(UNCLEAN) => Verdict::Refused(Refusal::Dirty),
                    None if Demotion::leftover(pass.scan().kind) == Leftover::Keep => {
                        Verdict::Refused(Refusal::Busy)
                    }
                    None => Verdict::Claimed,
                }
            } else {
                if page.backing() == Backing::Nothing {
                    page.set_backing(Backing::Swap);
                    self.swap_left -= 1;
                }
                Verdict::Claimed
            };
            if pass.looks_around() && victim.verdict == Verdict::Refused(Refusal::Young) {
                let page = victim.page;
                let mut look = around.look_at(LeafId::of(page));
                look.young_victim(page.index);
                let takes = |frame: FrameId| wants_around(self.folios[frame].flags());
                let Some((leaf, ranks)) = self.tables.leaf_with(self.trace, rank) else { continue };
                let node = &self.nodes[nth];
                let words = Words { ranks, trace: self.trace, pages: &mut self.pages, node };
                let leaves_young = words.read(pages_around(page.index), takes, look);
                leaf.is_touched |= leaves_young;
            }
        }
    }

    /// Reads and clears the victims' young bits; they stay.
    pub(super) fn look_at_victims(&mut self, batch: usize) {
        for victim in self.batches[batch].victims_mut() {
            let rank = self.rank_in[victim.frame.0 as usize];
            if self.pages[rank as usize].take(Mark::Young) {
                victim.verdict = Verdict::Refused(Refusal::Young);
            }
        }
    }

    /// Reads the touched tables core wants, in the order of pages, as a walk of real tables does.
    pub(super) fn walk_tables(&mut self, nth: usize, pass: &NodePass) {
        let Some(mut walk) = self.nodes[nth].lists.start_walk(pass) else { return };
        for leaf in self.tables.leaves.iter_mut().filter(|leaf| leaf.is_touched) {
            if walk.wants(leaf.id) {
                leaf.is_touched = false;
                let look = walk.found().look_at(leaf.id);
                let ranks = &self.tables.ranks[leaf.span.clone()];
                let node = &self.nodes[nth];
                let words = Words { ranks, trace: self.trace, pages: &mut self.pages, node };
                leaf.is_touched = words.read(leaf.id.pages(), |_| true, look);
            }
            if walk.is_full() {
                self.nodes[nth].lists.report_walk(pass, &mut walk);
            }
        }
        self.nodes[nth].lists.report_walk(pass, &mut walk);
    }
}

/// The words of a leaf.
struct Words<'a> {
    /// Of its pages, in their order.
    ranks: &'a [u32],
    trace: &'a DenseTrace,
    pages: &'a mut [Page],
    node: &'a Node,
}

impl Words<'_> {
    /// Tells `look` what the words of `range` say of the node's frames; takes the young bits of
    /// those that `takes` names. Young pages of other nodes keep theirs: says whether there are.
    fn read(
        self,
        range: Range<u64>,
        takes: impl Fn(FrameId) -> bool,
        mut look: LeafLook<'_>,
    ) -> bool {
        let mut leaves_young = false;
        for &rank in self.ranks {
            let index = self.trace.page(rank).index;
            let page = &mut self.pages[rank as usize];
            let Word::Resident(frame) = page.word() else { continue };
            if !range.contains(&index.0) {
                continue;
            }
            if !self.node.has(frame) {
                leaves_young |= page.has(Mark::Young);
                continue;
            }
            if page.has(Mark::Young) && takes(frame) {
                page.take(Mark::Young);
                look.young(index, frame);
            } else {
                look.resident(index);
            }
        }
        look.done();
        leaves_young
    }
}
