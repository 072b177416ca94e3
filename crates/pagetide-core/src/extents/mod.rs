//! Extents: how many pages of a mapped file arrive together.
//!
//! **Problem.** A fault costs as much as reading several pages. An access of a page that is mapped
//! already leaves no trace, so a wrong guess is never noticed. Several threads read in turn.
//!
//! **Idea.** Faults that continue one another are a stream. The lengths of past streams tell how
//! many of the next pages will be used. A window has the pages that most streams use: more than
//! half of them, or three quarters for a long window. Some streams are *probes*: their windows grow
//! from one page, and so measure a length.
//!
//! ```text
//!   probe       |1|1|2 |4   |8       |8       |8       |     each a fault: 24 < length <= 32
//!   others      |32                                |     as long as most probes
//!   long ones   |32              m                 |64 ..   m: a marker requests the next
//! ```
//!
//! If most streams are single pages, all windows are one page long.
//!
//! **Data and invariants.** A fixed number of streams. A new stream replaces the one with the
//! oldest fault. Recent lengths count more: all counts are halved from time to time.
//!
//! **Ignored.** Backward and strided readers.

use crate::readahead::{AccessPattern, ReadaheadRun};

/// Streams at a time. With fewer streams than threads that read in turn, each stream would be
/// replaced before its second fault, and look like a single page.
const NR_STREAMS: usize = 32;
/// Streams for each probe, among those with a short first window, and with a long one.
const PROBE_EACH: [u32; 2] = [2, 8];
/// First window, in pages, that is short: a probe reads little less at once.
const SHORT: u64 = 3;
/// Lengths to measure before they are used.
const NR_KNOWN_MIN: u64 = 8;
/// Measured lengths after which the older ones count half.
const NR_KNOWN_MAX: u64 = 16;
/// Classes of lengths, each up to its [`bound`].
const NR_CLASSES: usize = 40;
/// Divisor of a stream's length for its next windows. Without this least length, the last pages
/// before the end of a class would come one by one.
const WASTE_PART: u64 = 4;
/// Longest window, in pages, whose pages half of the streams use. The pages of a longer one are
/// used by three quarters: unused pages then cost more than another fault.
const HALF_MAX: u64 = 32;
/// Length up to which a probe measures, and from which a stream that is longer than all measured
/// ones is read ahead.
const LONG: u64 = 256;
/// Longest part of a window that the fault waits for, pages.
pub const NOW_MAX: u64 = 64;
/// Shortest window that a marker requests, pages.
const AHEAD_MIN: u64 = 8;
/// Pages read around while memory is ample.
const AROUND: u64 = 16;
/// Pages read around under random advice while memory is ample.
const AROUND_RANDOM: u64 = 4;

/// A missing page, and the memory for it and its neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissingPage {
    /// The page.
    pub index: u64,
    /// True if free memory has no competitor.
    pub is_ample: bool,
    /// Pages available to the paying group, if limited.
    pub room: Option<u64>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Stream {
    start: u64,
    /// Last page known to be touched.
    seen: u64,
    /// End of the requested pages, 0 if there is no stream.
    end: u64,
    marker: Option<u64>,
    is_probe: bool,
    /// Number of the last fault or marker, which orders the streams by age.
    last_fault: u64,
}

impl Stream {
    fn is_continued_at(&self, index: u64) -> bool {
        self.end > 0 && (self.seen..=self.end).contains(&index)
    }

    /// Returns the least possible length.
    fn nr_seen(&self) -> u64 {
        self.seen + 1 - self.start
    }
}

/// The lengths of past streams.
#[derive(Clone, Debug)]
struct Lengths {
    counts: [u64; NR_CLASSES],
    nr: u64,
}

/// Weight of a measured length, so that parts of it are whole numbers.
const WEIGHT: u64 = 1 << 10;

/// Returns the longest length of a class: 1, 2, 4, 8, 16, 24, 32, 48, 64, 96 and so on.
fn bound(class: usize) -> u64 {
    match class.checked_sub(4) {
        None => 1 << class,
        Some(above) if above % 2 == 0 => 16 << (above / 2),
        Some(above) => 24 << (above / 2),
    }
}

