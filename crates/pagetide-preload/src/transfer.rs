//! Reads and writes of a managed descriptor's bytes, as requests.
//!
//! ```text
//!   read    copied from the server's frames --> read by this thread --> brought in, or requested
//!   write   the packets of one call, which holds the call lock until the last packet
//! ```
//!
//! The first packet of a long call reserves the call's whole range. Further packets move the rest.
//! If the file is handed over in the middle of a call, the kernel does the rest.

use crate::arguments::{Access, refuse, total_of, usable};
use crate::channel::{self, PARTS_MAX};
use crate::errno::Errno;
use crate::held_signals::HeldSignals;
use crate::self_read::{self, Miss};
use crate::serve::{plain, request};
use crate::{limits, memory, next, process, serve, view};
use libc::{c_int, c_void, iovec, off_t};
use pagetide_run::wire::write as flag;
use pagetide_run::wire::{
    CHUNK_BYTES, FILE_BYTES_MAX, Op, PAGE_SHIFT, Reason, Reply, Request, bring_in,
};

/// The parts of a call's memory from byte `skip` on, as many as fit a packet.
struct Window {
    parts: [iovec; PARTS_MAX],
    nr: usize,
    len: usize,
}

impl Window {
    /// Collects at most `most` bytes.
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

    /// Returns the number of bytes up to the end of the first part, or of its page.
    fn to_end_of_page(&self) -> usize {
        let start = self.parts[0].iov_base as usize;
        let nr_bytes = (start + 1).next_multiple_of(1 << PAGE_SHIFT) - start;
        nr_bytes.min(self.parts[0].iov_len)
    }
}

/// The start of a read or write in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// At the position, which moves.
    Position,
    /// At an offset. The position stays.
    At(off_t),
    /// At the end of the file. The position moves to the new end.
    End,
    /// At the end of the file. The position stays.
    EndAlone,
}

impl Start {
    /// Returns the offset, if the call has one.
    pub(crate) fn offset(self) -> Option<off_t> {
        match self {
            Start::At(offset) => Some(offset),
            _ => None,
        }
    }

    /// Returns the maximum number of bytes of `parts` that the call moves.
    ///
    /// # Errors
    /// Fails with the kernel's errors for the arguments, in its order. Fails with `EINVAL` also if
    /// the bytes end past the last offset.
    #[inline]
    pub(crate) fn check(self, fd: c_int, parts: &[iovec], access: Access) -> Result<usize, Errno> {
        let checked = match self {
            Start::At(..0) => return Err(Errno(libc::EINVAL)),
            Start::At(offset) => total_of(parts).and_then(|total| {
                let end = offset.checked_add_unsigned(total as u64);
                end.map(|_| total).ok_or(Errno(libc::EINVAL))
            }),
            _ => total_of(parts),
        };
        checked.map_err(|errno| refuse(fd, access, errno))
    }
}

/// Waits of a read for pages that other threads are reading, before it asks the server.
const WAITS_MAX: u32 = 8;

/// Start of a read.
enum Begun {
    /// The read is done.
    Whole(usize),
    /// Some bytes of the range are read.
    Part(Range),
    /// The kernel has the file.
    Kernel,
}

/// Range of a read, from `base` on.
#[derive(Clone, Copy)]
struct Range {
    base: off_t,
    most: usize,
    /// Bytes that are read already.
    done: usize,
}

/// Reads into `parts`. Returns `None` if the kernel is to read instead.
pub(crate) fn read(
    fd: c_int,
    id: u64,
    parts: &[iovec],
    start: Start,
) -> Result<Option<usize>, Errno> {
    let wanted = start.check(fd, parts, Access::Read)?;
    let total = usable(parts, wanted);
    let len = || process::stat(fd).map_or(total, |stat| stat.st_size as usize);
    let total = memory::writable(parts, total, len);
    if total < wanted && total == 0 {
        return nowhere(fd, id, start).map(Some);
    }
    let only = |part: iovec| iovec { iov_len: total, ..part };
    let begun = match (start, parts) {
        (Start::At(offset), [part]) => begin_at(fd, id, only(*part), offset)?,
        (Start::At(base), _) => Begun::Part(Range { base, most: total, done: 0 }),
        (_, [part]) if view::tag(id).is_some() => begin_reserved(fd, id, only(*part))?,
        _ => begin_asked(id, parts, total)?,
    };
    match begun {
        Begun::Whole(nr_bytes) => Ok(Some(nr_bytes)),
        Begun::Part(range) => go_on(fd, id, parts, start, range),
        Begun::Kernel => Ok(None),
    }
}

