//! Miss rings (trays): a program's thread inserts pages that the thread has read without the
//! server.
//!
//! ```text
//!   program                     pagetide run
//!   ring      pages             |
//!   socket    notice of them -> the server's thread inserts the pages in the cache; no reply
//! ```
//!
//! A notice precedes the thread's later requests, so misses are counted before the close of a
//! description.

use super::Server;
use super::answer::done;
use super::served_file::Description;
use crate::wire::Offer;
use pagetide::seam::SharedPages;
use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::tray::Tray;
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A thread's miss ring.
pub(super) struct ThreadTray {
    pub(super) tray: Tray,
    /// Counts this ring.
    _counted: Arc<()>,
}

impl ThreadTray {
    /// Makes an empty ring.
    ///
    /// # Errors
    /// Fails with the system's error, or with `EAGAIN` if there are `NR_TRAYS_MAX` rings.
    pub(super) fn new(server: &Server) -> io::Result<ThreadTray> {
        let counted = server.count_tray().ok_or(Errno::AGAIN)?;
        Ok(ThreadTray { tray: Tray::new()?, _counted: counted })
    }

    /// Returns the file for the program to map.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.tray.file()
    }
}

/// Inserts pages that the program has read, with numbers in the ring. Skips invalid pages, because
/// the program needs no reply.
pub(super) fn admit(one: &Description, tray: &Tray, offers: &[(Offer, u64)]) {
    let _ = one.share_apart(|_, handle| {
        // Overlaps these cache misses with one another and with the copies.
        offers.iter().for_each(|(offer, _)| handle.fetch_absent(offer.index));
        let nr_reads = offers.iter().filter(|(offer, _)| !offer.continues).count();
        handle.count_device_reads(nr_reads as u64);
        let mut page = [0; PAGE_BYTES];
        for (offer, nr) in offers {
            tray.take(*nr, &mut page);
            match offer {
                _ if !offer.is_whole(&page) => false,
                Offer { is_around: true, .. } => {
                    handle.admit_around(offer.index, offer.writes, &page)
                }
                _ => handle.admit(offer.index, offer.writes, &page),
            };
        }
        tray.tell_around(handle.nr_around());
        done(0)
    });
}
