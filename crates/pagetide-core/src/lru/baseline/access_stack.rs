//! A list of numbered things in the order they were last seen, linked by index.
//!
//! [`crate::list::FolioList`] links resident folios through their descriptors, and a folio is on
//! one such list at most. LIRS orders folios that are on a list already, and pages that have no
//! folio: this stack has links of its own, 8 bytes for each number there is.
//!
//! Invariant: the caller knows what is on the stack; only debug builds notice a mistake, late.

use alloc::boxed::Box;
use alloc::vec;

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Links {
    above: u32,
    below: u32,
}

/// A stack of numbers below its capacity, from which any can be removed. All operations O(1).
#[derive(Debug)]
pub(super) struct RecencyStack {
    links: Box<[Links]>,
    top: u32,
    bottom: u32,
    len: u32,
}

impl RecencyStack {
    /// An empty stack for the numbers below `capacity`.
    pub(super) fn new(capacity: u32) -> RecencyStack {
        let unlinked = Links { above: NIL, below: NIL };
        let links = vec![unlinked; capacity as usize].into();
        RecencyStack { links, top: NIL, bottom: NIL, len: 0 }
    }

    /// The number seen longest ago.
    pub(super) fn bottom(&self) -> Option<u32> {
        (self.bottom != NIL).then_some(self.bottom)
    }

    /// How many numbers are on the stack.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Puts a number that is not on the stack on its top.
    pub(super) fn push(&mut self, number: u32) {
        self.links[number as usize] = Links { above: NIL, below: self.top };
        match self.top {
            NIL => self.bottom = number,
            top => self.links[top as usize].above = number,
        }
        self.top = number;
        self.len += 1;
    }

    /// Takes a number that is on the stack out of it.
    pub(super) fn remove(&mut self, number: u32) {
        debug_assert!(self.len > 0, "{number} removed from an empty stack");
        let Links { above, below } = self.links[number as usize];
        self.join(below, above);
        self.len -= 1;
    }

    /// Gives the place of a number that is on the stack to one that is not.
    pub(super) fn replace(&mut self, number: u32, successor: u32) {
        let Links { above, below } = self.links[number as usize];
        self.join(below, successor);
        self.join(successor, above);
    }

    /// From the bottom to the top.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        core::iter::successors(self.bottom(), |number| {
            let above = self.links[*number as usize].above;
            (above != NIL).then_some(above)
        })
    }

    /// Makes two numbers neighbours; where one is none, the other is an end.
    fn join(&mut self, below: u32, above: u32) {
        match below {
            NIL => self.bottom = above,
            below => self.links[below as usize].above = above,
        }
        match above {
            NIL => self.top = below,
            above => self.links[above as usize].below = below,
        }
    }

    /// Walks the stack and panics where links or the length are wrong. O(len).
    pub(super) fn validate(&self) {
        let mut count = 0;
        let mut below = NIL;
        for number in self.iter() {
            assert_eq!(self.links[number as usize].below, below, "{number} does not point back");
            below = number;
            count += 1;
            assert!(count <= self.len, "stack longer than its length {}", self.len);
        }
        assert_eq!((below, count), (self.top, self.len), "top and length");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stacks_agree_with_vectors(
            ops in prop::collection::vec((0..3u8, 0..8u32, 0..8u32), 0..200),
        ) {
            let mut stack = RecencyStack::new(8);
            let mut twin: Vec<u32> = Vec::new();
            for (op, number, other) in ops {
                match (op, twin.iter().position(|on| *on == number)) {
                    (0, None) => {
                        stack.push(number);
                        twin.push(number);
                    }
                    (1, Some(at)) => {
                        stack.remove(number);
                        twin.remove(at);
                    }
                    (2, Some(at)) if !twin.contains(&other) => {
                        stack.replace(number, other);
                        twin[at] = other;
                    }
                    _ => {}
                }
                stack.validate();
                prop_assert_eq!(stack.iter().collect::<Vec<_>>(), twin.clone());
                prop_assert_eq!(stack.bottom(), twin.first().copied());
            }
        }
    }
}
