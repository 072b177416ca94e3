//! Readahead: how many pages to read ahead of a reader.
//!
//! **Problem.** Sequential readers should find resident pages. Random readers should not pay for
//! unrequested pages.
//!
//! **Idea.** Each open handle keeps one window. A miss after the last page read starts a stream.
//! The first speculative page carries a marker, which starts the next window.
//!
//! ```text
//!   |<-- wanted -->|<------ ahead ------>|<-------- next window --------->|
//!   ^ miss         ^ marker              ^ marker of the next
//!                  requests the next window, twice as large
//! ```
//!
//! A fast reader may reach the marker before its page is in flight. The reader reads the page
//! itself, and the next window is requested.
//!
//! The window doubles up to the limit while pages are read before eviction. A window half wasted is
//! halved, down to nothing.
//!
//! While memory is ample, a miss outside any stream reads *around*: the next few pages come along.
//!
//! **Ignored.** Backward and strided readers.
//!
//! **Sources.** Wu et al., "On the design of a new Linux readahead framework", 2008.

use crate::units::PAGE_SHIFT;

/// A run of pages to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadaheadRun {
    /// First page.
    pub start: u64,
    /// Number of pages.
    pub nr: u64,
    /// Pages that the caller reads now.
    pub nr_now: u64,
    /// Page that gets the marker, if any.
    pub marker: Option<u64>,
    /// True if read around, outside any stream.
    pub is_around: bool,
}

impl ReadaheadRun {
    /// Returns a run of wanted pages.
    pub fn asked_for(start: u64, nr: u64) -> ReadaheadRun {
        ReadaheadRun { start, nr, nr_now: 0, marker: None, is_around: false }
    }
}

/// A miss of one handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Miss {
    /// Missing page.
    pub index: u64,
    /// Pages wanted from `index` on, at least 1.
    pub wanted: u64,
    /// Last page read by the handle.
    pub previous: Option<u64>,
    /// Readahead pages of the mapping evicted unread.
    pub wasted: u64,
    /// True if free memory has no competitor.
    pub is_ample: bool,
    /// True if another thread fetches unwanted pages.
    pub has_prefetcher: bool,
    /// Pages available to the paying group, if limited.
    pub room: Option<u64>,
}

/// Access pattern announced by the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AccessPattern {
    /// No advice: detect streams.
    #[default]
    Normal,
    /// Front to back: start with the largest window.
    Sequential,
    /// Random: detect no streams.
    Random,
}

/// Readahead state of one open handle. Not synchronised.
#[derive(Clone, Debug)]
pub struct Readahead {
    pattern: AccessPattern,
    /// Largest run, pages.
    nr_most: u64,
    /// Largest run in the current room, pages.
    nr_max: u64,
    next: u64,
    /// Pages of the last run, 0 without a stream.
    window: u64,
    /// Pages of the run before, possibly in flight.
    before: u64,
    wasted_seen: u64,
}

const WINDOW_MIN: u64 = 4;
/// Longest run read in one request.
const NOW_MAX: u64 = 16;

/// Pages read around. On one device, 16 KiB took 10 % longer than 4 KiB, 32 KiB 30 %.
const AROUND: u64 = 4;

/// Default window, pages: four requests of 512 KiB.
const UNASKED: u64 = 512;

/// Largest window for a device, pages: 64 MiB.
const DEVICE_MAX: u64 = 16_384;

/// Returns the largest run, in pages, for memory of `nr_frames`.
///
/// `asked` wins. The default is 512 pages, or more by the `device`'s readahead: four times that up
/// to a 16th of memory, else as much up to a 32nd. Runs above a 16th of memory would evict
/// themselves.
pub fn window_max(asked: Option<u64>, device: Option<u64>, nr_frames: u64) -> u64 {
    let by_device = |device: u64| match device.saturating_mul(4).min(DEVICE_MAX) {
        plenty if plenty <= nr_frames / 16 => plenty,
        _ => device.min(nr_frames / 32),
    };
    let unasked = || UNASKED.max(device.map_or(0, by_device));
    asked.unwrap_or_else(unasked).min(nr_frames / MEMORY_PART)
}

/// Returns the limit of unawaited pages in flight.
pub fn in_flight_max(room: u64) -> u64 {
    (room / 4).max(1)
}

/// Divisor of memory that bounds a run. With 8, reading 64 MiB in 8 MiB of memory moved 115 MiB.
const MEMORY_PART: u64 = 16;
/// Divisor of a group's room that bounds a run. With 16, four streams read 12 % too much.
const GROUP_PART: u64 = 32;

const ROW: usize = 6;
/// Least pages of a scattered request.
const SCATTERED_MIN: usize = 16;

/// Resident pages to read over. A file three quarters resident was read at 1,008 MiB/s, and at 432
/// with split requests.
pub const READ_OVER_MAX: u64 = 8;

