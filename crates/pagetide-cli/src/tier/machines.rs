//! Runs machines of fast and slow memory on all cores.
//!
//! ```text
//!   set-up, program, placer --> one machine each --> outcomes, in order
//! ```

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::parallel::JobsArgs;
use crate::terminal::JointProgress;
use pagetide_core::units::Bytes;
use pagetide_lab::tiers::programs::AccessStream;
use pagetide_lab::tiers::{Placer, TierOutcome, TierSetup, run_while};

pub(crate) struct MachineRun<'a> {
    pub(crate) setup: TierSetup,
    pub(crate) workload: &'static str,
    pub(crate) program: Box<dyn Fn() -> Box<dyn AccessStream> + Sync + Send + 'a>,
    pub(crate) subject: Placer,
}

pub(crate) fn run(
    machines: &[MachineRun<'_>],
    jobs: JobsArgs,
    interrupt: &Interrupt,
) -> Result<Vec<TierOutcome>, Failure> {
    let nr_machines = machines.len();
    let progress = JointProgress::new(format!("running {nr_machines} machines"), nr_machines);
    jobs.run_all(machines, Bytes(0), interrupt, |machine| {
        let mut set_done = progress.of_run();
        let keep_on = |share: f64| {
            set_done(share);
            !interrupt.is_set()
        };
        let mut program = (machine.program)();
        run_while(&machine.setup, machine.workload, &mut *program, machine.subject, keep_on)
            .ok_or(Failure::Interrupted)
    })
}
