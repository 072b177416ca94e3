//! Real descriptors that this process has beside its stand-ins, and that the program does not see.
//!
//! ```text
//!   lent    of the server's own open file: a thread reads by it what it misses, past the kernel's
//!           page cache, and the process's record locks are kept by it
//!   kept    that came to take a stand-in's place, and cannot be closed yet
//! ```
//!
//! **Problem.** POSIX has a process lose its record locks on a file with the first descriptor of it
//! that it closes. So none of ours may be closed while there may be such locks, and closing a
//! stand-in must drop them, as closing a descriptor would.
//!
//! **Data and invariants.** A table of atomics, in which a description has one place; each entry
//! belongs to the process whose number it has, and no child uses it. Files that were ever locked
//! are remembered as bits of a filter, which may say yes for others, never no.
//!
//! **Ignored.** More kept descriptors than there is room for: those stay open.
//!
//! Source: fcntl(2), "Advisory record locking".

use crate::table::{self, Entry};
use crate::{channel, own, process, serve};
use libc::{c_int, flock64};
use pagetide_run::wire::{Op, Request, Status, lend};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

const NR_LENT: usize = 1 << 12;
const NR_KEPT: usize = 256;

/// What a description was lent.
struct Slot {
    /// Its number; 0 for none.
    id: AtomicU64,
    /// Half the process's number, half the descriptor plus one; a descriptor of -1 was refused.
    word: AtomicU64,
    /// Which file it is.
    file: AtomicU64,
    /// Whether it reads past the kernel's page cache.
    direct: AtomicU64,
}

static LENT: [Slot; NR_LENT] = [const {
    Slot {
        id: AtomicU64::new(0),
        word: AtomicU64::new(0),
        file: AtomicU64::new(0),
        direct: AtomicU64::new(0),
    }
}; NR_LENT];

/// Descriptors that are kept until the program closes one of the same file: the file, and the same
/// word; 0 is free.
static KEPT: [(AtomicU64, AtomicU64); NR_KEPT] =
    [const { (AtomicU64::new(0), AtomicU64::new(0)) }; NR_KEPT];
static NR_KEPT_EVER: AtomicUsize = AtomicUsize::new(0);
/// Files that this process has locked.
static LOCKED: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// A lent descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lent {
    pub(crate) fd: c_int,
    pub(crate) is_direct: bool,
}

fn slot_of(id: u64) -> &'static Slot {
    &LENT[id as usize % NR_LENT]
}

fn word_of(process: u64, fd: c_int) -> u64 {
    process << 32 | u64::from((fd + 1) as u32)
}

/// What is in a word, if it is this process's.
fn descriptor_in(word: u64) -> Option<c_int> {
    let is_ours = word >> 32 == own::number() & u64::from(u32::MAX);
    is_ours.then_some(word as u32 as c_int - 1)
}

/// Says which file a descriptor has open, as a number that hardly another file has; never 0.
fn file_of(fd: c_int) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let stat = process::stat(fd);
    stat.map_or(1, |stat| (stat.st_dev.wrapping_mul(ODD) ^ stat.st_ino).wrapping_mul(ODD) | 1)
}

/// The descriptor that description `id` was lent; `None` if it was not, or was refused one.
#[inline]
pub(crate) fn known(id: u64) -> Option<Option<Lent>> {
    let slot = slot_of(id);
    if slot.id.load(Acquire) != id {
        return None;
    }
    let fd = descriptor_in(slot.word.load(Acquire))?;
    let is_direct = slot.direct.load(Relaxed) == 1;
    let lent = Lent { fd, is_direct };
    // Nothing has come in between, such as another description in its place.
    if slot.id.load(Acquire) != id {
        return None;
    }
    Some((fd >= 0).then_some(lent))
}

