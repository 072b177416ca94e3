//! The time a restarted cache needs to reach its steady hit ratio, cold and warmed.
//!
//!   cargo run --release -p pagetide --example warm_restart 64M 20
//!
//! Skewed reads of a file of four times the memory, until the hit ratio is steady. Then the same in
//! a new, warmed cache. Prints when each had reached 95 % of the steady ratio.

use pagetide::{Bytes, File, OpenOptions, PageCache, ResidentSet};
use std::path::Path;
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
/// Interval of hit ratio samples.
const STRETCH: Duration = Duration::from_millis(50);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Skewed page numbers: half of the reads go to an eighth of the pages.
struct Pages(u64, u64);

impl Pages {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let share = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        let rank = (share.powi(3) * self.1 as f64) as u64;
        // Scattered over the file, so that neighbours are not as hot.
        rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.1
    }
}

/// Reads for `duration`. Returns the hit ratio of each interval.
fn play(cache: &PageCache, file: &File, duration: Duration) -> Outcome<Vec<f64>> {
    let mut pages = Pages(88_172_645_463_325_252, file.len() / PAGE);
    let (mut page, mut ratios) = ([0; PAGE as usize], Vec::new());
    let start = Instant::now();
    let (mut before, mut end) = (cache.stats(), STRETCH);
    while start.elapsed() < duration {
        for _ in 0..16 {
            file.read_exact_at(&mut page, pages.next() * PAGE)?;
        }
        if start.elapsed() >= end {
            let now = cache.stats();
            let nr = now.accesses - before.accesses;
            ratios.push((now.hits - before.hits) as f64 / nr.max(1) as f64);
            (before, end) = (now, end + STRETCH);
        }
    }
    Ok(ratios)
}

fn restart(memory: Bytes, path: &Path, warm: Option<ResidentSet>) -> Outcome<(PageCache, File)> {
    let cache = PageCache::builder().memory(memory).build()?;
    if let Some(set) = warm {
        cache.warm(set)?;
    }
    let file = cache.open(path, OpenOptions::new().read(true))?;
    Ok((cache, file))
}

fn seconds_to(ratios: &[f64], steady: f64) -> Option<f64> {
    let nth = ratios.iter().position(|ratio| *ratio >= 0.95 * steady)?;
    Some((nth + 1) as f64 * STRETCH.as_secs_f64())
}

pub(crate) fn main() -> Outcome<()> {
    // A test runs this with arguments of its own.
    let mut words = std::env::args().skip(1);
    let memory: Bytes = words.next().and_then(|word| word.parse().ok()).unwrap_or(Bytes(2 << 20));
    let seconds: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("data");
    std::fs::write(&path, vec![1; 4 * memory.0 as usize])?;

    let duration = Duration::from_secs(seconds);
    let (cache, file) = restart(memory, &path, None)?;
    let cold = play(&cache, &file, duration)?;
    let tail = &cold[cold.len() * 3 / 4..];
    let steady = tail.iter().sum::<f64>() / tail.len() as f64;
    let text = cache.dump().to_string();
    drop((cache, file));

    let (cache, file) = restart(memory, &path, Some(text.parse()?))?;
    let warm = play(&cache, &file, duration)?;
    println!("steady hit ratio {steady:.3}; the dump has {} bytes", text.len());
    println!("cold: 95 % of it after {:?} s", seconds_to(&cold, steady));
    println!("warm: 95 % of it after {:?} s; {:?}", seconds_to(&warm, steady), cache.warm_stats());
    assert!(cache.warm_stats().brought_in > 0);
    Ok(())
}
