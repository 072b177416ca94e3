//! A managed descriptor's calls, as requests.
//!
//! ```text
//!   look up --> request --> Done       the result
//!                           Kernel     remember that, and let the caller call the kernel
//!                           Unsettled  give the kernel the position first
//!                           Forgotten  adopt again, ask again
//! ```
//!
//! Calls longer than a packet reserve their range with the first, and go on in it with others.

use crate::channel::{PARTS_MAX, ask};
use crate::errno::Errno;
use crate::table::{self, Entry};
use crate::{limits, next, process, self_read, view};
use libc::{c_int, c_void, iovec, off_t};
use pagetide_sys::wire::{CHUNK_BYTES, Op, PAGE_SHIFT, Reason, Reply, Request, Status};
use pagetide_sys::wire::{adopt, write as flag};

/// The description behind `fd`, if it is managed.
#[inline]
pub(crate) fn managed(fd: c_int) -> Option<u64> {
    if !process::is_on() {
        return None;
    }
    match table::entry(fd) {
        Entry::Managed(id) => Some(id),
        Entry::Kernel => None,
        Entry::Unknown => classify(fd),
    }
}

/// Looks at a descriptor that came from somewhere unseen: by exec, from another process, from
/// within the C library.
#[cold]
fn classify(fd: c_int) -> Option<u64> {
    let before = crate::errno::read();
    let found = match process::stat(fd) {
        Ok(stat) if is_regular(&stat) => {
            // What cannot be asked is the kernel's; it was said.
            adopt_descriptor(fd, status_flags(fd)).unwrap_or(Entry::Kernel)
        }
        Ok(_) => Entry::Kernel,
        Err(_) => Entry::Unknown,
    };
    if found != Entry::Unknown {
        table::set(fd, found);
    }
    crate::errno::set(before);
    match found {
        Entry::Managed(id) => Some(id),
        _ => None,
    }
}

/// Whether it is a regular file.
pub(crate) fn is_regular(stat: &libc::stat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFREG
}

/// The flags it was opened with, or was given since.
pub(crate) fn status_flags(fd: c_int) -> u64 {
    let arguments = [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0];
    // SAFETY: numbers only (S20).
    let flags = unsafe { next::system(libc::SYS_fcntl, arguments) };
    flags.map_or(0, |flags| flags as u64 & u64::from(u32::MAX))
}

/// Asks the server to take `fd` over; says what it is from now on.
pub(crate) fn adopt_descriptor(fd: c_int, flags: u64) -> Result<Entry, Errno> {
    let kernel = if table::can_manage(fd) { 0 } else { adopt::KERNEL };
    let request = Request { flags: flags | kernel, ..Request::new(Op::Adopt, 0) };
    let reply = ask(&request, &[], Some(fd), &[])?;
    match reply.status {
        Status::Kernel => Ok(Entry::Kernel),
        _ if reply.result < 0 => Err(Errno(-reply.result as c_int)),
        _ => Ok(Entry::Managed(reply.result as u64)),
    }
}

/// Sends a request for a managed descriptor. `None`: the kernel has the file now.
pub(crate) fn request(
    fd: c_int,
    request: &Request,
    source: &[iovec],
    target: &[iovec],
) -> Result<Option<Reply>, Errno> {
    loop {
        let reply = ask(request, source, None, target)?;
        let now = match reply.status {
            Status::Done if reply.result < 0 => return Err(Errno(-reply.result as c_int)),
            Status::Done => return Ok(Some(reply)),
            Status::Kernel => Entry::Kernel,
            Status::Unsettled => {
                ask(&Request::new(Op::Settle, request.id), &[], Some(fd), &[])?;
                Entry::Kernel
            }
            Status::Forgotten => adopt_descriptor(fd, status_flags(fd))?,
        };
        table::set(fd, now);
        match now {
            // The same description has the same number for ever.
            Entry::Managed(id) if id == request.id => {}
            Entry::Managed(_) => return Err(Errno(libc::EIO)),
            _ => return Ok(None),
        }
    }
}

/// A request without data.
pub(crate) fn plain(fd: c_int, one: Request) -> Result<Option<Reply>, Errno> {
    request(fd, &one, &[], &[])
}

/// Has the kernel take the file over, now and for good, so that it can be used past us.
pub(crate) fn hand_over(fd: c_int, reason: Reason) -> Result<(), Errno> {
    let reply = ask_to_hand_over(fd, reason)?;
    if reply.result < 0 {
        return Err(Errno(-reply.result as c_int));
    }
    table::set(fd, Entry::Kernel);
    Ok(())
}

