//! A step of a reclaim pass: isolates the next victims.
//!
//! Problem: most passes free one page. Idea: generic code, with one dispatch per step.
//!
//! ```text
//!   refused, to be tried again? --> TryEvict
//!      | no
//!      v
//!   isolate --> victims --> TryEvict, Look       none --> next priority, or Done
//! ```
//!
//! Sources: the same as in [`reclaim`](crate::reclaim).

use super::{Context, DEF_PRIORITY, LruPolicy, Progress, ReclaimBatch, ReclaimKind, Scan};
use crate::vmstat::Counter;

/// The world's next task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Step {
    /// Try the victims, and settle them.
    TryEvict,
    /// Read and clear each victim's young bit, and claim none. Set the verdict of young victims to
    /// [`Refusal::Young`](super::Refusal::Young), and settle all.
    Look,
    /// Walk all page tables and report the young pages.
    WalkTables,
    /// The pass is over.
    Done,
}

#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Stage {
    pub(super) is_looking: bool,
    has_all: bool,
    /// A visit ends with its first priority.
    is_visit: bool,
    pub(crate) is_over: bool,
}

impl Stage {
    pub(crate) fn of_visit() -> Stage {
        Stage { is_visit: true, ..Stage::default() }
    }
}

/// Isolates the next victims. Repeats [`Step::Done`] at the end.
#[inline(always)]
pub(super) fn isolate<P: LruPolicy>(
    policy: &mut P,
    cx: &mut Context<'_>,
    scan: &mut Scan,
    cursor: &mut P::Cursor,
    stage: &mut Stage,
    batch: &mut ReclaimBatch,
) -> Step {
    if !batch.victims.is_empty() {
        return Step::TryEvict;
    }
    while !stage.is_over {
        if scan.group.has_given_enough(scan) {
            stage.is_over = true;
            break;
        }
        if stage.has_all && scan.is_satisfied() {
            next_priority(policy, cx, scan, cursor, stage);
            continue;
        }
        let scanned_before = scan.scanned;
        let progress = policy.isolate(cx, scan, cursor, &mut batch.victims);
        let scanned = match scan.kind {
            ReclaimKind::Background => Counter::PgscanBackground,
            ReclaimKind::Direct => Counter::PgscanDirect,
            ReclaimKind::Proactive => Counter::PgscanProactive,
        };
        cx.vmstat.add(scanned, scan.scanned - scanned_before);
        stage.is_looking = progress == Progress::Look;
        stage.has_all = progress == Progress::IsolatedAll;
        match progress {
            Progress::Isolated | Progress::IsolatedAll => return Step::TryEvict,
            Progress::Look => return Step::Look,
            Progress::WalkTables => return Step::WalkTables,
            Progress::Exhausted => next_priority(policy, cx, scan, cursor, stage),
        }
    }
    Step::Done
}

#[inline]
fn next_priority<P: LruPolicy>(
    policy: &mut P,
    cx: &mut Context<'_>,
    scan: &mut Scan,
    cursor: &mut P::Cursor,
    stage: &mut Stage,
) {
    cx.vmstat.add(Counter::LruGenTooYoung, scan.too_young.into());
    if stage.is_visit || scan.too_young || scan.command.is_some() {
        stage.is_over = true;
        return;
    }
    if !scan.is_satisfied() && scan.priority > 0 {
        scan.priority -= 1;
        *cursor = P::Cursor::default();
        return;
    }
    let again = policy.end_pass(cx, scan, cursor);
    if again && !scan.forced {
        scan.forced = true;
        scan.priority = DEF_PRIORITY;
        *cursor = P::Cursor::default();
    } else {
        stage.is_over = true;
    }
}
