//! mremap(2) of pieces: a moved piece is left as after a fork, and mapped again on demand.
//!
//! ```text
//!   own pages      inaccessible --mremap--> registered again: the copies moved along
//!   others         reserved     --mremap--> mapped again: stores are in the memory file
//! ```
//!
//! **Ignored.** Several mappings in one call, which Linux moves from 6.17 on, and moves that keep
//! the old addresses mapped: MREMAP_DONTUNMAP and length 0. Their files are handed over, and the
//! kernel answers.

use super::fault::obtain_again;
use super::place::{NO_PROCESS, is_mapped, protect, reserve};
use super::ranges::{hand_over, hold, in_place_of, overlaps, tell_gone, unmap};
use super::{PAGE_BYTES, own_pages, pages};
use crate::errno::Errno;
use crate::next;
use crate::pieces::{Changing, Piece};
use libc::c_int;

/// mremap(2). `None` if the kernel is to answer: no piece is left in the range, or the call is
/// refused.
pub(crate) fn remap(
    start: usize,
    old_len: usize,
    len: usize,
    flags: c_int,
    new: usize,
) -> Option<Result<usize, Errno>> {
    let is_fixed = flags & libc::MREMAP_FIXED != 0;
    let (end, len) = (start.checked_add(pages(old_len))?, pages(len));
    let new_end = if is_fixed { new.checked_add(len)? } else { new };
    let is_refused = !start.is_multiple_of(PAGE_BYTES)
        || len == 0
        || is_fixed && flags & libc::MREMAP_MAYMOVE == 0
        || is_fixed && (!new.is_multiple_of(PAGE_BYTES) || start < new_end && new < end);
    if is_refused {
        return None;
    }
    let old = (end - start).max(1);
    let is_several = || joined(&Changing::begin(), start, end).is_none();
    let is_odd = flags & !(libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) != 0
        || start == end
        || is_fixed && len == end - start && overlaps(start, old) && is_several();
    if is_odd && overlaps(start, old) {
        hand_over(start, old);
        if overlaps(start, old) {
            return Some(Err(Errno(libc::ENOMEM)));
        }
    }
    if !overlaps(start, old) {
        let of_kernels = || {
            // SAFETY: the caller's arguments. The table is held (S36).
            unsafe { next::system(libc::SYS_mremap, [start, old_len, len, flags as usize, new, 0]) }
        };
        return is_fixed.then(|| in_place_of(new, len, of_kernels)).flatten();
    }
    if !is_mapped(start, 1) {
        return Some(Err(Errno(libc::EFAULT)));
    }
    let kept = end.min(start + len);
    if kept < end
        && let Some(Err(errno)) = unmap_rest(kept, end)
    {
        return Some(Err(errno));
    }
    if kept == start + len && !is_fixed {
        return Some(Ok(start));
    }
    own_pages::tell_in(new, new_end);
    let moved = move_pieces(start, kept, [len, flags as usize, new, new_end]);
    tell_gone(start, kept);
    tell_gone(new, new_end);
    if let Ok(now) = &moved
        && !obtain_again(now, now)
    {
        hand_over(now.start, len);
    }
    Some(moved.map(|now| now.start))
}

fn unmap_rest(start: usize, end: usize) -> Option<Result<usize, Errno>> {
    unmap(start, end - start).or_else(|| {
        // SAFETY: the program's own addresses, which it releases (S36).
        Some(unsafe { next::system(libc::SYS_munmap, [start, end - start, 0, 0, 0, 0]) })
    })
}

/// Moves the pieces by the kernel, as one.
fn move_pieces(start: usize, end: usize, how: [usize; 4]) -> Result<Piece, Errno> {
    let [len, flags, new, new_end] = how;
    let mut changing = hold(&[(start, end), (new, new_end)])?;
    let whole = joined(&changing, start, end).ok_or(Errno(libc::EFAULT))?;
    // The server allows no stores there from now on.
    changing.replace_in(start, end, |part| Piece { process: NO_PROCESS, ..part });
    match whole.has_own_pages {
        true => protect(start, whole.len, libc::PROT_NONE)?,
        false if !reserve(&whole, libc::MAP_FIXED) => return Err(Errno(libc::ENOMEM)),
        false => {}
    }
    // SAFETY: the pieces' own addresses, all inaccessible, and addresses that the program releases.
    // The table is held (S36).
    let moved = unsafe { next::system(libc::SYS_mremap, [start, whole.len, len, flags, new, 0]) };
    if moved.is_ok() || !is_mapped(new, new_end - new) {
        changing.leave_in(new, new_end);
    }
    let now = Piece { start: moved?, len, process: NO_PROCESS, ..whole };
    // The first piece keeps the whole's number. The server learns that the rest is gone.
    let first = changing.find(start, start + 1).ok_or(Errno(libc::EFAULT))?;
    changing.leave_in(first.end(), end);
    changing.replace(&first, &now);
    Ok(now)
}

/// `None` unless they are parts of one mapping.
fn joined(changing: &Changing, start: usize, end: usize) -> Option<Piece> {
    let first = changing.find(start, start + 1)?;
    let mut whole = first;
    while whole.end() < end {
        let part = changing.find(whole.end(), whole.end() + 1)?;
        let like_first = Piece {
            start: part.start,
            len: part.len,
            offset: first.offset + whole.len as u64,
            map: part.map,
            is_written: part.is_written,
            has_own_pages: part.has_own_pages,
            is_moving: part.is_moving,
            ..first
        };
        if part != like_first {
            return None;
        }
        whole.len += part.len;
        whole.is_written |= part.is_written;
        whole.has_own_pages |= part.has_own_pages;
        whole.is_moving |= part.is_moving;
    }
    Some(whole)
}
