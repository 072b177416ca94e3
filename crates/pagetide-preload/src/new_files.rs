//! New files are the kernel's while they are short.
//!
//! **Problem.** Most new files stay short. The server spends more time on the lease, the write and
//! the close of such a file than the kernel spends on the whole file.
//!
//! **Idea.** A file that an open has created keeps its real descriptor. A write that makes the file
//! longer than a short one gives the file to the server first, and so does every call that could
//! share the descriptor: dup, fork, exec, another thread, a lock or a mapping. After the close, the
//! library reports the file like a small file that is read (`small_reports`).
//!
//! ```text
//!   create --> New --- close ------------------------> reported
//!               |----- long, shared, locked, mapped --> managed: a stand-in, as at the open
//!               '----- meanwhile several threads -----> the kernel's, limited by `passing`
//! ```
//!
//! A second thread could write to the real descriptor during the exchange. So only a process with
//! one thread leaves a new file to the kernel, and gives a file to the server.
//!
//! **Ignored.** The bytes of files that are open when the process is killed: at most
//! [`BYTES_MAX`]. Threads and children that the program makes without the C library.

use crate::errno::Errno;
use crate::pieces::Blocked;
use crate::serve::NewFileCalls;
use crate::table::{self, Entry};
use crate::{
    alone, errno, lent, manage, next, own, passing, process, room, serve, small, small_reports,
};
use libc::{c_int, iovec, off_t};
use pagetide_run::wire::{SHORT_FILE_BYTES, pass};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// Maximum number of bytes that the open new files of a process have written.
const BYTES_MAX: u64 = pass::WINDOW;

/// Number of new files that are open.
static NR_OPEN: AtomicUsize = AtomicUsize::new(0);
/// Bytes written to the new files that are open.
static NR_BYTES: AtomicU64 = AtomicU64::new(0);
/// Number of the process that has left files to the kernel.
static KEPT_BY: AtomicU64 = AtomicU64::new(0);
/// True if forks are seen, and if the C library tells the number of threads.
static IS_PREPARED: AtomicBool = AtomicBool::new(false);

#[inline]
pub(crate) fn is_new(fd: c_int) -> bool {
    table::entry(fd) == Entry::New
}

/// Returns true if the kernel may keep a file that an open with these flags creates.
pub(crate) fn may_keep(flags: c_int) -> bool {
    let is_written = flags & libc::O_ACCMODE != libc::O_RDONLY;
    let has_name = flags & libc::O_TMPFILE != libc::O_TMPFILE;
    is_written && has_name && has_one_thread()
}

/// Leaves a file that was just created to the kernel.
pub(crate) fn keep(fd: c_int) {
    let is_kept = table::can_manage(fd);
    KEPT_BY.store(own::number(), Relaxed);
    let before = table::set(fd, if is_kept { Entry::New } else { Entry::Kernel });
    if is_kept && before != Entry::New {
        NR_OPEN.fetch_add(1, Relaxed);
    }
}

/// Returns true if the kernel is to write `parts` to a new file, at offset `at` or the position.
/// Otherwise the file is not new, or is no longer new.
#[inline]
fn takes(fd: c_int, parts: &[iovec], at: Option<off_t>) -> bool {
    is_new(fd) && takes_bytes(fd, parts.iter().map(|part| part.iov_len as u64).sum(), at)
}

/// Writes `parts` to a new file, at offset `at` or the position. Returns `None` if the file is not
/// new, or no longer new, or if the caller is to call the kernel.
///
/// On a full disk, the server gets the file, because the server may keep blocks of removed files.
#[inline]
pub(crate) fn write(fd: c_int, parts: &[iovec], at: Option<off_t>) -> Option<Result<usize, Errno>> {
    if !takes(fd, parts, at) {
        return None;
    }
    let (number, at) = match at {
        Some(at) => (libc::SYS_pwritev, at as usize),
        None => (libc::SYS_writev, 0),
    };
    let arguments = [fd as usize, process::address(parts.as_ptr()), parts.len(), at, 0, 0];
    // SAFETY: the caller's parts (S20).
    match unsafe { next::system(number, arguments) } {
        // The C library's function repeats the call after a fault.
        Err(Errno(libc::EFAULT)) => None,
        // A signal handler has given the file to the server meanwhile.
        Err(Errno(libc::EBADF)) if !is_new(fd) => None,
        Err(errno) if is_full(errno) => {
            give(fd);
            None
        }
        result => Some(result),
    }
}

