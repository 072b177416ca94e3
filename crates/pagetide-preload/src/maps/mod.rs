//! Mapped files that the server's page cache serves.
//!
//! **Problem.** A program maps a file, and touches any part of it. Memory must hold only as many
//! pages as the limit allows, and all processes must share them. **Idea.** The server has a memory
//! file for each file, and the library maps the memory file read-only instead. An absent page is a
//! hole. userfaultfd reports a touch of a hole by SIGBUS on the touching thread, and the signal
//! handler asks the server.
//!
//! ```text
//!   touch --> SIGBUS --> in a mapped range? --yes--> ask --> the page is there: return
//!                             | no                      | the kernel has the file: map it here
//!                             v                         | past the end, or no server
//!                     the program's own handler <-------+
//! ```
//!
//! A mapping for reads is private: a mapping of a read-only descriptor must be private to be
//! registered. The program still sees the file's pages, because the mapping cannot be written.
//!
//! A mapping for shared stores is shared, and is registered so that the kernel maps no page by
//! itself. The library maps the pages in the memory file, write-protected. So a store raises a
//! signal, too:
//!
//! ```text
//!   load  --> in the memory file? --yes--> the library maps the page for loads, and the next ones
//!   store --> ask: the server marks the page dirty, and maps it for stores at the address
//! ```
//!
//! So the server has marked a page dirty before any store reaches it. If a process is killed, or a
//! child ends, nothing is lost: the bytes are in the memory file. Process and server both hold the
//! userfaultfd. So it outlives a killed server, and a program that closes all its descriptors.
//!
//! A private mapping for stores is like a mapping for reads, except for the program's stores. The
//! kernel copies a stored page from the memory file. As without Pagetide, the copy is the process's
//! memory, which does not count towards the limit. The copy stays when the page leaves the memory
//! file.
//!
//! **Data and invariants.** S36: a range is mapped from a memory file only while it is registered.
//! Until then, its pages cannot be touched, because a touch would fill a hole with zeros. No child
//! inherits the mapping: a child finds addresses past the end of an empty file in its place, and
//! maps its own memory file at the first touch. Only a range with private pages is inherited,
//! without access until the first touch. While the server may be allowing a store by its address,
//! nothing else is mapped there (`Storing`). One system call frees or replaces a range, exactly
//! once: while the table is held (`in_place_of`), or by the thread that has marked the range
//! (`Moving`). Nothing here takes a lock that the program's code could hold, or allocates.
//!
//! **Ignored.** munmap and similar calls without the C library, and a SIGBUS handler that is
//! installed so. A thread that has blocked SIGBUS so, or during another signal's handler.
//!
//! Source: userfaultfd(2), ioctl_userfaultfd(2), sigaction(2).

mod cooling;
mod fault;
mod forks;
mod given;
mod heirs;
mod kernels;
mod locks;
mod own_pages;
mod pins;
mod place;
mod ranges;
mod remap;
pub(crate) mod signals;
mod uffd;

pub(crate) use given::{in_copies, in_own_memory};
pub(crate) use locks::{lock, lock_all, unlock};
pub(crate) use own_pages::count_all as count_own_pages;
pub(crate) use place::is_mapped;
pub(crate) use ranges::{
    advise, hand_over, hand_over_all, in_place_of, overlaps, populate, populate_to_write,
    prepare_exec, protect, sync, unmap,
};
pub(crate) use remap::remap;

use crate::errno::Errno;
use crate::pieces::Piece;
use crate::{lent, next, pieces, process};
use libc::{c_int, off_t};
use pagetide_run::wire::{FILE_BYTES_MAX, PAGE_BYTES, Reason, variable};
use place::{Obtained, obtain};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Set when all later mappings are the kernel's: after mlockall(MCL_FUTURE), or outside a run.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Arguments of the program's mmap.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) protection: c_int,
    pub(crate) flags: c_int,
    pub(crate) offset: off_t,
}

