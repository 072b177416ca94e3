//! What programs do to ranges of addresses in which there are pieces.

use super::fault::serve_fault;
use super::place::tell_unmapped;
use super::{IS_REFUSED, PAGE_BYTES, find, pages};
use crate::channel::{Parcel, ask};
use crate::errno::Errno;
use crate::pieces::{Changing, Piece, is_any};
use crate::{next, own, pieces, serve};
use libc::c_int;
use pagetide_run::wire::{Op, Reason, Request};
use std::sync::atomic::Ordering::Relaxed;

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

pub(super) fn unmap(piece: &Piece) {
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
    advise(start, len, libc::POSIX_MADV_WILLNEED as u64);
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
