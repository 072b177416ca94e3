//! A mapped range in the address space: mapped from one of the server's memory files, or reserved.
//!
//! S36: a range is mapped from a memory file only while it is registered. Until then, its pages
//! cannot be touched, because a touch would fill a hole with zeros. A thread maps something over a
//! range only while it has marked the range, or holds the table.

use super::uffd::{own_uffd, register};
use super::{heirs, is_over, mapping};
use crate::channel::{self, Parcel, ask};
use crate::errno::Errno;
use crate::pieces::{Blocked, Changing, Piece};
use crate::{lent, next, own, pieces, room};
use libc::{c_int, c_void, iovec};
use pagetide_run::wire::{Op, Request, Status, fault};

/// Process number of a range that this process has moved, and that is to be mapped again.
pub(super) const NO_PROCESS: u64 = 0;

/// Result of a request for a range's memory file.
pub(super) enum Obtained {
    /// The memory file is mapped.
    Mapped(Piece),
    /// The kernel's file, to be mapped instead.
    Kernel(c_int),
    /// Nothing is mapped: a file this short is not to be mapped for shared stores.
    Short,
    /// Nothing is mapped: the range has private pages, and the file has moved to another memory
    /// file.
    OtherFile,
    /// The request or the mapping has failed.
    Failed,
}

/// Requests the memory file of a range, maps the file and registers the mapping. `new` are the
/// flags of the program's mmap. Without `new`, the mapping replaces a range that this thread has
/// marked.
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
            // A range with private pages, inherited or moved by mremap, keeps its mapping.
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

/// Maps a memory file for the program: over other mappings, or at free addresses. The range is in
/// the table, marked, as soon as it is mapped.
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
        // SAFETY: the mapping just made, which the program does not know (S36).
        let _ = unsafe { next::system(libc::SYS_munmap, [marked.start, marked.len, 0, 0, 0, 0]) };
    }
    // A mapping that was to replace something stays inaccessible: the kernel's file is to replace
    // it.
    ready.map(|()| marked)
}

/// Maps a memory file over a range that this thread has marked.
fn map_again(piece: &Piece, file: c_int, uffd: c_int) -> Result<(), Errno> {
    map_out_of_reach(piece, libc::MAP_FIXED, file)?;
    make_ready(piece, uffd).inspect_err(|_| {
        reserve(piece, libc::MAP_FIXED);
    })
}

/// Maps a memory file without access, so that no page can be touched before it is registered.
fn map_out_of_reach(piece: &Piece, fixed: c_int, file: c_int) -> Result<usize, Errno> {
    let sharing = if piece.is_written { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
    let kind = sharing | libc::MAP_NORESERVE | fixed;
    // SAFETY: at addresses that the program has asked for, or of a range that this thread has
    // marked (S36).
    unsafe { mapping(piece, libc::PROT_NONE, kind, file) }
}

/// Registers a mapping of the memory file that is without access, and gives the program access.
fn make_ready(piece: &Piece, uffd: c_int) -> Result<(), Errno> {
    register(uffd, piece.start, piece)?;
    keep_from_children(piece.start, piece.len, true)?;
    protect(piece.start, piece.len, piece.protection)
}

/// Returns true if something is mapped at each address of a range. (msync has no effect otherwise.)
pub(crate) fn is_mapped(start: usize, len: usize) -> bool {
    let arguments = [start, len, libc::MS_ASYNC as usize, 0, 0, 0];
    // SAFETY: all arguments are numbers (S20).
    let looked_at = unsafe { next::system(libc::SYS_msync, arguments) };
    looked_at != Err(Errno(libc::ENOMEM))
}

/// Excludes a range from children's memory, or includes it again.
pub(super) fn keep_from_children(start: usize, len: usize, keep: bool) -> Result<(), Errno> {
    let advice = if keep { libc::MADV_DONTFORK } else { libc::MADV_DOFORK };
    // SAFETY: the addresses of a mapped range (S36).
    unsafe { next::system(libc::SYS_madvise, [start, len, advice as usize, 0, 0, 0]) }.map(drop)
}

/// Sets the protection of a range.
pub(super) fn protect(start: usize, len: usize, protection: c_int) -> Result<(), Errno> {
    // SAFETY: the addresses of a mapped range (S36).
    unsafe { next::system(libc::SYS_mprotect, [start, len, protection as usize, 0, 0, 0]) }
        .map(drop)
}

/// Maps an empty file at a range, so that each touch raises SIGBUS. `fixed` is the mmap flag that
/// permits or forbids replacing. Returns true if the range is reserved.
pub(super) fn reserve(piece: &Piece, fixed: c_int) -> bool {
    let name = c"pagetide-reserved".as_ptr() as usize;
    let flags = libc::MFD_CLOEXEC as usize;
    // SAFETY: a string (S20).
    let make = || unsafe { next::system(libc::SYS_memfd_create, [name, flags, 0, 0, 0, 0]) };
    let Ok(empty) = room::with_room(make) else { return false };
    let whole = Piece { offset: 0, ..*piece };
    // SAFETY: the addresses of a range that this thread has marked, or holds the table for, or at
    // which this process has no mapping (S36).
    let mapped =
        unsafe { mapping(&whole, piece.protection, libc::MAP_PRIVATE | fixed, empty as c_int) };
    own::close(empty as c_int);
    mapped.is_ok()
}

/// Tells the server of an unmapped range, if no range of its mapping is left.
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

/// Makes a request that has only a result. Disposes of real descriptors in the reply.
pub(super) fn ask_only(one: &Request) -> Result<(), Errno> {
    let answer = ask(one, Parcel::default())?;
    answer.files.into_iter().filter(|file| *file >= 0).for_each(lent::dispose);
    if answer.reply.result < 0 { Err(Errno(-answer.reply.result as c_int)) } else { Ok(()) }
}

/// Copies bytes of the program's memory. Raises no signal if there is no memory.
///
/// # Errors
/// Fails with `EFAULT` if the bytes at an address cannot be read, or stored.
///
/// # Safety
/// The memory at `to` may be changed.
pub(super) unsafe fn copy_if_there(from: usize, to: usize, iov_len: usize) -> Result<(), Errno> {
    let [to, from] = [to, from].map(|at| iovec { iov_base: at as *mut c_void, iov_len });
    let (to, from) = (&raw const to as usize, &raw const from as usize);
    // SAFETY: no arguments (S20).
    let own = unsafe { libc::getpid() } as usize;
    // SAFETY: the caller permits changes at `to`, and the kernel checks `from` (S20).
    let nr = unsafe { next::system(libc::SYS_process_vm_readv, [own, to, 1, from, 1, 0]) }?;
    if nr == iov_len { Ok(()) } else { Err(Errno(libc::EFAULT)) }
}
