//! The page word: one atomic 64-bit number that says everything about one page.
//!
//! **Problem.** A hit must not take a lock, nor write a line that other CPUs read; an eviction must
//! exclude every user of the frame; and both must agree with the kernel, which fills frames.
//!
//! **Idea.** State, frame, pins and a version in one word, so that each decision is one
//! compare-and-swap, and a reader that wrote nothing can tell afterwards whether it was disturbed.
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
//!   version or payload, or writes the frame; it does so only until it clears LOCK.
//! - WAITERS, YOUNG and HINT may change at any time (YOUNG and HINT while resident only).
//! - ASK stands for every rare reason why an access has more to do than to pin the page: its bytes
//!   are not in its frame, its frame is slow memory, or the descriptor of its frame is marked. The
//!   word has ASK from each install and each move on. The holder of LOCK sets ASK before it makes
//!   such a reason. Only the holder of a pin takes ASK away, after it has found no reason. LOCK and
//!   pins exclude each other, so no reason is made meanwhile, and a resident, unlocked word without
//!   ASK has none.
//! - S5: a version rises with each install and with each unlock after a write; it follows the
//!   frame through [`ClaimedFrame`](crate::ClaimedFrame). So (frame, version) does not repeat
//!   within 2^18 steps.
//!
//! **Why an accepted optimistic read is whole.** The reader loads the word (acquire, L1), copies,
//! fences (acquire), loads again (L2), and accepts when state, frame and version are equal and
//! LOCK is clear. A writer sets LOCK (W1), fences (release), stores, unlocks with version + 1
//! (release, W2); one that installed the frame under LOCK fences again before it stores (W1').
//! - Reader sees the stores of a writer that locked *this* page after L1: a store read by the copy,
//!   with the two fences, makes W1 happen before L2. L2 reads W1 or something later in the word's
//!   order: LOCK, or another version. Refused.
//! - The frame moved: evicted here, installed and filled under *another* page's word, by whatever
//!   thread. LOCK here came before evict, before release of the claim, before the other's claim
//!   (acquire), before its install and W1'. The fences of W1' and L2 order all that before L2:
//!   refused, unless this word has the same frame back, and then with another version (S5).
//! - The page moved (`relocate`), under LOCK: the mover copies into a claimed frame, and only
//!   then names that frame in the word. For the frame left behind this is an eviction: its bytes
//!   are not touched, so a reader that copied them and still finds the old word has the page as it
//!   was, and its next page's filler orders the new word before its stores, as above. For the frame
//!   moved to it is a fill, with the fence W1'' between the claim and the first store: a reader of
//!   the page that was there before is refused by its own word. A ticket of the new word is taken
//!   after the unlock, and so after the copy.
//! - Reader misses stores of a writer that unlocked *before* L1: L1 is an acquire of W2. Cannot be.
//!
//! What remains: 2^18 steps between L1 and L2 would bring the version back. That takes a reader
//! that stands still for the 50 ms or more of 262,144 writes to one frame, and wakes in exactly the
//! right one; it would return stale bytes, and endanger no memory.
//!
//! **Ignored.** Which threads wait (see `wait`), and whether a decision is wise.
//!
//! Source: V. Leis et al., "Virtual-memory assisted buffer management", SIGMOD 2023; the sequence
//! lock after H.-J. Boehm, MSPC 2012.

use pagetide_core::ids::FrameId;

use self::snapshot::{
    ABSENT, ASK, FRAME, FRAME_SHIFT, HINT, IDENTITY, LOCK, PAYLOAD_SHIFT, PIN_ONE, PINS, RESIDENT,
    SHADOW, STATE, VERSION_ONE, VERSION_SHIFT, WAITERS, YOUNG,
};
pub use self::snapshot::{PAYLOAD_BITS, PINS_MAX, Snapshot};
use crate::sync::{AtomicU64, Ordering, fence};

mod snapshot;

/// Whether an access makes its page young.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    /// An access like one through a page table: sets YOUNG, which aging sees.
    Young,
    /// An access that leaves no trace here: through a descriptor, or the manager's own.
    Quiet,
}

/// Why a page could not be pinned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinRefused {
    /// No frame holds the page; fill it first.
    #[error("the page is not resident")]
    NotResident,
    /// A thread fills, writes or evicts it; wait and look again.
    #[error("the page is locked")]
    Locked,
    /// All pins are taken; read by copy, or retry after a release.
    #[error("the page is pinned {PINS_MAX} times already")]
    TooMany,
}

