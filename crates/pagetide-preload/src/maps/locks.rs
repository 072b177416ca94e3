//! Locked mapped memory: mlock(2) and its relatives.
//!
//! ```text
//!   the file's pages       locked by the server, within a share of its limit, or ENOMEM
//!   the program's own      locked by the kernel, like memory that is not managed
//! ```
//!
//! **Ignored.** MLOCK_ONFAULT: pages are filled at once. Mappings after mlockall(MCL_FUTURE) are
//! the kernel's.

use super::pins::{lock_by_kernel, request, unlock_piece};
use super::place::ask_only;
use super::ranges::{populate, populate_to_write};
use super::{IS_REFUSED, PAGE_BYTES};
use crate::errno::Errno;
use crate::pieces::{Changing, Piece};
use crate::{own, pieces};
use libc::c_int;
use std::sync::atomic::Ordering::Relaxed;

/// mlock(2) of a range with pieces.
///
/// # Errors
/// Fails with ENOMEM if the server refuses, and with the kernel's error for its part.
pub(crate) fn lock(start: usize, len: usize) -> Result<(), Errno> {
    let end = start.saturating_add(len).checked_next_multiple_of(PAGE_BYTES);
    let end = end.ok_or(Errno(libc::ENOMEM))?;
    let start = start & !(PAGE_BYTES - 1);
    // Pieces that became the kernel's end here.
    populate(start, end - start);
    if Changing::at_rest(&[(start, end)]).is_none() {
        return Err(Errno(libc::ENOMEM));
    }
    let mut at = start;
    while at < end {
        let piece = pieces::find(at, end);
        let next = piece.map_or(end, |piece| piece.start);
        if at < next {
            lock_by_kernel(at, next - at)?;
        }
        at = next;
        if let Some(piece) = piece {
            lock_piece(&piece)?;
            at = piece.end();
        }
    }
    Ok(())
}

/// mlockall(2), before the kernel's part.
///
/// # Errors
/// As [`lock`].
pub(crate) fn lock_all(flags: c_int) -> Result<(), Errno> {
    if flags & libc::MCL_FUTURE != 0 {
        IS_REFUSED.store(true, Relaxed);
    }
    let mut at = 0;
    while flags & libc::MCL_CURRENT != 0
        && let Some((piece, next)) = pieces::from(at)
    {
        at = next;
        lock(piece.start, piece.len)?;
    }
    Ok(())
}

/// Releases a range, before the kernel's munlock(2).
pub(crate) fn unlock(start: usize, len: usize) {
    let (start, end) = (start & !(PAGE_BYTES - 1), start.saturating_add(len));
    let end = end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(usize::MAX);
    if !pieces::is_any() || Changing::at_rest(&[(start, end)]).is_none() {
        return;
    }
    let mut at = start;
    while let Some(piece) = pieces::find(at, end).filter(|_| at < end) {
        if piece.is_locked && Changing::begin().replace(&piece, &piece.with_lock(false)) {
            unlock_piece(&piece);
        }
        at = piece.end();
    }
    Changing::begin().join(start, end);
}

fn lock_piece(piece: &Piece) -> Result<(), Errno> {
    if piece.has_own_pages && piece.protection & libc::PROT_WRITE != 0 {
        populate_to_write(piece.start, piece.len);
        return lock_by_kernel(piece.start, piece.len);
    }
    if piece.process != own::number() {
        return Err(Errno(libc::ENOMEM));
    }
    ask_only(&request(piece))?;
    let locked = piece.with_lock(true);
    if *piece != locked && !Changing::begin().replace(piece, &locked) {
        // The piece was unmapped or moved meanwhile.
        unlock_piece(&locked);
    }
    Ok(())
}
