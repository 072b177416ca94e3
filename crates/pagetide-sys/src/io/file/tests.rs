use std::path::PathBuf;
use std::sync::Arc;

use pagetide_core::ids::{FrameId, PageIndex};

use super::*;
use crate::page::table::WordRef;
use crate::page::token::Lock;
use crate::{ArenaOptions, FrameArena, PageTable};

const NR_FRAMES: u32 = 8;

/// Makes locked resident pages full of 0xee.
fn locked_frames() -> Vec<Lock<WordRef>> {
    // Reversed, so that the file's order differs from memory's.
    locked_frames_in(|index| NR_FRAMES - 1 - index)
}

fn locked_frames_in(frame_of: impl Fn(u32) -> u32) -> Vec<Lock<WordRef>> {
    let arena = FrameArena::reserve(NR_FRAMES, ArenaOptions::default()).expect("32 KiB");
    let table = Arc::new(PageTable::new(Arc::new(arena)));
    let locked = |index: u32| {
        let mut lock = table.word_ref(PageIndex(index.into())).expect("in range").lock();
        lock.install(table.arena().claim(FrameId(frame_of(index))).expect("free"));
        lock.write(0, &[0xee; PAGE_BYTES]);
        lock
    };
    (0..NR_FRAMES).map(locked).collect()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 7 + at / PAGE_BYTES) as u8).collect()
}

fn open(path: &Path, direct: bool) -> StoreFile {
    let options = StoreOptions { write: true, create: true, direct, ..StoreOptions::default() };
    StoreFile::open(path, options).expect("a temporary file opens")
}

fn folders() -> [tempfile::TempDir; 2] {
    let here = std::env::temp_dir();
    let memory = PathBuf::from("/dev/shm");
    let memory = if memory.is_dir() { memory } else { here.clone() };
    [here, memory].map(|folder| tempfile::tempdir_in(folder).expect("a temporary folder"))
}

fn check_frames(frames: &[Lock<WordRef>], expected: &[u8]) {
    let mut expected = expected.to_vec();
    expected.resize(frames.len() * PAGE_BYTES, 0);
    for (frame, expected) in frames.iter().zip(expected.chunks(PAGE_BYTES)) {
        assert!(frame.bytes() == expected, "{frame:?}");
    }
}

#[test]
fn frames_get_the_file_and_zeros_after_its_end() {
    for folder in folders() {
        for direct in [false, true] {
            for len in
                [0, 1, 511, 512, PAGE_BYTES, PAGE_BYTES + 1, 8 * PAGE_BYTES - 1, 9 * PAGE_BYTES]
            {
                let path = folder.path().join(format!("{len}{direct}"));
                std::fs::write(&path, pattern(len)).expect("written");
                let file = open(&path, direct);
                let mut frames = locked_frames();
                let count = file.read_frames(0, &mut frames).expect("read");
                assert_eq!(count, len.min(8 * PAGE_BYTES), "direct {}", file.is_direct());
                check_frames(&frames, &pattern(len)[..count]);
                let count = file.read_frames(PAGE, &mut frames[..2]).expect("read");
                assert_eq!(count, len.saturating_sub(PAGE_BYTES).min(2 * PAGE_BYTES));
                check_frames(&frames[..2], &pattern(len)[len.min(PAGE_BYTES)..][..count]);
            }
        }
    }
}

#[test]
fn holes_read_as_zeros() {
    for folder in folders() {
        let file = open(&folder.path().join("holes"), true);
        file.write_bytes(&[5; 10], 3 * PAGE + 100).expect("written");
        let mut frames = locked_frames();
        let count = file.read_frames(0, &mut frames).expect("read");
        assert_eq!(count, 3 * PAGE_BYTES + 110);
        let mut expected = vec![0; count];
        expected[3 * PAGE_BYTES + 100..].fill(5);
        check_frames(&frames, &expected);
    }
}

