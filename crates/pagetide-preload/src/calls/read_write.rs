//! Reading, writing and the position.

use crate::errno::{Errno, or_minus_one};
use crate::transfer::{self, Place};
use crate::{maps, next, pieces, serve};
use libc::{c_int, c_void, iovec, off_t, size_t, ssize_t};
use pagetide_run::wire::{Op, Request};

/// Flags of preadv2 and pwritev2 that can be kept; of the first, nothing has to be done for it.
const RWF_HIPRI: c_int = 1;
const RWF_DSYNC: c_int = 2;
const RWF_SYNC: c_int = 4;
const RWF_APPEND: c_int = 16;
const RWF_KEPT: c_int = RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_APPEND;

/// Reads if `fd` is managed, and stays so.
fn read_managed(fd: c_int, parts: &[iovec], place: Place) -> Option<ssize_t> {
    let id = serve::managed(fd)?;
    finish(transfer::read(fd, id, parts, place))
}

/// Writes if `fd` is managed, and stays so; `more` are write flags.
pub(super) fn write_managed(
    fd: c_int,
    parts: &[iovec],
    place: Place,
    more: u64,
) -> Option<ssize_t> {
    let id = serve::managed(fd)?;
    finish(transfer::write(fd, id, parts, place, more))
}

fn finish(result: Result<Option<usize>, Errno>) -> Option<ssize_t> {
    match result {
        Ok(None) => None,
        Ok(Some(nr)) => Some(nr as ssize_t),
        Err(errno) => Some(or_minus_one(Err(errno))),
    }
}

/// The parts of a vector call; an impossible number of them is the kernel's to refuse.
pub(super) fn vector<'a>(parts: *const iovec, nr: c_int) -> Option<&'a [iovec]> {
    if !(1..=1024).contains(&nr) || parts.is_null() {
        return None;
    }
    // SAFETY: readv's contract: `nr` of them, for the time of the call (S20).
    Some(unsafe { std::slice::from_raw_parts(parts, nr as usize) })
}

/// Whether any part is in memory that we map.
fn has_mapped(parts: &[iovec]) -> bool {
    pieces::is_any()
        && parts.iter().any(|part| maps::overlaps(part.iov_base as usize, part.iov_len))
}

/// Writes parts one after the other, until one is not taken whole.
fn one_by_one(parts: &[iovec], mut give: impl FnMut(&iovec, usize) -> ssize_t) -> ssize_t {
    let mut done = 0;
    for part in parts {
        let taken = give(part, done);
        if taken < 0 {
            return if done > 0 { done as ssize_t } else { taken };
        }
        done += taken as usize;
        if (taken as usize) < part.iov_len {
            break;
        }
    }
    done as ssize_t
}

