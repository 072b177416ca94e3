//! This thread's socket to the server: one request, one reply.
//!
//! ```text
//!   thread --CHANNEL--> socket, made when first needed, for this process's number
//!   signal handler in the middle of a request --> a socket for that one request
//!   fork --> the number differs: a new one
//! ```
//!
//! **Invariants.** A packet is a head and data, never part of one; a reply belongs to the request
//! before it, because nobody else has the socket. Nothing here is a cancellation point, and none of
//! it is interrupted half-way: regular files are not, in the kernel.
//!
//! **Ignored.** A handler that leaves by longjmp in the middle of a request. Its thread then uses a
//! socket for each request; that is slow, and right.

use crate::errno::Errno;
use crate::{next, process};
use libc::{c_int, c_void, iovec, msghdr};
use pagetide_sys::wire::{DESCRIPTOR_BASE, Greeting, Op, REPLY_BYTES, Reply, Request, VERSION};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The most parts that data may come in.
pub(crate) const PARTS_MAX: usize = 64;

/// What a thread knows of its socket.
#[derive(Clone, Copy)]
struct Channel {
    process: u64,
    fd: c_int,
    is_busy: bool,
}

thread_local! {
    static CHANNEL: Cell<Channel> =
        const { Cell::new(Channel { process: 0, fd: -1, is_busy: false }) };
    /// Sockets that this thread has had.
    static SOCKET_NUMBER: Cell<u32> = const { Cell::new(0) };
}

/// The key whose destructor closes a thread's socket, plus one; 0 is none yet.
static KEY: AtomicU32 = AtomicU32::new(0);
static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);

/// A request without data or descriptor, to whom no more than a status can be the answer.
pub(crate) fn tell(op: Op) -> Result<Reply, Errno> {
    ask(&Request::new(op, 0), &[], None, &[])
}

/// Sends `request`, with the bytes of `source` and a descriptor beside it, and puts the bytes of
/// the reply into `target`.
///
/// # Errors
/// EIO where the server is gone, EFAULT where memory is not the program's.
pub(crate) fn ask(
    request: &Request,
    source: &[iovec],
    descriptor: Option<c_int>,
    target: &[iovec],
) -> Result<Reply, Errno> {
    let exchange = |fd| exchange(fd, request, source, descriptor, target);
    let mut reply = alone(exchange);
    if let Some(Err(Errno(libc::EBADF | libc::ENOTSOCK))) = reply {
        // The program has closed what it could not know of. Nothing was sent.
        process::remove_own(CHANNEL.get().fd);
        CHANNEL.set(Channel { fd: -1, ..CHANNEL.get() });
        reply = alone(exchange);
    }
    let reply = match reply {
        Some(reply) => reply,
        // In a signal's handler, in the middle of a request: a socket for this one.
        None => {
            let fd = open(process::number())?;
            let reply = exchange(fd);
            close(fd);
            reply
        }
    };
    reply.map_err(lost)
}

/// Has `exchange` use this thread's socket, and nobody else meanwhile. `None` if somebody does, or
/// if there is none to be had.
fn alone<T>(exchange: impl FnOnce(c_int) -> T) -> Option<T> {
    if !enter() || CHANNEL.get().is_busy {
        return None;
    }
    let channel = CHANNEL.get();
    CHANNEL.set(Channel { is_busy: true, ..channel });
    let result = exchange(channel.fd);
    CHANNEL.set(channel);
    Some(result)
}

/// Makes sure that this thread has a socket, and so somebody to notice its end.
pub(crate) fn enter() -> bool {
    let process = process::number();
    let channel = CHANNEL.get();
    if channel.process == process && channel.fd >= 0 {
        return true;
    }
    let is_busy = channel.is_busy && channel.process == process;
    let Some(Ok(fd)) = (!is_busy).then(|| open(process)) else { return false };
    CHANNEL.set(Channel { process, fd: adopt(fd), is_busy: false });
    true
}

/// Sends a request that has no reply; what cannot be sent is forgotten.
pub(crate) fn tell_only(request: &Request, source: &[iovec]) {
    let _ = alone(|fd| send(fd, &request.encode(), source, None));
}

/// Which of its sockets this thread has.
pub(crate) fn socket_number() -> u32 {
    SOCKET_NUMBER.get()
}

