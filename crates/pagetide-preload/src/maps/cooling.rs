//! Pages that were mapped at a fault are soon unmapped here, many at once, and stay where they are.
//!
//! **Problem.** The server takes a page from all processes as it leaves memory. One that runs on
//! another processor is interrupted for it: 30 us a page in a virtual machine, 4 where nothing maps
//! the page. **Idea.** Of a file that is read by chance, most pages are not touched again before
//! they leave. A process unmaps those that it brought in, by one call for many; what it does touch
//! again, the kernel maps again, that page alone, and it stays mapped.
//!
//! **Data and invariants.** Pages that a thread brought in, of one piece: that has no pages of its
//! own, so that all bytes are in the memory file, and stays as it is during the call (`Storing`).
//! **Ignored.** Kernels before 6.14, which have no name for the process itself.
//!
//! Source: process_madvise(2), madvise(2) `MADV_DONTNEED`.

use super::PAGE_BYTES;
use crate::next;
use crate::pieces::{Piece, Storing};
use libc::{c_int, iovec};
use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Pages that are unmapped together.
const TOGETHER: usize = 32;

thread_local! {
    static PIECE: Cell<Option<Piece>> = const { Cell::new(None) };
    static PAGES: [Cell<usize>; TOGETHER] = const { [const { Cell::new(0) }; TOGETHER] };
    static NR: Cell<usize> = const { Cell::new(0) };
}

/// The kernel cannot.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// A page of the piece is mapped from now on.
pub(super) fn note(at: usize, piece: &Piece) {
    let has_others = piece.is_written || piece.has_own_pages || piece.is_locked;
    if !piece.is_random || has_others || IS_REFUSED.load(Relaxed) {
        return;
    }
    if PIECE.replace(Some(*piece)) != Some(*piece) {
        NR.set(0);
    }
    let nr = NR.get();
    PAGES.with(|pages| pages[nr].set(at));
    NR.set((nr + 1) % TOGETHER);
    if nr + 1 == TOGETHER {
        unmap(piece);
    }
}

fn unmap(piece: &Piece) {
    /// This process, by no descriptor.
    const PIDFD_SELF: c_int = -10000;
    let Some(_storing) = Storing::begin(piece) else { return };
    // A handler that touched another piece, in the middle of this, has left pages of that.
    let is_ours = |at: usize| (piece.start..piece.end()).contains(&at);
    let part = |at: usize| iovec { iov_base: at as *mut _, iov_len: PAGE_BYTES };
    let part = |at: &Cell<usize>| part(if is_ours(at.get()) { at.get() } else { piece.start });
    let parts: [iovec; TOGETHER] = PAGES.with(|pages| pages.each_ref().map(part));
    let (parts, advice) = (parts.as_ptr() as usize, libc::MADV_DONTNEED as usize);
    let arguments = [PIDFD_SELF as usize, parts, TOGETHER, advice, 0, 0];
    // SAFETY: the piece's own addresses, whose bytes are in the memory file (S36).
    if unsafe { next::system(libc::SYS_process_madvise, arguments) }.is_err() {
        IS_REFUSED.store(true, Relaxed);
    }
}
