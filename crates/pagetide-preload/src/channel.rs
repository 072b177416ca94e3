//! This thread's socket to the server: one request, one reply.
//!
//! ```text
//!   thread --CHANNEL--> socket, connected when first needed, for this process's number
//!   signal handler in the middle of a request --> a socket for that one request
//!   fork --> the number differs: a new one
//! ```
//!
//! **Invariants.** A packet is a head and data, never part of one; a reply belongs to the request
//! before it, because no other thread has the socket. Nothing here is a cancellation point, and
//! none of it is interrupted half-way: regular files are not, in the kernel.
//!
//! **Ignored.** A handler that leaves by longjmp in the middle of a request. Its thread then uses a
//! socket for each request; that is slow, and right.

use crate::errno::Errno;
use crate::{next, own, pieces, process, room, table};
use libc::{c_int, c_void, iovec, msghdr};
use pagetide_run::wire::{
    Greeting, Op, REPLY_BYTES, REPLY_FILES_MAX, Reply, Request, SENTENCE_BYTES_MAX, Status,
    VERSION, variable,
};
use pagetide_sys::Patience;
use std::cell::Cell;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The most parts that data may come in.
pub(crate) const PARTS_MAX: usize = 64;

/// What a thread knows of its socket.
#[derive(Clone, Copy)]
struct Channel {
    process: u64,
    fd: c_int,
    /// In the list of descriptors that are ours.
    place: usize,
    nr_exchanges: u32,
    is_busy: bool,
}

const NONE: Channel = Channel { process: 0, fd: -1, place: 0, nr_exchanges: 0, is_busy: false };
/// A socket that was used less than that is not kept when there is nothing more to ask about.
const FEW_EXCHANGES: u32 = 64;
/// A thread that has had so many sockets keeps the next: it opens one short file after the other.
const FEW_SOCKETS: u32 = 4;

thread_local! {
    static CHANNEL: Cell<Channel> = const { Cell::new(NONE) };
    /// How long a reply is looked for.
    static PATIENCE: Cell<Patience> = const { Cell::new(Patience::NEW) };
    /// Sockets that this thread has had.
    static SOCKET_NUMBER: Cell<u32> = const { Cell::new(0) };
}

/// What each thread does before its socket is closed.
static BEFORE_CLOSE: OnceLock<fn()> = OnceLock::new();

/// The key whose destructor closes a thread's socket, plus one; 0 is none yet.
static KEY: AtomicU32 = AtomicU32::new(0);
/// The socket of an ended thread that the process keeps: half the process's number, half the
/// descriptor.
static SPARE: AtomicU64 = AtomicU64::new(0);
static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);

/// A reply, and the descriptors that came with it; -1 where there is none.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) files: [c_int; REPLY_FILES_MAX],
}

/// What goes with a request, and what memory its answer goes to.
#[derive(Clone, Copy, Default)]
pub(crate) struct Parcel<'a> {
    pub(crate) source: &'a [iovec],
    /// Two at most.
    pub(crate) files: &'a [c_int],
    pub(crate) target: &'a [iovec],
}

/// A request with nothing beside it.
pub(crate) fn tell(op: Op) -> Result<Reply, Errno> {
    Ok(ask(&Request::new(op, 0), Parcel::default())?.reply)
}

/// Sends `request` and what goes with it, and puts the bytes of the reply where they belong.
///
/// # Errors
/// EIO where the server is gone, EFAULT where memory is not the program's.
pub(crate) fn ask(request: &Request, parcel: Parcel<'_>) -> Result<Answer, Errno> {
    if !process::is_on() {
        return Err(Errno(libc::EIO));
    }
    let exchange = |fd| exchange(fd, request, parcel);
    let mut answer = alone(exchange);
    if let Some(Err(errno)) = answer
        && is_of_socket(errno)
    {
        // The program has closed what it could not know of: the server has not done it.
        own::close_own(CHANNEL.get().fd);
        CHANNEL.set(NONE);
        answer = alone(exchange);
    }
    let answer = match answer {
        Some(answer) => answer,
        // In a signal's handler, in the middle of a request: a socket for this one.
        None => connect(own::number()).and_then(|fd| {
            let answer = exchange(fd);
            own::close(fd);
            answer
        }),
    };
    answer.map_err(lost)
}