impl Wanted {
    /// Returns true if the mapping can be served.
    fn is_served(&self) -> bool {
        const REFUSED: c_int = libc::MAP_HUGETLB | libc::MAP_SYNC;
        /// Larger than any address space.
        const LEN_MAX: usize = 1 << 47;
        let kind = self.flags & libc::MAP_TYPE;
        (1..LEN_MAX).contains(&self.len)
            && matches!(kind, libc::MAP_SHARED | libc::MAP_PRIVATE | libc::MAP_SHARED_VALIDATE)
            && (0..FILE_BYTES_MAX as off_t).contains(&self.offset)
            && (self.offset as usize).is_multiple_of(PAGE_BYTES)
            && (self.protection & !libc::PROT_READ == 0 || self.is_written() || self.is_copied())
            && self.flags & REFUSED == 0
            && process::has_flag(variable::MAPS)
            && (!self.is_written() || process::has_flag(variable::WRITTEN_MAPS))
            && !IS_REFUSED.load(Relaxed)
    }

    /// Returns true for a writable shared mapping. Only x86-64 is known to report a store in the
    /// signal.
    fn is_written(&self) -> bool {
        cfg!(target_arch = "x86_64")
            && self.protection == libc::PROT_READ | libc::PROT_WRITE
            && self.is_shared()
    }

    /// Returns true for a writable private mapping.
    fn is_copied(&self) -> bool {
        self.protection == libc::PROT_READ | libc::PROT_WRITE && !self.is_shared()
    }

    fn is_shared(&self) -> bool {
        self.flags & libc::MAP_TYPE != libc::MAP_PRIVATE
    }
}

fn pages(len: usize) -> usize {
    len.checked_next_multiple_of(PAGE_BYTES).unwrap_or(usize::MAX & !(PAGE_BYTES - 1))
}

/// Returns true if mmap(2) with these flags replaces other mappings at its addresses.
pub(crate) fn is_over(flags: c_int) -> bool {
    flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) == libc::MAP_FIXED
}

/// Calls mmap(2) for a part of a file.
///
/// # Safety
/// The addresses may be replaced, if `kind` has MAP_FIXED.
unsafe fn mapping(
    part: &Piece,
    protection: c_int,
    kind: c_int,
    file: c_int,
) -> Result<usize, Errno> {
    let [protection, kind, file] = [protection, kind, file].map(|number| number as usize);
    let arguments = [part.start, part.len, protection, kind, file, part.offset as usize];
    // SAFETY: the caller permits the mapping (S36).
    unsafe { next::system(libc::SYS_mmap, arguments) }
}

fn find(address: usize) -> Option<Piece> {
    pieces::find(address, address + 1)
}

/// Maps description `id` for the program.
///
/// # Errors
/// Fails with the reason for which the kernel is to map the file.
pub(crate) fn map(id: u64, wanted: Wanted) -> Result<usize, Reason> {
    if !wanted.is_served() || !signals::install() {
        return Err(Reason::Mapped);
    }
    if uffd::own_uffd().is_err() {
        return Err(Reason::Unwatched);
    }
    let len = wanted.len.checked_next_multiple_of(PAGE_BYTES).ok_or(Reason::Mapped)?;
    let piece = Piece {
        protection: wanted.protection,
        is_shared: wanted.is_shared(),
        is_written: wanted.is_written(),
        has_own_pages: wanted.is_copied(),
        ..Piece::new(wanted.at, len, wanted.offset as u64, id)
    };
    let end = piece.start.checked_add(len).ok_or(Reason::Mapped)?;
    let is_over = is_over(wanted.flags);
    if is_over {
        own_pages::tell_in(piece.start, end);
    }
    let obtained = obtain(&piece, Some(wanted.flags));
    if is_over {
        ranges::tell_gone(piece.start, end);
    }
    let piece = match obtained {
        Obtained::Mapped(piece) => piece,
        Obtained::Kernel(real) => {
            lent::dispose(real);
            return Err(Reason::Mapped);
        }
        Obtained::Short => return Err(Reason::Short),
        Obtained::OtherFile | Obtained::Failed => return Err(Reason::Mapped),
    };
    if wanted.flags & libc::MAP_POPULATE != 0 {
        // As in the kernel, MAP_POPULATE makes no shared page dirty.
        let populate = if piece.has_own_pages { populate_to_write } else { populate };
        populate(piece.start, piece.len);
    }
    Ok(piece.start)
}
