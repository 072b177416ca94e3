//! Foreign signals, and a fault within a fault.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::*;
use crate::fault::region::{FaultDelivery, FrameLender, RegionMemory};
use crate::page::table::PageTable;
use crate::{ArenaOptions, FrameArena};
use pagetide_core::ids::{FrameId, PageIndex};

/// Set in a process that is to die.
const CHILD: &str = "PAGETIDE_TEST_SIGBUS";

fn region(
    serve: impl Fn(&PageTable, u64) -> Served + Send + Sync + 'static,
) -> Option<(Arc<RegionMemory>, FaultRegistration)> {
    let arena = Arc::new(FrameArena::reserve(4, ArenaOptions::default()).expect("frames"));
    let lender = Arc::new(FrameLender::new(&arena).ok()?);
    let region = Arc::new(RegionMemory::new(4, &lender, FaultDelivery::Signal).ok()?);
    let table = PageTable::over_region(Arc::clone(&region));
    let places = Arc::clone(&region);
    let serve = move |fault: Fault| {
        assert!(is_serving_fault());
        serve(&table, places.page_at(fault.address).expect("of the region"))
    };
    let registration = serve_faults(&region, Arc::new(serve));
    Some((region, registration))
}

fn fill(table: &PageTable, index: u64, byte: u8) -> Served {
    let mut page = table.page_or_make(PageIndex(index)).expect("in range").lock();
    if page.frame().is_none() {
        page.install(table.arena().claim(FrameId(index as u32)).expect("free"));
        page.write(0, &[byte; 4096]);
    }
    page.map_user(true).expect("mapped");
    Served::Yes
}

fn child(name: &str, which: &str) -> Output {
    let mut child = Command::new(std::env::current_exe().expect("this test has a path"));
    let child = child.args(["--exact", &format!("fault::signal::tests::{name}"), "--nocapture"]);
    child.env(CHILD, which).output().expect("this test can be started")
}

fn ends_with(name: &str, signal: libc::c_int) {
    let output = child(name, "1");
    assert_eq!(output.status.signal(), Some(signal), "{output:?}");
}

#[test]
fn a_fault_that_is_not_served_ends_the_process_with_sigbus() {
    if std::env::var_os(CHILD).is_some() {
        let Some((region, _registration)) = region(|_, _| Served::No) else {
            std::process::abort()
        };
        region.words()[0].load(SeqCst);
        return;
    }
    ends_with("a_fault_that_is_not_served_ends_the_process_with_sigbus", libc::SIGBUS);
}

#[test]
fn a_fault_outside_of_regions_ends_the_process_with_sigbus() {
    if std::env::var_os(CHILD).is_some() {
        let region = region(|table, index| fill(table, index, 1));
        let Some((region, _registration)) = region else { std::process::abort() };
        assert_ne!(region.words()[0].load(SeqCst), 0);
        // A file that is truncated under its mapping.
        let file = crate::memory::mapped::memory_file("cut", 0).expect("a file");
        use rustix::mm::ProtFlags;
        use std::os::fd::AsFd;
        let mapped = crate::memory::mapped::Mapped::new(file.as_fd(), 4096, ProtFlags::READ);
        mapped.expect("mapped").words()[0].load(SeqCst);
        return;
    }
    ends_with("a_fault_outside_of_regions_ends_the_process_with_sigbus", libc::SIGBUS);
}

const TOLD: i32 = 33;

extern "C" fn exit_told(_signal: libc::c_int) {
    // SAFETY: S9 (a call without pointers).
    unsafe { libc::_exit(TOLD) }
}

#[test]
fn the_handler_there_was_is_called() {
    const NAME: &str = "the_handler_there_was_is_called";
    if let Ok(which) = std::env::var(CHILD) {
        // SAFETY: S31: a function with the prototype that signal(2) requires.
        unsafe { libc::signal(libc::SIGBUS, exit_told as *const () as usize) };
        let region = region(|table, index| match index {
            0 => fill(table, index, 1),
            _ => Served::No,
        });
        let Some((region, _registration)) = region else { std::process::abort() };
        assert_ne!(region.words()[0].load(SeqCst), 0);
        if which == "1" {
            // SAFETY: S9 (a call without pointers).
            unsafe { libc::raise(libc::SIGBUS) };
        }
        region.words()[512].load(SeqCst);
        return;
    }
    for which in ["1", "2"] {
        assert_eq!(child(NAME, which).status.code(), Some(TOLD));
    }
}

/// The first region's pages are filled with the contents of the second.
#[test]
fn a_fault_within_a_fault_is_served() {
    let Some((second, _second)) = region(|table, index| fill(table, index, 42)) else { return };
    let nr = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&nr);
    let first = region(move |table, index| {
        count.fetch_add(1, SeqCst);
        fill(table, index, second.words()[index as usize * 512].load(SeqCst) as u8)
    });
    let (first, _first) = first.expect("a second region");
    assert_eq!(first.words()[512].load(SeqCst), u64::from_ne_bytes([42; 8]));
    assert_eq!(nr.load(SeqCst), 1);
    assert!(!is_serving_fault());
}

#[test]
fn errno_is_as_before() {
    let region = region(|table, index| {
        let _ = std::fs::File::open("/nowhere");
        fill(table, index, 3)
    });
    let Some((region, _registration)) = region else { return };
    action::set_errno(77);
    let word = region.words()[0].load(SeqCst);
    let errno = io::Error::last_os_error().raw_os_error();
    assert_eq!((word as u8, errno), (3, Some(77)));
}

#[test]
fn a_system_call_is_not_served() {
    let Some((region, _registration)) = region(|table, index| fill(table, index, 3)) else {
        return;
    };
    let (mut reader, writer) = io::pipe().expect("a pipe");
    let send = |len: usize| {
        let start = region.base().cast_const();
        use std::os::fd::AsRawFd;
        // SAFETY: S24: the user's mapping. The kernel only reads it, or fails.
        let sent = unsafe { libc::write(writer.as_raw_fd(), start.cast(), len) };
        if sent < 0 { io::Error::last_os_error().raw_os_error() } else { None }
    };
    assert_eq!(send(8), Some(libc::EFAULT));
    region.words()[0].load(SeqCst);
    assert_eq!(send(8), None);
    let mut bytes = [0; 8];
    io::Read::read_exact(&mut reader, &mut bytes).expect("read");
    assert_eq!(bytes, [3; 8]);
}
