//! The readahead worker: fills pages concurrently with the reader.
//!
//! Readers queue runs. One thread locks the absent pages of each run, gives them frames, and
//! submits the reads in pieces, so that the first pages are usable early and the device always has
//! work. A piece may reread a few resident pages, which would otherwise split a stream into small
//! requests. Pages that the reader has passed are skipped.
//!
//! A run is dropped if the queue is full. Only a part of the memory, or of a group's headroom, is
//! filled at a time.

use crate::engine::fill::{nr_asked, nr_over_max, range_of};
use crate::engine::frame_source::FrameSource;
use crate::engine::in_flight::InFlight;
use crate::engine::mapping::Mapping;
use crate::engine::pages::Pages;
use crate::engine::staging::Staging;
use crate::engine::stats::counters::Event;
use crate::memory::io_pool::IoPool;
use crate::memory::locks::{POISONED, Signal, lock};
use pagetide_core::ids::PageIndex;
use pagetide_core::lru::AccessPath;
use pagetide_core::page_alloc::stock_max;
use pagetide_core::readahead::{ReadaheadRun, in_flight_max};
use pagetide_core::record;
use pagetide_core::units::PAGE_SHIFT;
use pagetide_sys::{ClaimedFrame, Completion, IoQueue, Lock, WordRef, current_cpu};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};

const QUEUE_MAX: usize = 64;
/// Pages in one read request: 512 KiB, so that a window is several requests in flight.
const PIECE_MAX: u64 = 128;
/// Pages between admission and the prefetch of the hint cache line.
const FETCHED_AHEAD: u64 = 8;

pub(crate) struct Wish {
    mapping: Arc<Mapping>,
    run: ReadaheadRun,
    reached: Arc<AtomicU64>,
    /// Pages to be mapped by other processes or a region's user.
    pub(crate) is_for_maps: bool,
}

impl Wish {
    pub(crate) fn new(mapping: &Arc<Mapping>, run: ReadaheadRun, reached: &Arc<AtomicU64>) -> Wish {
        let (mapping, reached) = (Arc::clone(mapping), Arc::clone(reached));
        Wish { mapping, run, reached, is_for_maps: false }
    }
}

pub(crate) struct Prefetcher {
    source: Arc<FrameSource>,
    pages: Arc<Pages>,
    io: Arc<IoPool>,
    wishes: Mutex<VecDeque<Wish>>,
    on_their_way: OnTheirWay,
    pub(crate) signal: Signal,
}

impl Prefetcher {
    pub(crate) fn new(source: &Arc<FrameSource>, io: &Arc<IoPool>) -> Prefetcher {
        Prefetcher {
            source: Arc::clone(source),
            pages: Arc::clone(&source.pages),
            io: Arc::clone(io),
            // Preallocated: fault handlers, which must not allocate, queue requests too.
            wishes: Mutex::new(VecDeque::with_capacity(QUEUE_MAX)),
            on_their_way: OnTheirWay::default(),
            signal: Signal::default(),
        }
    }

    pub(crate) fn push(&self, wish: Wish) {
        let mut wishes = lock(&self.wishes);
        if wishes.len() < QUEUE_MAX {
            wishes.push_back(wish);
            drop(wishes);
            self.signal.notify();
        }
    }

    fn pop(&self) -> Option<Wish> {
        lock(&self.wishes).pop_front()
    }

    /// Fills a run in the background, or in the caller without worker threads.
    pub(crate) fn prefetch(&self, wish: Wish) {
        if self.source.has_workers {
            return self.push(wish);
        }
        let mut reads = self.begin();
        reads.submit(&wish);
        reads.end();
    }

    /// Fills runs and waits for the reads. Skips locked pages, and pages without a frame. Returns
    /// the number of pages read.
    pub(crate) fn bring_in(
        &self,
        mapping: &Arc<Mapping>,
        runs: impl Iterator<Item = ReadaheadRun>,
    ) -> u64 {
        let mut runs = runs.peekable();
        let Some(&run) = runs.peek() else { return 0 };
        let mut wish = Wish::new(mapping, run, &Arc::default());
        let mut reads = self.begin();
        let mut submit = |run| {
            wish.run = run;
            reads.submit(&wish)
        };
        let nr_read = runs.map(&mut submit).sum();
        reads.end();
        nr_read
    }

