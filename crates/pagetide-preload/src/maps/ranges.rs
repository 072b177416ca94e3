//! Calls of the program on address ranges that overlap mapped ranges.

use super::fault::{Access, obtain_again, serve_fault};
use super::kernels::give_to_kernel;
use super::place::{self, ask_only, is_mapped, tell_unmapped};
use super::uffd::{own_uffd, register};
use super::{IS_REFUSED, PAGE_BYTES, find, own_pages, pages, pins};
use crate::arguments::check_range;
use crate::channel::{Answer, Parcel, ask};
use crate::errno::Errno;
use crate::pieces::{Changing, Piece, Storing, is_any, pause};
use crate::{next, own, pieces, serve};
use libc::c_int;
use pagetide_run::wire::{Op, Reason, Request, Status};
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

/// Returns true if a mapped range overlaps the addresses.
pub(crate) fn overlaps(start: usize, len: usize) -> bool {
    // The kernel refuses calls on addresses beyond the programs'.
    let is_range = check_range(start, len).is_ok();
    is_range && is_any() && pieces::find(start, start.saturating_add(pages(len))).is_some()
}

/// Makes one system call that frees, replaces or moves away a range of addresses, and takes the
/// mapped ranges there out of the table. The table is held meanwhile, so that no thread maps
/// anything there. Returns `None`, without the call, if there is no mapped range.
///
/// # Errors
/// Fails with the call's error. Fails with `ENOMEM` if a mapped range can neither be cut in two nor
/// be handed over.
pub(crate) fn in_place_of(
    start: usize,
    len: usize,
    call: impl FnOnce() -> Result<usize, Errno>,
) -> Option<Result<usize, Errno>> {
    let len = len.checked_next_multiple_of(PAGE_BYTES)?;
    let end = start.checked_add(len).filter(|_| start.is_multiple_of(PAGE_BYTES))?;
    if !overlaps(start, len) {
        return None;
    }
    own_pages::tell_in(start, end);
    let result = hold(&[(start, end)]).and_then(|mut changing| {
        let result = call();
        // A call that replaces a range may fail after it has freed the range.
        if result.is_ok() || !is_mapped(start, len) {
            changing.leave_in(start, end);
        }
        result
    });
    tell_gone(start, end);
    Some(result)
}

/// Serves munmap(2) of a range of addresses with mapped ranges.
pub(crate) fn unmap(start: usize, len: usize) -> Option<Result<usize, Errno>> {
    in_place_of(start, len, || {
        // SAFETY: the program unmaps its own addresses, and the table is held (S36).
        unsafe { next::system(libc::SYS_munmap, [start, len, 0, 0, 0, 0]) }
    })
}

/// Holds the table, with the mapped ranges within `ranges` at rest. Hands them over if the table
/// has no room for a cut.
///
/// # Errors
/// Fails with `ENOMEM` if there is still no room.
pub(super) fn hold(ranges: &[(usize, usize)]) -> Result<Changing, Errno> {
    Changing::at_rest(ranges)
        .or_else(|| {
            ranges.iter().for_each(|range| hand_over(range.0, range.1 - range.0));
            Changing::at_rest(ranges)
        })
        .ok_or(Errno(libc::ENOMEM))
}

/// Tells the server of the gone ranges within a range of addresses.
pub(super) fn tell_gone(start: usize, end: usize) {
    loop {
        let gone = Changing::begin().take_gone(start, end);
        let Some(piece) = gone else { return };
        pins::unlock_piece(&piece);
        tell_unmapped(&piece);
    }
}

/// Hands over the files of all mapped ranges that overlap the addresses, and maps the kernel's
/// files.
pub(crate) fn hand_over(start: usize, len: usize) {
    let end = start.saturating_add(pages(len));
    let mut last = None;
    while let Some(piece) = pieces::find(start, end) {
        // A range that cannot be handed over stays, and the program gets the kernel's error.
        if last == Some(piece) || serve::hand_over(piece.id, Reason::Mapped).is_err() {
            return;
        }
        serve_fault(piece.start, &piece, Access::Load);
        last = Some(piece);
    }
}

