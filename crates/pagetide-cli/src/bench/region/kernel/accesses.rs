//! Timed random accesses by several threads.

use super::super::super::interleave::time_threads;
use super::super::super::mapped_job::{Job, Measured};
use crate::failure::Failure;
use pagetide_sys::read_process_cpu_time_ns;
use std::time::{Duration, Instant};

/// The seed of page and key order.
pub(super) const SEED: u64 = 1;
/// Operations per clock read.
const BATCH: u32 = 16;

/// Maximum warm-up / timed duration. Unadvised kernel mappings need milliseconds per access, but
/// few accesses.
const WARM_MAX: u32 = 3;

/// Warms up for the timed duration or until `nr_warm` accesses, then times. One thread per state.
pub(super) fn time_accesses<S: Send>(
    job: &Job,
    nr_warm: u64,
    [mut warm, mut timed]: [Vec<S>; 2],
    access: impl Fn(&mut S) -> Result<(), Failure> + Sync,
) -> Result<Measured, Failure> {
    let duration = Duration::from_millis(job.millis);
    // Returns nanoseconds per access of one thread, and the number of accesses.
    let round = |states: &mut Vec<S>| -> Result<(f64, f64), Failure> {
        let started = Instant::now();
        let states = states.iter_mut().collect();
        let ns = time_threads((duration, BATCH), states, |state: &mut &mut S| access(state))?;
        Ok((ns, started.elapsed().as_nanos() as f64 * f64::from(job.threads) / ns))
    };
    let mut nr_left = nr_warm as f64;
    for _ in 0..WARM_MAX {
        nr_left -= round(&mut warm)?.1;
        if nr_left <= 0.0 {
            break;
        }
    }
    let cpu_ns = read_process_cpu_time_ns();
    let (ns, nr) = round(&mut timed)?;
    let cpu_ns = (read_process_cpu_time_ns() - cpu_ns) as f64 / nr;
    Ok(Measured { ns, cpu_ns, memory: 0 })
}
