//! Mapped files that the server's page cache serves.
//!
//! **Problem.** A program maps a file, and touches any part of it; only what the limit allows is to
//! be in memory, the same pages for all processes. **Idea.** The server has a memory file for each
//! file, and we map that, read-only, in the file's place. What is absent is a hole, of which
//! userfaultfd tells by SIGBUS, on the thread that touched it: the handler asks the server.
//!
//! ```text
//!   touch --> SIGBUS --> an address of a piece? --yes--> ask --> the page is there: go on
//!                             | no                        | the kernel has the file: map that here
//!                             v                           | past the end, or no server
//!                     the program's own handler <---------+
//! ```
//!
//! A mapping to be read is private, as one of a descriptor that can only read must be to be
//! registered; since it cannot be written, the program sees the file's pages all the same.
//!
//! One that may be written is shared, and registered so that the kernel maps nothing there by
//! itself. What is in the memory file is mapped by us, protected; a store is a signal as well:
//!
//! ```text
//!   load  --> in the memory file? --yes--> mapped to be read, by us, with what follows it
//!   store --> ask: dirty there now, and mapped to be written by the server, by its address
//! ```
//!
//! So a page that a store reaches is always one that the server has as dirty. A child, or a
//! process that is killed, leaves nothing to be done: the bytes are in the memory file. The
//! userfaultfd is the server's, too: neither a server that is killed nor a program that closes all
//! its descriptors takes it away.
//!
//! One that is private and may be written is as one to be read, but for what the program stores:
//! the kernel copies the page that is in the memory file, and the copy is the process's own memory,
//! as without us, beside the limit. It stays as the page leaves the memory file.
//!
//! **Data and invariants.** S36: a range is mapped from a memory file only while it is registered;
//! until then its pages cannot be touched, for a touch would fill a hole with zeros. No child
//! inherits it: in its place a child finds addresses past the end of an empty file, and maps its
//! own at the first touch. Only what has pages of its own is inherited, out of reach until then.
//! While the server may be allowing a store by its address, nothing else is mapped there
//! (`Storing`). One system call frees or replaces a range, exactly once: while the table is held
//! (`in_place_of`), or by the thread that has marked the piece there (`Moving`).
//! Nothing here takes a lock that the program's code could hold, or allocates.
//!
//! **Ignored.** munmap and the like without the C library. A handler of SIGBUS that is installed
//! so. A thread that has SIGBUS blocked by such means, or during another signal's handler.
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
    advise, hand_over, hand_over_all, in_place_of, overlaps, populate, populate_to_write, protect,
    sync, unmap,
};
pub(crate) use remap::remap;

use crate::errno::Errno;
use crate::pieces::Piece;
use crate::{lent, next, pieces, process};
use libc::{c_int, off_t};
use pagetide_run::wire::{FILE_BYTES_MAX, Reason, variable};
use place::{Obtained, obtain};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

const PAGE_BYTES: usize = 4096;
/// Memory is to be locked from now on: mappings are the kernel's.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// What the program asks for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) protection: c_int,
    pub(crate) flags: c_int,
    pub(crate) offset: off_t,
}

impl Wanted {
    /// Whether it is a mapping that can be served.
    fn is_served(&self) -> bool {
        const REFUSED: c_int = libc::MAP_HUGETLB | libc::MAP_SYNC;
        /// More than any address space.
        const LEN_MAX: usize = 1 << 47;
        let kind = self.flags & libc::MAP_TYPE;
        (1..LEN_MAX).contains(&self.len)
            && matches!(kind, libc::MAP_SHARED | libc::MAP_PRIVATE | libc::MAP_SHARED_VALIDATE)
            && (0..FILE_BYTES_MAX as off_t).contains(&self.offset)
            && (self.offset as usize).is_multiple_of(PAGE_BYTES)
            && (self.protection & !libc::PROT_READ == 0 || self.is_written() || self.is_copied())
            && self.flags & REFUSED == 0
            && process::has_flag(variable::MAPS)
            && !IS_REFUSED.load(Relaxed)
    }

    /// Whether it is to be written, and to be seen by others. That a signal tells of a store is
    /// known of one processor.
    fn is_written(&self) -> bool {
        cfg!(target_arch = "x86_64")
            && self.protection == libc::PROT_READ | libc::PROT_WRITE
            && self.is_shared()
    }

    /// Whether it is to be written, and to be seen by the program alone.
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

/// Whether mmap(2) with these flags replaces what is at its addresses.
pub(crate) fn is_over(flags: c_int) -> bool {
    flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) == libc::MAP_FIXED
}

/// mmap(2) of a part of a file.
///
/// # Safety
/// The addresses may be replaced, where the kind says so.
unsafe fn mapping(
    part: &Piece,
    protection: c_int,
    kind: c_int,
    file: c_int,
) -> Result<usize, Errno> {
    let [protection, kind, file] = [protection, kind, file].map(|number| number as usize);
    let arguments = [part.start, part.len, protection, kind, file, part.offset as usize];
    // SAFETY: by the caller's word (S36).
    unsafe { next::system(libc::SYS_mmap, arguments) }
}

fn find(address: usize) -> Option<Piece> {
    pieces::find(address, address + 1)
}

/// Maps description `id` for the program.
///
/// # Errors
/// Why the kernel is to.
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
        // As the kernel has it: what is shared is not made dirty.
        let populate = if piece.has_own_pages { populate_to_write } else { populate };
        populate(piece.start, piece.len);
    }
    Ok(piece.start)
}
