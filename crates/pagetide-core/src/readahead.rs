//! Readahead: how much to read before it is asked for.
//!
//! Problem: a sequential reader should find its pages in memory, a random one should not pay for
//! pages it did not ask for, and neither says which it is.
//!
//! Idea: each open handle keeps one window. A miss right after the last page read starts one; the
//! first page of its speculative part carries a marker, and the reader that reaches it
//! starts the next window while this one is still being consumed.
//!
//! ```text
//!   |<-- wanted -->|<------ ahead ------>|<-------- next window --------->|
//!   ^ miss         ^ marker              ^ marker of the next
//!                  reaching it asks for the next window, twice as large
//! ```
//!
//! A reader may be faster than the thread that brings its pages: it comes to the marker before the
//! page is even on its way. That is no end of the stream, but a marker met a little early: it reads
//! what it wants by itself, and the next window is asked for.
//!
//! The window doubles up to the limit while it pays. It pays as long as the pages brought in are
//! read before they are evicted: each page evicted unread counts against the handle's mapping, and
//! a window that wasted half of itself is halved, down to nothing.
//!
//! A miss outside any stream reads *around*: while memory is ample, the next few pages come with
//! the one that is wanted. A device that looks for one page has found those behind it as well, and
//! memory that nothing competes for costs nothing: it is full after fewer waits. Where reclaim has
//! to make room, a random reader gets what it asks for and no more.
//!
//! Ignored: backward and strided readers (they read what they ask for).
//! Sources: Wu et al., "On the design of a new Linux readahead framework", 2008.

use crate::units::PAGE_SHIFT;

/// A run of pages to bring in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadaheadRun {
    /// The first page.
    pub start: u64,
    /// How many.
    pub nr: u64,
    /// How many of them the caller reads itself, now; the rest may come in beside it.
    pub nr_now: u64,
    /// The page that gets the marker, inside the run; none for a run that is not continued.
    pub marker: Option<u64>,
    /// What is not wanted has been read around, and is no part of a stream.
    pub is_around: bool,
}

impl ReadaheadRun {
    /// Pages that are known to be wanted, with no reader on the way there.
    pub fn asked_for(start: u64, nr: u64) -> ReadaheadRun {
        ReadaheadRun { start, nr, nr_now: 0, marker: None, is_around: false }
    }
}

/// A miss, as a handle's readahead is told of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Miss {
    /// The page that is not there.
    pub index: u64,
    /// How many the call still wants, from there on; at least 1.
    pub wanted: u64,
    /// The page that the handle read last.
    pub previous: Option<u64>,
    /// The mapping's count of pages that came with a stream and were evicted unread.
    pub wasted: u64,
    /// Memory is left that nothing competes for.
    pub is_ample: bool,
    /// Another thread brings what is not wanted now, and may be on the way with it.
    pub has_prefetcher: bool,
    /// Pages that the group which pays for these can have, if it is one that has less than all.
    pub room: Option<u64>,
}

/// What the caller said about its pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AccessPattern {
    /// Nothing: find out.
    #[default]
    Normal,
    /// Front to back: start large, never doubt.
    Sequential,
    /// Anywhere: look for no stream.
    Random,
}

/// The readahead state of one open handle. Not synchronised; touched on misses and markers only.
#[derive(Clone, Debug)]
pub struct Readahead {
    pattern: AccessPattern,
    /// The largest run, wherever there is room for it.
    nr_most: u64,
    /// The largest run in the room there is now.
    nr_max: u64,
    /// End of the last run asked for: where a sequential reader goes on.
    next: u64,
    /// Length of the last run, 0 where there is no stream.
    window: u64,
    /// Length of the run it continued, which may still be on its way.
    before: u64,
    /// The mapping's count of wasted pages when the last run was made.
    wasted_seen: u64,
}

/// Pages a stream starts with, at least.
const WINDOW_MIN: u64 = 4;
/// A run this short is one request: splitting it would cost more than it hides.
const NOW_MAX: u64 = 16;

/// Pages of a miss outside any stream, while memory is ample. Of one device, 16 KiB took a tenth
/// longer than 4, 32 KiB three tenths.
const AROUND: u64 = 4;

/// The largest window without a setting, pages: four requests of 512 KiB.
const UNASKED: u64 = 512;

/// The largest window a device gets, pages: 64 MiB.
const DEVICE_MAX: u64 = 16_384;

/// The largest run, pages, in memory of `nr_frames`: as `asked`, or else by how far the system
/// reads ahead of the `device`, where that is known: four times as far where memory is plenty, that
/// is where this is no more than a 16th of it, and as far, up to a 32nd, where it is not. In any
/// case a 16th at the most, because a larger one would evict what it reads.
pub fn window_max(asked: Option<u64>, device: Option<u64>, nr_frames: u64) -> u64 {
    let by_device = |device: u64| match device.saturating_mul(4).min(DEVICE_MAX) {
        plenty if plenty <= nr_frames / 16 => plenty,
        _ => device.min(nr_frames / 32),
    };
    let unasked = || UNASKED.max(device.map_or(0, by_device));
    asked.unwrap_or_else(unasked).min(nr_frames / MEMORY_PART)
}

/// Pages on their way into memory at a time, of those that no thread waits for: in flight they
/// cannot be reclaimed, and what others ask for needs room, too.
pub fn in_flight_max(room: u64) -> u64 {
    (room / 4).max(1)
}

