//! mremap(2) of pieces: what is moved is left as a fork leaves it, and obtained again.
//!
//! ```text
//!   own pages      out of reach --mremap--> registered anew: the copies came along
//!   others         reserved     --mremap--> mapped anew: what was stored is in the memory file
//! ```
//!
//! **Ignored.** Several mappings in one call, which newer kernels move, and moves that leave the
//! old addresses mapped: those of MREMAP_DONTUNMAP, or of no length, are the kernel's.

use super::fault::obtain_again;
use super::place::{NO_PROCESS, protect, reserve};
use super::ranges::{forget, hand_over, overlaps};
use super::{PAGE_BYTES, pages};
use crate::errno::Errno;
use crate::next;
use crate::pieces::{Changing, Piece, pause};
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
    if is_fixed {
        forget(new, new_end);
    }
    if !overlaps(start, (end - start).max(1)) {
        return None;
    }
    if flags & !(libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) != 0 || start == end {
        hand_over(start, (end - start).max(1));
        return None;
    }
    let kept = end.min(start + len);
    if kept < end {
        forget(kept, end);
        // SAFETY: the program's own addresses, which it gives up (S36).
        let _ = unsafe { next::system(libc::SYS_munmap, [kept, end - kept, 0, 0, 0, 0]) };
    }
    if kept == start + len && !is_fixed {
        return Some(Ok(start));
    }
    Some(move_pieces(start, kept, [len, flags as usize, new]))
}

/// Has the kernel move what is in a range, as one.
fn move_pieces(start: usize, end: usize, how: [usize; 3]) -> Result<usize, Errno> {
    let mut changing = Changing::begin();
    let whole = loop {
        if !changing.cut(start, end) {
            return Err(Errno(libc::ENOMEM));
        }
        match joined(&changing, start, end) {
            None => return Err(Errno(libc::EFAULT)),
            Some(whole) if !whole.is_moving => break whole,
            // Another thread puts a part in place.
            Some(_) => {
                drop(changing);
                pause();
                changing = Changing::begin();
            }
        }
    };
    // From here on the server allows no store there.
    changing.replace_in(start, end, |part| Piece { process: NO_PROCESS, ..part });
    match whole.has_own_pages {
        true => protect(start, whole.len, libc::PROT_NONE)?,
        false if !reserve(&whole) => return Err(Errno(libc::ENOMEM)),
        false => {}
    }
    let [len, flags, new] = how;
    // SAFETY: the pieces' own addresses, of which no page can be touched (S36).
    let at = unsafe { next::system(libc::SYS_mremap, [start, whole.len, len, flags, new, 0]) }?;
    changing.replace_in(start, end, |part| Piece { len: 0, ..part });
    let now = Piece { start: at, len, process: NO_PROCESS, ..whole };
    changing.add(&now);
    drop(changing);
    if !obtain_again(&now, &now) {
        hand_over(at, len);
    }
    Ok(at)
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
