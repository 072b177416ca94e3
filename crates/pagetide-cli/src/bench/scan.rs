//! `bench scan`: what prefetching the next folio saves while a list is scanned.
//!
//! ```text
//!   N descriptors of 64 bytes on a list, linked in random or in address order
//!   one pass: take the oldest, rewrite its flags (one compare-and-swap), move it to another list
//!
//!   reference          no prefetch
//!   distance 1         the next one's descriptor is asked for before this one is worked on
//!   batch of 16        walk 16 links, asking for each; then work on the 16
//! ```
//!
//! The links and the flags share a line, so walking ahead is itself the chain of cache misses: a
//! batch can only help where the walk overlaps with something, and this shows whether it does. At
//! least [`RUNS_MIN`] runs, as the effect is a few percent on a shared machine; the order of the
//! list is the same in all of them.
//!
//! Source: "mm, lru_gen: try to prefetch next page when scanning LRU" (2024).

use super::interleave::{Contender, interleave};
use super::{Bench, Row};
use crate::failure::Failure;
use pagetide_core::folio::{Flags, Folios};
use pagetide_core::ids::FrameId;
use pagetide_core::list::FolioList;
use pagetide_sys::fetch_to_write;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use std::cell::RefCell;
use std::time::Instant;

/// Descriptors on the list.
const SIZES: [u32; 4] = [10_000, 100_000, 1_000_000, 4_000_000];
/// The least number of runs.
const RUNS_MIN: u32 = 12;
/// Folios looked at ahead in the batch form.
const BATCH: usize = 16;
/// Folios scanned in one measurement, in as many passes as that takes.
const SCANNED: u32 = 1_000_000;

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let sizes = if bench.args.quick { &SIZES[..2] } else { &SIZES[..] };
    let runs = bench.args.runs.max(RUNS_MIN);
    let mut rows = Vec::new();
    for order in [Order::Random, Order::Address] {
        for &nr_folios in sizes {
            let passes = if bench.args.quick { 1 } else { (SCANNED / nr_folios).max(1) };
            rows.extend(measure(bench, order, nr_folios, (runs, passes))?);
        }
    }
    Ok(rows)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Random,
    Address,
}

fn measure(
    bench: &Bench<'_>,
    order: Order,
    nr_folios: u32,
    (runs, passes): (u32, u32),
) -> Result<[Row; 2], Failure> {
    let lists = RefCell::new(Lists::new(order, nr_folios));
    let contender = |pass: fn(&mut Lists)| -> Contender<'_> {
        let lists = &lists;
        Box::new(move || {
            let mut lists = lists.borrow_mut();
            let start = Instant::now();
            (0..passes).for_each(|_| pass(&mut lists));
            Ok(start.elapsed().as_nanos() as f64 / f64::from(passes) / f64::from(nr_folios))
        })
    };
    let label = format!("scan {order:?} {nr_folios}").to_lowercase();
    let contenders = [
        contender(Lists::pass::<true>),
        contender(Lists::pass_in_batches),
        contender(Lists::pass::<false>),
    ];
    let [ahead, batches, none] = interleave(&label, runs, bench.interrupt, contenders)?;
    let name = |form: &str| format!("{order:?} {nr_folios} {form}").to_lowercase();
    let row =
        |form, samples| Row::measured(("scan", &name(form), 1), "no-prefetch", samples, &none);
    Ok([row("next", &ahead), row("batch", &batches)])
}

/// A list to scan, and the one its folios move to; they change places after each pass.
struct Lists {
    folios: Folios,
    from: FolioList,
    to: FolioList,
}

impl Lists {
    fn new(order: Order, nr_folios: u32) -> Lists {
        let folios = Folios::with_prefetch(nr_folios, fetch_to_write);
        let mut frames: Vec<u32> = (0..nr_folios).collect();
        if order == Order::Random {
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

    /// What a scan that protects a folio does to it.
    fn move_on(&mut self, frame: FrameId) {
        self.from.remove(&self.folios, frame);
        self.folios[frame].update(|flags| {
            let generation = flags.generation().map_or(0, |generation| (generation + 1) % 4);
            Some(flags.without(Flags::REFERENCED).with_refs(0).with_generation(Some(generation)))
        });
        self.to.push_head(&self.folios, frame);
    }
}
