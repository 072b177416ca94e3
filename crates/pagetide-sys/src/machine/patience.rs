//! Adaptive spinning: polls for a while before blocking.
//!
//! **Problem.** Waking a thread on an idle processor takes up to 50 us, the packet itself 4 us.
//! **Idea.** Poll for a while, and yield between polls, as long as answers come early.
//!
//! ```text
//!   answer while polling, or soon after  doubles the window, up to its maximum
//!   late answer                          halves the window, down to none
//!   another thread kept the processor    pauses polling in proportion to the time lost
//! ```
//!
//! A thread that yields to a computing thread loses the processor for milliseconds, unlike a
//! sleeping thread.
//!
//! **Data.** One window per waiting end. **Ignored.** The wake-up cost of the machine.
//!
//! Source: Documentation/virt/kvm/halt-polling.rst.

use std::time::{Duration, Instant};

/// Four times the longest wake-up.
const WINDOW_MAX: Duration = Duration::from_micros(200);
/// Shorter windows become none. The first window after none has this length.
const WINDOW_MIN: Duration = Duration::from_micros(10);
/// Longer than a yield without a computing thread: time slices are milliseconds.
const TURN_MIN: Duration = Duration::from_millis(2);
/// The pause in multiples of the time lost: at first, and at most after repeated losses.
const REST_MIN: u32 = 4;
const REST_MAX: u32 = 64;

/// The spin state of one end of a socket.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    window: Duration,
    rest: u32,
    rests_until: Option<Instant>,
}

impl Patience {
    /// The state before the first wait.
    pub const NEW: Patience = Patience { window: WINDOW_MAX, rest: REST_MIN, rests_until: None };

    /// Waits for a result, at first by polling `look` and yielding, then by `sleep`.
    pub fn wait<T>(&mut self, mut look: impl FnMut() -> Option<T>, sleep: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        if self.rests_until.is_some_and(|end| began < end) {
            return sleep();
        }
        let (mut now, mut found) = (began, None);
        while found.is_none() && now - began < self.window {
            found = look();
            if found.is_none() {
                std::thread::yield_now();
                let before = std::mem::replace(&mut now, Instant::now());
                self.note_turn(before, now);
            }
        }
        if found.is_some() {
            self.rest = REST_MIN;
        }
        let found = found.unwrap_or_else(sleep);
        self.learn(began.elapsed());
        found
    }

    fn note_turn(&mut self, from: Instant, to: Instant) {
        if to - from >= TURN_MIN {
            self.rests_until = Some(to + (to - from) * self.rest);
            self.rest = REST_MAX.min(self.rest * 2);
        }
    }

    fn learn(&mut self, waited: Duration) {
        self.window = match self.window {
            window if waited <= WINDOW_MAX => (window * 2).clamp(WINDOW_MIN, WINDOW_MAX),
            window if window / 2 >= WINDOW_MIN => window / 2,
            _ => Duration::ZERO,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_without_sleep() {
        let mut patience = Patience::NEW;
        let found = patience.wait(|| Some(7), || unreachable!("it was there"));
        assert_eq!(found, 7);
    }

    #[test]
    fn what_comes_late_ends_the_looking_and_what_comes_early_begins_it() {
        let late = WINDOW_MAX + Duration::from_nanos(1);
        let mut patience = Patience::NEW;
        for expected in [100_000, 50_000, 25_000, 12_500, 0, 0] {
            patience.learn(late);
            assert_eq!(patience.window.as_nanos(), expected);
        }
        assert_eq!(patience.wait(|| unreachable!("no window"), || 7), 7);
        for _ in 0..6 {
            patience.learn(WINDOW_MAX);
        }
        assert_eq!(patience.window, WINDOW_MAX);
    }

    #[test]
    fn beside_a_thread_that_computes_nothing_is_looked_for_until_that_was_made_up_for() {
        let mut patience = Patience::NEW;
        let now = Instant::now();
        patience.note_turn(now, now + TURN_MIN - Duration::from_nanos(1));
        assert_eq!(patience.wait(|| Some(7), || unreachable!("a short turn")), 7);
        let turn = Duration::from_secs(3600);
        for rest in [4, 8, 16, 32, 64, 64] {
            patience.note_turn(now, now + turn);
            assert_eq!(patience.rests_until, Some(now + turn + turn * rest));
        }
        assert_eq!(patience.wait(|| unreachable!("no look"), || 7), 7);
        patience.rests_until = Some(now);
        assert_eq!(patience.wait(|| Some(7), || unreachable!("made up for")), 7);
        assert_eq!(patience.rest, REST_MIN);
    }
}
