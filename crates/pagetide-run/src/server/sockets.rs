//! The server's socket, and a thread for each connection.
//!
//! ```text
//!   name       an abstract socket; a process connects before its first request
//!   socket     greeting, request, reply, request, reply, end
//! ```
//!
//! The server answers only processes of its own user, checked for each accepted socket and for the
//! sender of each packet. A process that has changed its user can inherit a socket.

use super::answer::Answer;
use super::changes::Author;
use super::identity::{lock, own_user};
use super::life::Link;
use super::miss_rings::ThreadRing;
use super::packets::{Next, Received, receive, receive_next};
use super::served_file::Description;
use super::windows::{Source, ThreadWindow};
use super::{Sender, Server, writing};
use crate::errno::Errno;
use crate::wire::{
    CHUNK_BYTES, GREETING_BYTES, Greeting, Op, REPLY_FILES_MAX, REQUEST_BYTES, Reply, Request,
    VERSION,
};
use pagetide_sys::Patience;
use pagetide_sys::window::Window;
use rustix::io::IoSlice;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown,
    SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, sendmsg, shutdown,
    socket_with, sockopt,
};
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Polls of the window for each poll of the socket, after a write by the window.
const AFTER_POSTS: u32 = 8;
/// Stack of a connection's thread, in bytes.
const STACK_BYTES: usize = 512 << 10;
/// Number of connections that may wait to be accepted.
const BACKLOG: i32 = 4096;
/// Pause before the next accept if descriptors or memory run out.
const PAUSE: Duration = Duration::from_millis(10);
/// Number of such pauses before the server stops accepting. Waiting processes then continue without
/// the server.
const PAUSES_MAX: u32 = 100;

/// The socket that processes connect to.
#[derive(Debug)]
pub struct Listener {
    /// Empty after the close.
    socket: Mutex<Option<Arc<OwnedFd>>>,
    name: String,
}

impl Listener {
    /// Returns the abstract socket's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn socket(&self) -> Option<Arc<OwnedFd>> {
        lock(&self.socket).clone()
    }

    pub(super) fn stop(&self) {
        if let Some(socket) = self.socket() {
            // A listening socket is not connected, so the error does not matter.
            let _ = shutdown(&*socket, Shutdown::Both);
        }
    }

    /// Makes a listener with a random name.
    ///
    /// # Errors
    /// Fails with the system's error if the socket cannot be made.
    pub fn new() -> io::Result<Listener> {
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let number = u128::from_le_bytes(random);
        let name = format!("pagetide-run-{number:032x}");
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        // Accepted sockets inherit this option, so each packet carries the sender's user.
        sockopt::set_socket_passcred(&socket, true)?;
        bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        listen(&socket, BACKLOG)?;
        Ok(Listener { socket: Mutex::new(Some(Arc::new(socket))), name })
    }
}

/// Returns true if a server with that name accepts connections.
pub(crate) fn answers(name: &str) -> bool {
    let connect = || {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)
    };
    connect().is_ok()
}

/// Accepts connections until the server stops. Returns after the last connection's end.
pub(super) fn serve(listener: &Listener, server: &Arc<Server>) {
    // Without free descriptors, this one is closed to accept a connection and close that
    // connection. The process then continues without the server.
    let mut spare = File::open("/dev/null").ok();
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let Some(listening) = listener.socket() else { return };
    let mut nr_pauses = 0;
    while !server.is_stopping() {
        let socket = match accept_with(&*listening, SocketFlags::CLOEXEC) {
            Ok(socket) => {
                nr_pauses = 0;
                socket
            }
            // The socket was shut down.
            Err(Errno::INVAL) => break,
            Err(Errno::INTR | Errno::CONNABORTED) => continue,
            Err(error) => {
                server.say_once(&format!(
                    "pagetide: cannot take one more connection of the program's: {error}"
                ));
                if nr_pauses == PAUSES_MAX {
                    // The socket closes with the last reference, and waiting processes notice.
                    lock(&listener.socket).take();
                    break;
                }
                drop(spare.take());
                if accept_with(&*listening, SocketFlags::CLOEXEC).is_err() {
                    nr_pauses += 1;
                    std::thread::sleep(PAUSE);
                }
                spare = File::open("/dev/null").ok();
                continue;
            }
        };
        if !is_own_user(&socket) {
            continue;
        }
        threads.retain(|thread| !thread.is_finished());
        let own = Arc::clone(server);
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        match thread.spawn(move || serve_socket(socket, &own)) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                // The socket closes here, and the program reports the failure itself.
                server.say_once(&format!("pagetide: cannot serve one more thread: {error}"));
            }
        }
    }
    drop(listening);
    for thread in threads {
        // A panic has printed a message, and other threads' bytes are written back all the same.
        let _ = thread.join();
    }
}

