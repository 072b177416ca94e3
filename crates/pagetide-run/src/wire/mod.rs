//! What `pagetide run` and the programs under it say to each other.
//!
//! **Problem.** A program that knows nothing of Pagetide has its file I/O answered by another
//! process. The two are built as two artifacts, and must agree on every byte between them.
//!
//! **Idea.** One socket a thread of the program, connected to the server's name when it is first
//! needed. One request, one reply, each one packet (`SOCK_SEQPACKET`), data behind a fixed head,
//! descriptors beside it where some are meant.
//!
//! ```text
//!   program                                    pagetide run
//!   connect, Greeting -----------------------> a thread for it, if the user is the server's own
//!   socket   --- Request head | data --------> page cache
//!            <-- Reply head   | data ---------
//! ```
//!
//! **Stand-ins.** What the program holds of a managed file is an `O_PATH` descriptor: it names the
//! file, and the kernel refuses to read or write by it. The server has the only real one, with a
//! lease on the file, so every other opener is noticed before it sees a byte. An inherited
//! stand-in is recognised by comparing open file descriptions; once the kernel has the file,
//! replies bring the real descriptor that takes the stand-in's place.
//!
//! **Data and invariants.** Everything is numbers in little-endian order, encoded and decoded here;
//! any bytes decode to something or to `None`. A greeting of another version is refused.
//!
//! **Ignored.** Byte order of other machines: both ends are one machine.
//!
//! Source: open(2) `O_PATH`, fcntl(2) `F_SETLEASE` and `F_DUPFD_QUERY`, unix(7).

mod notices;

pub use notices::*;

/// Both ends must be of the same one.
pub const VERSION: u32 = 16;
/// The environment variable that tells a program where its server is:
/// `VERSION:FLAGS:NAME:LIMIT`, with the [`variable`] flags, the name of an abstract socket, and the
/// limit in bytes.
pub const VARIABLE: &str = "PAGETIDE_RUN";
/// The most data in one packet.
pub const CHUNK_BYTES: usize = 128 << 10;
/// Bytes of a [`Request`].
pub const REQUEST_BYTES: usize = 48;
/// Bytes of a [`Reply`].
pub const REPLY_BYTES: usize = 40;
/// Bytes of a [`Greeting`].
pub const GREETING_BYTES: usize = 24;
/// Files as long as this, or longer, are not managed.
pub const FILE_BYTES_MAX: u64 = 1 << 43;
/// Files no longer than this, opened only to be read, are left to the kernel without asking.
pub const SMALL_BYTES: u64 = 128 << 10;
/// The most descriptors beside a request.
pub const REQUEST_FILES_MAX: usize = 2;
/// The most descriptors beside a reply.
pub const REPLY_FILES_MAX: usize = 3;
/// The most bytes of a sentence, see [`Op::Say`].
pub const SENTENCE_BYTES_MAX: usize = 512;

/// Flags in [`VARIABLE`].
pub mod variable {
    /// The system's folders are left to the kernel: no pattern names what is managed instead.
    pub const SYSTEM_FOLDERS: u64 = 1;
    /// Sentences are not wanted.
    pub const QUIET: u64 = 2;
    /// Mapped files are served.
    pub const MAPS: u64 = 4;
}

/// The first packet about a new socket, sent through the doorbell with the socket itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// [`VERSION`].
    pub version: u32,
    /// The sender's process id, for people.
    pub pid: u32,
    /// Tells the sender's process from all others.
    pub process: u64,
}

const GREETING_MAGIC: u64 = u64::from_le_bytes(*b"pagetide");

impl Greeting {
    /// As bytes.
    pub fn encode(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        put(&mut bytes, 0, GREETING_MAGIC);
        put(&mut bytes, 8, u64::from(self.version) | u64::from(self.pid) << 32);
        put(&mut bytes, 16, self.process);
        bytes
    }

