//! Hidden stand-ins that keep a description open for a child's inherited mappings.
//!
//! **Problem.** A child maps an inherited range at the first touch. Until then, the server does not
//! know that the child needs the description. The parent may have unmapped the file, or have ended,
//! and no descriptor may be left. **Idea.** The child inherits a hidden stand-in of each
//! description that it has ranges of. The server looks for stand-ins before it forgets a
//! description, and finds this one.
//!
//! ```text
//!   before fork   open a stand-in for each description of a range: a copy of an open one, or a new
//!                 one from the server
//!   parent        close these stand-ins again
//!   child         keep each until the description's last range has ended, or until an exec
//! ```
//!
//! **Data and invariants.** A table of atomics. The thread that holds the ranges over a fork adds
//! entries, and any thread may take an entry out. `maker` is the number of the process that forked.
//! An entry with another maker was inherited.
//!
//! **Ignored.** A stand-in for which there is no descriptor, or no room in the table. The child
//! then depends on its parent.

use crate::channel::{Parcel, ask};
use crate::pieces::{self, Piece};
use crate::{own, process, table};
use libc::c_int;
use pagetide_run::wire::{Op, Request};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize};

const NR_HEIRLOOMS: usize = 512;

struct Heirloom {
    /// Number of the description, or 0 if the entry is free.
    id: AtomicU64,
    fd: AtomicI32,
    maker: AtomicU64,
}

static HEIRLOOMS: [Heirloom; NR_HEIRLOOMS] = [const {
    Heirloom { id: AtomicU64::new(0), fd: AtomicI32::new(-1), maker: AtomicU64::new(0) }
}; NR_HEIRLOOMS];
/// End of the entries that were ever used.
static END: AtomicUsize = AtomicUsize::new(0);

fn used() -> impl Iterator<Item = &'static Heirloom> {
    HEIRLOOMS[..END.load(SeqCst)].iter().filter(|one| one.id.load(SeqCst) != 0)
}

/// Opens a stand-in for a child before a fork, for the description of a mapped range.
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

/// Closes the stand-ins for the child, in the parent after a fork.
pub(super) fn close_prepared() {
    let number = own::number();
    for one in used().filter(|one| one.maker.load(SeqCst) == number) {
        close(one);
    }
}

/// Closes the stand-in of a description after its last range has ended. Tells the server, if the
/// process has no other descriptor of the description.
pub(super) fn piece_ended(id: u64) {
    let of_id = |one: &&Heirloom| one.id.load(SeqCst) == id;
    if END.load(SeqCst) == 0 || pieces::has_description(id) {
        return;
    }
    let is_closed = used().filter(of_id).any(close);
    if is_closed && table::numbers_of(id).next().is_none() {
        // No server is left to keep the description.
        let _ = ask(&Request::new(Op::Installed, id), Parcel::default());
    }
}

/// Closes the descriptor, and returns true, unless another thread does. The entry is free only
/// after its descriptor was taken out, so that no later entry loses one.
fn close(heirloom: &Heirloom) -> bool {
    let fd = heirloom.fd.swap(-1, SeqCst);
    if fd < 0 {
        return false;
    }
    heirloom.id.store(0, SeqCst);
    own::close_own(fd);
    true
}
