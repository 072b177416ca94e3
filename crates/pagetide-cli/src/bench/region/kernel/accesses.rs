//! Accesses by chance, by threads, for as long as a job says.

use super::super::super::interleave::time_threads;
use super::super::super::mapped_job::{Job, Measured};
use crate::failure::Failure;
use pagetide_sys::read_process_cpu_time_ns;
use std::time::{Duration, Instant};

/// Of the order of pages, or of keys.
pub(super) const SEED: u64 = 1;
/// Operations between looks at the clock.
const BATCH: u32 = 16;

/// As long untimed as timed: memory is full then, in all that are compared. A thread for each
/// state.
///
/// # Errors
/// The first failure of an access.
pub(super) fn time_accesses<S: Send>(
    job: &Job,
    [warm, timed]: [Vec<S>; 2],
    access: impl Fn(&mut S) -> Result<(), Failure> + Sync,
) -> Result<Measured, Failure> {
    let duration = Duration::from_millis(job.millis);
    time_threads((duration, BATCH), warm, &access)?;
    let (started, cpu_ns) = (Instant::now(), read_process_cpu_time_ns());
    let ns = time_threads((duration, BATCH), timed, &access)?;
    let (elapsed, cpu_ns) = (started.elapsed(), read_process_cpu_time_ns() - cpu_ns);
    let nr = elapsed.as_nanos() as f64 * f64::from(job.threads) / ns;
    Ok(Measured { ns, cpu_ns: cpu_ns as f64 / nr })
}
