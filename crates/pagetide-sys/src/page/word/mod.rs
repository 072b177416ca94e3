//! The page word: one atomic 64-bit number with the whole state of one page.
//!
//! **Problem.** A hit must neither lock nor write a line that other CPUs read. An eviction must
//! exclude all users of the frame. The kernel, which fills frames, must respect both.
//!
//! **Idea.** State, frame, pins and a version share one word. Each decision is one
//! compare-and-swap, and readers detect disturbances without a write.
//!
//! ```text
//!              63      46 45       18 17     7   6     5     4      3       2    1 0
//!   resident  | version  |   frame   |  pins  | ASK |HINT |YOUNG|WAITERS| LOCK | 10 |
//!             |    18    |    28     |   11   |  1  |  1  |  1  |   1   |   1  |    |
//!   shadow    |            payload, 60 bits                     |WAITERS| LOCK | 01 |
//!   absent    |               zero                              |WAITERS| LOCK | 00 |
//!
//!            try_lock           install             unlock
//!   absent/shadow ----> locked ---------> locked   --------> resident <--> pinned
//!                          ^    (absent)    |  (resident)        |          (pins > 0)
//!                          |     <----------+--+                 |
//!                          |       evict    +--+ relocate        |
//!                          |                    try_claim, try_lock (pins = 0)
//!                          +-------------------------------------+
//! ```
//!
//! **Invariants.**
//! - S4: LOCK and pins > 0 exclude each other. Only the thread that set LOCK changes state, frame,
//!   version or payload, or writes the frame, and only until it clears LOCK.
//! - WAITERS may change at any time, YOUNG and HINT at any time while resident.
//! - ASK stands for every rare reason why an access needs more than a pin: the bytes are not in
//!   the frame (S50), a region maps the page, the frame is slow memory, or its descriptor is
//!   marked. Install, relocate and the holder of LOCK set ASK before any reason arises. Only the
//!   holder of a pin clears ASK, after finding no reason, and the pin keeps new reasons out. So a
//!   resident, unlocked word without ASK has none.
//! - S5: the version rises with each install, move and unlock after a write, and follows the frame
//!   through [`ClaimedFrame`](crate::ClaimedFrame). So (frame, version) does not repeat within 2^18
//!   steps.
//!
//! **Why an accepted optimistic read is whole.** The reader loads the word (acquire, L1), copies,
//! fences (acquire), and loads again (L2). It accepts equal state, frame and version without LOCK.
//! A writer sets LOCK (W1), fences (release), stores, and unlocks with version + 1 (release, W2).
//! After an install, the writer fences again before its stores (W1').
//! - A writer locked *this* page after L1, and the copy read its stores. By the two fences, W1
//!   happens before L2. L2 reads W1 or a later word, with LOCK or another version: refused.
//! - The frame moved: evicted here, then installed and filled under *another* page's word by any
//!   thread. LOCK here precedes the evict, the release of the claim, the next claim (acquire), the
//!   install and W1'. The fences of W1' and L2 order all of these before L2: refused. If this word
//!   has the frame back, the version differs (S5).
//! - The page moved (`relocate`) under LOCK: the mover copies into a claimed frame, then names that
//!   frame in the word. For the old frame this is an eviction. The mover leaves its bytes
//!   unchanged, so a reader that still finds the old word has the whole old page. The next page's
//!   filler orders the new word before its stores, as above. For the new frame this is a fill, with
//!   the fence W1'' between claim and first store: the last page's word refuses a reader of the
//!   last page. A ticket of the new word follows the unlock, and so the copy.
//! - A writer unlocked *before* L1, and the copy missed its stores: impossible, L1 acquires W2.
//!
//! One gap remains: 2^18 steps between L1 and L2 restore the version. The reader would have to
//! sleep through exactly 262,144 writes to one frame, at least 50 ms. It would return stale bytes,
//! but memory stays safe.
//!
//! **Ignored.** Which threads wait (see `wait`), and whether a decision is wise.
//!
//! Source: V. Leis et al., "Virtual-memory assisted buffer management", SIGMOD 2023. The sequence
//! lock follows H.-J. Boehm, MSPC 2012.

use pagetide_core::ids::FrameId;

