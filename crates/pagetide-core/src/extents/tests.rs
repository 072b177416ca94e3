use super::*;
use alloc::vec::Vec;

/// A mapped file in memory without limit, apart from pages that the test drops.
struct Reader {
    extents: Extents,
    /// Runs requested by faults and markers.
    nr_faults: u64,
    nr_read: u64,
}

impl Reader {
    fn new(nr_max: u64) -> Reader {
        Reader { extents: Extents::new(nr_max), nr_faults: 0, nr_read: 0 }
    }

    /// Touches pages in order. None of them is present before.
    fn touch(&mut self, pages: core::ops::Range<u64>) {
        let (mut present, mut marker) = (pages.start, None);
        for index in pages {
            if index >= present {
                self.nr_faults += 1;
                let run = self.extents.on_miss(MissingPage { index, is_ample: false, room: None });
                assert_eq!(run.start, index);
                (present, marker) = (index + run.nr, run.marker);
                self.nr_read += run.nr;
            }
            if marker == Some(index) {
                self.nr_faults += 1;
                if let Some(run) = self.extents.on_marker(index, None) {
                    assert_eq!(run.start, present, "windows follow each other without a gap");
                    (present, marker) = (present + run.nr, run.marker);
                    self.nr_read += run.nr;
                }
            }
        }
    }

    /// Touches `nr` runs of each of these lengths, far apart, and returns the faults and the pages
    /// read for the second half.
    fn runs(&mut self, nr: u64, lens: &[u64]) -> (u64, u64) {
        let mut before = (0, 0);
        for nth in 0..nr {
            if nth == nr / 2 {
                before = (self.nr_faults, self.nr_read);
            }
            for (at, len) in lens.iter().enumerate() {
                let start = ((nth * lens.len() as u64 + at as u64) * 7919 % 100_003) << 20;
                self.touch(start..start + len);
            }
        }
        (self.nr_faults - before.0, self.nr_read - before.1)
    }
}

#[test]
fn single_pages_are_read_alone() {
    let (nr_faults, nr_read) = Reader::new(512).runs(200, &[1]);
    assert_eq!((nr_faults, nr_read), (100, 100));
}

#[test]
fn runs_of_one_length_come_in_few_faults() {
    for len in [16, 64, 88, 128, 250] {
        let (nr_faults, nr_read) = Reader::new(512).runs(200, &[len]);
        assert!(nr_faults <= 100 * 3, "{nr_faults} faults for 100 runs of {len}");
        assert!(nr_read * 4 <= 100 * len * 5, "{nr_read} pages for 100 runs of {len}");
    }
}

#[test]
fn runs_of_many_lengths_waste_a_quarter_at_most() {
    let lens = [16, 32, 48, 64, 80, 96, 112, 128];
    let (nr_faults, nr_read) = Reader::new(512).runs(80, &lens);
    let (nr_runs, nr_touched) = (40 * 8, 40 * lens.iter().sum::<u64>());
    assert!(nr_faults <= nr_runs * 4, "{nr_faults} faults for {nr_runs} runs");
    assert!(nr_read * 3 <= nr_touched * 4, "{nr_read} pages read, {nr_touched} touched");
}

/// The lengths of an index with lists of 146 to 530 pages.
#[test]
fn long_runs_of_many_lengths_waste_a_fifth_at_most() {
    let lens = [146, 203, 261, 321, 381, 425, 469, 530];
    let (nr_faults, nr_read) = Reader::new(512).runs(80, &lens);
    let (nr_runs, nr_touched) = (40 * 8, 40 * lens.iter().sum::<u64>());
    assert!(nr_faults <= nr_runs * 5, "{nr_faults} faults for {nr_runs} runs");
    assert!(nr_read * 5 <= nr_touched * 6, "{nr_read} pages read, {nr_touched} touched");
}

#[test]
fn single_pages_after_long_runs_are_read_alone_again() {
    let mut reader = Reader::new(512);
    reader.runs(200, &[128]);
    let (_, nr_read) = reader.runs(800, &[1]);
    assert_eq!(nr_read, 400);
    let (nr_faults, _) = reader.runs(200, &[128]);
    assert!(nr_faults <= 300, "{nr_faults} faults for 100 runs, long again");
}

#[test]
fn a_pass_over_the_file_has_large_windows_ahead() {
    let mut reader = Reader::new(512);
    reader.touch(0..65_536);
    assert!(reader.nr_faults < 160, "{} faults", reader.nr_faults);
    assert!(reader.nr_read < 65_536 + 1024, "{} pages", reader.nr_read);
}

#[test]
fn streams_in_turn_do_not_disturb_each_other() {
    for nr_streams in [4, 32] {
        let mut extents = Extents::new(512);
        let mut ends: Vec<u64> = (0..nr_streams).map(|nth| nth << 20).collect();
        for _ in 0..24 {
            for end in &mut ends {
                let missing = MissingPage { index: *end, is_ample: false, room: None };
                *end += extents.on_miss(missing).nr;
            }
        }
        let nr_read: u64 =
            ends.iter().zip(0..).map(|(end, nth): (&u64, u64)| end - (nth << 20)).sum();
        assert!(
            nr_read > nr_streams * 1024,
            "{nr_read} pages in 24 faults of {nr_streams} streams"
        );
    }
}

