//! Zipf reads with minimal overhead, for `pagetide bench zipf`.
//!
//! Problem: the demo's clock reads, page picks and residence checks cost too much beside a hit of
//! half a microsecond. Idea: pick all pages beforehand, warm up, then time a bare loop.
//!
//! ```text
//!   picks (zipf 0.8 over 4x memory) --> 3 reads per frame of memory: warm
//!                                  --> reads for the duration: counted
//! ```
//!
//! Data: `detail.ns_per_op` of one thread, mean over threads. Ignored: latencies and hits.

use super::Harness;
use crate::demo::measure::{self, Measurements, nanoseconds};
use crate::demo::plan::BIG_FILE;
use crate::demo::subject::{MeasuredFile, OpenMode};
use crate::failure::Failure;
use crate::pages::Skew;
use pagetide_core::units::{Bytes, PAGE_BYTES};
use serde_json::{Map, json};
use std::sync::Barrier;
use std::time::Instant;

const ZIPF_EXPONENT: f64 = 0.8;
/// Picks, used cyclically.
const NR_PICKS: usize = 1 << 21;
/// Reads per clock read.
const BATCH: usize = 64;
const WARM_READS_PER_FRAME: u64 = 3;

pub(super) fn run(harness: &Harness<'_>) -> Result<Measurements, Failure> {
    let data = harness.data(BIG_FILE);
    let file = harness.open(data, OpenMode::Read)?;
    let picks: Vec<Vec<u32>> = harness
        .pickers(data.nr_pages, Skew::Zipf(ZIPF_EXPONENT))
        .map(|mut picker| (0..NR_PICKS).map(|_| picker.pick()).collect())
        .collect();
    let start = harness.begin()?;
    let barrier = Barrier::new(picks.len());
    let outcomes: Vec<Result<f64, Failure>> = std::thread::scope(|scope| {
        let clients: Vec<_> = picks
            .iter()
            .map(|picks| scope.spawn(|| read_all(harness, file.as_ref(), picks, &barrier)))
            .collect();
        clients.into_iter().map(|client| client.join().expect("a client does not panic")).collect()
    });
    let nanoseconds = outcomes.into_iter().collect::<Result<Vec<f64>, _>>()?;
    let mean = nanoseconds.iter().sum::<f64>() / nanoseconds.len() as f64;
    let mut detail = Map::new();
    detail.insert("ns_per_op".into(), json!(mean));
    Ok(Measurements { histogram: measure::empty_histogram(), elapsed: start.elapsed(), detail })
}

/// Returns nanoseconds per read.
fn read_all(
    harness: &Harness<'_>,
    file: &dyn MeasuredFile,
    picks: &[u32],
    barrier: &Barrier,
) -> Result<f64, Failure> {
    let data = harness.data(BIG_FILE);
    let refuse = |error| Failure::on_path("read", &data.path, &error);
    let mut page = vec![0; PAGE_BYTES];
    let mut batches = picks.chunks_exact(BATCH).cycle();
    let mut read_batch = || -> Result<(), Failure> {
        harness.interrupt.check()?;
        let batch = batches.next().expect("an endless cycle");
        for &index in batch {
            file.read_at(&mut page, Bytes::from_pages(u64::from(index)).0).map_err(refuse)?;
        }
        let last = u64::from(batch[BATCH - 1]);
        data.check_word(last, 0, &page, 1).map_err(|wrong| data.failure(wrong))
    };
    let nr_warm =
        harness.memory.whole_pages() * WARM_READS_PER_FRAME / u64::from(harness.nr_threads);
    // Reach the barrier even on failure, so that no thread waits forever.
    let warmed = (0..nr_warm.div_ceil(BATCH as u64)).try_for_each(|_| read_batch());
    barrier.wait();
    warmed?;
    let start = Instant::now();
    let mut nr_reads = 0_u64;
    loop {
        read_batch()?;
        nr_reads += BATCH as u64;
        let elapsed = start.elapsed();
        if elapsed >= harness.duration {
            return Ok(nanoseconds(elapsed) as f64 / nr_reads as f64);
        }
    }
}