use self::snapshot::{
    ABSENT, ASK, FRAME, FRAME_SHIFT, HINT, IDENTITY, LOCK, PAYLOAD_SHIFT, PIN_ONE, PINS, RESIDENT,
    SHADOW, STATE, VERSION_ONE, VERSION_SHIFT, WAITERS, YOUNG,
};
pub use self::snapshot::{PAYLOAD_BITS, PINS_MAX, Snapshot};
use crate::sync::{AtomicU64, Ordering, fence};

mod snapshot;

/// The effect of an access on YOUNG.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    /// Sets YOUNG for aging, as an access through a page table does.
    Young,
    /// Leaves no trace: an access through a descriptor, or the manager's own.
    Quiet,
}

/// The reason why a page could not be pinned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinRefused {
    /// No frame holds the page. Fill the page first.
    #[error("the page is not resident")]
    NotResident,
    /// Another thread fills, writes or evicts the page. Wait and retry.
    #[error("the page is locked")]
    Locked,
    /// All pins are taken. Read by copy, or retry after a release.
    #[error("the page is pinned {PINS_MAX} times already")]
    TooMany,
}

/// The reason why a page could not be locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockRefused {
    /// Another thread has the lock. Wait, or choose another page.
    #[error("the page is locked")]
    Locked,
    /// Guards hold the page in place. Retry after their release.
    #[error("the page is pinned {0} times")]
    Pinned(u32),
}

/// The word of a resident, unlocked page at the start of an optimistic read, to be checked after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "bytes copied under a ticket mean nothing until it is checked"]
pub struct ReadTicket(Snapshot);

impl ReadTicket {
    /// Returns the frame to copy from.
    #[inline]
    pub fn frame(self) -> FrameId {
        self.0.frame().expect("S5: a ticket is taken of a resident word")
    }

    /// Returns true if the page was already young, so that a caller can skip a useless write.
    pub fn is_young(self) -> bool {
        self.0.is_young()
    }

    /// Returns true if the word carried ASK when the read began.
    #[inline]
    pub fn asks(self) -> bool {
        self.0.0 & ASK != 0
    }

    /// Returns true if the page was marked with HINT when the read began.
    #[inline]
    pub fn is_hint(self) -> bool {
        self.0.0 & HINT != 0
    }
}

/// The result of [`PageWord::try_claim`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClaimOutcome {
    Locked,
    Young,
    Busy,
    Gone,
}

/// The word. Its methods trust their only callers, the tokens of `token`, to hold the needed
/// rights.
pub(crate) struct PageWord(AtomicU64);

impl PageWord {
    pub(crate) fn new_absent() -> PageWord {
        PageWord(AtomicU64::new(ABSENT))
    }

    pub(crate) fn load(&self) -> Snapshot {
        Snapshot(self.0.load(Ordering::Acquire))
    }

    /// Returns a ticket if the word is [plain](Self::peek_plain).
    #[inline]
    pub(crate) fn peek_plain_ticket(&self) -> Option<ReadTicket> {
        self.peek_plain().map(ReadTicket)
    }

    /// Returns a ticket for an optimistic read if the page is resident and unlocked.
    #[inline]
    pub(crate) fn peek(&self) -> Option<ReadTicket> {
        let now = self.0.load(Ordering::Acquire);
        (now & (STATE | LOCK) == RESIDENT).then_some(ReadTicket(Snapshot(now)))
    }

    /// Returns true if the page was not written, evicted or moved since the ticket was taken.
    #[inline]
    pub(crate) fn still(&self, ticket: ReadTicket) -> bool {
        fence(Ordering::Acquire);
        let now = self.0.load(Ordering::Relaxed);
        (now ^ ticket.0.0) & IDENTITY == 0
    }