/// Whether the socket is none, or the server has closed its end unread.
fn is_of_socket(errno: Errno) -> bool {
    matches!(errno.0, libc::EBADF | libc::ENOTSOCK | libc::EPIPE | libc::ECONNRESET)
}

/// Has `exchange` use this thread's socket, and nothing else meanwhile. `None` if it is in use, or
/// if there is none to be had.
fn alone<T>(exchange: impl FnOnce(c_int) -> T) -> Option<T> {
    if !enter() || CHANNEL.get().is_busy {
        return None;
    }
    let channel = CHANNEL.get();
    CHANNEL.set(Channel { is_busy: true, ..channel });
    let result = exchange(channel.fd);
    CHANNEL.set(Channel { nr_exchanges: channel.nr_exchanges.saturating_add(1), ..channel });
    Some(result)
}

/// This process has no stand-in any more: a socket that was hardly used is closed, so that programs
/// that look at their descriptors find none that is not theirs.
pub(crate) fn close_if_idle() {
    let channel = CHANNEL.get();
    let is_used = channel.nr_exchanges >= FEW_EXCHANGES || SOCKET_NUMBER.get() >= FEW_SOCKETS;
    let is_kept = channel.is_busy || is_used || pieces::is_any();
    let is_ours = channel.fd >= 0 && channel.process == own::number();
    if is_ours && !is_kept && table::managed().next().is_none() {
        close();
    }
}

/// This thread asks nothing any more, and nor do others once they have their replies: what they
/// have is closed with the process.
pub(crate) fn leave() {
    own::close_own(CHANNEL.replace(NONE).fd);
}

/// Has `last` run by each thread before its socket is closed. The first one named stays.
pub(crate) fn run_before_close(last: fn()) {
    let _ = BEFORE_CLOSE.set(last);
}

fn close() {
    if let Some(last) = BEFORE_CLOSE.get() {
        last();
    }
    let channel = CHANNEL.replace(NONE);
    if !keep_spare(&channel) {
        own::close_own(channel.fd);
    }
}

