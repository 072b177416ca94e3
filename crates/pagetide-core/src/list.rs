//! Doubly linked lists of folios, by index.
//!
//! The links are in the descriptors ([`crate::folio`]), so nothing is allocated.
//!
//! ```text
//!   head (young end) <-> ... <-> ... <-> tail (old end): next victim
//! ```
//!
//! The head's younger link and the tail's older link are undefined, so a pop reads one descriptor.
//!
//! Invariant: a folio is on at most one list, and changes happen under the owning lruvec's lock.
//! Membership is not checked in release builds.

use crate::folio::Folios;
use crate::ids::FrameId;
use core::sync::atomic::Ordering::Relaxed;

/// A list of folios. Operations are O(1), except [`FolioList::iter`] and [`FolioList::validate`].
#[derive(Debug, Default)]
pub struct FolioList {
    /// Undefined if empty.
    head: u32,
    tail: u32,
    len: u32,
}

impl FolioList {
    /// Creates an empty list.
    pub const fn new() -> FolioList {
        FolioList { head: 0, tail: 0, len: 0 }
    }

    /// Returns the number of folios.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Returns true if the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the oldest folio.
    pub const fn tail(&self) -> Option<FrameId> {
        if self.is_empty() { None } else { Some(FrameId(self.tail)) }
    }

    /// Returns the oldest folio, for a scan that moves each folio. `PREFETCH` prefetches the next
    /// descriptor.
    #[inline]
    pub fn scan_tail<const PREFETCH: bool>(&self, folios: &Folios) -> Option<FrameId> {
        let folio = self.tail()?;
        if PREFETCH && let Some(next) = self.younger(folios, folio) {
            folios.prefetch(next);
        }
        Some(folio)
    }

    /// Returns the youngest folio.
    pub const fn head(&self) -> Option<FrameId> {
        if self.is_empty() { None } else { Some(FrameId(self.head)) }
    }

    /// Returns the next younger folio than `of`, which is on this list.
    pub fn younger(&self, folios: &Folios, of: FrameId) -> Option<FrameId> {
        (of.0 != self.head).then(|| FrameId(folios[of].prev.load(Relaxed)))
    }

    /// Adds at the young end.
    #[inline]
    pub fn push_head(&mut self, folios: &Folios, folio: FrameId) {
        folios[folio].next.store(self.head, Relaxed);
        match self.head() {
            Some(head) => folios[head].prev.store(folio.0, Relaxed),
            None => self.tail = folio.0,
        }
        self.head = folio.0;
        self.len += 1;
    }

    /// Adds at the old end.
    pub fn push_tail(&mut self, folios: &Folios, folio: FrameId) {
        folios[folio].prev.store(self.tail, Relaxed);
        match self.tail() {
            Some(tail) => folios[tail].next.store(folio.0, Relaxed),
            None => self.head = folio.0,
        }
        self.tail = folio.0;
        self.len += 1;
    }

    /// Removes `folio`, which is on this list.
    pub fn remove(&mut self, folios: &Folios, folio: FrameId) {
        debug_assert!(self.len > 0, "{folio} removed from an empty list");
        let prev = folios[folio].prev.load(Relaxed);
        let next = folios[folio].next.load(Relaxed);
        if folio.0 == self.head {
            self.head = next;
        } else {
            folios[FrameId(prev)].next.store(next, Relaxed);
        }
        if folio.0 == self.tail {
            self.tail = prev;
        } else {
            folios[FrameId(next)].prev.store(prev, Relaxed);
        }
        self.len -= 1;
    }

    /// Removes the oldest folio.
    #[inline]
    pub fn pop_tail(&mut self, folios: &Folios) -> Option<FrameId> {
        self.pop_tail_of_scan::<false>(folios)
    }

    /// Removes the oldest folio. `PREFETCH` as in [`FolioList::scan_tail`].
    #[inline]
    pub fn pop_tail_of_scan<const PREFETCH: bool>(&mut self, folios: &Folios) -> Option<FrameId> {
        let folio = self.scan_tail::<PREFETCH>(folios)?;
        self.tail = folios[folio].prev.load(Relaxed);
        self.len -= 1;
        Some(folio)
    }

    /// Moves the oldest folio, if any, to the young end.
    #[inline]
    pub fn turn(&mut self, folios: &Folios) {
        if let Some(folio) = self.pop_tail(folios) {
            self.push_head(folios, folio);
        }
    }

    /// Moves `folio`, which is on this list, to the young end.
    pub fn move_to_head(&mut self, folios: &Folios, folio: FrameId) {
        if self.head != folio.0 {
            self.remove(folios, folio);
            self.push_head(folios, folio);
        }
    }

    /// Iterates from the oldest to the youngest folio.
    pub fn iter<'a>(&'a self, folios: &'a Folios) -> impl Iterator<Item = FrameId> + 'a {
        core::iter::successors(self.tail(), move |folio| self.younger(folios, *folio))
    }

