//! A region's user gets SIGBUS if a page cannot be provided, as in a mapped file.

use crate::common::store::{Fault, FaultyStore, Kind};
use crate::common::watchdog::Watchdog;
use pagetide::{Bytes, CreateRegionError, PageCache, RegionOptions};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

/// Set in the child process.
const CHILD: &str = "PAGETIDE_TEST_REGION_SIGNAL";
/// Exit code of the child if regions are refused here.
const REFUSED: i32 = 77;

fn touch_what_cannot_be_read() {
    let cache = PageCache::builder().memory(Bytes(64 << 12)).build().expect("a cache");
    // Readahead of the first touch ends far before the last page.
    let store = FaultyStore::with_contents(&vec![7; 4096 * 4096]);
    let region = match cache.region(RegionOptions::over_store(store.boxed())) {
        Ok(region) => region,
        Err(CreateRegionError::Memory(_)) => std::process::exit(REFUSED),
        Err(error) => panic!("{error}"),
    };
    let first = region.words()[0].load(Relaxed);
    assert_eq!(first, u64::from_ne_bytes([7; 8]));
    println!("a page was touched");
    store.fail(Kind::Read, 0, Fault::Error(5), u64::MAX);
    let word = region.words()[4095 * 512].load(Relaxed);
    println!("the last page was touched: {word}");
}

/// No page can be written back.
fn touch_what_has_no_room() {
    let cache = PageCache::builder().memory(Bytes(64 << 12)).build().expect("a cache");
    let store = FaultyStore::with_contents(&[]);
    store.fail(Kind::Write, 0, Fault::Error(libc::ENOSPC), u64::MAX);
    let options = RegionOptions::anonymous(Bytes(256 << 12)).swap_to(store.boxed());
    let region = match cache.region(options) {
        Ok(region) => region,
        Err(CreateRegionError::Memory(_)) => std::process::exit(REFUSED),
        Err(error) => panic!("{error}"),
    };
    for page in 0..256 {
        region.words()[page * 512].store(1, Relaxed);
        println!("a page was touched");
    }
    println!("the last page was touched: all of them");
}

#[test]
fn a_touch_for_which_there_is_no_room_ends_with_sigbus() {
    if std::env::var_os(CHILD).is_some() {
        return touch_what_has_no_room();
    }
    ends_with_sigbus("a_touch_for_which_there_is_no_room_ends_with_sigbus");
}

#[test]
fn a_touch_of_a_page_that_cannot_be_had_ends_with_sigbus() {
    if std::env::var_os(CHILD).is_some() {
        return touch_what_cannot_be_read();
    }
    ends_with_sigbus("a_touch_of_a_page_that_cannot_be_had_ends_with_sigbus");
}

fn ends_with_sigbus(name: &str) {
    let _watchdog = Watchdog::new();
    let mut child = Command::new(std::env::current_exe().expect("this test has a path"));
    let path = format!("region_signal::{name}");
    let child = child.args(["--exact", &path, "--nocapture"]).env(CHILD, "1");
    let output = child.output().expect("this test can be started");
    if output.status.code() == Some(REFUSED) {
        return crate::common::skip(name, "userfaultfd is refused");
    }
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("a page was touched"), "{output:?}");
    assert!(!said.contains("the last page was touched"), "{output:?}");
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
}