/// Hands over all mapped files. Later mappings are the kernel's.
pub(crate) fn hand_over_all() {
    IS_REFUSED.store(true, Relaxed);
    hand_over(0, usize::MAX & !(PAGE_BYTES - 1));
}

/// Maps the kernel's file in place of each range of a file that the kernel has, before an exec. The
/// exec then ends the mapping, and with it the locks of its description, at once. The server would
/// learn of the end only from the process's sockets.
pub(crate) fn prepare_exec() {
    let mut at = 0;
    while let Some((piece, next)) = pieces::from(at) {
        at = next;
        let take = Request::new(Op::TakeReal, piece.id);
        // A server that is gone keeps nothing.
        let Ok(Answer { reply, files: [real, ..] }) = ask(&take, Parcel::default()) else { return };
        if real >= 0 {
            give_to_kernel(&piece, real);
        } else if reply.status == Status::Done && reply.result == 0 {
            // The server keeps no real descriptor for any other range.
            return;
        }
    }
}

/// Serves mprotect(2) of a range of addresses with mapped ranges. Returns `None` if the protection
/// cannot be served: the ranges are handed over, and the kernel is to make the call.
///
/// # Errors
/// Fails with the kernel's errors. Fails with `ENOMEM` if a child cannot register an inherited
/// range, and if a range can neither be served nor be handed over.
pub(crate) fn protect(start: usize, len: usize, protection: c_int) -> Option<Result<(), Errno>> {
    let len = len.checked_next_multiple_of(PAGE_BYTES)?;
    let end = start.checked_add(len).filter(|_| start.is_multiple_of(PAGE_BYTES))?;
    let is_write = protection & libc::PROT_WRITE != 0;
    let is_known = [libc::PROT_NONE, libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE];
    if !is_known.contains(&protection) {
        hand_over(start, len);
        return None;
    }
    loop {
        if let Err(errno) = prepare_to_protect(start, end, is_write) {
            return Some(Err(errno));
        }
        let mut changing = match hold(&[(start, end)]) {
            Ok(changing) => changing,
            Err(errno) => return Some(Err(errno)),
        };
        if changing.any_in(start, end, |piece| !is_prepared(piece, is_write)) {
            // Another thread has changed the range meanwhile.
            continue;
        }
        let result = place::protect(start, len, protection);
        let set_end = match result {
            Ok(()) => end,
            Err(_) => protect_to(&changing, start, end, protection),
        };
        changing.replace_in(start, set_end, |piece| {
            let has_own_pages = piece.has_own_pages || is_write && !piece.is_shared;
            Piece { protection, has_own_pages, ..piece }
        });
        changing.join(start, set_end);
        return Some(result);
    }
}

/// Sets the protection part by part, as a failed call has done it, and returns the start of the
/// part that the kernel refuses. A part is a mapped range, or the addresses between two of them.
fn protect_to(changing: &Changing, start: usize, end: usize, protection: c_int) -> usize {
    let mut at = start;
    while at < end {
        let to = match changing.find(at, end) {
            Some(piece) if piece.start <= at => piece.end().min(end),
            Some(piece) => piece.start,
            None => end,
        };
        if place::protect(at, to - at, protection).is_err() {
            return at;
        }
        at = to;
    }
    end
}

/// Returns true if the range's mapping is fit for the kernel to set a protection, with or without
/// writes.
fn is_prepared(piece: &Piece, is_write: bool) -> bool {
    let has_own_pages = piece.has_own_pages || is_write && !piece.is_shared;
    (!has_own_pages || piece.process == own::number())
        && (!is_write || !piece.is_shared || piece.is_written)
}

/// Maps the ranges within the addresses so that their protection can be changed.
fn prepare_to_protect(start: usize, end: usize, is_write: bool) -> Result<(), Errno> {
    let mut at = start;
    while let Some(piece) = pieces::find(at, end).filter(|_| at < end) {
        if piece.is_moving {
            pause();
            continue;
        }
        if is_prepared(&piece, is_write) {
            at = piece.end();
            continue;
        }
        let is_written = piece.is_written || is_write && piece.is_shared;
        let is_refused = is_written && !cfg!(target_arch = "x86_64");
        if is_refused || !obtain_again(&piece, &Piece { is_written, ..piece }) {
            hand_over(piece.start, piece.len);
        }
        if find(piece.start) == Some(piece) {
            return Err(Errno(libc::ENOMEM));
        }
    }
    Ok(())
}

