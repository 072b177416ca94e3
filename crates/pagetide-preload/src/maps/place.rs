//! A piece's place in the address space: mapped from a memory file of the server's, or kept free.
//!
//! S36: a range is mapped from a memory file only while it is registered; until then its pages
//! cannot be touched, for a touch would fill a hole with zeros. What is mapped over a range is
//! mapped while this thread has marked the piece there, or holds the table.

use super::uffd::{own_uffd, register};
use super::{heirs, is_over, mapping};
use crate::channel::{self, Parcel, ask};
use crate::errno::Errno;
use crate::pieces::{Blocked, Changing, Piece};
use crate::{lent, next, own, pieces, room};
use libc::{c_int, c_void, iovec};
use pagetide_run::wire::{Op, Request, Status, fault};

/// In place of the process of a piece that was ours to move, and is to be obtained again.
pub(super) const NO_PROCESS: u64 = 0;

/// What came of asking for a piece's memory file.
pub(super) enum Obtained {
    /// It is mapped.
    Mapped(Piece),
    /// The kernel's file, to be mapped.
    Kernel(c_int),
    /// Nothing: so short a file is not to be written so.
    Short,
    /// Nothing: the file is in another memory file, and the piece has pages of its own.
    OtherFile,
    /// Neither.
    Failed,
}

