//! Hidden descriptors: the library's sockets and direct descriptors. The program can neither see
//! nor close them, but may put its own descriptor in the place of one.
//!
//! Hidden descriptors are above the program's limit, if there is room (`room`). Otherwise, they
//! have high numbers, which programs do not expect to be in use. An exec closes them. A child
//! closes the inherited ones before its first request.
//!
//! **Data and invariants.** A list of atomics. Upper half: the process's number. Lower half: the
//! descriptor plus one. A descriptor is hidden as long as it is in the list. If the list is full,
//! the program can close the library's descriptor, which is then opened again.

use crate::{next, process, room};
use libc::c_int;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

static OWN: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];
/// Bit set of the entries that a forked child keeps.
static LEFT: [AtomicU64; OWN.len() / 64] = [const { AtomicU64::new(0) }; OWN.len() / 64];
/// End of the entries of `OWN` that were ever used.
static END: AtomicUsize = AtomicUsize::new(0);
/// Lowest number that a hidden descriptor has ever had.
static LOWEST: AtomicI32 = AtomicI32::new(c_int::MAX);

/// Returns this process's number, which is random. The first call makes the number, and closes the
/// hidden descriptors of the process before the fork.
#[inline]
pub(crate) fn number() -> u64 {
    match process::number_word().load(Ordering::Acquire) {
        0 => make_number(),
        known => known,
    }
}

#[cold]
fn make_number() -> u64 {
    let mut random = 0_u64;
    let arguments = [std::ptr::from_mut(&mut random) as usize, 8, 0, 0, 0, 0];
    // SAFETY: getrandom writes eight bytes to a live u64 (S20).
    let made = unsafe { next::system(libc::SYS_getrandom, arguments) };
    if made != Ok(8) {
        // SAFETY: getpid has no arguments (S20).
        random = u64::from(unsafe { libc::getpid() } as u32) << 32 | 1;
    }
    let number = random | 1;
    let word = process::number_word();
    match word.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            close_inherited(number);
            number
        }
        Err(other) => other,
    }
}

/// Hides a descriptor, and moves it to a high number if the limit on descriptors allows.
pub(crate) fn keep(fd: c_int) -> c_int {
    keep_here(move_up(fd))
}

/// Hides a descriptor and leaves its number, because a move closes the old number. A descriptor
/// gets only one entry: a second entry would stay after the close, and hide a later file of the
/// program.
pub(crate) fn keep_here(fd: c_int) -> c_int {
    let word = word_of(number(), fd);
    if slot_of(fd) != usize::MAX {
        return fd;
    }
    LOWEST.fetch_min(fd, Ordering::AcqRel);
    for (index, slot) in OWN.iter().enumerate() {
        if slot.load(Ordering::Relaxed) == 0
            && slot.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            LEFT[index / 64].fetch_and(!(1 << (index % 64)), Ordering::AcqRel);
            END.fetch_max(index + 1, Ordering::AcqRel);
            break;
        }
    }
    fd
}

/// Makes a forked child keep a hidden descriptor.
pub(crate) fn leave_to_child(fd: c_int) {
    let index = slot_of(fd);
    if let Some(bits) = LEFT.get(index / 64) {
        bits.fetch_or(1 << (index % 64), Ordering::AcqRel);
    }
}

/// Moves a descriptor above the program's limit, or else near the limit's end. Returns the new
/// number.
fn move_up(fd: c_int) -> c_int {
    let limit = process::descriptor_limit();
    let move_to = |base: c_int| process::control(fd, libc::F_DUPFD_CLOEXEC, base as usize);
    let above = room::base(limit).and_then(|base| match base <= fd {
        true => Some(Ok(fd as usize)),
        false => room::above(|| move_to(base)),
    });
    let moved = above.unwrap_or_else(|| move_to(low_base(limit.rlim_cur)));
    let Some(moved) = moved.ok().filter(|moved| *moved != fd as usize) else { return fd };
    close(fd);
    moved as c_int
}

