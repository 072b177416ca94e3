//! Limits and protection of a group.
//!
//! Core shares scarce protection among children. A guarantee above the whole memory is rejected
//! here. `low` is not a guarantee, and may add up to any sum.

use crate::engine::errors::GroupError;
use pagetide_core::group::{GroupConfig, UNLIMITED};
use pagetide_core::knobs::MEMORY_MIN;
use pagetide_core::units::Bytes;

/// Limits and protection of a group, by default none. All values include the group's descendants,
/// and are rounded down to whole pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupOptions {
    limit: Option<Bytes>,
    min: Bytes,
    low: Bytes,
}

impl GroupOptions {
    /// Returns options without limit and protection.
    pub fn new() -> GroupOptions {
        GroupOptions::default()
    }

    /// Sets the maximum usage, at least 64K. A group at its limit evicts its own pages.
    pub fn limit(self, limit: Bytes) -> GroupOptions {
        GroupOptions { limit: Some(limit), ..self }
    }

    /// Sets the guaranteed memory: usage up to here is reclaimed only for the group's own limit.
    /// The sum over top-level groups must not exceed the memory.
    pub fn min(self, min: Bytes) -> GroupOptions {
        GroupOptions { min, ..self }
    }

    /// Sets the memory that is reclaimed only if all unprotected memory is used up.
    pub fn low(self, low: Bytes) -> GroupOptions {
        GroupOptions { low, ..self }
    }

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