/// The request of [`hand_over`], for a descriptor that need not be the program's.
pub(crate) fn ask_to_hand_over(fd: c_int, reason: Reason) -> Result<Reply, Errno> {
    let request = Request { flags: reason as u64, ..Request::new(Op::HandOver, 0) };
    ask(&request, &[], Some(fd), &[])
}

/// The parts of a call's memory from byte `skip` on, as many as fit a packet.
struct Window {
    parts: [iovec; PARTS_MAX],
    nr: usize,
    len: usize,
}

impl Window {
    fn new(all: &[iovec], mut skip: usize) -> Window {
        let nothing = iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut window = Window { parts: [nothing; PARTS_MAX], nr: 0, len: 0 };
        for part in all {
            if skip >= part.iov_len {
                skip -= part.iov_len;
                continue;
            }
            if window.nr == PARTS_MAX || window.len == CHUNK_BYTES {
                break;
            }
            let iov_len = (part.iov_len - skip).min(CHUNK_BYTES - window.len);
            let iov_base = part.iov_base.wrapping_byte_add(skip);
            window.parts[window.nr] = iovec { iov_base, iov_len };
            window.nr += 1;
            window.len += iov_len;
            skip = 0;
        }
        window
    }

    fn parts(&self) -> &[iovec] {
        &self.parts[..self.nr]
    }
}

fn total_of(parts: &[iovec]) -> Result<usize, Errno> {
    let sum = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.iov_len));
    sum.filter(|sum| isize::try_from(*sum).is_ok()).ok_or(Errno(libc::EINVAL))
}

/// Where a call reads or writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// At the position, which moves.
    Position,
    /// Somewhere.
    At(off_t),
    /// At the end of the file, where the position goes along.
    End,
    /// At the end of the file; the position stays.
    EndAlone,
}

/// How a read began.
enum Begun {
    /// It is done.
    Whole(usize),
    /// Some bytes of its range are there.
    Part(Range),
    /// The kernel has the file.
    Kernel,
}

/// What a read is to bring, from `base` on.
#[derive(Clone, Copy)]
struct Range {
    base: off_t,
    most: usize,
    /// So much of it is there.
    done: usize,
}

/// Reads into `parts`. `None`: ask the kernel instead.
pub(crate) fn read(
    fd: c_int,
    id: u64,
    parts: &[iovec],
    place: Place,
) -> Result<Option<usize>, Errno> {
    let total = total_of(parts)?;
    let begun = match (place, parts) {
        (Place::At(offset), [only]) if offset >= 0 => begin_at(fd, id, *only, offset)?,
        (Place::At(base), _) => Begun::Part(Range { base, most: total, done: 0 }),
        (_, [only]) if view::tag(id).is_some() => begin_reserved(fd, id, *only)?,
        _ => begin_asked(fd, id, parts, total)?,
    };
    match begun {
        Begun::Whole(nr_bytes) => Ok(Some(nr_bytes)),
        Begun::Part(range) => go_on(fd, id, parts, place, range),
        Begun::Kernel => Ok(None),
    }
}

/// Begins with what is found of one part at a place.
#[inline]
fn begin_at(fd: c_int, id: u64, only: iovec, base: off_t) -> Result<Begun, Errno> {
    Ok(match read_found(fd, id, only, base)? {
        Progress::Whole(nr_bytes) => Begun::Whole(nr_bytes),
        Progress::Part(done) => Begun::Part(Range { base, most: only.iov_len, done }),
        Progress::Kernel(0) => Begun::Kernel,
        Progress::Kernel(done) => Begun::Whole(rest_of(fd, &only, done, base)),
    })
}

/// Reserves a range at the position for one part, and begins with what is found of that.
fn begin_reserved(fd: c_int, id: u64, only: iovec) -> Result<Begun, Errno> {
    let Some((base, most)) = reserve(fd, id, only.iov_len)? else { return Ok(Begun::Kernel) };
    if most == 0 {
        return Ok(Begun::Whole(0));
    }
    let only = iovec { iov_len: most, ..only };
    Ok(match begin_at(fd, id, only, base)? {
        // The range is ours, whoever has the file from here on.
        Begun::Kernel => Begun::Whole(rest_of(fd, &only, 0, base)),
        begun => begun,
    })
}

