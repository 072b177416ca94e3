//! One reclaim pass: turns folios into free frames.
//!
//! **Problem.** Core chooses victims, but only the world knows which pages are in use. **Idea.** A
//! pass is a state machine. The caller keeps the lruvec locked from [`Lruvec::isolate`] to
//! [`Lruvec::settle`]. In between, the world tries each victim and records a
//! [`Verdict`](crate::lru::Verdict).
//!
//! ```text
//!   ReclaimPass::new
//!        |         .--------------------------------------------------------------.
//!        v         v                                                              |
//!   lruvec.isolate(pass, batch) -> TryEvict    world: claim each victim --. settle, publish
//!        |                  or --> Look        world: take the young bits -' batch.settled
//!        |
//!        +-> WalkTables                        world: report young pages, then isolate again
//!        +-> Done                              world: read pass.scan
//! ```
//!
//! **Data and invariants.** A claimed page word stays locked until published, for one batch at
//! most. On a node that demotes, the world first looks for a frame below, and the victim settles
//! without a shadow. Every pass ends: priorities only fall, batches per priority are finite, at
//! most one round is forced.
//!
//! **Source.** The kernel's documented reclaim design. Priorities from 12 down to 0.

use crate::lru::{
    Cursor, GenCommand, GenCommandError, GenRequest, Lruvec, PassPlan, ReclaimBatch, ReclaimKind,
    Scan, ShadowEntry, Stage,
};

pub use crate::lru::Step;

/// One pass over one lruvec.
#[derive(Debug)]
pub struct ReclaimPass {
    /// Progress of the pass.
    pub scan: Scan,
    cursor: Cursor,
    stage: Stage,
    looks_around: bool,
}

impl ReclaimPass {
    /// Starts a direct pass for the policy's target (32 or 1 pages).
    pub fn direct(lruvec: &Lruvec) -> ReclaimPass {
        ReclaimPass::direct_for(lruvec, None)
    }

    /// Starts a direct pass for one page, with its shadow if known.
    #[inline]
    pub fn direct_for(lruvec: &Lruvec, incoming: Option<ShadowEntry>) -> ReclaimPass {
        let plan = lruvec.policy.plan_pass(ReclaimKind::Direct, None);
        let scan = Scan { incoming, ..Scan::new(ReclaimKind::Direct, plan.target) };
        ReclaimPass::planned(lruvec, scan, plan)
    }

    /// Starts a background pass for `target` pages.
    pub fn background(lruvec: &Lruvec, target: u64) -> ReclaimPass {
        ReclaimPass::new(lruvec, Scan::new(ReclaimKind::Background, target))
    }

    /// Starts a pass for a command.
    ///
    /// # Errors
    /// [`GenCommandError`] if the lruvec differs or the generations do not exist.
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

    /// Starts one visit of a group pass, at the priority of `scan`.
    pub(crate) fn visit(lruvec: &Lruvec, scan: Scan) -> ReclaimPass {
        let scan = Scan { too_young: false, ..scan };
        ReclaimPass { scan, stage: Stage::of_visit(), ..ReclaimPass::new(lruvec, scan) }
    }

    /// Returns true if the world looks around young victims. It takes the young bits that
    /// [`wants_around`](crate::lru::page_table::wants_around) selects from
    /// [`pages_around`](crate::lru::page_table::pages_around), and adds the pages to the batch
    /// ([`ReclaimBatch::victims_and_around`]).
    pub fn looks_around(&self) -> bool {
        self.looks_around
    }
}

impl Lruvec {
    /// Takes at most one policy batch of victims off the lists.
    ///
    /// After [`Step::Done`], every call returns it again.
    #[inline]
    pub fn isolate(&mut self, pass: &mut ReclaimPass, batch: &mut ReclaimBatch) -> Step {
        let ReclaimPass { scan, cursor, stage, .. } = pass;
        let (policy, mut cx) = self.parts();
        policy.isolate(&mut cx, scan, cursor, stage, batch)
    }

    /// Applies the verdicts on the isolated victims. Adds the freed ones to
    /// [`ReclaimBatch::settled`], which the world publishes and empties.
    #[inline]
    pub fn settle(&mut self, pass: &mut ReclaimPass, batch: &mut ReclaimBatch) {
        if !batch.around.is_empty() {
            self.report_around(&mut batch.around);
        }
        let ReclaimPass { scan, cursor, stage, .. } = pass;
        let (policy, mut cx) = self.parts();
        policy.settle(&mut cx, scan, cursor, stage, batch);
    }
}