/// The descriptor, which the server is asked for the first time.
pub(crate) fn borrow(id: u64) -> Option<Lent> {
    if let Some(known) = known(id) {
        return known;
    }
    let slot = slot_of(id);
    let before = slot.id.load(Acquire);
    let is_taken = before != 0 && before != id && descriptor_in(slot.word.load(Acquire)).is_some();
    if is_taken {
        return None;
    }
    let answer = channel::ask(&Request::new(Op::Lend, id), channel::Parcel::default()).ok()?;
    if answer.reply.status == Status::Kernel {
        // The caller asks for it again, to put it in the place of the stand-ins.
        answer.files.into_iter().filter(|real| *real >= 0).for_each(dispose);
        return None;
    }
    let is_lent = answer.reply.result & lend::LENT != 0 && answer.files[0] >= 0;
    let fd = if is_lent { keep(answer.files[0]) } else { -1 };
    let is_direct = is_lent && answer.reply.result & lend::DIRECT != 0;
    // Another thread may be here as well: the last one's stays, and the other's is open for nothing
    // until the process ends, for it may have locks.
    slot.id.store(0, Release);
    slot.word.store(word_of(own::number(), fd), Release);
    slot.file.store(if is_lent { file_of(fd) } else { 0 }, Release);
    slot.direct.store(u64::from(is_direct), Release);
    slot.id.store(id, Release);
    is_lent.then_some(Lent { fd, is_direct })
}

/// Keeps a descriptor, out of the program's way unless that would drop locks.
fn keep(fd: c_int) -> c_int {
    let is_locked = may_be_locked(file_of(fd)) || has_locks(fd);
    if is_locked { own::keep_here(fd) } else { own::keep(fd) }
}

/// The program puts a descriptor of its own in the place of one of ours.
pub(crate) fn give_up(fd: c_int) {
    own::give_up(fd);
    for slot in &LENT {
        let id = slot.id.load(Acquire);
        if id != 0 && descriptor_in(slot.word.load(Acquire)) == Some(fd) {
            let _ = slot.id.compare_exchange(id, 0, AcqRel, Relaxed);
        }
    }
    for (_, word) in &KEPT {
        let _ = word.compare_exchange(word_of(own::number(), fd), 0, AcqRel, Relaxed);
    }
}

/// The program is about to lock a part of the file.
pub(crate) fn note_lock(fd: c_int) {
    // A child that has not closed what it has inherited does so now, and not when that drops locks.
    own::number();
    let bit = file_of(fd) >> 52;
    LOCKED[bit as usize / 64].fetch_or(1 << (bit % 64), Relaxed);
}

fn may_be_locked(file: u64) -> bool {
    let bit = file >> 52;
    LOCKED[bit as usize / 64].load(Relaxed) & 1 << (bit % 64) != 0
}

/// Returns true if a process has a record lock on the file. An OFD lock has another owner than
/// every process, so the kernel names a lock of this process as well, also one from before an exec.
fn has_locks(real: c_int) -> bool {
    // SAFETY: numbers, for which zeros are valid (S20).
    let mut lock: flock64 = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as i16;
    let asked = process::control(real, libc::F_OFD_GETLK, process::address(&raw mut lock));
    asked.is_ok() && lock.l_type != libc::F_UNLCK as i16
}

/// Disposes of a real descriptor that the program does not know. Every real descriptor of a
/// program's file ends here, because the kernel drops this process's record locks on a file with
/// the first descriptor of the file that the process closes. Where there may be such locks, the
/// descriptor is kept until the program closes one of the same file.
pub(crate) fn dispose(real: c_int) {
    let file = file_of(real);
    if may_be_locked(file) || has_locks(real) {
        keep_until_close(own::keep_here(real), file);
    } else if own::has(real) {
        own::close_own(real);
    } else {
        own::close(real);
    }
}

/// Remembers a descriptor of ours, to be closed as the program closes one of the same file.
fn keep_until_close(fd: c_int, file: u64) {
    NR_KEPT_EVER.fetch_add(1, Relaxed);
    let word = word_of(own::number(), fd);
    let free = |(_, slot): &&(AtomicU64, AtomicU64)| {
        slot.compare_exchange(0, word, AcqRel, Relaxed).is_ok()
    };
    if let Some((of, _)) = KEPT.iter().find(free) {
        of.store(file, Release);
    }
}

/// Leaves each descriptor that may keep record locks open for the program that is executed next,
/// and calls `note` with its number: the kernel keeps a process's locks across exec.
pub(crate) fn keep_across_exec(mut note: impl FnMut(c_int)) {
    let lent = LENT.iter().filter(|slot| slot.id.load(Acquire) != 0);
    let lent = lent.map(|slot| (slot.file.load(Acquire), slot.word.load(Acquire)));
    let kept = KEPT.iter().map(|(file, word)| (file.load(Acquire), word.load(Acquire)));
    let may_stay =
        |(file, word): &(u64, u64)| *word != 0 && may_be_locked(*file) && !is_closed_by_exec(*file);
    for (_, word) in lent.chain(kept).filter(may_stay) {
        let fd = descriptor_in(word).filter(|fd| *fd >= 0 && own::has(*fd));
        if let Some(fd) = fd
            && process::control(fd, libc::F_SETFD, 0).is_ok()
        {
            note(fd);
        }
    }
}

