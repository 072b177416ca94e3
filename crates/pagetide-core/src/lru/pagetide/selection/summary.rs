//! A read-only picture of the selection, for statistics and explanations.

use super::{NR_ARMS, Selection};
use crate::lru::pagetide::duel::Duel;

/// How an arm stands against the one in charge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArmSummary {
    /// Its name.
    pub name: &'static str,
    /// Probation's share of memory under it, in percent.
    pub probation_percent: u32,
    /// Sampled accesses that it hit and the arm in charge missed, less the others, lately. Zero for
    /// the arm in charge.
    pub lead: i64,
    /// Sampled accesses at which the two disagreed, lately.
    pub nr_disagreed: u64,
    /// What the arm in charge lost to it since the last change, or since that was nothing, in hits.
    pub rent: i64,
    /// The rent that the frames which would move must be paid with.
    pub price: i64,
}

/// A change of the arm in charge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArmChange {
    /// The arm before.
    pub from: &'static str,
    /// The winner, as it stood against the arm before.
    pub to: ArmSummary,
}

/// The state of the selection at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SelectionSummary {
    /// The arm in charge.
    pub chosen: &'static str,
    /// Changes so far, and the last of them.
    pub nr_changes: u64,
    /// The last change, if there was one.
    pub last_change: Option<ArmChange>,
    /// Sampled accesses so far.
    pub nr_samples: u64,
    /// Sampled accesses since the arm took charge.
    pub nr_samples_since: u64,
    /// A page in so many is sampled.
    pub sampled_one_in: u32,
    /// Frames of each miniature.
    pub miniature_frames: u32,
    /// All arms, in their order.
    pub arms: [ArmSummary; NR_ARMS],
}

impl Selection {
    /// Describes the current state. O(arms).
    pub(in crate::lru::pagetide) fn summary(&self) -> SelectionSummary {
        SelectionSummary {
            chosen: self.tuning.arms[self.chosen].name,
            nr_changes: self.nr_changes,
            last_change: self.last_change,
            nr_samples: self.nr_samples,
            nr_samples_since: self.nr_samples - self.changed_at,
            sampled_one_in: 1 << self.shift,
            miniature_frames: self.nr_frames,
            arms: core::array::from_fn(|arm| self.arm_summary(arm)),
        }
    }

    /// Notes that another arm takes charge.
    pub(super) fn note_change(&mut self, to: usize) {
        let from = self.tuning.arms[self.chosen].name;
        self.last_change = Some(ArmChange { from, to: self.arm_summary(to) });
        self.nr_changes += 1;
        self.changed_at = self.nr_samples;
    }

    fn arm_summary(&self, arm: usize) -> ArmSummary {
        let Duel { lead, nr_seen, rent, .. } = self.duels[arm][self.chosen];
        ArmSummary {
            name: self.tuning.arms[arm].name,
            probation_percent: self.tuning.arms[arm].probation_percent,
            lead,
            nr_disagreed: nr_seen,
            rent,
            price: self.price(arm),
        }
    }
}