/// Returns true if the socket of a thread that ends stays open. With its last socket, a process is
/// gone for the server, and its mappings are as well. So a process with mappings keeps one socket
/// of its ended threads.
fn keep_spare(channel: &Channel) -> bool {
    if channel.fd < 0 || !pieces::is_any() {
        return false;
    }
    let word = channel.process << 32 | u64::from(channel.fd as u32);
    let before = SPARE.load(Ordering::Acquire);
    let is_kept = before >> 32 == word >> 32 && own::has(before as u32 as c_int);
    !is_kept && SPARE.compare_exchange(before, word, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Makes sure that this thread has a socket, whose end the server will notice.
pub(crate) fn enter() -> bool {
    if !process::is_on() {
        return false;
    }
    let process = own::number();
    let channel = CHANNEL.get();
    let is_busy = channel.is_busy && channel.process == process;
    // The program may have put a descriptor of its own there.
    let is_there = channel.process == process && own::is_still(channel.place, process, channel.fd);
    if is_busy || is_there {
        return true;
    }
    let Ok(fd) = connect(process) else { return false };
    let fd = adopt(fd);
    CHANNEL.set(Channel { process, fd, place: own::place_of(fd), ..NONE });
    true
}

/// Sends a request that has no reply; what cannot be sent is forgotten.
pub(crate) fn tell_only(request: &Request, source: &[iovec]) {
    let _ = alone(|fd| send(fd, &request.encode(), Parcel { source, ..Parcel::default() }));
}

/// Which of its sockets this thread has.
pub(crate) fn socket_number() -> u32 {
    SOCKET_NUMBER.get()
}

/// The file of a tray that belongs to this thread's socket.
pub(crate) fn ask_for_tray() -> Option<c_int> {
    let request = Request::new(Op::Tray, 0);
    let [file, ..] = alone(|fd| exchange(fd, &request, Parcel::default()))?.ok()?.files;
    (file >= 0).then_some(file)
}

/// Has the server say a sentence to the user, once a run for each `number`.
pub(crate) fn say(number: u64, sentence: &[u8]) {
    if process::has_flag(variable::QUIET) {
        return;
    }
    let iov_len = sentence.len().min(SENTENCE_BYTES_MAX);
    let source = &[iovec { iov_base: sentence.as_ptr().cast_mut().cast(), iov_len }];
    let request = Request { flags: number, ..Request::new(Op::Say, 0) };
    // A server that is gone has nothing more to say.
    let _ = ask(&request, Parcel { source, ..Parcel::default() });
}

/// What the program is told of a failed exchange.
fn lost(errno: Errno) -> Errno {
    if matches!(errno.0, libc::EFAULT | libc::EMFILE) {
        return errno;
    }
    if !HAS_COMPLAINED.swap(true, Ordering::Relaxed) {
        let mut sentence = [b'\n'; 192];
        let mut text = &mut sentence[..191];
        let room = text.len();
        let _ = write!(
            text,
            "pagetide: process {} cannot ask its page cache (errno {}): files it opens are the \
             kernel's, calls on those it has fail with EIO",
            // SAFETY: getpid has no arguments (S20).
            unsafe { libc::getpid() },
            errno.0
        );
        let len = room - text.len() + 1;
        process::complain(std::str::from_utf8(&sentence[..len]).unwrap_or_default());
    }
    Errno(libc::EIO)
}

fn exchange(fd: c_int, request: &Request, parcel: Parcel<'_>) -> Result<Answer, Errno> {
    let send = || send(fd, &request.encode(), parcel);
    send()?;
    match receive(fd, parcel.target)? {
        Received::Whole(answer) => Ok(answer),
        Received::WithoutFiles(reply) => {
            undo(fd, request, &reply)?;
            send()?;
            receive_above(fd, parcel.target)
        }
    }
}

/// Receives a reply whose descriptors had no room.
fn receive_above(fd: c_int, target: &[iovec]) -> Result<Answer, Errno> {
    let received = match room::above(|| receive(fd, target)) {
        Some(received) => received?,
        // It has to be taken.
        None => receive(fd, target)?,
    };
    match received {
        Received::Whole(answer) => Ok(answer),
        Received::WithoutFiles(_) => Err(Errno(libc::EMFILE)),
    }
}

/// A request was answered with descriptors that had no room: the server is told what will not come
/// of it, where it matters.
fn undo(fd: c_int, request: &Request, reply: &Reply) -> Result<(), Errno> {
    if request.op != Op::Map || reply.status != Status::Done {
        return Ok(());
    }
    let unmap = Request { flags: reply.offset, ..Request::new(Op::Unmap, request.id) };
    send(fd, &unmap.encode(), Parcel::default())?;
    receive(fd, &[]).map(|_| ())
}

/// What a packet was.
enum Received {
    Whole(Answer),
    /// It had descriptors, for which this process has no room.
    WithoutFiles(Reply),
}

/// A control message with descriptors in it, as cmsg(3) lays it out.
#[repr(C, align(8))]
struct Rights {
    len: usize,
    level: c_int,
    kind: c_int,
    files: [c_int; REPLY_FILES_MAX],
}

/// Bytes of a control message before its descriptors.
const RIGHTS_HEAD: usize = 16;

fn send(fd: c_int, head: &[u8], parcel: Parcel<'_>) -> Result<(), Errno> {
    let (parts, nr_parts) = with_head(head.as_ptr().cast_mut(), head.len(), parcel.source);
    let mut rights = Rights {
        len: RIGHTS_HEAD + size_of_val(parcel.files),
        level: libc::SOL_SOCKET,
        kind: libc::SCM_RIGHTS,
        files: [-1; REPLY_FILES_MAX],
    };
    rights.files[..parcel.files.len()].copy_from_slice(parcel.files);
    let mut message = message(&parts, nr_parts);
    if !parcel.files.is_empty() {
        message.msg_control = std::ptr::from_mut(&mut rights).cast::<c_void>();
        message.msg_controllen = rights.len;
    }
    packet(libc::SYS_sendmsg, fd, &raw mut message, libc::MSG_NOSIGNAL).map(|_| ())
}

fn receive(fd: c_int, target: &[iovec]) -> Result<Received, Errno> {
    let mut head = [0; REPLY_BYTES];
    let mut rights = [Rights { len: 0, level: 0, kind: 0, files: [-1; REPLY_FILES_MAX] }];
    let (parts, nr_parts) = with_head(head.as_mut_ptr(), head.len(), target);
    let mut message = message(&parts, nr_parts);
    message.msg_control = rights.as_mut_ptr().cast::<c_void>();
    message.msg_controllen = size_of::<Rights>();
    let place = std::ptr::from_mut(&mut message);
    let receive = |flags| packet(libc::SYS_recvmsg, fd, place, libc::MSG_CMSG_CLOEXEC | flags);
    let look = || Some(receive(libc::MSG_DONTWAIT)).filter(|one| *one != Err(Errno(libc::EAGAIN)));
    let mut patience = PATIENCE.get();
    let nr_bytes = patience.wait(look, || receive(0));
    PATIENCE.set(patience);
    let nr_bytes = nr_bytes?;
    let Rights { level, kind, files, .. } = rights[0];
    let is_rights = (level, kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
    let reply = Reply::decode(&head[..nr_bytes.min(REPLY_BYTES)]).ok_or(Errno(libc::EIO))?;
    let files = if is_rights { files } else { [-1; REPLY_FILES_MAX] };
    if message.msg_flags & libc::MSG_CTRUNC == 0 {
        return Ok(Received::Whole(Answer { reply, files }));
    }
    files.into_iter().filter(|file| *file >= 0).for_each(own::close);
    Ok(Received::WithoutFiles(reply))
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

fn packet(
    number: libc::c_long,
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> Result<usize, Errno> {
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

/// A new socket, connected to the server, which knows whose it is.
fn connect(process: u64) -> Result<c_int, Errno> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    let arguments = [libc::AF_UNIX as usize, kind as usize, 0, 0, 0, 0];
    // SAFETY: numbers only (S20).
    let make = || unsafe { next::system(libc::SYS_socket, arguments) };
    let fd = room::with_room(make).map_err(lost)? as c_int;
    // SAFETY: getpid has no arguments (S20).
    let pid = unsafe { libc::getpid() } as u32;
    let greeting = Greeting { version: VERSION, pid, process }.encode();
    let greeted =
        connect_by_name(fd).and_then(|()| send(fd, &greeting, Parcel::default())).map_err(lost);
    if greeted.is_err() {
        own::close(fd);
    }
    greeted.map(|()| fd)
}

/// Connects to the abstract socket of the server's name.
fn connect_by_name(fd: c_int) -> Result<(), Errno> {
    let name = process::server_name();
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
    if name.len() >= address.sun_path.len() {
        return Err(Errno(libc::ENAMETOOLONG));
    }
    address.sun_path[1..].iter_mut().zip(name).for_each(|(to, byte)| *to = *byte as libc::c_char);
    let len = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    loop {
        let arguments = [fd as usize, process::address(&address), len, 0, 0, 0];
        // SAFETY: an address that lives through the call (S20).
        match unsafe { next::system(libc::SYS_connect, arguments) } {
            Err(Errno(libc::EINTR)) => {}
            other => return other.map(|_| ()),
        }
    }
}

/// Makes the socket the thread's, and has it closed with the thread.
fn adopt(fd: c_int) -> c_int {
    SOCKET_NUMBER.set(SOCKET_NUMBER.get().wrapping_add(1));
    let fd = own::keep(fd);
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
    // SAFETY: room for a key; the destructor lives as long as this library, which is never unloaded
    // (S22).
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
    if process::is_on() && channel.fd == fd && channel.process == own::number() {
        close();
    }
}
