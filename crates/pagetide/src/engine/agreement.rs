//! Consistency check between cache and file.
//!
//! Problem: other programs change files unannounced. File times reveal such changes, but our own
//! changes move the times as well.
//!
//! Idea: check the file before each change of ours, which reveals foreign changes until then.
//! Afterwards, doubt the cached pages until an open has dropped the clean ones.
//!
//! ```text
//!   open:   check = last, not in doubt? clean pages stay        (unchanged since)
//!           else drop them, and this check is the last one      (in doubt, unless settled)
//!   change: check = last? if not, a foreign change: as above    first of several changes at once
//!           ... ours ...
//!           this check is the last one, in doubt from now on    last change
//! ```
//!
//! Invariant: while a file is not in doubt, each clean page equals the file at the last check, and
//! the next check reveals any later change.
//!
//! A [held](Agreement::hold) file can be changed by us only, and is not checked.

use crate::memory::locks::lock;
use pagetide_sys::{Fingerprint, Look};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

pub(crate) struct Agreement {
    is_shared: AtomicBool,
    state: Mutex<State>,
}

/// Locked while checking, comparing and dropping, so that one open does not trust pages that
/// another open is about to drop.
#[derive(Default)]
pub(crate) struct State {
    last: Option<Fingerprint>,
    is_in_doubt: bool,
    changing: Option<Changing>,
    is_abandoned: bool,
}

struct Changing {
    nr: u32,
    /// Possible file lengths when they are done.
    lengths: RangeInclusive<u64>,
}

impl Agreement {
    /// `None` means a store that cannot be checked, and is never shared.
    pub(crate) fn new(look: Option<&Look>) -> Agreement {
        let mut state = State::default();
        if let Some(look) = look {
            state.agree(look);
        }
        Agreement { is_shared: AtomicBool::new(look.is_some()), state: Mutex::new(state) }
    }

    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Relaxed)
    }

    /// Stops checking, as a lease or the like protects the file.
    pub(crate) fn hold(&self) {
        self.is_shared.store(false, Relaxed);
    }

    /// Resumes checking from `look`, after write-back. Without it, no cached page is trusted.
    pub(crate) fn share_as(&self, look: Option<&Look>) {
        let mut state = self.lock();
        match look {
            Some(look) => state.agree(look),
            None => state.doubt(),
        }
        self.is_shared.store(true, Relaxed);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Returns true if clean pages are known to equal the file.
    pub(crate) fn proves_same(&self, look: &Look) -> bool {
        !self.is_in_doubt && self.changing.is_none() && !self.is_changed(look)
    }

    pub(crate) fn is_changed(&self, look: &Look) -> bool {
        self.changing.is_none() && self.last != Some(look.fingerprint)
    }

    pub(crate) fn last(&self) -> Option<Fingerprint> {
        self.last
    }

    pub(crate) fn is_changing(&self) -> bool {
        self.changing.is_some()
    }

    /// Accepts a state, older than all clean pages.
    pub(crate) fn agree(&mut self, look: &Look) {
        self.is_in_doubt = !look.is_settled || self.is_changing();
        if !self.is_changing() {
            self.last = Some(look.fingerprint);
        }
    }

    fn doubt(&mut self) {
        self.is_in_doubt = true;
        self.last = None;
    }

    /// Begins a change of ours, with foreign changes before `look` handled.
    pub(crate) fn begin(&mut self, look: Option<&Look>) {
        self.is_in_doubt = true;
        let lengths = look.map_or(0..=u64::MAX, |look| look.fingerprint.len..=look.fingerprint.len);
        self.changing.get_or_insert(Changing { nr: 0, lengths }).nr += 1;
        self.last = look.map(|look| look.fingerprint);
    }

    pub(crate) fn may_grow_to(&mut self, end: u64) {
        if let Some(changing) = &mut self.changing {
            let most = end.max(*changing.lengths.end());
            changing.lengths = *changing.lengths.start()..=most;
        }
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        if let Some(changing) = &mut self.changing {
            changing.lengths = len..=len;
        }
    }

    /// Ends a change. Returns true if only another program can have made the file this long.
    pub(crate) fn end(&mut self, look: Option<&Look>) -> bool {
        let Some(mut changing) = self.changing.take() else { return false };
        changing.nr -= 1;
        if changing.nr > 0 {
            self.changing = Some(changing);
            return false;
        }
        self.last = look.map(|look| look.fingerprint);
        look.is_some_and(|look| !changing.lengths.contains(&look.fingerprint.len))
    }

    pub(crate) fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    pub(crate) fn take_abandoned(&mut self) -> bool {
        std::mem::take(&mut self.is_abandoned)
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(ctime_ns: i128, len: u64) -> Look {
        let fingerprint =
            Fingerprint { dev: 1, ino: 2, len, mtime_ns: 0, ctime_ns, btime_ns: None };
        Look { fingerprint, is_settled: true }
    }

    #[test]
    fn a_settled_look_proves_what_it_found() {
        let agreement = Agreement::new(Some(&look(5, 10)));
        let mut state = agreement.lock();
        assert!(state.proves_same(&look(5, 10)));
        assert!(!state.proves_same(&look(6, 10)), "only ctime tells");
        state.agree(&Look { is_settled: false, ..look(6, 10) });
        assert!(!state.proves_same(&look(6, 10)), "a change may have the same time");
        state.agree(&look(6, 10));
        assert!(state.proves_same(&look(6, 10)));
    }

    #[test]
    fn after_changes_of_ours_nothing_is_proven_until_an_open() {
        let agreement = Agreement::new(Some(&look(5, 10)));
        let mut state = agreement.lock();
        assert!(!state.is_changed(&look(5, 10)));
        state.begin(Some(&look(5, 10)));
        state.begin(Some(&look(7, 10)));
        state.may_grow_to(20);
        assert!(!state.end(Some(&look(8, 15))) && state.is_changing());
        state.agree(&look(8, 15));
        assert!(!state.end(Some(&look(9, 15))));
        assert!(!state.proves_same(&look(9, 15)) && !state.is_changed(&look(9, 15)));
        assert!(state.is_changed(&look(10, 15)));
        state.agree(&look(9, 15));
        assert!(state.proves_same(&look(9, 15)));
    }

    #[test]
    fn a_length_that_is_not_ours_is_reported() {
        let agreement = Agreement::new(Some(&look(5, 10)));
        for (mine, found, is_foreign) in [(20, 20, false), (20, 9, true), (20, 21, true)] {
            let mut state = agreement.lock();
            state.begin(Some(&look(5, 10)));
            state.may_grow_to(mine);
            assert_eq!(state.end(Some(&look(6, found))), is_foreign, "{found}");
        }
    }
}
