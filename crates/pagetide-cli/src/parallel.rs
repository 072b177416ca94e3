//! Runs independent work items on all cores, limited by memory.
//!
//! ```text
//!   items --+-- core 0: item, item, ...
//!           +-- core 1: item, item, ...  --> answers in order
//! ```

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine;
use pagetide_core::units::Bytes;
use rayon::prelude::*;
use std::num::NonZeroUsize;

/// The argument of all commands that run many things.
#[derive(Clone, Copy, Default, Debug, clap::Args)]
pub(crate) struct JobsArgs {
    /// Runs under way at a time; as many as there are cores, and memory for, without.
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
}

impl JobsArgs {
    pub(crate) fn asked(self) -> Option<usize> {
        self.jobs.map(usize::from)
    }

    /// Answers are in the order of the items. `bytes_each` is a maximum, 0 if little.
    pub(crate) fn run_all<T: Sync, A: Send>(
        self,
        items: &[T],
        bytes_each: Bytes,
        interrupt: &Interrupt,
        work: impl Fn(&T) -> Result<A, Failure> + Sync,
    ) -> Result<Vec<A>, Failure> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(self.nr_threads(items.len(), bytes_each)?)
            .build()
            .map_err(|error| Failure::on("start threads", &error))?;
        let one = |item: &T| {
            interrupt.check()?;
            work(item)
        };
        pool.install(|| items.par_iter().with_max_len(1).map(one).collect())
    }

    /// Returns a number of threads within `--jobs`, items and memory.
    fn nr_threads(self, nr_items: usize, bytes_each: Bytes) -> Result<usize, Failure> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let wanted = self.jobs.map_or(cores, usize::from).min(nr_items);
        if bytes_each.0 == 0 {
            return Ok(wanted);
        }
        machine::check_memory(bytes_each)?;
        let free = machine::read_memory_available().map_or(u64::MAX, |free| free.0 / 2);
        let nr_that_fit = usize::try_from(free / bytes_each.0).unwrap_or(usize::MAX);
        Ok(wanted.min(nr_that_fit).max(1))
    }
}

#[cfg(test)]
impl JobsArgs {
    pub(crate) fn of(jobs: usize) -> JobsArgs {
        JobsArgs { jobs: NonZeroUsize::new(jobs) }
    }
}