/// Returns true if an exec closes a descriptor of the file that the program has, and drops this
/// process's locks by that.
fn is_closed_by_exec(file: u64) -> bool {
    let is_closed = |fd| process::control(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags & 1 != 0);
    // The close of an O_PATH descriptor of the program drops no locks.
    let may_lock = |fd| matches!(table::entry(fd), Entry::Managed(_)) || !serve::is_stand_in(fd);
    let counts = |fd| is_closed(fd) && !own::has(fd) && file_of(fd) == file && may_lock(fd);
    table::numbers().any(counts)
}

/// Takes over a descriptor that the program before an exec had kept for its locks.
pub(crate) fn take_over(fd: c_int) {
    let cloexec = libc::FD_CLOEXEC as usize;
    if process::control(fd, libc::F_SETFD, cloexec).is_ok() {
        note_lock(fd);
        keep_until_close(own::keep_here(fd), file_of(fd));
    }
}

/// The exec has failed: the next one is to close what [`keep_across_exec`] has left open.
pub(crate) fn close_on_exec(fd: c_int) {
    // A descriptor that the program has closed meanwhile needs nothing.
    let _ = process::control(fd, libc::F_SETFD, libc::FD_CLOEXEC as usize);
}

/// The program closes a stand-in of description `id`, which is still open: the file's locks are
/// dropped, and with the last of them in this process, what was lent is closed.
pub(crate) fn stand_in_closes(fd: c_int, id: u64) {
    let is_last = table::numbers_of(id).all(|other| other == fd);
    let lent = slot_of(id).id.load(Acquire) == id;
    let is_anything_locked = LOCKED.iter().any(|word| word.load(Relaxed) != 0);
    if !lent && !is_anything_locked {
        return;
    }
    if is_anything_locked {
        unlock(file_of(fd));
    }
    if lent && is_last {
        take(slot_of(id), id).into_iter().for_each(own::close_own);
    }
}

/// Drops this process's locks on a file that has a lent descriptor.
fn unlock(file: u64) {
    if !may_be_locked(file) {
        return;
    }
    let of_file = |slot: &&Slot| slot.id.load(Acquire) != 0 && slot.file.load(Acquire) == file;
    let fds = LENT.iter().filter(of_file).filter_map(|slot| descriptor_in(slot.word.load(Acquire)));
    for fd in fds.filter(|fd| *fd >= 0).take(1) {
        // SAFETY: numbers, for which zeros are valid (S20).
        let mut lock: flock64 = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_UNLCK as i16;
        let _ = process::control(fd, libc::F_SETLK, process::address(&lock));
    }
    close_kept(file);
}

/// The kernel's descriptor `fd` of the program is about to be closed, and its locks with it. The
/// close of an O_PATH descriptor drops no locks.
pub(crate) fn real_closes(fd: c_int) {
    if has_kept() && !serve::is_stand_in(fd) {
        close_kept(file_of(fd));
    }
}

/// Returns true if a descriptor was ever kept for its locks.
pub(crate) fn has_kept() -> bool {
    NR_KEPT_EVER.load(Relaxed) > 0
}

fn close_kept(file: u64) {
    for (of, word) in &KEPT {
        let now = word.load(Acquire);
        if now != 0
            && of.load(Acquire) == file
            && word.compare_exchange(now, 0, AcqRel, Relaxed).is_ok()
        {
            descriptor_in(now).into_iter().for_each(own::close_own);
        }
    }
}

/// The description's file is the kernel's: `real`, which has taken the stand-ins' places, is
/// closed, and what was lent as well; or kept for as long as there may be locks.
pub(crate) fn retire(id: u64, real: c_int) {
    let lent = take(slot_of(id), id).filter(|fd| own::has(*fd));
    [Some(real), lent].into_iter().flatten().for_each(dispose);
}

/// Takes what description `id` was lent out of its place.
fn take(slot: &Slot, id: u64) -> Option<c_int> {
    let fd = descriptor_in(slot.word.load(Acquire)).filter(|fd| id != 0 && *fd >= 0)?;
    slot.id.compare_exchange(id, 0, AcqRel, Relaxed).ok()?;
    Some(fd)
}
