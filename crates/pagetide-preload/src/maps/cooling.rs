//! Unmaps pages in batches soon after their fault.
//!
//! **Problem.** An eviction interrupts processes on other processors that map the page: 30 us per
//! page in a virtual machine, otherwise 4 us. **Idea.** Pages read at random are seldom touched
//! again. A process unmaps the pages that it brought in, by one call for many. A later touch maps
//! the page again, and it stays mapped.
//!
//! **Data and invariants.** Pages of one piece, which has no pages of its own, so all bytes are in
//! the memory file, and does not change during the call (`Storing`). **Ignored.** Kernels before
//! 6.14, which lack a name for the calling process.
//!
//! Source: process_madvise(2), madvise(2) `MADV_DONTNEED`.

use super::PAGE_BYTES;
use crate::next;
use crate::pieces::{Piece, Storing};
use libc::{c_int, iovec};
use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Pages per call.
const TOGETHER: usize = 32;

thread_local! {
    static PIECE: Cell<Option<Piece>> = const { Cell::new(None) };
    static PAGES: [Cell<usize>; TOGETHER] = const { [const { Cell::new(0) }; TOGETHER] };
    static NR: Cell<usize> = const { Cell::new(0) };
}

static IS_REFUSED: AtomicBool = AtomicBool::new(false);

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
    /// The calling process, without a descriptor.
    const PIDFD_SELF: c_int = -10000;
    let Some(_storing) = Storing::begin(piece) else { return };
    // A handler that touched another piece meanwhile has left pages of that piece.
    let is_ours = |at: usize| (piece.start..piece.end()).contains(&at);
    let part = |at: usize| iovec { iov_base: at as *mut _, iov_len: PAGE_BYTES };
    let part = |at: &Cell<usize>| part(if is_ours(at.get()) { at.get() } else { piece.start });
    let parts: [iovec; TOGETHER] = PAGES.with(|pages| pages.each_ref().map(part));
    let (parts, advice) = (parts.as_ptr() as usize, libc::MADV_DONTNEED as usize);
    let arguments = [PIDFD_SELF as usize, parts, TOGETHER, advice, 0, 0];
    // SAFETY: the piece's own addresses, with all bytes in the memory file (S36).
    if unsafe { next::system(libc::SYS_process_madvise, arguments) }.is_err() {
        IS_REFUSED.store(true, Relaxed);
    }
}
