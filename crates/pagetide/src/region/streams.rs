//! Sequential faults of a region, and readahead for them.
//!
//! Problem: each fault of a pass waits for its own read. Idea: core decides as for a file's reader.
//! The prefetcher reads and maps pages, except the marked page. Otherwise a fault maps the resident
//! pages that follow.
//!
//! ```text
//!   fault at 8:   | 8 missing | 9 .. 11 wanted, 9 with the marker |
//!   fault at 9:               | 9 mapped, 10, 11 used unseen      | 12 .. 27 wanted
//! ```
//!
//! Data and invariants: a small fixed number of streams. A fault outside all streams replaces the
//! oldest. Nothing is allocated after start. Sequential stores to pages without contents, for which
//! zeros are mapped, and to pages that are mapped for loads are separate streams.

use crate::memory::locks::lock;
use pagetide_core::readahead::{Miss, Readahead, ReadaheadRun};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const NR_STREAMS: usize = 4;
/// Range of pages that one fault maps beside its own, by window length.
const AROUND_MIN: u64 = 15;
const AROUND_MAX: u64 = 63;

/// Maximum number of zero pages mapped ahead.
pub(super) const ZEROS_MAX: u64 = 64;

pub(super) struct Streams {
    nr_max: u64,
    state: Mutex<State>,
}

struct State {
    streams: [Stream; NR_STREAMS],
    nr_noted: u64,
}

struct Stream {
    readahead: Readahead,
    last: Option<u64>,
    /// End of the requested pages.
    end: u64,
    noted: u64,
    reached: Arc<AtomicU64>,
}

pub(super) struct Ahead {
    nth: usize,
    /// Pages to map if resident.
    pub(super) around: Range<u64>,
    /// Pages to read, and the stream's progress.
    pub(super) wanted: Option<(ReadaheadRun, Arc<AtomicU64>)>,
}

impl Streams {
    pub(super) fn new(nr_max: u64) -> Streams {
        let stream = || Stream {
            readahead: Readahead::new(nr_max),
            last: None,
            end: 0,
            noted: 0,
            reached: Arc::default(),
        };
        let streams = std::array::from_fn(|_| stream());
        Streams { nr_max, state: Mutex::new(State { streams, nr_noted: 0 }) }
    }

    /// Records a fault. `wasted` is for core. Returns the work for the fault's stream.
    pub(super) fn note(&self, index: u64, is_missing: bool, wasted: u64) -> Option<Ahead> {
        let mut state = lock(&self.state);
        state.nr_noted += 1;
        let noted = state.nr_noted;
        let continued = state.streams.iter().position(|stream| stream.is_continued_at(index));
        let nth = match continued {
            Some(nth) => nth,
            None if is_missing => {
                let ages = state.streams.iter().enumerate();
                let (oldest, _) = ages.min_by_key(|(_, stream)| stream.noted)?;
                let stream = &mut state.streams[oldest];
                stream.readahead = Readahead::new(self.nr_max);
                (stream.last, stream.end) = (None, 0);
                oldest
            }
            None => return None,
        };
        let stream = &mut state.streams[nth];
        let run = stream.run_after(index, is_missing, wasted);
        stream.noted = noted;
        stream.reached.store(index, Relaxed);
        // Half of the pages ahead stay unmapped, so that a later fault reports progress in time.
        let nr = (stream.end.saturating_sub(index) / 2).clamp(AROUND_MIN, AROUND_MAX);
        let around = index + 1..stream.end.min(index + 1 + nr);
        let wanted = run.map(|run| (run, Arc::clone(&stream.reached)));
        (wanted.is_some() || !around.is_empty()).then_some(Ahead { nth, around, wanted })
    }

    pub(super) fn stop(&self) {
        let state = lock(&self.state);
        state.streams.iter().for_each(|stream| stream.reached.store(u64::MAX, Relaxed));
    }

    pub(super) fn advance(&self, ahead: &Ahead, last: u64) {
        let stream = &mut lock(&self.state).streams[ahead.nth];
        if stream.last == ahead.around.start.checked_sub(1) {
            stream.last = Some(last);
            stream.reached.store(last, Relaxed);
        }
    }
}

impl Stream {
    fn is_continued_at(&self, index: u64) -> bool {
        self.last.is_some_and(|last| (last + 1..self.end.max(last + 2)).contains(&index))
    }

    fn run_after(&mut self, index: u64, is_missing: bool, wasted: u64) -> Option<ReadaheadRun> {
        let previous = self.last.replace(index);
        if !is_missing {
            let run = self.readahead.on_marker(index, wasted, None)?;
            self.end = run.start + run.nr;
            return Some(run);
        }
        // Pages read ahead are mapped, and so used without a fault.
        let used_before = index.checked_sub(1).filter(|_| self.readahead.has_asked_near(index));
        let run = self.readahead.on_miss(Miss {
            index,
            wanted: 1,
            previous: used_before.or(previous),
            wasted,
            is_ample: false,
            has_prefetcher: true,
            room: None,
        });
        self.end = run.start + run.nr;
        let behind = ReadaheadRun { start: index + 1, nr: run.nr - 1, nr_now: 0, ..run };
        (behind.nr > 0).then_some(behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates faults on missing pages from `first` on, with all requested pages mapped.
    fn pass(streams: &Streams, first: u64, nr: u64) -> Vec<(u64, u64)> {
        let mut runs = Vec::new();
        let (mut index, mut present) = (first, 0);
        while index < first + nr {
            let Some(ahead) = streams.note(index, index >= present, 0) else {
                index += 1;
                continue;
            };
            if let Some((run, _)) = &ahead.wanted {
                runs.push((run.start, run.nr));
                present = run.start + run.nr;
            }
            index = ahead.around.end.min(present).max(index + 1);
            streams.advance(&ahead, index - 1);
        }
        runs
    }

    #[test]
    fn faults_that_follow_each_other_are_read_ahead_without_a_gap() {
        let streams = Streams::new(64);
        let runs = pass(&streams, 1000, 2000);
        assert_eq!(runs[0], (1002, 3), "the second fault makes it a stream");
        // A fault reads its own missing page.
        let gap = |pair: &[(u64, u64)]| pair[1].0 - (pair[0].0 + pair[0].1);
        assert!(runs.windows(2).all(|pair| gap(pair) <= 1), "{runs:?}");
        assert_eq!(runs.last().expect("runs").1, 64);
    }

    #[test]
    fn random_faults_ask_for_nothing_and_a_stream_outlives_some_of_them() {
        let streams = Streams::new(64);
        for index in [900, 17, 4000, 12_000, 555] {
            assert!(streams.note(index, true, 0).is_none());
        }
        assert!(streams.note(100, true, 0).is_none());
        assert!(streams.note(101, true, 0).is_some());
        for index in [7000, 9000, 11_000] {
            assert!(streams.note(index, true, 0).is_none());
        }
        let ahead = streams.note(102, false, 0).expect("the stream is known");
        assert_eq!(ahead.around, 103..ahead.around.end);
        assert!(ahead.wanted.is_some());
    }

    #[test]
    fn without_readahead_there_is_nothing_ahead() {
        let streams = Streams::new(0);
        assert!(pass(&streams, 0, 50).is_empty());
    }
}
