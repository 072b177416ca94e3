//! Trays: where threads of programs set down pages that they have read by themselves.
//!
//! ```text
//!   program                     pagetide run
//!   tray      pages             |
//!   socket    notice of them -> its thread: takes them in; no reply
//! ```
//!
//! A notice comes before a question after it: no description is closed before its misses are
//! counted.

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

/// The tray of one thread of a program.
pub(super) struct ThreadTray {
    pub(super) tray: Tray,
    /// Counts trays.
    _counted: Arc<()>,
}

impl ThreadTray {
    /// An empty one.
    ///
    /// # Errors
    /// What the system says of memory or descriptors; or that there are enough already.
    pub(super) fn new(server: &Server) -> io::Result<ThreadTray> {
        let counted = server.count_tray().ok_or(Errno::AGAIN)?;
        Ok(ThreadTray { tray: Tray::new()?, _counted: counted })
    }

    /// To be mapped by the other side.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.tray.file()
    }
}

/// Takes in pages that the other side has read by itself, each with its number in the tray; what
/// cannot be had is not missed.
pub(super) fn admit(one: &Description, tray: &Tray, offers: &[(Offer, u64)]) {
    let _ = one.share_apart(|_, handle| {
        // Their cache misses pass side by side, and while bytes are copied.
        offers.iter().for_each(|(offer, _)| handle.fetch_absent(offer.index));
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
