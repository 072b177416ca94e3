//! Reads, writes, and moves of the position.

use super::interfaces::hand_over;
use crate::arguments::{Access, Vector, check_range, refuse, total_of};
use crate::errno::{Errno, or_minus_one};
use crate::transfer::{self, Start};
use crate::{maps, new_files, new_reports, passing, pieces, serve, view};
use libc::{c_int, c_void, iovec, off_t, size_t, ssize_t};
use pagetide_run::wire::{Op, Reason, Request};

/// Flags of preadv2 and pwritev2. [`RWF_KEPT`] are the flags that the server can keep, and the
/// first one needs no work.
const RWF_HIPRI: c_int = 1;
const RWF_DSYNC: c_int = 2;
const RWF_SYNC: c_int = 4;
const RWF_NOWAIT: c_int = 8;
const RWF_APPEND: c_int = 16;
const RWF_KEPT: c_int = RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_APPEND;

/// Reads if `fd` is managed. Returns `None` if it is not, or if the kernel is to read.
fn read_managed(fd: c_int, parts: &[iovec], start: Start) -> Option<ssize_t> {
    if new_files::takes_read(fd) {
        return None;
    }
    let Some(id) = serve::managed(fd) else {
        passing::note(fd, parts, start.offset(), false);
        return None;
    };
    finish(transfer::read(fd, id, parts, start))
}

/// Writes if `fd` is managed, with the write flags `more`. Returns `None` otherwise, or if the
/// kernel is to write.
pub(super) fn write_managed(
    fd: c_int,
    parts: &[iovec],
    start: Start,
    more: u64,
) -> Option<ssize_t> {
    if new_reports::is_new(fd) {
        let written = new_files::write(fd, parts, start.offset());
        if written.is_some() || new_reports::is_new(fd) {
            return written.map(|result| or_minus_one(result.map(|nr| nr as ssize_t)));
        }
    }
    let Some(id) = serve::managed(fd) else {
        passing::note(fd, parts, start.offset(), true);
        return None;
    };
    finish(transfer::write(fd, id, parts, start, more))
}

fn finish(result: Result<Option<usize>, Errno>) -> Option<ssize_t> {
    match result {
        Ok(None) => None,
        Ok(Some(nr)) => Some(nr as ssize_t),
        Err(errno) => Some(or_minus_one(Err(errno))),
    }
}

/// Returns the parts of a vector call.
///
/// # Errors
/// Fails with the call's result, or with `None` if the kernel is to refuse the call.
fn vector(
    fd: c_int,
    parts: *const iovec,
    nr: c_int,
    start: Start,
    access: Access,
) -> Result<Vector, Option<ssize_t>> {
    // SAFETY: readv's contract (S20).
    unsafe { Vector::new(parts, nr) }.map_err(|errno| {
        serve::managed(fd)?;
        let errno = match start {
            Start::At(..0) => Errno(libc::EINVAL),
            _ => refuse(fd, access, errno),
        };
        Some(or_minus_one(Err(errno)))
    })
}

/// Reads if `fd` is managed. If a part overlaps a mapped range that may be written, `own` reads
/// into memory of the library instead, which is then copied.
fn fill(
    fd: c_int,
    parts: &[iovec],
    start: Start,
    own: impl FnOnce(*mut c_void, usize) -> ssize_t,
) -> Option<ssize_t> {
    maps::in_own_memory(parts, own).or_else(|| read_managed(fd, parts, start))
}

/// Reads as [`fill`], into the parts of a vector call.
fn fill_vector(
    fd: c_int,
    (parts, nr): (*const iovec, c_int),
    start: Start,
    own: impl FnOnce(*mut c_void, usize) -> ssize_t,
) -> Option<ssize_t> {
    match vector(fd, parts, nr, start, Access::Read) {
        Ok(vector) => fill(fd, vector.parts(), start, own),
        Err(result) => result,
    }
}

