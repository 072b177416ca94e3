//! What keeps a description for the mappings that a child inherits.
//!
//! **Problem.** A child maps a piece at the first touch, and the server does not know until then
//! that it will. The parent may have unmapped the file, or have ended, and no descriptor may be
//! left. **Idea.** The child inherits a hidden stand-in of each description that it has pieces of.
//! The server looks for stand-ins before it forgets a description, so it finds that one.
//!
//! ```text
//!   before fork   a stand-in for each description of a piece: a copy of one that is open, or the
//!                 server's
//!   parent        closes those again
//!   child         keeps them, each until its last piece of that description has ended, or an exec
//! ```
//!
//! **Data and invariants.** A table of atomics, changed by the thread that holds the pieces over a
//! fork, and by the one that takes an entry out. An entry is the program's to inherit for as long
//! as the process has not made it itself: `maker` is the number of the process that forked.
//!
//! **Ignored.** A stand-in for which there is no descriptor, or no room in the table: that child
//! depends on its parent.

use crate::channel::{Parcel, ask};
use crate::pieces::{self, Piece};
use crate::{own, process, table};
use libc::c_int;
use pagetide_run::wire::{Op, Request};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize};

const NR_HEIRLOOMS: usize = 512;

struct Heirloom {
    /// The description; 0 is a free entry.
    id: AtomicU64,
    fd: AtomicI32,
    maker: AtomicU64,
}

static HEIRLOOMS: [Heirloom; NR_HEIRLOOMS] = [const {
    Heirloom { id: AtomicU64::new(0), fd: AtomicI32::new(-1), maker: AtomicU64::new(0) }
}; NR_HEIRLOOMS];
/// No entry from here on was ever used.
static END: AtomicUsize = AtomicUsize::new(0);

fn used() -> impl Iterator<Item = &'static Heirloom> {
    HEIRLOOMS[..END.load(SeqCst)].iter().filter(|one| one.id.load(SeqCst) != 0)
}

/// Before a fork: opens what a child is to have for a piece.
pub(super) fn prepare(piece: &Piece) {
    if used().any(|one| one.id.load(SeqCst) == piece.id) {
        return;
    }
    let free = HEIRLOOMS.iter().position(|one| one.id.load(SeqCst) == 0);
    if let Some(index) = free
        && let Some(fd) = copy_of_stand_in(piece.id).or_else(|| ask_for_stand_in(piece.id))
    {
        let heirloom = &HEIRLOOMS[index];
        let fd = own::keep(fd);
        own::leave_to_child(fd);
        heirloom.fd.store(fd, SeqCst);
        heirloom.maker.store(own::number(), SeqCst);
        heirloom.id.store(piece.id, SeqCst);
        END.fetch_max(index + 1, SeqCst);
    }
}

fn copy_of_stand_in(id: u64) -> Option<c_int> {
    let fd = table::numbers_of(id).find(|fd| process::is_stand_in(*fd))?;
    process::control(fd, libc::F_DUPFD_CLOEXEC, 3).ok().map(|copy| copy as c_int)
}

fn ask_for_stand_in(id: u64) -> Option<c_int> {
    let answer = ask(&Request::new(Op::StandIn, id), Parcel::default()).ok()?;
    Some(answer.files[0]).filter(|fd| *fd >= 0)
}

/// After a fork, in the parent: closes what it has opened for the child.
pub(super) fn close_prepared() {
    let number = own::number();
    for one in used().filter(|one| one.maker.load(SeqCst) == number) {
        close(one);
    }
}

/// A piece has ended. After the last one of its description that was inherited, the server is told
/// that this process has nothing of it any more.
pub(super) fn piece_ended(id: u64) {
    let of_id = |one: &&Heirloom| one.id.load(SeqCst) == id;
    if END.load(SeqCst) == 0 || pieces::has_description(id) {
        return;
    }
    let is_closed = used().filter(of_id).any(close);
    if is_closed && table::numbers_of(id).next().is_none() {
        // A server that is gone keeps nothing.
        let _ = ask(&Request::new(Op::Installed, id), Parcel::default());
    }
}

/// Closes the descriptor, and returns true, unless another thread does.
fn close(heirloom: &Heirloom) -> bool {
    let fd = heirloom.fd.load(SeqCst);
    let is_ours_to_close = heirloom.id.swap(0, SeqCst) != 0;
    if is_ours_to_close {
        own::close_own(fd);
    }
    is_ours_to_close
}
