//! The capacity of a policy, and the errors about it.

use pagetide_core::page_alloc::FRAMES_MAX;
use std::io;

/// The capacity of a policy: a number of entries, and perhaps a sum of their lengths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    nr_entries: u64,
    bytes: u64,
}

impl Capacity {
    /// Returns a capacity of `nr_entries` of any length.
    pub const fn entries(nr_entries: u64) -> Capacity {
        Capacity { nr_entries, bytes: u64::MAX }
    }

    /// Returns a capacity of `bytes`, for entries of `entry_bytes` on average.
    ///
    /// The policy divides its lists by number, so the average determines the quality of decisions.
    /// The number of entries never exceeds `bytes / entry_bytes`, rounded up.
    pub const fn bytes(bytes: u64, entry_bytes: u64) -> Capacity {
        let nr_entries = if entry_bytes == 0 { 0 } else { bytes.div_ceil(entry_bytes) };
        Capacity { nr_entries, bytes }
    }

    /// Limits the sum of the entries' lengths as well.
    pub const fn with_bytes(self, bytes: u64) -> Capacity {
        Capacity { bytes, ..self }
    }

    /// Returns the largest number of entries.
    pub const fn nr_entries(self) -> u64 {
        self.nr_entries
    }

    /// Returns the largest sum of lengths, `u64::MAX` for a capacity in entries.
    pub const fn nr_bytes(self) -> u64 {
        self.bytes
    }

    /// Returns the number of entries, from 1 to `most`.
    pub(super) fn check(self, most: u32) -> Result<u32, CapacityError> {
        match u32::try_from(self.nr_entries) {
            _ if self.bytes == 0 => Err(CapacityError::Zero),
            Ok(0) => Err(CapacityError::Zero),
            Ok(nr_entries) if nr_entries <= most => Ok(nr_entries),
            _ => Err(CapacityError::TooLarge { given: self.nr_entries, most }),
        }
    }

    /// Returns the capacity of one of `nr` shards. The first shards get the remainders.
    pub(super) fn shard(self, nth: u64, nr: u64) -> Capacity {
        let part = |whole: u64| whole / nr + u64::from(nth < whole % nr);
        let bytes = if self.bytes == u64::MAX { u64::MAX } else { part(self.bytes) };
        Capacity { nr_entries: part(self.nr_entries), bytes }
    }
}

/// The largest number of entries of a policy.
pub(super) const ENTRIES_MAX: u32 = FRAMES_MAX;

/// An error in the capacity of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CapacityError {
    /// The capacity in entries or in bytes, or the average length of an entry, is 0. Ask for at
    /// least one entry and one byte, or as many as there are shards.
    #[error("the capacity is less than one entry, or no byte")]
    Zero,
    /// There are more entries than the policy was built for. Set `entries_max` on the builder, up
    /// to 2^28.
    #[error("a capacity of {given} entries is too large: the policy can hold {most}")]
    TooLarge {
        /// Requested entries.
        given: u64,
        /// Largest valid number.
        most: u32,
    },
    /// More is pinned than the new capacity. Unpin entries first.
    #[error("{pinned_entries} entries of {pinned_bytes} bytes are pinned, more than the capacity")]
    Pinned {
        /// Pinned entries.
        pinned_entries: u32,
        /// Their length in bytes.
        pinned_bytes: u64,
    },
}

/// An error in adding an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InsertError {
    /// The entry is longer than the whole capacity. Keep it elsewhere.
    #[error("an entry of {bytes} bytes is larger than the capacity of {capacity}")]
    TooLarge {
        /// Length of the entry.
        bytes: u64,
        /// Capacity in bytes.
        capacity: u64,
    },
    /// Too much is pinned to make room. Unpin entries, then try again.
    #[error("no room: {pinned_entries} of {nr_entries} entries are pinned")]
    Pinned {
        /// Pinned entries.
        pinned_entries: u32,
        /// All entries.
        nr_entries: u32,
    },
}

impl From<CapacityError> for io::Error {
    fn from(error: CapacityError) -> io::Error {
        let kind = match error {
            CapacityError::Zero | CapacityError::TooLarge { .. } => io::ErrorKind::InvalidInput,
            CapacityError::Pinned { .. } => io::ErrorKind::ResourceBusy,
        };
        io::Error::new(kind, error)
    }
}

impl From<InsertError> for io::Error {
    fn from(error: InsertError) -> io::Error {
        let kind = match error {
            InsertError::TooLarge { .. } => io::ErrorKind::FileTooLarge,
            InsertError::Pinned { .. } => io::ErrorKind::ResourceBusy,
        };
        io::Error::new(kind, error)
    }
}