    /// Panics if a link or the length is wrong. O(len).
    pub fn validate(&self, folios: &Folios) {
        let mut at = self.head;
        for _ in 1..self.len {
            let older = folios[FrameId(at)].next.load(Relaxed);
            let newer = folios[FrameId(older)].prev.load(Relaxed);
            assert_eq!(newer, at, "{} does not point back", FrameId(older));
            at = older;
        }
        assert!(self.is_empty() || at == self.tail, "the walk does not end at the tail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folio::Flags;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Op {
        PushHead(u32),
        PushTail(u32),
        Remove(u32),
        PopTail,
        Turn,
        MoveToHead(u32),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0..16u32).prop_map(Op::PushHead),
            (0..16u32).prop_map(Op::PushTail),
            (0..16u32).prop_map(Op::Remove),
            Just(Op::PopTail),
            Just(Op::Turn),
            (0..16u32).prop_map(Op::MoveToHead),
        ]
    }

    /// Two lists and their naive twins (front = head).
    #[derive(Default)]
    struct Pair {
        lists: [FolioList; 2],
        twins: [Vec<u32>; 2],
    }

    impl Pair {
        fn on(&self, id: u32) -> Option<usize> {
            self.twins.iter().position(|twin| twin.contains(&id))
        }

        fn apply(&mut self, folios: &Folios, op: &Op) {
            match *op {
                Op::PushHead(id) if self.on(id).is_none() => {
                    let to = id as usize % 2;
                    self.lists[to].push_head(folios, FrameId(id));
                    self.twins[to].insert(0, id);
                }
                Op::PushTail(id) if self.on(id).is_none() => {
                    let to = id as usize % 2;
                    self.lists[to].push_tail(folios, FrameId(id));
                    self.twins[to].push(id);
                }
                Op::Remove(id) => {
                    if let Some(from) = self.on(id) {
                        self.lists[from].remove(folios, FrameId(id));
                        self.twins[from].retain(|other| *other != id);
                    }
                }
                Op::PopTail => {
                    let popped = self.lists[0].pop_tail(folios);
                    assert_eq!(popped, self.twins[0].pop().map(FrameId));
                }
                Op::Turn => {
                    self.lists[0].turn(folios);
                    let oldest = self.twins[0].pop();
                    self.twins[0].splice(0..0, oldest);
                }
                Op::MoveToHead(id) => {
                    if let Some(on) = self.on(id) {
                        self.lists[on].move_to_head(folios, FrameId(id));
                        self.twins[on].retain(|other| *other != id);
                        self.twins[on].insert(0, id);
                    }
                }
                Op::PushHead(_) | Op::PushTail(_) => {}
            }
        }
    }

    /// Returns the folios scanned, and the prefetched ones.
    fn scan(order: &[u32], batch: usize) -> (Vec<u32>, Vec<u32>) {
        let folios = Folios::with_prefetch(8, |folio| {
            folio.set(Flags::PREFETCHED);
        });
        let (mut list, mut taken) = (FolioList::new(), FolioList::new());
        order.iter().for_each(|id| list.push_head(&folios, FrameId(*id)));
        let mut met = Vec::new();
        while met.len() < batch {
            let Some(frame) = list.scan_tail::<true>(&folios) else { break };
            met.push(frame.0);
            list.remove(&folios, frame);
            taken.push_head(&folios, frame);
        }
        list.validate(&folios);
        let is_marked = |id: &u32| folios[FrameId(*id)].flags().any(Flags::PREFETCHED);
        (met, order.iter().copied().filter(is_marked).collect())
    }

    #[test]
    fn a_scan_asks_for_the_folio_that_comes_next() {
        assert_eq!(scan(&[0, 1, 2, 3, 4], 9), (vec![0, 1, 2, 3, 4], vec![1, 2, 3, 4]));
        assert_eq!(scan(&[0, 1, 2, 3, 4], 2), (vec![0, 1], vec![1, 2]));
        assert_eq!(scan(&[], 9), (vec![], vec![]));
        assert_eq!(scan(&[5], 9), (vec![5], vec![]));
    }

    proptest! {
        #[test]
        fn lists_agree_with_vectors(ops in prop::collection::vec(op(), 0..200)) {
            let folios = Folios::new(16);
            let mut pair = Pair::default();
            for op in &ops {
                pair.apply(&folios, op);
                for (list, twin) in pair.lists.iter().zip(&pair.twins) {
                    list.validate(&folios);
                    let oldest_first: Vec<u32> = list.iter(&folios).map(|frame| frame.0).collect();
                    let twin_oldest_first: Vec<u32> = twin.iter().rev().copied().collect();
                    prop_assert_eq!(oldest_first, twin_oldest_first);
                }
            }
        }
    }
}
