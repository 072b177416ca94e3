//! mremap(2) of pieces: what is moved is left as a fork leaves it, and obtained again.
//!
//! ```text
//!   own pages      out of reach --mremap--> registered anew: the copies came along
//!   others         reserved     --mremap--> mapped anew: what was stored is in the memory file
//! ```
//!
//! **Ignored.** Several mappings in one call, which kernels move from Linux 6.17 on, and moves that
//! leave the old addresses mapped (MREMAP_DONTUNMAP, or no length). Their files are handed over,
//! and the kernel answers.

use super::fault::obtain_again;
use super::place::{NO_PROCESS, is_mapped, protect, reserve};
use super::ranges::{hand_over, hold, in_place_of, overlaps, tell_gone, unmap};
use super::{PAGE_BYTES, own_pages, pages};
use crate::errno::Errno;
use crate::next;
use crate::pieces::{Changing, Piece};
use libc::c_int;

/// mremap(2). `None` where the kernel is to answer: nothing of it is served any more, or it is
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
            // SAFETY: our caller's arguments; the table is held (S36).
            unsafe { next::system(libc::SYS_mremap, [start, old_len, len, flags as usize, new, 0]) }
        };
        return is_fixed.then(|| in_place_of(new, len, of_kernels)).flatten();
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

/// Unmaps what a smaller mapping has no place for, whether pieces are there or not.
fn unmap_rest(start: usize, end: usize) -> Option<Result<usize, Errno>> {
    unmap(start, end - start).or_else(|| {
        // SAFETY: the program's own addresses, which it gives up (S36).
        Some(unsafe { next::system(libc::SYS_munmap, [start, end - start, 0, 0, 0, 0]) })
    })
}

/// Has the kernel move what is in a range, as one, over what is at the new addresses.
fn move_pieces(start: usize, end: usize, how: [usize; 4]) -> Result<Piece, Errno> {
    let [len, flags, new, new_end] = how;
    let mut changing = hold(&[(start, end), (new, new_end)])?;
    let whole = joined(&changing, start, end).ok_or(Errno(libc::EFAULT))?;
    // From here on the server allows no store there.
    changing.replace_in(start, end, |part| Piece { process: NO_PROCESS, ..part });
    match whole.has_own_pages {
        true => protect(start, whole.len, libc::PROT_NONE)?,
        false if !reserve(&whole, libc::MAP_FIXED) => return Err(Errno(libc::ENOMEM)),
        false => {}
    }
    // SAFETY: the pieces' own addresses, of which no page can be touched, and those that the
    // program gives up; the table is held (S36).
    let moved = unsafe { next::system(libc::SYS_mremap, [start, whole.len, len, flags, new, 0]) };
    if moved.is_ok() || !is_mapped(new, new_end - new) {
        changing.leave_in(new, new_end);
    }
    let now = Piece { start: moved?, len, process: NO_PROCESS, ..whole };
    // The first has the whole's number; of the others the server is told.
    let first = changing.find(start, start + 1).ok_or(Errno(libc::EFAULT))?;
    changing.leave_in(first.end(), end);
    changing.replace(&first, &now);
    Ok(now)
}

/// The pieces of a range as one, if they are parts of one mapping.
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
