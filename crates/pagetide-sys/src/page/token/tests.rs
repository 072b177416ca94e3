use std::sync::Arc;

use pagetide_core::ids::PageIndex;

use super::*;
use crate::memory::frames::FRAME_BYTES;
use crate::{ArenaOptions, PageTable};

fn table(nr_frames: u32) -> Arc<PageTable> {
    let arena =
        FrameArena::reserve(nr_frames, ArenaOptions::default()).expect("a small arena fits");
    Arc::new(PageTable::new(Arc::new(arena)))
}

/// Makes page 0 resident in frame 0, filled with `byte`.
fn fill(table: &Arc<PageTable>, byte: u8) {
    let mut lock = table.word_ref(PageIndex(0)).expect("in range").lock();
    lock.install(table.arena().claim(FrameId(0)).expect("free"));
    lock.write(0, &[byte; FRAME_BYTES]);
}

#[test]
fn what_was_written_is_read_by_each_kind_of_token() {
    let table = table(2);
    fill(&table, 9);
    let page = table.page(PageIndex(0)).expect("made");
    let ticket = page.peek().expect("resident");
    let mut copy = [0; 100];
    table.arena().read(ticket.frame(), 4000 - 4, &mut copy);
    assert!(page.still(ticket) && copy == [9; 100]);

    let mut lock = page.lock();
    lock.write(1, &[1, 2, 3]);
    lock.fill_zero(5..FRAME_BYTES - 1);
    let mut head = [0; 6];
    lock.read(0, &mut head);
    assert_eq!(head, [9, 1, 2, 3, 9, 0]);
    assert_eq!(lock.bytes()[..6], head);
    drop(lock);
    assert!(!page.still(ticket));

    let pin = page.try_pin(Touch::Young).expect("free");
    assert_eq!(pin.bytes().len(), FRAME_BYTES);
    assert_eq!((pin.bytes()[4], pin.bytes()[5], pin.bytes()[FRAME_BYTES - 1]), (9, 0, 9));
    assert!(pin.page().load().is_young());
}

#[test]
fn plain_page_is_pinned_the_short_way_until_it_asks() {
    let table = table(2);
    let pin_plain = || table.try_pin_plain(PageIndex(0), 100);
    assert!(pin_plain().is_none(), "never made");
    fill(&table, 9);
    let page = table.page(PageIndex(0)).expect("made");
    assert!(page.load().asks() && pin_plain().is_none(), "just installed");
    page.try_pin(Touch::Quiet).expect("free").make_plain();
    assert!(!page.load().asks() && !page.load().is_young());
    let bytes = pin_plain().expect("plain");
    assert_eq!(bytes[..], [9; 100]);
    assert!(page.load().is_young() && page.load().pins() == 1);
    assert!(page.try_lock().is_err() && bytes.word_address() == page.word_address());
    drop(bytes);
    assert_eq!(page.load().pins(), 0);
    // Each operation sets ASK.
    assert!(page.set_hint() && pin_plain().is_none());
    assert!(page.test_and_clear_hint() && pin_plain().is_some());
    page.lock().ask();
    assert!(pin_plain().is_none(), "asked under the lock");
    page.try_pin(Touch::Quiet).expect("free").make_plain();
    let mut lock = page.lock();
    assert!(pin_plain().is_none(), "locked");
    let source = lock.relocate(table.arena().claim(FrameId(1)).expect("free"));
    drop(lock);
    table.arena().release(source);
    assert!(pin_plain().is_none(), "moved");
    let pin = page.try_pin(Touch::Quiet).expect("free");
    pin.make_plain();
    assert_eq!(pin.into_bytes(FRAME_BYTES)[..], [9; FRAME_BYTES]);
    assert_eq!(pin_plain().expect("plain")[..], [9; 100]);
    let mut lock = page.lock();
    let claimed = lock.evict(None);
    drop(lock);
    table.arena().release(claimed);
    assert!(pin_plain().is_none(), "evicted");
}

#[test]
fn copies_of_any_length_and_place_are_exact() {
    let table = table(1);
    fill(&table, 0);
    let mut lock = table.page(PageIndex(0)).expect("made").lock();
    let mut expected = [0; FRAME_BYTES];
    let lengths = (0..20).chain([63, 64, 71, 127, 128, 129, 255, 256, 300, 1023, 1024, 1025]);
    for (round, len) in lengths.enumerate() {
        for offset in [0, 1, 7, 8, 13, FRAME_BYTES - len] {
            let source: Vec<u8> = (0..len).map(|at| (at * 3 + offset + round) as u8).collect();
            lock.write(offset, &source);
            expected[offset..][..len].copy_from_slice(&source);
            // One extra byte on each side reveals an overrun.
            let mut copy = vec![0xee; len + 2];
            lock.read(offset, &mut copy[1..=len]);
            assert!(copy[1..=len] == source && copy[0] == 0xee && copy[len + 1] == 0xee);
        }
        assert!(lock.bytes() == expected, "{len} bytes");
    }
}

#[test]
fn eviction_returns_the_claim_and_leaves_the_shadow() {
    let table = table(1);
    fill(&table, 1);
    let page = table.page(PageIndex(0)).expect("made");
    let Claim::Locked(mut lock) = page.try_claim() else { panic!("free and not young") };
    let claimed = lock.evict(Some(77));
    assert_eq!((lock.frame(), lock.shadow()), (None, Some(77)));
    lock.set_shadow(Some(78));
    drop(lock);
    assert_eq!(page.load().shadow(), Some(78));
    assert!(matches!(page.try_pin(Touch::Quiet), Err(PinRefused::NotResident)));
    assert!(matches!(page.try_claim(), Claim::Gone));
    assert_eq!(table.arena().release(claimed), FrameId(0));
}

