//! Plays each scenario under each subject with each seed, on all cores.
//!
//! Checks Ctrl-C about every ten thousand accesses.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::parallel::JobsArgs;
use crate::terminal::JointProgress;
use pagetide_core::units::Bytes;
use pagetide_lab::scenario::{Measures, PolicyVariant, Scenario};

#[derive(Debug)]
pub(super) struct Played {
    pub(super) scenario: &'static Scenario,
    pub(super) subject: PolicyVariant,
    /// Plays by seed.
    pub(super) plays: Vec<Measures>,
}

pub(super) fn run(
    cases: &[(&'static Scenario, PolicyVariant)],
    seeds: &[u64],
    jobs: JobsArgs,
    interrupt: &Interrupt,
) -> Result<Vec<Played>, Failure> {
    let plays: Vec<_> =
        cases.iter().flat_map(|case| seeds.iter().map(move |&seed| (*case, seed))).collect();
    let progress = JointProgress::new(format!("playing {} times", plays.len()), plays.len());
    let play = |&((scenario, subject), seed): &((&'static Scenario, PolicyVariant), u64)| {
        let measures = scenario.play(subject, seed, &|_| !interrupt.is_set());
        (progress.of_run())(1.0);
        measures.ok_or(Failure::Interrupted)
    };
    let mut measures = jobs.run_all(&plays, Bytes(0), interrupt, play)?.into_iter();
    let played = |&(scenario, subject): &(&'static Scenario, PolicyVariant)| Played {
        scenario,
        subject,
        plays: measures.by_ref().take(seeds.len()).collect(),
    };
    Ok(cases.iter().map(played).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetide_core::lru::PolicyName;

    fn cases() -> Vec<(&'static Scenario, PolicyVariant)> {
        let scenario = Scenario::named("wsprotect").expect("it exists");
        [PolicyName::Lru, PolicyName::Fifo].map(|policy| (scenario, policy.into())).to_vec()
    }

    #[test]
    fn plays_come_in_order_whatever_the_number_of_threads() {
        let plays = |jobs| {
            let played = run(&cases(), &[1, 2, 3], JobsArgs::of(jobs), &Interrupt::default());
            let played = played.expect("nothing stops it");
            assert!(played.iter().map(|it| it.subject).eq(cases().into_iter().map(|it| it.1)));
            played.into_iter().map(|it| it.plays).collect::<Vec<_>>()
        };
        let alone = plays(1);
        assert!(alone.iter().all(|plays| plays.len() == 3));
        assert_eq!(alone, plays(4));
    }

    #[test]
    fn an_interrupt_ends_all_plays_without_an_answer() {
        let stopped = run(&cases(), &[1, 2], JobsArgs::default(), &Interrupt::already_set());
        assert!(matches!(stopped, Err(Failure::Interrupted)));
    }
}