/// Asks for a range at the position, and the front of its bytes.
fn begin_asked(fd: c_int, id: u64, parts: &[iovec], total: usize) -> Result<Begun, Errno> {
    let window = Window::new(parts, 0);
    let (len, total) = (window.len as u64, total as u64);
    let first = Request { len, total, ..Request::new(Op::Read, id) };
    let Some(reply) = request(fd, &first, &[], window.parts())? else { return Ok(Begun::Kernel) };
    view::learn(id, &reply);
    let done = reply.result as usize;
    let most = if done == window.len { reply.total as usize } else { done };
    if done >= most {
        return Ok(Begun::Whole(done));
    }
    Ok(Begun::Part(Range { base: reply.offset as off_t, most, done }))
}

/// Asks for the rest of a range.
fn go_on(
    fd: c_int,
    id: u64,
    parts: &[iovec],
    place: Place,
    range: Range,
) -> Result<Option<usize>, Errno> {
    let Range { base, most, mut done } = range;
    loop {
        let window = Window::new(parts, done);
        let len = window.len.min(most - done);
        let offset = base + done as off_t;
        let more = Request { offset, len: len as u64, ..Request::new(Op::ReadAt, id) };
        match request(fd, &more, &[], window.parts()) {
            Ok(Some(reply)) => {
                view::learn(id, &reply);
                done += reply.result as usize;
                if (reply.result as usize) < len || done >= most {
                    return Ok(Some(done));
                }
            }
            Ok(None) if done == 0 && place != Place::Position => return Ok(None),
            // The file changed hands in between: the range is ours, wherever its bytes are.
            Ok(None) => {
                let rest = rest_from_kernel(fd, window.parts(), offset);
                return Ok(Some(done + rest.min(most - done)));
            }
            Err(errno) if done == 0 => return Err(errno),
            // What has been read, has been read.
            Err(_) => return Ok(Some(done)),
        }
    }
}

/// Moves the position over `total` bytes, or as many as there are; they are nobody else's. Returns
/// where they begin, and how many they are.
fn reserve(fd: c_int, id: u64, total: usize) -> Result<Option<(off_t, usize)>, Errno> {
    let found = view::advance(id, total as u64);
    let (base, most) = match found {
        Some(range) => range,
        None => {
            let one = Request { total: total as u64, ..Request::new(Op::Reserve, id) };
            let Some(reply) = plain(fd, one)? else { return Ok(None) };
            view::learn(id, &reply);
            (reply.offset, reply.total)
        }
    };
    Ok(Some((base as off_t, most as usize)))
}

/// How far a read came without bytes from the server.
enum Progress {
    /// All there is.
    Whole(usize),
    /// The rest is to be asked for.
    Part(usize),
    /// The kernel has the file from here on.
    Kernel(usize),
}

/// Reads one part at a place: what is found is copied, what is missing is brought in, or read here.
fn read_found(fd: c_int, id: u64, part: iovec, offset: off_t) -> Result<Progress, Errno> {
    let Some(tag) = view::tag(id) else { return Ok(Progress::Part(0)) };
    let len = part.iov_len;
    let last = (offset as u64).saturating_add(len.saturating_sub(1) as u64) >> PAGE_SHIFT;
    let goes_on = view::goes_on(id, offset as u64 >> PAGE_SHIFT, last);
    // Bytes whose pages the server has counted, or will.
    let (mut done, mut counted) = (0, 0);
    loop {
        let (target, at) = (part.iov_base.wrapping_byte_add(done), offset as u64 + done as u64);
        let Some(found) = view::copy(tag, target, len - done, at) else { break };
        if done >= counted {
            view::note(id, tag, at, found.nr_bytes);
        }
        done += found.nr_bytes;
        if found.is_all {
            return Ok(Progress::Whole(done));
        }
        if done < counted {
            // Brought in, and gone again: there is little room.
            break;
        }
        let (target, at) = (part.iov_base.wrapping_byte_add(done), offset as u64 + done as u64);
        let nr_bytes = self_read::find(id, tag, target, len - done, at);
        if nr_bytes > 0 {
            view::note(id, tag, at, nr_bytes);
            done += nr_bytes;
            if done == len {
                return Ok(Progress::Whole(len));
            }
            continue;
        }
        if !goes_on && self_read::read(fd, id, tag, target, len - done, at) {
            return Ok(Progress::Whole(len));
        }
        let wanted = (len - done).min(CHUNK_BYTES) as u64;
        let one = Request { offset: at as i64, len: wanted, ..Request::new(Op::BringIn, id) };
        match plain(fd, one) {
            Ok(Some(reply)) if reply.result == 0 => return Ok(Progress::Whole(done)),
            Ok(Some(reply)) => counted = done + reply.result as usize,
            Ok(None) => return Ok(Progress::Kernel(done)),
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => return Ok(Progress::Whole(done)),
        }
    }
    Ok(Progress::Part(done))
}

