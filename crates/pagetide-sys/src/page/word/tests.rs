//! The word against a naive model, and edge cases.

use super::*;
use crate::memory::arena::VERSION_MASK;

/// An operation on a word, with the required hold.
#[derive(Clone, Copy, Debug)]
enum Op {
    Pin(bool),
    Unpin,
    Lock,
    Claim,
    Install(u32),
    Relocate(u32),
    Evict(Option<u64>),
    Unlock { wrote: bool },
    UnlockToPin { wrote: bool },
    TakeYoung,
    SetYoung,
    SetHint,
    TakeHint,
    SetAsk,
    TakeAsk,
    PinPlain,
    Announce,
    ClearWaiters,
}

/// The word as plain fields.
#[derive(Clone, Debug, Default, PartialEq)]
struct Twin {
    frame: Option<(u32, u32)>,
    shadow: Option<u64>,
    pins: u32,
    locked: bool,
    waiters: bool,
    young: bool,
    hint: bool,
    ask: bool,
}

impl Twin {
    fn apply(&mut self, op: Op, word: &PageWord) {
        match op {
            Op::Pin(young) => self.pin(young, word),
            Op::Unpin if self.pins > 0 => {
                self.pins -= 1;
                assert_eq!(word.unpin(), self.pins == 0 && self.waiters);
            }
            Op::Lock => self.lock(word),
            Op::Claim => self.claim(word),
            Op::Install(frame) if self.locked && self.frame.is_none() => {
                word.install(FrameId(frame), VERSION_MASK);
                *self = Twin {
                    frame: Some((frame, 0)),
                    locked: true,
                    waiters: self.waiters,
                    ask: true,
                    ..Twin::default()
                };
            }
            Op::Relocate(frame) if self.locked && self.frame.is_some() => {
                word.before_copy_in();
                let before = word.relocate(FrameId(frame), VERSION_MASK);
                let was = self.frame.replace((frame, 0)).map(|(frame, _)| frame);
                assert_eq!(before.frame().map(|frame| frame.0), was);
                (self.hint, self.ask) = (false, true);
            }
            Op::Evict(shadow) if self.locked => {
                assert_eq!(
                    word.evict(shadow).frame().map(|frame| frame.0),
                    self.frame.map(|f| f.0)
                );
                *self = Twin { shadow, locked: true, waiters: self.waiters, ..Twin::default() };
            }
            Op::Unlock { wrote } if self.locked => {
                self.locked = false;
                self.bump(wrote);
                assert_eq!(word.unlock(wrote), self.waiters);
            }
            Op::UnlockToPin { wrote } if self.locked && self.frame.is_some() => {
                (self.locked, self.pins) = (false, 1);
                self.bump(wrote);
                assert_eq!(word.unlock_to_pin(wrote), self.waiters);
            }
            Op::TakeYoung => {
                let taken = word.take_young();
                assert_eq!(taken.is_some(), std::mem::take(&mut self.young));
            }
            Op::SetYoung => {
                let resident = self.frame.is_some();
                assert_eq!(word.set_young(), resident && !self.young);
                self.young |= resident;
            }
            Op::SetHint => {
                let resident = self.frame.is_some();
                assert_eq!(word.set_hint(), resident && !self.hint);
                self.hint |= resident;
            }
            Op::SetAsk => {
                word.set_ask();
                self.ask |= self.frame.is_some();
            }
            Op::TakeAsk => {
                word.take_ask();
                self.ask = false;
            }
            Op::PinPlain => self.pin_plain(word),
            Op::TakeHint => assert_eq!(word.take_hint(), std::mem::take(&mut self.hint)),
            Op::Announce => {
                let busy = self.locked || self.pins > 0;
                assert_eq!(word.announce_waiter(|seen| !seen.is_free()), busy);
                self.waiters |= busy;
            }
            Op::ClearWaiters => {
                word.clear_waiters();
                self.waiters = false;
            }
            // Needs a lock or pin, and none is held.
            Op::Unpin
            | Op::Install(_)
            | Op::Relocate(_)
            | Op::Evict(_)
            | Op::Unlock { .. }
            | Op::UnlockToPin { .. } => {}
        }
    }

    fn pin(&mut self, young: bool, word: &PageWord) {
        let result = word.try_pin(if young { Touch::Young } else { Touch::Quiet });
        match self.frame {
            _ if self.locked => assert_eq!(result, Err(PinRefused::Locked)),
            None => assert_eq!(result, Err(PinRefused::NotResident)),
            Some((frame, _)) => {
                let before = result.expect("resident and unlocked");
                assert_eq!(before.frame(), Some(FrameId(frame)));
                assert_eq!((before.is_young(), before.is_hint()), (self.young, self.hint));
                self.pins += 1;
                self.young |= young;
            }
        }
    }

    fn pin_plain(&mut self, word: &PageWord) {
        let is_plain = self.frame.is_some() && !self.locked && !self.hint && !self.ask;
        let seen = word.peek_plain();
        assert_eq!(seen.is_some(), is_plain);
        let Some(seen) = seen else { return };
        assert_eq!(seen.frame().map(|frame| frame.0), self.frame.map(|(frame, _)| frame));
        assert!(word.try_pin_seen(seen));
        assert!(!word.try_pin_seen(seen), "the word has changed");
        (self.pins, self.young) = (self.pins + 1, true);
    }

    fn lock(&mut self, word: &PageWord) {
        let result = word.try_lock();
        match (self.locked, self.pins) {
            (true, _) => assert_eq!(result, Err(LockRefused::Locked)),
            (_, 0) => {
                assert_eq!(result, Ok(()));
                self.locked = true;
            }
            (_, pins) => assert_eq!(result, Err(LockRefused::Pinned(pins))),
        }
    }