fn is_own_user(socket: &OwnedFd) -> bool {
    sockopt::socket_peercred(socket).is_ok_and(|other| other.uid == own_user())
}

/// Removes a process's socket, even if a request panics.
struct Membership<'a>(&'a Server, u64);

impl Drop for Membership<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

fn serve_socket(socket: OwnedFd, server: &Arc<Server>) {
    let mut greeting = [0; GREETING_BYTES];
    let Ok(Received { nr_bytes, pid, .. }) =
        receive(socket.as_fd(), &mut greeting, RecvFlags::empty())
    else {
        return;
    };
    // The closing socket tells a library of another version.
    let Some(greeting) = Greeting::decode(&greeting[..nr_bytes]) else { return };
    if greeting.version == VERSION {
        let life = server.holders.enter(greeting.process, pid);
        let _membership = Membership(server, greeting.process);
        let process = greeting.process;
        let link = Arc::new(Link { socket, life });
        Connection { link: &link, server, process, long: None, ring: None, window: None }.run();
    }
}

struct Connection<'a> {
    link: &'a Arc<Link>,
    server: &'a Arc<Server>,
    process: u64,
    /// A write with packets still to come.
    long: Option<writing::LongWrite>,
    ring: Option<ThreadRing>,
    window: Option<ThreadWindow>,
}

impl<'a> Connection<'a> {
    fn run(mut self) {
        let mut packet = vec![0; REQUEST_BYTES + CHUNK_BYTES];
        let mut target = vec![0; CHUNK_BYTES];
        let mut patience = Patience::NEW;
        let mut looks_at_socket = 1;
        loop {
            let (socket, long) = (self.link.socket.as_fd(), &mut self.long);
            let window = self.window.as_ref().map(|one| &one.window);
            let look = || window.is_some_and(Window::is_posted).then_some(());
            let may_sleep = || {
                if !window.is_none_or(Window::may_sleep) {
                    return false;
                }
                if long.is_some() && self.link.ends_before_packet() {
                    *long = None;
                }
                true
            };
            let look = (looks_at_socket, look);
            let next = receive_next(socket, &mut packet, &mut patience, look, may_sleep);
            looks_at_socket = if matches!(next, Next::Looked(())) { AFTER_POSTS } else { 1 };
            if let Some(window) = window {
                window.announce_awake();
            }
            let received = match next {
                Next::Looked(()) if self.answer_posted().is_err() => return,
                Next::Looked(()) | Next::Received(Err(Errno::AGAIN)) => continue,
                Next::Received(received) => received,
            };
            let Ok(Received { nr_bytes: nr_bytes @ 1.., files, pid }) = received else { return };
            // Not a packet of Pagetide's library. The connection ends.
            let Some(request) = Request::decode(&packet[..nr_bytes]) else { return };
            let source = &packet[REQUEST_BYTES..nr_bytes];
            if self.answer(&request, source, files, pid, &mut target).is_err() {
                return;
            }
        }
    }

    /// Answers the write in the window, if one is posted.
    fn answer_posted(&mut self) -> Result<(), Errno> {
        let Some(own) = self.window.take() else { return Ok(()) };
        if let Some((posted, write)) = own.claim() {
            // Not a write of Pagetide's library. The connection ends.
            let (request, source) = write.ok_or(Errno::INVAL)?;
            self.author().settle();
            let answer = self.write(&request, source);
            if own.answer(&posted, &answer) {
                send(&self.link.socket, &answer, &[])?;
            }
        }
        self.window = Some(own);
        Ok(())
    }

