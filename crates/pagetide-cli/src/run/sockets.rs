//! The doorbell, and a thread for each socket that comes through it.
//!
//! ```text
//!   doorbell   one socket pair a run; the far end is inherited by every process of the tree
//!   packet     greeting + a new socket   -->  thread: request, reply, request, reply, end
//! ```
//!
//! The doorbell ends when the last process of the tree has: that is how a run knows.

use super::server::Server;
use super::told::Told;
use crate::terminal;
use pagetide_sys::wire::{
    CHUNK_BYTES, GREETING_BYTES, Greeting, Op, REPLY_BYTES, REQUEST_BYTES, Reply, Request, VERSION,
};
use rustix::io::{Errno, FdFlags, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A thread that only moves packets needs little.
const STACK_BYTES: usize = 512 << 10;

/// Our end of the doorbell, and the one for the tree.
pub(super) struct Doorbell {
    pub(super) near: OwnedFd,
    /// Inherited by whatever is started while this is open.
    pub(super) far: OwnedFd,
}

impl Doorbell {
    /// A doorbell whose far end is inherited, under a number out of programs' way.
    pub(super) fn new(base: i32) -> io::Result<Doorbell> {
        let flags = SocketFlags::CLOEXEC;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        // A limit on descriptors may be lower than the base.
        let high = rustix::io::fcntl_dupfd_cloexec(&far, base);
        let far = high.unwrap_or(far);
        rustix::io::fcntl_setfd(&far, FdFlags::empty())?;
        Ok(Doorbell { near, far })
    }
}

/// Serves until the last process of the tree is gone, and every socket of theirs.
pub(super) fn serve(doorbell: &OwnedFd, server: &Arc<Server>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let mut packet = [0; GREETING_BYTES];
    loop {
        let (nr_bytes, socket) = match receive(doorbell.as_fd(), &mut packet, RecvFlags::empty()) {
            Ok((0, None)) | Err(_) => break,
            Ok(received) => received,
        };
        let Some(socket) = socket else { continue };
        let Some(greeting) = Greeting::decode(&packet[..nr_bytes]) else { continue };
        if greeting.version != VERSION {
            // Its socket closes here, and it says so itself.
            continue;
        }
        server.enter(greeting.process);
        threads.retain(|thread| !thread.is_finished());
        let own = Arc::clone(server);
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        match thread.spawn(move || serve_socket(&socket, greeting.process, &own)) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                server.leave(greeting.process);
                terminal::note(&format!("pagetide: cannot serve one more thread: {error}"));
            }
        }
    }
    for thread in threads {
        // One that panicked has said so; the others' work is written back all the same.
        let _ = thread.join();
    }
}

/// Leaves also when a request panics.
struct Membership<'a>(&'a Server, u64);

impl Drop for Membership<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

fn serve_socket(socket: &OwnedFd, process: u64, server: &Arc<Server>) {
    let _membership = Membership(server, process);
    let mut packet = vec![0; REQUEST_BYTES + CHUNK_BYTES];
    let mut target = vec![0; CHUNK_BYTES];
    let mut told: Option<Told> = None;
    loop {
        let received = receive(socket.as_fd(), &mut packet, RecvFlags::empty());
        // What was told before comes before what is asked, and before the end.
        if let Some(told) = &told {
            told.take_all(server);
        }
        let (nr_bytes, descriptor) = match received {
            Ok((0, _)) | Err(_) => return,
            Ok(received) => received,
        };
        // What is no request comes from no library of ours: nothing more is to be learnt from it.
        let Some(request) = Request::decode(&packet[..nr_bytes]) else { return };
        let source = &packet[REQUEST_BYTES..nr_bytes];
        let is_sent = match (request.op, &told) {
            (Op::Touch | Op::Admit, Some(told)) => {
                told.take(&request, source, server);
                Ok(())
            }
            (Op::Touch, None) => {
                server.touch(source);
                Ok(())
            }
            (Op::Admit, None) => Ok(()),
            (Op::Share, _) => send_shared(socket, server),
            (Op::Tray, _) => {
                told = None;
                send_tray(socket, server, &mut told)
            }
            _ => {
                let (reply, nr_out) =
                    server.answer(process, &request, source, descriptor, &mut target);
                send(socket, &reply.encode(), &target[..nr_out])
            }
        };
        if is_sent.is_err() {
            return;
        }
    }
}

/// How many frames there are, their files, and that of the positions; none where the cache is not
/// shared.
fn send_shared(socket: &OwnedFd, server: &Server) -> Result<(), Errno> {
    match server.shared_files() {
        Some((files, nr_frames)) => send_files(socket, i64::from(nr_frames), &files),
        None => send_files(socket, 0, &[]),
    }
}

/// A tray, and a socket to tell of it by; none where there are enough already.
fn send_tray(socket: &OwnedFd, server: &Arc<Server>, told: &mut Option<Told>) -> Result<(), Errno> {
    match Told::new(server) {
        Ok((new, far)) => {
            let told = told.insert(new);
            send_files(socket, 1, &[told.tray(), far.as_fd()])
        }
        Err(_) => send_files(socket, 0, &[]),
    }
}

fn send_files(socket: &OwnedFd, result: i64, files: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let head = Reply::done(result).encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        beside.push(SendAncillaryMessage::ScmRights(files));
    }
    sendmsg(socket, &[IoSlice::new(&head)], &mut beside, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn send(socket: &OwnedFd, head: &[u8; REPLY_BYTES], bytes: &[u8]) -> Result<(), Errno> {
    let parts = [IoSlice::new(head), IoSlice::new(bytes)];
    rustix::io::retry_on_intr(|| {
        let mut nothing = SendAncillaryBuffer::default();
        sendmsg(socket, &parts, &mut nothing, SendFlags::NOSIGNAL)
    })?;
    Ok(())
}

/// One packet, and the descriptor beside it. Nothing, and no descriptor, is the end.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    packet: &mut [u8],
    flags: RecvFlags,
) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    loop {
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(packet)];
        match recvmsg(socket, &mut parts, &mut beside, flags | RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
            Ok(received) => {
                let descriptor = beside.drain().find_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
                    _ => None,
                });
                return Ok((received.bytes, descriptor));
            }
        }
    }
}
