//! A cursor compared with a standard file, and exact reads and writes.

use crate::common::store::{Fault, FaultyStore, Kind};
use crate::common::{PAGE, patterned_file};
use pagetide::{Bytes, File, OpenOptions, PageCache, ReadError, WriteError};
use proptest::prelude::*;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

fn cache() -> PageCache {
    let builder = PageCache::builder().memory(Bytes::from(16 * PAGE as u64));
    builder.background(false).build().unwrap()
}

fn open(path: &Path) -> File {
    let options = OpenOptions::new().read(true).write(true).create(true);
    cache().open(path, options).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Read(usize),
    Write(usize, u8),
    Seek(SeekFrom),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let most = 3 * PAGE;
    let seek = prop_oneof![
        (0..40 * PAGE as u64).prop_map(SeekFrom::Start),
        (-50 * PAGE as i64..9).prop_map(SeekFrom::End),
        (-50 * PAGE as i64..50 * PAGE as i64).prop_map(SeekFrom::Current),
    ];
    let step = prop_oneof![
        (0..most).prop_map(Step::Read),
        (0..most, any::<u8>()).prop_map(|(len, byte)| Step::Write(len, byte)),
        seek.prop_map(Step::Seek),
    ];
    prop::collection::vec(step, 1..40)
}

/// Runs a step. Returns a length, a position, bytes, or the error kind.
fn run(
    file: &mut (impl Read + Write + Seek),
    step: &Step,
) -> Result<(u64, Vec<u8>), io::ErrorKind> {
    let result = match step {
        Step::Read(len) => {
            let mut bytes = vec![0; *len];
            file.read(&mut bytes).map(|nr| (nr as u64, bytes[..nr].to_vec()))
        }
        Step::Write(len, byte) => file.write_all(&vec![*byte; *len]).map(|()| (0, Vec::new())),
        Step::Seek(target) => file.seek(*target).map(|position| (position, Vec::new())),
    };
    result.map_err(|error| error.kind())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_cursor_does_what_a_standard_file_does(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let [ours, theirs] = ["ours", "theirs"].map(|name| dir.path().join(name));
        [&ours, &theirs].iter().for_each(|path| std::fs::write(path, [7; 20_000]).unwrap());
        let file = open(&ours);
        let mut cursor = file.cursor();
        let mut twin = std::fs::File::options().read(true).write(true).open(&theirs).unwrap();
        for step in &steps {
            prop_assert_eq!(run(&mut cursor, step), run(&mut twin, step), "{:?}", step);
            prop_assert_eq!(cursor.stream_position().unwrap(), twin.stream_position().unwrap());
            prop_assert_eq!(cursor.position(), twin.stream_position().unwrap());
        }
        file.sync_data().unwrap();
        prop_assert!(std::fs::read(&ours).unwrap() == std::fs::read(&theirs).unwrap());
    }
}

#[test]
fn cursors_of_one_file_have_their_own_positions() {
    let dir = tempfile::tempdir().unwrap();
    let file = open(&dir.path().join("a"));
    let mut first = file.cursor();
    first.write_all(b"one two").unwrap();
    let (mut second, mut third) = (first.clone(), file.cursor());
    third.read_exact(&mut [0; 4]).unwrap();
    second.write_all(b" three").unwrap();
    assert_eq!([first.position(), second.position(), third.position()], [7, 13, 4]);
    let mut rest = String::new();
    third.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "two three");
    assert_eq!(third.file().len(), 13);
}

/// An invalid seek does not move the cursor.
#[test]
fn a_seek_that_fails_moves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut cursor = open(&dir.path().join("a")).cursor();
    cursor.seek(SeekFrom::Start(5)).unwrap();
    for target in [SeekFrom::Current(-6), SeekFrom::End(-1)] {
        assert_eq!(cursor.seek(target).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(cursor.position(), 5);
    }
}

