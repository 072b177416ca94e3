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
    Cursor, GenCommand, GenCommandError, GenRequest, Lruvec, PassPlan, ReclaimBatch, ReclaimKind,
    Scan, ShadowEntry, Stage,
};

pub use crate::lru::Step;

/// One pass over one lruvec.
#[derive(Debug)]
pub struct ReclaimPass {
    /// How far it is.
    pub scan: Scan,
    cursor: Cursor,
    stage: Stage,
    looks_around: bool,
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
        pass.stage.is_over = !has_work;
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
            stage: Stage::default(),
            looks_around: plan.looks_around,
        }
    }

    /// The part of a pass over several lruvecs that is spent on this one, at the priority of
    /// `scan`.
    pub(crate) fn visit(lruvec: &Lruvec, scan: Scan) -> ReclaimPass {
        let scan = Scan { too_young: false, ..scan };
        ReclaimPass { scan, stage: Stage::of_visit(), ..ReclaimPass::new(lruvec, scan) }
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
    #[inline]
    pub fn reclaim(&mut self, pass: &mut ReclaimPass, batch: &mut ReclaimBatch) -> Step {
        batch.settled.clear();
        self.reclaim_more(pass, batch)
    }

    /// As [`Lruvec::reclaim`], but what is settled already stays in the batch.
    #[inline]
    pub(crate) fn reclaim_more(
        &mut self,
        pass: &mut ReclaimPass,
        batch: &mut ReclaimBatch,
    ) -> Step {
        if !batch.around.is_empty() {
            self.report_around(&mut batch.around);
        }
        let ReclaimPass { scan, cursor, stage, .. } = pass;
        let (policy, mut cx) = self.parts();
        policy.step(&mut cx, scan, cursor, stage, batch)
    }
}
