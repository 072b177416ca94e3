//! A reclaim pass: how folios become free frames.
//!
//! Problem: choosing victims needs the lruvec's lock; taking their frames needs the world (page
//! words, pins, dirty state) and must not happen under that lock.
//!
//! Idea: a pass is a state machine. Each [`Lruvec::reclaim`] call, under the lock, settles the last
//! batch and isolates the next; between calls, without the lock, the world tries each victim and
//! writes down a [`Verdict`](crate::lru::Verdict).
//!
//! ```text
//!   ReclaimPass::new
//!        |            +---------------------------------------------+
//!        v            v                                             |
//!   lruvec.reclaim(pass, batch) -> TryEvict    world: claim each victim, set its verdict,
//!        |                                     after first publishing batch.settled
//!        +-> Look                              world: read and clear young bits, then again
//!        +-> WalkTables                        world: report young pages, then reclaim again
//!        +-> Done                              world: publish batch.settled, look at pass.scan
//! ```
//!
//! A claimed victim's page word stays locked until the settle returns its shadow; no thread waits
//! longer than one batch. On a node whose pages may be demoted, the world tries to move a claimed
//! victim first; one that moved is settled as demoted, without a shadow. Every pass is bounded:
//! priorities only fall, each policy is exhausted after finitely many batches at one priority, and
//! one forced round is the most there is.
//!
//! Source: the kernel's documented reclaim design; priorities from 12 down to 0.

use crate::lru::{
    Cursor, DEF_PRIORITY, Lruvec, PassPlan, Progress, ReclaimBatch, ReclaimKind, Scan, ShadowEntry,
};
use crate::lru::{GenCommand, GenCommandError, GenRequest};
use crate::vmstat::Counter;

/// What the world does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Step {
    /// Publish `settled`, try the victims, call again.
    TryEvict,
    /// Publish `settled`, read and clear each victim's young bit, claim nothing: the verdict is
    /// [`Refusal::Young`](crate::lru::Refusal::Young) for those that were young and stays as it is
    /// for the others. Call again.
    Look,
    /// Publish `settled`, walk all page tables and report the young pages, call again.
    WalkTables,
    /// Publish `settled`; the pass is over.
    Done,
}

/// One pass over one lruvec.
#[derive(Debug)]
pub struct ReclaimPass {
    /// How far it is.
    pub scan: Scan,
    cursor: Cursor,
    /// The victims are out to be looked at, not to be evicted.
    looking: bool,
    /// The victims that are out are all that the policy would take.
    has_all: bool,
    looks_around: bool,
    /// The pass ends with its first priority: it is one visit of a pass over several lruvecs.
    is_visit: bool,
    done: bool,
}

impl ReclaimPass {
    /// A direct pass, for a thread that needs a frame. Frees what the policy says (32, or 1).
    pub fn direct(lruvec: &Lruvec) -> ReclaimPass {
        ReclaimPass::direct_for(lruvec, None)
    }

    /// A direct pass that makes room for one page, known by its shadow if it has one.
    #[inline]
    pub fn direct_for(lruvec: &Lruvec, incoming: Option<ShadowEntry>) -> ReclaimPass {
        let plan = lruvec.policy.plan_pass(ReclaimKind::Direct, None);
        let scan = Scan { incoming, ..Scan::new(ReclaimKind::Direct, plan.target) };
        ReclaimPass::planned(lruvec, scan, plan)
    }

    /// A background pass that wants `target` pages.
    pub fn background(lruvec: &Lruvec, target: u64) -> ReclaimPass {
        ReclaimPass::new(lruvec, Scan::new(ReclaimKind::Background, target))
    }

    /// A pass that carries out a command.
    ///
    /// # Errors
    /// [`GenCommandError`], if the lruvec is another or has no such generations.
    pub fn on_command(
        lruvec: &Lruvec,
        command: &GenCommand,
    ) -> Result<ReclaimPass, GenCommandError> {
        let has_work = lruvec.check_command(command)?;
        let target = match command.request {
            GenRequest::Age { .. } => 0,
            GenRequest::Evict { nr_max, .. } => nr_max,
        };
        let scan = Scan::new(ReclaimKind::Proactive, target);
        let mut pass = ReclaimPass::new(lruvec, Scan { command: Some(*command), ..scan });
        pass.done = !has_work;
        Ok(pass)
    }

