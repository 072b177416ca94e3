//! A read-only summary of the selection, for statistics and texts.

use super::{NR_SETTINGS, Selection};
use crate::lru::own::contest::Contest;

/// A setting compared with the one in charge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SettingSummary {
    /// Name of the setting.
    pub name: &'static str,
    /// Probation's share of memory, in percent.
    pub probation_percent: u32,
    /// Recent sampled hits of this setting minus hits of the one in charge. 0 for the setting in
    /// charge.
    pub lead: i64,
    /// Recent sampled accesses with different results.
    pub nr_disagreed: u64,
    /// Hits lost to this setting since the last change, or since this was 0.
    pub lost: u64,
    /// Losses that must be exceeded for a change, in hits.
    pub price: u64,
}

/// A change of the setting in charge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SettingChange {
    /// The previous setting.
    pub from: &'static str,
    /// The new setting, compared with the previous one.
    pub to: SettingSummary,
}

/// The state of the selection at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SelectionSummary {
    /// The setting in charge.
    pub chosen: &'static str,
    /// Number of changes.
    pub nr_changes: u64,
    /// The last change, if any.
    pub last_change: Option<SettingChange>,
    /// Sampled accesses.
    pub nr_samples: u64,
    /// Sampled accesses since the setting took charge.
    pub nr_samples_since: u64,
    /// Pages per sampled page.
    pub sampled_one_in: u32,
    /// Frames of each miniature.
    pub miniature_frames: u32,
    /// All settings, in their order.
    pub settings: [SettingSummary; NR_SETTINGS],
}

impl Selection {
    /// Returns the current state. O(settings).
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
