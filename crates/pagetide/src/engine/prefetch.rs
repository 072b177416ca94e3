//! The readahead worker: brings pages in beside the reader.
//!
//! Readers leave runs in a bounded queue and go on; one thread locks the absent pages of each run,
//! gives them frames and submits the reads in pieces, so that the first pages are usable while the
//! rest is still coming, and the device always has work. A piece reads over a few pages that are
//! here already: where many of a stream are, they would cut it into small requests.
//!
//! A reader may overtake the worker, which is late then for what it has passed: what is behind the
//! reader's last miss is left out, or it would come in, perhaps again, for no use.
//!
//! A run that finds the queue full is dropped: readahead is a wish. For the same reason at most a
//! part of the memory, or of what a group has room for, is being filled at a time.

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

/// Runs waiting at most.
const QUEUE_MAX: usize = 64;
/// Pages in one read request: 512 KiB, so that a window is several requests in flight.
const PIECE_MAX: u64 = 128;
/// Pages between the one that is admitted and the one whose line of hints is fetched.
const FETCHED_AHEAD: u64 = 8;

/// A run that a reader wishes for.
pub(crate) struct Wish {
    mapping: Arc<Mapping>,
    run: ReadaheadRun,
    /// How far the reader has come.
    reached: Arc<AtomicU64>,
    /// Its pages go to where they are mapped: by other processes, or by a region's user.
    pub(crate) is_for_maps: bool,
}

impl Wish {
    pub(crate) fn new(mapping: &Arc<Mapping>, run: ReadaheadRun, reached: &Arc<AtomicU64>) -> Wish {
        let (mapping, reached) = (Arc::clone(mapping), Arc::clone(reached));
        Wish { mapping, run, reached, is_for_maps: false }
    }
}

/// What brings pages in ahead of their readers, and the queue between readers and its worker.
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
            // Faults, in which nothing is allocated, leave wishes too.
            wishes: Mutex::new(VecDeque::with_capacity(QUEUE_MAX)),
            on_their_way: OnTheirWay::default(),
            signal: Signal::default(),
        }
    }

    /// Leaves a wish; dropped if the queue is full.
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

    /// Brings a run in beside the caller; without worker threads, in the caller.
    pub(crate) fn prefetch(&self, wish: Wish) {
        if self.source.has_workers {
            return self.push(wish);
        }
        let mut reads = self.begin();
        reads.submit(&wish);
        reads.end();
    }

    /// Brings runs in, by the caller, and waits for them, as far as that is easy: what is locked or
    /// finds no frame stays out. Returns how many pages were read.
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

    /// Waits for the reads that keep files open of which no handle is left.
    pub(crate) fn wait_for_closed_files(&self) {
        self.on_their_way.wait_for_closed_files();
    }

    /// Waits for the reads ahead of one file that keep `descriptor` open.
    pub(crate) fn wait_until_closed(&self, mapping: &Arc<Mapping>, descriptor: &Weak<File>) {
        self.on_their_way.wait_until_closed(mapping, descriptor);
    }

    /// What a thread reads ahead with.
    pub(crate) fn begin(&self) -> ReadsAhead<'_> {
        let queue = self.io.take();
        // Where a request is over before the next is made, nothing is staged.
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

/// What has to be known when a piece completes.
struct Piece {
    mapping: Arc<Mapping>,
    offset: u64,
    marker: Option<u64>,
    is_for_maps: bool,
}

/// Runs on their way into memory.
pub(crate) struct ReadsAhead<'p> {
    prefetcher: &'p Prefetcher,
    queue: IoQueue,
    /// Frames for the pages of the run being submitted, the lowest last.
    stock: Vec<ClaimedFrame>,
    /// What goes to scattered frames goes through these.
    staging: Staging,
    /// In flight, by token.
    pieces: InFlight<Piece>,
    /// Pages of the pieces in flight.
    nr_in_flight: u64,
}