    /// Adds a pin. Returns the word before the pin.
    #[inline]
    pub(crate) fn try_pin(&self, touch: Touch) -> Result<Snapshot, PinRefused> {
        let young = if touch == Touch::Young { YOUNG } else { 0 };
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            let seen = Snapshot(now);
            if !seen.is_resident() {
                let locked = seen.is_locked();
                return Err(if locked { PinRefused::Locked } else { PinRefused::NotResident });
            }
            if seen.is_locked() {
                return Err(PinRefused::Locked);
            }
            if seen.pins() == PINS_MAX {
                return Err(PinRefused::TooMany);
            }
            // SeqCst, not only Acquire: orders YOUNG before the load of the leaf's touched mark.
            match self.exchange(now, (now + PIN_ONE) | young) {
                Ok(()) => return Ok(seen),
                Err(newer) => now = newer,
            }
        }
    }

    /// Returns the word if the page can be pinned and has neither HINT nor ASK.
    #[inline]
    pub(crate) fn peek_plain(&self) -> Option<Snapshot> {
        let now = self.0.load(Ordering::Acquire);
        let is_plain = now & (STATE | LOCK | HINT | ASK) == RESIDENT && now & PINS != PINS;
        is_plain.then_some(Snapshot(now))
    }

    /// Adds a pin and YOUNG, if the [plain](Self::peek_plain) word is still equal to `seen`.
    /// Returns true on success.
    #[inline]
    pub(crate) fn try_pin_seen(&self, seen: Snapshot) -> bool {
        // SeqCst: see `try_pin`.
        self.exchange(seen.0, (seen.0 + PIN_ONE) | YOUNG).is_ok()
    }

    /// Removes a pin. Returns true if a thread waits for the page to become free.
    #[inline]
    pub(crate) fn unpin(&self) -> bool {
        // Release: the guard's reads precede the writes of the next lock holder.
        let before = Snapshot(self.0.fetch_sub(PIN_ONE, Ordering::Release));
        debug_assert!(before.pins() > 0 && !before.is_locked(), "S4: {before:?}");
        before.pins() == 1 && before.0 & WAITERS != 0
    }

    pub(crate) fn try_lock(&self) -> Result<(), LockRefused> {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            let seen = Snapshot(now);
            if seen.is_locked() {
                return Err(LockRefused::Locked);
            }
            if seen.pins() > 0 {
                return Err(LockRefused::Pinned(seen.pins()));
            }
            match self.exchange(now, now | LOCK) {
                Ok(()) => break,
                Err(newer) => now = newer,
            }
        }
        // W1: LOCK is visible before any later store to the frame.
        fence(Ordering::Release);
        Ok(())
    }

    /// Locks a page that is resident, free and not young. Clears YOUNG of a young page instead.
    pub(crate) fn try_claim(&self) -> ClaimOutcome {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            let seen = Snapshot(now);
            if !seen.is_free() {
                return ClaimOutcome::Busy;
            }
            if !seen.is_resident() {
                return ClaimOutcome::Gone;
            }
            let young = seen.is_young();
            match self.exchange(now, if young { now & !YOUNG } else { now | LOCK }) {
                Ok(()) if young => return ClaimOutcome::Young,
                Ok(()) => break,
                Err(newer) => now = newer,
            }
        }
        fence(Ordering::Release);
        ClaimOutcome::Locked
    }

    /// Clears YOUNG. Returns the frame if YOUNG was set.
    pub(crate) fn take_young(&self) -> Option<FrameId> {
        self.change_flag(YOUNG, false)?.frame()
    }

    pub(crate) fn set_young(&self) -> bool {
        self.change_flag(YOUNG, true).is_some()
    }

    pub(crate) fn set_hint(&self) -> bool {
        self.change_flag(HINT, true).is_some()
    }

    pub(crate) fn take_hint(&self) -> bool {
        self.change_flag(HINT, false).is_some()
    }

    /// Sets ASK. The caller has LOCK.
    pub(crate) fn set_ask(&self) {
        self.change_flag(ASK, true);
    }

    /// Clears ASK. The caller has a pin.
    pub(crate) fn take_ask(&self) {
        self.change_flag(ASK, false);
    }

    /// Sets `flag` of a resident word to `set`. Returns the old word if changed.
    fn change_flag(&self, flag: u64, set: bool) -> Option<Snapshot> {
        // SeqCst: see the touched mark in `table`.
        let mut now = self.0.load(Ordering::SeqCst);
        while now & STATE == RESIDENT && (now & flag != 0) != set {
            match self.exchange(now, now ^ flag) {
                Ok(()) => return Some(Snapshot(now)),
                Err(newer) => now = newer,
            }
        }
        None
    }

    #[inline]
    fn exchange(&self, from: u64, to: u64) -> Result<(), u64> {
        self.0.compare_exchange_weak(from, to, Ordering::SeqCst, Ordering::Relaxed).map(drop)
    }
}

