//! Replaces pieces by mappings of the kernel's file.
//!
//! The program's stores to a private mapping are kept: the memory file is empty by then, so each
//! readable page is a private copy.
//!
//! ```text
//!   piece           . . c . c .      c a copy, . a hole
//!                       |   |        copied, page by page, while stores are impossible
//!   kernel's file   k k c k c k ---> mremap over the piece
//! ```
//!
//! **Ignored.** Copies past the end of the file, which the kernel drops when a file is truncated.

use super::pins::lock_by_kernel;
use super::place::{copy_if_there, is_mapped, protect, tell_unmapped};
use super::uffd::{own_uffd, register};
use super::{PAGE_BYTES, mapping};
use crate::errno::Errno;
use crate::pieces::{Moving, Piece};
use crate::{lent, next, own, process};
use libc::c_int;

/// Maps the kernel's file in place of a piece, and ends the piece.
pub(super) fn give_to_kernel(piece: &Piece, real: c_int) {
    // Another thread may do so, or have done so.
    if let Some(moving) = Moving::begin(piece, piece) {
        let given = match piece.has_own_pages {
            true => give_with_own_pages(piece, real),
            false => map(piece, Some(piece.start), piece.protection, real).map(drop),
        };
        if given.is_ok() && piece.is_locked {
            // Locked as far as the kernel allows.
            let _ = lock_by_kernel(piece.start, piece.len);
        }
        // A call that replaces may fail after it has unmapped.
        if given.is_ok() || !is_mapped(piece.start, piece.len) {
            moving.remove();
            tell_unmapped(piece);
        } else {
            moving.end(piece);
        }
    }
    lent::dispose(real);
}

fn map(piece: &Piece, at: Option<usize>, protection: c_int, real: c_int) -> Result<usize, Errno> {
    let kind = if piece.is_shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
    let kind = kind | at.map_or(libc::MAP_NORESERVE, |_| libc::MAP_FIXED);
    let part = Piece { start: at.unwrap_or(0), ..*piece };
    // SAFETY: the addresses of a piece that this thread has marked, or free addresses (S36).
    unsafe { mapping(&part, protection, kind, real) }
}

fn give_with_own_pages(piece: &Piece, real: c_int) -> Result<(), Errno> {
    if piece.process != own::number() {
        register(own_uffd()?, piece.start, piece)?;
    }
    let beside = map(piece, None, libc::PROT_READ | libc::PROT_WRITE, real)?;
    let put_over = || {
        protect(piece.start, piece.len, libc::PROT_READ)?;
        copy_own_pages(piece, beside, real)?;
        protect(beside, piece.len, piece.protection)?;
        let how = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
        let arguments = [beside, piece.len, piece.len, how, piece.start, 0];
        // SAFETY: the mapping just made, to the addresses of a piece that this thread has marked
        // (S36).
        unsafe { next::system(libc::SYS_mremap, arguments) }.map(drop)
    };
    let result = put_over();
    if result.is_err() {
        // SAFETY: the mapping just made, unknown to the program (S36).
        let _ = unsafe { next::system(libc::SYS_munmap, [beside, piece.len, 0, 0, 0, 0]) };
        protect(piece.start, piece.len, piece.protection)?;
    }
    result
}

/// Copies the program's private pages to a mapping of the kernel's file.
fn copy_own_pages(piece: &Piece, beside: usize, real: c_int) -> Result<(), Errno> {
    let len = process::stat(real)?.st_size as u64;
    let in_file = (len.saturating_sub(piece.offset) as usize).min(piece.len);
    let mut page = [0_u8; PAGE_BYTES];
    let place = page.as_mut_ptr() as usize;
    for at in (0..in_file).step_by(PAGE_BYTES) {
        // SAFETY: room for a page (S20).
        match unsafe { copy_if_there(piece.start + at, place, PAGE_BYTES) } {
            // SAFETY: the mapping just made (S36).
            Ok(()) => unsafe { copy_if_there(place, beside + at, PAGE_BYTES) }?,
            Err(errno) if errno.0 == libc::EFAULT => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
