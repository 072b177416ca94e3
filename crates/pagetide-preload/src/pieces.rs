//! The table of mapped ranges: addresses that this process has mapped from the server's memory
//! files.
//!
//! **Data and invariants.** A table of atomics, changed by one thread at a time. This thread has
//! all signals blocked and touches no memory that could fault. A counter tells readers that the
//! table was changed while they read. A fork waits for the thread. An entry with length 0 is free.
//! While the server is asked to allow a store at an address, the address's entry does not change.
//!
//! A thread that has marked an entry (`is_moving`) may map something at its addresses, and no other
//! thread changes the entry. A system call that frees or replaces addresses of ranges is made while
//! the table is held and these ranges are at rest: not marked, and without a store in progress
//! ([`Changing::at_rest`]). So an entry never names addresses that the program has mapped
//! otherwise.

use crate::held_signals::set_mask;
use crate::{next, own};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

/// Maximum number of mapped ranges. Further mappings are the kernel's.
const NR_PIECES: usize = 512;
const WORDS: usize = 9;

/// A mapped range: a part of a mapping, as the program sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// Offset in the file, in bytes.
    pub(crate) offset: u64,
    /// Description that the program passed to mmap.
    pub(crate) id: u64,
    /// Server's number of the mapping. `file` is the number of its memory file.
    pub(crate) map: u64,
    pub(crate) file: u64,
    /// Number of the process that has registered the range, or 0 after a move. In a child, this is
    /// still the parent's number.
    pub(crate) process: u64,
    /// Protection that the program has set. `is_shared` is set for a shared mapping.
    pub(crate) protection: i32,
    pub(crate) is_shared: bool,
    /// Set if the memory file is mapped shared for stores, which the program's protection may
    /// forbid now.
    pub(crate) is_written: bool,
    /// Set if the range is private and was ever writable. The kernel has copied its stored pages.
    pub(crate) has_own_pages: bool,
    /// Set while a thread maps the range. Its pages cannot be touched meanwhile.
    pub(crate) is_moving: bool,
    /// Set if the range is locked in memory. A child does not inherit the lock.
    pub(crate) is_locked: bool,
    /// Set if the program has announced random reads.
    pub(crate) is_random: bool,
    /// Set if the addresses were freed, and the server is still to be told.
    pub(crate) is_gone: bool,
}

impl Piece {
    /// Returns a part of a mapping that this process is about to make.
    pub(crate) fn new(start: usize, len: usize, offset: u64, id: u64) -> Piece {
        let words = [start as u64, len as u64, offset, id, 0, 0, own::number(), 0, 0];
        Piece::of(words)
    }

    pub(crate) fn end(&self) -> usize {
        self.start + self.len
    }

    pub(crate) fn with_lock(&self, is_locked: bool) -> Piece {
        Piece { is_locked, ..*self }
    }

    fn overlaps(&self, start: usize, end: usize) -> bool {
        self.is_there() && self.start < end && start < self.end()
    }

    fn is_there(&self) -> bool {
        self.len > 0 && !self.is_gone
    }

    /// Returns the part between two addresses of the range.
    fn part(&self, start: usize, end: usize) -> Piece {
        let offset = self.offset + (start - self.start) as u64;
        Piece { start, len: end - start, offset, ..*self }
    }

    fn words(&self) -> [u64; WORDS] {
        let flags = u64::from(self.is_shared)
            | u64::from(self.is_moving) << 1
            | u64::from(self.is_written) << 2
            | u64::from(self.has_own_pages) << 3
            | u64::from(self.is_locked) << 4
            | u64::from(self.is_random) << 5
            | u64::from(self.is_gone) << 6;
        let (start, len, protection) = (self.start as u64, self.len as u64, self.protection as u64);
        [start, len, self.offset, self.id, self.map, self.file, self.process, protection, flags]
    }

    fn of(words: [u64; WORDS]) -> Piece {
        let [start, len, offset, id, map, file, process, protection, flags] = words;
        Piece {
            start: start as usize,
            len: len as usize,
            offset,
            id,
            map,
            file,
            process,
            protection: protection as i32,
            is_shared: flags & 1 != 0,
            is_moving: flags & 2 != 0,
            is_written: flags & 4 != 0,
            has_own_pages: flags & 8 != 0,
            is_locked: flags & 16 != 0,
            is_random: flags & 32 != 0,
            is_gone: flags & 64 != 0,
        }
    }
}

