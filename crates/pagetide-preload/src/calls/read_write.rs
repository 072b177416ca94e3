//! Reading, writing and the position.

use crate::errno::{Errno, or_minus_one};
use crate::transfer::{self, Place};
use crate::{maps, pieces, serve};
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

/// Reads if `fd` is managed, and stays so, or has `own` read into memory of ours where some of the
/// parts are mapped from files of ours.
fn fill(
    fd: c_int,
    parts: &[iovec],
    place: Place,
    own: impl FnOnce(*mut c_void, usize) -> ssize_t,
) -> Option<ssize_t> {
    maps::in_own_memory(parts, own).or_else(|| read_managed(fd, parts, place))
}

/// Has parts written one after the other, until one is not taken whole; `None` where none is in
/// memory that we map.
fn one_by_one(parts: &[iovec], mut give: impl FnMut(&iovec, usize) -> ssize_t) -> Option<ssize_t> {
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
        // SAFETY: our caller's arguments, and memory of ours (S20).
        let own = |own, len| unsafe { read(fd, own, len) };
        fill(fd, &transfer::part(buffer, len), Place::Position, own)
    }

    fn readv(fd: c_int, parts: *const iovec, nr: c_int) -> ssize_t {
        // SAFETY: our caller's arguments, and memory of ours (S20).
        let own = |own, len| unsafe { read(fd, own, len) };
        fill(fd, vector(parts, nr)?, Place::Position, own)
    }

    fn pread64(fd: c_int, buffer: *mut c_void, len: size_t, at: off_t) -> ssize_t {
        // SAFETY: our caller's arguments, and memory of ours (S20).
        let own = |own, len| unsafe { pread64(fd, own, len, at) };
        fill(fd, &transfer::part(buffer, len), Place::At(at), own)
    }

    fn preadv64(fd: c_int, parts: *const iovec, nr: c_int, at: off_t) -> ssize_t {
        // SAFETY: our caller's arguments, and memory of ours (S20).
        let own = |own, len| unsafe { pread64(fd, own, len, at) };
        fill(fd, vector(parts, nr)?, Place::At(at), own)
    }

    fn preadv64v2(
        fd: c_int, parts: *const iovec, nr: c_int, at: off_t, flags: c_int,
    ) -> ssize_t {
        if flags & !RWF_KEPT != 0 && serve::managed(fd).is_some() {
            return Some(or_minus_one(Err(Errno(libc::EOPNOTSUPP))));
        }
        let own = |own: *mut c_void, len| {
            let part = transfer::part(own, len);
            // SAFETY: our caller's arguments, and memory of ours (S20).
            unsafe { preadv64v2(fd, part.as_ptr(), 1, at, flags) }
        };
        let place = if at == -1 { Place::Position } else { Place::At(at) };
        fill(fd, vector(parts, nr)?, place, own)
    }

    fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
        // SAFETY: our caller's arguments, and a copy of its bytes (S20).
        let give = |copy, len, _| unsafe { write(fd, copy, len) };
        let managed = || write_managed(fd, &transfer::part(buffer, len), Place::Position, 0);
        maps::in_copies(buffer, len, give).or_else(managed)
    }

    fn writev(fd: c_int, parts: *const iovec, nr: c_int) -> ssize_t {
        let parts = vector(parts, nr)?;
        // SAFETY: our caller's parts (S20).
        let give = |part: &iovec, _| unsafe { write(fd, part.iov_base, part.iov_len) };
        one_by_one(parts, give).or_else(|| write_managed(fd, parts, Place::Position, 0))
    }

    fn pwrite64(fd: c_int, buffer: *const c_void, len: size_t, at: off_t) -> ssize_t {
        let give = |copy, len, done| {
            // SAFETY: our caller's arguments, and a copy of its bytes (S20).
            unsafe { pwrite64(fd, copy, len, at.saturating_add(done as off_t)) }
        };
        let managed = || write_managed(fd, &transfer::part(buffer, len), Place::At(at), 0);
        maps::in_copies(buffer, len, give).or_else(managed)
    }

    fn pwritev64(fd: c_int, parts: *const iovec, nr: c_int, at: off_t) -> ssize_t {
        let parts = vector(parts, nr)?;
        let give = |part: &iovec, done| {
            // SAFETY: our caller's parts (S20).
            unsafe { pwrite64(fd, part.iov_base, part.iov_len, at.saturating_add(done as off_t)) }
        };
        one_by_one(parts, give).or_else(|| write_managed(fd, parts, Place::At(at), 0))
    }

    fn pwritev64v2(
        fd: c_int, parts: *const iovec, nr: c_int, at: off_t, flags: c_int,
    ) -> ssize_t {
        if flags & !RWF_KEPT != 0 && serve::managed(fd).is_some() {
            return Some(or_minus_one(Err(Errno(libc::EOPNOTSUPP))));
        }
        let place = match (flags & RWF_APPEND != 0, at) {
            (true, -1) => Place::End,
            (true, _) => Place::EndAlone,
            (false, -1) => Place::Position,
            (false, at) => Place::At(at),
        };
        let written = write_managed(fd, vector(parts, nr)?, place, 0)?;
        Some(if written > 0 { made_durable(fd, flags, written) } else { written })
    }

    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t {
        let id = serve::managed(fd)?;
        let flags = whence as u32 as u64;
        let asked = serve::plain(Request { offset, flags, ..Request::new(Op::Seek, id) });
        Some(or_minus_one(asked.transpose()?.map(|reply| reply.result)))
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