    /// From bytes; `None` if they are something else.
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

/// Which viewer of the frames a process is, by its number: never 0, nor
/// [`NO_VIEWER`](pagetide_sys::shared::NO_VIEWER).
pub const fn viewer_of(process: u64) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    (process.wrapping_mul(ODD) >> 34) as u32 + 1
}

macro_rules! ops {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// What is asked for. Numbers are of the request; see [`Request`].
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Op { $($(#[doc = $doc])+ $name,)+ }

        const OPS: &[Op] = &[$(Op::$name,)+];
    };
}

ops! {
    /// Manage a file that is being opened, with open(2)'s `flags` and the open flags. A stand-in
    /// comes along, and with [`open::CREATED`] the real descriptor that the call has made. Replies
    /// with the description's number, or that the kernel has the file.
    Open,
    /// Recognise the stand-in that comes along, found open by a process that does not know it:
    /// replies with the description's number, also where the kernel has the file.
    Adopt,
    /// The process has one descriptor more of description `id`.
    Dup,
    /// The process closes descriptor number `offset` of description `id`, once this is answered, or
    /// one of them by an exec, where that is -1.
    /// The data are what an [`Op::Touch`] has, which comes before that.
    Close,
    /// Read `len` bytes at the position, which moves by as much of `total` as there is.
    Read,
    /// As `Read`, without the bytes: the position moves over `total` bytes, or as many as there
    /// are, and they belong to this call alone, to be found or read at `offset`. Where the reply
    /// has a place, the next call moves the position there, and need not ask.
    Reserve,
    /// Read `len` bytes at `offset`.
    ReadAt,
    /// As `ReadAt`, without the bytes: they are to be found where the tag says. Replies how many
    /// there are.
    BringIn,
    /// Write the data at the position; nothing at `len` or beyond. Where `total` is more than the
    /// data, the call goes on with [`Op::WriteAt`] and [`write::CONTINUED`], and has its turn until
    /// [`write::LAST`], another request, or the socket's end. Position and length move with each
    /// packet.
    Write,
    /// As `Write`, at `offset`, or where the write flags in `flags` say. The position stays.
    WriteAt,
    /// As `Write`, at the end of the file.
    Append,
    /// Move the position by `offset`, from `flags` as lseek(2)'s whence.
    Seek,
    /// Cut or extend the file to `len`.
    SetLen,
    /// fallocate(2) with mode `flags`, `offset`, `len`.
    Allocate,
    /// Make data durable; with `flags` 1, metadata as well.
    Sync,
    /// Write back what is dirty.
    Flush,
    /// As sync(2): all files.
    FlushAll,
    /// posix_fadvise(2) with advice `flags`, `offset`, `len`; with `total` 1, about mappings.
    Advise,
    /// The status flags are now `flags`.
    SetFlags,
    /// Replies with the status flags, access mode included.
    GetFlags,
    /// Give the file to the kernel, because of reason `flags`.
    HandOver,
    /// A descriptor of the server's own open file, to read by past the kernel's page cache, and for
    /// the process's record locks: replies with the [`lend`] flags, or 0 and none where the
    /// description may do less than the server's file. None comes along where `flags` are
    /// [`lend::WITHOUT`].
    Lend,
    /// The real descriptor has taken the place of each of the process's stand-ins of description
    /// `id`: it asks no more. When this is answered, the server has none of it any more, unless
    /// another process has a stand-in.
    Installed,
    /// Write back what is dirty of the file that the stand-in that comes along names.
    FlushFile,
    /// Say the sentence in the data to the user, once a run.
    Say,
    /// The frames, to be looked at: replies with how many there are, their two files, and that of
    /// the positions.
    Share,
    /// The pages named in the data were read without asking. There is no reply.
    Touch,
    /// A [tray](pagetide_sys::tray) for the sender's thread: replies 1, with its file, or 0 if
    /// there are enough already.
    Tray,
    /// `len` pages in the thread's tray, from number `offset` on, were missed, or stand beside one
    /// that was, and were read from disk by the thread that missed it. The data are as many
    /// [`Offer`]s, and then what a [`Op::Touch`] has. There is no reply.
    Admit,
    /// The process is about to end, and has nothing open any more. Of what it has mapped, `len`
    /// bytes are its own: what it has stored to private mappings.
    Leave,
    /// The process has seen another end: replies when nothing is being changed for that one any
    /// more, as every request does that has a reply.
    Settle,
    /// `len` bytes from `offset` on are being mapped, to be read only, or with `flags` 1 to be
    /// written as well; with `total` 1 they were before. The userfaultfd that will tell of holes
    /// comes along. Replies with the memory file to map in place of the file, its number as
    /// `total`, and the mapping's as `offset`; or with [`fault::TOO_SHORT`] and none. The mapping
    /// is one more descriptor of the description, until [`Op::Unmap`].
    Map,
    /// A hole was touched of the memory file with the number `flags`, at `offset`: replies with
    /// one of [`fault`], or that the kernel has the file, with a descriptor to map in its place.
    /// Where `len` is not 0, a store to that address waits, in mapping `total`: it is allowed.
    Fault,
    /// Nothing is left of mapping `flags`; or, where that is 0, of a part of which `len` bytes were
    /// the process's own.
    Unmap,
    /// `len` bytes of mapping `flags`, from `offset` of its file on, are to stay in memory, or with
    /// `total` 1 need not any more. ENOMEM where too much would be locked, or the file is the
    /// kernel's.
    Lock,
    /// The process forks, and has mapped the file of description `id`: replies with a stand-in for
    /// the child.
    StandIn,
    /// The process executes a program, and closes a stand-in of description `id` by that: replies
    /// that the kernel has the file, with the real descriptor, if the server keeps it. Otherwise
    /// replies how many real descriptors of other descriptions the server keeps.
    TakeReal,
}

impl Op {
    fn from_number(number: u32) -> Option<Op> {
        OPS.get(number as usize).copied()
    }
}

/// Open flags, beside open(2)'s.
pub mod open {
    /// The call has made the file: the real descriptor, opened to be read and written, comes along
    /// behind the stand-in, and no other process can know it.
    pub const CREATED: u64 = 1 << 32;
}

/// What came of a fault.
pub mod fault {
    /// The file has no such page.
    pub const PAST_END: i64 = 0;
    /// The page is there now.
    pub const IS_THERE: i64 = 1;
    /// The file's pages are in another memory file now: it is to be mapped anew.
    pub const OTHER_FILE: i64 = 2;
    /// The file is too short to be written where it is mapped: see [`super::Reason::Short`].
    pub const TOO_SHORT: i64 = 3;
}

/// Lend flags.
pub mod lend {
    /// A descriptor comes along.
    pub const LENT: i64 = 1;
    /// It reads past the kernel's page cache.
    pub const DIRECT: i64 = 2;
    /// Of the request: the process has the file's descriptor already.
    pub const WITHOUT: u64 = 1;
}

/// Write flags.
pub mod write {
    /// A later packet of a write that has its place already: there, whatever the status flags say.
    pub const CONTINUED: u64 = 1;
    /// At the end of the file, whatever the offset.
    pub const AT_END: u64 = 2;
    /// The last packet of the call; it may be empty.
    pub const LAST: u64 = 4;
    /// Refused with EBADF where the status flags say to append.
    pub const NO_APPEND: u64 = 8;
}

/// Why a file is given to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// It is mapped.
    Mapped,
    /// It is standard input, output or error.
    Standard,
    /// A program we cannot serve inherits it.
    Inherited,
    /// It is used through a kernel interface that does not pass us.
    Interface,
    /// It is locked in a way that only the kernel can keep.
    Locked,
    /// It is open outside the run, or by a call that passes us.
    Outside,
    /// No lease is to be had on it: a network file system, or another user's file.
    Unleased,
    /// The process is about to run with another user's rights.
    OtherUser,
    /// The server had no descriptor left for it.
    Exhausted,
    /// It is excluded.
    Excluded,
    /// It is mapped, and the kernel tells of no touches: userfaultfd is refused.
    Unwatched,
    /// It is mapped to be written, and as short as what programs share their locks in: the kernel
    /// looks at those by itself, and asks for no page.
    Short,
    /// The process is about to install a filter of system calls.
    Filtered,
}

impl Reason {
    /// All of them, in order.
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

    /// From a number of a request.
    pub fn from_number(number: u64) -> Option<Reason> {
        Reason::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// A request's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What.
    pub op: Op,
    /// The open file description, as [`Op::Open`] has numbered it.
    pub id: u64,
    /// See the operation.
    pub flags: u64,
    /// Bytes from the file's start, or as the operation says.
    pub offset: i64,
    /// Bytes.
    pub len: u64,
    /// Bytes of the whole call that this request begins.
    pub total: u64,
}

impl Request {
    /// A request for `op` of description `id`, and zeros.
    pub const fn new(op: Op, id: u64) -> Request {
        Request { op, id, flags: 0, offset: 0, len: 0, total: 0 }
    }

    /// As bytes.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        let fields =
            [self.op as u64, self.id, self.flags, self.offset as u64, self.len, self.total];
        (0..).step_by(8).zip(fields).for_each(|(at, field)| put(&mut bytes, at, field));
        bytes
    }

    /// From the front of a packet; `None` if it is too short or asks for nothing known.
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
    /// The kernel has the file. Where the request was for a description, its real descriptor comes
    /// along, to take the stand-in's place; without one, another thread of the process has it.
    Kernel,
    /// The descriptor that came along is no stand-in of ours.
    Stranger,
}

const STATUSES: [Status; 3] = [Status::Done, Status::Kernel, Status::Stranger];

/// A reply's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// How it ended.
    pub status: Status,
    /// The call's result, or minus its errno.
    pub result: i64,
    /// Where a read, write or append began.
    pub offset: u64,
    /// How much of the whole call is reserved from there on.
    pub total: u64,
    /// Of a read: what the file's pages can be found by without asking; 0 if they cannot.
    pub tag: u32,
    /// Of a read at the position: the word that it is in; 0 if the position is the server's.
    pub place: u32,
}

