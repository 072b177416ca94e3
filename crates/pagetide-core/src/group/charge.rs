//! Charging a page to a group that may be full.
//!
//! **Problem.** Reclaim from a full group may find nothing: pages in use, dirty, or in access logs.
//!
//! ```text
//!   charge --full--> reclaim for the full group --freed something--> charge again
//!                          |  nothing
//!                          v
//!                    empty all access logs, once --> reclaim --nothing--> give up
//! ```
//!
//! **Invariant.** At most [`PASSES_MAX`] passes. Other threads may take the freed pages.
//! **Ignored.** Waiting for the flusher. **Source.** The kernel's documented charge path, which
//! retries 16 times.

/// Maximum passes for one page.
const PASSES_MAX: u32 = 16;

/// Next step after a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum ChargeStep {
    /// Charge again.
    Charge,
    /// Drain all access logs, then charge again.
    DrainLogs,
    /// Fail.
    GiveUp,
}

/// State of the attempts to charge one page.
#[derive(Clone, Copy, Default, Debug)]
pub struct ChargePath {
    nr_passes: u32,
    nr_fruitless: u32,
}

impl ChargePath {
    /// Starts without attempts.
    pub fn new() -> ChargePath {
        ChargePath::default()
    }

    /// Returns the next step after a pass.
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
