//! `bench scan`: the effect of prefetching folios during a list scan.
//!
//! ```text
//!   N descriptors of 64 bytes on a list, linked in random or in address order
//!   one pass: take the oldest, rewrite its flags (one compare-and-swap), move it to another list
//!
//!   next      prefetches the next descriptor before the work on each
//!   batch     walks 16 links with prefetch, then works on the 16: the farthest possible prefetch
//!   evict     prefetch in the policy's own scans: CPU time per clean page, as in `bench evict`
//!   off       the reference of all, without prefetch
//! ```
//!
//! Links and flags share a cache line, so the walk itself is a chain of cache misses. A batch only
//! helps if the walk overlaps with other work.
//!
//! Source: "mm, lru_gen: try to prefetch next page when scanning LRU" (2024).

use super::evict::{CleanFile, time_evictions};
use super::interleave::TimedRun;
use super::{Bench, Row};
use crate::failure::Failure;
use pagetide_core::folio::{Flags, Folios};
use pagetide_core::ids::FrameId;
use pagetide_core::list::FolioList;
use pagetide_core::lru::{Mechanism, PolicyName, Switches};
use pagetide_sys::fetch_to_write;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use std::cell::RefCell;
use std::time::Instant;

/// List lengths within a core's caches, and far beyond.
const SIZES: [u32; 2] = [10_000, 4_000_000];
const BATCH: usize = 16;
/// Folios per measurement.
const SCANNED: u32 = 1_000_000;
const POLICIES: [PolicyName; 2] = [PolicyName::Mglru, PolicyName::ActiveInactive];
const REFERENCE: &str = "off";

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (name, is_random) in [("random", true), ("in-order", false)] {
        for &nr_folios in if bench.args.quick { &SIZES[..1] } else { &SIZES } {
            rows.extend(measure(bench, name, is_random, nr_folios)?);
        }
    }
    let file = CleanFile::make(bench)?;
    for policy in POLICIES {
        let evictions = |switches: Switches| -> TimedRun<'_> {
            let file = &file;
            Box::new(move || time_evictions(bench, file, policy, switches))
        };
        let on = evictions(Switches::default().with(Mechanism::ScanPrefetch));
        let off = evictions(Switches::default().without(Mechanism::ScanPrefetch));
        let [on, off] = bench.interleave("scan evict", [on, off])?;
        let case = format!("evict {policy}");
        rows.push(Row::measured(("scan", &case, 1), REFERENCE, &on, &off));
    }
    Ok(rows)
}

fn measure(
    bench: &Bench<'_>,
    name: &str,
    is_random: bool,
    nr_folios: u32,
) -> Result<[Row; 2], Failure> {
    let nr_passes = (SCANNED / nr_folios).max(1);
    let lists = RefCell::new(Lists::new(is_random, nr_folios));
    let contender = |pass: fn(&mut Lists)| -> TimedRun<'_> {
        let lists = &lists;
        Box::new(move || {
            let mut lists = lists.borrow_mut();
            let start = Instant::now();
            (0..nr_passes).for_each(|_| pass(&mut lists));
            Ok(start.elapsed().as_nanos() as f64 / f64::from(nr_passes) / f64::from(nr_folios))
        })
    };
    let contenders = [
        contender(Lists::pass::<true>),
        contender(Lists::pass_in_batches),
        contender(Lists::pass::<false>),
    ];
    let [next, batch, off] = bench.interleave("scan", contenders)?;
    let row = |form: &str, samples| {
        let case = format!("{form} {name} {nr_folios}");
        Row::measured(("scan", &case, 1), REFERENCE, samples, &off)
    };
    Ok([row("next", &next), row("batch", &batch)])
}

/// Two lists, swapped after each pass.
struct Lists {
    folios: Folios,
    from: FolioList,
    to: FolioList,
}

impl Lists {
    fn new(is_random: bool, nr_folios: u32) -> Lists {
        let folios = Folios::with_prefetch(nr_folios, fetch_to_write);
        let mut frames: Vec<u32> = (0..nr_folios).collect();
        if is_random {
            frames.shuffle(&mut SmallRng::seed_from_u64(7));
        }
        let mut from = FolioList::new();
        frames.iter().for_each(|frame| from.push_head(&folios, FrameId(*frame)));
        Lists { folios, from, to: FolioList::new() }
    }

    fn pass<const PREFETCH: bool>(&mut self) {
        while let Some(frame) = self.from.scan_tail::<PREFETCH>(&self.folios) {
            self.move_on(frame);
        }
        std::mem::swap(&mut self.from, &mut self.to);
    }

    fn pass_in_batches(&mut self) {
        let mut batch = [FrameId(0); BATCH];
        loop {
            let mut len = 0;
            let mut next = self.from.tail();
            while let (Some(frame), true) = (next, len < BATCH) {
                self.folios.prefetch(frame);
                batch[len] = frame;
                len += 1;
                next = self.from.younger(&self.folios, frame);
            }
            if len == 0 {
                break;
            }
            batch[..len].iter().for_each(|frame| self.move_on(*frame));
        }
        std::mem::swap(&mut self.from, &mut self.to);
    }

    /// As a scan that protects the folio.
    fn move_on(&mut self, frame: FrameId) {
        self.from.remove(&self.folios, frame);
        self.folios[frame].update(|flags| {
            let generation = flags.generation().map_or(0, |generation| (generation + 1) % 4);
            Some(flags.without(Flags::REFERENCED).with_refs(0).with_generation(Some(generation)))
        });
        self.to.push_head(&self.folios, frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_pass_does_the_same_work() {
        let passes: [fn(&mut Lists); 3] =
            [Lists::pass::<false>, Lists::pass::<true>, Lists::pass_in_batches];
        let after = passes.map(|pass| {
            let mut lists = Lists::new(true, 1000);
            (0..3).for_each(|_| pass(&mut lists));
            let order: Vec<_> = lists.from.iter(&lists.folios).collect();
            let flags: Vec<_> = order.iter().map(|it| lists.folios[*it].flags()).collect();
            (order, flags)
        });
        assert_eq!(after[0].0.len(), 1000);
        assert!(after[1..].iter().all(|it| *it == after[0]));
    }
}
