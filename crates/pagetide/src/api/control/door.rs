//! A listener that answers small requests, whatever its clients do.
//!
//! One thread polls all connections. A request is answered as soon as it is whole, and its
//! connection is closed when the answer is sent.
//!
//! ```text
//!   connection   accepted at once; a full table drops the connection with the earliest deadline
//!   request      at most as long as the protocol says, there within REQUEST_TIME, or it is closed
//!   answer       taken within ANSWER_TIME, or it is closed
//! ```
//!
//! A client that says nothing, sends garbage or does not read costs one place in the table, and
//! nothing grows. It delays no other client, because a new connection never waits for a place. A
//! connection whose request has arrived is answered before it is dropped.
//!
//! Ignored: fairness between clients. One answer that takes long holds up the others.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, listen, recv, send};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most connections in the table.
const CLIENTS_MAX: usize = 512;
/// Connections in the system's queue; the system may allow fewer.
const BACKLOG: i32 = 4096;
/// The table takes at most one in so many of the process's descriptors.
const DESCRIPTOR_SHARE: u64 = 4;
const REQUEST_TIME: Duration = Duration::from_secs(2);
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// How long no client is accepted after the system has refused to: it has no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// What is said over the connections of a listener.
pub(super) trait Protocol: Send + 'static {
    /// The longest request, bytes.
    const REQUEST_BYTES_MAX: usize;

    /// Whether this client may ask.
    fn admits(&self, client: BorrowedFd<'_>) -> bool;

    /// How long the request is that these bytes begin with, if it is whole.
    fn whole(&self, received: &[u8]) -> Option<usize>;

    /// The answer to a request.
    fn answer(&mut self, request: &[u8]) -> Vec<u8>;
}

/// The listener's thread; dropped, it ends, and its connections with it.
pub(super) struct Door {
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Door {
    /// Answers the clients of `listener`, which does not block.
    pub(super) fn open(
        name: &str,
        listener: impl Into<OwnedFd>,
        protocol: impl Protocol,
    ) -> io::Result<Door> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let seen = stop.try_clone()?;
        let listener = listener.into();
        // The standard library's queue is 128 connections long.
        listen(&listener, BACKLOG)?;
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || serve(&listener, &seen, protocol))?;
        Ok(Door { stop, thread: Some(thread) })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // Its counter is 0: there is room for one.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn serve<P: Protocol>(listener: &OwnedFd, stop: &OwnedFd, mut protocol: P) {
    let mut clients = Clients { open: Vec::new(), most: places() };
    let mut paused_until: Option<Instant> = None;
    loop {
        paused_until = paused_until.filter(|until| *until > Instant::now());
        let is_listening = paused_until.is_none();
        let deadlines = clients.open.iter().map(|client| client.deadline);
        let wake_at = deadlines.chain(paused_until).min();
        let Ok(ready) = wait(listener, stop, &clients.open, is_listening, wake_at) else { return };
        // A request that came in time is answered, late as it may be because of others.
        let mut is_ready = ready.clients.iter();
        clients.open.retain_mut(|client| {
            let is_open = !is_ready.next().copied().unwrap_or(false)
                || client.go_on(&mut protocol) == Next::Wait;
            is_open && client.deadline > Instant::now()
        });
        if ready.listener && clients.accept(listener, &mut protocol).is_err() {
            paused_until = Some(Instant::now() + PAUSE);
        }
    }
}

/// Returns the number of connections that this process's descriptors allow.
fn places() -> usize {
    let share = getrlimit(Resource::Nofile).current.map_or(u64::MAX, |nr| nr / DESCRIPTOR_SHARE);
    usize::try_from(share).unwrap_or(CLIENTS_MAX).clamp(1, CLIENTS_MAX)
}

/// The table of connections.
struct Clients {
    open: Vec<Client>,
    most: usize,
}

