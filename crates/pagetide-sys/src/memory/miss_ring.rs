//! The miss ring: shared memory in which a thread of another process passes pages to the server.
//!
//! **Problem.** A page crosses a socket as two copies and an allocation, at the sender's expense.
//! **Idea.** One memory file per such thread. The thread reads pages into consecutive slots, and
//! sends their number in packets. The server copies a page, checks it by the packet's label, and
//! publishes its progress.
//!
//! ```text
//!   | taken | around | at once | slot 0 | slot 1 | .. | slot 63 |
//!                                ^ taken                  server: copied, before this one
//!                                         ^ pushed        client: the next slot to read into
//! ```
//!
//! **Invariants.** S29: the server's mapping covers the whole file, which cannot shrink, and slot
//! numbers are taken modulo the number of slots. The client may write any byte at any time, so
//! bytes are read only by racing copies (S2), and checked in the copy. The server only writes
//! *taken*, *around* (the number of pages to read for a miss) and *at once* (1 if other threads
//! miss the same pages).
//!
//! **Ignored.** A client that pushes too many pages spoils only its own.
//!
//! Source: Linux memfd_create(2), fcntl(2) `F_SEAL_SHRINK`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::mm::ProtFlags;

use crate::memory::copy::copy_out;
use crate::memory::frames::FRAME_BYTES;
use crate::memory::mapped::{Mapped, memory_file};

/// Slots, in pages.
pub const NR_SLOTS: usize = 64;
/// The word with the number of pages taken.
pub const TAKEN_WORD: usize = 0;
/// The word with the number of pages to read for a miss outside any stream, 0 if unknown.
pub const AROUND_WORD: usize = 1;
/// The word that tells to pass each page to the server at once, and not in batches.
pub const AT_ONCE_WORD: usize = 2;
/// The offset of the first slot in bytes.
pub const SLOTS_AT: usize = FRAME_BYTES;
/// The length of the ring in bytes.
pub const RING_BYTES: usize = SLOTS_AT + NR_SLOTS * FRAME_BYTES;

/// One thread's miss ring, on the consuming side.
///
/// # Concurrency
/// A single-producer, single-consumer ring between two processes. Neither side blocks.
pub struct MissRing {
    file: OwnedFd,
    mapped: Mapped,
}

impl MissRing {
    /// Creates an empty ring.
    ///
    /// # Errors
    /// Fails if memory or descriptors run out.
    pub fn new() -> io::Result<MissRing> {
        let file = memory_file("pagetide-misses", RING_BYTES)?;
        let mapped = Mapped::new(file.as_fd(), RING_BYTES, ProtFlags::READ | ProtFlags::WRITE)?;
        Ok(MissRing { file, mapped })
    }

    /// Returns the file that the client maps.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Copies page `nr` of all pushed pages. Only the record tells if the copy is valid.
    ///
    /// # Cost
    /// The copy.
    pub fn take(&self, nr: u64, target: &mut [u8; FRAME_BYTES]) {
        let slot = (nr % NR_SLOTS as u64) as usize;
        copy_out(self.mapped.words(), SLOTS_AT + slot * FRAME_BYTES, target);
    }

    /// Frees the slots of the pages before `nr`.
    pub fn give_back(&self, nr: u64) {
        self.mapped.words()[TAKEN_WORD].store(nr, Ordering::Release);
    }

    /// Suggests the number of pages to read for a miss, including the wanted page.
    pub fn tell_around(&self, nr: u64) {
        self.mapped.words()[AROUND_WORD].store(nr, Ordering::Relaxed);
    }

    /// Tells whether each page is to be passed at once.
    pub fn tell_at_once(&self, is_at_once: bool) {
        self.mapped.words()[AT_ONCE_WORD].store(is_at_once.into(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(ring: &MissRing, slot: usize, byte: u8) {
        let words = FRAME_BYTES / 8;
        let start = (SLOTS_AT + slot * FRAME_BYTES) / 8;
        let there = Mapped::new(ring.file(), RING_BYTES, ProtFlags::READ | ProtFlags::WRITE);
        for word in &there.unwrap().words()[start..start + words] {
            word.store(u64::from_ne_bytes([byte; 8]), Ordering::Relaxed);
        }
    }

    fn taken(ring: &MissRing) -> u64 {
        let there = Mapped::new(ring.file(), RING_BYTES, ProtFlags::READ).unwrap();
        there.words()[TAKEN_WORD].load(Ordering::Acquire)
    }

    #[test]
    fn pages_are_taken_from_their_slots() {
        let ring = MissRing::new().unwrap();
        let mut page = [0; FRAME_BYTES];
        for round in 0..3 {
            for slot in 0..NR_SLOTS {
                push(&ring, slot, (round * NR_SLOTS + slot) as u8);
            }
            for nr in round * NR_SLOTS..(round + 1) * NR_SLOTS {
                ring.take(nr as u64, &mut page);
                assert_eq!(page, [nr as u8; FRAME_BYTES]);
            }
            assert_eq!(taken(&ring), (round * NR_SLOTS) as u64, "not before it is said");
            ring.give_back(((round + 1) * NR_SLOTS) as u64);
            assert_eq!(taken(&ring), ((round + 1) * NR_SLOTS) as u64);
        }
        // An invalid number still maps to a slot.
        ring.take(u64::MAX, &mut page);
        assert_eq!(page, [(3 * NR_SLOTS - 1) as u8; FRAME_BYTES]);
    }

    #[test]
    fn the_file_stays_as_long_as_it_is() {
        let ring = MissRing::new().unwrap();
        assert!(rustix::fs::ftruncate(ring.file(), 0).is_err());
        assert!(rustix::fs::ftruncate(ring.file(), 2 * RING_BYTES as u64).is_err());
    }
}
