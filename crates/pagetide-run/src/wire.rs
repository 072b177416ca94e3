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
//! lease on the file, so every other opener is heard of before it sees a byte. An inherited
//! stand-in is recognised by comparing open file descriptions; once the kernel has the file,
//! replies bring the real descriptor that takes the stand-in's place.
//!
//! **Data and invariants.** Everything is numbers in little-endian order, encoded and decoded here;
//! any bytes decode to something or to `None`. A greeting of another version is refused.
//!
//! **Ignored.** Byte order of other machines: both ends are one machine.
//!
//! Source: open(2) `O_PATH`, fcntl(2) `F_SETLEASE` and `F_DUPFD_QUERY`, unix(7).

/// Both ends must be of the same one.
pub const VERSION: u32 = 11;
/// The environment variable that tells a program where its server is:
/// `VERSION:FLAGS:NAME:LIMIT`, with the [`variable`] flags, the name of an abstract socket, and the
/// limit in bytes.
pub const VARIABLE: &str = "PAGETIDE_RUN";
/// The most data in one packet.
pub const CHUNK_BYTES: usize = 128 << 10;
/// The most data in one packet that is told and not asked.
pub const TOLD_BYTES: usize = 8 << 10;
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
    /// The process has one descriptor less of it. The data are what an [`Op::Touch`] has, which
    /// comes before that.
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
    /// posix_fadvise(2) with advice `flags`, `offset`, `len`.
    Advise,
    /// The status flags are now `flags`.
    SetFlags,
    /// Replies with the status flags, access mode included.
    GetFlags,
    /// Give the file to the kernel, because of reason `flags`.
    HandOver,
    /// A descriptor of the server's own open file, to read by past the kernel's page cache, and for
    /// the process's record locks: replies with the [`lend`] flags, or 0 and none where the
    /// description may do less than the server's file.
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
    /// A [tray](pagetide_sys::tray) for the sender's thread: replies 1, with its file, and a socket
    /// by which what has no reply is told, to be taken when there is time; or 0 if there are enough
    /// already.
    Tray,
    /// `len` pages in the thread's tray, from number `offset` on, were missed, or stand beside one
    /// that was, and were read from disk by the thread that missed it. The data are as many
    /// [`Offer`]s, and then what a [`Op::Touch`] has. There is no reply.
    Admit,
    /// The process is about to end, and has nothing open any more.
    Leave,
    /// The process has seen another end, and relies on it: replies when nothing is being changed
    /// for that one any more. So does every other request that has a reply.
    Settle,
}

impl Op {
    fn from_number(number: u32) -> Option<Op> {
        OPS.get(number as usize).copied()
    }
}

/// A page's bytes, as a power of two.
pub const PAGE_SHIFT: u32 = 12;
/// The most pages that one entry of a log has.
pub const TOUCH_MAX: u64 = 1 << 12;

/// Bytes of an entry.
pub const TOUCH_BYTES: usize = 16;

/// A description, and the pages of it that were read: the first, and how many.
pub fn encode_touch(id: u64, first: u64, nr: u64) -> [u8; TOUCH_BYTES] {
    let mut bytes = [0; TOUCH_BYTES];
    put(&mut bytes, 0, id);
    put(&mut bytes, 8, first & ((1 << 48) - 1) | (nr.min(TOUCH_MAX) << 48));
    bytes
}

/// All of a log's descriptions and pages.
pub fn decode_touches(bytes: &[u8]) -> impl Iterator<Item = (u64, u64, u64)> {
    bytes.as_chunks().0.iter().map(decode_touch)
}

/// One entry of a log.
pub fn decode_touch(entry: &[u8; TOUCH_BYTES]) -> (u64, u64, u64) {
    let pages = take(entry, 8);
    (take(entry, 0), pages & ((1 << 48) - 1), (pages >> 48).min(TOUCH_MAX))
}

/// Bytes of an [`Offer`].
pub const OFFER_BYTES: usize = 32;
/// In the word of an offer's index: it was not asked for. No file has a page of this number.
const AROUND: u64 = 1 << 63;

/// A page that a thread has read from disk, as a label for its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Offer {
    /// The description it was read by.
    pub id: u64,
    /// The page's index, less than 2^63.
    pub index: u64,
    /// It was not asked for: it was read with another.
    pub is_around: bool,
    /// The file's count of writes before and after.
    pub writes: u64,
    /// Of label and bytes, as they were right after the read.
    pub checksum: u64,
}

impl Offer {
    /// This label for `page`, with the checksum of both.
    pub fn sealed(self, page: &[u8]) -> Offer {
        Offer { checksum: self.sum(page), ..self }
    }

    /// Whether label and bytes are what they were.
    pub fn is_whole(&self, page: &[u8]) -> bool {
        self.sum(page) == self.checksum
    }

    /// As bytes.
    pub fn encode(&self) -> [u8; OFFER_BYTES] {
        let mut bytes = [0; OFFER_BYTES];
        let fields = [self.id, self.place(), self.writes, self.checksum];
        (0..).step_by(8).zip(fields).for_each(|(at, field)| put(&mut bytes, at, field));
        bytes
    }