impl Reply {
    /// A result without more to say.
    pub const fn done(result: i64) -> Reply {
        Reply { status: Status::Done, result, offset: 0, total: 0, tag: 0, place: 0 }
    }

    /// A status without a result.
    pub const fn status(status: Status) -> Reply {
        Reply { status, result: 0, offset: 0, total: 0, tag: 0, place: 0 }
    }

    /// As bytes.
    pub fn encode(&self) -> [u8; REPLY_BYTES] {
        let mut bytes = [0; REPLY_BYTES];
        let first = self.status as u64 | u64::from(self.tag) << 32;
        let fields = [first, self.result as u64, self.offset, self.total, u64::from(self.place)];
        (0..).step_by(8).zip(fields).for_each(|(at, field)| put(&mut bytes, at, field));
        bytes
    }

    /// From the front of a packet; `None` if it is too short or no reply.
    pub fn decode(bytes: &[u8]) -> Option<Reply> {
        let bytes = bytes.get(..REPLY_BYTES)?;
        Some(Reply {
            status: *STATUSES.get(take(bytes, 0) as u32 as usize)?,
            result: take(bytes, 8) as i64,
            offset: take(bytes, 16),
            total: take(bytes, 24),
            tag: (take(bytes, 0) >> 32) as u32,
            place: take(bytes, 32) as u32,
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
                Reply { status, result: -5, offset: u64::MAX, total: 1, tag: u32::MAX, place: 9 };
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