static PIECES: [[AtomicU64; WORDS]; NR_PIECES] =
    [const { [const { AtomicU64::new(0) }; WORDS] }; NR_PIECES];
/// Number of stores in progress in each entry's range, for which the server is asked.
static STORES: [AtomicU32; NR_PIECES] = [const { AtomicU32::new(0) }; NR_PIECES];
/// End of the entries that were ever used.
static END: AtomicUsize = AtomicUsize::new(0);
/// Change counter, odd while the table is being changed.
static CHANGES: AtomicU32 = AtomicU32::new(0);
/// Number of ranges that have been removed.
static NR_ENDED: AtomicU64 = AtomicU64::new(0);
/// Signal mask of the thread that forks, from before [`hold`].
static HELD_SIGNALS: AtomicU64 = AtomicU64::new(0);
static IS_CHANGING: AtomicBool = AtomicBool::new(false);

fn load(index: usize) -> Piece {
    Piece::of(std::array::from_fn(|word| PIECES[index][word].load(SeqCst)))
}

fn store(index: usize, piece: &Piece) {
    PIECES[index].iter().zip(piece.words()).for_each(|(place, word)| place.store(word, SeqCst));
    END.fetch_max(index + 1, SeqCst);
}

/// Returns true if there was ever a mapped range.
#[inline]
pub(crate) fn is_any() -> bool {
    END.load(std::sync::atomic::Ordering::Relaxed) > 0
}

/// Reads the table, again and again until it has not changed meanwhile.
fn look<T>(look: impl Fn() -> T) -> T {
    loop {
        let before = CHANGES.load(SeqCst);
        if before.is_multiple_of(2) {
            let seen = look();
            if CHANGES.load(SeqCst) == before {
                return seen;
            }
        }
        pause();
    }
}

pub(crate) fn pause() {
    // SAFETY: no arguments (S20).
    let _ = unsafe { next::system(libc::SYS_sched_yield, [0; 6]) };
}

/// Returns the first mapped range, by address, that overlaps a range of addresses.
pub(crate) fn find(start: usize, end: usize) -> Option<Piece> {
    if !is_any() {
        return None;
    }
    look(|| {
        let all = (0..END.load(SeqCst)).map(load);
        all.filter(|piece| piece.overlaps(start, end)).min_by_key(|piece| piece.start)
    })
}

/// Returns the number of ranges removed so far. A fault in a removed range finds none.
pub(crate) fn nr_ended() -> u64 {
    NR_ENDED.load(SeqCst)
}

/// A store, or another operation by address, during which the entry of the range does not change.
pub(crate) struct Storing(usize);

impl Storing {
    /// Begins a store, if the entry is still the same.
    pub(crate) fn begin(piece: &Piece) -> Option<Storing> {
        let index = look(|| (0..END.load(SeqCst)).find(|index| load(*index) == *piece))?;
        STORES[index].fetch_add(1, SeqCst);
        let storing = Storing(index);
        // A thread that changes the table waits for the store, or has begun before and is seen
        // here.
        let changes = CHANGES.load(SeqCst);
        let is_same = changes.is_multiple_of(2) && load(index) == *piece;
        (is_same && CHANGES.load(SeqCst) == changes).then_some(storing)
    }
}

impl Drop for Storing {
    fn drop(&mut self) {
        STORES[self.0].fetch_sub(1, SeqCst);
    }
}

/// Returns true if a range of a mapping is left.
pub(crate) fn has(map: u64) -> bool {
    look(|| (0..END.load(SeqCst)).map(load).any(|piece| piece.is_there() && piece.map == map))
}

/// Returns true if a range of a description is left.
pub(crate) fn has_description(id: u64) -> bool {
    look(|| (0..END.load(SeqCst)).map(load).any(|piece| piece.is_there() && piece.id == id))
}

/// Iterates over all ranges: returns the first range from an index on, and the index after it.
pub(crate) fn from(index: usize) -> Option<(Piece, usize)> {
    look(|| {
        let mut all = (index..END.load(SeqCst)).map(|index| (load(index), index + 1));
        all.find(|(piece, _)| piece.is_there())
    })
}

/// Blocks this thread's signals until it is dropped.
pub(crate) struct Blocked(u64);

impl Blocked {
    pub(crate) fn begin() -> Blocked {
        Blocked(set_mask(libc::SIG_SETMASK, u64::MAX))
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        set_mask(libc::SIG_SETMASK, self.0);
    }
}