/// Returns true after a call that failed because the disk is full, if the server manages the new
/// file now.
pub(crate) fn is_given_on_full_disk(fd: c_int) -> bool {
    let is_given = is_new(fd) && is_full(errno::read());
    if is_given {
        give(fd);
    }
    is_given && matches!(table::entry(fd), Entry::Managed(_))
}

fn is_full(errno: Errno) -> bool {
    matches!(errno.0, libc::ENOSPC | libc::EDQUOT)
}

/// Returns the number of bytes from the position to the end of a short file of the kernel's. `None`
/// for other files.
fn count_short(fd: c_int) -> Option<u64> {
    let is_kernels = matches!(table::entry(fd), Entry::Kernel | Entry::Passing | Entry::New);
    let stat = process::stat(fd).ok().filter(|stat| is_kernels && process::is_regular(stat))?;
    let len = u64::try_from(stat.st_size).ok().filter(|len| *len <= SHORT_FILE_BYTES)?;
    let position = process::move_to(fd, 0, libc::SEEK_CUR).ok()?;
    Some(len.saturating_sub(position as u64))
}

/// Returns true if the kernel is to copy from `source` to the new file of `fd`.
pub(crate) fn takes_copy(source: c_int, fd: c_int) -> bool {
    is_new(fd) && count_short(source).is_some_and(|nr_bytes| takes_bytes(fd, nr_bytes, None))
}

/// Returns true as [`takes`], for `nr_bytes`.
fn takes_bytes(fd: c_int, nr_bytes: u64, at: Option<off_t>) -> bool {
    let Some(slot) = table::state_word(fd).filter(|_| is_new(fd)) else { return false };
    let end = at.map_or(0, |at| at.max(0) as u64).saturating_add(nr_bytes);
    let written = slot.load(Relaxed).saturating_add(nr_bytes);
    let all = NR_BYTES.load(Relaxed).saturating_add(nr_bytes);
    let is_many = || {
        // Descriptors may have been closed unseen.
        NR_BYTES.store(count_bytes(), Relaxed);
        NR_BYTES.load(Relaxed).saturating_add(nr_bytes) > BYTES_MAX
    };
    if end.max(written) > SHORT_FILE_BYTES || all > BYTES_MAX && is_many() {
        give(fd);
        return false;
    }
    slot.store(written, Relaxed);
    NR_BYTES.fetch_add(nr_bytes, Relaxed);
    true
}

fn count_bytes() -> u64 {
    let moved = |fd| table::state_word(fd).map_or(0, |slot| slot.load(Relaxed));
    table::numbers().filter(|fd| is_new(*fd)).map(moved).sum()
}

/// Returns true if the kernel is to change the length or the position of a new file to `offset`.
pub(crate) fn takes_offset(fd: c_int, offset: off_t) -> bool {
    is_new(fd) && offset.unsigned_abs() <= SHORT_FILE_BYTES
}

/// Gives a new file to the server, if possible. Otherwise, the kernel keeps the file, and `passing`
/// limits its pages.
#[cold]
pub(crate) fn give(fd: c_int) {
    let before = errno::read();
    {
        // A handler must not use the descriptor during the exchange.
        let _blocked = Blocked::begin();
        if take(fd).is_some() {
            if !is_sole_owner(fd) || manage(fd).is_none() {
                table::set(fd, Entry::Kernel);
            }
            if table::entry(fd) == Entry::Kernel {
                passing::begin_fresh(fd);
            }
        }
    }
    errno::set(before);
}

/// Gives all new files to the server, before a fork, an exec or another thread.
pub(crate) fn give_all() {
    if process::is_on() && NR_OPEN.load(Relaxed) > 0 {
        table::numbers().filter(|fd| is_new(*fd)).for_each(give);
    }
}

/// Gives a new file to the server before the program opens the same file again.
pub(crate) fn give_same(stat: &libc::stat) {
    if NR_OPEN.load(Relaxed) == 0 {
        return;
    }
    let is_same = |fd: &c_int| {
        process::stat(*fd).is_ok_and(|one| (one.st_dev, one.st_ino) == (stat.st_dev, stat.st_ino))
    };
    table::numbers().filter(|fd| is_new(*fd)).filter(is_same).for_each(give);
}

