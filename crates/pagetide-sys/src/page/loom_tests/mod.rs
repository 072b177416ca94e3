//! Every interleaving of two or three threads on a word.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p pagetide-sys --release --lib loom`. Frames are 16
//! bytes here. A copy is two relaxed 64-bit accesses, the weakest order that real copies may have.

mod moves;

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;
use pagetide_core::ids::{FrameId, PageIndex};

use crate::memory::frames::FRAME_BYTES;
use crate::{ArenaOptions, Claim, FrameArena, PageTable, Touch};

/// A page full of `byte`.
fn page_of(byte: u8) -> [u8; FRAME_BYTES] {
    [byte; FRAME_BYTES]
}

/// One frame with page 0, full of 1.
fn table() -> Arc<PageTable> {
    let arena = FrameArena::reserve(1, ArenaOptions::default()).expect("one frame");
    let table = Arc::new(PageTable::new(Arc::new(arena)));
    let mut lock = table.word_ref(PageIndex(0)).expect("in range").lock();
    lock.install(table.arena().claim(FrameId(0)).expect("free"));
    lock.write(0, &page_of(1));
    drop(lock);
    table
}

/// Reads page 0 optimistically. Returns the bytes if accepted.
fn read_page(table: &PageTable) -> Option<[u8; FRAME_BYTES]> {
    let page = table.page(PageIndex(0)).expect("made");
    let ticket = page.peek()?;
    let mut bytes = page_of(0);
    table.arena().read(ticket.frame(), 0, &mut bytes);
    page.still(ticket).then_some(bytes)
}

#[test]
fn loom_reader_accepts_no_torn_write() {
    loom::model(|| {
        let table = table();
        let writer = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let page = table.page(PageIndex(0)).expect("made");
                page.lock().write(0, &page_of(2));
            })
        };
        if let Some(bytes) = read_page(&table) {
            assert!(bytes == page_of(1) || bytes == page_of(2), "{bytes:?}");
        }
        writer.join().expect("no panic");
        assert_eq!(read_page(&table), Some(page_of(2)));
    });
}

/// A thread finds no reason and clears ASK, while another thread makes a reason.
#[test]
fn loom_page_with_a_reason_to_ask_has_ask() {
    loom::model(|| {
        let table = table();
        let has_reason = Arc::new(AtomicBool::new(false));
        let marker = {
            let (table, has_reason) = (Arc::clone(&table), Arc::clone(&has_reason));
            thread::spawn(move || {
                if let Ok(lock) = table.page(PageIndex(0)).expect("made").try_lock() {
                    lock.ask();
                    has_reason.store(true, Relaxed);
                }
            })
        };
        let page = table.page(PageIndex(0)).expect("made");
        if let Ok(pin) = page.try_pin(Touch::Quiet)
            && !has_reason.load(Relaxed)
        {
            pin.make_plain();
        }
        marker.join().expect("no panic");
        assert!(page.load().asks() || !has_reason.load(Relaxed));
    });
}

#[test]
fn loom_reader_of_a_plain_page_accepts_no_torn_write() {
    loom::model(|| {
        let table = table();
        let page = table.page(PageIndex(0)).expect("made");
        page.try_pin(Touch::Quiet).expect("free").make_plain();
        let writer = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                table.page(PageIndex(0)).expect("made").lock().write(0, &page_of(2));
            })
        };
        let mut bytes = page_of(0);
        if page.read_plain(0, &mut bytes).is_some() {
            assert!(bytes == page_of(1) || bytes == page_of(2), "{bytes:?}");
        }
        writer.join().expect("no panic");
    });
}

#[test]
fn loom_reader_accepts_no_other_page_in_its_frame() {
    loom::model(|| {
        let table = table();
        let evictor = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let Claim::Locked(mut lock) = table.page(PageIndex(0)).expect("made").try_claim()
                else {
                    panic!("readers neither pin nor lock");
                };
                let frame = table.arena().release(lock.evict(None));
                drop(lock);
                let mut lock = table.page_or_make(PageIndex(1)).expect("in range").lock();
                lock.install(table.arena().claim(frame).expect("just released"));
                lock.write(0, &page_of(2));
            })
        };
        if let Some(bytes) = read_page(&table) {
            assert_eq!(bytes, page_of(1));
        }
        evictor.join().expect("no panic");
        assert_eq!(read_page(&table), None);
    });
}

