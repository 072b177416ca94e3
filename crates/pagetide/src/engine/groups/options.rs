//! What a group is given, in bytes, and the sentences that say why it cannot be.
//!
//! Core shares out what protection there is among children that ask for more. That is for the
//! reclaim of every day; a promise to keep more than the whole memory is refused here, where it is
//! made. `low` is no promise, and may add up to any sum.

use crate::engine::errors::GroupError;
use pagetide_core::group::{GroupConfig, UNLIMITED};
use pagetide_core::knobs::MEMORY_MIN;
use pagetide_core::units::Bytes;

/// What a group may use and may keep; no limit and no protection unless set. All of it holds for a
/// group together with those below it, and is rounded down to whole pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupOptions {
    limit: Option<Bytes>,
    min: Bytes,
    low: Bytes,
}

impl GroupOptions {
    /// No limit, no protection.
    pub fn new() -> GroupOptions {
        GroupOptions::default()
    }

    /// The most it may use, at least 64K. A group at its limit makes room among its own pages.
    pub fn limit(self, limit: Bytes) -> GroupOptions {
        GroupOptions { limit: Some(limit), ..self }
    }

    /// What it keeps whatever others need: usage up to here is never reclaimed but for its own
    /// limit. All groups of the first level together are promised no more than the memory.
    pub fn min(self, min: Bytes) -> GroupOptions {
        GroupOptions { min, ..self }
    }

    /// What it keeps unless nothing else is left to reclaim.
    pub fn low(self, low: Bytes) -> GroupOptions {
        GroupOptions { low, ..self }
    }

    /// In pages, as core has it.
    pub(in crate::engine) fn check(self) -> Result<GroupConfig, GroupError> {
        let (limit, least) = (self.limit.unwrap_or(Bytes(u64::MAX)), Bytes(MEMORY_MIN));
        if limit < least {
            return Err(GroupError::TooSmall { limit, least });
        }
        for (what, given) in [("min", self.min), ("low", self.low)] {
            if given > limit {
                return Err(GroupError::AboveLimit { what, given, limit });
            }
        }
        Ok(GroupConfig {
            limit: self.limit.map_or(UNLIMITED, Bytes::whole_pages),
            min: self.min.whole_pages(),
            low: self.low.whole_pages(),
        })
    }
}
