//! Mapped files that the server's page cache serves.
//!
//! **Problem.** A program maps a file, and touches any part of it; only what the limit allows is to
//! be in memory, the same pages for all processes. **Idea.** The server has a memory file for each
//! file, and we map that, read-only, in the file's place. What is absent is a hole, of which
//! userfaultfd tells by SIGBUS, on the thread that touched it: the handler asks the server.
//!
//! ```text
//!   touch --> SIGBUS --> an address of a piece? --yes--> ask --> the page is there: go on
//!                             | no                        | the kernel has the file: map that here
//!                             v                           | past the end, or no server
//!                     the program's own handler <---------+
//! ```
//!
//! The mapping is private, as one of a descriptor that can only read must be to be registered;
//! since it cannot be written, the program sees the file's pages all the same. The userfaultfd is
//! the server's, too: neither a server that is killed nor a program that closes all its descriptors
//! takes it away.
//!
//! **Data and invariants.** S36: a range is mapped from a memory file only while it is registered;
//! until then its pages cannot be touched, for a touch would fill a hole with zeros. No child
//! inherits it: in its place a child finds addresses past the end of an empty file, and maps its
//! own at the first touch. Nothing here takes a lock that the program's code could hold, or
//! allocates.
//!
//! **Ignored.** munmap and the like without the C library. A handler of SIGBUS that is installed
//! so. A thread that has SIGBUS blocked by such means, or during another signal's handler.
//!
//! Source: userfaultfd(2), ioctl_userfaultfd(2), sigaction(2).

pub(crate) mod signals;

use crate::channel::{self, Parcel, ask};
use crate::errno::Errno;
use crate::pieces::{Changing, Piece, is_any};
use crate::scratch::Scratch;
use crate::{next, own, pieces, process, serve};
use libc::{c_int, c_void, off_t};
use pagetide_run::wire::{Op, Reason, Request, Status, fault, variable};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};

const PAGE_BYTES: usize = 4096;
/// Half the process's number, half the descriptor plus one.
static UFFD: AtomicU64 = AtomicU64::new(0);
/// Memory is to be locked from now on: mappings are the kernel's.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// What the program asks for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) protection: c_int,
    pub(crate) flags: c_int,
    pub(crate) offset: off_t,
}

impl Wanted {
    /// Whether it is a mapping that can be served.
    fn is_served(&self) -> bool {
        const REFUSED: c_int = libc::MAP_LOCKED | libc::MAP_HUGETLB | libc::MAP_SYNC;
        self.len > 0
            && self.offset >= 0
            && (self.offset as usize).is_multiple_of(PAGE_BYTES)
            && self.protection & !libc::PROT_READ == 0
            && self.flags & REFUSED == 0
            && process::has_flag(variable::MAPS)
            && !IS_REFUSED.load(Relaxed)
    }
}

fn pages(len: usize) -> usize {
    len.next_multiple_of(PAGE_BYTES)
}

/// Maps description `id` for the program. `None`: the kernel is to.
pub(crate) fn map(id: u64, wanted: Wanted) -> Option<usize> {
    if !wanted.is_served() || !signals::install() {
        return None;
    }
    let piece = Piece {
        start: wanted.at,
        len: pages(wanted.len),
        offset: wanted.offset as u64,
        id,
        map: 0,
        file: 0,
        process: own::number(),
        protection: wanted.protection,
        is_shared: wanted.flags & libc::MAP_TYPE != libc::MAP_PRIVATE,
        is_moving: false,
    };
    let fixed = wanted.flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE);
    if fixed & libc::MAP_FIXED != 0 {
        forget(piece.start, piece.end());
    }
    let piece = match obtain(&piece, fixed) {
        Obtained::Mapped(piece) => piece,
        Obtained::Kernel(real) => {
            own::close(real);
            return None;
        }
        Obtained::Failed => return None,
    };
    if !Changing::begin().add(&piece) {
        unmap(&piece);
        return None;
    }
    if wanted.flags & libc::MAP_POPULATE != 0 {
        populate(piece.start, piece.len);
    }
    Some(piece.start)
}

enum Obtained {
    Mapped(Piece),
    /// The kernel's file, to be mapped.
    Kernel(c_int),
    Failed,
}