/// A request whose reply brings files; -1 where one did not come.
pub(crate) fn ask_for_files(op: Op) -> Result<(Reply, [c_int; NR_FILES]), Errno> {
    let fd = open(process::number())?;
    let reply = exchange_for_files(fd, op);
    close(fd);
    reply
}

/// The file of a tray that belongs to this thread's socket, and the socket to tell of it by.
pub(crate) fn ask_for_tray() -> Option<[c_int; 2]> {
    let (_, [file, told, _]) = alone(|fd| exchange_for_files(fd, Op::Tray))?.ok()?;
    if told >= 0 {
        let told = move_up(told);
        process::add_own(told);
        return Some([file, told]);
    }
    if file >= 0 {
        close(file);
    }
    None
}

/// Sends a request that has no reply by the socket for those; returns whether it could be sent.
pub(crate) fn tell_by(told: c_int, request: &Request, source: &[iovec]) -> bool {
    send(told, &request.encode(), source, None).is_ok()
}

fn exchange_for_files(fd: c_int, op: Op) -> Result<(Reply, [c_int; NR_FILES]), Errno> {
    send(fd, &Request::new(op, 0).encode(), &[], None)?;
    let mut head = [0; REPLY_BYTES];
    let mut rights = [Rights { len: 0, level: 0, kind: 0, files: [-1; NR_FILES] }];
    let (parts, nr_parts) = with_head(head.as_mut_ptr(), head.len(), &[]);
    let mut message = message(&parts, nr_parts);
    message.msg_control = rights.as_mut_ptr().cast::<c_void>();
    message.msg_controllen = size_of::<Rights>();
    let nr_bytes = packet(libc::SYS_recvmsg, fd, &message, libc::MSG_CMSG_CLOEXEC)?;
    let reply = Reply::decode(&head[..nr_bytes]).ok_or(Errno(libc::EIO))?;
    let is_rights = rights[0].level == libc::SOL_SOCKET && rights[0].kind == libc::SCM_RIGHTS;
    Ok((reply, if is_rights { rights[0].files } else { [-1; NR_FILES] }))
}

/// What the program is told of a failed exchange.
fn lost(errno: Errno) -> Errno {
    if errno.0 == libc::EFAULT {
        return errno;
    }
    if !HAS_COMPLAINED.swap(true, Ordering::Relaxed) {
        process::complain("pagetide: the page cache of this program is gone, or refused it\n");
    }
    Errno(libc::EIO)
}

fn exchange(
    fd: c_int,
    request: &Request,
    source: &[iovec],
    descriptor: Option<c_int>,
    target: &[iovec],
) -> Result<Reply, Errno> {
    let head = request.encode();
    send(fd, &head, source, descriptor)?;
    let mut head = [0; REPLY_BYTES];
    let nr_bytes = receive(fd, &mut head, target)?;
    Reply::decode(&head[..nr_bytes.min(REPLY_BYTES)]).ok_or(Errno(libc::EIO))
}

/// The most files that come with one reply.
const NR_FILES: usize = 3;

/// A control message with descriptors in it, as cmsg(3) lays it out.
#[repr(C, align(8))]
struct Rights {
    len: usize,
    level: c_int,
    kind: c_int,
    files: [c_int; NR_FILES],
}

fn send(fd: c_int, head: &[u8], source: &[iovec], descriptor: Option<c_int>) -> Result<(), Errno> {
    let (parts, nr_parts) = with_head(head.as_ptr().cast_mut(), head.len(), source);
    let mut rights = Rights {
        len: 16 + size_of::<c_int>(),
        level: libc::SOL_SOCKET,
        kind: libc::SCM_RIGHTS,
        files: [descriptor.unwrap_or(-1), 0, 0],
    };
    let mut message = message(&parts, nr_parts);
    if descriptor.is_some() {
        message.msg_control = std::ptr::from_mut(&mut rights).cast::<c_void>();
        message.msg_controllen = rights.len;
    }
    packet(libc::SYS_sendmsg, fd, &message, libc::MSG_NOSIGNAL).map(|_| ())
}

fn receive(fd: c_int, head: &mut [u8], target: &[iovec]) -> Result<usize, Errno> {
    let (parts, nr_parts) = with_head(head.as_mut_ptr(), head.len(), target);
    packet(libc::SYS_recvmsg, fd, &message(&parts, nr_parts), 0)
}