fn class_of(len: u64) -> usize {
    (0..NR_CLASSES - 1).find(|class| bound(*class) >= len).unwrap_or(NR_CLASSES - 1)
}

impl Lengths {
    fn record(&mut self, len: u64) {
        self.counts[class_of(len)] += WEIGHT;
        self.nr += 1;
        if self.nr == NR_KNOWN_MAX {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.nr /= 2;
        }
    }

    /// Returns the weight of the lengths above `known`. Within a class, all lengths are as likely.
    fn weight(&self, known: u64) -> u64 {
        let of_class = |class: usize| {
            let (low, high) = (class.checked_sub(1).map_or(0, bound), bound(class));
            self.counts[class] * high.saturating_sub(known.max(low)) / (high - low)
        };
        (0..NR_CLASSES).map(of_class).sum()
    }

    /// Returns true if three quarters of the streams longer than `known` are longer than `len`.
    fn mostly_reach(&self, known: u64, len: u64) -> bool {
        match self.weight(known) {
            0 => known >= LONG,
            all => 4 * self.weight(len) >= 3 * all,
        }
    }

    /// Returns the window from page `from` of a stream that is longer than `known`, up to `nr_max`
    /// pages: the pages that most such streams use.
    fn window(&self, known: u64, from: u64, nr_max: u64) -> u64 {
        let all = self.weight(known);
        if all == 0 {
            return from.max(1).min(nr_max);
        }
        // A page is used by all streams that are longer than its offset.
        let is_used = |nr: u64| {
            let quarters = if nr <= HALF_MAX { 2 } else { 3 };
            nr > 0 && 4 * self.weight(from + nr - 1) > quarters * all
        };
        let (mut used, mut unused) = (0, nr_max + 1);
        while unused - used > 1 {
            let middle = used.midpoint(unused);
            if is_used(middle) { used = middle } else { unused = middle }
        }
        // If nearly all lengths end within this class, one window reads them whole.
        let end = bound(class_of(from + used));
        let is_last = used > 0 && 8 * self.weight(end) <= all;
        if is_last { (end - from).min(nr_max) } else { used }
    }
}

/// The streams of one mapped file. Not synchronised.
#[derive(Clone, Debug)]
pub struct Extents {
    pattern: AccessPattern,
    /// Longest window, pages.
    window_max: u64,
    streams: [Stream; NR_STREAMS],
    lengths: Lengths,
    nr_begun: u64,
    nr_faults: u64,
}

impl Extents {
    /// Creates the state. `window_max` is the longest window in pages, 0 is off.
    pub fn new(window_max: u64) -> Extents {
        Extents {
            pattern: AccessPattern::Normal,
            window_max,
            streams: [Stream::default(); NR_STREAMS],
            lengths: Lengths { counts: [0; NR_CLASSES], nr: 0 },
            nr_begun: 0,
            nr_faults: 0,
        }
    }

    /// Applies advice. New advice forgets the streams and their lengths.
    pub fn set_pattern(&mut self, pattern: AccessPattern) {
        if self.pattern != pattern {
            *self = Extents { pattern, ..Extents::new(self.window_max) };
        }
    }

    /// Returns the pages to read for a fault on an absent page, from that page on.
    pub fn on_miss(&mut self, missing: MissingPage) -> ReadaheadRun {
        let MissingPage { index, is_ample, room } = missing;
        let nr_max = self.nr_max(room);
        let is_random = self.pattern == AccessPattern::Random;
        let around = if is_random { AROUND_RANDOM } else { AROUND };
        let around = if is_ample { around.min(nr_max).max(1) } else { 1 };
        if is_random || nr_max == 0 {
            return run(index, around, None, around > 1);
        }
        self.nr_faults += 1;
        let is_sequential = self.pattern == AccessPattern::Sequential;
        let stream = match self.streams.iter().position(|one| one.is_continued_at(index)) {
            Some(nth) => &mut self.streams[nth],
            None => return self.begin(index, around, nr_max),
        };
        stream.last_fault = self.nr_faults;
        stream.seen = index;
        let rest = stream.end - index;
        if rest > 0 {
            // The page was requested, and has not arrived or has left.
            let marker = stream.marker.filter(|marker| *marker > index);
            return run(index, rest.min(NOW_MAX).min(nr_max), marker, false);
        }
        let len = index - stream.start;
        let is_probe = stream.is_probe && len < LONG;
        let nr = match (is_sequential, is_probe) {
            (true, _) => nr_max,
            (false, true) => bound(class_of(len + 1)) - len,
            _ => self.lengths.window(len, len, nr_max).max(len / WASTE_PART).max(1),
        };
        let nr = nr.min(nr_max);
        stream.end = index + nr;
        let goes_on = is_sequential || !is_probe && self.lengths.mostly_reach(len, len + nr);
        stream.marker = (goes_on && nr > 1).then_some(index + nr / 2);
        run(index, nr, stream.marker, false)
    }

