//! The protocol between `pagetide run` and the programs under it.
//!
//! **Problem.** The library and the server are separate artifacts and must agree on every byte
//! between them.
//!
//! **Idea.** Each thread of a program connects a socket (`SOCK_SEQPACKET`) at its first request.
//! Requests and replies are one packet each: a fixed head, then the payload. Some packets carry
//! descriptors.
//!
//! ```text
//!   program                                    pagetide run
//!   connect, Greeting -----------------------> a thread for it, if the user is the server's own
//!   socket   --- Request head | data --------> page cache
//!            <-- Reply head   | data ---------
//! ```
//!
//! **Stand-ins.** A program's descriptor of a managed file is an `O_PATH` descriptor, which the
//! kernel refuses to read or write. The server has the only real descriptor, with a lease, so the
//! server notices every other open before it succeeds. A process recognises an inherited stand-in
//! by comparing open file descriptions. Once the kernel has the file, replies carry the real
//! descriptor that replaces the stand-in.
//!
//! **Data and invariants.** All fields are little-endian. Any bytes decode to a value or to `None`.
//! A greeting of another version is refused.
//!
//! Source: open(2) `O_PATH`, fcntl(2) `F_SETLEASE` and `F_DUPFD_QUERY`, unix(7).

mod notices;

pub use notices::*;

/// Protocol version, equal at both ends.
pub const VERSION: u32 = 22;
/// The environment variable with the server's address: `VERSION:FLAGS:NAME`, with [`variable`]
/// flags and an abstract socket's name.
pub const VARIABLE: &str = "PAGETIDE_RUN";
/// Maximum payload of a packet, in bytes.
pub const CHUNK_BYTES: usize = 128 << 10;
/// Bytes of a [`Request`].
pub const REQUEST_BYTES: usize = 48;
/// Bytes of a [`Reply`].
pub const REPLY_BYTES: usize = 40;
/// Bytes of a [`Greeting`].
pub const GREETING_BYTES: usize = 24;
/// Minimum length of files that are not managed, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 43;
/// Length of a short file, in bytes. Up to this length, a file that is opened for reading only is
/// left to the kernel without a request, and a growing file is written through. Below this length,
/// the kernel gets a file that is mapped for writing: see [`Reason::Short`].
pub const SHORT_FILE_BYTES: u64 = CHUNK_BYTES as u64;
/// Maximum length of a path in [`Op::Remember`], in bytes.
pub const PATH_BYTES_MAX: usize = 512;
/// Maximum number of descriptors with a request.
pub const REQUEST_FILES_MAX: usize = 2;
/// Maximum number of descriptors with a reply.
pub const REPLY_FILES_MAX: usize = 5;
/// A bit of [`Reply::word`]: the word is in the file that processes cannot write.
pub const SHOWN: u32 = 1 << 31;
/// Maximum length of a message to the user, in bytes. See [`Op::Say`].
pub const SENTENCE_BYTES_MAX: usize = 512;

/// Flags in [`VARIABLE`].
pub mod variable {
    /// The kernel serves system folders. Not set if a pattern names the managed files.
    pub const SYSTEM_FOLDERS: u64 = 1;
    /// Messages to the user are suppressed.
    pub const QUIET: u64 = 2;
    /// Mapped files are served.
    pub const MAPS: u64 = 4;
    /// Writable shared mappings are served as well.
    pub const WRITTEN_MAPS: u64 = 8;
}

/// The first packet on a new socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// The sender's [`VERSION`].
    pub version: u32,
    /// The sender's process id, for messages.
    pub pid: u32,
    /// The sender's unique process number.
    pub process: u64,
}

const GREETING_MAGIC: u64 = u64::from_le_bytes(*b"pagetide");

impl Greeting {
    /// Encodes the value.
    pub fn encode(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        put(&mut bytes, 0, GREETING_MAGIC);
        put(&mut bytes, 8, u64::from(self.version) | u64::from(self.pid) << 32);
        put(&mut bytes, 16, self.process);
        bytes
    }

    /// Decodes bytes. Returns `None` if they are no greeting.
    pub fn decode(bytes: &[u8]) -> Option<Greeting> {
        if bytes.len() != GREETING_BYTES || take(bytes, 0) != GREETING_MAGIC {
            return None;
        }
        let second = take(bytes, 8);
        Some(Greeting {
            version: second as u32,
            pid: (second >> 32) as u32,
            process: take(bytes, 16),
        })
    }
}

