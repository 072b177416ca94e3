//! How long an end looks for the next packet before it sleeps until one comes.
//!
//! **Problem.** To wake a thread that sleeps on another, idle processor takes up to 50 us, most of
//! all in a virtual machine, where that processor has to be started again; the packet itself takes
//! four. **Idea.** Look for a while, and let other threads run between two looks. Where packets
//! come late that is soon given up, until one comes early again.
//!
//! ```text
//!   came while looking, or soon after    the window is twice as long, up to its most
//!   came late                            half as long, down to none
//! ```
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

/// The patience of one end of one socket.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    window: Duration,
}

impl Patience {
    /// That of an end that knows nothing of the other yet.
    pub const NEW: Patience = Patience { window: WINDOW_MAX };

    /// Waits for what `look` finds, or `sleep` brings: at first by looking, with other threads'
    /// turns between.
    pub fn wait<T>(&mut self, mut look: impl FnMut() -> Option<T>, sleep: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let mut found = None;
        while found.is_none() && began.elapsed() < self.window {
            found = look();
            if found.is_none() {
                std::thread::yield_now();
            }
        }
        let found = found.unwrap_or_else(sleep);
        self.learn(began.elapsed());
        found
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
}
