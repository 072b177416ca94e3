//! New files are the kernel's while they are only written.
//!
//! **Problem.** A new file is written once, from the start to the end. The server spends more time
//! on the lease, the writes and the close than the kernel spends on the whole file.
//!
//! **Idea.** A file that an open has created, or truncated to nothing, keeps its real descriptor,
//! and `new_reports` reports its bytes. A file that is open only for writing stays so until its
//! close, whatever the program does with the descriptor. A file that is open for reading as well is
//! `New`: the server gets the file as soon as the program reads back what the program has written,
//! or uses the file like a database.
//!
//! ```text
//!   O_WRONLY --> Kernel --- close ----------------------------------> reported
//!   O_RDWR ----> New ------ close ----------------------------------> reported
//!                 |-------- read, long pwrite, mapped, shared, .. --> managed: a stand-in
//!                 '-------- meanwhile several threads --------------> Kernel
//! ```
//!
//! A second thread could write to the real descriptor during the exchange. So only a process with
//! one thread has `New` files, and gives a file to the server.
//!
//! **Ignored.** Threads and children that the program makes without the C library.

use crate::errno::Errno;
use crate::pieces::Blocked;
use crate::serve::set_give_new;
use crate::table::{self, Entry};
use crate::{alone, errno, manage, new_reports, next, own, process};
use libc::{c_int, iovec, off_t};
use pagetide_run::wire::{PAGE_BYTES, Reason, SHORT_FILE_BYTES};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// True if a file may be `New`.
static HAS_SOME: AtomicBool = AtomicBool::new(false);
/// Number of the process that has `New` files.
static KEPT_BY: AtomicU64 = AtomicU64::new(0);
/// True if forks are seen, and if the C library tells the number of threads.
static IS_PREPARED: AtomicBool = AtomicBool::new(false);

/// Returns true for a `New` file. [`new_reports::is_new`] returns true for any new file.
#[inline]
pub(crate) fn may_be_managed(fd: c_int) -> bool {
    table::entry(fd) == Entry::New
}

/// Returns true if the kernel may keep a file that an open with these flags creates.
pub(crate) fn may_keep(flags: c_int) -> bool {
    let has_name = flags & libc::O_TMPFILE != libc::O_TMPFILE;
    has_name
        && match flags & libc::O_ACCMODE {
            libc::O_WRONLY => true,
            libc::O_RDWR => has_one_thread(),
            _ => false,
        }
}

/// Leaves a file that was just created with these flags to the kernel.
pub(crate) fn keep(fd: c_int, flags: c_int) {
    let is_given_later = flags & libc::O_ACCMODE == libc::O_RDWR && table::can_manage(fd);
    table::set(fd, if is_given_later { Entry::New } else { Entry::Kernel });
    new_reports::begin(fd);
    if is_given_later {
        KEPT_BY.store(own::number(), Relaxed);
        HAS_SOME.store(true, Relaxed);
    } else if !table::can_manage(fd) {
        // The C library's streams write to this number.
        new_reports::watch(fd, Reason::Standard);
    }
}

/// Writes `parts` to a new file that the kernel has, at offset `at` or the position. Returns `None`
/// if the server has the file now, or if the caller is to call the kernel.
#[inline]
pub(crate) fn write(fd: c_int, parts: &[iovec], at: Option<off_t>) -> Option<Result<usize, Errno>> {
    if !new_reports::is_new(fd) || !takes_write(fd, parts, at) {
        return None;
    }
    let (number, offset) = match at {
        Some(at) => (libc::SYS_pwritev, at as usize),
        None => (libc::SYS_writev, 0),
    };
    let arguments = [fd as usize, process::address(parts.as_ptr()), parts.len(), offset, 0, 0];
    // SAFETY: the caller's parts (S20).
    let write = || unsafe { next::system(number, arguments) };
    let written = match write() {
        Err(errno) if new_reports::makes_room(fd, errno) => write(),
        written => written,
    };
    match written {
        Ok(nr_bytes) => {
            new_reports::wrote(fd, pages_of(fd, at, nr_bytes as u64));
            Some(Ok(nr_bytes))
        }
        // The C library's function repeats the call after a fault.
        Err(Errno(libc::EFAULT)) => None,
        // A signal handler has given the file to the server meanwhile.
        Err(Errno(libc::EBADF)) if !new_reports::is_new(fd) => None,
        Err(errno) => Some(Err(errno)),
    }
}