/// Returns a process's number as a viewer of the frames, never 0 or
/// [`NO_VIEWER`](pagetide_sys::shared::NO_VIEWER).
pub const fn viewer_of(process: u64) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    (process.wrapping_mul(ODD) >> 34) as u32 + 1
}

macro_rules! ops {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The operation of a request. Lower-case names in backticks are fields of the [`Request`].
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Op { $($(#[doc = $doc])+ $name,)+ }

        const OPS: &[Op] = &[$(Op::$name,)+];
    };
}

ops! {
    /// Manages a file during its open, with open(2)'s `flags` and the [`open`] flags. Carries a
    /// stand-in, and with [`open::CREATED`] also the real descriptor. Replies with the
    /// description's number, or that the kernel has the file.
    Open,
    /// Identifies the stand-in carried, which a process inherited. Replies with the description's
    /// number, even if the kernel has the file.
    Adopt,
    /// Counts one more descriptor of description `id` in the process.
    Dup,
    /// Closes descriptor number `offset` of description `id`, after the reply, or with -1 one
    /// closed by an exec. The payload is an [`Op::Touch`], which takes effect first.
    Close,
    /// Reads `len` bytes at the position, and moves it by at most `total` bytes, up to the file's
    /// end.
    Read,
    /// Reserves up to `total` bytes at the position, as `Read` without the bytes. The caller finds
    /// or reads the bytes at `offset`. If the reply has a word, the next call moves the position
    /// there without a request.
    Reserve,
    /// Reads `len` bytes at `offset`.
    ReadAt,
    /// Fills pages as `ReadAt` does, without the bytes. The caller finds the pages by their tag.
    /// With [`bring_in::CONTINUES`] in `flags`, the pages belong to a stream.
    /// Replies with the number of bytes present.
    BringIn,
    /// Writes the payload at the position, up to file offset `len`. The payload is in the packet or
    /// in the thread's window. If `total` exceeds the payload,
    /// the call continues with [`Op::WriteAt`] and [`write::CONTINUED`], and keeps its locks until
    /// [`write::LAST`], another request, or the end of the socket. Each packet moves position and
    /// length.
    Write,
    /// Writes at `offset` or as the [`mod@write`] flags in `flags` say. Does not move the position.
    WriteAt,
    /// Writes at the end of the file.
    Append,
    /// Moves the position by `offset`, with lseek(2)'s whence in `flags`. If the reply has a word,
    /// the next seek may need no request.
    Seek,
    /// Truncates or extends the file to `len`.
    SetLen,
    /// Serves fallocate(2) with mode `flags`, `offset`, `len`.
    Allocate,
    /// Makes data durable, and with `flags` 1 also metadata.
    Sync,
    /// Writes back the file's dirty pages.
    Flush,
    /// Writes back the dirty pages of all files, as sync(2) does.
    FlushAll,
    /// Serves posix_fadvise(2) with advice `flags`, `offset`, `len`. With `total` 1 the advice is
    /// about mappings.
    Advise,
    /// Sets the status flags to `flags`.
    SetFlags,
    /// Returns the status flags with the access mode.
    GetFlags,
    /// Hands the file over to the kernel for reason `flags`.
    HandOver,
    /// Lends a descriptor of the server's open file, for direct reads and the process's record
    /// locks. Replies with the [`lend`] flags, or with 0 if the description has less access than
    /// the server's file. With `flags` [`lend::WITHOUT`], the reply carries no descriptor.
    Lend,
    /// Locks or unlocks description `id` with flock(2)'s operation in `flags`. Replies with 0, or
    /// with 1 and a descriptor by which to wait before the next attempt.
    Flock,
    /// Reports that the process has replaced all its stand-ins of description `id` with the real
    /// descriptor, and sends no more requests for it. The server then closes the real descriptor
    /// before the reply, unless another process has a stand-in.
    Installed,
    /// Writes back the dirty pages of the file of the stand-in carried.
    FlushFile,
    /// Prints the payload to the user, once per run.
    Say,
    /// Gives read access to the frames. Replies with the number of frames, their two files, the
    /// positions' two files, and the file of [pages that are being
    /// read](pagetide_sys::shared::ReadMarks).
    Share,
    /// Records hits on the pages in the payload, read without a request. No reply.
    Touch,
    /// Makes a miss ring (`pagetide_sys::miss_ring`) for the sender's thread. Replies with 1 and
    /// its file, or with 0 if the server has enough.
    MissRing,
    /// Inserts `len` pages of the thread's miss ring, from number `offset` on, read from disk after
    /// a miss. The payload is `len` [`MissRecord`]s, then an [`Op::Touch`]. No reply.
    Insert,
    /// Makes a [write window](pagetide_sys::window) for the sender's thread. Replies with 1, its
    /// file and the length of its bytes as `total`, or with 0 if the server has enough. The thread
    /// then posts writes there. The server replies there, or by the socket if it must.
    Window,
    /// Wakes the server's thread to look at the window. No reply.
    Wake,
    /// Reports that the process ends with nothing open. It has stored to `len` bytes of private
    /// mappings.
    Leave,
    /// Waits for the in-flight writes of an ended process, as every request with a reply does.
    Settle,
    /// Maps `len` bytes from `offset` on for reading, or with `flags` 1 also for writing. With
    /// `total` 1 the range was mapped before. Carries the userfaultfd that reports holes. Replies
    /// with the memory file to map, its number as `total`, and the mapping's number as `offset`, or
    /// with [`fault::TOO_SHORT`] and no file. Until [`Op::Unmap`], the mapping counts as a
    /// descriptor of the description.
    Map,
    /// Serves a touch of a hole at `offset` of memory file `flags`. Replies with a [`fault`]
    /// result, or that the kernel has the file, with a descriptor to map instead. If `len` is not
    /// 0, allows a store to address `len` in mapping `total`.
    Fault,
    /// Reports the end of mapping `flags`, or with `flags` 0 the unmapping of a part with `len`
    /// private bytes.
    Unmap,
    /// Locks `len` bytes of mapping `flags`, from `offset` of its file on, in memory, or unlocks
    /// them with `total` 1. Fails with `ENOMEM` above the limit or if the kernel has the file.
    Lock,
    /// Reports that the program has moved bytes past the server, with the [`pass`] flags in
    /// `flags`, and up to `offset`, or up to the position with -1. Carries the program's
    /// descriptor. Before the reply, the server drops the file's pages in the kernel's page cache
    /// beyond a few. Replies with 1 if the server cannot.
    Pass,
    /// Reports small files that the program has brought into the kernel's page cache. The payload
    /// is a [`SmallFile`] for each. One with no bytes was moved to this path. With `total` 1, the
    /// server first drops pages of small files beyond its bound, and replies with 1 if it does not
    /// find the last file by its path. Otherwise there is no reply.
    Remember,
    /// Replies with a stand-in of description `id` for the child of a process that forks with
    /// mappings.
    StandIn,
    /// Reports that an exec closes a stand-in of description `id`. Replies that the kernel has the
    /// file, with the real descriptor if the server keeps one. Otherwise replies with the number of
    /// descriptions with a real descriptor or a lock.
    TakeReal,
}

impl Op {
    fn from_number(number: u32) -> Option<Op> {
        OPS.get(number as usize).copied()
    }
}

/// Open flags, beside open(2)'s.
pub mod open {
    /// The call has created the file. Its real descriptor, open for reading and writing, follows
    /// the stand-in, and no other process knows it.
    pub const CREATED: u64 = 1 << 32;
    /// The kernel may keep the file if no process of the run has the file open, because the call
    /// truncates the file.
    pub const MAY_KEEP: u64 = 1 << 33;
    /// The result of an open that the kernel is to make, for a file that was left to the kernel by
    /// [`MAY_KEEP`].
    pub const IS_NEW: i64 = 1;
}

/// Results of a fault.
pub mod fault {
    /// The file has no such page.
    pub const PAST_END: i64 = 0;
    /// The page is present now.
    pub const IS_THERE: i64 = 1;
    /// The file's pages are in another memory file, which the process must map.
    pub const OTHER_FILE: i64 = 2;
    /// The file is too short for a writable mapping: see [`super::Reason::Short`].
    pub const TOO_SHORT: i64 = 3;
}

/// Flags of [`Op::BringIn`].
pub mod bring_in {
    /// The read continues the description's last read.
    pub const CONTINUES: u64 = 1;
}

/// Lend flags.
pub mod lend {
    /// The reply carries a descriptor.
    pub const LENT: i64 = 1;
    /// Reads of the descriptor bypass the kernel's page cache.
    pub const DIRECT: i64 = 2;
    /// Flag of the request: the process already has the descriptor.
    pub const WITHOUT: u64 = 1;
}

/// Flags of [`Op::Pass`], and the interval of its reports.
pub mod pass {
    /// Bytes of small files that a process reports with [`super::Op::Remember`] between two waits
    /// for a reply.
    pub const SMALL_WINDOW: u64 = 1 << 19;
    /// The file is not read sequentially, or the program closes the descriptor.
    pub const WHOLE: u64 = 1;
    /// No page of the file was in the kernel's page cache before the process's first access.
    pub const FRESH: u64 = 2;
    /// The program has created or truncated the file, and only writes. `len` bytes were written
    /// since the last report.
    pub const NEW: u64 = 4;
    /// A call that the library does not see is about to write a new file. `total` is the
    /// [`Reason`](super::Reason).
    pub const WATCH: u64 = 16;
    /// The disk is full. Frees the blocks of removed files that the server has open.
    pub const ROOM: u64 = 32;
    /// Bytes between two reports. The server starts a write-back of a file with as many in the
    /// kernel's page cache.
    pub const WINDOW: u64 = 1 << 20;
}

/// Write flags.
pub mod write {
    /// A later packet of a write, which goes to `offset` whatever the status flags.
    pub const CONTINUED: u64 = 1;
    /// Writes at the end of the file, whatever the offset.
    pub const AT_END: u64 = 2;
    /// The last packet of the call, possibly empty.
    pub const LAST: u64 = 4;
    /// Fails with `EBADF` if the description has `O_APPEND`.
    pub const NO_APPEND: u64 = 8;
}

/// The reason for handing a file over to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// The file is mapped.
    Mapped,
    /// The file is standard input, output or error.
    Standard,
    /// An unservable program inherits the file.
    Inherited,
    /// A kernel interface that bypasses the library uses the file.
    Interface,
    /// The file is locked in a way that only the kernel can keep.
    Locked,
    /// The file is open outside the run, or by a call that bypasses the library.
    Outside,
    /// No lease: a network file system, or another user's file.
    Unleased,
    /// The process is about to change its user.
    OtherUser,
    /// The server has no descriptor left.
    Exhausted,
    /// A filter excludes the file.
    Excluded,
    /// The file is mapped, and the kernel refuses userfaultfd.
    Unwatched,
    /// The file is short and mapped for writing. Programs keep locks in such files, which the
    /// kernel reads without asking the server.
    Short,
    /// The process is about to install a system call filter.
    Filtered,
}

impl Reason {
    /// All reasons in order.
    pub const ALL: [Reason; 13] = [
        Reason::Mapped,
        Reason::Standard,
        Reason::Inherited,
        Reason::Interface,
        Reason::Locked,
        Reason::Outside,
        Reason::Unleased,
        Reason::OtherUser,
        Reason::Exhausted,
        Reason::Excluded,
        Reason::Unwatched,
        Reason::Short,
        Reason::Filtered,
    ];

    /// Returns the reason with this number, or `None` if no reason has it.
    pub fn from_number(number: u64) -> Option<Reason> {
        Reason::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// A request's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The operation.
    pub op: Op,
    /// The open file description's number from [`Op::Open`].
    pub id: u64,
    /// Defined by the operation.
    pub flags: u64,
    /// Bytes from the file's start, unless defined by the operation.
    pub offset: i64,
    /// Bytes.
    pub len: u64,
    /// Bytes of the whole call begun by this request.
    pub total: u64,
}

impl Request {
    /// Makes a request for `op` of description `id` with zeros.
    pub const fn new(op: Op, id: u64) -> Request {
        Request { op, id, flags: 0, offset: 0, len: 0, total: 0 }
    }

    /// Encodes the value.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        let fields =
            [self.op as u64, self.id, self.flags, self.offset as u64, self.len, self.total];
        (0..).step_by(8).zip(fields).for_each(|(at, field)| put(&mut bytes, at, field));
        bytes
    }

    /// Decodes the front of a packet. Returns `None` if too short or unknown.
    pub fn decode(bytes: &[u8]) -> Option<Request> {
        let bytes = bytes.get(..REQUEST_BYTES)?;
        Some(Request {
            op: Op::from_number(u32::try_from(take(bytes, 0)).ok()?)?,
            id: take(bytes, 8),
            flags: take(bytes, 16),
            offset: take(bytes, 24) as i64,
            len: take(bytes, 32),
            total: take(bytes, 40),
        })
    }
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Done: the result is the call's, or minus its errno.
    Done,
    /// The kernel has the file. The reply carries the real descriptor that replaces the stand-in,
    /// unless another thread of the process has it.
    Kernel,
    /// The descriptor carried is not a stand-in of this server.
    Stranger,
}

const STATUSES: [Status; 3] = [Status::Done, Status::Kernel, Status::Stranger];

/// A reply's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The request's outcome.
    pub status: Status,
    /// The call's result, or minus its errno.
    pub result: i64,
    /// Start of the read, write or append, in bytes.
    pub offset: u64,
    /// Bytes of the whole call reserved from `offset` on.
    pub total: u64,
    /// For a read: the tag that finds the file's pages without a request, or 0.
    pub tag: u32,
    /// For a read at the position and for a seek: the number of the word with the position, or 0 if
    /// the server holds it. With [`SHOWN`], the process can only look at the word.
    pub word: u32,
}

