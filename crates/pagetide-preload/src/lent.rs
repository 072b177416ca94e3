//! Direct descriptors: real descriptors of the server's files, which the program does not see.
//!
//! ```text
//!   lent    of the server's own open file: a thread reads uncached pages directly, past the
//!           kernel's page cache, and the descriptor keeps the process's record locks
//!   kept    hidden, but not closed yet because there may be record locks
//! ```
//!
//! **Problem.** A process loses all record locks on a file when it closes any descriptor of the
//! file (POSIX). No hidden descriptor may therefore be closed while there may be such locks. The
//! close of a stand-in must drop the locks, as the close of a real descriptor would.
//!
//! **Data and invariants.** A table of atomics with 4,096 slots. One of the descriptions that share
//! a slot has it, and the others go without a direct descriptor. Each entry carries the process's
//! number, so a child never uses an inherited entry. Files that were ever locked are bits of a
//! filter, with false positives but no false negatives. The kernel tells if a file has locks now.
//! No thread takes a lock between that question and a close: the thread waits for the close, or the
//! close finds that the thread is counted ([`Inside`]).
//!
//! **Ignored.** Kept descriptors stay open if the table is full. A debugger may stop a thread in
//! [`dispose`] for longer than [`NR_PAUSES`], while another thread takes a lock.
//!
//! Source: fcntl(2), "Advisory record locking".

use crate::pieces::Blocked;
use crate::table::{self, Entry};
use crate::{channel, next, own, process};
use libc::{c_int, flock64};
use pagetide_run::wire::{Op, Request, Status, lend};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

const NR_LENT: usize = 1 << 12;
const NR_KEPT: usize = NR_LENT;

/// The direct descriptor of a description.
struct Slot {
    /// Number of the description, or 0 if the slot is free.
    id: AtomicU64,
    /// Upper half: the process's number. Lower half: the descriptor plus one, or 0 if the server
    /// refused.
    word: AtomicU64,
    /// Key of the file, see [`file_of`].
    file: AtomicU64,
    /// 1 if reads bypass the kernel's page cache.
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

/// Descriptors that stay open until the program closes one of the same file: the file's key, and a
/// word as in [`Slot`]. A word of 0 marks a free entry.
static KEPT: [(AtomicU64, AtomicU64); NR_KEPT] =
    [const { (AtomicU64::new(0), AtomicU64::new(0)) }; NR_KEPT];
/// End of the entries of `KEPT` that were ever used.
static KEPT_END: AtomicUsize = AtomicUsize::new(0);
/// Disposals of this process's threads, see [`Inside`].
static DISPOSALS: AtomicU64 = AtomicU64::new(0);
/// Calls of this process's threads that take or drop record locks.
static LOCK_CALLS: AtomicU64 = AtomicU64::new(0);
/// Number of yields before the first pause in a wait for disposals.
const NR_YIELDS: u32 = 1 << 8;
/// Maximum number of pauses, of a millisecond each.
const NR_PAUSES: u32 = 60_000;
/// Bits of the filter, as a power of two: hundreds of files hardly share a bit.
const LOCKED_SHIFT: u32 = 20;
/// Filter of the files that this process has locked.
static LOCKED: [AtomicU64; 1 << (LOCKED_SHIFT - 6)] =
    [const { AtomicU64::new(0) }; 1 << (LOCKED_SHIFT - 6)];
static IS_ANY_LOCKED: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lent {
    pub(crate) fd: c_int,
    pub(crate) is_direct: bool,
}

fn slot_of(id: u64) -> &'static Slot {
    &LENT[id as usize % NR_LENT]
}

/// Returns the descriptor in a word, or `None` if the word is another process's.
fn descriptor_in(word: u64) -> Option<c_int> {
    let is_ours = word >> 32 == own::number() & u64::from(u32::MAX);
    is_ours.then_some(own::descriptor_of(word))
}

/// Returns a key of the open file, never 0. Collisions are rare. The key is 1 if fstat fails.
fn file_of(fd: c_int) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let stat = process::stat(fd);
    stat.map_or(1, |stat| (stat.st_dev.wrapping_mul(ODD) ^ stat.st_ino).wrapping_mul(ODD) | 1)
}

