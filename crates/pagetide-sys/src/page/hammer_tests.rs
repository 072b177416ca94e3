//! Two threads share few frames for a second. Stamps over whole pages expose reads of bytes that
//! were never written.
//!
//! Each thread runs until it has done some work, because a busy machine may give it no time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagetide_core::ids::{FrameId, PageIndex};

use crate::memory::frames::FRAME_BYTES;
use crate::{ArenaOptions, Claim, FrameArena, PageRef, PageTable, StoreFile, StoreOptions, Touch};

const NR_PAGES: u64 = 8;
const NR_FRAMES: u32 = 3;
/// Minimum of accepted reads, and of pages written or moved, in a thread.
const NR_READS_MIN: u64 = 100;
const NR_WRITES_MIN: u64 = 1000;
const NR_FILLS_MIN: u64 = 100;
const STAMPS: usize = FRAME_BYTES / 8;

/// A page full of one number. The low bits name the page.
fn stamp(index: u64, round: u64) -> [u8; FRAME_BYTES] {
    let mut bytes = [0; FRAME_BYTES];
    for chunk in bytes.chunks_exact_mut(8) {
        chunk.copy_from_slice(&(round * NR_PAGES + index).to_le_bytes());
    }
    bytes
}

fn check_stamp(index: u64, bytes: &[u8]) {
    let number = |at: usize| u64::from_le_bytes(bytes[at * 8..][..8].try_into().expect("8 bytes"));
    let first = number(0);
    assert_eq!(first % NR_PAGES, index, "another page's bytes");
    assert!((0..STAMPS).all(|at| number(at) == first), "a torn page was accepted");
}

fn read_pages(table: &PageTable, until: Instant) {
    let mut nr_accepted = 0;
    while Instant::now() < until || nr_accepted < NR_READS_MIN {
        nr_accepted += read_pages_once(table);
    }
}

/// Reads by ticket and by pin. Returns the number of accepted reads.
fn read_pages_once(table: &PageTable) -> u64 {
    let (mut bytes, mut nr_accepted) = ([0; FRAME_BYTES], 0);
    for index in 0..NR_PAGES {
        let page = table.page_or_make(PageIndex(index)).expect("in range");
        if let Some(ticket) = page.peek() {
            table.arena().read(ticket.frame(), 0, &mut bytes);
            if page.still(ticket) {
                check_stamp(index, &bytes);
                nr_accepted += 1;
            }
        }
        if let Ok(pin) = page.try_pin(Touch::Quiet) {
            check_stamp(index, pin.bytes());
            nr_accepted += 1;
        }
    }
    nr_accepted
}

/// Evicts a page and puts `page` into its frame, or rewrites `page` in place.
fn write_page(table: &PageTable, page: PageRef<'_>, round: u64, spare: &mut Vec<FrameId>) {
    let Ok(mut lock) = page.try_lock() else { return };
    if lock.frame().is_none() {
        let Some(frame) = spare.pop() else {
            drop(lock);
            evict_one(table, round, spare);
            return;
        };
        lock.install(table.arena().claim(frame).expect("spare frames are free"));
    }
    lock.write(0, &stamp(page.index().0, round));
}

fn evict_one(table: &PageTable, round: u64, spare: &mut Vec<FrameId>) {
    for step in 0..NR_PAGES {
        let victim = table.page_or_make(PageIndex((round + step) % NR_PAGES)).expect("in range");
        if let Claim::Locked(mut lock) = victim.try_claim() {
            let claimed = lock.evict(Some(round));
            spare.push(table.arena().release(claimed));
            return;
        }
    }
}

#[test]
fn no_reader_accepts_a_torn_or_foreign_page() {
    let arena = FrameArena::reserve(NR_FRAMES, ArenaOptions::default()).expect("12 KiB");
    let table = &PageTable::new(Arc::new(arena));
    let until = Instant::now() + Duration::from_secs(1);
    std::thread::scope(|scope| {
        scope.spawn(move || read_pages(table, until));
        let mut spare: Vec<FrameId> = (0..NR_FRAMES).map(FrameId).collect();
        let mut round = 0;
        while Instant::now() < until || round < NR_WRITES_MIN {
            round += 1;
            let page = table.page_or_make(PageIndex(round * 7 % NR_PAGES)).expect("in range");
            write_page(table, page, round, &mut spare);
        }
    });
}

