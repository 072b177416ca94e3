//! Plays: each scenario under each subject with each seed, on all cores.
//!
//! Problem: ten seeds of a dozen subjects are a hundred plays that share nothing. Idea: as with a
//! replay's cells, one play a core at a time, and answers in the order asked for, whoever ends
//! first. Every play looks for Ctrl-C some ten thousand accesses apart.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::Progress;
use pagetide_lab::scenario::{Measures, PolicyVariant, Scenario};
use rayon::prelude::*;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

/// A scenario under a subject, played once a seed.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) scenario: &'static Scenario,
    pub(crate) subject: PolicyVariant,
    /// In the order of seeds.
    pub(crate) plays: Vec<Measures>,
}

/// Plays each of `casts` with all `seeds`, at most `jobs` plays at a time (all cores without).
///
/// # Errors
/// An interrupt.
pub(crate) fn run(
    casts: &[(&'static Scenario, PolicyVariant)],
    seeds: RangeInclusive<u64>,
    jobs: Option<NonZeroUsize>,
    interrupt: &Interrupt,
) -> Result<Vec<Played>, Failure> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(jobs.map_or(0, usize::from))
        .build()
        .map_err(|error| Failure::on("start threads", &error))?;
    let numbers: Vec<u64> = seeds.collect();
    let nr_plays = casts.len() * numbers.len();
    let progress = Progress::new(format!("playing {nr_plays} times"));
    let nr_done = AtomicU64::new(0);
    let play = |at: usize| {
        let (scenario, subject) = casts[at / numbers.len()];
        let keep_on = |_| !interrupt.is_set();
        let measures = scenario.play(subject, numbers[at % numbers.len()], &keep_on);
        let done = nr_done.fetch_add(1, Ordering::Relaxed) + 1;
        progress.set(done as f64 / nr_plays as f64);
        measures.ok_or(Failure::Interrupted)
    };
    let measures: Vec<Measures> = pool.install(|| {
        (0..nr_plays).into_par_iter().with_max_len(1).map(play).collect::<Result<_, _>>()
    })?;
    let mut measures = measures.into_iter();
    let played = |&(scenario, subject): &(&'static Scenario, PolicyVariant)| Played {
        scenario,
        subject,
        plays: measures.by_ref().take(numbers.len()).collect(),
    };
    Ok(casts.iter().map(played).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetide_core::lru::PolicyName;

    fn casts() -> Vec<(&'static Scenario, PolicyVariant)> {
        let scenario = Scenario::named("wsprotect").expect("it exists");
        [PolicyName::Lru, PolicyName::Fifo].map(|policy| (scenario, policy.into())).to_vec()
    }

    #[test]
    fn plays_come_in_order_whatever_the_number_of_threads() {
        let plays = |jobs| {
            let played = run(&casts(), 1..=3, NonZeroUsize::new(jobs), &Interrupt::default());
            let played = played.expect("nothing stops it");
            assert!(played.iter().map(|it| it.subject).eq(casts().into_iter().map(|it| it.1)));
            played.into_iter().map(|it| it.plays).collect::<Vec<_>>()
        };
        let alone = plays(1);
        assert!(alone.iter().all(|plays| plays.len() == 3));
        assert_eq!(alone, plays(4));
    }

    #[test]
    fn an_interrupt_ends_all_plays_without_an_answer() {
        let stopped = run(&casts(), 1..=2, None, &Interrupt::already_set());
        assert!(matches!(stopped, Err(Failure::Interrupted)));
    }
}