/// Returns the bytes of the pages that a write has touched. A write of one byte at an offset brings
/// in a whole page. A `New` file is short, and its bytes tell if a read comes too late.
#[inline]
fn pages_of(fd: c_int, at: Option<off_t>, nr_bytes: u64) -> u64 {
    let Some(at) = at.filter(|_| nr_bytes > 0 && !may_be_managed(fd)) else { return nr_bytes };
    let page = PAGE_BYTES as u64;
    (at as u64 + nr_bytes).next_multiple_of(page) - at as u64 / page * page
}

/// Returns true if the kernel is to write to a new file. A database writes at offsets, and reads
/// back.
#[inline]
fn takes_write(fd: c_int, parts: &[iovec], at: Option<off_t>) -> bool {
    let Some(at) = at.filter(|_| may_be_managed(fd)) else { return true };
    let nr_bytes = parts.iter().map(|part| part.iov_len as u64).sum::<u64>();
    takes_offset(fd, at.saturating_add_unsigned(nr_bytes)) || {
        give(fd);
        false
    }
}

/// Returns true if the kernel is to read a `New` file, which is still short.
pub(crate) fn takes_read(fd: c_int) -> bool {
    may_be_managed(fd) && new_reports::is_short(fd, SHORT_FILE_BYTES)
}

/// Returns true if the kernel is to move the position of a `New` file. Most programs ask only for
/// the position.
pub(crate) fn takes_seek(fd: c_int, offset: off_t, whence: c_int) -> bool {
    let is_near = || is_asked(offset, whence) || takes_offset(fd, offset);
    whence <= libc::SEEK_END && may_be_managed(fd) && is_near()
}

/// Counts a page of a new file that the kernel has. The next write may be far from the last one.
pub(crate) fn moved(fd: c_int, offset: off_t, whence: c_int) {
    if !is_asked(offset, whence) {
        new_reports::wrote(fd, PAGE_BYTES as u64);
    }
}

/// Returns true if a move of the position only asks for the position, or for the length.
fn is_asked(offset: off_t, whence: c_int) -> bool {
    offset == 0 && whence != libc::SEEK_SET
}

/// Returns true if the kernel is to change a `New` file up to `offset`, or its length to `offset`.
pub(crate) fn takes_offset(fd: c_int, offset: off_t) -> bool {
    may_be_managed(fd) && offset.unsigned_abs() <= SHORT_FILE_BYTES
}

/// Gives a `New` file to the server, if possible. Otherwise, the kernel keeps the file.
#[cold]
pub(crate) fn give(fd: c_int) {
    errno::kept(|| {
        // A handler must not use the descriptor during the exchange.
        let _blocked = Blocked::begin();
        if table::replace(fd, Entry::New, Entry::Kernel) && is_sole_owner(fd) {
            // The server counts what is unreported.
            new_reports::close(fd);
            let _ = manage(fd);
            if table::entry(fd) == Entry::Kernel {
                new_reports::begin(fd);
            }
        }
    });
}

/// Gives all `New` files to the server, before a fork, an exec or another thread.
pub(crate) fn give_all() {
    if process::is_on() && HAS_SOME.swap(false, Relaxed) {
        table::numbers().filter(|fd| may_be_managed(*fd)).for_each(give);
    }
}

/// Gives a `New` file to the server before the program opens the same file again.
pub(crate) fn give_same(stat: &libc::stat) {
    if !HAS_SOME.load(Relaxed) {
        return;
    }
    let is_same = |fd: &c_int| {
        process::stat(*fd).is_ok_and(|one| (one.st_dev, one.st_ino) == (stat.st_dev, stat.st_ino))
    };
    table::numbers().filter(|fd| may_be_managed(*fd)).filter(is_same).for_each(give);
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
fn manage(fd: c_int) -> Result<(), Errno> {
    let flags = process::control(fd, libc::F_GETFL, 0)? as c_int;
    let position = process::move_to(fd, 0, libc::SEEK_CUR)?;
    let kept = process::control(fd, libc::F_GETFD, 0)? as c_int;
    let kept_flag = if kept & libc::FD_CLOEXEC != 0 { libc::O_CLOEXEC } else { 0 };
    manage::manage_new(fd, flags | kept_flag, position);
    Ok(())
}

/// Returns true if the C library knows that this process has one thread.
fn has_one_thread() -> bool {
    IS_PREPARED.load(Acquire) && next::has_one_thread() == Some(true)
}

/// Prepares this file before the program runs, because open may be called by a signal handler. Each
/// fork gives the `New` files to the server first, because a child would share their descriptors.
pub(crate) fn prepare() {
    extern "C" fn before_fork() {
        give_all();
    }
    // SAFETY: a function of this library, which is never unloaded (S20).
    if unsafe { libc::pthread_atfork(Some(before_fork), None, None) == 0 } {
        set_give_new(give);
        IS_PREPARED.store(next::has_one_thread().is_some(), Release);
    }
}
