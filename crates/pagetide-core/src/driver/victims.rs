//! Trial of victims.
//!
//! ```text
//!   spared? --> unclean? --> claim --> unclean now? --> demote --no room--> unclean, or kept?
//!     young       dirty       young       dirty            |                  dirty    busy
//!                             busy                      demoted                  claimed
//! ```
//!
//! Mapped folios are claimed first, to test the young bit.
//!
//! The node's lists are locked, so that no other thread sees a victim off the lists. Claims last
//! until the lists are unlocked and the words are published, in victim order. Frames are freed
//! after all words, so that no word names a free frame.

use super::{DrivenPass, tables};
use crate::folio::Flags;
use crate::group::NodePass;
use crate::ids::NodeId;
use crate::lru::{ReclaimBatch, Refusal, Scan, Settled, Verdict, Victim};
use crate::tiering::{Demotion, Leftover};

const UNCLEAN: Flags = Flags::DIRTY.with(Flags::WRITEBACK);
const DIRTY: Verdict = Verdict::Refused(Refusal::Dirty);
const YOUNG: Verdict = Verdict::Refused(Refusal::Young);

/// Settings for all victims of a batch.
struct Trial {
    node: NodeId,
    demotes: bool,
    /// True if hot victims stay.
    spares: bool,
    /// Handling of victims without a frame below.
    leftover: Leftover,
    /// Flags of folios to leave alone.
    unmovable: Flags,
}

impl Trial {
    #[inline]
    fn new(node: NodeId, scan: &Scan) -> Trial {
        Trial {
            node,
            demotes: scan.demotes,
            spares: scan.demotes && !scan.ignores_age,
            leftover: Demotion::leftover(scan.kind),
            unmovable: scan.unclean(),
        }
    }

    #[inline]
    fn verdict<P: DrivenPass>(&self, world: &mut P, victim: &Victim) -> Verdict {
        let flags = world.flags(victim.frame);
        if flags.any(self.unmovable) && !flags.any(Flags::MAPPED) {
            return DIRTY;
        }
        if let Err(refusal) = world.claim(victim) {
            return Verdict::Refused(refusal);
        }
        // A writer may have come before the claim.
        let flags = world.flags(victim.frame);
        let refused = if flags.any(self.unmovable) {
            DIRTY
        } else if !self.demotes {
            return Verdict::Claimed;
        } else if world.demote(self.node) {
            return Verdict::Demoted;
        } else if flags.any(UNCLEAN) {
            DIRTY
        } else if self.leftover == Leftover::Keep {
            Verdict::Refused(Refusal::Busy)
        } else {
            return Verdict::Claimed;
        };
        world.release();
        refused
    }
}

/// Tries each victim, stores the verdicts, and looks around young victims.
#[inline]
pub(super) fn try_victims<P: DrivenPass>(
    world: &mut P,
    node: NodeId,
    pass: &NodePass,
    batch: &mut ReclaimBatch,
) {
    let trial = Trial::new(node, pass.scan());
    let (victims, around) = batch.victims_and_around();
    world.fetch(victims);
    for victim in victims {
        if trial.spares && world.spares(victim) {
            victim.verdict = YOUNG;
            continue;
        }
        victim.verdict = trial.verdict(world, victim);
        if victim.verdict == YOUNG && pass.looks_around() {
            tables::look_around(world, node, victim.page, around);
        }
    }
}

pub(super) fn look_at_victims<P: DrivenPass>(world: &mut P, batch: &mut ReclaimBatch) {
    for victim in batch.victims_mut() {
        if world.take_young(victim) {
            victim.verdict = YOUNG;
        }
    }
}

#[inline]
pub(super) fn publish<P: DrivenPass>(world: &mut P, batch: &mut ReclaimBatch) {
    if batch.settled.is_empty() {
        return;
    }
    for settled in &batch.settled {
        match *settled {
            Settled::Evicted { page, frame, shadow } => world.evict(page, frame, shadow),
            Settled::Demoted { frame, .. } => world.list_demoted(frame),
        }
    }
    world.free(batch.settled.iter().map(Settled::frame));
    batch.settled.clear();
}