/// Reads into an address without memory: 0 bytes at the end of the file, and an error before it.
fn nowhere(fd: c_int, id: u64, start: Start) -> Result<usize, Errno> {
    let at = match start {
        Start::At(offset) => offset,
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

/// Starts a read of one part at an offset with the bytes found in the frames.
#[inline]
fn begin_at(fd: c_int, id: u64, only: iovec, base: off_t) -> Result<Begun, Errno> {
    Ok(match read_found(id, only, base)? {
        Progress::Whole(nr_bytes) => Begun::Whole(nr_bytes),
        Progress::Part(done) => Begun::Part(Range { base, most: only.iov_len, done }),
        Progress::Kernel(0) => Begun::Kernel,
        Progress::Kernel(done) => Begun::Whole(rest_of(fd, &only, done, base)),
    })
}

/// Reserves a range at the position for one part, and starts with the bytes found in the frames.
fn begin_reserved(fd: c_int, id: u64, only: iovec) -> Result<Begun, Errno> {
    let Some((base, most)) = reserve(id, only.iov_len)? else { return Ok(Begun::Kernel) };
    if most == 0 {
        return Ok(Begun::Whole(0));
    }
    let only = iovec { iov_len: most, ..only };
    Ok(match begin_at(fd, id, only, base)? {
        // The range stays reserved for this call, although the kernel has the file now.
        Begun::Kernel => Begun::Whole(rest_of(fd, &only, 0, base)),
        begun => begun,
    })
}

/// Requests a range at the position, and the first bytes of it.
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

/// Requests the rest of a range.
fn go_on(
    fd: c_int,
    id: u64,
    parts: &[iovec],
    start: Start,
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
            Ok(None) if done == 0 && start != Start::Position => return Ok(None),
            // The kernel has the file now. The range is still reserved for this call.
            Ok(None) => {
                let rest = rest_from_kernel(fd, window.parts(), offset);
                return Ok(Some(done + rest.min(most - done)));
            }
            Err(errno) if done == 0 => return Err(errno),
            // The call reports the bytes before the failure.
            Err(_) => return Ok(Some(done)),
        }
    }
}

/// Moves the position over `total` bytes, or up to the end of the file, and reserves this range for
/// the call. Returns its offset and length, or `None` if the kernel has the file.
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

/// Progress of a read without data from the server.
enum Progress {
    /// The read has reached its end.
    Whole(usize),
    /// The server has to send the rest.
    Part(usize),
    /// The kernel has the file from here on.
    Kernel(usize),
}

/// Logs a hit, and sends the log to the server if it is due.
fn note(id: u64, tag: u32, at: u64, nr_bytes: usize) {
    if view::note(id, tag, at, nr_bytes) {
        self_read::tell();
    }
}