/// Why a page could not be locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockRefused {
    /// Another thread has the lock; wait, or choose another page.
    #[error("the page is locked")]
    Locked,
    /// Guards hold the page in place; retry after their release.
    #[error("the page is pinned {0} times")]
    Pinned(u32),
}

/// A promise to check: the page was in this frame, and unlocked, when an optimistic read began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "bytes copied under a ticket mean nothing until it is checked"]
pub struct ReadTicket(Snapshot);

impl ReadTicket {
    /// The frame to copy from.
    #[inline]
    pub fn frame(self) -> FrameId {
        self.0.frame().expect("S5: a ticket is taken of a resident word")
    }

    /// Whether the page was young already, so that marking it would write for nothing.
    pub fn is_young(self) -> bool {
        self.0.is_young()
    }

    /// Returns true if the word carried ASK when the read began.
    #[inline]
    pub fn asks(self) -> bool {
        self.0.0 & ASK != 0
    }

    /// Whether the page was marked with HINT when the read began.
    #[inline]
    pub fn is_hint(self) -> bool {
        self.0.0 & HINT != 0
    }
}

/// What an attempt to take a page for eviction came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClaimOutcome {
    Locked,
    Young,
    Busy,
    Gone,
}

/// The word itself. Its methods trust their callers to hold what they say they hold: the tokens of
/// `token` do, by their types, and are the only callers.
pub(crate) struct PageWord(AtomicU64);

impl PageWord {
    pub(crate) fn new_absent() -> PageWord {
        PageWord(AtomicU64::new(ABSENT))
    }

    pub(crate) fn load(&self) -> Snapshot {
        Snapshot(self.0.load(Ordering::Acquire))
    }

    /// Returns a ticket if the word [is plain](Self::peek_plain).
    #[inline]
    pub(crate) fn peek_plain_ticket(&self) -> Option<ReadTicket> {
        self.peek_plain().map(ReadTicket)
    }

    /// Resident and unlocked: a ticket for an optimistic read.
    #[inline]
    pub(crate) fn peek(&self) -> Option<ReadTicket> {
        let now = self.0.load(Ordering::Acquire);
        (now & (STATE | LOCK) == RESIDENT).then_some(ReadTicket(Snapshot(now)))
    }

    /// Whether the page was neither written, evicted nor moved since the ticket was taken.
    #[inline]
    pub(crate) fn still(&self, ticket: ReadTicket) -> bool {
        fence(Ordering::Acquire);
        let now = self.0.load(Ordering::Relaxed);
        (now ^ ticket.0.0) & IDENTITY == 0
    }

