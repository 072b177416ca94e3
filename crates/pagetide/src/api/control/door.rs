//! A socket server for small requests that no client can block.
//!
//! One thread polls all connections, answers complete requests at once, and closes the connection.
//!
//! ```text
//!   connection   accepted at once; a full table drops the connection with the earliest deadline
//!   request      at most the protocol's maximum, complete within REQUEST_TIME, or closed
//!   answer       read by the client within ANSWER_TIME, or closed
//! ```
//!
//! A bad client costs one slot of the table. A complete request is answered before its connection
//! is dropped. Ignored: fairness. One slow answer delays every other client.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, listen, recv, send};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const CLIENTS_MAX: usize = 512;
const BACKLOG: i32 = 4096;
/// Fraction of the process's descriptor limit for connections.
const DESCRIPTOR_SHARE: u64 = 4;
const REQUEST_TIME: Duration = Duration::from_secs(2);
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Pause after an accept failed for lack of a descriptor.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) trait Protocol: Send + 'static {
    /// Maximum length of a request, in bytes.
    const REQUEST_BYTES_MAX: usize;

    fn admits(&self, client: BorrowedFd<'_>) -> bool;

    /// Returns the length of the first request in `received`, if complete.
    fn whole(&self, received: &[u8]) -> Option<usize>;

    fn answer(&mut self, request: &[u8]) -> Vec<u8>;
}

/// The listener's thread. Dropping this value ends the thread and its connections.
pub(super) struct Door {
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Door {
    pub(super) fn open(
        name: &str,
        listener: impl Into<OwnedFd>,
        protocol: impl Protocol,
    ) -> io::Result<Door> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let seen = stop.try_clone()?;
        let listener = listener.into();
        // The standard library's queue holds only 128 connections.
        listen(&listener, BACKLOG)?;
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || serve(&listener, &seen, protocol))?;
        Ok(Door { stop, thread: Some(thread) })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // Cannot fail: the counter is 0.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
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
        // A request that arrived in time is answered, even after a delay by other clients.
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

fn places() -> usize {
    let share = getrlimit(Resource::Nofile).current.map_or(u64::MAX, |nr| nr / DESCRIPTOR_SHARE);
    usize::try_from(share).unwrap_or(CLIENTS_MAX).clamp(1, CLIENTS_MAX)
}

struct Clients {
    open: Vec<Client>,
    most: usize,
}

impl Clients {
    /// Accepts queued connections, up to the size of the table.
    ///
    /// # Errors
    /// Fails if the system refuses, and there is no connection to drop.
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
        // Most requests have arrived by now.
        if client.go_on(protocol) == Next::Close {
            return;
        }
        if self.open.len() >= self.most {
            self.drop_one(protocol);
        }
        self.open.push(client);
    }

    /// Drops the connection with the earliest deadline. Returns false if there is none.
    fn drop_one<P: Protocol>(&mut self, protocol: &mut P) -> bool {
        let open = self.open.iter().enumerate();
        let Some((oldest, _)) = open.min_by_key(|(_, client)| client.deadline) else {
            return false;
        };
        // The request may have arrived since the last poll.
        let _ = self.open.remove(oldest).go_on(protocol);
        true
    }
}

struct Ready {
    listener: bool,
    clients: Vec<bool>,
}

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

#[derive(PartialEq, Eq)]
enum Next {
    Wait,
    Close,
}

struct Client {
    socket: OwnedFd,
    received: Vec<u8>,
    /// Answer and number of bytes sent.
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