impl ReadsAhead<'_> {
    /// Whether nothing is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Submits all that readers have wished for until now.
    pub(crate) fn submit_wishes(&mut self) {
        while let Some(wish) = self.prefetcher.pop() {
            self.submit(&wish);
        }
    }

    /// Waits for all that is on its way.
    pub(crate) fn end(mut self) {
        while self.queue.nr_pending() > 0 {
            self.reap();
        }
        self.prefetcher.io.give_back(self.queue);
    }

    /// Pages the next piece of the wish may have; waits until it may have one, and memory to go
    /// through where it is to be mapped: without, each of its pages is a fault.
    fn wait_for_room(&mut self, wish: &Wish) -> u64 {
        while wish.is_for_maps && self.staging.is_awaited() {
            self.reap();
        }
        if !self.prefetcher.source.has_workers {
            // Then no other thread needs a frame meanwhile.
            return PIECE_MAX;
        }
        let nr_max = in_flight_max(self.prefetcher.source.room_of(&wish.mapping));
        while self.nr_in_flight >= nr_max {
            self.reap();
        }
        (nr_max - self.nr_in_flight).min(PIECE_MAX)
    }

    /// Submits a run as pieces of pages that follow each other, or nearly. Returns how many of them
    /// are on their way.
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

    /// Gets frames for the next pieces in runs, or where there are none for this piece one by one,
    /// in address order: neighbours in the file that are neighbours in memory reach the device as
    /// one segment. Without worker threads it is one frame at a time, because then the run must
    /// repeat in the lab, which allocates page by page.
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

    /// Locks the page and gives it a frame. `nr_left` pages of the run, this one included, may want
    /// one, and `nr_of_piece` of them before anything is submitted.
    fn admit(&mut self, wish: &Wish, index: u64, nr_left: u64, nr_of_piece: u64) -> Admitted {
        let (prefetcher, mapping) = (self.prefetcher, &wish.mapping);
        if index < wish.reached.load(Relaxed) {
            return Admitted::NotNeeded;
        }
        let cpu = current_cpu();
        let page = mapping.table.word_ref(PageIndex(index)).map(WordRef::try_lock);
        let Some(Ok(mut page)) = page else { return Admitted::NotNeeded };
        if page.frame().is_some() {
            // A stream goes on where a part of its file is here already.
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
            // A touch of the one with the marker is to be noticed.
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

    /// Waits for at least one completion, if anything is in flight.
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

    /// Unlocks the pages of a piece; without contents they leave again, and a reader that needs one
    /// reads it and gets the error.
    fn finish(&self, piece: &Piece, mut pages: Vec<Lock<WordRef>>, nr_bytes: Option<usize>) {
        self.prefetcher.on_their_way.end(&piece.mapping);
        let first = piece.offset >> PAGE_SHIFT;
        self.prefetcher.pages.record(&piece.mapping, first, record::AccessKind::Filled);
        match nr_bytes {
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
                // The last page first: a thread waiting for the first wakes once, and finds them
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

/// Whether a page is none of the piece's.
fn is_apart(piece: &[Lock<WordRef>], index: u64, nr_over_max: u64) -> bool {
    let range = range_of(piece);
    !piece.is_empty() && (index - range.end > nr_over_max || index - range.start >= PIECE_MAX)
}

/// Which mapping each piece on its way is of: a read keeps its file open until it is over, and with
/// it the room that a file without a name has on a disk.
#[derive(Default)]
struct OnTheirWay {
    pieces: Mutex<PiecesOnTheirWay>,
    ended: Condvar,
}

#[derive(Default)]
struct PiecesOnTheirWay {
    mappings: Vec<Arc<Mapping>>,
    /// Threads that wait for the end of one: without them, no wake-up is paid for.
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
    /// Locked, with a frame, to be filled.
    Page(Lock<WordRef>),
    /// Resident already, or locked.
    NotNeeded,
    /// Memory is short: readahead stops here.
    NoFrame,
}
