//! Filters the lines of a trace pipe for the `perf-script` reader.
//!
//! ```text
//!   cat-93  [001] ..... 12.345678: mm_filemap_get_pages: dev=254:0 ino=4fa7d ofs=0-8191  passed on
//!   cat-93  [001] ..... 12.345679: mm_filemap_add_to_page_cache: ...                     counted
//!   CPU:1 [LOST 12 EVENTS]                                                               counted
//! ```
//!
//! The kernel splits a read of many pages into batches, each with an event up to the end of the
//! read. The filter drops continuations: same thread, file and end, later start. A thread that
//! immediately rereads the tail of its read looks the same and is also dropped.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(10);
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Default)]
pub(super) struct EventCounts {
    added: AtomicU64,
    removed: AtomicU64,
    lost: AtomicU64,
    has_ended: AtomicBool,
}

impl EventCounts {
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Returns (added, removed, lost).
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.added), load(&self.removed), load(&self.lost))
    }
}

pub(super) struct EventLines<R = File> {
    pipe: R,
    tally: Arc<EventCounts>,
    filter: Filter,
    chunk: Box<[u8]>,
    /// A line without its end.
    partial_line: Vec<u8>,
    ready: Vec<u8>,
    nr_taken: usize,
}

impl<R: Read> EventLines<R> {
    pub(super) fn new(pipe: R, tally: Arc<EventCounts>) -> EventLines<R> {
        EventLines {
            pipe,
            tally,
            filter: Filter::default(),
            chunk: vec![0; CHUNK_BYTES].into(),
            partial_line: Vec::new(),
            ready: Vec::new(),
            nr_taken: 0,
        }
    }

    /// Returns false at the pipe's end.
    fn refill(&mut self) -> io::Result<bool> {
        // Loaded first, so that events before the end are still read.
        let has_ended = self.tally.has_ended.load(Ordering::Acquire);
        match self.pipe.read(&mut self.chunk) {
            Ok(0) => Ok(false),
            Ok(nr_bytes) => {
                self.partial_line.extend_from_slice(&self.chunk[..nr_bytes]);
                self.take_lines();
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if !has_ended {
                    std::thread::sleep(PAUSE);
                }
                Ok(!has_ended)
            }
            Err(error) => Err(error),
        }
    }

    fn take_lines(&mut self) {
        let whole =
            self.partial_line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in self.partial_line[..whole].split_inclusive(|byte| *byte == b'\n') {
            let is_access =
                str::from_utf8(line).is_ok_and(|line| self.filter.takes(line, &self.tally));
            if is_access {
                self.ready.extend_from_slice(line);
            }
        }
        self.partial_line.drain(..whole);
    }
}

impl<R: Read> Read for EventLines<R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        while self.nr_taken == self.ready.len() {
            self.ready.clear();
            self.nr_taken = 0;
            if !self.refill()? {
                return Ok(0);
            }
        }
        let left = &self.ready[self.nr_taken..];
        let nr_bytes = left.len().min(target.len());
        target[..nr_bytes].copy_from_slice(&left[..nr_bytes]);
        self.nr_taken += nr_bytes;
        Ok(nr_bytes)
    }
}

#[derive(Default)]
struct Filter {
    /// Device, inode and range of each thread's last event.
    last_of: HashMap<u32, (String, u64, u64)>,
}

impl Filter {
    /// Returns true for a new access.
    fn takes(&mut self, line: &str, tally: &EventCounts) -> bool {
        if let Some((_, lost)) = line.split_once("[LOST ") {
            let nr = lost.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(1);
            tally.lost.fetch_add(nr, Ordering::Relaxed);
            return false;
        }
        let Some((head, event)) = line.split_once(": mm_filemap_") else { return false };
        match event.split_once(": ") {
            Some(("add_to_page_cache", fields)) => {
                tally.added.fetch_add(pages_of(fields), Ordering::Relaxed);
                false
            }
            Some(("delete_from_page_cache", fields)) => {
                tally.removed.fetch_add(pages_of(fields), Ordering::Relaxed);
                false
            }
            Some(("get_pages", fields)) => !self.is_continued(head, fields),
            Some(("fault", _)) => true,
            _ => false,
        }
    }

