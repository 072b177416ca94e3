//! A read-only picture of the selection, for statistics and explanations.

use super::{NR_SETTINGS, Selection};
use crate::lru::own::contest::Contest;

/// How a setting stands against the one in charge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SettingSummary {
    /// Its name.
    pub name: &'static str,
    /// Probation's share of memory under it, in percent.
    pub probation_percent: u32,
    /// Sampled accesses that it hit and the setting in charge missed, less the others, lately. Zero
    /// for the setting in charge.
    pub lead: i64,
    /// Sampled accesses at which the two disagreed, lately.
    pub nr_disagreed: u64,
    /// What the setting in charge lost to it since the last change, or since that was nothing, in
    /// hits.
    pub lost: u64,
    /// What that must exceed, as a change would move so many frames.
    pub price: u64,
}

/// A change of the setting in charge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SettingChange {
    /// The setting before.
    pub from: &'static str,
    /// The winner, as it stood against the setting before.
    pub to: SettingSummary,
}

/// The state of the selection at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SelectionSummary {
    /// The setting in charge.
    pub chosen: &'static str,
    /// Changes so far, and the last of them.
    pub nr_changes: u64,
    /// The last change, if there was one.
    pub last_change: Option<SettingChange>,
    /// Sampled accesses so far.
    pub nr_samples: u64,
    /// Sampled accesses since the setting took charge.
    pub nr_samples_since: u64,
    /// A page in so many is sampled.
    pub sampled_one_in: u32,
    /// Frames of each miniature.
    pub miniature_frames: u32,
    /// All settings, in their order.
    pub settings: [SettingSummary; NR_SETTINGS],
}

impl Selection {
    /// Describes the current state. O(settings).
    pub(in crate::lru::own) fn summary(&self) -> SelectionSummary {
        SelectionSummary {
            chosen: self.tuning.settings[self.chosen].name,
            nr_changes: self.nr_changes,
            last_change: self.last_change,
            nr_samples: self.nr_samples,
            nr_samples_since: self.nr_samples - self.changed_at,
            sampled_one_in: 1 << self.shift,
            miniature_frames: self.nr_frames,
            settings: core::array::from_fn(|nth| self.setting_summary(nth)),
        }
    }

    /// Notes that another setting takes charge.
    pub(super) fn note_change(&mut self, to: usize) {
        let from = self.tuning.settings[self.chosen].name;
        self.last_change = Some(SettingChange { from, to: self.setting_summary(to) });
        self.nr_changes += 1;
        self.changed_at = self.nr_samples;
    }

    fn setting_summary(&self, nth: usize) -> SettingSummary {
        let Contest { lead, nr_disagreed, lost, .. } = self.contests[nth][self.chosen];
        SettingSummary {
            name: self.tuning.settings[nth].name,
            probation_percent: self.tuning.settings[nth].probation_percent,
            lead,
            nr_disagreed,
            lost,
            price: self.price(nth),
        }
    }
}