/// A range that this thread has marked, to map something at its addresses. Signals are blocked,
/// because a handler that frees the addresses would wait for ever.
pub(crate) struct Moving {
    marked: Piece,
    _blocked: Blocked,
}

impl Moving {
    /// Marks a range and changes it to `wanted`, if it is still the same and not marked.
    pub(crate) fn begin(piece: &Piece, wanted: &Piece) -> Option<Moving> {
        let _blocked = Blocked::begin();
        let marked = Piece { is_moving: true, ..*wanted };
        let is_mine = !piece.is_moving && Changing::begin().replace(piece, &marked);
        is_mine.then_some(Moving { marked, _blocked })
    }

    /// Returns the marked entry.
    pub(crate) fn piece(&self) -> &Piece {
        &self.marked
    }

    /// Replaces the marked entry by `now`.
    pub(crate) fn end(self, now: &Piece) {
        Changing::begin().replace(&self.marked, now);
    }

    /// Removes the marked entry.
    pub(crate) fn remove(self) {
        Changing::begin().remove(&self.marked);
    }
}

/// Exclusive access to the table, with all signals blocked.
pub(crate) struct Changing {
    signals: u64,
}

impl Changing {
    /// Locks the table once the mapped ranges within `ranges` are at rest, and cuts them at the
    /// ends of `ranges`. Returns `None` if there is no room for the cuts.
    pub(crate) fn at_rest(ranges: &[(usize, usize)]) -> Option<Changing> {
        let is_busy = |index: usize| {
            let piece = load(index);
            let is_meant = ranges.iter().any(|range| piece.overlaps(range.0, range.1));
            is_meant && (piece.is_moving || STORES[index].load(SeqCst) > 0)
        };
        loop {
            let mut changing = Changing::begin();
            if !(0..END.load(SeqCst)).any(is_busy) {
                let is_cut = ranges.iter().all(|range| changing.cut(range.0, range.1));
                return is_cut.then_some(changing);
            }
            drop(changing);
            pause();
        }
    }

    pub(crate) fn begin() -> Changing {
        let signals = set_mask(libc::SIG_SETMASK, u64::MAX);
        while IS_CHANGING.swap(true, SeqCst) {
            pause();
        }
        CHANGES.fetch_add(1, SeqCst);
        Changing { signals }
    }

    /// Returns the first mapped range, by address, that overlaps a range of addresses.
    pub(crate) fn find(&self, start: usize, end: usize) -> Option<Piece> {
        let all = (0..END.load(SeqCst)).map(load);
        all.filter(|piece| piece.overlaps(start, end)).min_by_key(|piece| piece.start)
    }

    /// Returns true if `is` returns true for a mapped range that overlaps a range of addresses.
    pub(crate) fn any_in(&self, start: usize, end: usize, is: impl Fn(&Piece) -> bool) -> bool {
        let mut all = (0..END.load(SeqCst)).map(load);
        all.any(|piece| piece.overlaps(start, end) && is(&piece))
    }

    pub(crate) fn has_room(&self) -> bool {
        (0..NR_PIECES).any(|index| load(index).len == 0)
    }

    /// Marks the ranges within freed or replaced addresses as gone. The caller then tells the
    /// server: see [`Changing::take_gone`].
    pub(crate) fn leave_in(&mut self, start: usize, end: usize) {
        self.replace_in(start, end, |piece| Piece { is_gone: true, ..piece });
    }

    /// Removes an entry of a gone range, and returns the range.
    pub(crate) fn take_gone(&mut self, start: usize, end: usize) -> Option<Piece> {
        let is_meant = |one: &Piece| one.len > 0 && start <= one.start && one.end() <= end;
        let gone = (0..END.load(SeqCst)).map(load).find(|one| one.is_gone && is_meant(one))?;
        self.remove(&gone).then_some(gone)
    }

    /// Adds a range. Returns false if there is no room.
    pub(crate) fn add(&mut self, piece: &Piece) -> bool {
        let free = (0..NR_PIECES).find(|index| load(*index).len == 0);
        free.inspect(|index| store(*index, piece)).is_some()
    }