#[test]
fn no_reader_accepts_a_page_the_kernel_is_filling() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("store");
    let contents: Vec<u8> = (0..NR_PAGES).flat_map(|index| stamp(index, 1)).collect();
    std::fs::write(&path, contents).expect("written");
    // Buffered: the kernel copies byte by byte, which tears more often than device reads.
    let file = StoreFile::open(&path, StoreOptions::default()).expect("opens");
    let arena = FrameArena::reserve(NR_FRAMES, ArenaOptions::default()).expect("12 KiB");
    let table = &PageTable::new(Arc::new(arena));
    let until = Instant::now() + Duration::from_millis(500);
    std::thread::scope(|scope| {
        scope.spawn(move || read_pages(table, until));
        let mut spare: Vec<FrameId> = (0..NR_FRAMES).map(FrameId).collect();
        let (mut round, mut nr_fills) = (0, 0);
        while Instant::now() < until || nr_fills < NR_FILLS_MIN {
            round += 1;
            let index = round * 7 % NR_PAGES;
            let page = table.page_or_make(PageIndex(index)).expect("in range");
            let Some(frame) = spare.pop() else {
                evict_one(table, round, &mut spare);
                continue;
            };
            match page.try_lock() {
                Ok(mut lock) if lock.frame().is_none() => {
                    lock.install(table.arena().claim(frame).expect("spare frames are free"));
                    let offset = index * FRAME_BYTES as u64;
                    let count = file.read_frames(offset, std::slice::from_mut(&mut lock));
                    assert_eq!(count.expect("read"), FRAME_BYTES);
                    nr_fills += 1;
                }
                _ => spare.push(frame),
            }
        }
    });
}

/// Reads pages, and fully rewrites every second page.
fn read_and_write_pages(table: &PageTable, from: u64, until: Instant) {
    let (mut round, mut nr_accepted) = (from, 0);
    while Instant::now() < until || round < NR_WRITES_MIN || nr_accepted < NR_READS_MIN {
        round += 2;
        let page = table.page(PageIndex(round * 7 % NR_PAGES)).expect("made");
        page.lock().write(0, &stamp(page.index().0, round));
        nr_accepted += read_pages_once(table);
    }
}

/// Run time of the long tests: a minute if `PAGETIDE_LONG` is set.
fn hammer_time() -> Duration {
    let is_long = std::env::var_os("PAGETIDE_LONG").is_some_and(|value| value == "1");
    Duration::from_secs(if is_long { 60 } else { 2 })
}

/// Two threads read and write whole pages while a third moves pages between frames.
#[test]
fn pages_that_move_are_neither_torn_nor_lost() {
    let nr_frames = NR_PAGES as u32 + 3;
    let arena = FrameArena::reserve(nr_frames, ArenaOptions::default()).expect("44 KiB");
    let table = &PageTable::new(Arc::new(arena));
    for index in 0..NR_PAGES {
        let mut lock = table.page_or_make(PageIndex(index)).expect("in range").lock();
        lock.install(table.arena().claim(FrameId(index as u32)).expect("free"));
        lock.write(0, &stamp(index, 0));
    }
    let until = Instant::now() + hammer_time();
    std::thread::scope(|scope| {
        for from in [1, 2] {
            scope.spawn(move || read_and_write_pages(table, from, until));
        }
        let mut spare: VecDeque<FrameId> = (NR_PAGES as u32..nr_frames).map(FrameId).collect();
        let mut nr_moves = 0;
        while Instant::now() < until || nr_moves < NR_WRITES_MIN {
            let page = table.page(PageIndex(nr_moves * 3 % NR_PAGES)).expect("made");
            let Ok(mut lock) = page.try_lock() else { continue };
            let frame = spare.pop_front().expect("a frame for each move");
            let left = lock.relocate(table.arena().claim(frame).expect("spare"));
            drop(lock);
            spare.push_back(table.arena().release(left));
            nr_moves += 1;
        }
    });
}

#[test]
fn locks_exclude_each_other_and_wake_each_other() {
    let arena = FrameArena::reserve(1, ArenaOptions::default()).expect("4 KiB");
    let table = &PageTable::new(Arc::new(arena));
    let page = table.page_or_make(PageIndex(0)).expect("in range");
    page.lock().install(table.arena().claim(FrameId(0)).expect("free"));
    let rounds = 20_000_u64;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let mut lock = page.lock();
                    let mut count = [0; 8];
                    lock.read(8, &mut count);
                    lock.write(8, &(u64::from_le_bytes(count) + 1).to_le_bytes());
                }
            });
        }
    });
    let pin = page.try_pin(Touch::Quiet).expect("free");
    assert_eq!(pin.bytes()[8..16], (3 * rounds).to_le_bytes());
}