    fn is_continued(&mut self, head: &str, fields: &str) -> bool {
        let range = fields.trim_end().split_once(" ofs=");
        let Some((file, (first, end))) =
            range.and_then(|(file, offsets)| Some((file, offsets.split_once('-')?)))
        else {
            return false;
        };
        let (Some(thread), Ok(first), Ok(end)) = (thread_of(head), first.parse(), end.parse())
        else {
            return false;
        };
        let before = self.last_of.insert(thread, (file.to_owned(), first, end));
        before.is_some_and(|(file_before, first_before, end_before)| {
            file_before == file && end_before == end && first_before < first
        })
    }
}

/// Parses `comm-tid [cpu] flags time`.
fn thread_of(head: &str) -> Option<u32> {
    let (before, _) = head.rsplit_once(" [")?;
    before.trim_end().rsplit_once('-')?.1.parse().ok()
}

/// Parses "... order=N".
fn pages_of(fields: &str) -> u64 {
    let order = fields.rsplit_once("order=").and_then(|(_, order)| order.trim().parse().ok());
    1_u64 << order.filter(|order| *order < 32).unwrap_or(0_u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks of a pipe, then an empty read.
    struct Pieces(Vec<&'static str>);

    impl Read for Pieces {
        fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let piece = self.0.remove(0);
            target[..piece.len()].copy_from_slice(piece.as_bytes());
            Ok(piece.len())
        }
    }

    fn passed_on(pieces: Vec<&'static str>) -> (String, (u64, u64, u64)) {
        let tally = Arc::new(EventCounts::default());
        tally.end();
        let mut text = String::new();
        EventLines::new(Pieces(pieces), Arc::clone(&tally)).read_to_string(&mut text).unwrap();
        (text, tally.counts())
    }

    #[test]
    fn accesses_are_passed_on_and_the_rest_is_counted() {
        let (text, counts) = passed_on(vec![
            "# tracer: nop\n a b-9   [001] ..... 1.5: mm_filemap_get_pages: dev=1:0 ino=2 ofs=0-",
            "4095\n cat-9 [001] ..... 1.6: mm_filemap_add_to_page_cache: dev 1:0 ino 2 pfn=0x1 \
             ofs=0 order=2\nCPU:0 [LOST 7 EVENTS]\n",
            " cat-9 [001] ..... 1.7: mm_filemap_delete_from_page_cache: dev 1:0 ino 2 pfn=0x1 \
             ofs=0 order=0\n cat-9 [001] ..... 1.8: mm_filemap_fault: dev=1:0 ino=2 ofs=4096\n",
        ]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].ends_with("ofs=0-4095") && lines[1].ends_with("ofs=4096"), "{text}");
        assert_eq!(counts, (4, 1, 7));
    }

    #[test]
    fn the_next_batch_of_one_read_is_no_access() {
        let (text, _) = passed_on(vec![
            "a-1 [000] ..... 1.0: mm_filemap_get_pages: dev=1:0 ino=2 ofs=0-131071\n\
             b-2 [000] ..... 1.0: mm_filemap_get_pages: dev=1:0 ino=2 ofs=65536-131071\n\
             a-1 [000] ..... 1.1: mm_filemap_get_pages: dev=1:0 ino=2 ofs=65536-131071\n\
             a-1 [000] ..... 1.2: mm_filemap_get_pages: dev=1:0 ino=2 ofs=65536-131071\n\
             a-1 [000] ..... 1.3: mm_filemap_get_pages: dev=1:0 ino=3 ofs=98304-131071\n",
        ]);
        let times: Vec<&str> =
            text.lines().map(|line| line.split(' ').nth(3).unwrap_or("")).collect();
        assert_eq!(times, ["1.0:", "1.0:", "1.2:", "1.3:"], "{text}");
    }
}