    /// A pass that begins like this, at its first priority.
    fn new(lruvec: &Lruvec, scan: Scan) -> ReclaimPass {
        let plan = lruvec.policy.plan_pass(scan.kind, Some(scan.target));
        ReclaimPass::planned(lruvec, scan, plan)
    }

    #[inline]
    fn planned(lruvec: &Lruvec, scan: Scan, plan: PassPlan) -> ReclaimPass {
        ReclaimPass {
            scan: Scan { priority: plan.priority, ..scan },
            cursor: lruvec.cursor(),
            looking: false,
            has_all: false,
            looks_around: plan.looks_around,
            is_visit: false,
            done: false,
        }
    }

    /// The part of a pass over several lruvecs that is spent on this one, at the priority of
    /// `scan`.
    pub(crate) fn visit(lruvec: &Lruvec, scan: Scan) -> ReclaimPass {
        let scan = Scan { too_young: false, ..scan };
        ReclaimPass { scan, is_visit: true, ..ReclaimPass::new(lruvec, scan) }
    }

    /// Whether the world, when the trial of a victim finds it young, looks beside it. It takes the
    /// young bits that [`wants_around`](crate::lru::page_table::wants_around) names among
    /// [`pages_around`](crate::lru::page_table::pages_around), and tells the batch
    /// ([`ReclaimBatch::victims_and_around`]).
    pub fn looks_around(&self) -> bool {
        self.looks_around
    }
}

impl Lruvec {
    /// One step of a pass: settles the batch's verdicts, then isolates the next victims.
    ///
    /// Never takes more than one policy batch of work. After [`Step::Done`] it keeps saying so.
    pub fn reclaim(&mut self, pass: &mut ReclaimPass, batch: &mut ReclaimBatch) -> Step {
        batch.settled.clear();
        self.reclaim_more(pass, batch)
    }

    /// As [`Lruvec::reclaim`], but what is settled already stays in the batch.
    pub(crate) fn reclaim_more(
        &mut self,
        pass: &mut ReclaimPass,
        batch: &mut ReclaimBatch,
    ) -> Step {
        self.report_around(&mut batch.around);
        self.settle(pass, batch);
        if !batch.victims.is_empty() {
            return Step::TryEvict;
        }
        while !pass.done {
            if pass.scan.group.has_given_enough(&pass.scan) {
                pass.done = true;
                break;
            }
            if pass.has_all && pass.scan.is_satisfied() {
                self.next_priority(pass);
                continue;
            }
            let (policy, mut cx) = self.parts();
            let scanned_before = pass.scan.scanned;
            let progress =
                policy.isolate(&mut cx, &mut pass.scan, &mut pass.cursor, &mut batch.victims);
            let scanned = match pass.scan.kind {
                ReclaimKind::Background => Counter::PgscanBackground,
                ReclaimKind::Direct => Counter::PgscanDirect,
                ReclaimKind::Proactive => Counter::PgscanProactive,
            };
            cx.vmstat.add(scanned, pass.scan.scanned - scanned_before);
            pass.looking = progress == Progress::Look;
            pass.has_all = progress == Progress::IsolatedAll;
            match progress {
                Progress::Isolated | Progress::IsolatedAll => return Step::TryEvict,
                Progress::Look => return Step::Look,
                Progress::WalkTables => return Step::WalkTables,
                Progress::Exhausted => self.next_priority(pass),
            }
        }
        Step::Done
    }

    fn next_priority(&mut self, pass: &mut ReclaimPass) {
        self.vmstat.add(Counter::LruGenTooYoung, pass.scan.too_young.into());
        if pass.is_visit || pass.scan.too_young || pass.scan.command.is_some() {
            pass.done = true;
            return;
        }
        if !pass.scan.is_satisfied() && pass.scan.priority > 0 {
            pass.scan.priority -= 1;
            pass.cursor = self.policy.cursor();
            return;
        }
        let (policy, mut cx) = self.parts();
        let again = policy.end_pass(&mut cx, &pass.scan, &mut pass.cursor);
        if again && !pass.scan.forced {
            pass.scan.forced = true;
            pass.scan.priority = DEF_PRIORITY;
            pass.cursor = self.policy.cursor();
        } else {
            pass.done = true;
        }
    }

    fn settle(&mut self, pass: &mut ReclaimPass, batch: &mut ReclaimBatch) {
        if batch.victims.is_empty() {
            return;
        }
        let (policy, mut cx) = self.parts();
        policy.settle(&mut cx, &mut pass.scan, &mut pass.cursor, batch, pass.looking);
    }
}
