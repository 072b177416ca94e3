//! How a page is charged to a group that may be full: charge, reclaim, and when to give up.
//!
//! Problem: a full group gives room by reclaim, which may find nothing to take: its pages are in
//! use, or dirty, or wait in access logs and are on no list yet. The access that wants the page
//! cannot try for ever.
//!
//! ```text
//!   charge --full--> reclaim for the group named --freed something--> charge again
//!                          |  nothing
//!                          v
//!                    empty all access logs, once --> reclaim --nothing--> give up
//! ```
//!
//! Invariant: at most [`PASSES_MAX`] passes; others may take what a pass has freed. Ignored:
//! waiting for the flusher. Source: the kernel's documented charge path, which retries 16 times.

/// Passes for one page, at most.
const PASSES_MAX: u32 = 16;

/// What the world does after a pass for a full group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum ChargeStep {
    /// Charge again.
    Charge,
    /// Empty the access logs of all CPUs into the lists, then charge again.
    DrainLogs,
    /// The page gets no room.
    GiveUp,
}

/// How far the attempts to charge one page are.
#[derive(Clone, Copy, Default, Debug)]
pub struct ChargePath {
    nr_passes: u32,
    nr_fruitless: u32,
}

impl ChargePath {
    /// No attempt yet.
    pub fn new() -> ChargePath {
        ChargePath::default()
    }

    /// What to do after a pass that freed so many pages.
    pub fn after_pass(&mut self, nr_reclaimed: u64) -> ChargeStep {
        self.nr_passes += 1;
        self.nr_fruitless += u32::from(nr_reclaimed == 0);
        match self.nr_fruitless {
            _ if self.nr_passes >= PASSES_MAX => ChargeStep::GiveUp,
            0 => ChargeStep::Charge,
            1 if nr_reclaimed == 0 => ChargeStep::DrainLogs,
            1 => ChargeStep::Charge,
            _ => ChargeStep::GiveUp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fruitless_passes_drain_the_logs_once_and_then_give_up() {
        let mut path = ChargePath::new();
        let steps = [32, 0, 32, 0].map(|nr| path.after_pass(nr));
        use ChargeStep::{Charge, DrainLogs, GiveUp};
        assert_eq!(steps, [Charge, DrainLogs, Charge, GiveUp]);
    }

    #[test]
    fn passes_are_bounded_though_each_frees_something() {
        let mut path = ChargePath::new();
        let nr = (1..).find(|_| path.after_pass(1) == ChargeStep::GiveUp);
        assert_eq!(nr, Some(PASSES_MAX));
    }
}
