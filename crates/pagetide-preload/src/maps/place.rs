//! A piece's place in the address space: mapped from a memory file of the server's, or kept free.
//!
//! S36: a range is mapped from a memory file only while it is registered; until then its pages
//! cannot be touched, for a touch would fill a hole with zeros.

use super::uffd::{own_uffd, register};
use crate::channel::{self, Parcel, ask};
use crate::errno::Errno;
use crate::pieces::Piece;
use crate::{next, own, pieces};
use libc::c_int;
use pagetide_run::wire::{Op, Request, Status, fault};

/// What came of asking for a piece's memory file.
pub(super) enum Obtained {
    /// It is mapped.
    Mapped(Piece),
    /// The kernel's file, to be mapped.
    Kernel(c_int),
    /// Nothing: so short a file is not to be written so.
    Short,
    /// Neither.
    Failed,
}

/// Asks for the memory file of a piece, and maps it, registered.
pub(super) fn obtain(piece: &Piece, fixed: c_int) -> Obtained {
    let Ok(uffd) = own_uffd() else { return Obtained::Failed };
    let (offset, len) = (piece.offset as i64, piece.len as u64);
    let (flags, total) = (u64::from(piece.is_written), u64::from(piece.is_moving));
    let one = Request { offset, len, flags, total, ..Request::new(Op::Map, piece.id) };
    let files = &[uffd];
    let answer = ask(&one, Parcel { files, ..Parcel::default() });
    match answer {
        Ok(answer) if answer.reply.status == Status::Done && answer.files[0] >= 0 => {
            let (map, file) = (answer.reply.offset, answer.reply.total);
            let named = Piece { map, file, process: own::number(), ..*piece };
            let at = map_registered(&named, fixed, answer.files[0], uffd);
            own::close(answer.files[0]);
            match at {
                Ok(start) => Obtained::Mapped(Piece { start, is_moving: false, ..named }),
                Err(_) => {
                    tell_unmapped(&named);
                    Obtained::Failed
                }
            }
        }
        Ok(answer) if answer.reply.status == Status::Kernel && answer.files[0] >= 0 => {
            Obtained::Kernel(answer.files[0])
        }
        Ok(answer) if answer.reply.result == fault::TOO_SHORT => Obtained::Short,
        _ => Obtained::Failed,
    }
}

/// Puts a memory file where the piece is, or is to be: out of reach until it is registered.
fn map_registered(piece: &Piece, fixed: c_int, file: c_int, uffd: c_int) -> Result<usize, Errno> {
    let sharing = if piece.is_written { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
    let kind = (sharing | libc::MAP_NORESERVE | fixed) as usize;
    let none = libc::PROT_NONE as usize;
    let at = [piece.start, piece.len, none, kind, file as usize, piece.offset as usize];
    // SAFETY: where the program asked for it, or a piece is already (S36).
    let start = unsafe { next::system(libc::SYS_mmap, at) }?;
    let ready = || {
        register(uffd, start, piece.len, piece.is_written)?;
        let arguments = [start, piece.len, libc::MADV_DONTFORK as usize, 0, 0, 0];
        // SAFETY: the mapping just made (S36).
        unsafe { next::system(libc::SYS_madvise, arguments) }?;
        let arguments = [start, piece.len, piece.protection as usize, 0, 0, 0];
        // SAFETY: the mapping just made (S36).
        unsafe { next::system(libc::SYS_mprotect, arguments) }
    };
    let result = ready();
    if result.is_err() && piece.is_moving {
        reserve(piece);
    } else if result.is_err() {
        // SAFETY: the mapping just made, of which the program knows nothing (S36).
        let _ = unsafe { next::system(libc::SYS_munmap, [start, piece.len, 0, 0, 0, 0]) };
    }
    result.map(|_| start)
}

/// Addresses past the end of an empty file: each touch is SIGBUS.
pub(super) fn reserve(piece: &Piece) {
    let name = c"pagetide-reserved".as_ptr() as usize;
    let flags = libc::MFD_CLOEXEC as usize;
    // SAFETY: a string (S20).
    let made = unsafe { next::system(libc::SYS_memfd_create, [name, flags, 0, 0, 0, 0]) };
    let Ok(empty) = made else { return };
    let kind = (libc::MAP_PRIVATE | libc::MAP_FIXED) as usize;
    let arguments = [piece.start, piece.len, piece.protection as usize, kind, empty, 0];
    // SAFETY: the piece's own addresses, of which this process has no mapping, or one that failed
    // (S36).
    let _ = unsafe { next::system(libc::SYS_mmap, arguments) };
    own::close(empty as c_int);
}

/// The server is told of a mapping of which nothing is left.
pub(super) fn tell_unmapped(piece: &Piece) {
    if piece.process == own::number() && !pieces::has(piece.map) {
        // A server that is gone keeps nothing.
        let one = Request { flags: piece.map, ..Request::new(Op::Unmap, piece.id) };
        let _ = ask(&one, Parcel::default());
        channel::close_if_idle();
    }
}
