use super::*;
use crate::{ArenaOptions, FrameArena, PageTable};
use pagetide_core::ids::{FrameId, PageIndex};

const NR_FRAMES: u32 = 3;

struct Both {
    arena: Arc<FrameArena>,
    view: FrameView,
    file: SharedFile,
    table: PageTable,
}

fn both() -> Both {
    let arena = Arc::new(FrameArena::reserve_shared(NR_FRAMES, ArenaOptions::default()).unwrap());
    let [frames, numbers] = arena.shared_files().unwrap();
    let view = FrameView::open(frames, numbers, NR_FRAMES).unwrap();
    let file = SharedFile::new(&arena, 1 << 20).unwrap();
    let table = PageTable::with_tag(Arc::clone(&arena), file.tag());
    Both { arena, view, file, table }
}

impl Both {
    fn page(&self, index: u64) -> crate::PageRef<'_> {
        self.table.page_or_make(PageIndex(index)).unwrap()
    }

    fn look(&self, index: u64) -> Option<[u8; 4]> {
        let mut bytes = [0; 4];
        self.view.read_into(self.file.tag(), index, 8, &mut bytes).then_some(bytes)
    }
}

#[test]
fn a_page_is_found_while_it_is_unlocked() {
    let both = both();
    assert_eq!(both.look(5), None);
    let mut lock = both.page(5).lock();
    lock.install(both.arena.claim(FrameId(1)).unwrap());
    lock.write(8, b"once");
    assert_eq!(both.look(5), None, "locked");
    drop(lock);
    assert_eq!(both.look(5), Some(*b"once"));
    assert_eq!(both.look(4), None, "another page");
    let mut lock = both.page(5).lock();
    lock.write(8, b"more");
    assert_eq!(both.look(5), None);
    drop(lock);
    assert_eq!(both.look(5), Some(*b"more"));
}

#[test]
fn a_frame_is_found_as_the_page_it_is() {
    let both = both();
    both.page(0).lock().install(both.arena.claim(FrameId(0)).unwrap());
    assert!(both.look(0).is_some());
    let mut lock = both.page(0).lock();
    lock.write(8, b"zero");
    let old = lock.relocate(both.arena.claim(FrameId(2)).unwrap());
    drop(lock);
    assert_eq!(both.look(0), Some(*b"zero"), "it moved");
    let mut lock = both.page(1).lock();
    lock.install(old);
    lock.write(8, b"one ");
    drop(lock);
    assert_eq!((both.look(0), both.look(1)), (Some(*b"zero"), Some(*b"one ")));
    let freed = both.page(0).lock().evict(None);
    both.arena.release(freed);
    assert_eq!((both.look(0), both.look(1)), (None, Some(*b"one ")));
}

#[test]
fn a_file_that_is_revoked_or_gone_is_known_to_nobody() {
    let both = both();
    let tag = both.file.tag();
    both.file.len().store(77, Ordering::Release);
    both.file.writes().store(1, Ordering::Release);
    assert_eq!(both.view.file(tag, &(0..1)), Some((77, 1)));
    assert_eq!(both.view.file(0, &(0..1)), None);
    both.file.hide();
    assert_eq!(both.view.file(tag, &(0..1)), None);
    let second = SharedFile::new(&both.arena, 5).unwrap();
    let later = second.tag();
    assert_ne!(later, tag);
    assert_eq!(both.view.file(later, &(0..1)), Some((5, 0)));
    drop(second);
    assert_eq!(both.view.file(later, &(0..1)), None);
}

#[test]
fn pages_that_are_being_changed_are_known_to_their_viewer() {
    let both = both();
    let [frames, numbers] = both.arena.shared_files().unwrap();
    let views = [0, 7, 8]
        .map(|viewer| FrameView::open(frames, numbers, NR_FRAMES).unwrap().of_viewer(viewer));
    let (file, tag) = (&both.file, both.file.tag());
    let known_of = |pages: Range<u64>| views.each_ref().map(|v| v.file(tag, &pages).is_some());
    file.show_only_to(7, &(4..6));
    for outside in [0..4, 6..7, 6..u64::MAX] {
        assert_eq!(known_of(outside.clone()), [true; 3], "{outside:?}");
    }
    for inside in [3..5, 5..6, 0..u64::MAX] {
        assert_eq!(known_of(inside.clone()), [false, true, false], "{inside:?}");
    }
    file.hide();
    assert_eq!(known_of(4..5), [false; 3]);
    file.show_only_to(8, &(4..u64::MAX));
    assert_eq!(known_of(0..1), [false; 3], "it is hidden still");
    file.show();
    assert_eq!(known_of(u64::MAX - 1..u64::MAX), [false, false, true]);
    file.show_only_to(NO_VIEWER, &(0..9));
    assert_eq!(known_of(8..9), [false; 3]);
    file.show_only_to(0, &(0..0));
    assert_eq!(known_of(8..9), [true; 3]);
}

#[test]
fn hints_that_were_lost_are_made_again() {
    // Scattered pages, and consecutive pages.
    [97, 1].into_iter().for_each(check_hints);
}

fn check_hints(step: u64) {
    const MANY: u32 = 1024;
    let arena = Arc::new(FrameArena::reserve_shared(MANY, ArenaOptions::default()).unwrap());
    let [frames, numbers] = arena.shared_files().unwrap();
    let view = FrameView::open(frames, numbers, MANY).unwrap();
    let file = SharedFile::new(&arena, 1 << 30).unwrap();
    let table = PageTable::with_tag(Arc::clone(&arena), file.tag());
    let index = |frame: u32| PageIndex(u64::from(frame) * step);
    let find = |frame: u32| {
        let mut byte = [0];
        view.read_into(file.tag(), index(frame).0, 0, &mut byte).then_some(byte[0])
    };
    for frame in 0..MANY {
        let mut lock = table.page_or_make(index(frame)).unwrap().lock();
        lock.install(arena.claim(FrameId(frame)).unwrap());
        lock.write(0, &[frame as u8]);
    }
    let found = (0..MANY).filter(|frame| find(*frame).is_some()).count();
    assert!(found as u32 > MANY - 4, "nearly all are found at once: {found} of {MANY}");
    for frame in 0..MANY {
        assert!(table.page(index(frame)).unwrap().publish());
        assert_eq!(find(frame), Some(frame as u8));
    }
}

#[test]
fn hints_of_pages_that_left_take_no_room() {
    let both = both();
    let hints = || both.arena.numbers().unwrap().count_hints();
    for turn in 0..100 {
        let frame = FrameId(1 + turn % (NR_FRAMES - 1));
        both.page(u64::from(turn)).lock().install(both.arena.claim(frame).unwrap());
        assert_eq!(hints(), 1);
        let freed = both.page(u64::from(turn)).lock().evict(None);
        both.arena.release(freed);
        assert_eq!(hints(), 0);
    }
}

#[test]
fn memory_given_back_is_gone_for_all() {
    let both = both();
    let mut lock = both.page(0).lock();
    lock.install(both.arena.claim(FrameId(0)).unwrap());
    lock.write(8, b"gone");
    let freed = lock.evict(None);
    drop(lock);
    both.arena.release(freed);
    assert_eq!(both.arena.discard(FrameId(0)..FrameId(NR_FRAMES)).unwrap(), NR_FRAMES);
    assert_eq!(both.arena.count_resident_bytes(), 0);
    both.page(0).lock().install(both.arena.claim(FrameId(0)).unwrap());
    assert_eq!(both.look(0), Some([0; 4]));
}
