//! Against a plain LRU list, and known results.

use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

fn key(index: u64) -> PageKey {
    PageKey::of(0x1234_5678_9abc_def1, PageIndex(index))
}

fn counts_of(nr_frames: u32, pages: impl IntoIterator<Item = u64>) -> ReuseCounts {
    let mut sample = ReuseSample::new(nr_frames);
    pages.into_iter().for_each(|page| sample.access(key(page)));
    sample.validate();
    sample.counts().clone()
}

/// Hits of an LRU list of `frames` pages.
fn naive_hits(frames: usize, pages: &[u64]) -> u64 {
    let mut list: Vec<u64> = Vec::new();
    let mut nr_hits = 0;
    for page in pages {
        if let Some(at) = list.iter().position(|known| known == page) {
            list.remove(at);
            nr_hits += 1;
        }
        list.insert(0, *page);
        list.truncate(frames);
    }
    nr_hits
}

#[test]
fn rates_fall_as_memory_grows_and_one_holds_what_the_other_takes() {
    let shifts = [0, 1, 512, 513, 16_384, 32_768, 32_769, 131_072, u32::MAX]
        .map(|nr_frames| SampleRate::for_frames(nr_frames).shift());
    assert_eq!(shifts, [0, 0, 0, 1, 5, 6, 6, 7, 22]);
    let (some, few) = (SampleRate { shift: 3 }, SampleRate { shift: 5 });
    let taken = (0..100_000).filter(|&index| few.takes(key(index))).count();
    assert!((2800..3450).contains(&taken), "{taken} of 100000 at one in 32");
    assert!((0..10_000).all(|index| !few.takes(key(index)) || some.takes(key(index))));
}

#[test]
fn files_do_not_share_a_sample() {
    let rate = SampleRate { shift: 6 };
    let taken =
        |file: u64| (0..6400).filter(move |&at| rate.takes(PageKey::of(file, PageIndex(at))));
    let (one, other): (Vec<u64>, Vec<u64>) =
        (taken(0xdead_beef_0000_0001).collect(), taken(0x5555_0000_1234_8765).collect());
    assert!(one.len() > 60 && other.len() > 60);
    assert!(one.iter().filter(|at| other.contains(at)).count() < 15);
}

#[test]
fn a_loop_hits_only_where_all_of_it_fits() {
    let counts = counts_of(64, (0..1000).map(|step| step % 10));
    let hits = [0, 1, 9, 10, 11, 64].map(|frames| counts.hits(frames, 1000));
    assert_eq!(hits, [0, 0, 0, 990, 990, 990]);
    assert_eq!(counts.frames_for(99, 100, 1000), 10);
    assert_eq!(counts.frames_known(), 512);
}

#[test]
fn nothing_sampled_says_nothing() {
    let counts = counts_of(1 << 20, []);
    assert_eq!(counts.hits(1000, 50), 0);
    assert_eq!(counts.frames_for(1, 2, 50), 0);
}

#[test]
fn a_discarded_page_is_new_again() {
    let mut sample = ReuseSample::new(16);
    sample.access(key(1));
    sample.discard(key(1));
    sample.discard(key(2));
    sample.access(key(1));
    sample.validate();
    assert_eq!(sample.counts().hits(16, 2), 0);
}

/// The loop is deeper than the stack.
#[test]
fn what_lies_deeper_than_the_stack_is_new() {
    let counts = counts_of(8, (0..2000).map(|step| step % 100));
    assert_eq!(counts.frames_known(), 64);
    assert_eq!(counts.hits(64, 2000), 0);
    assert_eq!(counts.hits(u64::MAX, 2000), 0);
}

/// Half of the accesses miss the sample.
#[test]
fn uses_that_are_missing_count_as_hits_of_hot_pages() {
    let counts = counts_of(64, (0..1000).map(|step| step % 10));
    assert_eq!(counts.hits(1, 2000), 1000);
    assert_eq!(counts.hits(10, 2000), 1990);
    // An excess is subtracted.
    assert_eq!(counts.hits(10, 500), 490);
}

#[test]
fn a_difference_is_of_the_time_between() {
    let mut sample = ReuseSample::new(64);
    (0..100).for_each(|page| sample.access(key(page)));
    let before = sample.counts().clone();
    (0..500).for_each(|step| sample.access(key(step % 5)));
    let since = sample.counts().since(&before);
    assert_eq!(since.nr_sampled(), 500);
    assert_eq!(since.hits(5, 500), 495);
    assert_eq!(before.since(sample.counts()), before, "the wrong way round is no difference");
}

/// One in 32 pages sampled, of a loop between one and two memory sizes.
#[test]
fn a_sampled_loop_turns_near_its_size() {
    let (nr_frames, nr_pages) = (16_384, 24_000);
    let counts = counts_of(nr_frames, (0..10 * nr_pages).map(|step| step % nr_pages));
    let hits = |frames| counts.hits(frames, 10 * nr_pages) as f64 / (10 * nr_pages) as f64;
    assert!(hits(20_000) < 0.05, "{}", hits(20_000));
    assert!(hits(28_000) > 0.85, "{}", hits(28_000));
    let needed = counts.frames_for(99, 100, 10 * nr_pages);
    assert!((22_000..27_000).contains(&needed), "{needed}");
}

proptest! {
    /// Everything is sampled, and distances are short.
    #[test]
    fn short_distances_are_exact(
        pages in prop::collection::vec(0..14_u64, 1..400),
        frames in 1..16_usize,
    ) {
        let counts = counts_of(64, pages.iter().copied());
        let hits = counts.hits(frames as u64, pages.len() as u64);
        prop_assert_eq!(hits, naive_hits(frames, &pages));
    }

    /// Also longer distances at bucket bounds, with many compactions.
    #[test]
    fn bounds_of_buckets_are_exact(
        pages in prop::collection::vec(0..120_u64, 1..1500),
        bucket in 0..60_usize,
    ) {
        let counts = counts_of(16, pages.iter().copied());
        let frames = [16, 32, 64, 128][bucket % 4];
        prop_assert_eq!(
            counts.hits(frames, pages.len() as u64),
            naive_hits(frames as usize, &pages)
        );
    }

    #[test]
    fn more_memory_never_hits_less(
        pages in prop::collection::vec(0..400_u64, 1..800),
        nr_accesses in 1..3000_u64,
    ) {
        let counts = counts_of(32, pages);
        let hits: Vec<u64> = (0..300).map(|frames| counts.hits(frames, nr_accesses)).collect();
        prop_assert!(hits.is_sorted());
        prop_assert!(hits.iter().all(|hits| *hits <= nr_accesses));
    }
}
