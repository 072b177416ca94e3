use std::sync::Arc;

use pagetide_core::ids::{FrameId, PageIndex};

use super::*;
use crate::memory::huge_buffer::HugeBuffer;
use crate::{ArenaOptions, FrameArena, PageTable, StoreOptions};

fn table(nr_frames: u32) -> Arc<PageTable> {
    let arena =
        FrameArena::reserve(nr_frames, ArenaOptions::default()).expect("a small arena fits");
    Arc::new(PageTable::new(Arc::new(arena)))
}

fn lock(table: &Arc<PageTable>, index: u32) -> Lock<WordRef> {
    let mut lock = table.word_ref(PageIndex(index.into())).expect("in range").lock();
    lock.install(table.arena().claim(FrameId(index)).expect("free"));
    lock
}

fn store(folder: &tempfile::TempDir, len: usize) -> Arc<StoreFile> {
    let path = folder.path().join("store");
    let contents: Vec<u8> = (0..len).map(|at| (at / PAGE_BYTES) as u8 + 1).collect();
    std::fs::write(&path, contents).expect("written");
    let options = StoreOptions { write: true, direct: true, ..StoreOptions::default() };
    Arc::new(StoreFile::open(&path, options).expect("opens"))
}

fn queues(depth: u32) -> [IoQueue; 2] {
    let queues = [IoQueue::new(depth, false), IoQueue::new(depth, true)];
    assert!(!queues[0].is_uring());
    if !queues[1].is_uring() {
        eprintln!("SKIPPED: io_uring is refused here, so only its fallback was tested");
    }
    queues
}

#[test]
fn reads_come_back_with_their_locks_and_tokens() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = store(&folder, NR_PAGES as usize * PAGE_BYTES - 100);
    for mut queue in queues(4) {
        let table = table(NR_PAGES);
        read_all(&mut queue, |queue, offset, first| {
            let locks = vec![lock(&table, first), lock(&table, first + 1)];
            queue.submit_read(Arc::clone(&file), offset, locks, None, first.into());
        });
    }
}

#[test]
fn reads_through_a_part_arrive_in_their_frames() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = store(&folder, NR_PAGES as usize * PAGE_BYTES - 100);
    for mut queue in queues(4) {
        let table = table(NR_PAGES);
        let buffer = HugeBuffer::new(NR_PAGES as usize * 2 * PAGE_BYTES).expect("a little");
        let mut parts = buffer.into_parts(3 * PAGE_BYTES);
        read_all(&mut queue, |queue, offset, first| {
            let locks = vec![lock(&table, first), lock(&table, first + 1)];
            let part = Some(parts.pop().expect("26 for 20"));
            queue.submit_read(Arc::clone(&file), offset, locks, part, first.into());
        });
    }
}

#[test]
fn reads_skip_pages_that_have_no_frame() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = store(&folder, 9 * PAGE_BYTES + 100);
    let cases: [(&[u32], usize); 5] = [
        (&[0, 1, 4, 5], 6 * PAGE_BYTES),
        (&[0, 9], 9 * PAGE_BYTES + 100),
        (&[2, 8, 9], 7 * PAGE_BYTES + 100),
        (&[8, 11, 12], PAGE_BYTES + 100),
        (&[1], PAGE_BYTES),
    ];
    for (mut queue, goes_through) in
        queues(4).into_iter().chain(queues(4)).zip([false, false, true, true])
    {
        for (indices, nr_bytes) in cases {
            let table = table(NR_PAGES);
            let locks: Vec<_> = indices.iter().map(|index| lock(&table, *index)).collect();
            let offset = u64::from(indices[0]) * PAGE_BYTES as u64;
            let buffer = || HugeBuffer::new(10 * PAGE_BYTES).expect("a little");
            let part = goes_through.then(|| buffer().into_parts(10 * PAGE_BYTES).remove(0));
            queue.submit_read(Arc::clone(&file), offset, locks, part, 0);
            let mut completions = Vec::new();
            queue.reap(1, &mut completions);
            let Some(Completion::Read { locks, result, .. }) = completions.pop() else {
                panic!("a read")
            };
            assert_eq!(result.expect("read"), nr_bytes, "{indices:?}");
            for (lock, index) in locks.iter().zip(indices) {
                let mut page = [*index as u8 + 1; PAGE_BYTES];
                match index {
                    9 => page[100..].fill(0),
                    10.. => page.fill(0),
                    _ => {}
                }
                assert!(lock.bytes() == page, "page {index} of {indices:?}");
            }
        }
    }
}

const NR_PAGES: u32 = 40;