/// Reads one part at an offset. Copies pages from the frames. Reads or brings in missing pages.
fn read_found(id: u64, part: iovec, offset: off_t) -> Result<Progress, Errno> {
    let Some(tag) = view::tag(id) else { return Ok(Progress::Part(0)) };
    let len = part.iov_len;
    let last = (offset as u64).saturating_add(len.saturating_sub(1) as u64) >> PAGE_SHIFT;
    let goes_on = view::goes_on(id, offset as u64 >> PAGE_SHIFT, last);
    // End of the bytes for which the server has counted the pages, or will.
    let (mut done, mut counted, mut nr_waits) = (0, 0, 0);
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
            // The page was evicted right after it was brought in, so frames are scarce.
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
        if !goes_on {
            match self_read::read(id, tag, target, len - done, at) {
                Miss::Read(nr_bytes) => {
                    done += nr_bytes;
                    if done == len {
                        return Ok(Progress::Whole(len));
                    }
                    continue;
                }
                Miss::Waited if nr_waits < WAITS_MAX => {
                    nr_waits += 1;
                    continue;
                }
                Miss::Waited | Miss::Left => {}
            }
        }
        let wanted = (len - done).min(CHUNK_BYTES) as u64;
        let flags = if goes_on { bring_in::CONTINUES } else { 0 };
        let offset = at as i64;
        let one = Request { offset, len: wanted, flags, ..Request::new(Op::BringIn, id) };
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

/// Writes from `parts`, with the write flags `more`. Returns `None` if the kernel is to write
/// instead.
pub(crate) fn write(
    fd: c_int,
    id: u64,
    parts: &[iovec],
    start: Start,
    more: u64,
) -> Result<Option<usize>, Errno> {
    let wanted = start.check(fd, parts, Access::Write)?;
    let total = usable(parts, wanted);
    if total < wanted && total == 0 {
        let appends = serve::status_flags(fd)? & libc::O_APPEND != 0;
        let errno = match start {
            _ if appends => Errno(libc::EFAULT),
            Start::At(at) if at as u64 >= limits::file_len_max() => limits::exceed(),
            Start::At(at) if at as u64 >= FILE_BYTES_MAX => {
                serve::hand_over(id, Reason::Interface)?;
                return Ok(None);
            }
            _ => Errno(libc::EFAULT),
        };
        return Err(refuse(fd, Access::Write, errno));
    }
    let (op, offset, flags) = match start {
        Start::Position => (Op::Write, 0, 0),
        Start::At(offset) => (Op::WriteAt, offset, 0),
        Start::End => (Op::Append, 0, 0),
        Start::EndAlone => (Op::WriteAt, 0, flag::AT_END),
    };
    let most = channel::window::len(total).max(CHUNK_BYTES);
    let is_long = total > most || parts.len() > PARTS_MAX;
    let mut held = is_long.then(HeldSignals::new);
    let len = limits::file_len_max();
    let flags = flags | more;
    let first = Request { flags, offset, len, total: total as u64, ..Request::new(op, id) };
    let reply = match send_front(&first, (parts, 0), most, &mut held) {
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
        match send_front(&next, (parts, done), most, &mut held) {
            Ok(Some(reply)) if reply.result > 0 => done += reply.result as usize,
            Ok(None) => return Ok(Some(done + rest_to_kernel(fd, parts, done, start, offset))),
            // The call reports the bytes before the failure. An empty packet tells the server to
            // expect no more.
            _ => {
                let flags = flag::CONTINUED | flag::LAST;
                let _ = plain(Request { flags, ..more });
                break;
            }
        }
    }
    Ok(Some(done))
}

/// Sends a write's packet with at most `most` bytes after the first `done`, as many as are in the
/// program's memory. If more packets may follow, the program's signals are `held`.
fn send_front(
    one: &Request,
    (parts, done): (&[iovec], usize),
    most: usize,
    held: &mut Option<HeldSignals>,
) -> Result<Option<Reply>, Errno> {
    let request_for = |window: &Window| {
        let is_last = one.flags & flag::CONTINUED != 0 && window.len as u64 == one.total;
        let flags = one.flags | if is_last { flag::LAST } else { 0 };
        let total = if one.flags & flag::CONTINUED != 0 { 0 } else { one.total };
        Request { flags, total, ..*one }
    };
    let send = |window: &Window| request(&request_for(window), window.parts(), &[]);
    let mut window = Window::new(parts, done, most.min(one.total as usize));
    let by_window = serve::write(&request_for(&window), window.parts());
    // The socket finds out how much of the memory there is.
    let by_window = by_window.filter(|sent| *sent != Err(Errno(libc::EFAULT)));
    if by_window.is_none() && window.len > CHUNK_BYTES {
        held.get_or_insert_with(HeldSignals::new);
        window = Window::new(parts, done, CHUNK_BYTES);
    }
    match by_window.unwrap_or_else(|| send(&window)) {
        // As the kernel does: a page at a time, up to the end of the memory.
        Err(Errno(libc::EFAULT)) => {
            held.get_or_insert_with(HeldSignals::new);
            send(&Window::new(parts, done, window.to_end_of_page()))
        }
        sent => sent,
    }
}

/// Reads the rest of a part at `offset` through the kernel, after the first `done` bytes. Returns
/// the total number of bytes, including `done`.
fn rest_of(fd: c_int, part: &iovec, done: usize, offset: off_t) -> usize {
    let rest = Window::new(std::slice::from_ref(part), done, CHUNK_BYTES);
    done + rest_from_kernel(fd, rest.parts(), offset + done as off_t)
}

fn rest_from_kernel(fd: c_int, parts: &[iovec], offset: off_t) -> usize {
    // SAFETY: parts of the program's memory, passed for this call (S20).
    let nr = unsafe { next::preadv64(fd, parts.as_ptr(), parts.len() as c_int, offset) };
    nr.max(0) as usize
}

/// Writes the bytes after the first `done` through the kernel, at the kernel's position or at
/// `offset`.
fn rest_to_kernel(fd: c_int, parts: &[iovec], done: usize, start: Start, offset: off_t) -> usize {
    let rest = Window::new(parts, done, CHUNK_BYTES);
    let (parts, nr) = (rest.parts().as_ptr(), rest.nr as c_int);
    let nr = match start {
        // SAFETY: parts of the program's memory, passed for this call (S20).
        Start::Position | Start::End => unsafe { next::writev(fd, parts, nr) },
        // SAFETY: as above (S20).
        _ => unsafe { next::pwritev64(fd, parts, nr, offset) },
    };
    nr.max(0) as usize
}

/// Returns a buffer as a vector of one part.
pub(crate) fn part(buffer: *const c_void, len: usize) -> [iovec; 1] {
    [iovec { iov_base: buffer.cast_mut(), iov_len: len }]
}
