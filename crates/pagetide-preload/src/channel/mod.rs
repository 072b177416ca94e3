//! The thread's socket to the server: one request, one reply.
//!
//! ```text
//!   thread --CHANNEL--> socket, connected at the first request, for this process's number
//!   signal handler in the middle of a request --> a socket for that one request
//!   fork --> the number differs: a new socket
//! ```
//!
//! **Invariants.** A packet is a whole head with data. A reply belongs to the request before,
//! because no other thread uses the socket. Nothing here is a cancellation point, and no call is
//! interrupted half-way, because the kernel does not interrupt calls on regular files either.
//!
//! **Ignored.** A handler that leaves by longjmp in the middle of a request. Its thread then uses a
//! socket for each request, which is slow but correct.

pub(crate) mod mapping;
pub(crate) mod window;

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

/// Maximum number of parts of a request's or a reply's data.
pub(crate) const PARTS_MAX: usize = 64;

/// A thread's socket, and its state.
#[derive(Clone, Copy)]
struct Channel {
    process: u64,
    fd: c_int,
    /// Index in the list of hidden descriptors.
    slot: usize,
    nr_exchanges: u32,
    is_busy: bool,
}

const NONE: Channel = Channel { process: 0, fd: -1, slot: 0, nr_exchanges: 0, is_busy: false };
/// Minimum number of exchanges after which an idle socket is kept.
const FEW_EXCHANGES: u32 = 64;
/// Minimum number of sockets after which a thread keeps an idle one: it opens many short files.
const FEW_SOCKETS: u32 = 4;

thread_local! {
    static CHANNEL: Cell<Channel> = const { Cell::new(NONE) };
    /// Adaptive spin of the thread that waits for a reply.
    static PATIENCE: Cell<Patience> = const { Cell::new(Patience::NEW) };
    /// Number of sockets that this thread has had.
    static SOCKET_NUMBER: Cell<u32> = const { Cell::new(0) };
}

/// Function that each thread runs before its socket is closed.
static BEFORE_CLOSE: OnceLock<fn()> = OnceLock::new();

/// Key of the destructor that closes a thread's socket, plus one, or 0 before the key is made.
static KEY: AtomicU32 = AtomicU32::new(0);
/// Socket of an ended thread that the process keeps. Upper half: the process's number. Lower half:
/// the descriptor.
static SPARE: AtomicU64 = AtomicU64::new(0);
static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);

/// A reply, and the received descriptors, or -1.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) files: [c_int; REPLY_FILES_MAX],
}

/// The data and descriptors of a request, and the memory for the reply's data.
#[derive(Clone, Copy, Default)]
pub(crate) struct Parcel<'a> {
    pub(crate) source: &'a [iovec],
    /// At most two descriptors.
    pub(crate) files: &'a [c_int],
    pub(crate) target: &'a [iovec],
}

/// Sends a request without data, descriptors or target.
pub(crate) fn tell(op: Op) -> Result<Reply, Errno> {
    Ok(ask(&Request::new(op, 0), Parcel::default())?.reply)
}

/// Sends `request` with its attachments, and stores the bytes of the reply in the target memory.
///
/// # Errors
/// Fails with `EIO` if the server is gone. Fails with `EFAULT` if the memory is not the program's.
/// Fails with `EMFILE` if there is no room for a descriptor.
pub(crate) fn ask(request: &Request, parcel: Parcel<'_>) -> Result<Answer, Errno> {
    if !process::is_on() {
        return Err(Errno(libc::EIO));
    }
    let exchange = |fd| exchange(fd, request, parcel);
    let mut answer = with_socket(exchange);
    if let Some(Err(errno)) = answer
        && is_of_socket(errno)
    {
        // The program has closed the hidden socket. The server has not processed the request.
        own::close_own(CHANNEL.get().fd);
        CHANNEL.set(NONE);
        answer = with_socket(exchange);
    }
    let answer = match answer {
        Some(answer) => answer,
        // A signal handler in the middle of a request uses another socket. If this thread has no
        // socket yet, this is a second attempt to connect.
        None => connect(own::number()).and_then(|fd| {
            let answer = exchange(fd);
            own::close(fd);
            answer
        }),
    };
    answer.map_err(lost)
}

