//! Small synthetic traces, each hard for some policy.

use pagetide_core::ids::{MappingId, PageId, PageIndex};
use pagetide_lab::trace::{Access, AccessKind, DenseTrace};

pub(crate) fn reads() -> Vec<(&'static str, DenseTrace)> {
    let mut random = Random(7);
    let uniform = (0..20_000).map(|_| random.below(600)).collect::<Vec<_>>();
    // The smaller of two draws, twice: a hot head and a long tail.
    let skewed = (0..20_000).map(|_| {
        let draw = random.below(2000).min(random.below(2000));
        draw.min(random.below(2000))
    });
    let skewed = skewed.collect::<Vec<_>>();
    let looping = (0..20_000).map(|i| i % 450);
    let phases = (0..20_000).map(|i| i / 5000 * 1000 + i * 7919 % 300);
    // A hot set of 100 pages, and a scan that never comes back.
    let scan = (0..20_000).map(|i| if i % 2 == 0 { i * 31 % 100 } else { 10_000 + i });
    vec![
        ("uniform", DenseTrace::from_reads(uniform)),
        ("skewed", DenseTrace::from_reads(skewed)),
        ("loop", DenseTrace::from_reads(looping)),
        ("phases", DenseTrace::from_reads(phases)),
        ("scan", DenseTrace::from_reads(scan)),
        ("once", DenseTrace::from_reads(0..2000)),
    ]
}

/// Returns every kind of entry, over three files, from a seed.
pub(crate) fn mixed(seed: u64, nr_entries: usize) -> DenseTrace {
    let mut random = Random(seed);
    let mut trace = DenseTrace::default();
    for _ in 0..nr_entries {
        let kind = match random.below(100) {
            0..32 => AccessKind::Read,
            32..38 => AccessKind::Dirty,
            38..43 => AccessKind::Clean,
            43..50 => AccessKind::Unpin,
            50..52 => AccessKind::Filled,
            52 => AccessKind::Bypass,
            53 => AccessKind::Evict,
            54..60 => AccessKind::ReadAgain,
            60..70 => AccessKind::Write,
            70..82 => AccessKind::Table,
            82..88 => AccessKind::TableWrite,
            88..92 => AccessKind::Readahead,
            92..96 => AccessKind::Fill,
            _ => AccessKind::Discard,
        };
        let mapping = MappingId(random.below(3) as u32);
        let index = PageIndex(random.below(200).min(random.below(200)));
        trace.push(Access { page: PageId { mapping, index }, kind, thread: 0 });
    }
    trace
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