    /// Returns the next window for a touch of the marked page, if it pays.
    pub fn on_marker(&mut self, index: u64, room: Option<u64>) -> Option<ReadaheadRun> {
        let nr_max = self.nr_max(room);
        let stream = self.streams.iter_mut().find(|one| one.marker == Some(index))?;
        self.nr_faults += 1;
        stream.last_fault = self.nr_faults;
        stream.seen = stream.seen.max(index);
        stream.marker = None;
        let (known, from) = (index - stream.start, stream.end - stream.start);
        let nr = match self.pattern {
            AccessPattern::Sequential => nr_max,
            _ => self.lengths.window(known, from, nr_max),
        };
        if nr < AHEAD_MIN.min(nr_max) || nr == 0 {
            return None;
        }
        let start = stream.end;
        stream.marker = Some(start);
        stream.end += nr;
        Some(ReadaheadRun { nr_now: 0, ..run(start, nr, stream.marker, false) })
    }

    /// Returns the longest window that fits in a group's room.
    fn nr_max(&self, room: Option<u64>) -> u64 {
        self.window_max.min(room.map_or(u64::MAX, |room| room / ROOM_PART))
    }

    /// Begins a stream in place of the one with the oldest fault. Records the length of that one,
    /// if it was a probe.
    fn begin(&mut self, index: u64, around: u64, nr_max: u64) -> ReadaheadRun {
        let oldest = (0..NR_STREAMS).min_by_key(|nth| self.streams[*nth].last_fault).unwrap_or(0);
        if self.streams[oldest].is_probe {
            self.lengths.record(self.streams[oldest].nr_seen());
        }
        self.nr_begun += 1;
        let is_sequential = self.pattern == AccessPattern::Sequential;
        let (window, is_probe) =
            if is_sequential { (nr_max, false) } else { self.first_window(nr_max) };
        let (is_around, nr) = (around > window, window.max(around));
        let goes_on = is_sequential || !is_probe && self.lengths.mostly_reach(0, nr);
        let marker = (goes_on && !is_around && nr > 1).then_some(index + nr / 2);
        self.streams[oldest] = Stream {
            start: index,
            seen: index,
            end: index + nr,
            marker,
            // Pages read around leave no faults that would measure the length.
            is_probe: is_probe && !is_around,
            last_fault: self.nr_faults,
        };
        run(index, nr, marker, is_around)
    }

    /// Returns the first window of a new stream, and true if the stream is a probe.
    fn first_window(&self, nr_max: u64) -> (u64, bool) {
        let window = self.lengths.window(0, 0, nr_max).max(1);
        let is_known = self.lengths.nr >= NR_KNOWN_MIN;
        let is_probe = !is_known || window == 1 || self.is_drawn(window);
        (if is_probe { 1 } else { window }, is_probe)
    }

    /// Returns true if the new stream is drawn as a probe. Programs begin streams of different
    /// lengths in a regular order, so a counter alone might draw only one length.
    fn is_drawn(&self, window: u64) -> bool {
        let [of_short, of_long] = PROBE_EACH;
        let each = if window <= SHORT { of_short } else { of_long };
        let scattered = (self.nr_begun as u32).wrapping_mul(0x9e37_79b9);
        scattered < u32::MAX / each
    }
}

/// Divisor of a group's room that bounds a window.
const ROOM_PART: u64 = 32;

fn run(start: u64, nr: u64, marker: Option<u64>, is_around: bool) -> ReadaheadRun {
    ReadaheadRun { start, nr, nr_now: nr.min(NOW_MAX), marker, is_around }
}

#[cfg(test)]
mod tests;
