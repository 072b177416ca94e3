//! The fast node's background reclaim, beside the accesses: what makes room for promotions.
//!
//! ```text
//!   accesses     a a a P! a a a a a a a a a a a a        P!: a promotion finds no room
//!   background         |- look -|- demote -|- ... -|     until PROMO frames are free
//! ```
//!
//! Problem: pages are demoted by a thread of their own, while the program goes on touching them.
//! Idea: as in the replay's memory of a machine, each step of a pass takes as long as what it
//! looked at and moved costs, and the next is made when the program's clock has caught up.
//!
//! Data: between two steps the victims are isolated but still where they were; one that is touched
//! meanwhile is young, and stays. Ignored: more than one thread a node; reclaim of the slow node.
//! Source: the tiering specification, sections 7 and 10.

use super::World;
use crate::tiers::access_loop::Node;
use crate::tiers::prices::Item;
use pagetide_core::lru::Refusal;
use pagetide_core::lru::page_table::LeafId;
use pagetide_core::reclaim::{ReclaimBatch, ReclaimPass, Settled, Step, Verdict};
use pagetide_core::tiering::{BalancingMode, background_level};

const FAST: usize = Node::Fast as usize;

/// The fast node's reclaim thread.
#[derive(Debug, Default)]
pub(super) struct Background {
    state: State,
    /// Until when the step under way takes.
    busy_until_ns: u64,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Asleep,
    /// Awake, and between two passes.
    Awake,
    /// In a pass, which said to do this next.
    InPass(Box<ReclaimPass>, Step),
}

impl Background {
    /// When it is to be run next.
    pub(super) fn due_ns(&self) -> u64 {
        match self.state {
            State::Asleep => u64::MAX,
            State::Awake | State::InPass(..) => self.busy_until_ns,
        }
    }
}

impl World {
    /// The fast node is short of frames.
    pub(super) fn wake_background(&mut self) {
        if matches!(self.background.state, State::Asleep) {
            self.background.state = State::Awake;
            self.background.busy_until_ns = self.access_loop.now_ns();
            self.plan();
        }
    }

    /// Makes the steps that fit until `now_ns`.
    pub(super) fn run_background(&mut self, now_ns: u64) {
        while self.background.due_ns() <= now_ns {
            self.background.state = match std::mem::take(&mut self.background.state) {
                State::Asleep => State::Asleep,
                State::Awake => self.start_pass(),
                State::InPass(pass, step) => self.go_on(pass, step),
            };
        }
    }

    fn start_pass(&mut self) -> State {
        let zone = &self.zones[FAST];
        let level = background_level(&self.topology, Node::Fast.id(), BalancingMode::Tiering);
        let wanted = zone.watermarks().mark(level) + 1;
        let target = wanted.saturating_sub(zone.nr_free_unreserved());
        if target == 0 {
            return State::Asleep;
        }
        let now = self.now();
        let (log, lruvec) = (&mut self.logs[FAST], &mut self.lruvecs[FAST]);
        lruvec.tell_time(now);
        lruvec.drain(log);
        let mut pass = Box::new(ReclaimPass::background(lruvec, target).demoting());
        let step = self.next_step(&mut pass);
        State::InPass(pass, step)
    }

    /// The step's time is over: its victims go, and the next step begins.
    fn go_on(&mut self, mut pass: Box<ReclaimPass>, step: Step) -> State {
        match step {
            Step::TryEvict => self.demote_victims(pass.looks_around()),
            Step::Look => self.look_at_victims(),
            Step::WalkTables => self.walk_tables(),
            Step::Done if pass.scan.reclaimed == 0 => return State::Asleep,
            Step::Done => return State::Awake,
        }
        let step = self.next_step(&mut pass);
        State::InPass(pass, step)
    }

    fn next_step(&mut self, pass: &mut ReclaimPass) -> Step {
        let scanned_before = pass.scan.scanned;
        let mut batch = std::mem::take(&mut self.batch);
        let step = self.lruvecs[FAST].reclaim(pass, &mut batch);
        for settled in &batch.settled {
            match *settled {
                Settled::Demoted { frame, .. } => self.free(frame),
                Settled::Evicted { .. } | Settled::Orphan { .. } => {
                    unreachable!("no victim is claimed, and no page dropped")
                }
            }
        }
        self.batch = batch;
        let nr_scanned = pass.scan.scanned - scanned_before;
        self.background.busy_until_ns += nr_scanned * self.access_loop.helper_ns(Item::Scan);
        step
    }

    /// Moves the victims that are not young to the slow node.
    fn demote_victims(&mut self, looks_around: bool) {
        let mut batch = std::mem::take(&mut self.batch);
        let (victims, around) = batch.victims_and_around();
        for victim in victims {
            let page = victim.page.index.0 as u32;
            victim.verdict = if self.access_loop.take_young(page) {
                if looks_around {
                    self.look_around(victim.page.index, around.look_at(LeafId::of(victim.page)));
                }
                Verdict::Refused(Refusal::Young)
            } else if self.demote(page) {
                self.background.busy_until_ns += self.access_loop.helper_ns(Item::Demote);
                Verdict::Demoted
            } else {
                Verdict::Refused(Refusal::Busy)
            };
        }
        self.batch = batch;
    }

    /// Reads and clears the victims' young bits; they stay.
    fn look_at_victims(&mut self) {
        let mut batch: ReclaimBatch = std::mem::take(&mut self.batch);
        for victim in batch.victims_mut() {
            if self.access_loop.take_young(victim.page.index.0 as u32) {
                victim.verdict = Verdict::Refused(Refusal::Young);
            }
        }
        self.batch = batch;
    }
}
