//! A line of the journal: one policy in one memory size over one trace.

use crate::content::Content;
use pagetide_core::units::Bytes;
use pagetide_lab::replay::ReplayOutcome;
use serde::{Deserialize, Serialize};

/// An answer, or an error, with everything that it depends on. The journal's field names are
/// stable.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The trace's content hash.
    pub content: Content,
    /// The settings for reading the trace.
    pub settings: String,
    /// Pagetide's version.
    pub version: String,
    /// The policy's name.
    pub policy: String,
    /// The requested size: frames, or a share in percent.
    pub size: String,
    /// The result, unless failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Numbers>,
    /// The reason of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The counts of a replay.
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
    /// Bytes read from the store, by misses and by readahead.
    pub device_read_bytes: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Misses on pages with a shadow entry.
    pub refaults: u64,
    /// Refaults activated at once.
    pub activations: u64,
    /// Duration of the replay, in seconds.
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

    /// Returns the misses per access.
    pub fn miss_ratio(&self) -> f64 {
        if self.accesses == 0 { 0.0 } else { self.misses as f64 / self.accesses as f64 }
    }

    /// Returns the memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        Bytes::from_pages(self.frames.into()).0
    }
}
