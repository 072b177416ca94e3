//! Opens by descriptor, exclusive creation, and the pages of files without a name.

use crate::common::{PAGE, patterned_file, skip};
use pagetide::{Bytes, File, OpenError, OpenOptions, PageCache};
use pagetide_sys::lease::{self, Breaks, LeaseKind};
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

fn rw() -> OpenOptions {
    OpenOptions::new().read(true).write(true)
}

fn descriptor(path: &Path) -> std::fs::File {
    std::fs::File::options().read(true).write(true).open(path).unwrap()
}

fn cache(background: bool) -> PageCache {
    let builder = PageCache::builder().memory(Bytes(64 << 20));
    builder.background(background).build().unwrap()
}

fn kind_of(error: OpenError) -> ErrorKind {
    std::io::Error::from(error).kind()
}

#[test]
fn create_new_refuses_an_existing_file_and_sets_the_mode_of_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let cache = cache(false);
    let options = rw().create_new(true).mode(0o600);
    let file = cache.open(&path, options).unwrap();
    file.write_all_at(b"first", 0).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(
        kind_of(cache.open(&path, options.truncate(true)).unwrap_err()),
        ErrorKind::AlreadyExists
    );
    assert_eq!(file.len(), 5, "a refused open truncates nothing");
    cache.validate();
}

#[test]
fn a_descriptor_and_a_path_of_one_file_share_its_pages() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 8 * PAGE);
    let cache = cache(false);
    let by_path = cache.open(&path, rw()).unwrap();
    let by_descriptor = cache.open_file(descriptor(&path)).unwrap();
    by_descriptor.write_all_at(b"tide", 5).unwrap();
    let mut four = [0; 4];
    by_path.read_exact_at(&mut four, 5).unwrap();
    assert_eq!(&four, b"tide");
    assert_eq!(cache.files().len(), 1);
    drop((by_path, by_descriptor));
    assert_eq!(std::fs::read(&path).unwrap()[5..9], *b"tide");
    cache.validate();
}

#[test]
fn the_access_of_a_descriptor_is_the_access_of_its_handle() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", PAGE);
    let cache = cache(false);
    let only_read = cache.open_file(std::fs::File::open(&path).unwrap()).unwrap();
    assert!(only_read.write_at(b"x", 0).is_err());
    let only_write = std::fs::File::options().write(true).open(&path).unwrap();
    assert_eq!(kind_of(cache.open_file(only_write).unwrap_err()), ErrorKind::PermissionDenied);
    let folder = std::fs::File::open(dir.path()).unwrap();
    assert_eq!(kind_of(cache.open_file(folder).unwrap_err()), ErrorKind::InvalidInput);
    // Writes go to their offsets, not to the end.
    let appends = std::fs::File::options().read(true).append(true).open(&path).unwrap();
    let file = cache.open_file(appends).unwrap();
    file.write_all_at(b"x", 1).unwrap();
    file.sync_data().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), PAGE as u64);
}

#[test]
fn a_lock_of_the_descriptor_ends_with_the_last_handle_after_the_write_back() {
    let dir = tempfile::tempdir().unwrap();
    for background in [false, true] {
        let path = patterned_file(dir.path(), "a", 64 * PAGE);
        let cache = cache(background);
        // Another handle without a lock, so that the file stays open.
        let other = cache.open(&path, rw()).unwrap();
        let locked = descriptor(&path);
        locked.try_lock().unwrap();
        let file = cache.open_file(locked).unwrap();
        let again = file.reopen();
        file.write_all_at(&[7; 64 * PAGE], 0).unwrap();
        drop(file);
        descriptor(&path).try_lock().expect_err("the other handle keeps the lock");
        drop(again);
        descriptor(&path).try_lock().unwrap();
        assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 7), "{background}");
        drop(other);
    }
}

/// Returns true if the folder's file system has leases, which tell that no other program has a file
/// open.
fn has_leases(dir: &Path) -> bool {
    let file = descriptor(&patterned_file(dir, "probe", PAGE));
    let breaks = Breaks::new().unwrap();
    let taken = lease::take(file.as_fd(), LeaseKind::Write, breaks.listener());
    if let Err(error) = &taken {
        skip("open_files", &format!("the temporary folder has no leases: {error}"));
    }
    taken.is_ok()
}

fn dirty_unlinked(cache: &PageCache, path: &Path) -> File {
    let file = cache.open(path, rw().create(true)).unwrap();
    file.write_all_at(&[3; 256 * PAGE], 0).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

#[test]
fn pages_of_a_deleted_file_leave_at_its_last_close_unwritten() {
    let dir = tempfile::tempdir().unwrap();
    if !has_leases(dir.path()) {
        return;
    }
    for by_descriptor in [false, true] {
        let cache = cache(false);
        let path = dir.path().join("a");
        let mut file = dirty_unlinked(&cache, &path);
        if by_descriptor {
            std::fs::write(&path, "").unwrap();
            let again = cache.open_file(descriptor(&path)).unwrap();
            again.write_all_at(&[3; 256 * PAGE], 0).unwrap();
            std::fs::remove_file(&path).unwrap();
            file = again;
        }
        let clone = file.reopen();
        drop(file);
        assert_eq!(clone.resident_pages(0, u64::MAX), 256, "another handle is open");
        drop(clone);
        let stats = cache.stats();
        assert_eq!((stats.resident_bytes, stats.dirty_bytes), (0, 0));
        assert_eq!(stats.device_write_bytes, 0, "by descriptor: {by_descriptor}");
        assert!(cache.files().is_empty() || !cache.files()[0].is_open);
        cache.validate();
    }
}

#[test]
fn a_deleted_file_that_another_program_has_open_is_written_and_then_leaves() {
    let dir = tempfile::tempdir().unwrap();
    for background in [false, true] {
        let cache = cache(background);
        let path = dir.path().join("a");
        std::fs::write(&path, "").unwrap();
        let mut reader = std::fs::File::open(&path).unwrap();
        drop(dirty_unlinked(&cache, &path));
        cache.sync_all().unwrap();
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        assert!(all.len() == 256 * PAGE && all.iter().all(|byte| *byte == 3));
        // The worker may close the file only now.
        let deadline = Instant::now() + Duration::from_secs(60);
        while cache.stats().resident_bytes > 0 {
            assert!(Instant::now() < deadline, "the pages of a deleted file stay");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_file_with_another_name_keeps_its_pages() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("a"), dir.path().join("b"));
    let cache = cache(false);
    std::fs::write(&path, "").unwrap();
    std::fs::hard_link(&path, &other).unwrap();
    drop(dirty_unlinked(&cache, &path));
    assert_eq!(cache.stats().resident_bytes, 256 * PAGE as u64);
    assert_eq!(std::fs::read(&other).unwrap(), [3; 256 * PAGE]);
}