fn with_head(head: *mut u8, len: usize, rest: &[iovec]) -> ([iovec; PARTS_MAX + 1], usize) {
    let nothing = iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut parts = [nothing; PARTS_MAX + 1];
    parts[0] = iovec { iov_base: head.cast(), iov_len: len };
    let nr_parts = 1 + rest.len().min(PARTS_MAX);
    parts[1..nr_parts].copy_from_slice(&rest[..nr_parts - 1]);
    (parts, nr_parts)
}

fn message(parts: &[iovec; PARTS_MAX + 1], nr_parts: usize) -> msghdr {
    // SAFETY: numbers and pointers, for which zeros are valid (S20).
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_ptr().cast_mut();
    message.msg_iovlen = nr_parts;
    message
}

fn packet(number: libc::c_long, fd: c_int, message: &msghdr, flags: c_int) -> Result<usize, Errno> {
    let arguments = [fd as usize, process::address(message), flags as usize, 0, 0, 0];
    loop {
        // SAFETY: the message, its parts and its control data live through the call; parts of the
        // program's are those it gave us for just this (S20).
        match unsafe { next::system(number, arguments) } {
            Err(Errno(libc::EINTR)) => {}
            other => return other,
        }
    }
}

/// A new socket, whose other end the server has got.
fn open(process: u64) -> Result<c_int, Errno> {
    let mut ends: [c_int; 2] = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    let arguments = [libc::AF_UNIX as usize, kind as usize, 0, ends.as_mut_ptr() as usize, 0, 0];
    // SAFETY: room for two descriptors (S20).
    unsafe { next::system(libc::SYS_socketpair, arguments)? };
    // SAFETY: getpid has no arguments (S20).
    let pid = unsafe { libc::getpid() } as u32;
    let greeting = Greeting { version: VERSION, pid, process }.encode();
    let sent = send(process::doorbell(), &greeting, &[], Some(ends[1]));
    close(ends[1]);
    let near = move_up(ends[0]);
    match sent {
        Ok(()) => Ok(near),
        Err(errno) => {
            close(near);
            Err(lost(errno))
        }
    }
}

/// Out of the program's way, where the limit on descriptors allows.
fn move_up(fd: c_int) -> c_int {
    let command = libc::F_DUPFD_CLOEXEC as usize;
    let arguments = [fd as usize, command, DESCRIPTOR_BASE as usize, 0, 0, 0];
    // SAFETY: numbers only (S20).
    match unsafe { next::system(libc::SYS_fcntl, arguments) } {
        Ok(moved) => {
            close(fd);
            moved as c_int
        }
        Err(_) => fd,
    }
}

pub(crate) fn close(fd: c_int) {
    // SAFETY: a descriptor of ours that nobody uses any more (S22).
    let _ = unsafe { next::system(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Makes the socket the thread's, and has it closed with the thread.
fn adopt(fd: c_int) -> c_int {
    SOCKET_NUMBER.set(SOCKET_NUMBER.get().wrapping_add(1));
    process::add_own(fd);
    if let Some(key) = key() {
        // SAFETY: a key that was made, and a number as its value (S22).
        unsafe { libc::pthread_setspecific(key, (fd as usize + 1) as *const c_void) };
    }
    fd
}

fn key() -> Option<libc::pthread_key_t> {
    let known = KEY.load(Ordering::Acquire);
    if known != 0 {
        return Some(known - 1);
    }
    let mut key = 0;
    // SAFETY: room for a key; the destructor lives as long as this library, which nobody
    // unloads (S22).
    if unsafe { libc::pthread_key_create(&mut key, Some(close_with_thread)) } != 0 {
        return None;
    }
    // Another thread may have made one as well: both work.
    KEY.store(key + 1, Ordering::Release);
    Some(key)
}

extern "C" fn close_with_thread(value: *mut c_void) {
    let fd = (value as usize).wrapping_sub(1) as c_int;
    let channel = CHANNEL.get();
    if channel.fd == fd && channel.process == process::number() {
        crate::self_read::finish();
        CHANNEL.set(Channel { process: 0, fd: -1, is_busy: false });
        process::remove_own(fd);
        close(fd);
    }
}