/// Asks for the memory file of a piece, and maps it, registered.
fn obtain(piece: &Piece, fixed: c_int) -> Obtained {
    let Ok(uffd) = own_uffd() else { return Obtained::Failed };
    let (offset, len) = (piece.offset as i64, piece.len as u64);
    let one = Request { offset, len, ..Request::new(Op::Map, piece.id) };
    let files = &[uffd];
    let answer = ask(&one, Parcel { files, ..Parcel::default() });
    match answer {
        Ok(answer) if answer.reply.status == Status::Done && answer.reply.result > 0 => {
            let (map, file) = (answer.reply.offset, answer.reply.total);
            let named = Piece { map, file, process: own::number(), ..*piece };
            let at = map_registered(&named, fixed, answer.files[0], uffd);
            own::close(answer.files[0]);
            match at {
                Ok(start) => Obtained::Mapped(Piece { start, is_moving: false, ..named }),
                Err(_) => {
                    tell_unmapped(&named);
                    Obtained::Failed
                }
            }
        }
        Ok(answer) if answer.reply.status == Status::Kernel && answer.files[0] >= 0 => {
            Obtained::Kernel(answer.files[0])
        }
        _ => Obtained::Failed,
    }
}

/// Puts a memory file where the piece is, or is to be: out of reach until it is registered.
fn map_registered(piece: &Piece, fixed: c_int, file: c_int, uffd: c_int) -> Result<usize, Errno> {
    let kind = (libc::MAP_PRIVATE | libc::MAP_NORESERVE | fixed) as usize;
    let none = libc::PROT_NONE as usize;
    let at = [piece.start, piece.len, none, kind, file as usize, piece.offset as usize];
    // SAFETY: where the program asked for it, or a piece is already (S36).
    let start = unsafe { next::system(libc::SYS_mmap, at) }?;
    let ready = || {
        register(uffd, start, piece.len)?;
        let arguments = [start, piece.len, libc::MADV_DONTFORK as usize, 0, 0, 0];
        // SAFETY: the mapping just made (S36).
        unsafe { next::system(libc::SYS_madvise, arguments) }?;
        let arguments = [start, piece.len, piece.protection as usize, 0, 0, 0];
        // SAFETY: the mapping just made (S36).
        unsafe { next::system(libc::SYS_mprotect, arguments) }
    };
    let result = ready();
    if result.is_err() && piece.is_moving {
        reserve(piece);
    } else if result.is_err() {
        // SAFETY: the mapping just made, of which the program knows nothing (S36).
        let _ = unsafe { next::system(libc::SYS_munmap, [start, piece.len, 0, 0, 0, 0]) };
    }
    result.map(|_| start)
}

/// This process's userfaultfd. The server has it as well: as long as one of us has, and so the
/// mapping's end, a touch of a hole is a signal.
fn own_uffd() -> Result<c_int, Errno> {
    let known = UFFD.load(Acquire);
    let (process, fd) = (known >> 32, known as u32 as c_int - 1);
    if process == own::number() & u64::from(u32::MAX) && own::has(fd) {
        return Ok(fd);
    }
    let fd = own::keep(open_uffd()?);
    let word = own::number() << 32 | u64::from((fd + 1) as u32);
    if UFFD.compare_exchange(known, word, AcqRel, Acquire).is_err() {
        // Another thread has made one meanwhile.
        own::close_own(fd);
        return own_uffd();
    }
    Ok(fd)
}

/// A userfaultfd that tells of holes by signals.
fn open_uffd() -> Result<c_int, Errno> {
    const USER_MODE_ONLY: usize = 1;
    const IOC_API: usize = 0xc018_aa3f;
    /// Holes of memory files, told by signals.
    const FEATURES: u64 = 1 << 5 | 1 << 7;
    let flags = libc::O_CLOEXEC as usize | USER_MODE_ONLY;
    // SAFETY: numbers (S20).
    let uffd = unsafe { next::system(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0]) }?;
    let mut api = [0xaa_u64, FEATURES, 0];
    let arguments = [uffd, IOC_API, api.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: three words, as the manual page has it, that live through the call (S20).
    match unsafe { next::system(libc::SYS_ioctl, arguments) } {
        Ok(_) => Ok(uffd as c_int),
        Err(errno) => {
            own::close(uffd as c_int);
            Err(errno)
        }
    }
}

