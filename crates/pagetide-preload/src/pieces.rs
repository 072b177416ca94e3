//! Address ranges of this process that are mapped from the server's memory files.
//!
//! **Data and invariants.** A table of atomics, changed by one thread at a time, which has all
//! signals blocked meanwhile and touches nothing that could fault; a count tells readers that it
//! was changed as they read. A fork waits for that thread. An entry with length 0 is free. While
//! the server is asked to allow a store, which it does by address, the entry stays as it is.

use crate::next;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

/// Parts of mappings that there can be; what goes beyond is the kernel's.
const NR_PIECES: usize = 512;
const WORDS: usize = 9;

/// A part of a mapping, as the program sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// In the file.
    pub(crate) offset: u64,
    /// The description it was mapped by.
    pub(crate) id: u64,
    /// The server's number for the mapping, and for its memory file.
    pub(crate) map: u64,
    pub(crate) file: u64,
    /// The process that has it registered: a child has not, and none where it was moved.
    pub(crate) process: u64,
    /// What the program may do to it, and whether it asked for a shared one.
    pub(crate) protection: i32,
    pub(crate) is_shared: bool,
    /// The memory file is mapped to be written, if the program may do that now.
    pub(crate) is_written: bool,
    /// It is private, and could be stored to: the kernel has copied those of its pages that were.
    pub(crate) has_own_pages: bool,
    /// It is being put in place: its pages cannot be touched for a moment.
    pub(crate) is_moving: bool,
    /// It is to stay in memory; a child has it without that.
    pub(crate) is_locked: bool,
    /// The program has said that it reads by chance.
    pub(crate) is_random: bool,
}

impl Piece {
    pub(crate) fn end(&self) -> usize {
        self.start + self.len
    }

    pub(crate) fn with_lock(&self, is_locked: bool) -> Piece {
        Piece { is_locked, ..*self }
    }

    fn overlaps(&self, start: usize, end: usize) -> bool {
        self.len > 0 && self.start < end && start < self.end()
    }

    /// The part of it between two addresses of it.
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
            | u64::from(self.is_random) << 5;
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
        }
    }
}

static PIECES: [[AtomicU64; WORDS]; NR_PIECES] =
    [const { [const { AtomicU64::new(0) }; WORDS] }; NR_PIECES];
/// Stores that the server is being asked to allow, in the piece of each entry.
static STORES: [AtomicU32; NR_PIECES] = [const { AtomicU32::new(0) }; NR_PIECES];
/// No entry from here on was ever used.
static END: AtomicUsize = AtomicUsize::new(0);
/// Odd while the table is being changed.
static CHANGES: AtomicU32 = AtomicU32::new(0);
/// What the thread that forks had blocked.
static HELD_SIGNALS: AtomicU64 = AtomicU64::new(0);
static IS_CHANGING: AtomicBool = AtomicBool::new(false);

fn load(index: usize) -> Piece {
    Piece::of(std::array::from_fn(|word| PIECES[index][word].load(SeqCst)))
}

fn store(index: usize, piece: &Piece) {
    PIECES[index].iter().zip(piece.words()).for_each(|(place, word)| place.store(word, SeqCst));
    END.fetch_max(index + 1, SeqCst);
}

/// Whether there was ever one.
#[inline]
pub(crate) fn is_any() -> bool {
    END.load(std::sync::atomic::Ordering::Relaxed) > 0
}

/// Looks at a table that is not changed meanwhile.
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

/// The piece with the lowest of the addresses of a range that pieces have.
pub(crate) fn find(start: usize, end: usize) -> Option<Piece> {
    if !is_any() {
        return None;
    }
    look(|| {
        let all = (0..END.load(SeqCst)).map(load);
        all.filter(|piece| piece.overlaps(start, end)).min_by_key(|piece| piece.start)
    })
}

/// A store that the server is being asked to allow, or what else is done to a piece by its
/// addresses: it stays as it is.
pub(crate) struct Storing(usize);