impl Clients {
    /// Accepts the connections in the queue, at most one table full of them.
    ///
    /// # Errors
    /// The system refuses, and there is no connection to drop for it.
    fn accept<P: Protocol>(&mut self, listener: &OwnedFd, protocol: &mut P) -> Result<(), Errno> {
        for _ in 0..self.most {
            match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) if protocol.admits(socket.as_fd()) => self.add(socket, protocol),
                Ok(_) | Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return Ok(()),
                // No descriptor is left.
                Err(error) if !self.drop_one(protocol) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn add<P: Protocol>(&mut self, socket: OwnedFd, protocol: &mut P) {
        let mut client = Client::new(socket);
        // Most requests are there already.
        if client.go_on(protocol) == Next::Close {
            return;
        }
        if self.open.len() >= self.most {
            self.drop_one(protocol);
        }
        self.open.push(client);
    }

    /// Drops the connection with the earliest deadline: the oldest that has not asked. Returns
    /// false if there is none.
    fn drop_one<P: Protocol>(&mut self, protocol: &mut P) -> bool {
        let open = self.open.iter().enumerate();
        let Some((oldest, _)) = open.min_by_key(|(_, client)| client.deadline) else {
            return false;
        };
        // Its request may have come since the last poll.
        let _ = self.open.remove(oldest).go_on(protocol);
        true
    }
}

/// What can go on.
struct Ready {
    listener: bool,
    clients: Vec<bool>,
}

/// Waits until something can; an error ends the thread, as it was asked to.
fn wait(
    listener: &OwnedFd,
    stop: &OwnedFd,
    clients: &[Client],
    is_listening: bool,
    wake_at: Option<Instant>,
) -> Result<Ready, Errno> {
    let mut fds = vec![PollFd::new(stop, PollFlags::IN)];
    fds.extend(clients.iter().map(|client| PollFd::new(&client.socket, client.waits_for())));
    if is_listening {
        fds.push(PollFd::new(listener, PollFlags::IN));
    }
    let left = wake_at.map(|at| at.saturating_duration_since(Instant::now()));
    let timeout = left.map(|left| Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(Ready { listener: false, clients: Vec::new() }),
        Err(error) => return Err(error),
    }
    let mut is_ready = fds.iter().map(|fd| !fd.revents().is_empty());
    if is_ready.next() == Some(true) {
        return Err(Errno::CANCELED);
    }
    let clients: Vec<bool> = is_ready.by_ref().take(clients.len()).collect();
    Ok(Ready { listener: is_ready.next().unwrap_or(false), clients })
}

/// Whether a connection stays.
#[derive(PartialEq, Eq)]
enum Next {
    Wait,
    Close,
}

/// One connection.
struct Client {
    socket: OwnedFd,
    received: Vec<u8>,
    /// What is left to be sent of the answer, once there is one.
    answer: Option<(Vec<u8>, usize)>,
    deadline: Instant,
}

impl Client {
    fn new(socket: OwnedFd) -> Client {
        let deadline = Instant::now() + REQUEST_TIME;
        Client { socket, received: Vec::new(), answer: None, deadline }
    }

    fn waits_for(&self) -> PollFlags {
        if self.answer.is_some() { PollFlags::OUT } else { PollFlags::IN }
    }

    fn go_on<P: Protocol>(&mut self, protocol: &mut P) -> Next {
        if self.answer.is_none() {
            let next = self.receive(P::REQUEST_BYTES_MAX);
            match protocol.whole(&self.received) {
                Some(len) => {
                    self.answer = Some((protocol.answer(&self.received[..len]), 0));
                    self.deadline = Instant::now() + ANSWER_TIME;
                }
                None if self.received.len() >= P::REQUEST_BYTES_MAX => return Next::Close,
                None => return next,
            }
        }
        self.send()
    }

    /// Takes what there is, up to the longest request.
    fn receive(&mut self, most: usize) -> Next {
        let mut chunk = [0; 4096];
        loop {
            let room = most.saturating_sub(self.received.len()).min(chunk.len());
            if room == 0 {
                return Next::Wait;
            }
            match recv(&self.socket, &mut chunk[..room], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Next::Close,
                Ok((nr, _)) => self.received.extend_from_slice(&chunk[..nr]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Next::Wait,
                Err(_) => return Next::Close,
            }
        }
    }

    fn send(&mut self) -> Next {
        let Some((answer, sent)) = &mut self.answer else { return Next::Wait };
        while *sent < answer.len() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(&self.socket, &answer[*sent..], flags) {
                Ok(nr) => *sent += nr,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Next::Wait,
                Err(_) => return Next::Close,
            }
        }
        Next::Close
    }
}