/// Returns the direct descriptor of description `id`, `Some(None)` if the server has refused, or
/// `None` if this process has not asked.
#[inline]
pub(crate) fn known(id: u64) -> Option<Option<Lent>> {
    let slot = slot_of(id);
    if slot.id.load(Acquire) != id {
        return None;
    }
    let fd = descriptor_in(slot.word.load(Acquire))?;
    let is_direct = slot.direct.load(Relaxed) == 1;
    let lent = Lent { fd, is_direct };
    // Unchanged, for example not reused by another description.
    if slot.id.load(Acquire) != id {
        return None;
    }
    Some((fd >= 0).then_some(lent))
}

/// Returns the direct descriptor of description `id`. The first call asks the server.
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
    let shared = lent_of_same_file(id);
    let flags = if shared.is_some() { lend::WITHOUT } else { 0 };
    let request = Request { flags, ..Request::new(Op::Lend, id) };
    let answer = channel::ask(&request, channel::Parcel::default()).ok()?;
    if answer.reply.status == Status::Kernel {
        // The caller asks for the real descriptor again, to replace the stand-ins.
        answer.files.into_iter().filter(|real| *real >= 0).for_each(dispose);
        return None;
    }
    let [real, ..] = answer.files;
    let is_granted = answer.reply.result >= 0 && answer.reply.result & lend::LENT != 0;
    let is_lent = is_granted && (shared.is_some() || real >= 0);
    let fd = if is_lent { shared.unwrap_or_else(|| keep(real)) } else { -1 };
    let is_direct = is_lent && answer.reply.result & lend::DIRECT != 0;
    // Another thread may do the same. The slot keeps the last descriptor. Earlier ones stay open
    // until the process ends, because there may be locks.
    slot.id.store(0, Release);
    slot.word.store(own::word_of(own::number(), fd), Release);
    slot.file.store(if is_lent { file_of(fd) } else { 0 }, Release);
    slot.direct.store(u64::from(is_direct), Release);
    slot.id.store(id, Release);
    is_lent.then_some(Lent { fd, is_direct })
}

/// Returns another description's direct descriptor of the same file. The server has only one for
/// each file.
fn lent_of_same_file(id: u64) -> Option<c_int> {
    let file = file_of(table::numbers_of(id).next()?);
    let same = LENT.iter().filter(|slot| slot.id.load(Acquire) != 0);
    let mut same = same.filter(|slot| slot.file.load(Acquire) == file);
    same.find_map(|slot| descriptor_in(slot.word.load(Acquire)).filter(|fd| own::has(*fd)))
}

/// Hides a descriptor. Moves the descriptor to a high number unless the move would drop locks.
fn keep(fd: c_int) -> c_int {
    let disposal = Disposal::begin();
    if disposal.finds_locks(fd) { own::keep_here(fd) } else { own::keep(fd) }
}

/// Releases a hidden descriptor, before the program reuses the number.
pub(crate) fn forget(fd: c_int) {
    own::forget(fd);
    for slot in &LENT {
        let id = slot.id.load(Acquire);
        if id != 0 && descriptor_in(slot.word.load(Acquire)) == Some(fd) {
            let _ = slot.id.compare_exchange(id, 0, AcqRel, Relaxed);
        }
    }
    for (_, word) in kept() {
        let _ = word.compare_exchange(own::word_of(own::number(), fd), 0, AcqRel, Relaxed);
    }
}

fn kept() -> &'static [(AtomicU64, AtomicU64)] {
    &KEPT[..KEPT_END.load(Acquire)]
}

/// Records that the program is about to lock a part of the file, until the guard is dropped. Waits
/// for threads that have found no lock and are about to close a descriptor of the file. Afterwards,
/// every thread finds a possible lock.
pub(crate) fn note_lock(fd: c_int) -> Inside {
    // In a new child, this closes inherited descriptors before there is a lock.
    let inside = Inside::enter(&LOCK_CALLS);
    let (word, bit) = place_of(file_of(fd));
    IS_ANY_LOCKED.store(true, SeqCst);
    word.fetch_or(bit, SeqCst);
    wait_for_disposals(inside.process);
    inside
}

