//! Miss rings: a program's thread inserts pages that the thread has read without the server.
//!
//! ```text
//!   program                     pagetide run
//!   ring      pages             |
//!   socket    notice of them -> the server's thread inserts the pages in the cache; no reply
//! ```
//!
//! A notice precedes the thread's later requests, so misses are counted before the close of a
//! description.
//!
//! If other threads miss the same pages, the thread passes each page at once.

use super::Server;
use super::answer::done;
use super::served_file::Description;
use crate::wire::MissRecord;
use pagetide::seam::{Inserted, SharedPages};
use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::miss_ring::MissRing;
use pagetide_sys::shared::ReadMarks;
use rustix::io::Errno;
use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Added to [`ThreadRing::sharing`] for a page that was read twice or waited for.
const SHARED_PAGE: u32 = 16;
/// The value from which on the thread passes each page at once. A few coincidences stay below.
const SHARING_MIN: u32 = 64;
const SHARING_MAX: u32 = 1024;

/// A thread's miss ring.
pub(super) struct ThreadRing {
    ring: MissRing,
    /// How often other threads miss the same pages. Each page lowers the value by one.
    sharing: Cell<u32>,
    /// Counts this ring.
    _counted: Arc<()>,
}

impl ThreadRing {
    /// Makes an empty ring.
    ///
    /// # Errors
    /// Fails with the system's error, or with `EAGAIN` if there are `NR_RINGS_MAX` rings.
    pub(super) fn new(server: &Server) -> io::Result<ThreadRing> {
        let counted = server.count_ring().ok_or(Errno::AGAIN)?;
        Ok(ThreadRing { ring: MissRing::new()?, sharing: Cell::new(0), _counted: counted })
    }

    /// Returns the file for the program to map.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.ring.file()
    }

    /// Inserts pages that the program has read, with numbers in the ring. Skips invalid pages,
    /// because the program needs no reply. Wakes the threads that wait for the pages.
    pub(super) fn insert(
        &self,
        one: &Description,
        records: &[(MissRecord, u64)],
        read_marks: &ReadMarks,
    ) {
        let _ = one.share_apart(|_, handle| {
            // Overlaps these cache misses with one another and with the copies.
            records.iter().for_each(|(record, _)| handle.fetch_absent(record.index));
            let nr_reads = records.iter().filter(|(record, _)| !record.continues).count();
            handle.count_device_reads(nr_reads as u64);
            let mut page = [0; PAGE_BYTES];
            for (record, nr) in records {
                self.ring.take(*nr, &mut page);
                let is_twice = match record {
                    _ if !record.is_whole(&page) => false,
                    MissRecord { is_around: true, .. } => {
                        handle.insert_around(record.index, record.writes, &page);
                        false
                    }
                    _ => {
                        handle.insert(record.index, record.writes, &page)
                            == Inserted::AlreadyResident
                    }
                };
                let is_waited =
                    handle.tag().is_some_and(|tag| read_marks.unmark(tag, record.index));
                self.count(is_twice || is_waited);
            }
            self.ring.tell_around(handle.nr_around());
            done(0)
        });
        self.ring.tell_at_once(self.sharing.get() >= SHARING_MIN);
    }

    fn count(&self, is_shared: bool) {
        let more = if is_shared { SHARED_PAGE } else { 0 };
        self.sharing.set((self.sharing.get() + more).min(SHARING_MAX).saturating_sub(1));
    }

    /// Frees the slots of the pages before `nr`.
    pub(super) fn give_back(&self, nr: u64) {
        self.ring.give_back(nr);
    }
}
