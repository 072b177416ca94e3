//! Bytes of a managed descriptor, as requests: what a call reads or writes.
//!
//! ```text
//!   read    found in the server's frames --> read by ourselves --> brought in, or asked for
//!   write   packets of one call, which has its turn until the last
//! ```
//!
//! Calls longer than a packet reserve their range with the first, and go on in it with others.
//! Where the file changes hands in the middle of one, the kernel does the rest.

use crate::arguments::{Access, refuse, total_of, usable};
use crate::channel::PARTS_MAX;
use crate::errno::Errno;
use crate::held_signals::HeldSignals;
use crate::serve::{plain, request};
use crate::{limits, memory, next, process, self_read, serve, view};
use libc::{c_int, c_void, iovec, off_t};
use pagetide_run::wire::write as flag;
use pagetide_run::wire::{CHUNK_BYTES, FILE_BYTES_MAX, Op, PAGE_SHIFT, Reason, Reply, Request};

/// The parts of a call's memory from byte `skip` on, as many as fit a packet.
struct Window {
    parts: [iovec; PARTS_MAX],
    nr: usize,
    len: usize,
}

impl Window {
    /// At most `most` bytes.
    fn new(all: &[iovec], mut skip: usize, most: usize) -> Window {
        let nothing = iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut window = Window { parts: [nothing; PARTS_MAX], nr: 0, len: 0 };
        for part in all {
            if skip >= part.iov_len {
                skip -= part.iov_len;
                continue;
            }
            if window.nr == PARTS_MAX || window.len == most {
                break;
            }
            let iov_len = (part.iov_len - skip).min(most - window.len);
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

    /// Bytes up to the end of the first one, or of its page.
    fn to_end_of_page(&self) -> usize {
        let start = self.parts[0].iov_base as usize;
        let nr_bytes = (start + 1).next_multiple_of(1 << PAGE_SHIFT) - start;
        nr_bytes.min(self.parts[0].iov_len)
    }
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

impl Place {
    /// Returns how many bytes of `parts` the call moves at most.
    ///
    /// # Errors
    /// What the kernel says of arguments, in its order; EINVAL also where the bytes end past the
    /// last offset there is.
    #[inline]
    pub(crate) fn check(self, fd: c_int, parts: &[iovec], access: Access) -> Result<usize, Errno> {
        let checked = match self {
            Place::At(..0) => return Err(Errno(libc::EINVAL)),
            Place::At(offset) => total_of(parts).and_then(|total| {
                let end = offset.checked_add_unsigned(total as u64);
                end.map(|_| total).ok_or(Errno(libc::EINVAL))
            }),
            _ => total_of(parts),
        };
        checked.map_err(|errno| refuse(fd, access, errno))
    }
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
    let wanted = place.check(fd, parts, Access::Read)?;
    let total = usable(parts, wanted);
    let len = || process::stat(fd).map_or(total, |stat| stat.st_size as usize);
    let total = memory::writable(parts, total, len);
    if total < wanted && total == 0 {
        return nowhere(fd, id, place).map(Some);
    }
    let only = |part: iovec| iovec { iov_len: total, ..part };
    let begun = match (place, parts) {
        (Place::At(offset), [part]) => begin_at(fd, id, only(*part), offset)?,
        (Place::At(base), _) => Begun::Part(Range { base, most: total, done: 0 }),
        (_, [part]) if view::tag(id).is_some() => begin_reserved(fd, id, only(*part))?,
        _ => begin_asked(id, parts, total)?,
    };
    match begun {
        Begun::Whole(nr_bytes) => Ok(Some(nr_bytes)),
        Begun::Part(range) => go_on(fd, id, parts, place, range),
        Begun::Kernel => Ok(None),
    }
}

/// A read to where there is no memory, of which nothing is noticed at the file's end.
fn nowhere(fd: c_int, id: u64, place: Place) -> Result<usize, Errno> {
    let at = match place {
        Place::At(offset) => offset,
        _ => {
            let flags = libc::SEEK_CUR as u64;
            let asked = plain(Request { flags, ..Request::new(Op::Seek, id) })?;
            asked.map_or(0, |reply| reply.result)
        }
    };
    let is_at_end = process::stat(fd).is_ok_and(|stat| at >= stat.st_size);
    let errno = if is_at_end { Errno(0) } else { Errno(libc::EFAULT) };
    match refuse(fd, Access::Read, errno) {
        Errno(0) => Ok(0),
        errno => Err(errno),
    }
}

/// Begins with what is found of one part at a place.
#[inline]
fn begin_at(fd: c_int, id: u64, only: iovec, base: off_t) -> Result<Begun, Errno> {
    Ok(match read_found(id, only, base)? {
        Progress::Whole(nr_bytes) => Begun::Whole(nr_bytes),
        Progress::Part(done) => Begun::Part(Range { base, most: only.iov_len, done }),
        Progress::Kernel(0) => Begun::Kernel,
        Progress::Kernel(done) => Begun::Whole(rest_of(fd, &only, done, base)),
    })
}

/// Reserves a range at the position for one part, and begins with what is found of that.
fn begin_reserved(fd: c_int, id: u64, only: iovec) -> Result<Begun, Errno> {
    let Some((base, most)) = reserve(id, only.iov_len)? else { return Ok(Begun::Kernel) };
    if most == 0 {
        return Ok(Begun::Whole(0));
    }
    let only = iovec { iov_len: most, ..only };
    Ok(match begin_at(fd, id, only, base)? {
        // The range is this call's, although the file has changed hands.
        Begun::Kernel => Begun::Whole(rest_of(fd, &only, 0, base)),
        begun => begun,
    })
}

/// Asks for a range at the position, and the front of its bytes.
fn begin_asked(id: u64, parts: &[iovec], total: usize) -> Result<Begun, Errno> {
    let window = Window::new(parts, 0, CHUNK_BYTES.min(total));
    let (len, total) = (window.len as u64, total as u64);
    let first = Request { len, total, ..Request::new(Op::Read, id) };
    let Some(reply) = request(&first, &[], window.parts())? else { return Ok(Begun::Kernel) };
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
        let window = Window::new(parts, done, CHUNK_BYTES.min(most - done));
        let len = window.len;
        let offset = base + done as off_t;
        let more = Request { offset, len: len as u64, ..Request::new(Op::ReadAt, id) };
        match request(&more, &[], window.parts()) {
            Ok(Some(reply)) => {
                view::learn(id, &reply);
                done += reply.result as usize;
                if (reply.result as usize) < len || done >= most {
                    return Ok(Some(done));
                }
            }
            Ok(None) if done == 0 && place != Place::Position => return Ok(None),
            // The file changed hands in between: the range is this call's, wherever its bytes are.
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

/// Moves the position over `total` bytes, or as many as there are; they are this call's. Returns
/// where they begin, and how many they are.
fn reserve(id: u64, total: usize) -> Result<Option<(off_t, usize)>, Errno> {
    let found = view::advance(id, total as u64);
    let (base, most) = match found {
        Some(range) => range,
        None => {
            let one = Request { total: total as u64, ..Request::new(Op::Reserve, id) };
            let Some(reply) = plain(one)? else { return Ok(None) };
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

/// Writes down what was found, and tells the server where that is due.
fn note(id: u64, tag: u32, at: u64, nr_bytes: usize) {
    if view::note(id, tag, at, nr_bytes) {
        self_read::tell();
    }
}

/// Reads one part at a place: what is found is copied, what is missing is brought in, or read here.
fn read_found(id: u64, part: iovec, offset: off_t) -> Result<Progress, Errno> {
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
            note(id, tag, at, found.nr_bytes);
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
            note(id, tag, at, nr_bytes);
            done += nr_bytes;
            if done == len {
                return Ok(Progress::Whole(len));
            }
            continue;
        }
        if !goes_on && self_read::read(id, tag, target, len - done, at) {
            return Ok(Progress::Whole(len));
        }
        let wanted = (len - done).min(CHUNK_BYTES) as u64;
        let one = Request { offset: at as i64, len: wanted, ..Request::new(Op::BringIn, id) };
        match plain(one) {
            Ok(Some(reply)) if reply.result == 0 => return Ok(Progress::Whole(done)),
            Ok(Some(reply)) => counted = done + reply.result as usize,
            Ok(None) => return Ok(Progress::Kernel(done)),
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => return Ok(Progress::Whole(done)),
        }
    }
    Ok(Progress::Part(done))
}

/// Writes from `parts`; `more` are write flags. `None`: ask the kernel instead.
pub(crate) fn write(
    fd: c_int,
    id: u64,
    parts: &[iovec],
    place: Place,
    more: u64,
) -> Result<Option<usize>, Errno> {
    let wanted = place.check(fd, parts, Access::Write)?;
    let total = usable(parts, wanted);
    if total < wanted && total == 0 {
        let appends = serve::status_flags(fd)? & libc::O_APPEND != 0;
        let errno = match place {
            _ if appends => Errno(libc::EFAULT),
            Place::At(at) if at as u64 >= limits::file_len_max() => limits::exceed(),
            Place::At(at) if at as u64 >= FILE_BYTES_MAX => {
                serve::hand_over(id, Reason::Interface)?;
                return Ok(None);
            }
            _ => Errno(libc::EFAULT),
        };
        return Err(refuse(fd, Access::Write, errno));
    }
    let (op, offset, flags) = match place {
        Place::Position => (Op::Write, 0, 0),
        Place::At(offset) => (Op::WriteAt, offset, 0),
        Place::End => (Op::Append, 0, 0),
        Place::EndAlone => (Op::WriteAt, 0, flag::AT_END),
    };
    let is_long = total > CHUNK_BYTES || parts.len() > PARTS_MAX;
    let mut held = is_long.then(HeldSignals::new);
    let len = limits::file_len_max();
    let flags = flags | more;
    let first = Request { flags, offset, len, total: total as u64, ..Request::new(op, id) };
    let reply = match send_front(&first, parts, 0, &mut held) {
        Ok(Some(reply)) => reply,
        Ok(None) => return Ok(None),
        Err(Errno(libc::EFBIG)) if len != u64::MAX => return Err(limits::exceed()),
        Err(errno) => return Err(errno),
    };
    let (base, allowed) = (reply.offset as off_t, reply.total as usize);
    let mut done = reply.result as usize;
    while done > 0 && done < allowed {
        held.iter().for_each(HeldSignals::let_killers_through);
        let offset = base + done as off_t;
        let more = Request { offset, len, flags: flag::CONTINUED, ..Request::new(Op::WriteAt, id) };
        let next = Request { total: (allowed - done) as u64, ..more };
        match send_front(&next, parts, done, &mut held) {
            Ok(Some(reply)) if reply.result > 0 => done += reply.result as usize,
            Ok(None) => return Ok(Some(done + rest_to_kernel(fd, parts, done, place, offset))),
            // What has been written, has been written; and the rest is not waited for.
            _ => {
                let flags = flag::CONTINUED | flag::LAST;
                let _ = plain(Request { flags, ..more });
                break;
            }
        }
    }
    Ok(Some(done))
}

/// Sends a write's packet with what follows the first `done` bytes: as much as fits, and as is the
/// program's memory. Signals are `held` before a packet that is not the last can have been sent.
fn send_front(
    one: &Request,
    parts: &[iovec],
    done: usize,
    held: &mut Option<HeldSignals>,
) -> Result<Option<Reply>, Errno> {
    let send = |window: &Window| {
        let is_last = one.flags & flag::CONTINUED != 0 && window.len as u64 == one.total;
        let flags = one.flags | if is_last { flag::LAST } else { 0 };
        let total = if one.flags & flag::CONTINUED != 0 { 0 } else { one.total };
        request(&Request { flags, total, ..*one }, window.parts(), &[])
    };
    let window = Window::new(parts, done, CHUNK_BYTES.min(one.total as usize));
    match send(&window) {
        // As the kernel does, a page at a time up to where the memory ends.
        Err(Errno(libc::EFAULT)) => {
            held.get_or_insert_with(HeldSignals::new);
            send(&Window::new(parts, done, window.to_end_of_page()))
        }
        sent => sent,
    }
}

/// What follows the first `done` bytes of a part at `offset`, from the kernel; how many there are
/// in all.
fn rest_of(fd: c_int, part: &iovec, done: usize, offset: off_t) -> usize {
    let rest = Window::new(std::slice::from_ref(part), done, CHUNK_BYTES);
    done + rest_from_kernel(fd, rest.parts(), offset + done as off_t)
}

fn rest_from_kernel(fd: c_int, parts: &[iovec], offset: off_t) -> usize {
    // SAFETY: parts of the program's memory, given for just this (S20).
    let nr = unsafe { next::preadv64(fd, parts.as_ptr(), parts.len() as c_int, offset) };
    nr.max(0) as usize
}

/// Has the kernel write what follows the first `done` bytes, where its own position is by now, or
/// at `offset`.
fn rest_to_kernel(fd: c_int, parts: &[iovec], done: usize, place: Place, offset: off_t) -> usize {
    let rest = Window::new(parts, done, CHUNK_BYTES);
    let (parts, nr) = (rest.parts().as_ptr(), rest.nr as c_int);
    let nr = match place {
        // SAFETY: parts of the program's memory, given for just this (S20).
        Place::Position | Place::End => unsafe { next::writev(fd, parts, nr) },
        // SAFETY: as above (S20).
        _ => unsafe { next::pwritev64(fd, parts, nr, offset) },
    };
    nr.max(0) as usize
}

/// One part of memory.
pub(crate) fn part(buffer: *const c_void, len: usize) -> [iovec; 1] {
    [iovec { iov_base: buffer.cast_mut(), iov_len: len }]
}