/// Waits until no thread has a [`Disposal`], at most about a minute. A thread with one blocks all
/// signals, so the caller has none.
fn wait_for_disposals(process: u64) {
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    let is_one_under_way = |_: &u32| Inside::count(&DISPOSALS, process) > 0;
    for nth in (0..NR_YIELDS + NR_PAUSES).take_while(is_one_under_way) {
        let (call, arguments) = match nth < NR_YIELDS {
            true => (libc::SYS_sched_yield, [0; 6]),
            false => (libc::SYS_nanosleep, [process::address(&pause), 0, 0, 0, 0, 0]),
        };
        // SAFETY: sched_yield has no arguments, and the pause lives through the call (S20).
        let _ = unsafe { next::system(call, arguments) };
    }
}

fn may_be_locked(file: u64) -> bool {
    let (word, bit) = place_of(file);
    IS_ANY_LOCKED.load(SeqCst) && word.load(SeqCst) & bit != 0
}

/// Returns the file's word and bit in the filter.
fn place_of(file: u64) -> (&'static AtomicU64, u64) {
    let nr = file >> (64 - LOCKED_SHIFT);
    (&LOCKED[nr as usize / 64], 1 << (nr % 64))
}

/// A thread in a section of code, counted in a word. Upper half: the process's number, so that a
/// child does not inherit the count. Lower half: the count.
pub(crate) struct Inside {
    word: &'static AtomicU64,
    process: u64,
}

impl Inside {
    fn enter(word: &'static AtomicU64) -> Inside {
        let process = own::number() << 32;
        let more = |word: u64| if word & !0xffff_ffff == process { word + 1 } else { process | 1 };
        let _ = word.fetch_update(SeqCst, SeqCst, |word| Some(more(word)));
        Inside { word, process }
    }

    fn count(word: &AtomicU64, process: u64) -> u64 {
        let word = word.load(SeqCst);
        if word & !0xffff_ffff == process { word & 0xffff_ffff } else { 0 }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let is_ours = |word: u64| word & !0xffff_ffff == self.process && word & 0xffff_ffff > 0;
        let less = |word: u64| is_ours(word).then(|| word - 1);
        let _ = self.word.fetch_update(SeqCst, SeqCst, less);
    }
}

/// A check for locks and the following close.
struct Disposal {
    inside: Inside,
    /// Keeps handlers from waiting for this thread's disposal.
    _blocked: Blocked,
}

impl Disposal {
    fn begin() -> Disposal {
        let blocked = Blocked::begin();
        Disposal { inside: Inside::enter(&DISPOSALS), _blocked: blocked }
    }

    /// Returns true if the process may have record locks on the file of `fd` before the disposal
    /// ends. A thread that takes a lock is counted here, or waits for the disposal.
    fn finds_locks(&self, fd: c_int) -> bool {
        let is_locking = Inside::count(&LOCK_CALLS, self.inside.process) > 0;
        is_locking && may_be_locked(file_of(fd)) || has_locks(fd)
    }
}

/// Returns true if a process has a record lock on the file. An OFD lock has another owner than
/// every process, so this query also reports locks of this process, even from before an exec.
fn has_locks(real: c_int) -> bool {
    // SAFETY: numbers, for which zeros are valid (S20).
    let mut lock: flock64 = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as i16;
    let asked = process::control(real, libc::F_OFD_GETLK, process::address(&raw mut lock));
    asked.is_ok() && lock.l_type != libc::F_UNLCK as i16
}

/// Closes a real descriptor that the program does not know, while the program may have the file
/// open. The close would drop this process's record locks on the file. If there may be locks, the
/// descriptor is kept until the program closes a descriptor of the same file: the locks end then
/// anyway.
pub(crate) fn dispose(real: c_int) {
    let disposal = Disposal::begin();
    if disposal.finds_locks(real) {
        keep_until_close(own::keep_here(real), file_of(real));
    } else if own::has(real) {
        own::close_own(real);
    } else {
        own::close(real);
    }
}

