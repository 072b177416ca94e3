//! Samples of a run at an interval.
//!
//! ```text
//!   interval  50 ms. At POINTS_MAX points every other point is dropped and the interval doubles
//!   point     counters so far, and resident memory by generation
//! ```
//!
//! Reports thus have 256 to 512 points. A sample takes the page cache's locks in turn, as `stats`
//! does: some microseconds, at most 20 times a second.

use crate::failure::Failure;
use pagetide::{Detail, PageCache};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// An even number, so that halving keeps even spacing.
const POINTS_MAX: usize = 512;
const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Counters since the start, and resident memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RunPoint {
    pub(super) seconds: f64,
    pub(super) accesses: u64,
    pub(super) hits: u64,
    pub(super) refaults: u64,
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    pub(super) resident_bytes: u64,
    /// (sequence number, pages), oldest first. Empty without generations.
    pub(super) generations: Vec<(u64, u64)>,
}

pub(super) struct Watcher {
    stop: Sender<()>,
    thread: JoinHandle<Vec<RunPoint>>,
}

impl Watcher {
    pub(super) fn start(cache: &PageCache) -> Result<Watcher, Failure> {
        let (stop, stopped) = channel();
        let cache = cache.clone();
        let thread = std::thread::Builder::new().name("pagetide-watch".into()).spawn(move || {
            let (start, mut interval) = (Instant::now(), INTERVAL_MIN);
            let mut points = vec![look(&cache, start)];
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(interval) {
                points.push(look(&cache, start));
                if points.len() >= POINTS_MAX {
                    thin_out(&mut points);
                    interval *= 2;
                }
            }
            points.push(look(&cache, start));
            points
        });
        let thread = thread.map_err(|error| Failure::on("watch the run", &error))?;
        Ok(Watcher { stop, thread })
    }

    /// Adds a sample at the end.
    pub(super) fn stop(self) -> Vec<RunPoint> {
        drop(self.stop);
        // The thread already printed its panic. The report is then empty.
        self.thread.join().unwrap_or_default()
    }
}

/// Keeps the first.
fn thin_out(points: &mut Vec<RunPoint>) {
    let mut nth = 0;
    points.retain(|_| {
        nth += 1;
        nth % 2 == 1
    });
}

fn look(cache: &PageCache, start: Instant) -> RunPoint {
    let stats = cache.stats();
    RunPoint {
        seconds: start.elapsed().as_secs_f64(),
        accesses: stats.accesses,
        hits: stats.hits,
        refaults: stats.refaults,
        read_bytes: stats.device_read_bytes,
        write_bytes: stats.device_write_bytes,
        resident_bytes: stats.resident_bytes,
        generations: generations_of(&cache.describe_lru_gen(Detail::Sizes)),
    }
}

/// Parses (sequence number, pages), oldest first, from Linux's `lru_gen` format.
fn generations_of(text: &str) -> Vec<(u64, u64)> {
    let row = |line: &str| {
        let mut numbers = line.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
        let [Some(seq), Some(_age), Some(anon), Some(file)] =
            std::array::from_fn(|_| numbers.next().flatten())
        else {
            return None;
        };
        Some((seq, anon + file))
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_are_read_from_the_kernels_text() {
        let text = "memcg     0 /\n node     0\n      3   12040  118   9000\n      4  1200 0 211\n";
        assert_eq!(generations_of(text), [(3, 9118), (4, 211)]);
        assert_eq!(generations_of(""), []);
    }

    #[test]
    fn a_long_run_keeps_its_first_point_and_half_of_the_others() {
        let point = |second: i32| RunPoint { seconds: second.into(), ..RunPoint::default() };
        let mut points: Vec<RunPoint> = (0..POINTS_MAX as i32).map(point).collect();
        thin_out(&mut points);
        assert_eq!(points.len(), POINTS_MAX / 2);
        assert_eq!((points[0].seconds, points[1].seconds), (0.0, 2.0));
    }
}