    /// Adds a pin; returns the resident word as it was before.
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
            // SeqCst, not only Acquire: orders YOUNG before the look at the leaf's touched mark.
            match self.exchange(now, (now + PIN_ONE) | young) {
                Ok(()) => return Ok(seen),
                Err(newer) => now = newer,
            }
        }
    }

    /// Returns the word if the page can be pinned, and its word carries neither HINT nor ASK.
    #[inline]
    pub(crate) fn peek_plain(&self) -> Option<Snapshot> {
        let now = self.0.load(Ordering::Acquire);
        let is_plain = now & (STATE | LOCK | HINT | ASK) == RESIDENT && now & PINS != PINS;
        is_plain.then_some(Snapshot(now))
    }

    /// Adds a pin and YOUNG to a word that [can be pinned](Self::peek_plain), and has not changed
    /// since it was `seen`; returns true if it has not.
    #[inline]
    pub(crate) fn try_pin_seen(&self, seen: Snapshot) -> bool {
        // SeqCst: see `try_pin`.
        self.exchange(seen.0, (seen.0 + PIN_ONE) | YOUNG).is_ok()
    }

    /// Takes a pin away; returns whether a thread waits for the page to become free.
    #[inline]
    pub(crate) fn unpin(&self) -> bool {
        // Release: the guard's reads come before whatever the next lock holder writes.
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
        // W1: LOCK is visible before any store to the frame that follows.
        fence(Ordering::Release);
        Ok(())
    }

    /// Locks the page if it is resident, free and not young; takes YOUNG away if it is.
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

    /// Clears YOUNG; returns the frame if it was set.
    pub(crate) fn take_young(&self) -> Option<FrameId> {
        self.change_flag(YOUNG, false, |_| true)?.frame()
    }

    pub(crate) fn set_young(&self) -> bool {
        self.change_flag(YOUNG, true, |_| true).is_some()
    }

    pub(crate) fn set_hint(&self) -> bool {
        self.change_flag(HINT, true, |_| true).is_some()
    }

    pub(crate) fn take_hint(&self) -> bool {
        self.change_flag(HINT, false, |_| true).is_some()
    }

    /// Sets ASK. The caller has LOCK.
    pub(crate) fn set_ask(&self) {
        self.change_flag(ASK, true, |_| true);
    }

    /// Takes ASK away. The caller has a pin.
    pub(crate) fn take_ask(&self) {
        self.change_flag(ASK, false, |_| true);
    }

    /// Makes `flag` of a resident word `set`, where `wanted`; returns the word before if that
    /// changed it.
    fn change_flag(&self, flag: u64, set: bool, wanted: impl Fn(u64) -> bool) -> Option<Snapshot> {
        // SeqCst: see the touched mark in `table`.
        let mut now = self.0.load(Ordering::SeqCst);
        while now & STATE == RESIDENT && (now & flag != 0) != set && wanted(now) {
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

/// For the holder of LOCK.
impl PageWord {
    /// Makes the page resident in `frame`, at the version after the frame's last.
    pub(crate) fn install(&self, frame: FrameId, version: u32) {
        let version = u64::from(version) << VERSION_SHIFT;
        let frame = (u64::from(frame.0) << FRAME_SHIFT) & FRAME;
        self.replace(|_| RESIDENT | ASK | frame | version.wrapping_add(VERSION_ONE));
        // W1': that the frame left its last page is visible before any store to it. The fence of
        // this page's LOCK may be older than the claim.
        fence(Ordering::Release);
    }

    /// Takes the frame away; returns the word as it was. A payload is cut to [`PAYLOAD_BITS`].
    pub(crate) fn evict(&self, shadow: Option<u64>) -> Snapshot {
        self.replace(|_| shadow.map_or(ABSENT, |payload| payload << PAYLOAD_SHIFT | SHADOW))
    }

    /// To be called before the first store to a frame that is claimed and not installed yet.
    pub(crate) fn before_copy_in(&self) {
        debug_assert!(self.load().is_locked(), "S4: {:?}", self.load());
        // W1'': what W1' is to a frame that is installed before it is filled.
        fence(Ordering::Release);
    }

    /// Makes the page resident in another `frame`, which has its contents already, at the version
    /// after the frame's last; returns the word as it was. YOUNG stays, HINT goes.
    pub(crate) fn relocate(&self, frame: FrameId, version: u32) -> Snapshot {
        let version = u64::from(version) << VERSION_SHIFT;
        let frame = (u64::from(frame.0) << FRAME_SHIFT) & FRAME;
        let version = version.wrapping_add(VERSION_ONE);
        self.replace(|now| RESIDENT | ASK | frame | version | now & YOUNG)
    }

    /// Clears LOCK, with a new version if the frame was `wrote`; returns whether a thread waits.
    pub(crate) fn unlock(&self, wrote: bool) -> bool {
        self.let_go(wrote, 0)
    }

    /// As [`unlock`](Self::unlock), but leaves the page pinned once.
    pub(crate) fn unlock_to_pin(&self, wrote: bool) -> bool {
        self.let_go(wrote, PIN_ONE)
    }

    fn let_go(&self, wrote: bool, pin: u64) -> bool {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            debug_assert!(now & LOCK != 0, "S4: {:?}", Snapshot(now));
            let bump = if wrote && now & STATE == RESIDENT { VERSION_ONE } else { 0 };
            // The version is on top, so it wraps out of the word and touches nothing.
            let free = (now & !LOCK).wrapping_add(bump) + pin;
            // W2. A waiter's bit stays for `wake` to clear, under the waiters' mutex.
            match self.exchange(now, free) {
                Ok(()) => return now & WAITERS != 0,
                Err(newer) => now = newer,
            }
        }
    }

    /// Replaces the state and all that belongs to it; keeps LOCK and WAITERS.
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

/// For `wait`, which calls both under the mutex of the word's bucket.
impl PageWord {
    /// Announces a waiter, unless the page is free; returns whether it was announced.
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