/// Methods for the holder of LOCK.
impl PageWord {
    /// Makes the page resident in `frame`, at the frame's next version.
    pub(crate) fn install(&self, frame: FrameId, version: u32) {
        let version = u64::from(version) << VERSION_SHIFT;
        let frame = (u64::from(frame.0) << FRAME_SHIFT) & FRAME;
        self.replace(|_| RESIDENT | ASK | frame | version.wrapping_add(VERSION_ONE));
        // W1': the frame's departure from its last page is visible before any store to the frame.
        // The fence of this page's LOCK may be older than the claim.
        fence(Ordering::Release);
    }

    /// Removes the frame. Returns the old word. Cuts a payload to [`PAYLOAD_BITS`].
    pub(crate) fn evict(&self, shadow: Option<u64>) -> Snapshot {
        self.replace(|_| shadow.map_or(ABSENT, |payload| payload << PAYLOAD_SHIFT | SHADOW))
    }

    /// Call before the first store to a frame that is claimed but not installed.
    pub(crate) fn before_copy_in(&self) {
        debug_assert!(self.load().is_locked(), "S4: {:?}", self.load());
        // W1'': the counterpart of W1' for a frame that is filled before its install.
        fence(Ordering::Release);
    }

    /// Makes the page resident in `frame`, already filled, at the frame's next version. Returns the
    /// old word. Keeps YOUNG, clears HINT.
    pub(crate) fn relocate(&self, frame: FrameId, version: u32) -> Snapshot {
        let version = u64::from(version) << VERSION_SHIFT;
        let frame = (u64::from(frame.0) << FRAME_SHIFT) & FRAME;
        let version = version.wrapping_add(VERSION_ONE);
        self.replace(|now| RESIDENT | ASK | frame | version | now & YOUNG)
    }

    /// Clears LOCK, with a new version if the frame was `wrote`. Returns true if a thread waits.
    pub(crate) fn unlock(&self, wrote: bool) -> bool {
        self.let_go(wrote, 0)
    }

    /// Same as [`unlock`](Self::unlock), but leaves one pin.
    pub(crate) fn unlock_to_pin(&self, wrote: bool) -> bool {
        self.let_go(wrote, PIN_ONE)
    }

    fn let_go(&self, wrote: bool, pin: u64) -> bool {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            debug_assert!(now & LOCK != 0, "S4: {:?}", Snapshot(now));
            let bump = if wrote && now & STATE == RESIDENT { VERSION_ONE } else { 0 };
            // The version is on top, so an overflow leaves the word and changes no other field.
            let free = (now & !LOCK).wrapping_add(bump) + pin;
            // W2. `wake` clears WAITERS, under the waiters' mutex.
            match self.exchange(now, free) {
                Ok(()) => return now & WAITERS != 0,
                Err(newer) => now = newer,
            }
        }
    }

    /// Replaces everything except LOCK and WAITERS.
    fn replace(&self, next: impl Fn(u64) -> u64) -> Snapshot {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            debug_assert!(now & LOCK != 0, "S4: {:?}", Snapshot(now));
            match self.exchange(now, next(now) | now & (LOCK | WAITERS)) {
                Ok(()) => return Snapshot(now),
                Err(newer) => now = newer,
            }
        }
    }
}

/// Methods for `wait`, which calls both under the mutex of the word's bucket.
impl PageWord {
    /// Sets WAITERS while `waits` holds. Returns true if set.
    pub(crate) fn announce_waiter(&self, waits: impl Fn(Snapshot) -> bool) -> bool {
        let mut now = self.0.load(Ordering::Acquire);
        while waits(Snapshot(now)) {
            if now & WAITERS != 0 {
                return true;
            }
            match self.exchange(now, now | WAITERS) {
                Ok(()) => return true,
                Err(newer) => now = newer,
            }
        }
        false
    }

    pub(crate) fn clear_waiters(&self) {
        self.0.fetch_and(!WAITERS, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