/// As above, but the frame moves between threads, and the new page was locked long before.
#[test]
fn loom_reader_accepts_no_other_page_filled_by_another_thread() {
    loom::model(|| {
        let table = table();
        let lock = table.word_ref(PageIndex(1)).expect("in range").lock();
        let filler = {
            let (table, mut lock) = (Arc::clone(&table), lock);
            thread::spawn(move || {
                if let Ok(claimed) = table.arena().claim(FrameId(0)) {
                    lock.install(claimed);
                    lock.write(0, &page_of(2));
                }
            })
        };
        let evictor = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let page = table.page(PageIndex(0)).expect("made");
                if let Claim::Locked(mut lock) = page.try_claim() {
                    let claimed = lock.evict(None);
                    table.arena().release(claimed);
                }
            })
        };
        if let Some(bytes) = read_page(&table) {
            assert_eq!(bytes, page_of(1));
        }
        filler.join().expect("no panic");
        evictor.join().expect("no panic");
    });
}

#[test]
fn loom_reader_accepts_nothing_between_leaving_and_coming_back() {
    loom::model(|| {
        let table = table();
        let mover = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let page = table.page(PageIndex(0)).expect("made");
                // Out and back into the same frame with new contents. Only the version differs.
                for byte in [2, 3] {
                    let mut lock = page.lock();
                    let claimed = lock.evict(None);
                    lock.install(claimed);
                    lock.write(0, &page_of(byte));
                }
            })
        };
        if let Some(bytes) = read_page(&table) {
            assert!([1, 2, 3].map(page_of).contains(&bytes), "{bytes:?}");
        }
        mover.join().expect("no panic");
    });
}

#[test]
fn loom_pin_and_claim_exclude_each_other() {
    loom::model(|| {
        let table = table();
        let evictor = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let page = table.page(PageIndex(0)).expect("made");
                if let Claim::Locked(mut lock) = page.try_claim() {
                    lock.write(0, &page_of(2));
                    let claimed = lock.evict(Some(7));
                    table.arena().release(claimed);
                }
            })
        };
        let page = table.page(PageIndex(0)).expect("made");
        if let Ok(pin) = page.try_pin(Touch::Quiet) {
            let mut bytes = page_of(0);
            table.arena().read(pin.frame(), 0, &mut bytes);
            assert_eq!(bytes, page_of(1), "a pinned page was written");
        }
        evictor.join().expect("no panic");
    });
}

#[test]
fn loom_lock_loses_no_wake_up() {
    loom::model(|| {
        let table = table();
        let other = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let page = table.page(PageIndex(0)).expect("made");
                page.lock().write(0, &[2]);
            })
        };
        // Deadlocks if the wake-up is lost. Loom reports deadlocks.
        table.page(PageIndex(0)).expect("made").lock().write(8, &[3]);
        other.join().expect("no panic");
        let bytes = read_page(&table).expect("free");
        assert_eq!((bytes[0], bytes[8]), (2, 3));
    });
}

#[test]
fn loom_last_pin_wakes_the_lock_that_waits() {
    loom::model(|| {
        let table = table();
        let page = table.page(PageIndex(0)).expect("made");
        let pin = page.try_pin(Touch::Quiet).expect("free");
        let other = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                table.page(PageIndex(0)).expect("made").lock().write(0, &[2]);
            })
        };
        drop(pin);
        other.join().expect("no panic");
        assert_eq!(read_page(&table).expect("free")[0], 2);
    });
}

#[test]
fn loom_waiter_for_an_unlock_wakes() {
    loom::model(|| {
        let table = table();
        let lock = table.word_ref(PageIndex(0)).expect("in range").lock();
        let other = thread::spawn(move || drop(lock));
        table.page(PageIndex(0)).expect("made").wait_while_locked();
        assert!(read_page(&table).is_some());
        other.join().expect("no panic");
    });
}

#[test]
fn loom_frame_is_claimed_by_one() {
    loom::model(|| {
        let arena = FrameArena::reserve(1, ArenaOptions::default()).expect("one frame");
        let arena = Arc::new(arena);
        let claim = |arena: &FrameArena| arena.claim(FrameId(0)).is_ok();
        let other = {
            let arena = Arc::clone(&arena);
            thread::spawn(move || claim(&arena))
        };
        let here = claim(&arena);
        assert!(here ^ other.join().expect("no panic"), "a claim was given twice, or to neither");
    });
}
