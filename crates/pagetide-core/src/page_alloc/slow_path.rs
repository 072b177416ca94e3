//! The slow path: attempts after the fast path fails.
//!
//! Both worlds follow this state machine: it returns the next attempt, and the world reports the
//! result.
//!
//! ```text
//!   take at LOW --no--> wake background --> take at MIN --no--> direct reclaim <------------+
//!                                                                |          \              |
//!                                                           no progress   progress         |
//!                                                                |             \           |
//!        drain all CPUs' lists and logs, reclaim once more <-----+      take at MIN --no---+
//!                      |                                                (at most 16 times)
//!                 take at NONE --no--> fail
//! ```
//!
//! Other CPUs' lists hold free frames, and their access logs hold unlisted folios. Both are drained
//! before a failure. The last take ignores the watermarks. After a failure the page is read past
//! the cache.
//!
//! **Source.** Linux 6.18's page allocator, retries included.

use super::WatermarkLevel;

const RECLAIM_ROUNDS_MAX: u8 = 16;

/// Next attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Attempt {
    /// Take a frame above the level. [`Attempted::Failed`] if there is none.
    Take(Option<WatermarkLevel>),
    /// Wake background reclaim.
    WakeBackground,
    /// Run a direct reclaim pass. [`Attempted::Failed`] if it freed nothing.
    DirectReclaim,
    /// Drain all CPUs' frame lists and access logs. With other threads, first create a
    /// [`Starving`](super::Starving) and keep it for the rest of the allocation.
    DrainCpus,
    /// Fail: no frame is left.
    GiveUp,
}

/// Result of the last attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attempted {
    /// Done, or something was freed.
    Progress,
    /// Nothing was found or freed.
    Failed,
}

/// State of one allocation.
#[derive(Debug, Default)]
pub struct SlowPath {
    last: Option<Attempt>,
    rounds: u8,
    drained: bool,
}

impl SlowPath {
    /// Starts at the first attempt.
    pub fn new() -> SlowPath {
        SlowPath::default()
    }

    /// Starts after the LOW takes on all nodes and the wake-up.
    pub fn after_wake() -> SlowPath {
        SlowPath { last: Some(Attempt::WakeBackground), ..SlowPath::default() }
    }

    /// Returns the next attempt, given the last outcome.
    pub fn next(&mut self, outcome: Attempted) -> Attempt {
        let next = match self.last {
            None => Attempt::Take(Some(WatermarkLevel::Low)),
            Some(Attempt::Take(Some(WatermarkLevel::Low))) => Attempt::WakeBackground,
            Some(Attempt::WakeBackground) => Attempt::Take(Some(WatermarkLevel::Min)),
            Some(Attempt::Take(Some(_))) if self.rounds < RECLAIM_ROUNDS_MAX => {
                self.rounds += 1;
                Attempt::DirectReclaim
            }
            Some(Attempt::DirectReclaim) if outcome == Attempted::Progress => {
                Attempt::Take(Some(WatermarkLevel::Min))
            }
            Some(Attempt::Take(Some(_)) | Attempt::DirectReclaim) if !self.drained => {
                self.drained = true;
                Attempt::DrainCpus
            }
            Some(Attempt::DrainCpus) => Attempt::DirectReclaim,
            Some(Attempt::Take(Some(_)) | Attempt::DirectReclaim) => Attempt::Take(None),
            Some(Attempt::Take(None) | Attempt::GiveUp) => Attempt::GiveUp,
        };
        self.last = Some(next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn attempts(outcome_of: impl Fn(Attempt) -> Attempted) -> Vec<Attempt> {
        let mut path = SlowPath::new();
        let mut made = Vec::new();
        let mut outcome = Attempted::Failed;
        while made.last() != Some(&Attempt::GiveUp) {
            let attempt = path.next(outcome);
            outcome = outcome_of(attempt);
            made.push(attempt);
        }
        made
    }

    #[test]
    fn fruitless_reclaim_ends_after_draining_the_cpus() {
        let expected = [
            Attempt::Take(Some(WatermarkLevel::Low)),
            Attempt::WakeBackground,
            Attempt::Take(Some(WatermarkLevel::Min)),
            Attempt::DirectReclaim,
            Attempt::DrainCpus,
            Attempt::DirectReclaim,
            Attempt::Take(None),
            Attempt::GiveUp,
        ];
        assert_eq!(attempts(|_| Attempted::Failed), expected);
    }

    #[test]
    fn progress_that_others_take_is_retried_a_bounded_number_of_times() {
        let made = attempts(|attempt| match attempt {
            Attempt::DirectReclaim => Attempted::Progress,
            _ => Attempted::Failed,
        });
        let rounds = made.iter().filter(|attempt| **attempt == Attempt::DirectReclaim).count();
        assert_eq!(rounds, usize::from(RECLAIM_ROUNDS_MAX) + 1);
        assert_eq!(made.last(), Some(&Attempt::GiveUp));
        assert!(made.contains(&Attempt::DrainCpus));
    }
}