/// Makes `give` write copies of a buffer, if the buffer overlaps a mapped range.
fn in_copies(
    buffer: *const c_void,
    len: usize,
    give: impl FnMut(*const c_void, usize, usize) -> ssize_t,
) -> Option<ssize_t> {
    // The kernel refuses such a buffer.
    check_range(buffer as usize, len).ok()?;
    maps::in_copies(buffer, len, give)
}

/// Writes the parts of a vector call as [`write_managed`]. If a part overlaps a mapped range,
/// `give` writes the parts one by one.
fn write_vector(
    fd: c_int,
    (parts, nr): (*const iovec, c_int),
    start: Start,
    give: impl FnMut(&iovec, usize) -> ssize_t,
) -> Option<ssize_t> {
    match vector(fd, parts, nr, start, Access::Write) {
        Ok(vector) => {
            one_by_one(vector.parts(), give).or_else(|| write_managed(fd, vector.parts(), start, 0))
        }
        Err(result) => result,
    }
}

/// Hands the file over if the server cannot keep all `flags`.
fn keep_flags(fd: c_int, flags: c_int, kept: c_int) -> Result<(), Option<ssize_t>> {
    if flags & !kept == 0 {
        return Ok(());
    }
    let handed = hand_over([fd], Reason::Interface);
    handed.map_err(|errno| Some(or_minus_one(Err(errno))))
}

/// Makes `give` write the parts one by one, until a write is short. Returns `None` if no part
/// overlaps a mapped range.
fn one_by_one(parts: &[iovec], mut give: impl FnMut(&iovec, usize) -> ssize_t) -> Option<ssize_t> {
    // The kernel refuses such parts.
    total_of(parts).ok()?;
    let is_mapped = |part: &iovec| maps::overlaps(part.iov_base as usize, part.iov_len);
    if !pieces::is_any() || !parts.iter().any(is_mapped) {
        return None;
    }
    let mut done = 0;
    for part in parts {
        let taken = give(part, done);
        if taken < 0 {
            return Some(if done > 0 { done as ssize_t } else { taken });
        }
        done += taken as usize;
        if (taken as usize) < part.iov_len {
            break;
        }
    }
    Some(done as ssize_t)
}