    fn answer(
        &mut self,
        request: &Request,
        source: &[u8],
        files: Vec<OwnedFd>,
        pid: i32,
        target: &mut [u8],
    ) -> Result<(), Errno> {
        match request.op {
            Op::Touch => {
                self.server.touch(source);
                Ok(())
            }
            Op::Insert => {
                if let Some(one) = &self.ring {
                    self.server.insert(one, request, source);
                }
                Ok(())
            }
            Op::Remember if request.total == 0 => {
                // The process does not wait for the outcome.
                let _ = self.server.remember(request, source);
                Ok(())
            }
            Op::Share => send_shared(&self.link.socket, self.server),
            Op::MissRing => {
                self.ring = None;
                send_ring(&self.link.socket, self.server, &mut self.ring)
            }
            Op::Window => {
                self.window = None;
                send_window(&self.link.socket, self.server, &mut self.window)
            }
            Op::Wake => Ok(()),
            Op::Settle => {
                self.author().settle();
                self.server.forget_ended();
                send(&self.link.socket, &Answer::of(Reply::done(0)), &[])
            }
            Op::Write | Op::WriteAt | Op::Append => {
                self.author().settle();
                let answer = self.write(request, Source::Packet(source));
                send(&self.link.socket, &answer, &[])
            }
            _ => {
                self.long = None;
                let author = self.author();
                author.settle();
                let sender = Sender { process: self.process, pid, author };
                let answer = self.server.answer(sender, request, source, files, target);
                send(&self.link.socket, &answer, &target[..answer.nr_out])
            }
        }
    }

    fn author(&self) -> Author<'a> {
        Author::new(&self.server.changes, self.link, self.process)
    }

    fn write(&mut self, request: &Request, source: Source<'_>) -> Answer {
        use crate::wire::write::LAST;
        let author = self.author();
        if let Some(long) = self.long.as_mut().filter(|long| long.is_next(request)) {
            let outcome = long.go_on(author, request, source);
            if request.flags & LAST != 0 || outcome.is_err() {
                self.long = None;
            }
            return outcome.unwrap_or_else(Answer::failed);
        }
        self.long = None;
        let act = |one: &Arc<Description>| writing::begin(one, author, request, source);
        let begin = || self.server.on(self.process, request.id, act);
        match self.server.with_room(begin) {
            Ok((answer, long)) => {
                self.long = long.filter(|_| request.flags & LAST == 0);
                answer
            }
            Err(errno) => self.server.or_kernel(request.id, errno).unwrap_or_else(Answer::failed),
        }
    }
}

/// Sends the number of frames, and the files of the frames, the positions and the pages in reading.
/// Sends 0 if the cache is not shared.
fn send_shared(socket: &OwnedFd, server: &Server) -> Result<(), Errno> {
    match (&server.frames, server.positions.files(), server.read_marks.file()) {
        (Some(([frames, numbers], nr_frames)), Some([moved, shown]), Some(read_marks)) => {
            let files = [frames.as_fd(), numbers.as_fd(), moved, shown, read_marks];
            send_files(socket, &Reply::done(i64::from(*nr_frames)), &[], &files)
        }
        _ => send_files(socket, &Reply::done(0), &[], &[]),
    }
}

/// Sends a new miss ring, or 0 at the maximum number.
fn send_ring(
    socket: &OwnedFd,
    server: &Server,
    ring: &mut Option<ThreadRing>,
) -> Result<(), Errno> {
    match ThreadRing::new(server) {
        Ok(new) => send_files(socket, &Reply::done(1), &[], &[ring.insert(new).file()]),
        Err(_) => send_files(socket, &Reply::done(0), &[], &[]),
    }
}

/// Sends a new write window, or 0 at the maximum number.
fn send_window(
    socket: &OwnedFd,
    server: &Server,
    window: &mut Option<ThreadWindow>,
) -> Result<(), Errno> {
    match ThreadWindow::new(server) {
        Ok(new) => {
            let new = &window.insert(new).window;
            let reply = Reply { total: new.len() as u64, ..Reply::done(1) };
            send_files(socket, &reply, &[], &[new.file()])
        }
        Err(_) => send_files(socket, &Reply::done(0), &[], &[]),
    }
}

fn send(socket: &OwnedFd, answer: &Answer, bytes: &[u8]) -> Result<(), Errno> {
    let files: Vec<BorrowedFd<'_>> = answer.files.iter().map(|file| file.as_fd()).collect();
    send_files(socket, &answer.reply, bytes, &files)
}

fn send_files(
    socket: &OwnedFd,
    reply: &Reply,
    bytes: &[u8],
    files: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let head = reply.encode();
    let parts = [IoSlice::new(&head), IoSlice::new(bytes)];
    rustix::io::retry_on_intr(|| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(REPLY_FILES_MAX))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            beside.push(SendAncillaryMessage::ScmRights(files));
        }
        sendmsg(socket, &parts, &mut beside, SendFlags::NOSIGNAL)
    })?;
    Ok(())
}