/// Returns true if the descriptor is no socket, or if the server has closed its end unread.
fn is_of_socket(errno: Errno) -> bool {
    matches!(errno.0, libc::EBADF | libc::ENOTSOCK | libc::EPIPE | libc::ECONNRESET)
}

/// Calls `exchange` with this thread's socket, which nobody else uses meanwhile. Returns `None` if
/// the socket is in use, or if it cannot be made.
fn with_socket<T>(exchange: impl FnOnce(c_int) -> T) -> Option<T> {
    if !enter() || CHANNEL.get().is_busy {
        return None;
    }
    let channel = CHANNEL.get();
    CHANNEL.set(Channel { is_busy: true, ..channel });
    let result = exchange(channel.fd);
    CHANNEL.set(Channel { nr_exchanges: channel.nr_exchanges.saturating_add(1), ..channel });
    Some(result)
}

/// Closes a hardly used socket if the process has no stand-in any more. A program that looks at its
/// descriptors then finds only its own.
pub(crate) fn close_if_idle() {
    let channel = CHANNEL.get();
    let is_used = channel.nr_exchanges >= FEW_EXCHANGES || SOCKET_NUMBER.get() >= FEW_SOCKETS;
    let is_kept = channel.is_busy || is_used || pieces::is_any();
    let is_ours = channel.fd >= 0 && channel.process == own::number();
    if is_ours && !is_kept && table::managed().next().is_none() {
        close();
    }
}

/// Closes this thread's socket for good. The sockets of other threads, which may wait for replies,
/// end with the process.
pub(crate) fn leave() {
    own::close_own(CHANNEL.replace(NONE).fd);
}

/// Makes each thread run `last` before its socket is closed. Only the first function is kept.
pub(crate) fn run_before_close(last: fn()) {
    let _ = BEFORE_CLOSE.set(last);
}

fn close() {
    if let Some(last) = BEFORE_CLOSE.get() {
        last();
    }
    window::release();
    let channel = CHANNEL.replace(NONE);
    if !keep_spare(&channel) {
        own::close_own(channel.fd);
    }
}