#[test]
fn a_page_that_moves_takes_its_bytes_and_its_youth_along() {
    let table = table(2);
    fill(&table, 5);
    let page = table.page(PageIndex(0)).expect("made");
    assert!(page.set_hint());
    let ticket = page.peek().expect("resident");
    assert!(ticket.is_hint() && page.try_pin(Touch::Young).expect("free").has_hint());
    let mut lock = page.lock();
    lock.write(9, &[6]);
    let left = lock.relocate(table.arena().claim(FrameId(1)).expect("free"));
    assert_eq!((left.frame(), lock.frame()), (FrameId(0), Some(FrameId(1))));
    lock.write(10, &[7]);
    drop(lock);
    assert!(!page.still(ticket));
    assert_eq!((page.load().is_young(), page.load().is_hint()), (true, false));
    let pin = page.try_pin(Touch::Quiet).expect("free");
    assert_eq!((pin.frame(), &pin.bytes()[8..12]), (FrameId(1), &[5, 6, 7, 5][..]));
    drop(pin);
    // Back to the first frame, which frees the second.
    let moved = page.peek().expect("resident");
    let left = page.lock().relocate(left);
    assert!(!page.still(moved) && !page.still(ticket), "the same frame, another version");
    assert_eq!(table.arena().release(left), FrameId(1));
}

#[test]
#[should_panic(expected = "S3")]
fn a_page_does_not_move_to_a_frame_of_another_arena() {
    let (table, other) = (table(1), table(1));
    fill(&table, 1);
    let claimed = other.arena().claim(FrameId(0)).expect("free");
    let _ = table.page(PageIndex(0)).expect("made").lock().relocate(claimed);
}

#[test]
#[should_panic(expected = "S3")]
fn an_absent_page_does_not_move() {
    let table = table(1);
    let claimed = table.arena().claim(FrameId(0)).expect("free");
    let _ = table.word_ref(PageIndex(0)).expect("in range").lock().relocate(claimed);
}

#[test]
fn claim_takes_youth_first_and_refuses_pinned_pages() {
    let table = table(1);
    fill(&table, 1);
    let page = table.page(PageIndex(0)).expect("made");
    let pin = page.try_pin(Touch::Young).expect("free");
    assert!(matches!(page.try_claim(), Claim::Busy));
    assert!(matches!(page.try_lock(), Err(LockRefused::Pinned(1))));
    drop(pin);
    assert!(matches!(page.try_claim(), Claim::Young(_)));
    assert!(matches!(page.try_claim(), Claim::Locked(_)));
}

#[test]
fn same_frame_for_another_page_is_another_version() {
    let table = table(1);
    fill(&table, 1);
    let page = table.page(PageIndex(0)).expect("made");
    let ticket = page.peek().expect("resident");
    for _ in 0..2 {
        let mut lock = page.lock();
        let claimed = lock.evict(None);
        // The version survives both paths, through the arena or direct.
        let frame = table.arena().release(claimed);
        lock.install(table.arena().claim(frame).expect("just released"));
        drop(lock);
        assert_eq!(page.load().frame(), Some(ticket.frame()));
        assert!(!page.still(ticket));
    }
}

#[test]
#[should_panic(expected = "S3")]
fn frame_of_another_arena_is_refused() {
    let (table, other) = (table(1), table(1));
    let claimed = other.arena().claim(FrameId(0)).expect("free");
    table.word_ref(PageIndex(0)).expect("in range").lock().install(claimed);
}

#[test]
#[should_panic(expected = "S3")]
fn write_to_an_absent_page_panics() {
    table(1).word_ref(PageIndex(0)).expect("in range").lock().write(0, &[1]);
}

#[test]
fn panic_under_a_lock_unlocks() {
    let table = table(1);
    fill(&table, 1);
    let page = table.page(PageIndex(0)).expect("made");
    let ticket = page.peek().expect("resident");
    let unwound = std::panic::catch_unwind(|| page.lock().write(FRAME_BYTES, &[1]));
    assert!(unwound.is_err());
    assert!(!page.load().is_locked());
    assert!(!page.still(ticket), "how far the write came is not known");
}

#[test]
fn downgraded_lock_is_a_pin_with_nobody_in_between() {
    let table = table(1);
    let page = table.page_or_make(PageIndex(0)).expect("in range");
    let lock = page.lock().downgrade(Touch::Quiet).expect_err("absent");
    drop(lock);
    fill(&table, 3);
    let pin = page.lock().downgrade(Touch::Young).expect("resident");
    assert_eq!((page.load().pins(), page.load().is_young()), (1, true));
    assert_eq!(pin.bytes()[0], 3);
    drop(pin);
    assert_eq!(page.load().pins(), 0);
}

#[test]
fn lock_waits_for_the_last_pin_and_for_the_other_lock() {
    let table = table(1);
    fill(&table, 1);
    let page = table.page(PageIndex(0)).expect("made");
    let pin = page.try_pin(Touch::Quiet).expect("free");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| page.lock().write(0, &[2]));
        let other = scope.spawn(|| page.lock().write(1, &[3]));
        assert_eq!(pin.bytes()[0], 1);
        drop(pin);
        waiter.join().expect("no panic");
        other.join().expect("no panic");
    });
    page.wait_while_locked();
    assert_eq!(page.try_pin(Touch::Quiet).expect("free").bytes()[..3], [2, 3, 1]);
}
