//! Closing and duplicating descriptors.

use super::locks;
use crate::errno::{Errno, or_minus_one};
use crate::table::{self, Entry};
use crate::{inherited, lent, new_files, new_reports, next, own, process, serve};
use libc::{c_int, c_uint};
use pagetide_run::wire::{Op, Reason, Request};

#[unsafe(no_mangle)]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    if own::has(fd) {
        // Hidden descriptors look closed to the program.
        return or_minus_one(Err(Errno(libc::EBADF)));
    }
    let told = serve::forget(fd);
    // SAFETY: the caller's descriptor (S20).
    let closed = unsafe { next::close(fd) };
    match told {
        Err(errno) if closed == 0 => or_minus_one(Err(errno)),
        _ => closed,
    }
}

fn close_others(first: c_uint, last: c_uint, flags: c_int) -> Result<(), Errno> {
    let mut from = first;
    loop {
        let ours = own::all().map(|fd| fd as c_uint);
        let next_own = ours.filter(|fd| (from..=last).contains(fd)).min();
        let end = next_own.map_or(Some(last), |own| own.checked_sub(1));
        if let Some(end) = end.filter(|end| from <= *end) {
            let arguments = [from as usize, end as usize, flags as usize, 0, 0, 0];
            // SAFETY: numbers only, and the caller's descriptors (S20).
            unsafe { next::system(libc::SYS_close_range, arguments)? };
        }
        match next_own.and_then(|own| own.checked_add(1)).filter(|next| *next <= last) {
            Some(next) => from = next,
            None => return Ok(()),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    const CLOEXEC: c_int = 4;
    if first > last {
        return or_minus_one(Err(Errno(libc::EINVAL)));
    }
    if process::is_on() && flags & CLOEXEC == 0 {
        let end = (last as usize).min(table::LEN - 1);
        for fd in first as usize..=end {
            let fd = fd as c_int;
            let is_inherited = || fd < inherited::end() && process::is_stand_in(fd);
            if table::entry(fd) != Entry::Unknown || is_inherited() {
                // Write-back errors cannot be reported here.
                let _ = serve::forget(fd);
                if flags == 0 {
                    // One by one: the server still counts them as open. With flags, the kernel may
                    // refuse the call, or close descriptors that no other thread shares.
                    own::close(fd);
                }
            }
        }
    }
    or_minus_one(close_others(first, last, flags).map(|()| 0))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn closefrom(first: c_int) {
    // SAFETY: the definition of closefrom (S20).
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup(fd: c_int) -> c_int {
    share(fd);
    // SAFETY: a number (S20).
    let copy = unsafe { next::dup(fd) };
    note_copy(fd, copy)
}

/// Gives a new file to the server before its descriptor has a copy.
fn share(fd: c_int) {
    if new_files::may_be_managed(fd) {
        new_files::give(fd);
    }
}

fn note_copy(fd: c_int, copy: c_int) -> c_int {
    if copy >= 0 && copy != fd && process::is_on() {
        let before = crate::errno::read();
        serve::duplicated(fd, copy);
        crate::errno::set(before);
    }
    copy
}

/// Prepares the target of a dup2: releases its file, and hands over a file that cannot be managed
/// at this number.
fn prepare_target(fd: c_int, target: c_int) -> Result<(), Errno> {
    if fd == target || !process::is_on() || process::stat(fd).is_err() {
        return Ok(());
    }
    share(fd);
    if !table::can_manage(target) {
        serve::hand_over_managed(fd, Reason::Standard)?;
    }
    if own::has(target) {
        lent::forget(target);
    }
    // dup2 does not report errors of closing.
    let _ = serve::forget(target);
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup2(fd: c_int, target: c_int) -> c_int {
    // SAFETY: numbers (S20).
    copied_to(fd, target, || unsafe { next::dup2(fd, target) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup3(fd: c_int, target: c_int, flags: c_int) -> c_int {
    // SAFETY: numbers (S20).
    copied_to(fd, target, || unsafe { next::dup3(fd, target, flags) })
}

fn copied_to(fd: c_int, target: c_int, copy: impl FnOnce() -> c_int) -> c_int {
    if own::has(fd) {
        return or_minus_one(Err(Errno(libc::EBADF)));
    }
    match prepare_target(fd, target) {
        Ok(()) => note_copy(fd, copy()),
        Err(errno) => or_minus_one(Err(errno)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    match command {
        libc::F_SETLK | libc::F_SETLKW | libc::F_GETLK => {
            // SAFETY: the caller's lock (S20).
            return unsafe { locks::control(fd, command, argument as *mut _) };
        }
        libc::F_GETFL => return or_minus_one(serve::status_flags(fd)),
        libc::F_SETFL => {
            if let Some(result) = set_flags(fd, argument) {
                return or_minus_one(result);
            }
        }
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => share(fd),
        libc::F_GETFD | libc::F_SETFD => {}
        // The kernel has the file until its close. A descriptor of the server prevents leases.
        _ if new_reports::is_new(fd) && !new_files::may_be_managed(fd) => {}
        _ => {
            if let Err(errno) = serve::hand_over_managed(fd, Reason::Interface) {
                return or_minus_one(Err(errno));
            }
        }
    }
    // SAFETY: the caller's arguments. A missing argument is not read (S20).
    let result = unsafe { next::fcntl(fd, command, argument) };
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => note_copy(fd, result),
        _ => result,
    }
}

/// `None` if the file is the kernel's.
fn set_flags(fd: c_int, flags: usize) -> Option<Result<c_int, Errno>> {
    let flags = flags as u64 & u64::from(u32::MAX);
    let id = serve::managed(fd)?;
    super::copy::forget_flags();
    let set = serve::plain(Request { flags, ..Request::new(Op::SetFlags, id) });
    set.map(|reply| reply.map(|_| 0)).transpose()
}