/// Returns true if the socket of an ending thread stays open. After a process's last socket has
/// closed, the server takes the process and its mappings for gone. So a process with mappings keeps
/// one socket of its ended threads.
fn keep_spare(channel: &Channel) -> bool {
    if channel.fd < 0 || !pieces::is_any() {
        return false;
    }
    let word = channel.process << 32 | u64::from(channel.fd as u32);
    let before = SPARE.load(Ordering::Acquire);
    let is_kept = before >> 32 == word >> 32 && own::has(before as u32 as c_int);
    !is_kept && SPARE.compare_exchange(before, word, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Connects this thread's socket, if there is none. The server will notice the end of the socket.
pub(crate) fn enter() -> bool {
    if !process::is_on() {
        return false;
    }
    let process = own::number();
    let channel = CHANNEL.get();
    let is_busy = channel.is_busy && channel.process == process;
    // The program may have put a descriptor of its own in the socket's place.
    let is_there = channel.process == process && own::is_still(channel.slot, process, channel.fd);
    if is_busy || is_there {
        return true;
    }
    let Ok(fd) = connect(process) else { return false };
    let fd = adopt(fd);
    CHANNEL.set(Channel { process, fd, slot: own::slot_of(fd), ..NONE });
    true
}

/// Sends a request that has no reply. Ignores failures.
pub(crate) fn tell_only(request: &Request, parcel: Parcel<'_>) {
    let _ = with_socket(|fd| send(fd, &request.encode(), parcel));
}

/// Returns the number of sockets that this thread has had.
pub(crate) fn socket_number() -> u32 {
    SOCKET_NUMBER.get()
}

/// Returns the file of the miss ring that belongs to this thread's socket.
pub(crate) fn ask_for_ring() -> Option<c_int> {
    let request = Request::new(Op::MissRing, 0);
    let [file, ..] = with_socket(|fd| exchange(fd, &request, Parcel::default()))?.ok()?.files;
    (file >= 0).then_some(file)
}

/// Returns the file of the write window that belongs to this thread's socket, and the length of its
/// bytes.
fn ask_for_window() -> Option<(c_int, usize)> {
    let request = Request::new(Op::Window, 0);
    let Answer { reply, files: [file, ..] } =
        with_socket(|fd| exchange(fd, &request, Parcel::default()))?.ok()?;
    (file >= 0).then_some((file, reply.total as usize))
}

/// Makes the server report a sentence to the user, once in a run for each `number`.
pub(crate) fn say(number: u64, sentence: &[u8]) {
    if process::has_flag(variable::QUIET) {
        return;
    }
    let iov_len = sentence.len().min(SENTENCE_BYTES_MAX);
    let source = &[iovec { iov_base: sentence.as_ptr().cast_mut().cast(), iov_len }];
    let request = Request { flags: number, ..Request::new(Op::Say, 0) };
    // A server that is gone reports nothing.
    let _ = ask(&request, Parcel { source, ..Parcel::default() });
}

/// Returns the error that the program gets for a failed exchange. Reports the first lost exchange.
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

/// Receives the reply to a repeated request, with room for its descriptors above the limit.
fn receive_above(fd: c_int, target: &[iovec]) -> Result<Answer, Errno> {
    let received = match room::above(|| receive(fd, target)) {
        Some(received) => received?,
        // The reply has to be received in any case.
        None => receive(fd, target)?,
    };
    match received {
        Received::Whole(answer) => Ok(answer),
        Received::WithoutFiles(_) => Err(Errno(libc::EMFILE)),
    }
}

/// Undoes a mapping in the server, after there was no room for the descriptors of its reply. Other
/// requests have no effect to undo.
fn undo(fd: c_int, request: &Request, reply: &Reply) -> Result<(), Errno> {
    if request.op != Op::Map || reply.status != Status::Done {
        return Ok(());
    }
    let unmap = Request { flags: reply.offset, ..Request::new(Op::Unmap, request.id) };
    send(fd, &unmap.encode(), Parcel::default())?;
    receive(fd, &[]).map(|_| ())
}

/// A received packet.
enum Received {
    Whole(Answer),
    /// A packet with descriptors, for which this process has no room.
    WithoutFiles(Reply),
}

/// A control message with descriptors, in the layout of cmsg(3).
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
        // SAFETY: the message, its parts and its control data live through the call. The program
        // has passed its parts for this call (S20).
        match unsafe { next::system(number, arguments) } {
            Err(Errno(libc::EINTR)) => {}
            other => return other,
        }
    }
}

/// Returns a new socket, connected to the server. The greeting tells the server the process.
fn connect(process: u64) -> Result<c_int, Errno> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    let arguments = [libc::AF_UNIX as usize, kind as usize, 0, 0, 0, 0];
    // SAFETY: all arguments are numbers (S20).
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

/// Hides the socket, and makes the end of the thread close it.
fn adopt(fd: c_int) -> c_int {
    SOCKET_NUMBER.set(SOCKET_NUMBER.get().wrapping_add(1));
    let fd = own::keep(fd);
    if let Some(key) = key() {
        // SAFETY: a valid key, and a number as its value (S22).
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
    // SAFETY: room for a key. The destructor lives as long as this library, which is never unloaded
    // (S22).
    if unsafe { libc::pthread_key_create(&mut key, Some(close_with_thread)) } != 0 {
        return None;
    }
    // Another thread may have made a key as well. Both keys work.
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
