//! A line of the journal: one policy in one memory over one trace.

use crate::content::Content;
use pagetide_core::units::Bytes;
use pagetide_lab::replay::ReplayOutcome;
use serde::{Deserialize, Serialize};

/// An answer, or why there is none, and all that it depends on. The field names are the journal's,
/// and stay.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What the trace holds.
    pub content: Content,
    /// How it was read.
    pub settings: String,
    /// Pagetide's version.
    pub version: String,
    /// The contender's name.
    pub policy: String,
    /// The size as it was asked for: frames, or a share in percent.
    pub size: String,
    /// What came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Numbers>,
    /// Why nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a replay counted.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Numbers {
    /// Memory, in frames of 4 KiB.
    pub frames: u32,
    /// Distinct pages of the trace.
    pub pages: u64,
    /// Accesses replayed.
    pub accesses: u64,
    /// Accesses that missed.
    pub misses: u64,
    /// Bytes from the store, by misses and by readahead.
    pub device_read_bytes: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Misses on pages that a shadow entry remembered.
    pub refaults: u64,
    /// Refaults taken for hot at once.
    pub activations: u64,
    /// How long the replay took.
    pub seconds: f64,
}

impl Numbers {
    pub(crate) fn of(outcome: &ReplayOutcome, frames: u32, pages: u64, seconds: f64) -> Numbers {
        Numbers {
            frames,
            pages,
            accesses: outcome.accesses,
            misses: outcome.misses,
            device_read_bytes: outcome.device_read_bytes(),
            evictions: outcome.evictions,
            refaults: outcome.refaults(),
            activations: outcome.activations(),
            seconds,
        }
    }

    /// Misses per access.
    pub fn miss_ratio(&self) -> f64 {
        if self.accesses == 0 { 0.0 } else { self.misses as f64 / self.accesses as f64 }
    }

    /// Memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        Bytes::from_pages(self.frames.into()).0
    }
}
