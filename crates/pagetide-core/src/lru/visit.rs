//! Work over a lruvec that is compiled for each policy.
//!
//! Problem: a dispatch to the policy at each event costs as much as the event. Idea: a visitor gets
//! the type of the policy, and runs through many events after one dispatch.
//!
//! Invariant: decisions and counters are those of the same calls on the [`Lruvec`](super::Lruvec).

use super::drain::{apply_entries, drain_and_refault};
use super::settle::settle_all;
use super::step::{Stage, Step, isolate};
use super::{
    AccessLog, AccessPath, Context, LruPolicy, ReclaimBatch, ReclaimKind, Scan, Settled,
    ShadowEntry, Verdict,
};
use crate::ids::{FrameId, PageId};
use crate::units::Millis;

/// Work for any policy.
pub trait PolicyVisitor {
    /// The result.
    type Output;

    /// Works over the lists of one policy.
    fn visit<P: LruPolicy>(self, lists: PolicyLists<'_, P>) -> Self::Output;
}

/// A lruvec of a known policy.
pub struct PolicyLists<'a, P> {
    pub(super) policy: &'a mut P,
    pub(super) cx: Context<'a>,
    pub(super) now: &'a mut Millis,
}

impl<P: LruPolicy> PolicyLists<'_, P> {
    /// Sets the time, as [`Lruvec::tell_time`](super::Lruvec::tell_time).
    #[inline]
    pub fn tell_time(&mut self, now: Millis) {
        self.cx.now = self.cx.now.max(now);
        *self.now = self.cx.now;
    }

    /// Drains an access log into the policy.
    #[inline]
    pub fn drain(&mut self, log: &mut AccessLog) {
        apply_entries(self.policy, &mut self.cx, log.drain());
    }

    /// Refaults an evicted page, as [`Lruvec::refault`](super::Lruvec::refault).
    #[inline]
    pub fn refault(
        &mut self,
        log: &mut AccessLog,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
    ) {
        drain_and_refault(self.policy, &mut self.cx, log, frame, shadow, kind);
    }

    /// Runs a direct pass for a page with the shadow `incoming`, in a memory that refuses no victim
    /// and has no page tables. `evicted` gets each evicted page in order.
    ///
    /// `batch` is empty before and after.
    #[inline]
    pub fn evict(
        &mut self,
        incoming: Option<ShadowEntry>,
        batch: &mut ReclaimBatch,
        mut evicted: impl FnMut(PageId, FrameId, Option<ShadowEntry>),
    ) {
        let (policy, cx) = (&mut *self.policy, &mut self.cx);
        let plan = policy.plan_pass(ReclaimKind::Direct, None);
        let scan = Scan::new(ReclaimKind::Direct, plan.target);
        let mut scan = Scan { incoming, priority: plan.priority, ..scan };
        let (mut cursor, mut stage) = (P::Cursor::default(), Stage::default());
        loop {
            match isolate(policy, cx, &mut scan, &mut cursor, &mut stage, batch) {
                Step::TryEvict => {
                    let victims = &mut batch.victims.list;
                    victims.iter_mut().for_each(|victim| victim.verdict = Verdict::Claimed);
                    settle_all(policy, cx, &mut scan, &mut cursor, batch, false);
                    for settled in batch.settled.drain(..) {
                        if let Settled::Evicted { page, frame, shadow } = settled {
                            evicted(page, frame, shadow);
                        }
                    }
                }
                Step::Look => settle_all(policy, cx, &mut scan, &mut cursor, batch, true),
                Step::WalkTables => {
                    let walk = policy.start_walk();
                    policy.record_walk(walk.found_so_far(), Some(walk.seq));
                }
                Step::Done => return,
            }
        }
    }
}