fn read_all(queue: &mut IoQueue, mut submit: impl FnMut(&mut IoQueue, u64, u32)) {
    for first in (0..NR_PAGES).step_by(2) {
        submit(queue, u64::from(first) * PAGE_BYTES as u64, first);
    }
    let mut completions = Vec::new();
    while queue.nr_pending() > 0 {
        assert!(queue.reap(1, &mut completions) > 0);
    }
    assert_eq!(queue.reap(1, &mut completions), 0, "nothing to wait for");
    let mut tokens: Vec<u64> = completions.iter().map(check_read).collect();
    tokens.sort_unstable();
    assert!(tokens.into_iter().eq((0..u64::from(NR_PAGES)).step_by(2)));
}

fn check_read(completion: &Completion) -> u64 {
    let Completion::Read { token, locks, result, .. } = completion else { panic!("only reads") };
    let is_last = *token == 38;
    let expected = if is_last { 2 * PAGE_BYTES - 100 } else { 2 * PAGE_BYTES };
    assert_eq!(*result.as_ref().expect("read"), expected);
    for (lock, index) in locks.iter().zip(*token..) {
        assert_eq!(lock.page().index(), PageIndex(index));
        let mut page = [index as u8 + 1; PAGE_BYTES];
        if index == 39 {
            page[PAGE_BYTES - 100..].fill(0);
        }
        assert!(lock.bytes() == page, "page {index}");
    }
    *token
}

#[test]
fn writes_of_any_length_and_place_arrive_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = PAGE_BYTES as u64;
    for mut queue in queues(2) {
        let file = store(&folder, 0);
        let writes =
            [(0, 2 * PAGE_BYTES), (2 * page, PAGE_BYTES + 7), (4 * page, 9), (5 * page + 1, 5000)];
        for (token, (offset, len)) in writes.into_iter().enumerate() {
            let mut buffer = AlignedBuf::zeroed(3 * PAGE_BYTES);
            buffer.fill(token as u8 + 1);
            queue.submit_write(Arc::clone(&file), offset, buffer, len, token as u64);
        }
        queue.submit();
        let mut completions = Vec::new();
        assert_eq!(queue.reap(usize::MAX, &mut completions), writes.len());
        for completion in &completions {
            let Completion::Write { token, buffer, result } = completion else {
                panic!("only writes")
            };
            assert!(result.is_ok() && buffer[..] == [*token as u8 + 1; 3 * PAGE_BYTES]);
        }
        let mut expected = vec![0; 5 * PAGE_BYTES + 1 + 5000];
        for (byte, (offset, len)) in (1..).zip(writes) {
            expected[offset as usize..][..len].fill(byte);
        }
        assert!(std::fs::read(folder.path().join("store")).expect("read") == expected);
    }
}

#[test]
fn failed_requests_bring_their_memory_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    store(&folder, PAGE_BYTES);
    let path = folder.path().join("store");
    let file = Arc::new(StoreFile::open(&path, StoreOptions::default()).expect("for reading"));
    for mut queue in queues(2) {
        let buffer = AlignedBuf::zeroed(PAGE_BYTES);
        queue.submit_write(Arc::clone(&file), 0, buffer, PAGE_BYTES, 3);
        let mut completions = Vec::new();
        queue.reap(1, &mut completions);
        let Some(Completion::Write { token: 3, buffer, result: Err(error) }) = completions.pop()
        else {
            panic!("a write to a file opened for reading succeeded");
        };
        assert_eq!(error.os_error().raw_os_error(), Some(libc::EBADF));
        assert_eq!(buffer.len(), PAGE_BYTES);
    }
}

#[test]
fn dropped_queue_waits_and_unlocks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = store(&folder, 16 * PAGE_BYTES);
    for mut queue in queues(16) {
        let table = table(16);
        for index in 0..16 {
            let offset = u64::from(index) * PAGE_BYTES as u64;
            queue.submit_read(Arc::clone(&file), offset, vec![lock(&table, index)], None, 0);
        }
        drop(queue);
        for index in 0..16_u8 {
            let page = table.page(PageIndex(index.into())).expect("made");
            let pin = page.try_pin(crate::Touch::Quiet).expect("unlocked by the drop");
            assert!(pin.bytes() == [index + 1; PAGE_BYTES], "filled before it was unlocked");
        }
    }
}

#[test]
fn queue_works_from_another_thread() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = store(&folder, PAGE_BYTES);
    for mut queue in queues(1) {
        let table = table(1);
        let locks = vec![lock(&table, 0)];
        let file = Arc::clone(&file);
        let reader = std::thread::spawn(move || {
            queue.submit_read(file, 0, locks, None, 1);
            let mut completions = Vec::new();
            queue.reap(1, &mut completions);
        });
        // Blocks until the reader drops the returned lock.
        let lock = table.page(PageIndex(0)).expect("made").lock();
        assert!(lock.bytes() == [1; PAGE_BYTES]);
        reader.join().expect("no panic");
    }
}
