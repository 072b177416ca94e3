//! Notices: requests without a reply, through a socket of their own, to a thread of ours that
//! yields the processor.
//!
//! **Problem.** A thread that asks waits, and should have an answer at once; one that sends notice
//! of a miss or a hit goes on, and should not be preempted by the thread that takes that in. One
//! thread of ours cannot do both: woken for the one it must take the processor, for the other it
//! must not. **Idea.** Two.
//!
//! ```text
//!   program                  pagetide run
//!   socket    question ----> its thread: first takes in the notices, then answers
//!             notice ------> the same, while earlier notices are not taken in yet
//!   notices   notice ------> a thread behind all others, whenever there is time (SCHED_BATCH)
//! ```
//!
//! **Invariants.** Pages are taken in the order of their notices: under a lock, and the one way is
//! used only when no page is left in the other. A notice comes before a question after it,
//! whichever thread it was left to: no description is closed before its misses are counted.
//!
//! **Ignored.** A log of hits without pages, left to the thread that answers, may come after later
//! notices. That thread waits for the other's packet, where the other has the lock; if the other
//! was preempted in the middle, until it runs again.

use super::Server;
use super::answer::done;
use super::identity::lock;
use super::packets::{Received, receive};
use super::requests::OpenFile;
use crate::wire::{NOTICE_BYTES, Offer, Op, REQUEST_BYTES, Request};
use pagetide::seam::SharedPages;
use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::tray::Tray;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, Shutdown, SocketFlags, SocketType};
use rustix::net::{recv, shutdown, socketpair, sockopt};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A thread that only takes pages in needs little.
const STACK_BYTES: usize = 256 << 10;

/// The notices of one thread of a program, and the thread that takes them in.
pub(super) struct Notices {
    taker: Arc<Taker>,
    thread: Option<JoinHandle<()>>,
}

struct Taker {
    tray: Tray,
    socket: OwnedFd,
    /// Held while something is taken, and with it the turn to take.
    packet: Mutex<Box<[u8]>>,
    /// Counts trays.
    _counted: Arc<()>,
}

impl Notices {
    /// A tray, a socket to tell of it by, of which the other end is returned, and a thread that
    /// listens.
    ///
    /// # Errors
    /// What the system says: of memory, descriptors or threads; or that there are enough already.
    pub(super) fn new(server: &Arc<Server>) -> io::Result<(Notices, OwnedFd)> {
        let counted = server.count_tray().ok_or(Errno::AGAIN)?;
        let flags = SocketFlags::CLOEXEC;
        let (socket, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        sockopt::set_socket_passcred(&socket, true)?;
        let packet = vec![0; REQUEST_BYTES + NOTICE_BYTES].into_boxed_slice();
        let (tray, packet) = (Tray::new()?, Mutex::new(packet));
        let taker = Arc::new(Taker { tray, socket, packet, _counted: counted });
        let (own, server) = (Arc::clone(&taker), Arc::clone(server));
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = thread.spawn(move || own.listen(&server))?;
        Ok((Notices { taker, thread: Some(thread) }, far))
    }

    /// The tray, to be mapped by the other side.
    pub(super) fn tray(&self) -> BorrowedFd<'_> {
        self.taker.tray.file()
    }

    /// Takes in all notices, at once.
    pub(super) fn take_all(&self, server: &Server) {
        while self.taker.take_one(server) {}
    }

    /// Takes in a notice that came on the socket for questions.
    pub(super) fn take(&self, request: &Request, data: &[u8], server: &Server) {
        let _turn = lock(&self.taker.packet);
        self.taker.take(request, data, server);
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        // No notice will come: the thread finds the end.
        let _ = shutdown(&self.taker.socket, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Taker {
    /// Until the other end is closed.
    fn listen(&self, server: &Server) {
        pagetide_sys::run_behind_others();
        while self.wait() {
            self.take_one(server);
        }
    }

    /// Waits for a packet, and leaves it where it is; `false` at the end.
    fn wait(&self) -> bool {
        let mut first = [0; 1];
        let look = || recv(&self.socket, &mut first, RecvFlags::PEEK);
        rustix::io::retry_on_intr(look).is_ok_and(|(_, nr_bytes)| nr_bytes > 0)
    }

    /// Takes in one packet, if there is one.
    fn take_one(&self, server: &Server) -> bool {
        let mut packet = lock(&self.packet);
        let received = receive(self.socket.as_fd(), &mut packet, RecvFlags::DONTWAIT);
        let Ok(Received { nr_bytes: nr_bytes @ 1.., .. }) = received else { return false };
        if let Some(request) = Request::decode(&packet[..nr_bytes]) {
            self.take(&request, &packet[REQUEST_BYTES..nr_bytes], server);
        }
        true
    }

    /// The caller has the lock.
    fn take(&self, request: &Request, data: &[u8], server: &Server) {
        match request.op {
            Op::Admit => server.admit(&self.tray, request, data),
            Op::Touch => server.touch(data),
            _ => {}
        }
    }
}

/// Takes in pages that the other side has read by itself, each with its number in the tray; what
/// cannot be had is not missed.
pub(super) fn admit(one: &OpenFile, tray: &Tray, offers: &[(Offer, u64)]) {
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
