//! Applies the entries of an access log to a policy.
//!
//! Problem: a log has up to 256 entries. Idea: generic code, with one dispatch per log.
//!
//! ```text
//!   Add      PENDING? -> ON_LIST, policy: add
//!   Touch    ON_LIST? -> policy: touch
//!   Rotate   ON_LIST? -> policy: rotate
//! ```

use super::{AccessLog, AccessPath, Context, Logged, LruPolicy, ShadowEntry};
use crate::folio::Flags;
use crate::ids::FrameId;
use crate::vmstat::Counter;

/// Drains the log first if the policy's clock counts log entries.
pub(super) fn drain_and_refault<P: LruPolicy>(
    policy: &mut P,
    cx: &mut Context<'_>,
    log: &mut AccessLog,
    frame: FrameId,
    shadow: ShadowEntry,
    kind: AccessPath,
) {
    if P::ACCESS.logs_what_clocks_count() {
        apply_entries(policy, cx, log.drain());
    }
    policy.refault(cx, frame, shadow, kind);
}

/// Applies log entries in order. Stale entries do nothing.
#[inline]
pub(super) fn apply_entries(
    policy: &mut impl LruPolicy,
    cx: &mut Context<'_>,
    entries: impl IntoIterator<Item = Logged>,
) {
    for entry in entries {
        match entry {
            Logged::Add(frame) => {
                let before = cx.folios[frame].update(|flags| {
                    let listed = flags.without(Flags::PENDING).with(Flags::ON_LIST);
                    flags.any(Flags::PENDING).then_some(listed)
                });
                if before.any(Flags::PENDING) {
                    policy.add(cx, frame);
                }
            }
            Logged::Touch(frame) => {
                if cx.flags(frame).any(Flags::ON_LIST) {
                    policy.touch(cx, frame);
                }
            }
            Logged::Rotate(frame) => {
                if cx.flags(frame).any(Flags::ON_LIST) {
                    cx.vmstat.count(Counter::Pgrotated);
                    policy.rotate(cx, frame);
                }
            }
        }
    }
}