/// Replaces `fd`, a descriptor of a new file, by the open file of `other`. Returns false, and
/// leaves `fd`, if there may be locks: another thread may have opened the file by name.
pub(crate) fn replace_new(fd: c_int, other: c_int, flags: c_int) -> bool {
    let disposal = Disposal::begin();
    // SAFETY: all arguments are numbers (S20).
    !disposal.finds_locks(fd) && unsafe { next::dup3(other, fd, flags) } >= 0
}

/// Records a hidden descriptor, for the program's next close of a descriptor of the same file.
fn keep_until_close(fd: c_int, file: u64) {
    // A used slot still names its last file. Closes pass over the slot until it has the descriptor.
    let claim = own::word_of(own::number(), -1);
    let free = |(_, (_, slot)): &(usize, &(AtomicU64, AtomicU64))| {
        slot.compare_exchange(0, claim, AcqRel, Relaxed).is_ok()
    };
    if let Some((index, (of, slot))) = KEPT.iter().enumerate().find(free) {
        of.store(file, Release);
        KEPT_END.fetch_max(index + 1, AcqRel);
        slot.store(own::word_of(own::number(), fd), Release);
    }
}

/// Returns true for a descriptor recorded by [`keep_until_close`].
pub(crate) fn is_kept(fd: c_int) -> bool {
    kept().iter().any(|(_, word)| word.load(Acquire) == own::word_of(own::number(), fd))
}

/// Returns the maximum number of descriptors that an exec leaves open because of locks.
pub(crate) fn nr_kept_max() -> usize {
    let nr_lent = || LENT.iter().filter(|slot| slot.id.load(Acquire) != 0).count();
    if IS_ANY_LOCKED.load(Relaxed) { nr_lent() + kept().len() } else { 0 }
}

/// Makes an exec leave each descriptor open that may keep record locks, which the kernel keeps
/// across exec. Calls `note` with each descriptor.
pub(crate) fn keep_across_exec(mut note: impl FnMut(c_int)) {
    let lent = LENT.iter().filter(|slot| slot.id.load(Acquire) != 0);
    let lent = lent.map(|slot| (slot.file.load(Acquire), slot.word.load(Acquire)));
    let kept = kept().iter().map(|(file, word)| (file.load(Acquire), word.load(Acquire)));
    let may_stay =
        |(file, word): &(u64, u64)| *word != 0 && may_be_locked(*file) && !is_closed_by_exec(*file);
    for (_, word) in lent.chain(kept).filter(may_stay) {
        let fd = descriptor_in(word).filter(|fd| *fd >= 0 && own::has(*fd));
        // Without a record lock, the descriptor would keep only other locks of the description.
        if let Some(fd) = fd.filter(|fd| has_locks(*fd))
            && process::control(fd, libc::F_SETFD, 0).is_ok()
        {
            note(fd);
        }
    }
}

/// Returns true if an exec closes a descriptor of the file that the program has. The close drops
/// this process's locks.
fn is_closed_by_exec(file: u64) -> bool {
    let is_closed = |fd| process::control(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags & 1 != 0);
    // The close of an O_PATH descriptor of the program drops no locks.
    let may_lock = |fd| matches!(table::entry(fd), Entry::Managed(_)) || !process::is_stand_in(fd);
    let counts = |fd| is_closed(fd) && !own::has(fd) && file_of(fd) == file && may_lock(fd);
    table::numbers().any(counts)
}

/// Takes over a descriptor that was kept across an exec because of locks.
pub(crate) fn take_over(fd: c_int) {
    let cloexec = libc::FD_CLOEXEC as usize;
    if process::control(fd, libc::F_SETFD, cloexec).is_ok() {
        drop(note_lock(fd));
        keep_until_close(own::keep_here(fd), file_of(fd));
    }
}

/// Makes execs close the descriptor again, after [`keep_across_exec`] and a failed exec.
pub(crate) fn close_on_exec(fd: c_int) {
    // The program may have closed the descriptor meanwhile.
    let _ = process::control(fd, libc::F_SETFD, libc::FD_CLOEXEC as usize);
}