impl Reply {
    /// Makes a reply with only a result.
    pub const fn done(result: i64) -> Reply {
        Reply { status: Status::Done, result, offset: 0, total: 0, tag: 0, word: 0 }
    }

    /// Makes a reply with only a status.
    pub const fn status(status: Status) -> Reply {
        Reply { status, result: 0, offset: 0, total: 0, tag: 0, word: 0 }
    }

    /// Encodes the value.
    pub fn encode(&self) -> [u8; REPLY_BYTES] {
        let mut bytes = [0; REPLY_BYTES];
        let first = self.status as u64 | u64::from(self.tag) << 32;
        let fields = [first, self.result as u64, self.offset, self.total, u64::from(self.word)];
        (0..).step_by(8).zip(fields).for_each(|(at, field)| put(&mut bytes, at, field));
        bytes
    }

    /// Decodes the front of a packet. Returns `None` if too short or invalid.
    pub fn decode(bytes: &[u8]) -> Option<Reply> {
        let bytes = bytes.get(..REPLY_BYTES)?;
        Some(Reply {
            status: *STATUSES.get(take(bytes, 0) as u32 as usize)?,
            result: take(bytes, 8) as i64,
            offset: take(bytes, 16),
            total: take(bytes, 24),
            tag: (take(bytes, 0) >> 32) as u32,
            word: take(bytes, 32) as u32,
        })
    }
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn take(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_survive_the_wire() {
        let greeting = Greeting { version: VERSION, pid: 77, process: 1 << 60 };
        assert_eq!(Greeting::decode(&greeting.encode()), Some(greeting));
        for (number, op) in OPS.iter().enumerate() {
            assert_eq!(*op as usize, number);
            let request =
                Request { op: *op, id: 9, flags: open::CREATED, offset: -1, len: 3, total: 4 };
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        for status in STATUSES {
            let reply =
                Reply { status, result: -5, offset: u64::MAX, total: 1, tag: u32::MAX, word: 9 };
            assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }
        for (number, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(Reason::from_number(number as u64), Some(reason));
        }
    }

    #[test]
    fn bytes_that_are_no_head_are_refused() {
        assert_eq!(Greeting::decode(&[0; GREETING_BYTES]), None);
        assert_eq!(Request::decode(&[0; REQUEST_BYTES - 1]), None);
        assert_eq!(Request::decode(&[0xff; REQUEST_BYTES]), None);
        assert_eq!(Reply::decode(&[0xff; REPLY_BYTES]), None);
        assert_eq!(Reason::from_number(Reason::ALL.len() as u64), None);
    }
}
