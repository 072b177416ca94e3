//! Small read-only files are left to the kernel without asking the server.
//!
//! **Problem.** Asking costs more than reading, but the kernel's cache is outside the limit.
//! **Idea.** If a file is not cached at its opening, the server learns the path, and drops the
//! file's pages when its small files exceed their part of the limit. The process waits for the
//! server after each [`pass::SMALL_WINDOW`] bytes. Pages of a file without a path that the server
//! can follow are dropped at close. If the file is managed, the open breaks the lease.
//!
//! **Ignored.** Kernels without cachestat(2), descriptors that are never closed, concurrent
//! readers.
//!
//! Source: cachestat(2), posix_fadvise(2).

use crate::channel::{self, Parcel};
use crate::table::Entry;
use crate::{errno, next, process};
use libc::{c_int, iovec};
use pagetide_run::wire::{Op, PATH_BYTES_MAX, Request, SHORT_FILE_BYTES, pass};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const SYS_CACHESTAT: libc::c_long = 451;

/// Bytes reported since the last reply. The first report waits for a reply.
static NR_BYTES: AtomicU64 = AtomicU64::new(pass::SMALL_WINDOW);
/// True if the server does not find files by this process's paths.
static HAS_OTHER_PATHS: AtomicBool = AtomicBool::new(false);

#[repr(C)]
#[derive(Default)]
struct Counts {
    nr_cached: u64,
    nr_dirty: u64,
    nr_written_back: u64,
    nr_evicted: u64,
    nr_evicted_recently: u64,
}

pub(crate) fn is_small(stat: &libc::stat, flags: c_int) -> bool {
    let is_only_read = flags & libc::O_ACCMODE == libc::O_RDONLY && flags & libc::O_TRUNC == 0;
    is_only_read && stat.st_size as u64 <= SHORT_FILE_BYTES
}

/// Reports a file that was opened, unless it was cached before.
pub(crate) fn opened(fd: c_int, stat: &libc::stat) -> Entry {
    let is_known = stat.st_size == 0 || nr_cached(fd) != Some(0) || report(fd, stat);
    if is_known { Entry::Kernel } else { Entry::Passing }
}

/// Tells the server the path of a small file. Returns false if the server cannot follow the path.
#[cold]
fn report(fd: c_int, stat: &libc::stat) -> bool {
    if HAS_OTHER_PATHS.load(Relaxed) {
        return false;
    }
    let before = errno::read();
    let mut path = [0; PATH_BYTES_MAX];
    let is_reported = read_path(fd, &mut path).is_some_and(|len| tell(&mut path[..len], stat));
    errno::set(before);
    is_reported
}

fn tell(path: &mut [u8], stat: &libc::stat) -> bool {
    let source = &[iovec { iov_base: path.as_mut_ptr().cast(), iov_len: path.len() }];
    let nr_bytes = stat.st_size as u64;
    let waits = counts_up(nr_bytes);
    let request = Request {
        flags: stat.st_ino,
        len: nr_bytes,
        total: waits.into(),
        ..Request::new(Op::Remember, stat.st_dev)
    };
    let parcel = Parcel { source, ..Parcel::default() };
    if !waits {
        channel::tell_only(&request, parcel);
        return true;
    }
    let asked = channel::ask(&request, parcel);
    let is_found = asked.is_ok_and(|answer| answer.reply.result == 0);
    HAS_OTHER_PATHS.store(!is_found, Relaxed);
    channel::close_if_idle();
    is_found
}

/// Counts bytes that are reported. Returns true if the report is to wait for a reply.
pub(crate) fn counts_up(nr_bytes: u64) -> bool {
    let waits = NR_BYTES.fetch_add(nr_bytes, Relaxed) + nr_bytes >= pass::SMALL_WINDOW;
    if waits {
        NR_BYTES.store(0, Relaxed);
    }
    waits
}

/// Reads the path of an open file. Returns its length, or `None` for a file without a name.
fn read_path(fd: c_int, path: &mut [u8; PATH_BYTES_MAX]) -> Option<usize> {
    let link = process::path_of(fd);
    let (from, to) = (process::address(link.as_ptr()), process::address(path.as_ptr()));
    let arguments = [libc::AT_FDCWD as usize, from, to, path.len(), 0, 0];
    // SAFETY: a string, and room for a path, that live through the call (S20).
    let len = unsafe { next::system(libc::SYS_readlinkat, arguments) }.ok()?;
    let is_whole = len < path.len() && path[0] == b'/' && !path[..len].ends_with(b" (deleted)");
    is_whole.then_some(len)
}

/// Returns the number of the file's pages in the kernel's page cache, `None` if unknown.
pub(crate) fn nr_cached(fd: c_int) -> Option<u64> {
    let (whole, mut counts) = ([0_u64; 2], Counts::default());
    let (whole, to) = (process::address(&whole), std::ptr::from_mut(&mut counts) as usize);
    let arguments = [fd as usize, whole, to, 0, 0, 0];
    // SAFETY: a range and counts that live through the call (S20).
    unsafe { next::system(SYS_CACHESTAT, arguments) }.ok()?;
    Some(counts.nr_cached)
}