/// Asks for the memory file of a piece, and maps it, registered: in the place of the piece, which
/// this thread has marked, or as a new one that the program asks for with these flags.
pub(super) fn obtain(piece: &Piece, new: Option<c_int>) -> Obtained {
    let Ok(uffd) = own_uffd() else { return Obtained::Failed };
    let (offset, len) = (piece.offset as i64, piece.len as u64);
    let (flags, total) = (u64::from(piece.is_written), u64::from(new.is_none()));
    let one = Request { offset, len, flags, total, ..Request::new(Op::Map, piece.id) };
    let files = &[uffd];
    let answer = ask(&one, Parcel { files, ..Parcel::default() });
    match answer {
        Ok(answer) if answer.reply.status == Status::Done && answer.files[0] >= 0 => {
            let (map, file) = (answer.reply.offset, answer.reply.total);
            let named = Piece { map, file, process: own::number(), ..*piece };
            // What a child has inherited, or mremap has moved, stays, with its own pages.
            let is_kept = new.is_none() && piece.has_own_pages;
            let is_other = is_kept && file != piece.file;
            let mapped = match new {
                Some(flags) => map_new(&named, flags, answer.files[0], uffd),
                None if is_other => Err(Errno(libc::ENXIO)),
                None if is_kept => make_ready(&named, uffd).map(|()| named),
                None => map_again(&named, answer.files[0], uffd).map(|()| named),
            };
            own::close(answer.files[0]);
            match mapped {
                Ok(now) => Obtained::Mapped(Piece { is_moving: false, ..now }),
                Err(_) => {
                    tell_unmapped(&named);
                    if is_other { Obtained::OtherFile } else { Obtained::Failed }
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

/// Maps a memory file for the program, where it asked for it: over what was there, or where nothing
/// is. The piece is in the table, marked, from the moment in which it is mapped.
fn map_new(piece: &Piece, flags: c_int, file: c_int, uffd: c_int) -> Result<Piece, Errno> {
    let _blocked = Blocked::begin();
    let is_over = is_over(flags);
    let mut changing = match is_over {
        true => Changing::at_rest(&[(piece.start, piece.end())]).ok_or(Errno(libc::ENOMEM))?,
        false => Changing::begin(),
    };
    if !changing.has_room() {
        return Err(Errno(libc::ENOMEM));
    }
    let mapped =
        map_out_of_reach(piece, flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE), file);
    if is_over && (mapped.is_ok() || !is_mapped(piece.start, piece.len)) {
        changing.leave_in(piece.start, piece.end());
    }
    let marked = Piece { start: mapped?, is_moving: true, ..*piece };
    changing.add(&marked);
    drop(changing);
    let ready = make_ready(&marked, uffd);
    let mut changing = Changing::begin();
    match ready {
        Ok(()) => changing.replace(&marked, &Piece { is_moving: false, ..marked }),
        Err(_) => changing.remove(&marked),
    };
    if ready.is_err() && !is_over {
        // SAFETY: the mapping just made, of which the program knows nothing (S36).
        let _ = unsafe { next::system(libc::SYS_munmap, [marked.start, marked.len, 0, 0, 0, 0]) };
    }
    // What was to replace something stays, out of reach: the kernel's file is to replace it.
    ready.map(|()| marked)
}

/// Puts a memory file in the place of a piece that this thread has marked.
fn map_again(piece: &Piece, file: c_int, uffd: c_int) -> Result<(), Errno> {
    map_out_of_reach(piece, libc::MAP_FIXED, file)?;
    make_ready(piece, uffd).inspect_err(|_| {
        reserve(piece, libc::MAP_FIXED);
    })
}

/// Maps a memory file so that no page of it can be touched before it is registered.
fn map_out_of_reach(piece: &Piece, fixed: c_int, file: c_int) -> Result<usize, Errno> {
    let sharing = if piece.is_written { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
    let kind = sharing | libc::MAP_NORESERVE | fixed;
    // SAFETY: where the program asked for it, or a piece is that this thread has marked (S36).
    unsafe { mapping(piece, libc::PROT_NONE, kind, file) }
}

/// Registers a mapping of the memory file that is out of reach, and lets the program have it.
fn make_ready(piece: &Piece, uffd: c_int) -> Result<(), Errno> {
    register(uffd, piece.start, piece)?;
    keep_from_children(piece.start, piece.len, true)?;
    protect(piece.start, piece.len, piece.protection)
}

/// Whether something is mapped at each address of a range. (msync does nothing else, so called.)
pub(crate) fn is_mapped(start: usize, len: usize) -> bool {
    let arguments = [start, len, libc::MS_ASYNC as usize, 0, 0, 0];
    // SAFETY: numbers (S20).
    let looked_at = unsafe { next::system(libc::SYS_msync, arguments) };
    looked_at != Err(Errno(libc::ENOMEM))
}

/// Whether children have a range.
pub(super) fn keep_from_children(start: usize, len: usize, keep: bool) -> Result<(), Errno> {
    let advice = if keep { libc::MADV_DONTFORK } else { libc::MADV_DOFORK };
    // SAFETY: a piece's own addresses (S36).
    unsafe { next::system(libc::SYS_madvise, [start, len, advice as usize, 0, 0, 0]) }.map(drop)
}

/// What may be done to a range now.
pub(super) fn protect(start: usize, len: usize, protection: c_int) -> Result<(), Errno> {
    // SAFETY: a piece's own addresses (S36).
    unsafe { next::system(libc::SYS_mprotect, [start, len, protection as usize, 0, 0, 0]) }
        .map(drop)
}

/// Addresses past the end of an empty file: each touch is SIGBUS. They replace what is there, or
/// nothing, as the flag says. Returns whether they are there.
pub(super) fn reserve(piece: &Piece, fixed: c_int) -> bool {
    let name = c"pagetide-reserved".as_ptr() as usize;
    let flags = libc::MFD_CLOEXEC as usize;
    // SAFETY: a string (S20).
    let make = || unsafe { next::system(libc::SYS_memfd_create, [name, flags, 0, 0, 0, 0]) };
    let Ok(empty) = room::with_room(make) else { return false };
    let whole = Piece { offset: 0, ..*piece };
    // SAFETY: the addresses of a piece that this thread has marked, or holds the table for; or of
    // which this process has no mapping (S36).
    let mapped =
        unsafe { mapping(&whole, piece.protection, libc::MAP_PRIVATE | fixed, empty as c_int) };
    own::close(empty as c_int);
    mapped.is_ok()
}

/// The server is told of a mapping of which nothing is left.
pub(super) fn tell_unmapped(piece: &Piece) {
    heirs::piece_ended(piece.id);
    let is_ours = [own::number(), NO_PROCESS].contains(&piece.process);
    if is_ours && !pieces::has(piece.map) {
        // A server that is gone keeps nothing.
        let one = Request { flags: piece.map, ..Request::new(Op::Unmap, piece.id) };
        let _ = ask(&one, Parcel::default());
        channel::close_if_idle();
    }
}

/// A request whose answer is a result alone.
pub(super) fn ask_only(one: &Request) -> Result<(), Errno> {
    let answer = ask(one, Parcel::default())?;
    answer.files.into_iter().filter(|file| *file >= 0).for_each(lent::dispose);
    if answer.reply.result < 0 { Err(Errno(-answer.reply.result as c_int)) } else { Ok(()) }
}

/// Copies bytes of the program's, without a signal where they are not there.
///
/// # Errors
/// EFAULT where they are not, or cannot be put where they are to go.
///
/// # Safety
/// What is at the second address may be changed.
pub(super) unsafe fn copy_if_there(from: usize, to: usize, iov_len: usize) -> Result<(), Errno> {
    let [to, from] = [to, from].map(|at| iovec { iov_base: at as *mut c_void, iov_len });
    let (to, from) = (&raw const to as usize, &raw const from as usize);
    // SAFETY: no arguments (S20).
    let own = unsafe { libc::getpid() } as usize;
    // SAFETY: by the caller's word; the kernel looks at the other (S20).
    let nr = unsafe { next::system(libc::SYS_process_vm_readv, [own, to, 1, from, 1, 0]) }?;
    if nr == iov_len { Ok(()) } else { Err(Errno(libc::EFAULT)) }
}
