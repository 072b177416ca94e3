//! The doorbell, and a thread for each socket that comes through it.
//!
//! ```text
//!   doorbell   one socket pair a run; the far end is inherited by every process of the tree
//!   packet     greeting + a new socket   -->  thread: request, reply, request, reply, end
//! ```
//!
//! The doorbell ends when the last process of the tree has: that is how a run knows.

use super::server::Server;
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
        let (nr_bytes, socket) = match receive(doorbell, &mut packet) {
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

fn serve_socket(socket: &OwnedFd, process: u64, server: &Server) {
    let _membership = Membership(server, process);
    // Who asks waits, and is not disturbed; who only tells us something goes on until it waits.
    pagetide_sys::run_behind_others();
    let mut packet = vec![0; REQUEST_BYTES + CHUNK_BYTES];
    let mut target = vec![0; CHUNK_BYTES];
    let mut tray = None;
    loop {
        let (nr_bytes, descriptor) = match receive(socket, &mut packet) {
            Ok((0, _)) | Err(_) => return,
            Ok(received) => received,
        };
        // What is no request comes from no library of ours: nothing more is to be learnt from it.
        let Some(request) = Request::decode(&packet[..nr_bytes]) else { return };
        let source = &packet[REQUEST_BYTES..nr_bytes];
        if request.op == Op::Touch {
            server.touch(source);
            continue;
        }
        if request.op == Op::Admit {
            if let Some((tray, _)) = &tray {
                server.admit(tray, &request, source);
            }
            continue;
        }
        if request.op == Op::Share {
            if send_shared(socket, server).is_err() {
                return;
            }
            continue;
        }
        if request.op == Op::Tray {
            tray = server.make_tray();
            let file = tray.as_ref().map(|(tray, _)| tray.file());
            if send_files(socket, i64::from(file.is_some()), file.as_slice()).is_err() {
                return;
            }
            continue;
        }
        let (reply, nr_out) = server.answer(process, &request, source, descriptor, &mut target);
        if send(socket, &reply.encode(), &target[..nr_out]).is_err() {
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
fn receive(socket: &OwnedFd, packet: &mut [u8]) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    loop {
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(packet)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        match recvmsg(socket.as_fd(), &mut parts, &mut beside, flags) {
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