#[test]
fn an_exact_read_past_the_end_says_where_the_end_is() {
    let dir = tempfile::tempdir().unwrap();
    let file = open(&patterned_file(dir.path(), "a", PAGE + 10));
    let mut bytes = vec![0; 20];
    file.read_exact_at(&mut bytes, PAGE as u64 - 10).unwrap();
    assert!(bytes == crate::common::pattern_at(PAGE as u64 - 10, 20));
    let (end, len) = (PAGE as u64 + 11, PAGE as u64 + 10);
    let short = file.read_exact_at(&mut bytes, PAGE as u64 - 9).unwrap_err();
    assert!(matches!(short, ReadError::UnexpectedEnd { end: e, len: l } if (e, l) == (end, len)));
    assert_eq!(io::Error::from(short).kind(), io::ErrorKind::UnexpectedEof);
    file.read_exact_at(&mut [], 1 << 40).unwrap();
    file.write_all_at(&[1; 30], PAGE as u64).unwrap();
    assert_eq!(file.len(), PAGE as u64 + 30);
}

#[test]
fn rights_are_kinds_of_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", PAGE);
    let cache = cache();
    let read_only = cache.open(&path, OpenOptions::new().read(true)).unwrap();
    let write_only = cache.open(&path, OpenOptions::new().write(true)).unwrap();
    let refused = read_only.cursor().write(&[1]).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    assert!(refused.get_ref().unwrap().is::<WriteError>());
    let refused = write_only.cursor().read(&mut [0]).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
}

/// The store fails on the second page: the first is written and reported.
#[test]
fn a_write_that_fails_half_way_says_how_far_it_came() {
    let store = FaultyStore::with_contents(&[1; 4 * PAGE]);
    let file = cache().open_store(store.boxed()).unwrap();
    file.read_exact_at(&mut [0; 1], 0).unwrap();
    // The last page is written in part, and so must be read.
    store.fail(Kind::Read, 0, Fault::Error(libc::EIO), 1000);
    let mut cursor = file.cursor();
    assert_eq!(cursor.write(&vec![2; 3 * PAGE + 1]).unwrap(), 3 * PAGE);
    assert_eq!(cursor.position(), 3 * PAGE as u64);
    let failed = cursor.write(&[2]).unwrap_err();
    assert!(matches!(failed.get_ref().unwrap().downcast_ref(), Some(WriteError::Store { .. })));
    assert_eq!(cursor.position(), 3 * PAGE as u64);
    store.lift();
    // Writes at an offset report the same. Full writes return the error.
    store.fail(Kind::Read, 0, Fault::Error(libc::EIO), 1000);
    let all = vec![3; 3 * PAGE + 1];
    assert_eq!(FileExt::write_at(&file, &all, 0).unwrap(), 3 * PAGE);
    assert!(matches!(file.write_all_at(&all, 0), Err(WriteError::Store { .. })));
    store.lift();
    file.read_exact_at(&mut [0; 4 * PAGE], 0).unwrap();
    file.sync_data().unwrap();
    assert!(store.contents() == [vec![3; 3 * PAGE], vec![1; PAGE]].concat());
}

#[test]
fn generic_code_takes_a_file() {
    fn swap_halves(file: &impl FileExt, half: usize) -> io::Result<()> {
        let [mut first, mut second] = [vec![0; half], vec![0; half]];
        file.read_exact_at(&mut first, 0)?;
        file.read_exact_at(&mut second, half as u64)?;
        file.write_all_at(&second, 0)?;
        file.write_all_at(&first, half as u64)
    }
    let dir = tempfile::tempdir().unwrap();
    let file = open(&dir.path().join("a"));
    file.write_all_at(&[[1; PAGE], [2; PAGE]].concat(), 0).unwrap();
    swap_halves(&file, PAGE).unwrap();
    assert_eq!(file.page(0).unwrap().as_ref(), [2; PAGE]);
    assert_eq!(file.page(1).unwrap().as_ref(), [1; PAGE]);
    file.page_mut(1).unwrap().as_mut()[0] = 9;
    assert_eq!(file.page(1).unwrap()[..2], [9, 1]);
}