#[test]
fn written_bytes_are_read_back_aligned_or_not() {
    for folder in folders() {
        for direct in [false, true] {
            for (offset, len) in
                [(0, 3 * PAGE_BYTES), (0, 3 * PAGE_BYTES + 9), (PAGE, 5), (77, 9000)]
            {
                let path = folder.path().join(format!("{offset}-{len}-{direct}"));
                let file = open(&path, direct);
                let mut buffer = AlignedBuf::zeroed(len);
                buffer.copy_from_slice(&pattern(len));
                file.write_bytes(&buffer, offset).expect("written");
                file.sync_data().expect("synced");
                assert_eq!(file.read_len().expect("known"), offset + len as u64);
                let whole = std::fs::read(&path).expect("read");
                assert!(whole[offset as usize..] == buffer[..], "as others see it");
                let mut back = AlignedBuf::zeroed(len + PAGE_BYTES);
                let count = file.read_bytes(&mut back, offset).expect("read");
                assert!(count == len && back[..len] == buffer[..]);
                let count = file.read_bytes(&mut back[1..1 + len], offset).expect("read");
                assert!(count == len && back[1..1 + len] == buffer[..]);
            }
        }
    }
}

#[test]
fn direct_reads_see_buffered_tails_and_the_other_way_round() {
    for folder in folders() {
        let file = open(&folder.path().join("mixed"), true);
        let mut buffer = AlignedBuf::zeroed(2 * PAGE_BYTES);
        buffer.fill(1);
        file.write_bytes(&buffer, 0).expect("written");
        file.write_bytes(&[2; 3], PAGE - 1).expect("written");
        let mut frames = locked_frames();
        assert_eq!(file.read_frames(0, &mut frames[..2]).expect("read"), 2 * PAGE_BYTES);
        buffer[PAGE_BYTES - 1..PAGE_BYTES + 2].fill(2);
        check_frames(&frames[..2], &buffer);
        buffer.fill(3);
        file.write_bytes(&buffer, 0).expect("written");
        let mut back = [0; 100];
        assert_eq!(file.read_bytes(&mut back, PAGE - 50).expect("read"), 100);
        assert_eq!(back, [3; 100]);
    }
}

#[test]
fn file_grows_and_shrinks() {
    let [folder, _] = folders();
    let file = open(&folder.path().join("length"), true);
    file.set_len(PAGE + 5).expect("grown");
    assert_eq!(file.read_len().expect("known"), PAGE + 5);
    file.set_len(3).expect("cut");
    assert_eq!(file.read_frames(0, &mut locked_frames()).expect("read"), 3);
    file.sync_all().expect("synced");
}

#[test]
fn fingerprints_tell_files_and_states_apart() {
    let [folder, _] = folders();
    let [first, second] = ["a", "b"].map(|name| folder.path().join(name));
    let (file, other) = (open(&first, false), open(&second, false));
    let fingerprint = |file: &StoreFile| file.look().expect("known").fingerprint;
    let before = fingerprint(&file);
    assert_eq!(before, fingerprint(&open(&first, true)));
    assert_ne!(before, fingerprint(&other));
    file.write_bytes(&[1], 0).expect("written");
    assert_ne!(before, fingerprint(&file));
    assert_eq!(before.btime_ns, fingerprint(&file).btime_ns);
}

/// After a settled look, every change shows.
#[test]
fn a_change_after_a_settled_look_shows() {
    for folder in folders() {
        let path = folder.path().join("a");
        let file = open(&path, false);
        let times = std::fs::metadata(&path).expect("there").modified().expect("kept");
        for round in 0..20_u8 {
            file.write_bytes(&[round], 0).expect("written");
            let settled = loop {
                let look = file.look().expect("known");
                if look.is_settled {
                    break look;
                }
                std::thread::yield_now();
            };
            file.write_bytes(&[!round], 0).expect("written");
            let other = File::options().write(true).open(&path).expect("opened");
            other.set_modified(times).expect("times are its owner's to set");
            assert_ne!(settled.fingerprint, file.look().expect("known").fingerprint);
        }
    }
}

#[test]
fn a_files_device_is_the_one_stat_tells() {
    use std::os::unix::fs::MetadataExt;
    let [folder, _] = folders();
    let path = folder.path().join("a");
    let fingerprint = open(&path, false).look().expect("known").fingerprint;
    assert_eq!(fingerprint.dev, std::fs::metadata(&path).expect("there").dev());
}

