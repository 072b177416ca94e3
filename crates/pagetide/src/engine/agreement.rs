//! What the cache and the file system last agreed a file to be, and what that proves.
//!
//! Problem: other programs change files unannounced. Times tell, but our own changes move them
//! as well, and what others do between two looks of ours is hidden behind them.
//!
//! Idea: a look before each change of ours, which tells what others did until then; and doubt after
//! it, until an open has dropped what is clean.
//!
//! ```text
//!   open:   look = last, not in doubt? clean pages stay          (unchanged since)
//!           else they go, and the look is the last one           (in doubt, unless it is settled)
//!   change: look = last? if not, others changed it: as above     first change of several at once
//!           ... ours ...
//!           look: the last one; in doubt from now on             last change
//! ```
//!
//! Invariant: while a file is not in doubt, each clean page has what the file had at the last look,
//! and any change since shows in the next.
//!
//! What is [held](Agreement::hold) only we can change, and is not looked at.

use crate::memory::locks::lock;
use pagetide_sys::{Fingerprint, Look};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// One file's.
pub(crate) struct Agreement {
    is_shared: AtomicBool,
    state: Mutex<State>,
}

/// To be had while looking, comparing and dropping: one open does not believe what another is about
/// to drop.
#[derive(Default)]
pub(crate) struct State {
    last: Option<Fingerprint>,
    is_in_doubt: bool,
    changing: Option<Changing>,
    /// The last handle went while bytes could not be written.
    is_abandoned: bool,
}

/// Changes of ours under way.
struct Changing {
    nr: u32,
    /// The lengths that the file may have once they are done.
    lengths: RangeInclusive<u64>,
}

impl Agreement {
    /// Of a file as it is opened for the first time; `None` for a store of which there are no
    /// looks, and which is never shared.
    pub(crate) fn new(look: Option<&Look>) -> Agreement {
        let mut state = State::default();
        if let Some(look) = look {
            state.agree(look);
        }
        Agreement { is_shared: AtomicBool::new(look.is_some()), state: Mutex::new(state) }
    }

    /// Whether others may change the file.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Relaxed)
    }

    /// No other program can change the file from here on: it is held for us, by a lease or the
    /// like.
    pub(crate) fn hold(&self) {
        self.is_shared.store(false, Relaxed);
    }

    /// Others may change the file again, which looks so; whatever was written until now was written
    /// back. Without a look, nothing that is cached is believed any more.
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
    /// Whether clean pages are what the file has.
    pub(crate) fn proves_same(&self, look: &Look) -> bool {
        !self.is_in_doubt && self.changing.is_none() && !self.is_changed(look)
    }

    /// Whether others have changed the file, as far as looks tell.
    pub(crate) fn is_changed(&self, look: &Look) -> bool {
        self.changing.is_none() && self.last != Some(look.fingerprint)
    }

    /// How the file looked last.
    pub(crate) fn last(&self) -> Option<Fingerprint> {
        self.last
    }

    /// Whether changes of ours are under way.
    pub(crate) fn is_changing(&self) -> bool {
        self.changing.is_some()
    }

    /// No page is clean that was read before this look.
    pub(crate) fn agree(&mut self, look: &Look) {
        self.is_in_doubt = !look.is_settled || self.is_changing();
        if !self.is_changing() {
            self.last = Some(look.fingerprint);
        }
    }

    /// There were changes that no look was taken after.
    fn doubt(&mut self) {
        self.is_in_doubt = true;
        self.last = None;
    }

    /// A change of ours begins. `look` is from before it, and what others did was dealt with.
    pub(crate) fn begin(&mut self, look: Option<&Look>) {
        self.is_in_doubt = true;
        let lengths = look.map_or(0..=u64::MAX, |look| look.fingerprint.len..=look.fingerprint.len);
        self.changing.get_or_insert(Changing { nr: 0, lengths }).nr += 1;
        self.last = look.map(|look| look.fingerprint);
    }

    /// It may have made the file this long.
    pub(crate) fn may_grow_to(&mut self, end: u64) {
        if let Some(changing) = &mut self.changing {
            let most = end.max(*changing.lengths.end());
            changing.lengths = *changing.lengths.start()..=most;
        }
    }

    /// It has set this length.
    pub(crate) fn set_len(&mut self, len: u64) {
        if let Some(changing) = &mut self.changing {
            changing.lengths = len..=len;
        }
    }

    /// It is over. Returns whether the length is one that only others can have made.
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

    /// The last handle went, and not all could be written.
    pub(crate) fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    /// Whether it did; once.
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
