//! Tests of curves against a naive LRU, and of samples against the whole.

use super::*;
use crate::judge::naive_lru;
use crate::trace::{Access, AccessKind};
use pagetide_core::ids::{MappingId, PageId, PageIndex};
use proptest::prelude::*;

/// Skewed and deterministic: `nr_accesses` uses of `nr_pages` pages, low ones more often.
fn skewed(nr_accesses: u64, nr_pages: u64) -> DenseTrace {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    DenseTrace::from_reads((0..nr_accesses).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let share = (state >> 11) as f64 / (1_u64 << 53) as f64;
        (share * share * share * nr_pages as f64) as u64
    }))
}

fn sampled(trace: &DenseTrace, sampler: Sampler) -> DenseTrace {
    let mut sample = DenseTrace::default();
    for (rank, kind) in trace.entries() {
        let page = trace.page(rank);
        if sampler.takes(page) {
            sample.push(Access { page, kind, thread: 0 });
        }
    }
    sample
}

#[test]
fn a_loop_hits_only_when_all_of_it_fits() {
    let curve = lru(&DenseTrace::from_reads((0..1000).map(|step| step % 10)));
    assert_eq!((curve.nr_accesses(), curve.nr_first(), curve.distance_max()), (1000, 10, 10));
    assert_eq!(
        [0, 1, 9, 10, 11, u64::MAX].map(|frames| curve.misses(frames)),
        [1000, 1000, 1000, 10, 10, 10]
    );
    assert_eq!(curve.frames_for(0.5), 10);
}

#[test]
fn a_page_used_twice_in_a_row_hits_in_one_frame() {
    let curve = lru(&DenseTrace::from_reads([7, 7, 8, 7]));
    assert_eq!([1, 2].map(|frames| curve.misses(frames)), [3, 2]);
}

#[test]
fn a_discarded_page_is_new_again() {
    let mut trace = DenseTrace::default();
    for (index, kind) in [
        (1, AccessKind::Read),
        (2, AccessKind::Write),
        (2, AccessKind::Readahead),
        (2, AccessKind::Discard),
        (3, AccessKind::Discard),
        (1, AccessKind::Table),
        (2, AccessKind::Read),
    ] {
        let page = PageId { index: PageIndex(index), ..PageId::default() };
        trace.push(Access { page, kind, thread: 0 });
    }
    let curve = lru(&trace);
    assert_eq!((curve.nr_accesses(), curve.nr_first()), (4, 3));
    assert_eq!(curve.misses(1), 3, "with page 2 gone, page 1 is on top");
}

/// Moves slots together many times.
#[test]
fn the_curve_agrees_with_a_naive_lru_past_the_last_slot() {
    let trace = skewed(20_000, 700);
    let curve = lru(&trace);
    for frames in [1, 2, 50, 333, 699, 700] {
        assert_eq!(curve.misses(frames as u64), naive_lru::count_misses(&trace, frames));
    }
}

proptest! {
    #[test]
    fn the_curve_agrees_with_a_naive_lru(
        pages in prop::collection::vec(0_u64..40, 1..400),
        frames in 1_usize..45,
    ) {
        let trace = DenseTrace::from_reads(pages);
        let curve = lru(&trace);
        prop_assert_eq!(curve.misses(frames as u64), naive_lru::count_misses(&trace, frames));
        prop_assert!(curve.misses(frames as u64) >= curve.misses(frames as u64 + 1));
    }
}

#[test]
fn sizes_span_the_range_and_repeat_none() {
    assert_eq!(sizes(1, 1000, 4), [1, 10, 100, 1000]);
    assert_eq!(sizes(1, 3, 64), [1, 2, 3]);
    assert_eq!(sizes(5, 9, 1), [9]);
    assert_eq!(sizes(4, 4, 8), [4]);
}

#[test]
fn only_a_share_of_the_pages_is_a_rate() {
    for wrong in [0.0, -0.5, 1.5, f64::NAN, f64::INFINITY, 1e-12] {
        assert_eq!(Sampler::new(wrong), None, "{wrong}");
    }
    assert_eq!(Sampler::new(0.1).map(|sampler| sampler.scale(3)), Some(1));
}

#[test]
fn a_sample_of_everything_is_exact() {
    let trace = skewed(5000, 300);
    let sampler = Sampler::new(1.0).expect("a share");
    let sample = sampled(&trace, sampler);
    assert_eq!(sample.nr_pages(), trace.nr_pages());
    let (curve, exact) = (SampledCurve::new(sampler, &sample, 5000), lru(&trace));
    for frames in [1, 10, 100, 300] {
        let ratio = exact.misses(u64::from(frames)) as f64 / 5000.0;
        assert!((curve.miss_ratio(frames) - ratio).abs() < 1e-12);
        assert_eq!(curve.error(frames), 0.0);
    }
}

/// The stated error must cover the true one without being too wide.
#[test]
fn a_sample_is_off_by_about_what_it_says() {
    let (nr_accesses, nr_pages) = (300_000, 40_000);
    let trace = skewed(nr_accesses, nr_pages);
    let exact = lru(&trace);
    for rate in [0.1, 0.3] {
        let sampler = Sampler::new(rate).expect("a share");
        let sample = sampled(&trace, sampler);
        let share = sample.nr_pages() as f64 / trace.nr_pages() as f64;
        assert!((share / rate - 1.0).abs() < 0.1, "{share} of the pages at rate {rate}");
        let curve = SampledCurve::new(sampler, &sample, nr_accesses);
        for frames in sizes(1000, 30_000, 8) {
            let ratio = exact.misses(u64::from(frames)) as f64 / nr_accesses as f64;
            let (off, stated) = ((curve.miss_ratio(frames) - ratio).abs(), curve.error(frames));
            assert!(off < 4.0 * stated, "{frames}: off by {off}, {stated} stated");
            assert!(stated < 0.03, "{frames}: {stated}");
        }
    }
}

#[test]
fn a_census_counts_kinds_pages_threads_and_reuse() {
    let page = |mapping, index| PageId { mapping: MappingId(mapping), index: PageIndex(index) };
    let entries = [
        (page(0, 1), AccessKind::Read, 0),
        (page(1, 1), AccessKind::Write, 2),
        (page(0, 1), AccessKind::Read, 0),
        (page(0, 9), AccessKind::Readahead, 0),
        (page(1, 1), AccessKind::Evict, 2),
    ];
    let mut census = Census::new();
    for (page, kind, thread) in entries {
        census.count(&Access { page, kind, thread });
    }
    let kinds: Vec<_> = census.kinds().map(|count| (count.name, count.entries)).collect();
    assert_eq!(kinds, [("read", 2), ("write", 1), ("readahead", 1), ("evict", 1)]);
    let counted = (census.nr_entries(), census.nr_accesses(), census.nr_pages());
    assert_eq!((counted, census.nr_pages_accessed()), ((5, 3, 3), 2));
    assert_eq!((census.nr_threads(), census.nr_mappings()), (2, 2));
    let reuse = census.into_reuse();
    assert_eq!((reuse.first_uses, reuse.pages_used_once, reuse.distance_p50), (2, 1, 2));
    assert_eq!(reuse.distance_max, 2);
}