/// Reports a new file to the server, before the descriptor is closed.
fn close(fd: c_int) {
    if let Some(nr_bytes @ 1..) = take(fd)
        && process::is_on()
    {
        let before = errno::read();
        report(fd, nr_bytes);
        errno::set(before);
    }
}

/// Makes a new file the kernel's. Returns the number of bytes written, or `None` if the file is not
/// new.
fn take(fd: c_int) -> Option<u64> {
    let nr_bytes = table::state_word(fd)?.load(Relaxed);
    if !table::replace(fd, Entry::New, Entry::Kernel) {
        return None;
    }
    table::state_word(fd)?.store(0, Relaxed);
    let less = |now: u64| Some(now.saturating_sub(nr_bytes));
    let _ = NR_BYTES.fetch_update(Relaxed, Relaxed, less);
    let _ = NR_OPEN.fetch_update(Relaxed, Relaxed, |now| Some(now.saturating_sub(1)));
    Some(nr_bytes)
}

/// Returns true if no other thread or process uses the descriptor's open file.
fn is_sole_owner(fd: c_int) -> bool {
    // A child that the C library has made itself inherits what stays open over an exec.
    let is_closed = |flags: usize| flags & libc::FD_CLOEXEC as usize != 0;
    let is_inherited = || !process::control(fd, libc::F_GETFD, 0).is_ok_and(is_closed);
    // A child that no fork handler has seen may use the descriptor until its exec, and is another
    // process itself.
    let is_here = KEPT_BY.load(Relaxed) == own::number() && has_one_thread();
    is_here && (!is_inherited() && !alone::has_child() || alone::never_had_child())
}

/// Makes the server manage the file. The position stays.
fn manage(fd: c_int) -> Option<()> {
    let flags = process::control(fd, libc::F_GETFL, 0).ok()? as c_int;
    let position = process::move_to(fd, 0, libc::SEEK_CUR).ok()?;
    let kept = process::control(fd, libc::F_GETFD, 0).ok()? as c_int;
    let kept_flag = if kept & libc::FD_CLOEXEC != 0 { libc::O_CLOEXEC } else { 0 };
    if flags & libc::O_ACCMODE != libc::O_RDWR {
        // The server reads the file as well.
        let both = flags & !(libc::O_ACCMODE | libc::O_NOFOLLOW) | libc::O_RDWR | libc::O_CLOEXEC;
        let real = room::open(libc::AT_FDCWD, process::path_of(fd).as_ptr().cast(), both).ok()?;
        let is_replaced = lent::replace_new(fd, real, kept_flag);
        lent::dispose(real);
        if !is_replaced {
            // The close of the descriptor would drop locks, so the kernel keeps the file.
            return None;
        }
    }
    manage::manage_new(fd, flags | kept_flag, position);
    Some(())
}

fn report(fd: c_int, nr_bytes: u64) {
    let Ok(stat) = process::stat(fd) else { return };
    if stat.st_nlink == 0 || small_reports::add(fd, &stat, nr_bytes, true) {
        return;
    }
    // The server cannot follow the path. This descriptor still drops the pages.
    let flags = libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let arguments = [fd as usize, 0, 0, flags as usize, 0, 0];
    // SAFETY: numbers only (S20).
    let _ = unsafe { next::system(libc::SYS_sync_file_range, arguments) };
    small::drop_pages(fd);
}

/// Returns true if the C library knows that this process has one thread.
fn has_one_thread() -> bool {
    IS_PREPARED.load(Acquire) && next::has_one_thread() == Some(true)
}

/// Prepares this file before the program runs, because open may be called by a signal handler. Each
/// fork gives the new files to the server first, because a child would share their descriptors.
pub(crate) fn prepare() {
    extern "C" fn before_fork() {
        give_all();
    }
    // SAFETY: a function of this library, which is never unloaded (S20).
    if unsafe { libc::pthread_atfork(Some(before_fork), None, None) == 0 } {
        serve::set_new_file_calls(NewFileCalls { give, close });
        IS_PREPARED.store(next::has_one_thread().is_some(), Release);
    }
}
