//! Error messages for invalid calls: numbers and remedy.

use crate::common::store::{Fault, FaultyStore, Kind};
use crate::common::{PAGE, cache, patterned_file};
use pagetide::{
    Advice, BuildError, Bytes, OpenError, OpenOptions, PageCache, PolicyName, WriteError,
};
use std::error::Error;
use std::io;
use std::os::unix::fs::PermissionsExt;

/// Returns the message with all sources, and checks that it includes each cause.
fn whole_message(error: &dyn Error) -> String {
    let message = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        assert!(message.contains(&inner.to_string()), "{message:?} does not say {inner:?}");
        source = inner.source();
    }
    message
}

fn refusal(memory: u64) -> BuildError {
    PageCache::builder().memory(Bytes(memory)).build().unwrap_err()
}

#[test]
fn a_limit_must_be_given() {
    let forgotten = PageCache::builder().build().unwrap_err();
    assert!(matches!(forgotten, BuildError::NoMemory), "{forgotten}");
    assert!(forgotten.to_string().contains("`memory`"), "{forgotten}");
    assert!(matches!(refusal(0), BuildError::NoMemory));
    assert_eq!(io::Error::from(forgotten).kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_limit_too_small_is_refused_with_the_least_that_works() {
    let error = refusal(16 * PAGE as u64 - 1);
    assert!(matches!(error, BuildError::TooSmall { .. }), "{error}");
    assert!(error.to_string().contains("64K"), "{error}");
    assert!(io::Error::from(error).kind() == io::ErrorKind::InvalidInput);
    PageCache::builder().memory(Bytes(16 * PAGE as u64)).build().unwrap();
}

#[test]
fn an_absurd_limit_is_refused_with_its_range() {
    for memory in [u64::MAX, 1 << 60, (1 << 40) + 1] {
        let error = refusal(memory);
        assert!(matches!(error, BuildError::Knob { knob: "memory", .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains(&Bytes(memory).to_string()), "{message}");
        assert!(message.ends_with("64K to 1T"), "{message}");
    }
    let beyond = PageCache::builder().memory(Bytes(1 << 20)).memory_max(Bytes(1 << 60)).build();
    let beyond = beyond.unwrap_err();
    assert!(matches!(beyond, BuildError::Knob { knob: "memory_max", .. }), "{beyond}");
}

#[test]
fn a_limit_above_the_machines_memory_is_refused_with_both() {
    let total = pagetide_sys::read_total_memory().expect("/proc/meminfo").0;
    let wanted = (total + (64 << 20)).next_multiple_of(1 << 20);
    if wanted > 1 << 40 {
        return crate::common::skip(
            "a_limit_above_the_machines_memory",
            "more than 1 TiB of memory here",
        );
    }
    let error = refusal(wanted);
    assert!(matches!(error, BuildError::Reserve(_)), "{error}");
    let message = whole_message(&error);
    assert!(message.contains(&Bytes(total).to_string()), "{message}");
    assert!(message.contains("ask for less"), "{message}");
}

fn open_error(path: &std::path::Path, options: OpenOptions) -> (String, io::ErrorKind) {
    let error = cache(16, PolicyName::Mglru).open(path, options).unwrap_err();
    let message = whole_message(&error);
    assert!(message.contains(&path.display().to_string()), "{message}");
    (message, io::Error::from(error).kind())
}

#[test]
fn what_cannot_be_opened_is_named_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let read = OpenOptions::new().read(true);
    let write = OpenOptions::new().read(true).write(true);

    let (message, kind) = open_error(&dir.path().join("missing"), read);
    assert_eq!(kind, io::ErrorKind::NotFound, "{message}");
    for options in [read, write] {
        let (message, kind) = open_error(dir.path(), options);
        assert!(message.contains("this is a directory"), "{message}");
        assert_eq!(kind, io::ErrorKind::InvalidInput);
    }
    let (message, _) = open_error(std::path::Path::new("/dev/null"), read);
    assert!(message.contains("character device"), "{message}");
    let (message, kind) = open_error(&dir.path().join("no/such/folder"), write.create(true));
    assert_eq!(kind, io::ErrorKind::NotFound, "{message}");

    let path = patterned_file(dir.path(), "a", PAGE);
    let error = cache(16, PolicyName::Mglru).open(&path, OpenOptions::new()).unwrap_err();
    assert!(matches!(error, OpenError::NoAccess), "{error}");
}

#[test]
fn an_unreadable_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", PAGE);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(&path).is_ok() {
        return crate::common::skip("an_unreadable_file_is_refused", "root reads every file");
    }
    let (message, kind) = open_error(&path, OpenOptions::new().read(true));
    assert_eq!(kind, io::ErrorKind::PermissionDenied, "{message}");
}

#[test]
fn a_file_beyond_the_tables_is_refused_with_the_most() {
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions::new().read(true).write(true).create(true);
    let file = cache(16, PolicyName::Mglru).open(dir.path().join("a"), options).unwrap();
    for result in [file.write_at(b"x", u64::MAX - 1).map(|_| ()), file.set_len(u64::MAX)] {
        let error = result.unwrap_err();
        let WriteError::TooLong { most, .. } = error else { panic!("{error}") };
        assert!(error.to_string().contains(&most.to_string()), "{error}");
    }
    assert_eq!(file.len(), 0);
    let mut byte = [0];
    assert_eq!(file.read_at(&mut byte, u64::MAX).unwrap(), 0);
    file.page(u64::MAX).unwrap_err();
    file.page(u64::MAX >> 12).unwrap_err();
    file.page_mut(u64::MAX).unwrap_err();
}

/// Each kind of store failure: the request, with numbers, and the cause.
#[test]
fn what_a_store_says_stands_in_the_sentence() {
    let store = FaultyStore::with_contents(&[1; 3 * PAGE]);
    let cache = PageCache::builder().memory(Bytes(1 << 20)).background(false).build().unwrap();
    let file = cache.open_store(store.boxed()).unwrap();
    let full = "No space left on device (os error 28)";
    let fail = |kind| store.fail(kind, 0, Fault::Error(libc::ENOSPC), 1);
    fail(Kind::SetLen);
    let error = whole_message(&file.set_len(4096).unwrap_err());
    assert_eq!(error, format!("setting the length to 4096 bytes failed: {full}"));
    // With readahead, and alone.
    store.fail(Kind::Read, 0, Fault::Error(libc::ENOSPC), 2);
    let error = whole_message(&file.read_at(&mut [0], 4097).unwrap_err());
    assert_eq!(error, format!("reading 4096 bytes at 4096 failed: {full}"));
    file.write_at(&[2; PAGE], 0).unwrap();
    fail(Kind::Write);
    let error = whole_message(&file.advise(Advice::DontNeed, 0, 0).unwrap_err());
    assert_eq!(error, format!("dirty pages could not be written before being dropped: {full}"));
    let error = whole_message(&file.sync_data().unwrap_err());
    assert_eq!(error, format!("writing back failed: {full}; the data stays in memory, dirty"));
    fail(Kind::Sync);
    let error = whole_message(&file.sync_data().unwrap_err());
    assert_eq!(error, format!("the store could not be made durable: {full}"));
    let missing = cache.open("/none/such", OpenOptions::new().read(true)).unwrap_err();
    let error = whole_message(&missing);
    assert_eq!(error, "/none/such could not be opened: No such file or directory (os error 2)");
}
