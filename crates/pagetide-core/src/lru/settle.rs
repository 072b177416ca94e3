//! Settles a batch: applies each verdict to policy, folio and counters.
//!
//! Problem: a batch has up to 64 victims. Idea: generic code, with one dispatch per batch.
//!
//! ```text
//!   claimed    policy: evicted -----> shadow      folio: free    settled as evicted
//!   demoted    policy: demoted                    folio: free    settled as demoted
//!   refused    policy: put back ----> listed      folio: listed
//!                               '---> again       folio: still isolated, a victim once more
//! ```
//!
//! Invariant: victims are settled in order.

use super::{
    Context, LruPolicy, PutBack, ReclaimBatch, ReclaimKind, Refusal, Scan, Settled, Verdict, Victim,
};
use crate::folio::Flags;
use crate::ids::FrameId;
use crate::vmstat::Counter;

pub(super) fn settle_all<P: LruPolicy>(
    policy: &mut P,
    cx: &mut Context<'_>,
    scan: &mut Scan,
    cursor: &mut P::Cursor,
    batch: &mut ReclaimBatch,
    was_looking: bool,
) {
    let (reclaimed_before, demoted_before) = (scan.reclaimed, scan.demoted);
    let nr_tried = batch.victims.len();
    for at in 0..nr_tried {
        let Victim { frame, page, verdict } = batch.victims.list[at];
        match verdict {
            Verdict::Claimed => {
                let shadow = policy.evicted(cx, scan, cursor, frame);
                free(cx, scan, frame);
                batch.settled.push(Settled::Evicted { page, frame, shadow });
            }
            Verdict::Demoted => {
                debug_assert!(scan.demotes, "{frame} demoted by a pass that does not");
                policy.demoted(cx, frame);
                free(cx, scan, frame);
                scan.demoted += 1;
                batch.settled.push(Settled::Demoted { page, frame });
            }
            Verdict::Refused(refusal) => {
                if !was_looking {
                    cx.vmstat.count(Counter::PgstealRefused);
                    scan.dirty += u64::from(refusal == Refusal::Dirty);
                }
                match policy.put_back(cx, scan, cursor, frame, refusal) {
                    PutBack::Retry => batch.victims.push(frame, page),
                    PutBack::Listed => list(cx, frame),
                }
            }
        }
    }
    if batch.victims.len() > nr_tried {
        batch.victims.list.drain(..nr_tried);
    } else {
        batch.victims.list.clear();
    }
    let [stolen, demoted] = counters(scan.kind);
    cx.vmstat.add(stolen, scan.reclaimed - reclaimed_before);
    cx.vmstat.add(demoted, scan.demoted - demoted_before);
}

#[inline]
fn free(cx: &mut Context<'_>, scan: &mut Scan, frame: FrameId) {
    let flags = cx.folios[frame].clear(Flags::ISOLATED.with(Flags::GEN));
    debug_assert!(flags.any(Flags::ISOLATED));
    scan.reclaimed += 1;
    cx.count_by_type(flags.page_type(), Counter::PgstealAnon, Counter::PgstealFile);
}

fn list(cx: &Context<'_>, frame: FrameId) {
    cx.folios[frame].update(|flags| Some(flags.without(Flags::ISOLATED).with(Flags::ON_LIST)));
}

/// Returns the counters of all freed frames, and of demoted ones.
const fn counters(kind: ReclaimKind) -> [Counter; 2] {
    match kind {
        ReclaimKind::Background => [Counter::PgstealBackground, Counter::PgdemoteBackground],
        ReclaimKind::Direct => [Counter::PgstealDirect, Counter::PgdemoteDirect],
        ReclaimKind::Proactive => [Counter::PgstealProactive, Counter::PgdemoteProactive],
    }
}
