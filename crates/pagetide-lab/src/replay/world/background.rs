//! Background reclaim beside the accesses, in virtual time.
//!
//! Problem: a machine's reclaim thread runs while the program does; a replay has one thread. Idea:
//! the thread has a clock of its own. Each step of its pass (one batch of victims) takes as long as
//! the folios it looked at cost, and the next step is made when the accesses' clock has caught up.
//!
//! ```text
//!   accesses    a a a M a a a M a a a a M a a
//!   background        |-- step --|- step -|-- step --|  asleep
//!                  free < low                    free >= high
//! ```
//!
//! Assumed: a CPU of its own, that never waits for a lock or for the store; a batch is evicted at
//! the end of its step. When the accesses take frames faster than that, the zone falls to its min
//! watermark and the allocating access reclaims directly, as in the kernel.
//!
//! Data: between steps the batch's victims are isolated, but their words are untouched: an access
//! hits them, a discard makes them orphans. Ignored: several nodes, each with a thread.

use super::{BACKGROUND, World};
use pagetide_core::group::NodePass;
use pagetide_core::ids::PageId;
use pagetide_core::page_alloc::WatermarkLevel;
use pagetide_core::reclaim::Step;

/// The reclaim thread of a machine; asleep for ever in any other memory.
#[derive(Debug)]
pub(super) struct Background {
    scan_ns: u64,
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
    InPass(Box<NodePass>, Step),
}

impl Background {
    pub(super) fn new(scan_ns: u64) -> Background {
        Background { scan_ns, state: State::Asleep, busy_until_ns: 0 }
    }

    pub(super) fn is_awake(&self) -> bool {
        !matches!(self.state, State::Asleep)
    }
}

impl<Evicted: FnMut(PageId)> World<'_, Evicted> {
    /// A zone is at its low watermark.
    pub(super) fn wake_background(&mut self) {
        if !self.memory.has_background() || self.background.is_awake() {
            return;
        }
        self.background.state = State::Awake;
        self.background.busy_until_ns = self.now_ns();
        self.nodes[0].frames.set_reclaim_active(true);
        self.look_at = self.look_at.min(self.accesses);
    }

    /// Makes the steps that fit until `now_ns`.
    pub(super) fn run_background(&mut self, now_ns: u64) {
        while self.background.is_awake() && self.background.busy_until_ns <= now_ns {
            self.background.state = match std::mem::take(&mut self.background.state) {
                State::Asleep => State::Asleep,
                State::Awake => self.start_background_pass(),
                State::InPass(pass, step) => self.go_on_in_background(pass, step),
            };
        }
    }

    fn start_background_pass(&mut self) -> State {
        let node = &mut self.nodes[0];
        let target = node.frames.background_target(WatermarkLevel::High, 0);
        if target == 0 {
            node.frames.set_reclaim_active(false);
            return State::Asleep;
        }
        node.drain();
        let mut pass = Box::new(NodePass::background(&mut node.lists, target));
        let step = self.next_background_step(&mut pass);
        State::InPass(pass, step)
    }

    /// The step's time is over: its victims go, and the next step begins.
    fn go_on_in_background(&mut self, mut pass: Box<NodePass>, step: Step) -> State {
        match step {
            Step::TryEvict => self.try_victims(0, BACKGROUND, &pass),
            Step::Look => self.look_at_victims(BACKGROUND),
            Step::WalkTables => self.walk_tables(0, &pass),
            Step::Done if pass.scan().reclaimed == 0 => {
                self.nodes[0].frames.set_reclaim_active(false);
                return State::Asleep;
            }
            Step::Done => return State::Awake,
        }
        let step = self.next_background_step(&mut pass);
        State::InPass(pass, step)
    }

    fn next_background_step(&mut self, pass: &mut NodePass) -> Step {
        let scanned_before = pass.scan().scanned;
        let step = self.nodes[0].lists.reclaim(pass, &mut self.batches[BACKGROUND]);
        self.publish(BACKGROUND);
        let nr_scanned = pass.scan().scanned - scanned_before;
        self.background.busy_until_ns += nr_scanned * self.background.scan_ns;
        if step == Step::Done && pass.scan().wants_flusher() {
            self.wake_flusher();
        }
        step
    }
}