/// Returns true if a staging buffer and a copy beat a request in many pieces. A page of 512 KiB
/// took 3.9, 1.8 and 1.2 us in pieces of 4, 16 and 512 KiB, a copy 0.4.
pub fn is_scattered(nr_pages: usize, nr_pieces: usize) -> bool {
    nr_pages >= SCATTERED_MIN && nr_pieces * ROW > nr_pages
}

/// Returns the size of all staging buffers: a 32nd of memory, at most 2 MiB.
pub fn staging_bytes(nr_frames: u64) -> u64 {
    (nr_frames / 32).min(UNASKED) << PAGE_SHIFT
}

impl Readahead {
    /// Creates the state. `nr_max` is the largest run in pages, 0 is off.
    pub fn new(nr_max: u64) -> Readahead {
        let pattern = AccessPattern::default();
        Readahead {
            pattern,
            nr_most: nr_max,
            nr_max,
            next: 0,
            window: 0,
            before: 0,
            wasted_seen: 0,
        }
    }

    /// Applies advice and forgets the stream.
    pub fn set_pattern(&mut self, pattern: AccessPattern) {
        self.pattern = pattern;
        self.window = 0;
    }

    /// Returns the pages to read for a miss outside any stream.
    pub fn nr_around(&self, is_ample: bool) -> u64 {
        if is_ample { AROUND.min(self.nr_max).max(1) } else { 1 }
    }

    /// Returns the run to read for a miss.
    ///
    /// The run starts at the missing page and holds the wanted ones. The length is at most `nr_max`
    /// or `wanted`, plus requested pages that the reader overtook.
    pub fn on_miss(&mut self, miss: Miss) -> ReadaheadRun {
        self.fit(miss.room);
        let Miss { index, previous, wasted, .. } = miss;
        let wanted = miss.wanted.max(1);
        let follows = match previous {
            None => index == 0,
            Some(previous) => index == previous || index == previous + 1,
        };
        let continues = self.window > 0 && index == self.next;
        let is_stream = match self.pattern {
            AccessPattern::Random => false,
            AccessPattern::Sequential => true,
            AccessPattern::Normal => follows || continues,
        };
        if !is_stream || self.nr_max == 0 {
            let nr = wanted.max(self.nr_around(miss.is_ample));
            self.window = 0;
            self.next = index + nr;
            self.wasted_seen = wasted;
            let is_around = nr > wanted;
            return ReadaheadRun { start: index, nr, nr_now: nr, marker: None, is_around };
        }
        let grown = self.grown(wasted);
        let may_come = miss.has_prefetcher && grown >= self.window;
        if follows && may_come && self.is_in_last(self.window + self.before, index) {
            return self.overtake(index, wanted, grown, wasted);
        }
        let window = if continues { grown } else { self.first_window(wanted) }.max(wanted);
        let ahead = window > wanted;
        self.begin(index, window, wasted);
        let nr_now = if window <= NOW_MAX { window } else { wanted };
        let marker = ahead.then_some(index + wanted);
        ReadaheadRun { start: index, nr: window, nr_now, marker, is_around: false }
    }

    /// Returns true if the page is among the last `nr` requested.
    fn is_in_last(&self, nr: u64, index: u64) -> bool {
        self.window > 0 && index < self.next && index + nr >= self.next
    }

    /// Returns true if the page was requested or is the next one.
    pub fn has_asked_near(&self, index: u64) -> bool {
        self.is_in_last(self.window + self.before, index) || self.window > 0 && index == self.next
    }

    /// Requests the rest again, and the next run if the page is in the last one.
    fn overtake(&mut self, index: u64, wanted: u64, grown: u64, wasted: u64) -> ReadaheadRun {
        let marker = self.is_in_last(self.window, index).then_some(self.next);
        if marker.is_some() {
            self.go_on(grown, wasted);
        }
        let nr = wanted.max(self.next - index);
        ReadaheadRun { start: index, nr, nr_now: wanted, marker, is_around: false }
    }

    /// Returns the next run after the marker at `index`, if it pays.
    ///
    /// Ignores another handle's marker. `room` is as in [`Miss`].
    pub fn on_marker(
        &mut self,
        index: u64,
        wasted: u64,
        room: Option<u64>,
    ) -> Option<ReadaheadRun> {
        self.fit(room);
        if !self.is_in_last(self.window, index) || self.nr_max == 0 {
            return None;
        }
        let start = self.next;
        let window = self.grown(wasted);
        if window == 0 {
            self.window = 0;
            return None;
        }
        self.go_on(window, wasted);
        Some(ReadaheadRun { start, nr: window, nr_now: 0, marker: Some(start), is_around: false })
    }

    fn fit(&mut self, room: Option<u64>) {
        self.nr_max = self.nr_most.min(room.map_or(u64::MAX, |room| room / GROUP_PART));
    }

