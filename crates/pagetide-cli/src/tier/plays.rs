//! Runs over fast and slow memory, on all cores.
//!
//! ```text
//!   plays: set-up, program, who places pages --> one machine each --> outcomes, in order
//! ```

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::Progress;
use pagetide_lab::tiers::programs::AccessStream;
use pagetide_lab::tiers::{Placer, TierOutcome, TierSetup, run_while};
use rayon::prelude::*;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};

/// Parts that a run's progress is counted in.
const PARTS: f64 = 1000.0;

/// One run to be made.
pub(crate) struct Play<'a> {
    pub(crate) setup: TierSetup,
    pub(crate) workload: &'static str,
    /// Makes the program, from its first touch on.
    pub(crate) program: Box<dyn Fn() -> Box<dyn AccessStream> + Sync + Send + 'a>,
    pub(crate) subject: Placer,
}

/// Makes all runs.
///
/// # Errors
/// Threads that cannot be started, an interrupt.
pub(crate) fn run(
    plays: &[Play<'_>],
    jobs: Option<NonZeroUsize>,
    interrupt: &Interrupt,
) -> Result<Vec<TierOutcome>, Failure> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(jobs.map_or(0, usize::from))
        .build()
        .map_err(|error| Failure::on("start threads", &error))?;
    let progress = Progress::new(format!("running {} machines", plays.len()));
    let nr_parts = AtomicU64::new(0);
    let run_one = |play: &Play<'_>| {
        interrupt.check()?;
        let mut told = 0;
        let keep_on = |share: f64| {
            let part = (share * PARTS) as u64;
            let sum = nr_parts.fetch_add(part - told, Ordering::Relaxed) + part - told;
            told = part;
            progress.set(sum as f64 / (PARTS * plays.len() as f64));
            !interrupt.is_set()
        };
        let mut program = (play.program)();
        run_while(&play.setup, play.workload, &mut *program, play.subject, keep_on)
            .ok_or(Failure::Interrupted)
    };
    pool.install(|| plays.par_iter().with_max_len(1).map(run_one).collect())
}