impl Storing {
    /// Begins one, if the piece is still what it was.
    pub(crate) fn begin(piece: &Piece) -> Option<Storing> {
        let index = look(|| (0..END.load(SeqCst)).find(|index| load(*index) == *piece))?;
        STORES[index].fetch_add(1, SeqCst);
        let storing = Storing(index);
        // A thread that changes the table waits for us, or has begun before and is seen here.
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

/// Whether anything is left of a mapping.
pub(crate) fn has(map: u64) -> bool {
    look(|| (0..END.load(SeqCst)).map(load).any(|piece| piece.len > 0 && piece.map == map))
}

/// All pieces there are, one after the other: the first from an index on, and the index after it.
pub(crate) fn from(index: usize) -> Option<(Piece, usize)> {
    look(|| {
        let mut all = (index..END.load(SeqCst)).map(|index| (load(index), index + 1));
        all.find(|(piece, _)| piece.len > 0)
    })
}

/// The table, to be changed.
pub(crate) struct Changing {
    signals: u64,
}

impl Changing {
    pub(crate) fn begin() -> Changing {
        let signals = set_signals(u64::MAX);
        while IS_CHANGING.swap(true, SeqCst) {
            pause();
        }
        CHANGES.fetch_add(1, SeqCst);
        Changing { signals }
    }

    /// As [`find`].
    pub(crate) fn find(&self, start: usize, end: usize) -> Option<Piece> {
        (0..END.load(SeqCst)).map(load).find(|piece| piece.overlaps(start, end))
    }

    /// Adds a piece, if there is room.
    pub(crate) fn add(&mut self, piece: &Piece) -> bool {
        let free = (0..NR_PIECES).find(|index| load(*index).len == 0);
        free.inspect(|index| store(*index, piece)).is_some()
    }

    /// The piece is this now, if it is still what it was.
    pub(crate) fn replace(&mut self, before: &Piece, now: &Piece) -> bool {
        let place = (0..END.load(SeqCst)).find(|index| load(*index) == *before);
        place.inspect(|index| {
            while STORES[*index].load(SeqCst) > 0 {
                pause();
            }
            store(*index, now);
        });
        place.is_some()
    }

    /// The pieces within a range are these now.
    pub(crate) fn replace_in(&mut self, start: usize, end: usize, now: impl Fn(Piece) -> Piece) {
        for index in 0..END.load(SeqCst) {
            let before = load(index);
            if before.overlaps(start, end) {
                self.replace(&before, &now(before));
            }
        }
    }

    /// It is none any more, if it is still what it was.
    pub(crate) fn remove(&mut self, piece: &Piece) -> bool {
        self.replace(piece, &Piece { len: 0, ..*piece })
    }

    /// Makes one of pieces that are alike and meet within a range, or at its ends.
    pub(crate) fn join(&mut self, start: usize, end: usize) {
        let mut at = start;
        while let Some(next) = self.find(at, at + 1).filter(|_| at <= end) {
            let before = self.find(at.wrapping_sub(1), at).filter(|before| before.end() == at);
            let whole = before.map(|before| Piece { len: before.len + next.len, ..before });
            if let Some(whole) = whole.filter(|whole| whole.part(at, whole.end()) == next) {
                self.remove(&next);
                self.replace(&whole.part(whole.start, at), &whole);
            }
            at = next.end();
        }
    }

    /// Cuts pieces in two where the range begins and ends. `false` where there is no room.
    pub(crate) fn cut(&mut self, start: usize, end: usize) -> bool {
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
        set_signals(self.signals);
    }
}

/// A child has none of the threads that were storing, or putting pieces in place, nor anything
/// locked in memory.
pub(crate) fn forget_threads() {
    STORES.iter().for_each(|nr| nr.store(0, SeqCst));
    for index in 0..END.load(SeqCst) {
        store(index, &Piece { is_moving: false, is_locked: false, ..load(index) });
    }
}

/// Keeps the table as it is, over a fork; waits for threads that put pieces in place, but not for
/// ever: this one may be in a handler that has interrupted one of them.
pub(crate) fn hold() {
    const TRIES: u32 = 10_000;
    let is_moving = || (0..END.load(SeqCst)).map(load).any(|one| one.len > 0 && one.is_moving);
    let mut changing = Changing::begin();
    for _ in 0..TRIES {
        if !is_moving() {
            break;
        }
        drop(changing);
        pause();
        changing = Changing::begin();
    }
    HELD_SIGNALS.store(changing.signals, SeqCst);
    std::mem::forget(changing);
}

/// Ends [`hold`], in parent and child.
pub(crate) fn let_go() {
    drop(Changing { signals: HELD_SIGNALS.load(SeqCst) });
}

/// As [`from`], by the thread that holds the table.
pub(crate) fn held_from(index: usize) -> Option<(Piece, usize)> {
    let mut all = (index..END.load(SeqCst)).map(|index| (load(index), index + 1));
    all.find(|(piece, _)| piece.len > 0)
}

/// Blocks these signals of this thread, and no others; returns those that were.
pub(crate) fn set_signals(blocked: u64) -> u64 {
    let mut before = 0_u64;
    let (set, old) = (&raw const blocked as usize, &raw mut before as usize);
    let arguments = [libc::SIG_SETMASK as usize, set, old, 8, 0, 0];
    // SAFETY: two sets of the kernel's size, which live through the call (S20).
    let _ = unsafe { next::system(libc::SYS_rt_sigprocmask, arguments) };
    before
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