/// Returns the lowest number for hidden descriptors below a soft limit: the last few numbers.
fn low_base(soft: u64) -> c_int {
    const NR_OURS: u64 = 64;
    soft.saturating_sub(NR_OURS).clamp(3, room::LOWEST) as c_int
}

/// Returns true if there is room for one more descriptor that the library could do without.
pub(crate) fn has_spare() -> bool {
    const FEW: u64 = 32;
    let limit = process::descriptor_limit();
    let nr_max = if room::base(limit).is_some() { FEW } else { FEW.min(limit.rlim_cur / 2) };
    (all().count() as u64) < nr_max
}

/// Returns the index of a hidden descriptor in the list, or `usize::MAX` if the list was full.
pub(crate) fn slot_of(fd: c_int) -> usize {
    let word = word_of(number(), fd);
    let mut used = OWN[..END.load(Ordering::Acquire)].iter();
    used.position(|slot| slot.load(Ordering::Relaxed) == word).unwrap_or(usize::MAX)
}

/// Returns true if this descriptor is still at an index of the list, or if the index is outside.
#[inline]
pub(crate) fn is_still(place: usize, process: u64, fd: c_int) -> bool {
    OWN.get(place).is_none_or(|slot| slot.load(Ordering::Relaxed) == word_of(process, fd))
}

/// Removes a descriptor from the list: the program has it from here on.
pub(crate) fn forget(fd: c_int) {
    let word = word_of(number(), fd);
    if let Some(slot) = OWN.get(slot_of(fd)) {
        let _ = slot.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Closes a hidden descriptor, unless the program has it by now.
pub(crate) fn close_own(fd: c_int) {
    if has(fd) {
        forget(fd);
        close(fd);
    }
}

/// Returns true if `fd` is hidden: the program must not know that it is open.
#[inline]
pub(crate) fn has(fd: c_int) -> bool {
    fd >= LOWEST.load(Ordering::Acquire) && process::is_on() && all().any(|own| own == fd)
}

/// Returns all hidden descriptors, in no order.
pub(crate) fn all() -> impl Iterator<Item = c_int> {
    let end = END.load(Ordering::Acquire);
    let words = OWN[..end].iter().map(|slot| slot.load(Ordering::Relaxed));
    words.filter(|word| *word != 0).map(descriptor_of)
}

/// Returns the word for a descriptor, or for -1, of a process. Never 0.
pub(crate) fn word_of(process: u64, fd: c_int) -> u64 {
    process << 32 | u64::from((fd + 1) as u32)
}

/// Returns the descriptor in a word.
pub(crate) fn descriptor_of(word: u64) -> c_int {
    word as u32 as c_int - 1
}

/// Closes the hidden descriptors of the process before the fork, except the ones left for this
/// process.
fn close_inherited(process: u64) {
    for (index, slot) in OWN[..END.load(Ordering::Acquire)].iter().enumerate() {
        let word = slot.load(Ordering::Acquire);
        let is_left = LEFT[index / 64].load(Ordering::Acquire) >> (index % 64) & 1 == 1;
        if word != 0 && is_left {
            slot.store(word_of(process, descriptor_of(word)), Ordering::Release);
        }
    }
    close_if(|word| word >> 32 != process & u64::from(u32::MAX));
}

/// Closes the hidden descriptors for which `is_kept` returns false.
pub(crate) fn close_all_but(is_kept: impl Fn(c_int) -> bool) {
    close_if(|word| !is_kept(descriptor_of(word)));
}

fn close_if(is_meant: impl Fn(u64) -> bool) {
    for slot in &OWN[..END.load(Ordering::Acquire)] {
        let word = slot.load(Ordering::Acquire);
        if word != 0
            && is_meant(word)
            && slot.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            close(descriptor_of(word));
        }
    }
}

/// Closes a descriptor that no thread uses any more.
pub(crate) fn close(fd: c_int) {
    // SAFETY: a descriptor of the library (S22).
    let _ = unsafe { next::system(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}
