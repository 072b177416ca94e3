//! Draining an access log: what its entries mean to a policy.
//!
//! Problem: a log has up to 256 entries, and each of them was a question of which policy it is.
//! Idea: this is code for one policy, and which one it is, is found out once a log.
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

/// Judges the return of an evicted page, after what the log holds where the policy's clock counts
/// that.
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

/// Does what log entries ask for, in their order. Stale ones do nothing.
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