#[unsafe(no_mangle)]
unsafe extern "C" fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
    // SAFETY: our caller's arguments, and memory of ours (S20).
    let take = |own, len| unsafe { read(fd, own, len) };
    if let Some(nr) = maps::in_own_memory(&transfer::part(buffer, len), take) {
        return nr;
    }
    match read_managed(fd, &transfer::part(buffer, len), Place::Position) {
        Some(result) => result,
        // SAFETY: our caller's arguments (S20).
        None => unsafe { next::read(fd, buffer, len) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn readv(fd: c_int, parts: *const iovec, nr: c_int) -> ssize_t {
    // SAFETY: our caller's arguments, and memory of ours (S20).
    let take = |own, len| unsafe { read(fd, own, len) };
    if let Some(nr) = vector(parts, nr).and_then(|parts| maps::in_own_memory(parts, take)) {
        return nr;
    }
    match vector(parts, nr).and_then(|parts| read_managed(fd, parts, Place::Position)) {
        Some(result) => result,
        // SAFETY: our caller's arguments (S20).
        None => unsafe { next::readv(fd, parts, nr) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pread64(fd: c_int, buffer: *mut c_void, len: size_t, at: off_t) -> ssize_t {
    // SAFETY: our caller's arguments, and memory of ours (S20).
    let take = |own, len| unsafe { pread64(fd, own, len, at) };
    if let Some(nr) = maps::in_own_memory(&transfer::part(buffer, len), take) {
        return nr;
    }
    match read_managed(fd, &transfer::part(buffer, len), Place::At(at)) {
        Some(result) => result,
        // SAFETY: our caller's arguments (S20).
        None => unsafe { next::pread64(fd, buffer, len, at) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn preadv64(fd: c_int, parts: *const iovec, nr: c_int, at: off_t) -> ssize_t {
    // SAFETY: our caller's arguments, and memory of ours (S20).
    let take = |own, len| unsafe { pread64(fd, own, len, at) };
    if let Some(nr) = vector(parts, nr).and_then(|parts| maps::in_own_memory(parts, take)) {
        return nr;
    }
    match vector(parts, nr).and_then(|parts| read_managed(fd, parts, Place::At(at))) {
        Some(result) => result,
        // SAFETY: our caller's arguments (S20).
        None => unsafe { next::preadv64(fd, parts, nr, at) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn preadv64v2(
    fd: c_int,
    parts: *const iovec,
    nr: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    if flags & !RWF_KEPT != 0 && serve::managed(fd).is_some() {
        return or_minus_one(Err(Errno(libc::EOPNOTSUPP)));
    }
    let take = |own: *mut c_void, len| {
        let part = transfer::part(own, len);
        // SAFETY: our caller's arguments, and memory of ours (S20).
        unsafe { preadv64v2(fd, part.as_ptr(), 1, at, flags) }
    };
    if let Some(nr) = vector(parts, nr).and_then(|parts| maps::in_own_memory(parts, take)) {
        return nr;
    }
    let place = if at == -1 { Place::Position } else { Place::At(at) };
    match vector(parts, nr).and_then(|parts| read_managed(fd, parts, place)) {
        Some(result) => result,
        // SAFETY: our caller's arguments (S20).
        None => unsafe { next::preadv64v2(fd, parts, nr, at, flags) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: our caller's arguments, and a copy of its bytes (S20).
    if let Some(nr) = maps::in_copies(buffer, len, |copy, len, _| unsafe { write(fd, copy, len) }) {
        return nr;
    }
    match write_managed(fd, &transfer::part(buffer, len), Place::Position, 0) {
        Some(result) => result,
        // SAFETY: our caller's arguments (S20).
        None => unsafe { next::write(fd, buffer, len) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, nr: c_int) -> ssize_t {
    if let Some(parts) = vector(parts, nr).filter(|parts| has_mapped(parts)) {
        // SAFETY: our caller's parts (S20).
        return one_by_one(parts, |part, _| unsafe { write(fd, part.iov_base, part.iov_len) });
    }
    match vector(parts, nr).and_then(|parts| write_managed(fd, parts, Place::Position, 0)) {
        Some(result) => result,
        // SAFETY: our caller's arguments (S20).
        None => unsafe { next::writev(fd, parts, nr) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(fd: c_int, buffer: *const c_void, len: size_t, at: off_t) -> ssize_t {
    let give = |copy, len, done| {
        // SAFETY: our caller's arguments, and a copy of its bytes (S20).
        unsafe { pwrite64(fd, copy, len, at.saturating_add(done as off_t)) }
    };
    if let Some(nr) = maps::in_copies(buffer, len, give) {
        return nr;
    }
    match write_managed(fd, &transfer::part(buffer, len), Place::At(at), 0) {
        Some(result) => result,
        // SAFETY: our caller's arguments (S20).
        None => unsafe { next::pwrite64(fd, buffer, len, at) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev64(fd: c_int, parts: *const iovec, nr: c_int, at: off_t) -> ssize_t {
    if let Some(parts) = vector(parts, nr).filter(|parts| has_mapped(parts)) {
        return one_by_one(parts, |part, done| {
            // SAFETY: our caller's parts (S20).
            unsafe { pwrite64(fd, part.iov_base, part.iov_len, at.saturating_add(done as off_t)) }
        });
    }
    match vector(parts, nr).and_then(|parts| write_managed(fd, parts, Place::At(at), 0)) {
        Some(result) => result,
        // SAFETY: our caller's arguments (S20).
        None => unsafe { next::pwritev64(fd, parts, nr, at) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev64v2(
    fd: c_int,
    parts: *const iovec,
    nr: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    if flags & !RWF_KEPT != 0 && serve::managed(fd).is_some() {
        return or_minus_one(Err(Errno(libc::EOPNOTSUPP)));
    }
    let place = match (flags & RWF_APPEND != 0, at) {
        (true, -1) => Place::End,
        (true, _) => Place::EndAlone,
        (false, -1) => Place::Position,
        (false, at) => Place::At(at),
    };
    match vector(parts, nr).and_then(|parts| write_managed(fd, parts, place, 0)) {
        Some(result) if result > 0 => made_durable(fd, flags, result),
        Some(result) => result,
        // SAFETY: our caller's arguments (S20).
        None => unsafe { next::pwritev64v2(fd, parts, nr, at, flags) },
    }
}

/// What a write's own flags ask for beyond it.
fn made_durable(fd: c_int, flags: c_int, written: ssize_t) -> ssize_t {
    if flags & (RWF_DSYNC | RWF_SYNC) == 0 {
        return written;
    }
    let Some(id) = serve::managed(fd) else { return written };
    let flags = u64::from(flags & RWF_SYNC != 0);
    let synced = serve::plain(Request { flags, ..Request::new(Op::Sync, id) });
    or_minus_one(synced.map(|_| written))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t {
    let asked = serve::managed(fd).map(|id| {
        let flags = whence as u32 as u64;
        serve::plain(Request { offset, flags, ..Request::new(Op::Seek, id) })
    });
    match asked {
        Some(Ok(Some(reply))) => reply.result,
        Some(Err(errno)) => or_minus_one(Err(errno)),
        // SAFETY: our caller's arguments (S20).
        Some(Ok(None)) | None => unsafe { next::lseek64(fd, offset, whence) },
    }
}
