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

/// Receives the next packet as [`receive`] does, after an adaptive spin. Calls `about_to_sleep`
/// before a blocking wait.
pub(super) fn receive_next(
    socket: BorrowedFd<'_>,
    packet: &mut [u8],
    patience: &mut Patience,
    about_to_sleep: impl FnOnce(),
) -> Result<Received, Errno> {
    let (packet, was_there) = (Cell::new(packet), RecvFlags::DONTWAIT);
    let receive = |flags| {
        let bytes = packet.take();
        let received = receive(socket, bytes, flags);
        packet.set(bytes);
        received
    };
    let look = || Some(receive(was_there)).filter(|one| !matches!(one, Err(Errno::AGAIN)));
    let sleep = || {
        about_to_sleep();
        receive(RecvFlags::empty())
    };
    patience.wait(look, sleep)
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