    /// Replaces an entry, if it is still the same. Waits for stores in progress.
    pub(crate) fn replace(&mut self, before: &Piece, now: &Piece) -> bool {
        let place = (0..END.load(SeqCst)).find(|index| load(*index) == *before);
        place.inspect(|index| {
            while STORES[*index].load(SeqCst) > 0 {
                pause();
            }
            store(*index, now);
            NR_ENDED.fetch_add(u64::from(before.is_there() && !now.is_there()), SeqCst);
        });
        place.is_some()
    }

    /// Replaces all entries that overlap a range of addresses.
    pub(crate) fn replace_in(&mut self, start: usize, end: usize, now: impl Fn(Piece) -> Piece) {
        for index in 0..END.load(SeqCst) {
            let before = load(index);
            if before.overlaps(start, end) {
                self.replace(&before, &now(before));
            }
        }
    }

    /// Removes an entry, if it is still the same.
    pub(crate) fn remove(&mut self, piece: &Piece) -> bool {
        self.replace(piece, &Piece { len: 0, ..*piece })
    }

    /// Joins adjacent ranges with the same attributes, within a range of addresses and at its ends.
    pub(crate) fn join(&mut self, start: usize, end: usize) {
        let mut at = start;
        while let Some(next) = self.find(at, at + 1).filter(|_| at <= end) {
            let before = self.find(at.wrapping_sub(1), at).filter(|before| before.end() == at);
            let whole = before.map(|before| Piece { len: before.len + next.len, ..before });
            let is_alike = |whole: &Piece| !next.is_moving && whole.part(at, whole.end()) == next;
            if let Some(whole) = whole.filter(is_alike) {
                self.remove(&next);
                self.replace(&whole.part(whole.start, at), &whole);
            }
            at = next.end();
        }
    }

    /// Cuts ranges in two at `start` and `end`. Returns false if there is no room.
    fn cut(&mut self, start: usize, end: usize) -> bool {
        [start, end].into_iter().all(|at| {
            let crossing = |piece: &Piece| piece.start != at;
            let Some(whole) = self.find(at, at + 1).filter(crossing) else { return true };
            self.add(&whole.part(at, whole.end()))
                && self.replace(&whole, &whole.part(whole.start, at))
        })
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        CHANGES.fetch_add(1, SeqCst);
        IS_CHANGING.store(false, SeqCst);
        set_mask(libc::SIG_SETMASK, self.signals);
    }
}

/// Resets the state of other threads, which a child does not have: stores in progress and marks.
/// Removes gone ranges, and memory locks, which a child does not inherit.
pub(crate) fn forget_threads() {
    STORES.iter().for_each(|nr| nr.store(0, SeqCst));
    for index in 0..END.load(SeqCst) {
        let piece = load(index);
        let len = if piece.is_gone { 0 } else { piece.len };
        store(index, &Piece { len, is_gone: false, is_moving: false, is_locked: false, ..piece });
    }
}

/// Locks the table over a fork, once no thread maps a range. (A handler that forks cannot have
/// interrupted such a thread, which has all signals blocked.)
pub(crate) fn hold() {
    let Some(changing) = Changing::at_rest(&[(0, usize::MAX & !4095)]) else { return };
    HELD_SIGNALS.store(changing.signals, SeqCst);
    std::mem::forget(changing);
}

/// Ends [`hold`], in parent and child.
pub(crate) fn unhold() {
    drop(Changing { signals: HELD_SIGNALS.load(SeqCst) });
}

/// Iterates as [`from`], for the thread that holds the table.
pub(crate) fn held_from(index: usize) -> Option<(Piece, usize)> {
    let mut all = (index..END.load(SeqCst)).map(|index| (load(index), index + 1));
    all.find(|(piece, _)| piece.is_there())
}

/// Removes an entry, for the thread that holds the table.
pub(crate) fn held_remove(piece: &Piece) {
    let place = (0..END.load(SeqCst)).find(|index| load(*index) == *piece);
    place.into_iter().for_each(|index| store(index, &Piece { len: 0, ..*piece }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_range_are_met_in_the_order_of_their_addresses() {
        let words = |start| [start, 0x1000, 0, 1, 1, 1, 1, 1, 0];
        let [high, low] = [0x3000, 0x1000].map(|start| Piece::of(words(start)));
        let mut changing = Changing::begin();
        assert!(changing.add(&high) && changing.add(&low));
        drop(changing);
        let found = [find(0, 0x9000), find(low.end(), 0x9000), find(high.end(), 0x9000)];
        assert_eq!(found, [Some(low), Some(high), None]);
    }
}
