//! What programs do to ranges of addresses in which there are pieces.

use super::fault::{Access, obtain_again, serve_fault};
use super::place::{ask_only, tell_unmapped};
use super::uffd::{own_uffd, register};
use super::{IS_REFUSED, PAGE_BYTES, find, own_pages, pages, pins};
use crate::arguments::check_range;
use crate::errno::Errno;
use crate::pieces::{Changing, Piece, Storing, is_any};
use crate::{next, own, pieces, serve};
use libc::c_int;
use pagetide_run::wire::{Op, Reason, Request};
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

/// Whether there is a piece in a range.
pub(crate) fn overlaps(start: usize, len: usize) -> bool {
    // Beyond the addresses of programs, the kernel refuses the call.
    let is_range = check_range(start, len).is_ok();
    is_range && is_any() && pieces::find(start, start.saturating_add(pages(len))).is_some()
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

pub(super) fn unmap(piece: &Piece) {
    own_pages::tell(piece);
    Changing::begin().remove(piece);
    pins::let_go(piece);
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
        serve_fault(piece.start, &piece, Access::Load);
        last = Some(piece);
    }
}

/// All of it is the kernel's, and so are later mappings.
pub(crate) fn hand_over_all() {
    IS_REFUSED.store(true, Relaxed);
    hand_over(0, usize::MAX & !(PAGE_BYTES - 1));
}

/// mprotect(2) of a range with pieces, before the kernel does it: what cannot be served so is the
/// kernel's.
///
/// # Errors
/// ENOMEM where the kernel must not: a child could not register what it has inherited.
pub(crate) fn protect(start: usize, len: usize, protection: c_int) -> Result<(), Errno> {
    let end = start.saturating_add(pages(len));
    let is_write = protection & libc::PROT_WRITE != 0;
    let is_known = [libc::PROT_NONE, libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE];
    if !is_known.contains(&protection) || !Changing::begin().cut(start, end) {
        hand_over(start, len);
        return Ok(());
    }
    let mut at = 0;
    while let Some((mut piece, next)) = pieces::from(at) {
        at = next;
        if piece.start < start || piece.end() > end {
            continue;
        }
        let has_own_pages = piece.has_own_pages || is_write && !piece.is_shared;
        if has_own_pages && piece.process != own::number() {
            obtain_again(&piece, &piece);
            let Some(now) = find(piece.start) else { continue };
            if now.process != own::number() {
                return Err(Errno(libc::ENOMEM));
            }
            piece = now;
        }
        let is_written = piece.is_written || is_write && piece.is_shared;
        let now = Piece { protection, is_written, has_own_pages, ..piece };
        if is_written == piece.is_written {
            Changing::begin().replace(&piece, &now);
        } else if !cfg!(target_arch = "x86_64") || !obtain_again(&piece, &now) {
            hand_over(piece.start, piece.len);
        }
    }
    Changing::begin().join(start, end);
    Ok(())
}

/// Has the pages of a range there, as far as they fit.
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

/// Has the pages of a range there to be written, as far as they fit.
pub(crate) fn populate_to_write(start: usize, len: usize) {
    for at in (start..start.saturating_add(len)).step_by(PAGE_BYTES) {
        let piece = find(at).filter(|piece| piece.protection & libc::PROT_WRITE != 0);
        let Some(piece) = piece.filter(|piece| serve_fault(at, piece, Access::Store)) else {
            return;
        };
        if piece.has_own_pages {
            // SAFETY: the program's memory, which may be stored to; it stays what it is (S36).
            let first = unsafe { AtomicU8::from_ptr(at as *mut u8) };
            // A store all the same; compilers make a load of those that change nothing.
            let _ = first.compare_exchange(0, 0, Relaxed, Relaxed);
        }
    }
}

/// Whether there is a piece in a range that may be written.
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
        if start <= piece.start && piece.end() <= end {
            note_order(&piece, advice);
        }
    }
}

/// How a whole piece is going to be read. What was ever to be read by chance is mapped page by page
/// for good: the kernel takes nothing back that it is to tell of.
fn note_order(piece: &Piece, advice: u64) {
    let is_random = advice == libc::MADV_RANDOM as u64;
    let is_order =
        is_random || [libc::MADV_NORMAL, libc::MADV_SEQUENTIAL].contains(&(advice as i32));
    let now = Piece { is_random, ..*piece };
    let is_here = piece.process == own::number() && !piece.is_written && !piece.has_own_pages;
    if is_order && is_here && now != *piece && Changing::begin().replace(piece, &now) {
        let same = is_random.then(|| Storing::begin(&now)).flatten();
        // Where that is refused, what is around a page is mapped with it.
        let _ = same.map(|_same| own_uffd().and_then(|uffd| register(uffd, now.start, &now)));
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
