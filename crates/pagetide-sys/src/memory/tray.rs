//! A tray: memory into which a thread of another process sets down pages for us to take.
//!
//! **Problem.** Pages that another process has read for us go through a socket as two copies and an
//! allocation, which that process pays for while its own work waits. **Idea.** A memory file for
//! each such thread, which we make and both map. The thread has its pages read into the slots, one
//! after the other; now and then a packet says how many there are. We copy a page, look whether
//! the copy is what the packet's label says, and say how far we have taken them.
//!
//! ```text
//!   | taken | around | slot 0 | slot 1 | .. | slot 63 |
//!             ^ taken                            here: copied, before this one
//!                        ^ set down              there: the next one to read into
//! ```
//!
//! **Invariants.** S29: our mapping is of the whole file, which cannot shrink; a slot's place is
//! computed from a number modulo their count. The other process may write any of it at any time, so
//! bytes are reached by copies that may race (S2), judged in the copy, and never read back from
//! here; *taken* is written and not read, and so is *around*, how many pages a miss should read.
//!
//! **Ignored.** A process that sets down more than there is room for: it spoils its own pages.
//!
//! Source: Linux memfd_create(2), fcntl(2) `F_SEAL_SHRINK`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::mm::ProtFlags;

use crate::memory::copy::copy_out;
use crate::memory::frames::FRAME_BYTES;
use crate::memory::mapped::{Mapped, memory_file};

/// Pages that a tray holds.
pub const NR_SLOTS: usize = 64;
/// The word that says how far pages were taken.
pub const TAKEN_WORD: usize = 0;
/// The word that says how many pages to read for a miss outside any stream; 0 is not known.
pub const AROUND_WORD: usize = 1;
/// Where the first slot begins, behind these words.
pub const SLOTS_AT: usize = FRAME_BYTES;
/// A tray's bytes.
pub const TRAY_BYTES: usize = SLOTS_AT + NR_SLOTS * FRAME_BYTES;

/// One thread's tray, on the side that takes.
///
/// # Concurrency
/// One thread takes, one thread of another process sets down; neither waits for the other.
pub struct Tray {
    file: OwnedFd,
    mapped: Mapped,
}

impl Tray {
    /// An empty tray.
    ///
    /// # Errors
    /// What the system says: of memory, or of descriptors.
    pub fn new() -> io::Result<Tray> {
        let file = memory_file("pagetide-tray", TRAY_BYTES)?;
        let mapped = Mapped::new(file.as_fd(), TRAY_BYTES, ProtFlags::READ | ProtFlags::WRITE)?;
        Ok(Tray { file, mapped })
    }

    /// What the other process is to map.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Copies page `nr` of all that were set down. Whether it is one, only its label can tell.
    ///
    /// # Cost
    /// The copy.
    pub fn take(&self, nr: u64, target: &mut [u8; FRAME_BYTES]) {
        let slot = (nr % NR_SLOTS as u64) as usize;
        copy_out(self.mapped.words(), SLOTS_AT + slot * FRAME_BYTES, target);
    }

    /// Lets the other side use the slots of the pages before `nr` again.
    pub fn give_back(&self, nr: u64) {
        self.mapped.words()[TAKEN_WORD].store(nr, Ordering::Release);
    }

    /// Tells the other side how many pages to read for a miss, with the one that is wanted. A wish.
    pub fn tell_around(&self, nr: u64) {
        self.mapped.words()[AROUND_WORD].store(nr, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_down(tray: &Tray, slot: usize, byte: u8) {
        let words = FRAME_BYTES / 8;
        let start = (SLOTS_AT + slot * FRAME_BYTES) / 8;
        let there = Mapped::new(tray.file(), TRAY_BYTES, ProtFlags::READ | ProtFlags::WRITE);
        for word in &there.unwrap().words()[start..start + words] {
            word.store(u64::from_ne_bytes([byte; 8]), Ordering::Relaxed);
        }
    }

    fn taken(tray: &Tray) -> u64 {
        let there = Mapped::new(tray.file(), TRAY_BYTES, ProtFlags::READ).unwrap();
        there.words()[TAKEN_WORD].load(Ordering::Acquire)
    }

    #[test]
    fn pages_are_taken_from_where_they_were_set_down() {
        let tray = Tray::new().unwrap();
        let mut page = [0; FRAME_BYTES];
        for round in 0..3 {
            for slot in 0..NR_SLOTS {
                set_down(&tray, slot, (round * NR_SLOTS + slot) as u8);
            }
            for nr in round * NR_SLOTS..(round + 1) * NR_SLOTS {
                tray.take(nr as u64, &mut page);
                assert_eq!(page, [nr as u8; FRAME_BYTES]);
            }
            assert_eq!(taken(&tray), (round * NR_SLOTS) as u64, "not before it is said");
            tray.give_back(((round + 1) * NR_SLOTS) as u64);
            assert_eq!(taken(&tray), ((round + 1) * NR_SLOTS) as u64);
        }
        // A number that makes no sense is some slot.
        tray.take(u64::MAX, &mut page);
        assert_eq!(page, [(3 * NR_SLOTS - 1) as u8; FRAME_BYTES]);
    }

    #[test]
    fn the_file_stays_as_long_as_it_is() {
        let tray = Tray::new().unwrap();
        assert!(rustix::fs::ftruncate(tray.file(), 0).is_err());
        assert!(rustix::fs::ftruncate(tray.file(), 2 * TRAY_BYTES as u64).is_err());
    }
}
