//! Every interleaving of a page's move to another frame with readers and writers.
//!
//! Run: as `loom_tests`. At most two pages and two frames. A copy is two relaxed accesses.

use std::sync::Arc;

use loom::thread;
use pagetide_core::ids::{FrameId, PageIndex};

use crate::memory::frames::FRAME_BYTES;
use crate::{ArenaOptions, FrameArena, PageTable, Touch};

/// A page full of `byte`.
fn page_of(byte: u8) -> [u8; FRAME_BYTES] {
    [byte; FRAME_BYTES]
}

/// Two frames. The first has page 0, full of 1.
fn table() -> Arc<PageTable> {
    let arena = FrameArena::reserve(2, ArenaOptions::default()).expect("two frames");
    let table = Arc::new(PageTable::new(Arc::new(arena)));
    install(&table, 0, FrameId(0), 1);
    table
}

fn install(table: &Arc<PageTable>, index: u64, frame: FrameId, byte: u8) {
    let mut lock = table.word_ref(PageIndex(index)).expect("in range").lock();
    lock.install(table.arena().claim(frame).expect("free"));
    lock.write(0, &page_of(byte));
}

/// Moves page 0 to `frame`, if free. Returns true if moved.
fn move_page(table: &PageTable, frame: FrameId) -> bool {
    let page = table.page(PageIndex(0)).expect("made");
    let Ok(mut lock) = page.try_lock() else { return false };
    let left = lock.relocate(table.arena().claim(frame).expect("free"));
    drop(lock);
    table.arena().release(left);
    true
}

/// Reads a page optimistically. Returns the bytes if accepted.
fn read_page(table: &PageTable, index: u64) -> Option<[u8; FRAME_BYTES]> {
    let page = table.page(PageIndex(index)).expect("made");
    let ticket = page.peek()?;
    let mut bytes = page_of(0);
    table.arena().read(ticket.frame(), 0, &mut bytes);
    page.still(ticket).then_some(bytes)
}

#[test]
fn loom_reader_of_a_page_that_moves_sees_its_bytes() {
    loom::model(|| {
        let table = table();
        let mover = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                assert!(move_page(&table, FrameId(1)));
                table.page(PageIndex(0)).expect("made").lock().write(0, &page_of(2));
            })
        };
        if let Some(bytes) = read_page(&table, 0) {
            assert!(bytes == page_of(1) || bytes == page_of(2), "{bytes:?}");
        }
        mover.join().expect("no panic");
        assert_eq!(read_page(&table, 0), Some(page_of(2)));
    });
}

/// The old frame gets another page at once.
#[test]
fn loom_reader_accepts_nothing_of_who_took_the_frame_left() {
    loom::model(|| {
        let table = table();
        let mover = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                assert!(move_page(&table, FrameId(1)));
                install(&table, 1, FrameId(0), 2);
            })
        };
        if let Some(bytes) = read_page(&table, 0) {
            assert_eq!(bytes, page_of(1));
        }
        mover.join().expect("no panic");
        assert_eq!(read_page(&table, 0), Some(page_of(1)));
    });
}

/// The new frame just left another page, and a reader of that page still copies. The moving page
/// was locked long before the frame was free.
#[test]
fn loom_reader_of_the_page_before_accepts_nothing_of_who_moved_in() {
    loom::model(|| {
        let table = table();
        install(&table, 1, FrameId(1), 2);
        let mut lock = table.word_ref(PageIndex(0)).expect("in range").lock();
        let mover = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                if let Ok(claimed) = table.arena().claim(FrameId(1)) {
                    let left = lock.relocate(claimed);
                    table.arena().release(left);
                }
            })
        };
        let evictor = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let mut lock = table.page(PageIndex(1)).expect("made").lock();
                let claimed = lock.evict(None);
                table.arena().release(claimed);
            })
        };
        if let Some(bytes) = read_page(&table, 1) {
            assert_eq!(bytes, page_of(2));
        }
        mover.join().expect("no panic");
        evictor.join().expect("no panic");
    });
}

#[test]
fn loom_no_write_is_lost_to_a_move() {
    loom::model(|| {
        let table = table();
        let writer = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                table.page(PageIndex(0)).expect("made").lock().write(0, &page_of(2));
            })
        };
        move_page(&table, FrameId(1));
        writer.join().expect("no panic");
        assert_eq!(read_page(&table, 0), Some(page_of(2)));
    });
}

#[test]
fn loom_a_pinned_page_does_not_move() {
    loom::model(|| {
        let table = table();
        let mover = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                if move_page(&table, FrameId(1)) {
                    install(&table, 1, FrameId(0), 2);
                }
            })
        };
        let page = table.page(PageIndex(0)).expect("made");
        if let Ok(pin) = page.try_pin(Touch::Quiet) {
            let mut bytes = page_of(0);
            table.arena().read(pin.frame(), 0, &mut bytes);
            assert_eq!(bytes, page_of(1), "the frame of a pinned page was taken");
        }
        mover.join().expect("no panic");
    });
}
