//! What prefetching the next folio saves while a list is scanned.
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
//! batch can only help where the walk overlaps with something, and this shows whether it does. The
//! effect is a few percent, hence many rounds; the order of the list is the same in all of them.
//!
//! Source: "mm, lru_gen: try to prefetch next page when scanning LRU" (2024).

mod harness;

use harness::{Contender, Mode, interleave};
use pagetide_core::folio::{Flags, Folios};
use pagetide_core::ids::FrameId;
use pagetide_core::list::FolioList;
use pagetide_sys::fetch_to_write;
use std::cell::RefCell;
use std::time::Instant;

/// Descriptors on the list: within a core's caches, at their edge, and far out.
const SIZES: [u32; 4] = [10_000, 100_000, 1_000_000, 4_000_000];
const NR_ROUNDS: u32 = 12;
/// Folios looked at ahead in the batch form.
const BATCH: usize = 16;
/// Folios scanned in one measurement, in as many passes as that takes.
const SCANNED: u32 = 1_000_000;

fn main() {
    let mode = Mode::from_arguments();
    let mut checksum = 0;
    for order in [LinkOrder::Random, LinkOrder::Address] {
        for &nr_folios in mode.pick(&SIZES[..], &SIZES[..1]) {
            checksum ^= measure(mode, order, nr_folios);
        }
    }
    println!("checksum {checksum:#018x}");
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LinkOrder {
    Random,
    Address,
}

/// Prints the rows of one list, and returns what its folios came to.
fn measure(mode: Mode, order: LinkOrder, nr_folios: u32) -> u64 {
    let nr_passes = mode.pick((SCANNED / nr_folios).max(1), 1);
    let lists = RefCell::new(Lists::new(order, nr_folios));
    let contender = |pass: fn(&mut Lists)| -> Contender<'_> {
        let lists = &lists;
        Box::new(move || {
            let mut lists = lists.borrow_mut();
            let start = Instant::now();
            (0..nr_passes).for_each(|_| pass(&mut lists));
            start.elapsed().as_nanos() as f64 / f64::from(nr_passes) / f64::from(nr_folios)
        })
    };
    let contenders = [
        contender(Lists::pass::<true>),
        contender(Lists::pass_in_batches),
        contender(Lists::pass::<false>),
    ];
    let [ahead, batches, none] = interleave(mode.pick(NR_ROUNDS, 2), contenders);
    let list = format!("{order:?} {nr_folios}").to_lowercase();
    ahead.print_against(&format!("{list} next"), "no prefetch", &none);
    batches.print_against(&format!("{list} batch"), "no prefetch", &none);
    lists.into_inner().checksum()
}

/// A list to scan, and the one its folios move to; they change places after each pass.
struct Lists {
    folios: Folios,
    from: FolioList,
    to: FolioList,
}

impl Lists {
    fn new(order: LinkOrder, nr_folios: u32) -> Lists {
        let folios = Folios::with_prefetch(nr_folios, fetch_to_write);
        let mut frames: Vec<u32> = (0..nr_folios).collect();
        if order == LinkOrder::Random {
            shuffle(&mut frames);
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
    /// The folios in the order of the list, and what their flags came to.
    fn checksum(&self) -> u64 {
        let mut sum = 0_u64;
        let mut next = self.from.tail();
        while let Some(frame) = next {
            let generation = self.folios[frame].flags().generation().map_or(7, u64::from);
            sum = sum.rotate_left(5) ^ u64::from(frame.0) << 3 ^ generation;
            next = self.from.younger(&self.folios, frame);
        }
        sum
    }
}

/// Fisher-Yates, from a fixed seed.
fn shuffle(frames: &mut [u32]) {
    let mut state = 7_u64;
    for at in (1..frames.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        frames.swap(at, (state >> 33) as usize % (at + 1));
    }
}
