//! Address ranges of this process that are mapped from the server's memory files.
//!
//! **Data and invariants.** A table of atomics, changed by one thread at a time, which has all
//! signals blocked meanwhile and touches nothing that could fault; a count tells readers that it
//! was changed as they read. A fork waits for that thread. An entry with length 0 is free. While
//! the server is asked to allow a store, which it does by address, the entry stays as it is.
//!
//! The thread that has marked an entry (`is_moving`) may map something at its addresses, and no
//! other thread changes the entry. A system call that frees or replaces addresses of pieces is made
//! while the table is held and its pieces are at rest: not marked, and with no store being allowed
//! ([`Changing::at_rest`]). So an entry never names addresses that are mapped by someone else.

use crate::held_signals::set_mask;
use crate::{next, own};
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
    /// It is no piece any more: its addresses were freed, and the server is to be told.
    pub(crate) is_gone: bool,
}

impl Piece {
    /// A part of a mapping that this process is about to make.
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
/// Stores that the server is being asked to allow, in the piece of each entry.
static STORES: [AtomicU32; NR_PIECES] = [const { AtomicU32::new(0) }; NR_PIECES];
/// No entry from here on was ever used.
static END: AtomicUsize = AtomicUsize::new(0);
/// Odd while the table is being changed.
static CHANGES: AtomicU32 = AtomicU32::new(0);
/// Entries that have become no piece.
static NR_ENDED: AtomicU64 = AtomicU64::new(0);
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

/// Entries that have become no piece so far: a fault that was raised in a piece may find none.
pub(crate) fn nr_ended() -> u64 {
    NR_ENDED.load(SeqCst)
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
    look(|| (0..END.load(SeqCst)).map(load).any(|piece| piece.is_there() && piece.map == map))
}

/// Whether there is any piece of a description.
pub(crate) fn has_description(id: u64) -> bool {
    look(|| (0..END.load(SeqCst)).map(load).any(|piece| piece.is_there() && piece.id == id))
}

/// All pieces there are, one after the other: the first from an index on, and the index after it.
pub(crate) fn from(index: usize) -> Option<(Piece, usize)> {
    look(|| {
        let mut all = (index..END.load(SeqCst)).map(|index| (load(index), index + 1));
        all.find(|(piece, _)| piece.is_there())
    })
}

/// Signals of this thread are blocked as long as it lives.
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

/// A piece that this thread has marked, to map something at its addresses. No handler interrupts
/// it: one that frees them would wait for ever.
pub(crate) struct Moving {
    marked: Piece,
    _blocked: Blocked,
}

impl Moving {
    /// Marks a piece, as `wanted`, if it is still what it was and no other thread has marked it.
    pub(crate) fn begin(piece: &Piece, wanted: &Piece) -> Option<Moving> {
        let _blocked = Blocked::begin();
        let marked = Piece { is_moving: true, ..*wanted };
        let is_mine = !piece.is_moving && Changing::begin().replace(piece, &marked);
        is_mine.then_some(Moving { marked, _blocked })
    }

    /// What is in the table.
    pub(crate) fn piece(&self) -> &Piece {
        &self.marked
    }

    /// The piece is this from now on.
    pub(crate) fn end(self, now: &Piece) {
        Changing::begin().replace(&self.marked, now);
    }

    /// It is none any more.
    pub(crate) fn remove(self) {
        Changing::begin().remove(&self.marked);
    }
}

/// The table, to be changed.
pub(crate) struct Changing {
    signals: u64,
}

impl Changing {
    /// Holds the table once the pieces of these ranges are at rest, and cuts them in two where the
    /// ranges begin and end. `None` where there is no room for that.
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

    /// As [`find`].
    pub(crate) fn find(&self, start: usize, end: usize) -> Option<Piece> {
        (0..END.load(SeqCst)).map(load).find(|piece| piece.overlaps(start, end))
    }

    /// Whether any piece within a range is such a one.
    pub(crate) fn any_in(&self, start: usize, end: usize, is: impl Fn(&Piece) -> bool) -> bool {
        let mut all = (0..END.load(SeqCst)).map(load);
        all.any(|piece| piece.overlaps(start, end) && is(&piece))
    }

    pub(crate) fn has_room(&self) -> bool {
        (0..NR_PIECES).any(|index| load(index).len == 0)
    }

    /// The pieces within a range, which has been freed or replaced, are none any more. The server
    /// is to be told of them: see [`Changing::take_gone`].
    pub(crate) fn leave_in(&mut self, start: usize, end: usize) {
        self.replace_in(start, end, |piece| Piece { is_gone: true, ..piece });
    }

    /// One of the pieces that have left a range.
    pub(crate) fn take_gone(&mut self, start: usize, end: usize) -> Option<Piece> {
        let is_meant = |one: &Piece| one.len > 0 && start <= one.start && one.end() <= end;
        let gone = (0..END.load(SeqCst)).map(load).find(|one| one.is_gone && is_meant(one))?;
        self.remove(&gone).then_some(gone)
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
            NR_ENDED.fetch_add(u64::from(before.is_there() && !now.is_there()), SeqCst);
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
            let is_alike = |whole: &Piece| !next.is_moving && whole.part(at, whole.end()) == next;
            if let Some(whole) = whole.filter(is_alike) {
                self.remove(&next);
                self.replace(&whole.part(whole.start, at), &whole);
            }
            at = next.end();
        }
    }

    /// Cuts pieces in two where the range begins and ends. `false` where there is no room.
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

/// A child has none of the threads that were storing, or putting pieces in place, nor anything
/// locked in memory.
pub(crate) fn forget_threads() {
    STORES.iter().for_each(|nr| nr.store(0, SeqCst));
    for index in 0..END.load(SeqCst) {
        let piece = load(index);
        let len = if piece.is_gone { 0 } else { piece.len };
        store(index, &Piece { len, is_gone: false, is_moving: false, is_locked: false, ..piece });
    }
}

/// Keeps the table as it is, over a fork, once no thread puts a piece in place. (No handler that
/// forks has interrupted such a thread: it has all signals blocked.)
pub(crate) fn hold() {
    let Some(changing) = Changing::at_rest(&[(0, usize::MAX & !4095)]) else { return };
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
    all.find(|(piece, _)| piece.is_there())
}

/// It is none any more, by the thread that holds the table.
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