/// Writes from `parts`. `None`: ask the kernel instead.
pub(crate) fn write(
    fd: c_int,
    id: u64,
    parts: &[iovec],
    place: Place,
) -> Result<Option<usize>, Errno> {
    let total = total_of(parts)? as u64;
    let (op, offset, flags) = match place {
        Place::Position => (Op::Write, 0, 0),
        Place::At(offset) => (Op::WriteAt, offset, 0),
        Place::End => (Op::Append, 0, 0),
        Place::EndAlone => (Op::WriteAt, 0, flag::AT_END),
    };
    let window = Window::new(parts, 0);
    let len = limits::file_len_max();
    let first = Request { flags, offset, len, total, ..Request::new(op, id) };
    let reply = match request(fd, &first, window.parts(), &[]) {
        Ok(Some(reply)) => reply,
        Ok(None) => return Ok(None),
        Err(Errno(libc::EFBIG)) if len != u64::MAX => return Err(limits::exceed()),
        Err(errno) => return Err(errno),
    };
    let mut done = reply.result as usize;
    let (base, total) = (reply.offset as off_t, reply.total as usize);
    while done > 0 && done < total {
        let window = Window::new(parts, done);
        let offset = base + done as off_t;
        let more = Request { offset, flags: flag::CONTINUED, len, ..Request::new(Op::WriteAt, id) };
        match request(fd, &more, window.parts(), &[]) {
            Ok(Some(reply)) if reply.result > 0 => done += reply.result as usize,
            Ok(None) => return Ok(Some(done + rest_to_kernel(fd, window.parts(), offset))),
            // What has been written, has been written.
            _ => break,
        }
    }
    Ok(Some(done))
}

/// What follows the first `done` bytes of a part at `offset`, from the kernel; how many there are
/// in all.
fn rest_of(fd: c_int, part: &iovec, done: usize, offset: off_t) -> usize {
    let rest = Window::new(std::slice::from_ref(part), done);
    done + rest_from_kernel(fd, rest.parts(), offset + done as off_t)
}

fn rest_from_kernel(fd: c_int, parts: &[iovec], offset: off_t) -> usize {
    // SAFETY: parts of the program's memory, given for just this (S20).
    let nr = unsafe { next::preadv64(fd, parts.as_ptr(), parts.len() as c_int, offset) };
    nr.max(0) as usize
}

fn rest_to_kernel(fd: c_int, parts: &[iovec], offset: off_t) -> usize {
    // SAFETY: parts of the program's memory, given for just this (S20).
    let nr = unsafe { next::pwritev64(fd, parts.as_ptr(), parts.len() as c_int, offset) };
    nr.max(0) as usize
}

/// One part of memory.
pub(crate) fn part(buffer: *const c_void, len: usize) -> [iovec; 1] {
    [iovec { iov_base: buffer.cast_mut(), iov_len: len }]
}

/// A descriptor that is about to be closed, or to mean something else: nobody's from here on.
/// Returns what has to be told of it.
pub(crate) fn forget(fd: c_int) -> Result<(), Errno> {
    let Entry::Managed(id) = table::set(fd, Entry::Unknown) else { return Ok(()) };
    // A child that has asked for nothing has nothing to give back.
    if !process::has_entered() {
        return Ok(());
    }
    // While somebody knows the description.
    let log = self_read::tell_before_asking();
    let reply = ask(&Request::new(Op::Close, id), &[log], None, &[])?;
    if reply.result < 0 { Err(Errno(-reply.result as c_int)) } else { Ok(()) }
}

/// `copy` is a new descriptor for what `fd` has open.
pub(crate) fn duplicated(fd: c_int, copy: c_int) {
    let id = if table::can_manage(copy) { known(fd) } else { managed(fd) };
    match id {
        Some(id) if table::can_manage(copy) => {
            table::set(copy, Entry::Managed(id));
            if process::has_entered() {
                // A count that is wrong costs opening the file again.
                let _ = ask(&Request::new(Op::Dup, id), &[], None, &[]);
            }
        }
        Some(_) => {
            if hand_over(copy, Reason::Standard).is_ok() {
                table::set(fd, Entry::Kernel);
            }
        }
        None => {
            table::set(copy, table::entry(fd));
        }
    }
}

fn known(fd: c_int) -> Option<u64> {
    match table::entry(fd) {
        Entry::Managed(id) => Some(id),
        _ => None,
    }
}