    fn claim(&mut self, word: &PageWord) {
        let expected = if self.locked || self.pins > 0 {
            ClaimOutcome::Busy
        } else if self.frame.is_none() {
            ClaimOutcome::Gone
        } else if std::mem::take(&mut self.young) {
            ClaimOutcome::Young
        } else {
            self.locked = true;
            ClaimOutcome::Locked
        };
        assert_eq!(word.try_claim(), expected);
    }

    fn bump(&mut self, wrote: bool) {
        if let (true, Some((_, version))) = (wrote, &mut self.frame) {
            *version = (*version + 1) & VERSION_MASK;
        }
    }

    fn check(&self, word: &PageWord) {
        let seen = word.load();
        assert_eq!(seen.frame().map(|frame| frame.0), self.frame.map(|(frame, _)| frame));
        if let Some((_, version)) = self.frame {
            assert_eq!(seen.version(), version);
        }
        assert_eq!(seen.shadow(), self.shadow);
        assert_eq!(seen.is_absent(), self.frame.is_none() && self.shadow.is_none());
        assert_eq!((seen.pins(), seen.is_locked()), (self.pins, self.locked));
        assert_eq!((seen.is_young(), seen.is_hint()), (self.young, self.hint));
        assert_eq!(seen.asks(), self.ask);
        assert_eq!(seen.0 & WAITERS != 0, self.waiters);
        assert_eq!(word.peek().is_some(), self.frame.is_some() && !self.locked);
    }
}

fn check_against_twin(ops: impl IntoIterator<Item = Op>) {
    let (word, mut twin) = (PageWord::new_absent(), Twin::default());
    for op in ops {
        // A write, move or lock invalidates tickets. Nothing else does.
        let ticket = word.peek();
        let before = (twin.frame, twin.locked);
        twin.apply(op, &word);
        twin.check(&word);
        if let Some(ticket) = ticket {
            assert_eq!(word.still(ticket), before == (twin.frame, twin.locked), "{op:?}");
        }
    }
}

/// Returns operation `kind` of eighteen, with `bit` and `number` as arguments.
fn op(kind: u8, bit: bool, number: u64) -> Op {
    let payload = [0, (1 << PAYLOAD_BITS) - 1, number >> 4][number as usize % 3];
    match kind {
        0 => Op::Pin(bit),
        1 => Op::Unpin,
        2 => Op::Lock,
        3 => Op::Claim,
        4 => Op::Install(number as u32 % crate::NR_FRAMES_MAX),
        5 => Op::Evict(bit.then_some(payload)),
        6 => Op::Unlock { wrote: bit },
        7 => Op::UnlockToPin { wrote: bit },
        8 => Op::TakeYoung,
        9 => Op::SetYoung,
        10 => Op::SetHint,
        11 => Op::TakeHint,
        12 => Op::Announce,
        13 => Op::Relocate(number as u32 % crate::NR_FRAMES_MAX),
        14 => Op::SetAsk,
        15 => Op::TakeAsk,
        16 => Op::PinPlain,
        _ => Op::ClearWaiters,
    }
}

#[cfg(not(miri))]
mod model {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 512,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn word_agrees_with_its_twin(
            ops in prop::collection::vec((0..18_u8, any::<bool>(), any::<u64>()), 1..200)
        ) {
            check_against_twin(ops.into_iter().map(|(kind, bit, number)| op(kind, bit, number)));
        }
    }
}

/// Proptest takes minutes under Miri, so one fixed sequence runs there.
#[cfg(miri)]
#[test]
fn word_agrees_with_its_twin() {
    let mut state = 1_u64;
    check_against_twin((0..2000).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        op((state >> 33) as u8 % 18, state >> 62 & 1 == 0, state >> 3)
    }));
}

fn resident_word() -> PageWord {
    let word = PageWord::new_absent();
    assert_eq!(word.try_lock(), Ok(()));
    word.install(FrameId(7), 41);
    assert!(!word.unlock(true));
    word
}

#[test]
fn word_prints_what_it_holds() {
    let word = resident_word();
    assert!(word.set_young());
    assert_eq!(format!("{:?}", word.load()), "Fx7 v43 pins 0 young ask");
    assert_eq!(format!("{:?}", PageWord::new_absent().load()), "absent");
}

#[test]
fn pins_end_at_their_maximum_and_leave_the_frame_alone() {
    let word = resident_word();
    for _ in 0..PINS_MAX {
        assert!(word.try_pin(Touch::Quiet).is_ok());
    }
    assert_eq!(word.try_pin(Touch::Quiet), Err(PinRefused::TooMany));
    assert_eq!(word.try_lock(), Err(LockRefused::Pinned(PINS_MAX)));
    assert_eq!(word.load().frame(), Some(FrameId(7)));
    word.take_ask();
    assert!(word.peek_plain().is_none());
    for _ in 0..PINS_MAX {
        assert!(!word.unpin());
    }
    assert_eq!(word.load().pins(), 0);
}

#[test]
fn ticket_survives_pins_and_marks_only() {
    let word = resident_word();
    let ticket = word.peek().expect("resident and unlocked");
    assert!(word.try_pin(Touch::Young).is_ok());
    assert!(word.set_hint());
    assert!(word.still(ticket));
    word.unpin();
    assert_eq!(word.try_lock(), Ok(()));
    assert!(!word.still(ticket), "locked");
    word.unlock(false);
    assert!(word.still(ticket), "nothing was written");
    assert_eq!(word.try_lock(), Ok(()));
    word.unlock(true);
    assert!(!word.still(ticket), "written");
}
