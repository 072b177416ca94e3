//! Closing and duplicating descriptors.

use super::locks;
use crate::errno::{Errno, or_minus_one};
use crate::table::{self, Entry};
use crate::{next, process, self_read, serve};
use libc::{c_int, c_uint};
use pagetide_sys::wire::{Op, Request};

#[unsafe(no_mangle)]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    if process::is_own(fd) {
        // As far as the program knows, it is not open.
        return or_minus_one(Err(Errno(libc::EBADF)));
    }
    let told = serve::forget(fd);
    // SAFETY: our caller's descriptor (S20).
    let closed = unsafe { next::close(fd) };
    match told {
        Err(errno) if closed == 0 => or_minus_one(Err(errno)),
        _ => closed,
    }
}

/// Closes the range but for what is ours.
fn close_others(first: c_uint, last: c_uint, flags: c_int) -> Result<(), Errno> {
    let mut from = first;
    loop {
        let ours = process::own().chain([process::doorbell()]).map(|fd| fd as c_uint);
        let next_own = ours.filter(|fd| (from..=last).contains(fd)).min();
        let end = next_own.map_or(Some(last), |own| own.checked_sub(1));
        if let Some(end) = end.filter(|end| from <= *end) {
            let arguments = [from as usize, end as usize, flags as usize, 0, 0, 0];
            // SAFETY: numbers only; the descriptors are our caller's (S20).
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
            if table::entry(fd as c_int) != Entry::Unknown {
                // Errors of write-back have nobody to go to here.
                let _ = serve::forget(fd as c_int);
            }
        }
    }
    or_minus_one(close_others(first, last, flags).map(|()| 0))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn closefrom(first: c_int) {
    // SAFETY: closefrom is this (S20).
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup(fd: c_int) -> c_int {
    // SAFETY: a number (S20).
    let copy = unsafe { next::dup(fd) };
    note_copy(fd, copy)
}

fn note_copy(fd: c_int, copy: c_int) -> c_int {
    if copy >= 0 && copy != fd && process::is_on() {
        let before = crate::errno::read();
        serve::duplicated(fd, copy);
        crate::errno::set(before);
    }
    copy
}

/// What the target of a dup2 was, before it is something else.
fn forget_target(fd: c_int, target: c_int) {
    // What is not open stays what it is: the call will fail.
    if fd != target && process::is_on() && process::stat(fd).is_ok() {
        // dup2 does not report what closing would have.
        let _ = serve::forget(target);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup2(fd: c_int, target: c_int) -> c_int {
    if process::is_own(target) {
        return or_minus_one(Err(Errno(libc::EBADF)));
    }
    forget_target(fd, target);
    // SAFETY: numbers (S20).
    let copy = unsafe { next::dup2(fd, target) };
    note_copy(fd, copy)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup3(fd: c_int, target: c_int, flags: c_int) -> c_int {
    if process::is_own(target) {
        return or_minus_one(Err(Errno(libc::EBADF)));
    }
    forget_target(fd, target);
    // SAFETY: numbers (S20).
    let copy = unsafe { next::dup3(fd, target, flags) };
    note_copy(fd, copy)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    if locks::is_about_locks(command) {
        // SAFETY: our caller's lock (S20).
        return unsafe { locks::control(fd, command, argument as *mut _) };
    }
    // SAFETY: our caller's arguments; one that was not given is not looked at (S20).
    let result = unsafe { next::fcntl(fd, command, argument) };
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => note_copy(fd, result),
        libc::F_SETFL if result == 0 => {
            if let Some(id) = serve::managed(fd) {
                let flags = argument as u64 & u64::from(u32::MAX);
                // The server knows the file, so it knows its flags.
                let _ = serve::plain(fd, Request { flags, ..Request::new(Op::SetFlags, id) });
                self_read::forget(id);
            }
            result
        }
        libc::F_GETFL if result >= 0 => {
            let is_ours = serve::managed(fd).is_some_and(self_read::has_set_direct);
            if is_ours { result & !libc::O_DIRECT } else { result }
        }
        _ => result,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the same function (S20).
    unsafe { fcntl64(fd, command, argument) }
}
