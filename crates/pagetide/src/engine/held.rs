//! Which pages this thread has guards of: so that it never waits for itself.

use crate::engine::mapping::Mapping;
use std::cell::RefCell;

/// What a guard holds.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Held {
    /// The mapping's address: it lives as long as the guard.
    mapping: usize,
    index: u64,
    is_exclusive: bool,
}

thread_local! {
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

/// This thread has a guard of the page from here on.
#[inline]
pub(crate) fn note(mapping: &Mapping, index: u64, is_exclusive: bool) {
    let held = Held { mapping: std::ptr::from_ref(mapping).addr(), index, is_exclusive };
    // While the thread ends, its list may be gone before a guard comes.
    let _ = HELD.try_with(|all| all.borrow_mut().push(held));
}

/// The guard goes.
#[inline]
pub(crate) fn forget(mapping: &Mapping, index: u64, is_exclusive: bool) {
    let held = Held { mapping: std::ptr::from_ref(mapping).addr(), index, is_exclusive };
    // While the thread ends, its list may be gone before a guard is.
    let _ = HELD.try_with(|all| {
        let mut all = all.borrow_mut();
        if let Some(at) = all.iter().rposition(|one| *one == held) {
            all.swap_remove(at);
        }
    });
}

/// Whether this thread has a guard of the page.
pub(crate) fn has(mapping: &Mapping, index: u64) -> bool {
    let mapping = std::ptr::from_ref(mapping).addr();
    any(|one| one.mapping == mapping && one.index == index)
}

/// The first page of the mapping that this thread has an exclusive guard of.
pub(crate) fn first_exclusive(mapping: &Mapping) -> Option<u64> {
    let mapping = std::ptr::from_ref(mapping).addr();
    let of_it = |one: &&Held| one.mapping == mapping && one.is_exclusive;
    HELD.try_with(|all| all.borrow().iter().filter(of_it).map(|one| one.index).min()).ok().flatten()
}

fn any(is_it: impl Fn(&Held) -> bool) -> bool {
    HELD.try_with(|all| all.borrow().iter().any(is_it)).unwrap_or(false)
}
