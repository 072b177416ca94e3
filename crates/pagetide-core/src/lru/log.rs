//! The access log: pending list operations, one log per CPU.
//!
//! A miss, or a hit that needs a list operation, writes one entry instead of taking the lruvec's
//! lock. 31 entries are drained together, in order.
//!
//! A lost addition would make a folio unreachable for reclaim. A touch may be lost: the world drops
//! and counts it if the lruvec is contended.
//!
//! Entries are hints. If the frame was freed and reused, it is no longer
//! [`Flags::PENDING`](crate::folio::Flags::PENDING), or is already on a list, and the entry does
//! nothing.

use super::Marked;
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;

/// Entries after which a log should be drained. The kernel's batch length.
pub const LOG_LEN: usize = 31;
/// Capacity, for entries made while another thread holds the lists.
const LOG_ROOM: usize = 256;

/// A log entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Logged {
    /// Put a new folio on a list.
    Add(FrameId),
    /// The folio was accessed.
    Touch(FrameId),
    /// Write-back of a reclaimed folio ended: move the folio to the old end.
    Rotate(FrameId),
}

/// The fill state of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Room {
    /// Below [`LOG_LEN`] entries.
    Left,
    /// Drain the log as soon as the lists are free.
    Full,
}

/// A bounded, ordered list of entries. Not synchronised: the holder of its CPU's lock owns it.
#[derive(Debug)]
pub struct AccessLog {
    entries: [Logged; LOG_ROOM],
    len: usize,
}

impl Default for AccessLog {
    fn default() -> AccessLog {
        AccessLog::new()
    }
}

impl AccessLog {
    /// Creates an empty log.
    pub const fn new() -> AccessLog {
        AccessLog { entries: [Logged::Touch(FrameId(0)); LOG_ROOM], len: 0 }
    }

    /// Appends a new folio and marks it pending.
    #[inline]
    pub fn add(&mut self, folios: &Folios, frame: FrameId) -> Room {
        folios[frame].set(Flags::PENDING);
        self.push(Logged::Add(frame))
    }

    /// Appends an access.
    #[inline]
    pub fn touch(&mut self, frame: FrameId) -> Room {
        self.push(Logged::Touch(frame))
    }

    /// Appends an access if `marked` asks for it. Branchless: the entry is always written.
    #[inline]
    pub fn touch_if(&mut self, marked: Marked, frame: FrameId) -> Room {
        let len = self.len;
        assert!(len < LOG_ROOM, "access log overflows its {LOG_ROOM} entries");
        self.entries[len] = Logged::Touch(frame);
        self.len = len + usize::from(marked == Marked::Log);
        self.room()
    }

    /// Appends a rotation.
    #[inline]
    pub fn rotate(&mut self, frame: FrameId) -> Room {
        self.push(Logged::Rotate(frame))
    }

    #[inline]
    fn push(&mut self, entry: Logged) -> Room {
        assert!(self.len < LOG_ROOM, "access log overflows its {LOG_ROOM} entries");
        self.entries[self.len] = entry;
        self.len += 1;
        self.room()
    }

    /// Returns the fill state.
    #[inline]
    pub fn room(&self) -> Room {
        if self.len >= LOG_LEN { Room::Full } else { Room::Left }
    }

    /// Returns true if the log is full and must be drained first.
    #[inline]
    pub fn is_crammed(&self) -> bool {
        self.len == LOG_ROOM
    }

    /// Returns true if the log is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes all entries, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = Logged> {
        let len = core::mem::take(&mut self.len);
        self.entries[..len].iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn entries_come_out_in_order_and_once() {
        let folios = Folios::new(4);
        let mut log = AccessLog::new();
        assert_eq!(log.add(&folios, FrameId(1)), Room::Left);
        assert_eq!(log.touch(FrameId(2)), Room::Left);
        assert!(folios[FrameId(1)].flags().any(Flags::PENDING));
        let drained: Vec<Logged> = log.drain().collect();
        assert_eq!(drained, [Logged::Add(FrameId(1)), Logged::Touch(FrameId(2))]);
        assert!(log.is_empty());
    }

    #[test]
    fn an_access_that_no_policy_uses_is_not_kept() {
        let mut log = AccessLog::new();
        assert_eq!(log.touch_if(Marked::Done, FrameId(1)), Room::Left);
        assert!(log.is_empty());
        for nth in 1..LOG_LEN as u32 {
            assert_eq!(log.touch_if(Marked::Log, FrameId(nth)), Room::Left);
            assert_eq!(log.touch_if(Marked::Done, FrameId(99)), Room::Left);
        }
        assert_eq!(log.touch_if(Marked::Log, FrameId(LOG_LEN as u32)), Room::Full);
        let drained: Vec<Logged> = log.drain().collect();
        let kept: Vec<Logged> =
            (1..=LOG_LEN as u32).map(|nth| Logged::Touch(FrameId(nth))).collect();
        assert_eq!(drained, kept);
    }

    #[test]
    fn the_last_entry_says_full() {
        let mut log = AccessLog::new();
        for _ in 0..LOG_LEN - 1 {
            assert_eq!(log.touch(FrameId(0)), Room::Left);
        }
        assert_eq!(log.touch(FrameId(0)), Room::Full);
    }

    #[test]
    fn a_full_log_takes_touches_until_it_is_crammed() {
        let mut log = AccessLog::new();
        while !log.is_crammed() {
            let _ = log.touch(FrameId(7));
        }
        assert_eq!((log.room(), log.drain().count()), (Room::Full, LOG_ROOM));
        assert!(!log.is_crammed() && log.room() == Room::Left);
    }
}