/// A run takes one part of memory in so many at the most. Two wait to be read at a time, and of an
/// eighth and more that waits the first leaves: with runs of an eighth, 64 MiB in 8 MiB of memory
/// were read with 115, and are with 64.
const MEMORY_PART: u64 = 16;
/// And of a group's room, in which several streams are to fit: with a 16th, four of them read up to
/// 1.12 times as much as they were asked for.
const GROUP_PART: u64 = 32;

/// Pages that lie in a row in memory, of a request whose pages are not scattered.
const ROW: usize = 6;
/// A request of fewer pages has too few pieces to matter.
const SCATTERED_MIN: usize = 16;

/// Pages that are here already, and are read over rather than asked around by two requests. A file
/// of which three quarters were here, four pages at a time, was read at 1,008 MiB/s so, and at 432
/// in the requests between them.
pub const READ_OVER_MAX: u64 = 8;

/// Whether a request for pages in so many pieces of memory is served sooner through memory in a
/// row, and by a copy from there. A device takes a descriptor for each piece: one of them took 3.9,
/// 1.8 and 1.2 us for a page of 512 KiB in pieces of 4, 16 and 512 KiB, where to copy it takes 0.4.
pub fn is_scattered(nr_pages: usize, nr_pieces: usize) -> bool {
    nr_pages >= SCATTERED_MIN && nr_pieces * ROW > nr_pages
}

/// Bytes in a row that such requests of a memory of `nr_frames` may take turns with: a 32nd of it,
/// and at most four requests of 512 KiB.
pub fn staging_bytes(nr_frames: u64) -> u64 {
    (nr_frames / 32).min(UNASKED) << PAGE_SHIFT
}

impl Readahead {
    /// No stream yet. `nr_max` is the largest run; 0 switches readahead off.
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

    /// Takes the caller's advice and forgets the stream.
    pub fn set_pattern(&mut self, pattern: AccessPattern) {
        self.pattern = pattern;
        self.window = 0;
    }

    /// How many pages a miss outside any stream reads, if one is wanted.
    pub fn nr_around(&self, is_ample: bool) -> u64 {
        if is_ample { AROUND.min(self.nr_max).max(1) } else { 1 }
    }

    /// What to read for a miss.
    ///
    /// The run always starts at its page and holds the wanted ones; `nr_max`, or as many as are
    /// wanted, at the most, and where a prefetcher is overtaken what it was asked for as well.
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

    /// Whether there is a stream, and the page is among the last `nr` that were asked for.
    fn is_in_last(&self, nr: u64, index: u64) -> bool {
        self.window > 0 && index < self.next && index + nr >= self.next
    }

    /// Whether there is a stream, and the page is one that was asked for, or the next: if the one
    /// before it may have been used unseen, it was.
    pub fn has_asked_near(&self, index: u64) -> bool {
        self.is_in_last(self.window + self.before, index) || self.window > 0 && index == self.next
    }

    /// The reader is at a page that was asked for and is not even on its way: all that was asked
    /// for, once more, and if it is in the last run, which has the marker, the next run as well.
    fn overtake(&mut self, index: u64, wanted: u64, grown: u64, wasted: u64) -> ReadaheadRun {
        let marker = self.is_in_last(self.window, index).then_some(self.next);
        if marker.is_some() {
            self.go_on(grown, wasted);
        }
        let nr = wanted.max(self.next - index);
        ReadaheadRun { start: index, nr, nr_now: wanted, marker, is_around: false }
    }

    /// The reader reached a marker at `index`: the next run, if it pays.
    ///
    /// A marker left by another handle's stream is not ours to continue. `room` is as for a miss.
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

    /// The group has no room for larger runs.
    fn fit(&mut self, room: Option<u64>) {
        self.nr_max = self.nr_most.min(room.map_or(u64::MAX, |room| room / GROUP_PART));
    }

    /// A run at `start` is asked for, and nothing before it.
    fn begin(&mut self, start: u64, window: u64, wasted: u64) {
        self.next = start;
        self.window = 0;
        self.go_on(window, wasted);
    }

    /// A run is asked for that continues the last one.
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

    /// A miss in full memory.
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
        // It is there before the page with the marker is: the third window, too.
        let third = readahead.on_miss(miss(64, 16, Some(63)));
        assert_eq!((third.start, third.nr, third.nr_now), (64, 128 + 256, 16));
        assert_eq!(third.marker, Some(192));
        // And once more in what was asked for before: all of it again, and no more.
        let again = readahead.on_miss(miss(96, 16, Some(95)));
        assert_eq!((again.start, again.nr, again.nr_now, again.marker), (96, 352, 16, None));
        // The marker is where it was.
        let fourth = readahead.on_marker(192, 0, None).expect("the next window");
        assert_eq!((fourth.start, fourth.nr), (448, 256));
        // Where no thread is on the way with it, what is not there did not come, or left.
        let alone = Miss { has_prefetcher: false, ..miss(460, 16, Some(459)) };
        let run = readahead.on_miss(alone);
        assert_eq!((run.start, run.nr, run.marker), (460, 64, Some(476)));
    }

    #[test]
    fn a_window_is_no_larger_than_its_group_has_room_for() {
        let mut readahead = Readahead::new(256);
        let mut run = readahead.on_miss(Miss { room: Some(1024), ..miss(0, 16, None) });
        assert_eq!((run.nr, run.marker), (32, Some(16)));
        // A limit that moves is followed.
        let sizes = [1024, 1024, 2048, 1 << 20, 512].map(|room| {
            run = readahead.on_marker(run.marker.unwrap(), 0, Some(room)).unwrap();
            run.nr
        });
        assert_eq!(sizes, [32, 32, 64, 128, 16]);
        // What is wanted is read, whatever the room.
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
        // Where a stream goes on behind such a run, it is one.
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