    pub(crate) fn wait_for_closed_files(&self) {
        self.on_their_way.wait_for_closed_files();
    }

    pub(crate) fn wait_until_closed(&self, mapping: &Arc<Mapping>, descriptor: &Weak<File>) {
        self.on_their_way.wait_until_closed(mapping, descriptor);
    }

    pub(crate) fn begin(&self) -> ReadsAhead<'_> {
        let queue = self.io.take();
        // Synchronous requests need no staging.
        let has_in_flight = self.source.has_workers && queue.is_uring();
        let nr_frames = if has_in_flight { self.pages.nodes.nr_frames() } else { 0 };
        ReadsAhead {
            prefetcher: self,
            queue,
            stock: Vec::new(),
            staging: Staging::new(nr_frames, PIECE_MAX),
            pieces: InFlight::new(),
            nr_in_flight: 0,
        }
    }
}

struct Piece {
    mapping: Arc<Mapping>,
    offset: u64,
    marker: Option<u64>,
    is_for_maps: bool,
}

pub(crate) struct ReadsAhead<'p> {
    prefetcher: &'p Prefetcher,
    queue: IoQueue,
    /// Frames for the run being submitted, the lowest last.
    stock: Vec<ClaimedFrame>,
    staging: Staging,
    pieces: InFlight<Piece>,
    nr_in_flight: u64,
}