#[test]
fn what_is_no_regular_file_is_refused_by_name() {
    let [folder, _] = folders();
    for write in [false, true] {
        let options = StoreOptions { write, direct: true, ..StoreOptions::default() };
        let refusal =
            |path: &Path| StoreFile::open(path, options).expect_err("no store").to_string();
        assert!(refusal(folder.path()).ends_with("this is a directory"));
        assert!(refusal(Path::new("/dev/null")).ends_with("this is a character device"));
        let missing = refusal(&folder.path().join("none"));
        assert!(missing.starts_with("the file could not be opened: No such file"), "{missing}");
    }
}

#[test]
fn errors_name_operation_and_range() {
    let [folder, _] = folders();
    let path = folder.path().join("read-only");
    std::fs::write(&path, [1; 10]).expect("written");
    let file = StoreFile::open(&path, StoreOptions::default()).expect("opens for reading");
    let error = file.write_bytes(&[1; 7], 9).expect_err("opened for reading");
    let text = error.to_string();
    assert!(text.starts_with("writing 7 bytes at 9 failed: Bad file descriptor"), "{text}");
    assert_eq!(error.os_error().raw_os_error(), Some(libc::EBADF));
    let error =
        file.read_frames(u64::MAX - PAGE + 1, &mut locked_frames()[..1]).expect_err("too far");
    assert_eq!(error.os_error().raw_os_error(), Some(libc::EINVAL));
    assert!(io::Error::from(error).to_string().starts_with("reading 4096 bytes at"));
}

#[test]
fn frames_that_follow_each_other_are_one_part() {
    let mut frames = locked_frames();
    assert_eq!(parts(&mut frames, 0).len(), NR_FRAMES as usize, "they lie backwards");
    let mut frames = locked_frames_in(|index| index);
    let lengths = |frames: &mut [Lock<WordRef>], done| -> Vec<usize> {
        parts(frames, done).iter().map(|part| part.iov_len).collect()
    };
    assert_eq!(lengths(&mut frames, 0), [NR_FRAMES as usize * PAGE_BYTES]);
    let done = PAGE_BYTES + 100;
    assert_eq!(lengths(&mut frames, done), [NR_FRAMES as usize * PAGE_BYTES - done]);
    let mut frames = locked_frames_in(|index| if index < 2 { 1 - index } else { index });
    let rest = (NR_FRAMES as usize - 2) * PAGE_BYTES;
    assert_eq!(lengths(&mut frames, 0), [PAGE_BYTES, PAGE_BYTES, rest]);
    // A skipped page is a part of its own.
    drop(frames.remove(3));
    assert_eq!(lengths(&mut frames, 0), [1, 1, 1, 1, 4].map(|nr| nr * PAGE_BYTES));
    assert_eq!(lengths(&mut frames, 4 * PAGE_BYTES), [4 * PAGE_BYTES]);
    assert_eq!(lengths(&mut frames, 3 * PAGE_BYTES), [1, 4].map(|nr| nr * PAGE_BYTES));
}

#[test]
fn more_frames_than_one_call_takes_are_read_in_several() {
    let nr_frames = PARTS_MAX as u32 + 3;
    let arena = FrameArena::reserve(nr_frames, ArenaOptions::default()).expect("4 MiB");
    let table = Arc::new(PageTable::new(Arc::new(arena)));
    let mut frames: Vec<_> = (0..nr_frames)
        .map(|index| {
            let mut lock = table.word_ref(PageIndex(index.into())).expect("in range").lock();
            lock.install(table.arena().claim(FrameId(index)).expect("free"));
            lock
        })
        .collect();
    let [folder, _] = folders();
    let path = folder.path().join("long");
    let contents = pattern((nr_frames as usize - 1) * PAGE_BYTES + 17);
    std::fs::write(&path, &contents).expect("written");
    let count = open(&path, true).read_frames(0, &mut frames).expect("read");
    assert_eq!(count, contents.len());
    check_frames(&frames, &contents);
}
