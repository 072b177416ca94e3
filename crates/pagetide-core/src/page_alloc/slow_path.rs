//! The slow path: what to try, in order, until a frame is found or there is none to find.
//!
//! Both worlds allocate the same way because both ask this: it says what to try next, they do it
//! and say how it went.
//!
//! ```text
//!   take at LOW --no--> wake background --> take at MIN --no--> direct reclaim <------------+
//!                                                                |          \              |
//!                                                           no progress   progress         |
//!                                                                |             \           |
//!        drain all CPUs' lists and logs, reclaim once more <-----+      take at MIN --no---+
//!                      |                                                (at most 16 times)
//!                 take at NONE --no--> give up
//! ```
//!
//! Other CPUs' lists hold free frames, and their access logs hold folios that no reclaim can see:
//! in a small cache that can be all there is, so both are emptied before anything is allowed to
//! fail. The last take ignores the watermarks: what is left is more use as a page than as a reserve
//! that no request may touch. Giving up is not an error: the page is then read past the cache.
//!
//! Source: the page allocator specification, sections 1 and 3; retries as in the kernel.

use super::WatermarkLevel;

/// Rounds of direct reclaim before giving up, if each frees something that others take.
const RECLAIM_ROUNDS_MAX: u8 = 16;

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Attempt {
    /// Allocate, leaving the level's frames alone; answer [`Attempted::Failed`] if there is none.
    Take(Option<WatermarkLevel>),
    /// Wake background reclaim.
    WakeBackground,
    /// Run a direct reclaim pass; answer by whether it freed anything.
    DirectReclaim,
    /// Return all CPUs' frame lists to the zone, and drain all CPUs' access logs. With other
    /// threads about, make a [`Starving`](super::Starving) first, and keep it until this
    /// allocation has ended: what others free meanwhile is then in the zone as well.
    DrainCpus,
    /// There is no frame.
    GiveUp,
}

/// How the last attempt went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attempted {
    /// Done, or something was freed.
    Progress,
    /// Nothing was found or freed.
    Failed,
}

/// One allocation's way through the attempts. The caller stops asking once it has a frame.
#[derive(Debug, Default)]
pub struct SlowPath {
    last: Option<Attempt>,
    rounds: u8,
    drained: bool,
}

impl SlowPath {
    /// At the beginning.
    pub fn new() -> SlowPath {
        SlowPath::default()
    }

    /// Where no node had a frame above LOW, and background reclaim has been woken.
    pub fn after_wake() -> SlowPath {
        SlowPath { last: Some(Attempt::WakeBackground), ..SlowPath::default() }
    }

    /// The next attempt, given how the last one went (the first answer is not looked at).
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