fn register(uffd: c_int, start: usize, len: usize) -> Result<usize, Errno> {
    const IOC_REGISTER: usize = 0xc020_aa00;
    const MISSING: u64 = 1;
    let mut range = [start as u64, len as u64, MISSING, 0];
    let arguments = [uffd as usize, IOC_REGISTER, range.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: four words, as the manual page has it, that live through the call (S20).
    unsafe { next::system(libc::SYS_ioctl, arguments) }
}

/// Addresses past the end of an empty file: each touch is SIGBUS.
fn reserve(piece: &Piece) {
    let name = c"pagetide-reserved".as_ptr() as usize;
    let flags = libc::MFD_CLOEXEC as usize;
    // SAFETY: a string (S20).
    let made = unsafe { next::system(libc::SYS_memfd_create, [name, flags, 0, 0, 0, 0]) };
    let Ok(empty) = made else { return };
    let kind = (libc::MAP_PRIVATE | libc::MAP_FIXED) as usize;
    let arguments = [piece.start, piece.len, piece.protection as usize, kind, empty, 0];
    // SAFETY: the piece's own addresses, of which this process has no mapping, or one that failed
    // (S36).
    let _ = unsafe { next::system(libc::SYS_mmap, arguments) };
    own::close(empty as c_int);
}

/// A touch of `address`, in a piece. Returns whether it is to be made again.
fn serve_fault(address: usize, piece: &Piece) -> bool {
    if piece.process != own::number() {
        return obtain_again(piece);
    }
    let within = (address - piece.start) & !(PAGE_BYTES - 1);
    let offset = (piece.offset + within as u64) as i64;
    let one = Request { offset, flags: piece.file, ..Request::new(Op::Fault, piece.id) };
    match ask(&one, Parcel::default()) {
        Ok(answer) if answer.reply.status == Status::Kernel && answer.files[0] >= 0 => {
            give_to_kernel(piece, answer.files[0]);
            true
        }
        Ok(answer) if answer.reply.status == Status::Done => match answer.reply.result {
            fault::IS_THERE => true,
            fault::OTHER_FILE => obtain_again(piece),
            fault::PAST_END => false,
            _ => {
                process::complain(
                    "pagetide: a page of a mapped file cannot be had; its reader gets SIGBUS\n",
                );
                false
            }
        },
        // A server that is gone has been said.
        _ => false,
    }
}

/// Maps a piece anew, which this process has not mapped yet, or whose memory file is another now.
fn obtain_again(piece: &Piece) -> bool {
    let moving = Piece { is_moving: true, ..*piece };
    if piece.is_moving || !Changing::begin().replace(piece, &moving) {
        // Another thread does.
        return true;
    }
    let obtained = obtain(&moving, libc::MAP_FIXED);
    let back = |now: &Piece| Changing::begin().replace(&moving, now);
    match obtained {
        Obtained::Mapped(now) => back(&now),
        Obtained::Kernel(real) => {
            back(piece);
            give_to_kernel(piece, real);
            true
        }
        Obtained::Failed => {
            back(piece);
            false
        }
    };
    find(piece.start).is_none_or(|now| now != *piece)
}

fn find(address: usize) -> Option<Piece> {
    pieces::find(address, address + 1)
}

/// Maps the kernel's file in place of a piece, which is none any more.
fn give_to_kernel(piece: &Piece, real: c_int) {
    let kind = if piece.is_shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
    let kind = (kind | libc::MAP_FIXED) as usize;
    let protection = piece.protection as usize;
    let arguments =
        [piece.start, piece.len, protection, kind, real as usize, piece.offset as usize];
    let mut changing = Changing::begin();
    // Another thread may have done so before.
    let is_ours = changing.remove(piece);
    if is_ours {
        // SAFETY: the piece's own addresses (S36).
        if unsafe { next::system(libc::SYS_mmap, arguments) }.is_err() {
            changing.add(piece);
        }
    }
    drop(changing);
    own::close(real);
    if is_ours {
        tell_unmapped(piece);
    }
}

/// The server is told of a mapping of which nothing is left.
fn tell_unmapped(piece: &Piece) {
    if piece.process == own::number() && !pieces::has(piece.map) {
        // A server that is gone keeps nothing.
        let one = Request { flags: piece.map, ..Request::new(Op::Unmap, piece.id) };
        let _ = ask(&one, Parcel::default());
        channel::close_if_idle();
    }
}

/// Whether there is a piece in a range.
pub(crate) fn overlaps(start: usize, len: usize) -> bool {
    is_any() && pieces::find(start, start.saturating_add(pages(len))).is_some()
}

/// Unmaps what is ours in a range; the rest is the caller's to unmap.
pub(crate) fn forget(start: usize, end: usize) {
    if !is_any() || pieces::find(start, end).is_none() {
        return;
    }
    if !Changing::begin().cut(start, end) {
        hand_over(start, end - start);
        return;
    }
    while let Some(piece) = pieces::find(start, end) {
        unmap(&piece);
    }
}

fn unmap(piece: &Piece) {
    Changing::begin().remove(piece);
    // SAFETY: the program's own addresses, which it unmaps (S36).
    let _ = unsafe { next::system(libc::SYS_munmap, [piece.start, piece.len, 0, 0, 0, 0]) };
    tell_unmapped(piece);
}

/// Has the kernel map what is ours in a range: it is to do what we cannot.
pub(crate) fn hand_over(start: usize, len: usize) {
    let end = start.saturating_add(pages(len));
    let mut last = None;
    while let Some(piece) = pieces::find(start, end) {
        // What cannot be given up stays ours, and the program gets the kernel's answer.
        if last == Some(piece) || serve::hand_over(piece.id, Reason::Mapped).is_err() {
            return;
        }
        serve_fault(piece.start, &piece);
        last = Some(piece);
    }
}

/// All of it is the kernel's, and so are later mappings where `for_good` says so.
pub(crate) fn hand_over_all(for_good: bool) {
    if for_good {
        IS_REFUSED.store(true, Relaxed);
    }
    hand_over(0, usize::MAX & !(PAGE_BYTES - 1));
}

/// mprotect(2) of a range with pieces: what lets them be written is the kernel's.
pub(crate) fn protect(start: usize, len: usize, protection: c_int) {
    let end = start.saturating_add(pages(len));
    if protection & !libc::PROT_READ != 0 || !Changing::begin().cut(start, end) {
        return hand_over(start, len);
    }
    let mut at = 0;
    while let Some((piece, next)) = pieces::from(at) {
        at = next;
        if piece.start >= start && piece.end() <= end {
            Changing::begin().replace(&piece, &Piece { protection, ..piece });
        }
    }
}

/// Has the pages of a range there, as far as they fit.
pub(crate) fn populate(start: usize, len: usize) {
    let mut at = start;
    let end = start + len;
    while let Some(piece) = pieces::find(at, end) {
        at = at.max(piece.start);
        while at < piece.end().min(end) {
            let Some(now) = find(at).filter(|now| now.map == piece.map) else { return };
            if !serve_fault(at, &now) {
                return;
            }
            at += 16 * PAGE_BYTES;
        }
        at = piece.end();
    }
}

/// Bytes that a call is given at a time, where it is given some of ours.
const COPIED_BYTES: usize = 256 << 10;

/// Has `give` called with copies of what is at `buffer`, part by part, until one is not taken
/// whole: the kernel does not ask for what is absent, but fails. `None` where none of it is ours.
pub(crate) fn in_copies(
    buffer: *const c_void,
    len: usize,
    mut give: impl FnMut(*const c_void, usize, usize) -> isize,
) -> Option<isize> {
    if !overlaps(buffer as usize, len) {
        return None;
    }
    let copy = Scratch::new(len.min(COPIED_BYTES)).ok()?;
    let mut done = 0;
    while done < len {
        let nr_bytes = (len - done).min(copy.len());
        let from = buffer.wrapping_byte_add(done).cast::<u8>();
        // SAFETY: the program's memory, to be read by the call (S20); room of our own (S22).
        unsafe { std::ptr::copy_nonoverlapping(from, copy.place(0), nr_bytes) };
        let taken = give(copy.place(0).cast(), nr_bytes, done);
        if taken < 0 {
            return Some(if done > 0 { done as isize } else { taken });
        }
        done += taken as usize;
        if (taken as usize) < nr_bytes {
            break;
        }
    }
    Some(done as isize)
}

/// Tells the server how a range will be used.
pub(crate) fn advise(start: usize, len: usize, advice: u64) {
    let mut at = start;
    let end = start.saturating_add(pages(len));
    while let Some(piece) = pieces::find(at, end) {
        let from = at.max(piece.start);
        let offset = (piece.offset + (from - piece.start) as u64) as i64;
        let len = (piece.end().min(end) - from) as u64;
        // To be told that the kernel has the file is no matter here.
        let one = Request::new(Op::Advise, piece.id);
        let one = Request { flags: advice, offset, len, total: 1, ..one };
        let _ = ask_only(&one);
        at = piece.end();
    }
}

/// msync(2): what is dirty of the files mapped in a range is made durable.
pub(crate) fn sync(start: usize, len: usize) -> Result<(), Errno> {
    let mut at = start;
    let end = start.saturating_add(pages(len));
    while let Some(piece) = pieces::find(at, end) {
        ask_only(&Request::new(Op::Sync, piece.id))?;
        at = piece.end();
    }
    Ok(())
}

/// A request whose answer is a result alone.
fn ask_only(one: &Request) -> Result<(), Errno> {
    let answer = ask(one, Parcel::default())?;
    answer.files.into_iter().filter(|file| *file >= 0).for_each(own::close);
    if answer.reply.result < 0 { Err(Errno(-answer.reply.result as c_int)) } else { Ok(()) }
}

/// Before fork: no thread is changing the table.
extern "C" fn before_fork() {
    pieces::hold();
}

extern "C" fn in_parent() {
    pieces::let_go();
}

/// A child has none of the mappings: it keeps the addresses, and maps its own at the first touch.
extern "C" fn in_child() {
    let mut at = 0;
    while let Some((piece, next)) = pieces::held_from(at) {
        at = next;
        reserve(&piece);
    }
    pieces::let_go();
}

/// Has each fork see to the pieces.
fn watch_forks() -> bool {
    // SAFETY: functions of this library, which is never unloaded (S36).
    unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) == 0 }
}