    fn begin(&mut self, start: u64, window: u64, wasted: u64) {
        self.next = start;
        self.window = 0;
        self.go_on(window, wasted);
    }

    fn go_on(&mut self, window: u64, wasted: u64) {
        self.next += window;
        self.before = self.window;
        self.window = window;
        self.wasted_seen = wasted;
    }

    fn first_window(&self, wanted: u64) -> u64 {
        let size = match self.pattern {
            AccessPattern::Sequential => self.nr_max,
            _ => (wanted.next_power_of_two() * 4).max(WINDOW_MIN),
        };
        size.min(self.nr_max)
    }

    fn grown(&self, wasted: u64) -> u64 {
        let wasted = wasted.saturating_sub(self.wasted_seen);
        if self.pattern != AccessPattern::Sequential && wasted * 2 > self.window {
            let halved = self.window / 2;
            return if halved < WINDOW_MIN { 0 } else { halved };
        }
        let factor = if self.window * 16 < self.nr_max { 4 } else { 2 };
        (self.window * factor).clamp(WINDOW_MIN.min(self.nr_max), self.nr_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn miss(index: u64, wanted: u64, previous: Option<u64>) -> Miss {
        Miss {
            index,
            wanted,
            previous,
            wasted: 0,
            is_ample: false,
            has_prefetcher: true,
            room: None,
        }
    }

    #[test]
    fn sequential_reader_ramps_up_to_the_limit() {
        let mut readahead = Readahead::new(256);
        let first = readahead.on_miss(miss(0, 1, None));
        assert_eq!((first.start, first.nr, first.nr_now, first.marker), (0, 4, 4, Some(1)));
        let mut sizes = alloc::vec::Vec::new();
        let mut marker = first.marker;
        let mut end = first.start + first.nr;
        for _ in 0..6 {
            let run = readahead.on_marker(marker.unwrap(), 0, None).unwrap();
            assert_eq!(run.start, end, "runs follow each other without a gap");
            end = run.start + run.nr;
            marker = run.marker;
            sizes.push(run.nr);
        }
        assert_eq!(sizes, [16, 32, 64, 128, 256, 256]);
    }

    #[test]
    fn a_reader_faster_than_its_pages_keeps_its_stream() {
        let mut readahead = Readahead::new(256);
        let first = readahead.on_miss(miss(0, 16, None));
        assert_eq!((first.nr, first.nr_now, first.marker), (64, 16, Some(16)));
        let second = readahead.on_marker(16, 0, None).expect("the next window");
        assert_eq!((second.start, second.nr, second.marker), (64, 128, Some(64)));
        let third = readahead.on_miss(miss(64, 16, Some(63)));
        assert_eq!((third.start, third.nr, third.nr_now), (64, 128 + 256, 16));
        assert_eq!(third.marker, Some(192));
        // Again: the same request without growth.
        let again = readahead.on_miss(miss(96, 16, Some(95)));
        assert_eq!((again.start, again.nr, again.nr_now, again.marker), (96, 352, 16, None));
        let fourth = readahead.on_marker(192, 0, None).expect("the next window");
        assert_eq!((fourth.start, fourth.nr), (448, 256));
        // Without a prefetcher the pages were lost.
        let alone = Miss { has_prefetcher: false, ..miss(460, 16, Some(459)) };
        let run = readahead.on_miss(alone);
        assert_eq!((run.start, run.nr, run.marker), (460, 64, Some(476)));
    }

    #[test]
    fn a_window_is_no_larger_than_its_group_has_room_for() {
        let mut readahead = Readahead::new(256);
        let mut run = readahead.on_miss(Miss { room: Some(1024), ..miss(0, 16, None) });
        assert_eq!((run.nr, run.marker), (32, Some(16)));
        let sizes = [1024, 1024, 2048, 1 << 20, 512].map(|room| {
            run = readahead.on_marker(run.marker.unwrap(), 0, Some(room)).unwrap();
            run.nr
        });
        assert_eq!(sizes, [32, 32, 64, 128, 16]);
        let run = readahead.on_miss(Miss { room: Some(16), ..miss(5000, 40, Some(4999)) });
        assert_eq!((run.nr, run.marker), (40, None));
    }

    #[test]
    fn a_stream_whose_pages_leave_unread_begins_anew() {
        let mut readahead = Readahead::new(256);
        let _ = readahead.on_miss(miss(0, 16, None));
        let run = readahead.on_miss(Miss { wasted: 40, ..miss(16, 16, Some(15)) });
        assert_eq!((run.start, run.nr, run.marker), (16, 64, Some(32)));
    }

    #[test]
    fn random_misses_read_what_is_wanted() {
        let mut readahead = Readahead::new(256);
        for index in [77, 12, 900, 13_000] {
            let run = readahead.on_miss(miss(index, 2, Some(40)));
            assert_eq!((run.start, run.nr, run.nr_now, run.marker), (index, 2, 2, None));
            assert!(!run.is_around);
        }
    }

    #[test]
    fn random_misses_read_around_while_memory_is_ample() {
        let ample = |index, wanted| Miss { is_ample: true, ..miss(index, wanted, Some(40)) };
        for pattern in [AccessPattern::Normal, AccessPattern::Random] {
            let mut readahead = Readahead::new(256);
            readahead.set_pattern(pattern);
            for (wanted, nr) in [(1, 4), (3, 4), (4, 4), (9, 9)] {
                let run = readahead.on_miss(ample(1000, wanted));
                assert_eq!((run.start, run.nr, run.nr_now, run.marker), (1000, nr, nr, None));
                assert_eq!(run.is_around, nr > wanted);
            }
        }
        let mut readahead = Readahead::new(256);
        let run = readahead.on_miss(ample(1000, 1));
        let next = readahead.on_miss(Miss { previous: Some(1003), ..ample(run.start + run.nr, 1) });
        assert_eq!((next.nr, next.is_around), (4, false));
        assert_eq!(Readahead::new(2).on_miss(ample(7, 1)).nr, 2, "no more than a window");
        assert_eq!(Readahead::new(0).on_miss(ample(7, 1)).nr, 1, "off");
    }

    #[test]
    fn advice_overrides_the_guess() {
        let mut readahead = Readahead::new(64);
        readahead.set_pattern(AccessPattern::Random);
        assert_eq!(readahead.on_miss(miss(0, 1, None)).nr, 1);
        readahead.set_pattern(AccessPattern::Sequential);
        assert_eq!(readahead.on_miss(miss(500, 1, None)).nr, 64);
    }

    #[test]
    fn waste_shrinks_the_window_to_nothing() {
        let mut readahead = Readahead::new(64);
        let mut run = readahead.on_miss(miss(0, 1, None));
        let mut wasted = 0;
        for _ in 0..4 {
            run = readahead.on_marker(run.marker.unwrap(), wasted, None).unwrap();
        }
        assert_eq!(run.nr, 64);
        let mut sizes = alloc::vec::Vec::new();
        loop {
            wasted += run.nr;
            match readahead.on_marker(run.marker.unwrap(), wasted, None) {
                Some(next) => run = next,
                None => break,
            }
            sizes.push(run.nr);
        }
        assert_eq!(sizes, [32, 16, 8, 4]);
        assert_eq!(readahead.on_marker(run.marker.unwrap(), wasted, None), None);
    }

    #[test]
    fn a_large_request_is_never_cut() {
        let mut readahead = Readahead::new(16);
        assert_eq!(readahead.on_miss(miss(0, 100, None)).nr, 100);
        assert_eq!(Readahead::new(0).on_miss(miss(0, 3, None)).nr, 3);
        let run = Readahead::new(256).on_miss(miss(0, 16, None));
        assert_eq!((run.nr, run.nr_now), (64, 16), "the rest comes in beside the caller");
    }

    #[test]
    fn the_largest_window_is_as_the_device_wants_where_memory_is_large() {
        let mib = |nr: u64| nr << 8;
        for (device, memory, window) in [
            (8, 512, 32),
            (8, 511, 8),
            (8, 128, 4),
            (8, 64, 2),
            (8, 16, 1),
            (0, 512, 2),
            (64, 4096, 64),
        ] {
            let found = window_max(None, Some(mib(device)), mib(memory));
            assert_eq!(found, mib(window), "{device} MiB before {memory} MiB");
        }
        assert_eq!(window_max(None, None, mib(4096)), mib(2));
        assert_eq!(window_max(Some(mib(1)), Some(mib(8)), mib(512)), mib(1), "as asked");
        assert_eq!(window_max(Some(mib(64)), Some(mib(8)), mib(256)), mib(16), "a 16th");
        assert_eq!(window_max(Some(0), Some(mib(8)), mib(256)), 0, "off");
    }

    #[test]
    fn a_request_in_many_pieces_is_scattered() {
        for (nr_pages, nr_pieces, expected) in
            [(128, 128, true), (128, 22, true), (128, 21, false), (16, 3, true), (15, 15, false)]
        {
            assert_eq!(is_scattered(nr_pages, nr_pieces), expected, "{nr_pages} in {nr_pieces}");
        }
        assert_eq!([1 << 10, 1 << 14, 1 << 20].map(staging_bytes), [128 << 10, 2 << 20, 2 << 20]);
    }

    #[test]
    fn a_strangers_marker_is_left_alone() {
        let mut readahead = Readahead::new(64);
        let _ = readahead.on_miss(miss(0, 1, None));
        assert_eq!(readahead.on_marker(5_000, 0, None), None);
    }
}