impl ReadsAhead<'_> {
    pub(crate) fn is_idle(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn submit_wishes(&mut self) {
        while let Some(wish) = self.prefetcher.pop() {
            self.submit(&wish);
        }
    }

    pub(crate) fn end(mut self) {
        while self.queue.nr_pending() > 0 {
            self.reap();
        }
        self.prefetcher.io.give_back(self.queue);
    }

    /// Returns the number of pages that the next piece may have. Waits until this is positive, and
    /// for a staging buffer if pages are to be mapped: without one, each page is a fault.
    fn wait_for_room(&mut self, wish: &Wish) -> u64 {
        while wish.is_for_maps && self.staging.is_awaited() {
            self.reap();
        }
        if !self.prefetcher.source.has_workers {
            return PIECE_MAX;
        }
        let nr_max = in_flight_max(self.prefetcher.source.room_of(&wish.mapping));
        while self.nr_in_flight >= nr_max {
            self.reap();
        }
        (nr_max - self.nr_in_flight).min(PIECE_MAX)
    }

    /// Submits a run as pieces of nearly adjacent pages. Returns the number of pages in flight.
    pub(crate) fn submit(&mut self, wish: &Wish) -> u64 {
        let mut nr_submitted = 0;
        let mapping = &wish.mapping;
        let end = (wish.run.start + wish.run.nr).min(mapping.nr_pages());
        let mut piece: Vec<Lock<WordRef>> = Vec::new();
        let mut room = self.wait_for_room(wish);
        let tag = mapping.tag().unwrap_or(0);
        let nr_over_max = nr_over_max(mapping);
        for index in wish.run.start..end {
            self.prefetcher.pages.arena.fetch_hints(tag, PageIndex(index + FETCHED_AHEAD));
            let nr_left = end - index;
            if piece.len() as u64 == room || is_apart(&piece, index, nr_over_max) {
                self.submit_piece(wish, std::mem::take(&mut piece));
                room = self.wait_for_room(wish);
            }
            match self.admit(wish, index, nr_left, nr_left.min(room - piece.len() as u64)) {
                Admitted::Page(page) => {
                    nr_submitted += 1;
                    piece.push(page);
                }
                Admitted::NotNeeded => {}
                Admitted::NoFrame => break,
            }
        }
        self.submit_piece(wish, piece);
        let arena = &self.prefetcher.pages.arena;
        let unused: Vec<_> = self.stock.drain(..).map(|frame| arena.release(frame)).collect();
        self.prefetcher.pages.nodes.free(current_cpu(), unused.iter().copied());
        nr_submitted
    }

    /// Gets frames for the next pieces in runs, or else one by one, in address order: pages that
    /// are adjacent in the file and in memory reach the device as one segment. Without worker
    /// threads, gets one frame at a time, as the lab's replay does.
    fn stock_up(&mut self, nr_left: u64, nr_of_piece: u64) {
        if !self.stock.is_empty() {
            return;
        }
        let (prefetcher, cpu) = (self.prefetcher, current_cpu());
        let mut nr_alone = 1;
        if prefetcher.source.has_workers {
            nr_alone = nr_of_piece;
            let nr_in_runs = nr_left.min(stock_max(prefetcher.pages.nodes.nr_frames()));
            prefetcher.source.alloc_runs(nr_in_runs, &mut self.stock);
        }
        if self.stock.is_empty() {
            self.stock.extend((0..nr_alone).map_while(|_| prefetcher.source.alloc_frame(cpu).ok()));
        }
        self.stock.sort_by_key(|claimed| Reverse(claimed.frame()));
    }

    /// Locks the page and gives it a frame. At most `nr_left` pages of the run, including this one,
    /// may need a frame, `nr_of_piece` of them before the next submission.
    fn admit(&mut self, wish: &Wish, index: u64, nr_left: u64, nr_of_piece: u64) -> Admitted {
        let (prefetcher, mapping) = (self.prefetcher, &wish.mapping);
        if index < wish.reached.load(Relaxed) {
            return Admitted::NotNeeded;
        }
        let cpu = current_cpu();
        let page = mapping.table.word_ref(PageIndex(index)).map(WordRef::try_lock);
        let Some(Ok(mut page)) = page else { return Admitted::NotNeeded };
        if page.frame().is_some() {
            // The stream continues over resident pages of the file.
            let is_marked = wish.is_for_maps && wish.run.marker == Some(index);
            if is_marked && !mapping.locked.holds(index) {
                page.take_from_file();
                page.unmap_user();
            }
            prefetcher.pages.set_marker(std::slice::from_ref(&page), wish.run.marker);
            return Admitted::NotNeeded;
        }
        prefetcher.pages.record(mapping, index, record::AccessKind::Readahead);
        let Ok(payer) = prefetcher.source.charge(cpu, mapping) else { return Admitted::NoFrame };
        self.stock_up(nr_left, nr_of_piece);
        let Some(claimed) = self.stock.pop() else {
            prefetcher.source.refund(payer);
            return Admitted::NoFrame;
        };
        prefetcher.pages.admit_in(cpu, mapping, &mut page, claimed, payer, AccessPath::Readahead);
        prefetcher.pages.counters.count(Event::Readahead);
        Admitted::Page(page)
    }

    fn submit_piece(&mut self, wish: &Wish, mut pages: Vec<Lock<WordRef>>) {
        if pages.is_empty() {
            return;
        }
        let offset = range_of(&pages).start << PAGE_SHIFT;
        let prefetcher = self.prefetcher;
        prefetcher.pages.count_read(&wish.mapping, nr_asked(&pages));
        let (mapping, marker) = (Arc::clone(&wish.mapping), wish.run.marker);
        let is_for_maps = wish.is_for_maps && self.staging.has_any();
        if is_for_maps {
            // An access to the marked page must be noticed.
            let others = pages.iter_mut().filter(|page| Some(page.page().index().0) != marker);
            others.for_each(|page| page.fill_where_mapped());
        }
        prefetcher.on_their_way.begin(&mapping);
        let piece = Piece { mapping, offset, marker, is_for_maps };
        let backing = match wish.mapping.backing() {
            Ok(backing) => backing,
            Err(_) => return self.finish(&piece, pages, None),
        };
        let Some(file) = backing.file() else {
            let result = backing.read_pages(offset, &mut pages);
            drop(backing);
            return self.finish(&piece, pages, result.ok());
        };
        let token = self.pieces.insert(piece);
        self.nr_in_flight += pages.len() as u64;
        let through = self.staging.take_for(&pages, is_for_maps);
        if through.is_some() {
            prefetcher.pages.counters.count(Event::StagedRead);
        }
        self.queue.submit_read(Arc::clone(file), offset, pages, through, token);
        self.queue.submit();
    }

    pub(crate) fn reap(&mut self) {
        let mut completions = Vec::new();
        self.queue.reap(1, &mut completions);
        for completion in completions {
            let Completion::Read { token, locks, through, result } = completion else { continue };
            through.into_iter().for_each(|part| self.staging.give_back(part));
            if let Some(piece) = self.pieces.take(token) {
                self.nr_in_flight -= locks.len() as u64;
                self.finish(&piece, locks, result.ok());
            }
        }
    }

    /// Unlocks the pages of a piece. Drops pages that could not be read: a reader gets the error
    /// again.
    fn finish(&self, piece: &Piece, mut pages: Vec<Lock<WordRef>>, nr_bytes: Option<usize>) {
        self.prefetcher.on_their_way.end(&piece.mapping);
        let first = piece.offset >> PAGE_SHIFT;
        self.prefetcher.pages.record(&piece.mapping, first, record::AccessKind::Filled);
        let is_whole = |nr_bytes: &usize| {
            let end = piece.offset + *nr_bytes as u64;
            piece.mapping.check_end(end, piece.offset, nr_asked(&pages)).is_ok()
        };
        match nr_bytes.filter(is_whole) {
            Some(nr_bytes) => {
                self.prefetcher.pages.check_length(
                    &piece.mapping,
                    piece.offset,
                    nr_asked(&pages),
                    nr_bytes,
                );
                self.prefetcher.pages.set_marker(&pages, piece.marker);
                if piece.is_for_maps {
                    let (cpu, mapping) = (current_cpu(), &*piece.mapping);
                    pages.iter().for_each(|page| {
                        self.prefetcher.pages.note_mapped(cpu, mapping, page);
                    });
                }
                // Last page first: a thread that waits for the first page wakes once, and finds
                // all.
                while pages.pop().is_some() {}
            }
            None => {
                let cpu = current_cpu();
                pages
                    .iter_mut()
                    .for_each(|page| self.prefetcher.pages.expel(cpu, &piece.mapping, page));
            }
        }
    }
}

