//! What a group is given, in bytes, and the sentences that say why it cannot be.
//!
//! Core shares out what protection there is among children that ask for more. That is for the
//! reclaim of every day; a promise to keep more than the whole memory is refused here, where it is
//! made. `low` is no promise, and may add up to any sum.

use pagetide_core::group::{GROUPS_MAX, GroupConfig, UNLIMITED};
use pagetide_core::knobs::MEMORY_MIN;
use pagetide_core::units::Bytes;
use std::io::{self, ErrorKind};

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
    pub(super) fn check(self) -> Result<GroupConfig, GroupError> {
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

/// Why a group could not be made, changed, or asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The cache knows no groups.
    #[error("this cache was built without groups: call `groups(true)` on its builder")]
    Off,
    /// Another group has the name: choose another, or use that one.
    #[error("there is a group named {name:?} already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The limit is below the least that works.
    #[error("a limit of {limit} is too small for a group: give it at least {least}")]
    TooSmall {
        /// What was asked for.
        limit: Bytes,
        /// The least that works.
        least: Bytes,
    },
    /// It is to keep more than it may use.
    #[error("a {what} of {given} is above the limit of {limit}: lower one, or raise the other")]
    AboveLimit {
        /// `min` or `low`.
        what: &'static str,
        /// What was asked for.
        given: Bytes,
        /// The limit.
        limit: Bytes,
    },
    /// More is promised than there is.
    #[error(
        "a min of {given} beside the {others} of other groups is more than the {memory} there is: \
         ask for less"
    )]
    Overcommitted {
        /// What was asked for.
        given: Bytes,
        /// What other groups of the first level are promised.
        others: Bytes,
        /// The cache's memory.
        memory: Bytes,
    },
    /// There are as many groups as can be told apart: remove some.
    #[error("all {} groups there can be are in use, or still have pages: remove some", GROUPS_MAX)]
    TooMany,
    /// It was removed: make another.
    #[error("the group {name:?} was removed")]
    Removed {
        /// Its name.
        name: String,
    },
    /// Groups below it must be removed first.
    #[error("the group {name:?} has {nr_children} groups below it: remove those first")]
    HasChildren {
        /// Its name.
        name: String,
        /// How many there are.
        nr_children: usize,
    },
}

impl From<GroupError> for io::Error {
    /// By what the caller can do, as all errors of this crate.
    fn from(error: GroupError) -> io::Error {
        let kind = match &error {
            GroupError::Off => ErrorKind::Unsupported,
            GroupError::NameTaken { .. } => ErrorKind::AlreadyExists,
            GroupError::TooSmall { .. }
            | GroupError::AboveLimit { .. }
            | GroupError::Overcommitted { .. } => ErrorKind::InvalidInput,
            GroupError::TooMany => ErrorKind::QuotaExceeded,
            GroupError::Removed { .. } => ErrorKind::NotFound,
            GroupError::HasChildren { .. } => ErrorKind::ResourceBusy,
        };
        io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_turn_into_those_of_std_by_what_can_be_done() {
        let name = String::from("a");
        let least = Bytes(MEMORY_MIN);
        let rows = [
            (GroupError::Off, ErrorKind::Unsupported),
            (GroupError::NameTaken { name: name.clone() }, ErrorKind::AlreadyExists),
            (GroupError::TooSmall { limit: Bytes(1), least }, ErrorKind::InvalidInput),
            (GroupError::TooMany, ErrorKind::QuotaExceeded),
            (GroupError::Removed { name: name.clone() }, ErrorKind::NotFound),
            (GroupError::HasChildren { name, nr_children: 1 }, ErrorKind::ResourceBusy),
        ];
        for (error, kind) in rows {
            let text = error.to_string();
            let converted = io::Error::from(error);
            assert_eq!((converted.kind(), converted.to_string()), (kind, text));
        }
    }
}
