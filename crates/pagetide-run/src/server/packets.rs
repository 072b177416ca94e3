//! Received packets: bytes, passed descriptors, and the sending process.

use super::identity::own_user;
use crate::errno::Errno;
use crate::wire::REQUEST_FILES_MAX;
use pagetide_sys::Patience;
use rustix::io::IoSliceMut;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

pub(super) struct Received {
    pub(super) nr_bytes: usize,
    pub(super) files: Vec<OwnedFd>,
    /// System's id of the sending process.
    pub(super) pid: i32,
}

/// A packet, or a result of a look elsewhere.
pub(super) enum Next<T> {
    Received(Result<Received, Errno>),
    Looked(T),
}

/// Waits for a packet as [`receive`] does, or for a result of `look`, after an adaptive spin. The
/// spin polls the socket at each `looks_at_socket`-th look. Calls `may_sleep` before a blocking
/// wait. If `may_sleep` returns false, `look` has a result.
pub(super) fn receive_next<T>(
    socket: BorrowedFd<'_>,
    packet: &mut [u8],
    patience: &mut Patience,
    (looks_at_socket, look): (u32, impl Fn() -> Option<T>),
    may_sleep: impl FnOnce() -> bool,
) -> Next<T> {
    let (packet, was_there) = (Cell::new(packet), RecvFlags::DONTWAIT);
    let receive = |flags| {
        let bytes = packet.take();
        let received = receive(socket, bytes, flags);
        packet.set(bytes);
        received
    };
    let mut nr_looks = 0;
    let look_twice = || {
        nr_looks += 1;
        let looked = look().map(Next::Looked);
        if looked.is_some() || !u32::is_multiple_of(nr_looks, looks_at_socket) {
            return looked;
        }
        match receive(was_there) {
            Err(Errno::AGAIN) => None,
            received => Some(Next::Received(received)),
        }
    };
    let sleep = || match may_sleep() {
        true => Next::Received(receive(RecvFlags::empty())),
        false => look().map_or(Next::Received(Err(Errno::AGAIN)), Next::Looked),
    };
    patience.wait(look_twice, sleep)
}

/// Waits for one packet. An empty packet means a closed socket. Fails with `EPERM` for another
/// user's packet.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    packet: &mut [u8],
    flags: RecvFlags,
) -> Result<Received, Errno> {
    const SPACE: usize = rustix::cmsg_space!(ScmRights(REQUEST_FILES_MAX), ScmCredentials(1));
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let nr_bytes = rustix::io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(packet)];
        recvmsg(socket, &mut parts, &mut beside, flags | RecvFlags::CMSG_CLOEXEC)
    })?
    .bytes;
    let (mut files, mut pid) = (Vec::new(), 0);
    for message in beside.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(descriptors) => files.extend(descriptors),
            RecvAncillaryMessage::ScmCredentials(sender) if sender.uid != own_user() => {
                return Err(Errno::PERM);
            }
            RecvAncillaryMessage::ScmCredentials(sender) => pid = sender.pid.as_raw_nonzero().get(),
            _ => {}
        }
    }
    Ok(Received { nr_bytes, files, pid })
}