/// Drops the file's locks before the program closes `fd`, a stand-in of description `id`. Closes
/// the direct descriptor with the description's last stand-in in this process.
pub(crate) fn stand_in_closes(fd: c_int, id: u64) {
    let is_last = table::numbers_of(id).all(|other| other == fd);
    let lent = slot_of(id).id.load(Acquire) == id;
    let is_anything_locked = IS_ANY_LOCKED.load(Relaxed);
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

/// Drops this process's locks on a file. A lock needs a real descriptor in the process: a direct, a
/// kept, or the program's.
fn unlock(file: u64) {
    if !may_be_locked(file) {
        return;
    }
    let of_file = |slot: &&Slot| slot.id.load(Acquire) != 0 && slot.file.load(Acquire) == file;
    let mut lent = LENT.iter().filter(of_file).filter_map(|slot| {
        let fd = descriptor_in(slot.word.load(Acquire))?;
        (fd >= 0).then_some(fd)
    });
    if let Some(fd) = lent.next().or_else(|| real_of_program(file)) {
        // SAFETY: numbers, for which zeros are valid (S20).
        let mut lock: flock64 = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_UNLCK as i16;
        let _ = process::control(fd, libc::F_SETLK, process::address(&lock));
    }
    close_kept(file);
}

/// Returns a real descriptor of the file that the program has.
fn real_of_program(file: u64) -> Option<c_int> {
    let is_real = |fd: &c_int| {
        let may_be = !matches!(table::entry(*fd), Entry::Managed(_)) && !own::has(*fd);
        may_be && file_of(*fd) == file && !process::is_stand_in(*fd)
    };
    table::numbers().find(is_real)
}

/// Returns true if this process may have record locks on the file of `fd`, taken by the program's
/// descriptor.
pub(crate) fn may_be_locked_by_program(fd: c_int) -> bool {
    IS_ANY_LOCKED.load(Relaxed) && {
        let file = file_of(fd);
        may_be_locked(file) && real_of_program(file).is_some()
    }
}

/// Records the file of a descriptor from before an exec as locked, if there are record locks, which
/// the kernel keeps across exec. Called before the program runs.
pub(crate) fn note_lock_from_before(fd: c_int) {
    if has_locks(fd) {
        let (word, bit) = place_of(file_of(fd));
        word.fetch_or(bit, SeqCst);
        IS_ANY_LOCKED.store(true, SeqCst);
        table::note_number(fd);
    }
}

/// Closes the kept descriptors of a file before the program closes `fd`, a kernel descriptor. The
/// close of `fd` drops the locks, unless `fd` is an O_PATH descriptor.
pub(crate) fn real_closes(fd: c_int) {
    if !kept().is_empty() && !process::is_stand_in(fd) {
        close_kept(file_of(fd));
    }
}

fn close_kept(file: u64) {
    for (of, word) in kept() {
        let now = word.load(Acquire);
        let is_recorded = now != 0 && descriptor_in(now) != Some(-1);
        if is_recorded
            && of.load(Acquire) == file
            && word.compare_exchange(now, 0, AcqRel, Relaxed).is_ok()
        {
            descriptor_in(now).into_iter().for_each(own::close_own);
        }
    }
}

/// Disposes of a description's direct descriptor and of `real`, after `real` has replaced the
/// stand-ins. The kernel has the file from here on.
pub(crate) fn retire(id: u64, real: c_int) {
    let lent = take(slot_of(id), id).filter(|fd| own::has(*fd));
    [Some(real), lent].into_iter().flatten().for_each(dispose);
}

/// Empties the slot of description `id`. Returns the direct descriptor, unless another description
/// uses the same one.
fn take(slot: &Slot, id: u64) -> Option<c_int> {
    let fd = descriptor_in(slot.word.load(Acquire)).filter(|fd| id != 0 && *fd >= 0)?;
    slot.id.compare_exchange(id, 0, AcqRel, Relaxed).ok()?;
    let is_shared = LENT.iter().any(|other| {
        other.id.load(Acquire) != 0 && descriptor_in(other.word.load(Acquire)) == Some(fd)
    });
    (!is_shared).then_some(fd)
}