fn is_apart(piece: &[Lock<WordRef>], index: u64, nr_over_max: u64) -> bool {
    let range = range_of(piece);
    !piece.is_empty() && (index - range.end > nr_over_max || index - range.start >= PIECE_MAX)
}

/// A read keeps its file open, and the disk blocks of an unnamed file allocated.
#[derive(Default)]
struct OnTheirWay {
    pieces: Mutex<PiecesOnTheirWay>,
    ended: Condvar,
}

#[derive(Default)]
struct PiecesOnTheirWay {
    mappings: Vec<Arc<Mapping>>,
    /// Waiting threads. At 0, wake-ups are skipped.
    nr_waiting: usize,
}

impl OnTheirWay {
    fn begin(&self, mapping: &Arc<Mapping>) {
        lock(&self.pieces).mappings.push(Arc::clone(mapping));
    }

    fn end(&self, mapping: &Arc<Mapping>) {
        let mut pieces = lock(&self.pieces);
        if let Some(at) = pieces.mappings.iter().position(|one| Arc::ptr_eq(one, mapping)) {
            pieces.mappings.swap_remove(at);
        }
        if pieces.nr_waiting > 0 {
            self.ended.notify_all();
        }
    }

    fn wait_for_closed_files(&self) {
        let pieces = lock(&self.pieces);
        let is_closed = |one: &&Arc<Mapping>| !one.has_handles();
        let closed: Vec<_> = pieces.mappings.iter().filter(is_closed).cloned().collect();
        let is_any = |pieces: &mut PiecesOnTheirWay| {
            let is_closed = |one| closed.iter().any(|closed| Arc::ptr_eq(one, closed));
            pieces.mappings.iter().any(is_closed)
        };
        self.wait_while(pieces, is_any);
    }

    fn wait_until_closed(&self, mapping: &Arc<Mapping>, descriptor: &Weak<File>) {
        self.wait_while(lock(&self.pieces), |pieces| {
            descriptor.strong_count() > 0
                && pieces.mappings.iter().any(|one| Arc::ptr_eq(one, mapping))
        });
    }

    fn wait_while(
        &self,
        mut pieces: MutexGuard<'_, PiecesOnTheirWay>,
        is_on_its_way: impl FnMut(&mut PiecesOnTheirWay) -> bool,
    ) {
        pieces.nr_waiting += 1;
        let mut pieces = self.ended.wait_while(pieces, is_on_its_way).expect(POISONED);
        pieces.nr_waiting -= 1;
    }
}

enum Admitted {
    Page(Lock<WordRef>),
    NotNeeded,
    NoFrame,
}