#[test]
fn a_group_without_room_gets_no_window() {
    let mut extents = Extents::new(512);
    let miss = |index| MissingPage { index, is_ample: false, room: None };
    let (mut index, mut marker) = (0, None);
    while marker.is_none() {
        let run = extents.on_miss(miss(index));
        (index, marker) = (index + run.nr, run.marker);
    }
    assert_eq!(extents.on_marker(marker.unwrap(), Some(31)), None);
    let requested = extents.on_miss(miss(index));
    assert!(requested.nr > 8);
    let again = extents.on_miss(MissingPage { room: Some(4 * 32), ..miss(index + 1) });
    assert_eq!(again.nr, 4);
    assert_eq!(extents.on_miss(MissingPage { room: Some(31), ..miss(index + 2) }).nr, 1);
}

#[test]
fn repeated_advice_keeps_the_streams() {
    let mut extents = Extents::new(512);
    let miss = |index| MissingPage { index, is_ample: false, room: None };
    let mut index = 0;
    let mut nr_last = 0;
    for _ in 0..12 {
        extents.set_pattern(AccessPattern::Normal);
        nr_last = extents.on_miss(miss(index)).nr;
        index += nr_last;
    }
    assert!(nr_last > 16, "{nr_last} pages");
}

#[test]
fn a_page_that_was_requested_and_is_absent_is_read_again() {
    let mut extents = Extents::new(512);
    let mut index = 0;
    let miss = |index| MissingPage { index, is_ample: false, room: None };
    while index < 512 {
        index += extents.on_miss(miss(index)).nr;
    }
    let run = extents.on_miss(miss(index));
    assert!(run.nr > NOW_MAX + 10);
    let again = extents.on_miss(miss(index + 10));
    assert_eq!((again.start, again.nr, again.marker), (index + 10, NOW_MAX, run.marker));
    let rest = extents.on_miss(miss(index + run.nr - 3));
    assert_eq!(rest.nr, 3, "no more than was requested");
}

#[test]
fn ample_memory_is_read_around_and_teaches_nothing() {
    let mut extents = Extents::new(512);
    for nth in 0..100 {
        let run = extents.on_miss(MissingPage { index: nth << 12, is_ample: true, room: None });
        assert_eq!((run.nr, run.nr_now, run.marker, run.is_around), (16, 16, None, true));
    }
    let run = extents.on_miss(MissingPage { index: (99 << 12) + 16, is_ample: true, room: None });
    assert_eq!((run.nr, run.is_around), (16, false), "continued");
    assert_eq!(extents.lengths.nr, 0);
}

#[test]
fn advice_and_room_bound_the_windows() {
    let miss = |index| MissingPage { index, is_ample: false, room: None };
    let mut extents = Extents::new(64);
    extents.set_pattern(AccessPattern::Sequential);
    let run = extents.on_miss(miss(500));
    assert_eq!((run.nr, run.nr_now, run.marker), (64, 64, Some(532)));
    let run = extents.on_marker(532, None).expect("the next window");
    assert_eq!((run.start, run.nr, run.nr_now, run.marker), (564, 64, 0, Some(564)));
    let run = extents.on_miss(miss(628));
    assert_eq!((run.nr, run.marker), (64, Some(660)), "the marker was not noticed");
    extents.set_pattern(AccessPattern::Random);
    for index in 0..10 {
        assert_eq!(extents.on_miss(miss(index)).nr, 1);
    }
    let mut extents = Extents::new(512);
    let mut index = 0;
    for _ in 0..20 {
        let run = extents.on_miss(MissingPage { room: Some(320), ..miss(index) });
        assert!(run.nr <= 10);
        index += run.nr;
    }
    assert_eq!(Extents::new(0).on_miss(MissingPage { is_ample: true, ..miss(0) }).nr, 1, "off");
}

#[test]
fn a_window_ends_where_most_of_the_lengths_end() {
    let mut lengths = Lengths { counts: [0; NR_CLASSES], nr: 0 };
    assert_eq!((lengths.window(0, 0, 512), lengths.window(40, 40, 512)), (1, 40), "nothing known");
    // Lengths 97 to 128, each as likely.
    (0..8).for_each(|_| lengths.record(100));
    assert_eq!(lengths.window(0, 0, 512), 128, "all end there");
    assert_eq!(lengths.window(112, 112, 512), 16);
    (0..4).for_each(|_| lengths.record(500));
    assert_eq!(lengths.window(0, 0, 512), 108);
    assert_eq!(lengths.window(50, 100, 512), 20);
    assert_eq!(lengths.window(120, 120, 512), 32, "two thirds go on");
    lengths.counts[class_of(500)] = 0;
    assert_eq!(lengths.window(120, 128, 512), 0);
    assert_eq!(lengths.window(0, 0, 64), 64);
    assert!(lengths.mostly_reach(0, 104) && !lengths.mostly_reach(0, 106));
}

#[test]
fn classes_are_at_most_half_an_octave_wide_from_16_pages_on() {
    let bounds: Vec<u64> = (0..12).map(bound).collect();
    assert_eq!(bounds, [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192]);
    for (len, class) in [(1, 0), (2, 1), (3, 2), (16, 4), (17, 5), (97, 10), (128, 10)] {
        assert_eq!(class_of(len), class, "{len}");
    }
    assert_eq!(class_of(u64::MAX), NR_CLASSES - 1);
}
