//! How long a thread looks for what it waits for before it sleeps until that comes.
//!
//! **Problem.** To wake a thread that sleeps on another, idle processor takes up to 50 us, most of
//! all in a virtual machine, where that processor has to be started again; the packet itself takes
//! four. **Idea.** Look for a while, and let other threads run between two looks. Where it comes
//! late that is soon given up, until it comes early again.
//!
//! ```text
//!   came while looking, or soon after    the window is twice as long, up to its most
//!   came late                            half as long, down to none
//!   another thread ran on and on         no looks for as long as makes up for what that took
//! ```
//!
//! A thread that lets others run gives up its turn: one that computes beside it has the processor
//! for milliseconds, while one that sleeps gets it back as it wakes.
//!
//! **Data.** One window a waiting end. **Ignored.** What a wake-up costs on this machine.
//!
//! Source: the growing and shrinking of a virtual processor's polling before it halts,
//! Documentation/virt/kvm/halt-polling.rst.

use std::time::{Duration, Instant};

/// A wake-up costs a quarter of that where it costs most; a program that creates files by the
/// thousand asks so often.
const WINDOW_MAX: Duration = Duration::from_micros(200);
/// A window that would be shorter than that is none; the first after none is as long.
const WINDOW_MIN: Duration = Duration::from_micros(10);
/// What runs so long between two looks computes: schedulers' turns are of milliseconds.
const TURN_MIN: Duration = Duration::from_millis(2);
/// So many times what that took, there are no looks: once, and where it happens again and again.
const REST_MIN: u32 = 4;
const REST_MAX: u32 = 64;

/// The patience of one end of one socket.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    window: Duration,
    rest: u32,
    rests_until: Option<Instant>,
}

impl Patience {
    /// That of an end that knows nothing of the other yet.
    pub const NEW: Patience = Patience { window: WINDOW_MAX, rest: REST_MIN, rests_until: None };

    /// Waits for what `look` finds, or `sleep` brings: at first by looking, with other threads'
    /// turns between.
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

    /// Other threads had their turn.
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