/// Loads the pages of a range of addresses, up to the first failure.
pub(crate) fn populate(start: usize, len: usize) {
    advise(start, len, libc::POSIX_MADV_WILLNEED as u64);
    let mut at = start;
    let end = start.saturating_add(len);
    while let Some(piece) = pieces::find(at, end) {
        at = at.max(piece.start);
        while at < piece.end().min(end) {
            let Some(now) = find(at).filter(|now| now.map == piece.map) else { return };
            if !serve_fault(at, &now, Access::Load) {
                return;
            }
            at += 16 * PAGE_BYTES;
        }
        at = piece.end();
    }
}

/// Prepares the pages of a range of addresses for stores, up to the first failure.
pub(crate) fn populate_to_write(start: usize, len: usize) {
    for at in (start..start.saturating_add(len)).step_by(PAGE_BYTES) {
        let piece = find(at).filter(|piece| piece.protection & libc::PROT_WRITE != 0);
        let Some(piece) = piece.filter(|piece| serve_fault(at, piece, Access::Store)) else {
            return;
        };
        if piece.has_own_pages {
            // SAFETY: the program's memory, which is writable and does not change (S36).
            let first = unsafe { AtomicU8::from_ptr(at as *mut u8) };
            // This counts as a store. A read-modify-write without effect may be compiled to a load.
            let _ = first.compare_exchange(0, 0, Relaxed, Relaxed);
        }
    }
}

/// Returns true if a mapped range that overlaps the addresses may be written.
pub(crate) fn is_any_written(start: usize, len: usize) -> bool {
    is_any_such(start, len, |piece| piece.is_written || piece.has_own_pages)
}

fn is_any_such(start: usize, len: usize, is_meant: impl Fn(&Piece) -> bool) -> bool {
    let mut at = start;
    let end = start.saturating_add(len);
    while is_any() && at < end {
        let Some(piece) = pieces::find(at, end) else { return false };
        if is_meant(&piece) {
            return true;
        }
        at = piece.end();
    }
    false
}

/// Tells the server how the program will use a range of addresses.
pub(crate) fn advise(start: usize, len: usize, advice: u64) {
    let mut at = start;
    let end = start.saturating_add(pages(len));
    while let Some(piece) = pieces::find(at, end) {
        let from = at.max(piece.start);
        let offset = (piece.offset + (from - piece.start) as u64) as i64;
        let len = (piece.end().min(end) - from) as u64;
        // A reply that the kernel has the file has no effect here.
        let one = Request::new(Op::Advise, piece.id);
        let one = Request { flags: advice, offset, len, total: 1, ..one };
        let _ = ask_only(&one);
        at = piece.end();
        if start <= piece.start && piece.end() <= end {
            note_order(&piece, advice);
        }
    }
}

/// Records the announced order of reads for a whole range. A range with random reads is mapped page
/// by page from then on for good, because the kernel cannot reduce a registration.
fn note_order(piece: &Piece, advice: u64) {
    let is_random = advice == libc::MADV_RANDOM as u64;
    let is_order =
        is_random || [libc::MADV_NORMAL, libc::MADV_SEQUENTIAL].contains(&(advice as i32));
    let now = Piece { is_random, ..*piece };
    let is_here = piece.process == own::number() && !piece.is_written && !piece.has_own_pages;
    if is_order && is_here && now != *piece && Changing::begin().replace(piece, &now) {
        let same = is_random.then(|| Storing::begin(&now)).flatten();
        // If the registration fails, the pages around a touched page are mapped as well.
        let _ = same.map(|_same| own_uffd().and_then(|uffd| register(uffd, now.start, &now)));
    }
}

/// Serves msync(2): makes the dirty pages of the mapped files durable.
pub(crate) fn sync(start: usize, len: usize) -> Result<(), Errno> {
    let mut at = start;
    let end = start.saturating_add(pages(len));
    while let Some(piece) = pieces::find(at, end) {
        ask_only(&Request::new(Op::Sync, piece.id))?;
        at = piece.end();
    }
    Ok(())
}
