//! A client that speaks the wire by hand, and a server in this process for it.

use pagetide::{Bytes, PageCache};
use pagetide_run::wire::{
    CHUNK_BYTES, Greeting, Op, REPLY_BYTES, REPLY_FILES_MAX, Reply, Request, Status, VERSION, open,
    write,
};
use pagetide_run::{Filter, Listener, Server, Serving};
use rustix::fs::{Mode, OFlags};
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    sendmsg, socket_with,
};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A server of a small memory.
pub(crate) struct Service {
    pub(crate) server: Arc<Server>,
    pub(crate) name: String,
    serving: Option<Serving>,
}

impl Drop for Service {
    fn drop(&mut self) {
        // Its clients are gone, or the test has failed.
        if let Some(serving) = self.serving.take().filter(|_| !std::thread::panicking()) {
            serving.stop();
        }
    }
}

impl Service {
    pub(crate) fn new(memory: Bytes) -> Service {
        let cache = PageCache::builder().memory(memory).shared(true).build().unwrap();
        // The temporary folder may be below one of the system's.
        let filter = Filter { include: vec!["**".to_owned()], exclude: Vec::new() };
        let server = Arc::new(Server::new(cache, filter, |said| println!("{said}")).unwrap());
        let listener = Listener::new().unwrap();
        let name = listener.name().to_owned();
        let serving = server.start(listener).unwrap();
        Service { server, name, serving: Some(serving) }
    }
}

/// One thread of one process, as the server sees it.
pub(crate) struct Client {
    socket: OwnedFd,
}

/// What a client has open.
pub(crate) struct Opened {
    pub(crate) id: u64,
    pub(crate) stand_in: OwnedFd,
}

/// Where a call's bytes are to be had.
pub(crate) enum Reached<T> {
    /// The server has answered.
    Ours(T),
    /// The kernel has the file; the descriptor to go on by.
    Kernel(File),
}

static NEXT_PROCESS: AtomicU64 = AtomicU64::new(1);

impl Client {
    pub(crate) fn new(service: &Service) -> Client {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let name = SocketAddrUnix::new_abstract_name(service.name.as_bytes()).unwrap();
        connect(&socket, &name).unwrap();
        let process = NEXT_PROCESS.fetch_add(1, Relaxed);
        let client = Client { socket };
        client.send(&Greeting { version: VERSION, pid: 1, process }.encode(), &[], &[]);
        client
    }

    pub(crate) fn send(&self, head: &[u8], data: &[u8], files: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            beside.push(SendAncillaryMessage::ScmRights(files));
        }
        let parts = [IoSlice::new(head), IoSlice::new(data)];
        // A server that has hung up is noticed by the missing answer.
        let _ = sendmsg(&self.socket, &parts, &mut beside, SendFlags::NOSIGNAL);
    }

    /// The next reply; `None` at the end.
    pub(crate) fn receive(&self) -> Option<(Reply, Vec<u8>, Vec<OwnedFd>)> {
        let mut packet = vec![0; REPLY_BYTES + CHUNK_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(REPLY_FILES_MAX))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut packet)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let nr_bytes = recvmsg(&self.socket, &mut parts, &mut beside, flags).ok()?.bytes;
        let files = beside.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        let files: Vec<OwnedFd> = files.flatten().collect();
        packet.truncate(nr_bytes);
        let reply = Reply::decode(&packet)?;
        Some((reply, packet.split_off(REPLY_BYTES), files))
    }

    pub(crate) fn ask(
        &self,
        request: &Request,
        data: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> (Reply, Vec<u8>, Vec<OwnedFd>) {
        self.send(&request.encode(), data, files);
        self.receive().expect("the server answers")
    }

    /// Opens an existing file; `None` if the kernel is to.
    pub(crate) fn open(&self, path: &Path, flags: OFlags) -> Option<Opened> {
        let stand_in = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        self.open_named(stand_in.unwrap(), flags)
    }

    pub(crate) fn open_named(&self, stand_in: OwnedFd, flags: OFlags) -> Option<Opened> {
        let request = Request { flags: flags.bits().into(), ..Request::new(Op::Open, 0) };
        let (reply, _, _) = self.ask(&request, &[], &[stand_in.as_fd()]);
        if reply.status == Status::Kernel {
            return None;
        }
        assert!(reply.result > 0, "open: {reply:?}");
        Some(Opened { id: reply.result as u64, stand_in })
    }

    /// Makes a file.
    pub(crate) fn create(&self, path: &Path) -> Option<Opened> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let real = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).unwrap();
        let name = format!("/proc/self/fd/{}", real.as_raw_fd());
        let stand_in =
            rustix::fs::open(name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let flags = u64::from(flags.bits()) | open::CREATED;
        let request = Request { flags, ..Request::new(Op::Open, 0) };
        let (reply, _, _) = self.ask(&request, &[], &[stand_in.as_fd(), real.as_fd()]);
        (reply.status == Status::Done).then_some(Opened { id: reply.result as u64, stand_in })
    }

    pub(crate) fn read_at(&self, file: &Opened, offset: u64, len: usize) -> Reached<Vec<u8>> {
        let (offset, len) = (offset as i64, len as u64);
        let (reply, data, files) =
            self.ask(&Request { offset, len, ..Request::new(Op::ReadAt, file.id) }, &[], &[]);
        reached(reply, files, data)
    }

    /// Writes at `offset`, at the position, or at the end, in as many packets as it takes, but no
    /// more than `nr_packets`; returns where it began and how much was written.
    pub(crate) fn write(
        &self,
        file: &Opened,
        op: Op,
        offset: u64,
        source: &[u8],
        nr_packets: usize,
    ) -> Reached<(u64, usize)> {
        let total = source.len() as u64;
        let request =
            Request { offset: offset as i64, len: u64::MAX, total, ..Request::new(op, file.id) };
        let first = &source[..source.len().min(CHUNK_BYTES)];
        let (reply, _, files) = self.ask(&request, first, &[]);
        if reply.status == Status::Kernel {
            return reached(reply, files, (0, 0));
        }
        assert!(reply.result >= 0, "write: {reply:?}");
        let (base, mut done) = (reply.offset, reply.result as usize);
        for chunk in source[done..].chunks(CHUNK_BYTES).take(nr_packets.saturating_sub(1)) {
            let is_last = done + chunk.len() == source.len();
            let flags = write::CONTINUED | if is_last { write::LAST } else { 0 };
            let offset = (base as usize + done) as i64;
            let request =
                Request { offset, flags, len: u64::MAX, ..Request::new(Op::WriteAt, file.id) };
            let (reply, _, _) = self.ask(&request, chunk, &[]);
            assert!(reply.status == Status::Done && reply.result >= 0, "write: {reply:?}");
            done += reply.result as usize;
        }
        Reached::Ours((base, done))
    }

    /// A request for the description without data.
    pub(crate) fn plain(&self, file: &Opened, request: Request) -> Reached<i64> {
        let request = Request { id: file.id, ..request };
        let (reply, _, files) = self.ask(&request, &[], &[]);
        reached(reply, files, reply.result)
    }

    pub(crate) fn close(&self, file: Opened) -> i64 {
        self.ask(&Request::new(Op::Close, file.id), &[], &[]).0.result
    }
}

fn reached<T>(reply: Reply, files: Vec<OwnedFd>, value: T) -> Reached<T> {
    match (reply.status, files.into_iter().next()) {
        (Status::Kernel, Some(real)) => Reached::Kernel(File::from(real)),
        (Status::Done, None) => Reached::Ours(value),
        other => panic!("neither a result nor a descriptor: {other:?} {reply:?}"),
    }
}
