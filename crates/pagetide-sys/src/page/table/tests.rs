use super::*;
use crate::{ArenaOptions, Touch};

/// Number of pages in leaves that hang on the table.
const NEAR_PAGES: u64 = (NEAR_LEAVES * LEAF_WORDS) as u64;

fn table(nr_frames: u32) -> PageTable {
    let arena =
        FrameArena::reserve(nr_frames, ArenaOptions::default()).expect("a small arena fits");
    PageTable::new(Arc::new(arena))
}

fn fill(table: &PageTable, index: u64, frame: u32) {
    let mut lock = table.page_or_make(PageIndex(index)).expect("in range").lock();
    lock.install(table.arena().claim(FrameId(frame)).expect("free"));
}

fn collect_young(table: &PageTable) -> Vec<(u64, u32)> {
    let mut young = Vec::new();
    table.for_each_young(|index, frame| young.push((index.0, frame.0)));
    young
}

#[test]
fn word_has_eight_bytes_and_a_leaf_one_line_more_than_its_words() {
    assert_eq!(size_of::<PageWord>(), 8);
    assert!(size_of::<Leaf>() <= 4096 + 64);
}

#[test]
fn pages_are_made_where_asked_and_nowhere_else() {
    let table = table(1);
    assert!(table.page(PageIndex(0)).is_none());
    assert!(!table.is_any_resident());
    for index in [0, 511, 512, NEAR_PAGES - 1, NEAR_PAGES, 1 << 21, PAGES_MAX - 1] {
        assert!(table.page_or_make(PageIndex(index)).expect("in range").load().is_absent());
    }
    assert!(table.page(PageIndex(510)).is_some(), "same leaf");
    assert!(table.page(PageIndex(1024)).is_none());
    assert!(table.page(PageIndex((1 << 21) + 512)).is_none());
    assert!(table.page(PageIndex(PAGES_MAX)).is_none());
    assert!(table.page_or_make(PageIndex(PAGES_MAX)).is_none());
    assert!(table.page_or_make(PageIndex(u64::MAX)).is_none());
}

#[test]
fn each_index_has_its_own_word() {
    let table = table(6);
    let indices = [3, 512 + 3, NEAR_PAGES - 1, NEAR_PAGES, (1 << 21) + 3, (5 << 21) + 512 + 3];
    for (frame, index) in indices.into_iter().enumerate() {
        fill(&table, index, frame as u32);
    }
    for (frame, index) in indices.into_iter().enumerate() {
        let page = table.page(PageIndex(index)).expect("made");
        assert_eq!(page.load().frame(), Some(FrameId(frame as u32)));
    }
}

#[test]
fn walk_finds_young_pages_once() {
    let table = table(4);
    for (frame, index) in [7, 8, 600, 1 << 30].into_iter().enumerate() {
        fill(&table, index, frame as u32);
    }
    assert_eq!(collect_young(&table), []);
    for index in [1 << 30, 8] {
        let page = table.page(PageIndex(index)).expect("made");
        drop(page.try_pin(Touch::Young).expect("free"));
    }
    drop(table.page(PageIndex(7)).expect("made").try_pin(Touch::Quiet).expect("free"));
    let page = table.page(PageIndex(600)).expect("made");
    drop(page.try_pin(Touch::Young).expect("free"));
    assert_eq!(collect_young(&table), [(8, 1), (600, 2), (1 << 30, 3)]);
    assert_eq!(collect_young(&table), []);
    page.lock().set_young();
    assert_eq!(collect_young(&table), [(600, 2)]);
}

#[test]
fn walk_reads_no_leaf_that_was_not_touched() {
    let table = table(1);
    fill(&table, 0, 0);
    let page = table.page(PageIndex(0)).expect("made");
    // Bypasses the leaf, which only this test can do.
    page.word().set_young();
    assert_eq!(collect_young(&table), []);
    assert!(page.load().is_young());
}

#[test]
fn present_pages_are_those_with_frame_shadow_or_lock() {
    let table = table(5);
    for (frame, index) in [1, 700, 3 << 21, NEAR_PAGES - 1, NEAR_PAGES].into_iter().enumerate() {
        fill(&table, index, frame as u32);
    }
    let mut lock = table.page(PageIndex(700)).expect("made").lock();
    let claimed = lock.evict(Some(4));
    drop(lock);
    table.arena().release(claimed);
    let _lock = table.page_or_make(PageIndex(2)).expect("in range").lock();
    assert!(table.is_any_resident());
    let collect = |range: Range<u64>| {
        let mut present = Vec::new();
        let range = PageIndex(range.start)..PageIndex(range.end);
        table.for_each_present(range, |page, seen| {
            assert_eq!(page.load(), seen);
            present.push(page.index().0);
        });
        present
    };
    let all = [1, 2, 700, NEAR_PAGES - 1, NEAR_PAGES, 3 << 21];
    assert_eq!(collect(0..PAGES_MAX), all);
    assert_eq!(collect(0..u64::MAX), all);
    assert_eq!(collect(2..700), [2]);
    assert_eq!(collect(2..701), [2, 700]);
    assert_eq!(collect(701..NEAR_PAGES), [NEAR_PAGES - 1]);
    assert_eq!(collect(NEAR_PAGES..(3 << 21) + 1), [NEAR_PAGES, 3 << 21]);
    assert_eq!(collect(NEAR_PAGES + 1..(3 << 21) + 1), [3 << 21]);
    assert_eq!(collect(700..700), [] as [u64; 0]);
}