taken_over! {
    fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: the caller's arguments, and memory of the library (S20).
        let own = |own, len| unsafe { read(fd, own, len) };
        fill(fd, &transfer::part(buffer, len), Start::Position, own)
    }

    fn readv(fd: c_int, parts: *const iovec, nr: c_int) -> ssize_t {
        // SAFETY: the caller's arguments, and memory of the library (S20).
        let own = |own, len| unsafe { read(fd, own, len) };
        fill_vector(fd, (parts, nr), Start::Position, own)
    }

    fn pread64(fd: c_int, buffer: *mut c_void, len: size_t, at: off_t) -> ssize_t {
        // SAFETY: the caller's arguments, and memory of the library (S20).
        let own = |own, len| unsafe { pread64(fd, own, len, at) };
        fill(fd, &transfer::part(buffer, len), Start::At(at), own)
    }

    fn preadv64(fd: c_int, parts: *const iovec, nr: c_int, at: off_t) -> ssize_t {
        // SAFETY: the caller's arguments, and memory of the library (S20).
        let own = |own, len| unsafe { pread64(fd, own, len, at) };
        fill_vector(fd, (parts, nr), Start::At(at), own)
    }

    fn preadv64v2(
        fd: c_int, parts: *const iovec, nr: c_int, at: off_t, flags: c_int,
    ) -> ssize_t {
        let start = if at == -1 { Start::Position } else { Start::At(at) };
        // A read of cached bytes hardly waits, so RWF_NOWAIT is ignored.
        if let Err(result) = keep_flags(fd, flags, RWF_KEPT | RWF_NOWAIT) {
            return result;
        }
        let own = |own: *mut c_void, len| {
            let part = transfer::part(own, len);
            // SAFETY: the caller's arguments, and memory of the library (S20).
            unsafe { preadv64v2(fd, part.as_ptr(), 1, at, flags) }
        };
        fill_vector(fd, (parts, nr), start, own)
    }

    fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
        // SAFETY: the caller's arguments, and a copy of its bytes (S20).
        let give = |copy, len, _| unsafe { write(fd, copy, len) };
        let managed = || write_managed(fd, &transfer::part(buffer, len), Start::Position, 0);
        in_copies(buffer, len, give).or_else(managed)
    }

    fn writev(fd: c_int, parts: *const iovec, nr: c_int) -> ssize_t {
        // SAFETY: the caller's parts (S20).
        let give = |part: &iovec, _| unsafe { write(fd, part.iov_base, part.iov_len) };
        write_vector(fd, (parts, nr), Start::Position, give)
    }

    fn pwrite64(fd: c_int, buffer: *const c_void, len: size_t, at: off_t) -> ssize_t {
        let give = |copy, len, done| {
            // SAFETY: the caller's arguments, and a copy of its bytes (S20).
            unsafe { pwrite64(fd, copy, len, at.saturating_add(done as off_t)) }
        };
        let managed = || write_managed(fd, &transfer::part(buffer, len), Start::At(at), 0);
        in_copies(buffer, len, give).or_else(managed)
    }

    fn pwritev64(fd: c_int, parts: *const iovec, nr: c_int, at: off_t) -> ssize_t {
        let give = |part: &iovec, done| {
            // SAFETY: the caller's parts (S20).
            unsafe { pwrite64(fd, part.iov_base, part.iov_len, at.saturating_add(done as off_t)) }
        };
        write_vector(fd, (parts, nr), Start::At(at), give)
    }

    fn pwritev64v2(
        fd: c_int, parts: *const iovec, nr: c_int, at: off_t, flags: c_int,
    ) -> ssize_t {
        let start = match (flags & RWF_APPEND != 0, at) {
            (true, -1) => Start::End,
            (true, 0..) => Start::EndAlone,
            (false, -1) => Start::Position,
            (_, at) => Start::At(at),
        };
        // The offset is checked even if RWF_APPEND ignores it.
        let given = if at == -1 { Start::Position } else { Start::At(at) };
        if let Err(result) = keep_flags(fd, flags, RWF_KEPT) {
            return result;
        }
        if serve::managed(fd).is_none() {
            new_reports::watch(fd, Reason::Interface);
            return None;
        }
        let vector = match vector(fd, parts, nr, given, Access::Write) {
            Ok(vector) => vector,
            Err(result) => return result,
        };
        if let Err(errno) = given.check(fd, vector.parts(), Access::Write) {
            return Some(or_minus_one(Err(errno)));
        }
        let written = write_managed(fd, vector.parts(), start, 0)?;
        Some(if written > 0 { made_durable(fd, flags, written) } else { written })
    }

    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t {
        if new_files::takes_seek(fd, offset, whence) {
            return None;
        }
        let Some(id) = serve::managed(fd) else {
            new_files::moved(fd, offset, whence);
            return None;
        };
        if let Some(position) = view::seek(id, offset, whence) {
            return Some(position);
        }
        let flags = whence as u32 as u64;
        let asked = serve::plain(Request { offset, flags, ..Request::new(Op::Seek, id) });
        let learned = asked.transpose()?.map(|reply| {
            view::learn(id, &reply);
            reply.result
        });
        Some(or_minus_one(learned))
    }
}

/// Makes a write durable if the flags ask for it. Returns the number of bytes written, or -1.
fn made_durable(fd: c_int, flags: c_int, written: ssize_t) -> ssize_t {
    if flags & (RWF_DSYNC | RWF_SYNC) == 0 {
        return written;
    }
    let Some(id) = serve::managed(fd) else { return written };
    let flags = u64::from(flags & RWF_SYNC != 0);
    let synced = serve::plain(Request { flags, ..Request::new(Op::Sync, id) });
    or_minus_one(synced.map(|_| written))
}