    /// From as many bytes.
    pub fn decode(bytes: &[u8; OFFER_BYTES]) -> Offer {
        Offer {
            id: take(bytes, 0),
            index: take(bytes, 8) & !AROUND,
            is_around: take(bytes, 8) & AROUND != 0,
            writes: take(bytes, 16),
            checksum: take(bytes, 24),
        }
    }

    fn place(&self) -> u64 {
        self.index | if self.is_around { AROUND } else { 0 }
    }

    /// Four sums side by side, each of every fourth word, and the sums of what these were on the
    /// way, which know the words' order: nothing but additions, of which a processor does several
    /// at a time. Against stray writes, not against intent.
    fn sum(&self, page: &[u8]) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let (mut sums, mut of_sums) = ([0_u64; 4], [0_u64; 4]);
        for line in page.as_chunks::<32>().0 {
            for (lane, word) in line.as_chunks::<8>().0.iter().enumerate() {
                sums[lane] = sums[lane].wrapping_add(u64::from_le_bytes(*word));
                of_sums[lane] = of_sums[lane].wrapping_add(sums[lane]);
            }
        }
        let label = [self.id, self.place(), self.writes, page.len() as u64];
        let all = label.iter().chain(&sums).chain(&of_sums);
        all.fold(0, |sum, part| (sum ^ part).wrapping_mul(ODD).rotate_left(29))
    }
}

/// The labels of an [`Op::Admit`] of `nr` pages, and its log.
pub fn decode_offers(data: &[u8], nr: u64) -> (impl Iterator<Item = Offer>, &[u8]) {
    let nr = usize::try_from(nr).unwrap_or(usize::MAX).min(data.len() / OFFER_BYTES);
    let (labels, log) = data.split_at(nr * OFFER_BYTES);
    (labels.as_chunks::<OFFER_BYTES>().0.iter().map(Offer::decode), log)
}

/// Open flags, beside open(2)'s.
pub mod open {
    /// The call has made the file: the real descriptor, opened to be read and written, comes along
    /// behind the stand-in, and no other process can know it.
    pub const CREATED: u64 = 1 << 32;
}

/// Lend flags.
pub mod lend {
    /// A descriptor comes along.
    pub const LENT: i64 = 1;
    /// It reads past the kernel's page cache.
    pub const DIRECT: i64 = 2;
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
}

impl Reason {
    /// All of them, in order.
    pub const ALL: [Reason; 10] = [
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
    fn a_log_survives_the_wire() {
        let pages = [(7, 1 << 31, 1), (u64::MAX, 0, TOUCH_MAX)];
        let bytes: Vec<u8> = pages.iter().flat_map(|(a, b, c)| encode_touch(*a, *b, *c)).collect();
        assert!(decode_touches(&bytes).eq(pages));
        assert_eq!(decode_touches(&[0xff; 16]).next().unwrap().2, TOUCH_MAX);
    }

    #[test]
    fn an_offer_that_was_scribbled_over_is_seen() {
        let page: Vec<u8> = (0..4096_u32).map(|at| at as u8).collect();
        let label = Offer { id: 5, index: 9, writes: 2, ..Offer::default() };
        let offer = label.sealed(&page);
        let data = [&offer.encode()[..], b"log"].concat();
        let (offers, log) = decode_offers(&data, 1);
        assert_eq!((offers.collect::<Vec<_>>(), log), (vec![offer], &b"log"[..]));
        assert!(offer.is_whole(&page));
        for at in [0, 1234, 4095] {
            let mut other = page.clone();
            other[at] ^= 1;
            assert!(!offer.is_whole(&other));
        }
        // Words that change places: next to each other, and of one sum.
        for (at, other_at) in [(0, 8), (0, 32), (64, 4064)] {
            let mut other = page.clone();
            (0..8).for_each(|byte| other.swap(at + byte, other_at + byte));
            assert!(!offer.is_whole(&other), "{at}, {other_at}");
        }
        assert!(!Offer { index: 8, ..offer }.is_whole(&page));
        let around = Offer { is_around: true, ..label }.sealed(&page);
        assert_eq!(Offer::decode(&around.encode()), around);
        assert!(!Offer { is_around: false, ..around }.is_whole(&page));
        assert!(!Offer { writes: 0, ..offer }.is_whole(&page));
        assert_eq!(decode_offers(&data, u64::MAX).0.count(), 1, "no more than there are");
        assert_eq!(decode_offers(&[], 1).0.count(), 0);
    }

    #[test]
    fn bytes_that_are_no_head_are_refused() {
        assert_eq!(Greeting::decode(&[0; GREETING_BYTES]), None);
        assert_eq!(Request::decode(&[0; REQUEST_BYTES - 1]), None);
        assert_eq!(Request::decode(&[0xff; REQUEST_BYTES]), None);
        assert_eq!(Reply::decode(&[0xff; REPLY_BYTES]), None);
        assert_eq!(Reason::from_number(10), None);
    }
}
