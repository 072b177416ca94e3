//! A stack of page accesses, linked by index.
//!
//! [`crate::list::FolioList`] links a folio on at most one list, through its descriptor. LIRS also
//! orders listed folios, and pages without a folio. So this stack has its own links, 8 bytes per
//! possible access.
//!
//! Invariant: the accesses of a page leave oldest first.

use alloc::boxed::Box;
use alloc::vec;

const NIL: u32 = u32::MAX;
/// `above` of an access that is not on the stack.
const OFF: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Links {
    above: u32,
    below: u32,
}

/// The last `EACH` accesses of each page. Any can be removed. All operations O(1).
#[derive(Debug)]
pub(super) struct AccessStack<const EACH: usize> {
    /// By page: the latest accesses, then the ones before, and so on.
    links: Box<[Links]>,
    nr_pages: u32,
    top: u32,
    bottom: u32,
    len: u32,
}

impl<const EACH: usize> AccessStack<EACH> {
    pub(super) fn new(nr_pages: u32) -> AccessStack<EACH> {
        let off = Links { above: OFF, below: NIL };
        let links = vec![off; EACH * nr_pages as usize].into();
        AccessStack { links, nr_pages, top: NIL, bottom: NIL, len: 0 }
    }

    pub(super) fn bottom(&self) -> Option<u32> {
        (self.bottom != NIL).then(|| self.bottom % self.nr_pages)
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn holds(&self, page: u32) -> bool {
        self.is_on(page)
    }

    pub(super) fn holds_all(&self, page: u32) -> bool {
        self.is_on(self.access(page, EACH - 1))
    }

    /// Pushes an access of the page. Removes its oldest one beyond `EACH`.
    pub(super) fn push(&mut self, page: u32) {
        if self.holds_all(page) {
            self.take(self.access(page, EACH - 1));
        }
        for age in (1..EACH).rev() {
            self.replace(self.access(page, age - 1), self.access(page, age));
        }
        self.links[page as usize] = Links { above: NIL, below: self.top };
        match self.top {
            NIL => self.bottom = page,
            top => self.links[top as usize].above = page,
        }
        self.top = page;
        self.len += 1;
    }

    pub(super) fn pop_bottom(&mut self) {
        if self.bottom != NIL {
            self.take(self.bottom);
        }
    }

    pub(super) fn remove(&mut self, page: u32) {
        for age in 0..EACH {
            let access = self.access(page, age);
            if self.is_on(access) {
                self.take(access);
            }
        }
    }

    /// Transfers all accesses to `successor`, which has none.
    pub(super) fn rename(&mut self, page: u32, successor: u32) {
        debug_assert!(!self.holds(successor), "{successor} has accesses of its own");
        for age in 0..EACH {
            self.replace(self.access(page, age), self.access(successor, age));
        }
    }

    fn access(&self, page: u32, age: usize) -> u32 {
        age as u32 * self.nr_pages + page
    }

    fn is_on(&self, access: u32) -> bool {
        self.links[access as usize].above != OFF
    }

    fn take(&mut self, access: u32) {
        let Links { above, below } = self.links[access as usize];
        self.join(below, above);
        self.links[access as usize].above = OFF;
        self.len -= 1;
    }

    /// Replaces an access on the stack by an access off the stack.
    fn replace(&mut self, access: u32, successor: u32) {
        let Links { above, below } = self.links[access as usize];
        if above != OFF {
            self.join(below, successor);
            self.join(successor, above);
            self.links[access as usize].above = OFF;
        }
    }

    /// Links two neighbours. `NIL` on one side makes an end.
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

    fn accesses(&self) -> impl Iterator<Item = u32> {
        core::iter::successors((self.bottom != NIL).then_some(self.bottom), |access| {
            let above = self.links[*access as usize].above;
            (above != NIL).then_some(above)
        })
    }

    /// Panics if links or the length are wrong. O(len).
    pub(super) fn validate(&self) {
        let mut count = 0;
        let mut below = NIL;
        for access in self.accesses() {
            assert_eq!(self.links[access as usize].below, below, "{access} does not point back");
            below = access;
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

    fn agrees_with_a_vector<const EACH: usize>(ops: &[(u8, u32, u32)]) {
        let mut stack = AccessStack::<EACH>::new(8);
        let mut twin: Vec<u32> = Vec::new();
        for (op, page, other) in ops {
            let nr_held = twin.iter().filter(|on| *on == page).count();
            match op {
                0 => {
                    stack.push(*page);
                    if nr_held == EACH {
                        let oldest = twin.iter().position(|on| on == page);
                        oldest.map(|at| twin.remove(at));
                    }
                    twin.push(*page);
                }
                1 => {
                    stack.remove(*page);
                    twin.retain(|on| on != page);
                }
                2 => {
                    stack.pop_bottom();
                    twin = twin.split_off(twin.len().min(1));
                }
                _ if !twin.contains(other) => {
                    stack.rename(*page, *other);
                    twin.iter_mut().filter(|on| *on == page).for_each(|on| *on = *other);
                }
                _ => {}
            }
            stack.validate();
            assert!(stack.accesses().map(|access| access % 8).eq(twin.iter().copied()));
            assert_eq!(stack.bottom(), twin.first().copied());
            let nr_held = twin.iter().filter(|on| *on == page).count();
            assert_eq!(
                (stack.holds(*page), stack.holds_all(*page)),
                (nr_held > 0, nr_held == EACH)
            );
        }
    }

    proptest! {
        #[test]
        fn stacks_agree_with_vectors(
            ops in prop::collection::vec((0..4u8, 0..8u32, 0..8u32), 0..200),
        ) {
            agrees_with_a_vector::<1>(&ops);
            agrees_with_a_vector::<2>(&ops);
        }
    }
}
