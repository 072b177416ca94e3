//! Memory that is mapped from files, and signals about it.
//!
//! ```text
//!   mmap                    served, or the file is the kernel's before the call
//!   munmap, mprotect, ..    of what is served: noted, and done
//!   mremap, mlock, ..       of what is served: it is the kernel's before the call
//!   send, fwrite, ..        of bytes of what is served: of copies
//!   sigaction, signal, ..   of SIGBUS and SIGSEGV, once anything is served: kept
//! ```

use super::interfaces::hand_over;
use crate::errno::or_minus_one;
use crate::maps::{self, Wanted, signals};
use crate::{errno, next, pieces, serve};
use libc::{c_int, c_void, off_t, sigset_t, size_t, ssize_t};

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    at: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    let is_file = flags & libc::MAP_ANONYMOUS == 0 && fd >= 0;
    if let Some(id) = Some(fd).filter(|_| is_file).and_then(serve::managed) {
        let wanted = Wanted { at: at as usize, len, protection, flags, offset };
        match maps::map(id, wanted) {
            Ok(start) => return start as *mut c_void,
            Err(reason) => {
                if let Err(errno) = hand_over([fd], reason) {
                    errno::set(errno);
                    return libc::MAP_FAILED;
                }
            }
        }
    }
    if flags & libc::MAP_FIXED != 0 {
        maps::forget(at as usize, (at as usize).saturating_add(len.next_multiple_of(4096)));
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::mmap64(at, len, protection, flags, fd, offset) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    at: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the same function (S20).
    unsafe { mmap64(at, len, protection, flags, fd, offset) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(at: *mut c_void, len: size_t) -> c_int {
    let start = at as usize;
    if pieces::is_any() && start.is_multiple_of(4096) && len > 0 {
        maps::forget(start, start.saturating_add(len.next_multiple_of(4096)));
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::munmap(at, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mprotect(at: *mut c_void, len: size_t, protection: c_int) -> c_int {
    if maps::overlaps(at as usize, len) {
        maps::protect(at as usize, len, protection);
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::mprotect(at, len, protection) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mremap(
    old: *mut c_void,
    old_len: size_t,
    len: size_t,
    flags: c_int,
    new: *mut c_void,
) -> *mut c_void {
    if maps::overlaps(old as usize, old_len) {
        maps::hand_over(old as usize, old_len);
    }
    if flags & libc::MREMAP_FIXED != 0 && maps::overlaps(new as usize, len) {
        maps::hand_over(new as usize, len);
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::mremap(old, old_len, len, flags, new) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn madvise(at: *mut c_void, len: size_t, advice: c_int) -> c_int {
    if maps::overlaps(at as usize, len) {
        match advice {
            libc::MADV_NORMAL | libc::MADV_RANDOM | libc::MADV_SEQUENTIAL | libc::MADV_WILLNEED => {
                maps::advise(at as usize, len, advice as u64);
                return 0;
            }
            libc::MADV_POPULATE_READ => {
                maps::populate(at as usize, len);
                return 0;
            }
            libc::MADV_POPULATE_WRITE => {
                maps::populate_to_write(at as usize, len);
                return 0;
            }
            // The file's own pages are to go, and their blocks.
            libc::MADV_REMOVE => maps::hand_over(at as usize, len),
            // It is for the kernel's own pages; no child is to have these.
            libc::MADV_DOFORK
            | libc::MADV_DONTFORK
            | libc::MADV_COLD
            | libc::MADV_PAGEOUT
            | libc::MADV_HUGEPAGE
            | libc::MADV_NOHUGEPAGE => return 0,
            _ => {}
        }
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::madvise(at, len, advice) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_madvise(at: *mut c_void, len: size_t, advice: c_int) -> c_int {
    if advice != libc::POSIX_MADV_DONTNEED && maps::overlaps(at as usize, len) {
        maps::advise(at as usize, len, advice as u64);
        return 0;
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::posix_madvise(at, len, advice) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn msync(at: *mut c_void, len: size_t, flags: c_int) -> c_int {
    if flags & libc::MS_SYNC != 0
        && maps::overlaps(at as usize, len)
        && let Err(errno) = maps::sync(at as usize, len)
    {
        return or_minus_one(Err(errno));
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::msync(at, len, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mlock(at: *const c_void, len: size_t) -> c_int {
    if maps::overlaps(at as usize, len) {
        maps::hand_over(at as usize, len);
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::mlock(at, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mlock2(at: *const c_void, len: size_t, flags: libc::c_uint) -> c_int {
    if maps::overlaps(at as usize, len) {
        maps::hand_over(at as usize, len);
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::mlock2(at, len, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    maps::hand_over_all(flags & libc::MCL_FUTURE != 0);
    // SAFETY: a number (S20).
    unsafe { next::mlockall(flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: our caller's arguments (S20).
    unsafe { signals::exchange(signal, new, old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn signal(signal: c_int, handler: usize) -> usize {
    if signals::is_kept(signal) {
        // SAFETY: our caller's arguments (S20).
        return unsafe { signals::set_handler(signal, handler, libc::SA_RESTART) };
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::signal(signal, handler) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigprocmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    let fewer = signals::without_ours(how, set);
    // SAFETY: our caller's arguments, with fewer signals blocked (S20).
    unsafe { next::sigprocmask(how, fewer.as_ref().map_or(set, std::ptr::from_ref), old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    let fewer = signals::without_ours(how, set);
    // SAFETY: our caller's arguments, with fewer signals blocked (S20).
    unsafe { next::pthread_sigmask(how, fewer.as_ref().map_or(set, std::ptr::from_ref), old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: our caller's arguments, or a copy of its bytes (S20).
    let give = |bytes, len, _| unsafe { next::send(fd, bytes, len, flags) };
    maps::in_copies(buffer, len, give).unwrap_or_else(|| give(buffer, len, 0))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    len: size_t,
    flags: c_int,
    address: *const c_void,
    address_len: libc::socklen_t,
) -> ssize_t {
    // SAFETY: our caller's arguments, or a copy of its bytes (S20).
    let give = |bytes, len, _| unsafe { next::sendto(fd, bytes, len, flags, address, address_len) };
    maps::in_copies(buffer, len, give).unwrap_or_else(|| give(buffer, len, 0))
}

/// The C library's streams write long buffers as they are.
#[unsafe(no_mangle)]
unsafe extern "C" fn fwrite(
    buffer: *const c_void,
    size: size_t,
    nr: size_t,
    stream: *mut next::Stream,
) -> size_t {
    // SAFETY: our caller's arguments, or a copy of its bytes (S20).
    write_items(buffer, size, nr, |bytes, size, nr| unsafe {
        next::fwrite(bytes, size, nr, stream)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fwrite_unlocked(
    buffer: *const c_void,
    size: size_t,
    nr: size_t,
    stream: *mut next::Stream,
) -> size_t {
    // SAFETY: our caller's arguments, or a copy of its bytes (S20).
    write_items(buffer, size, nr, |bytes, size, nr| unsafe {
        next::fwrite_unlocked(bytes, size, nr, stream)
    })
}

/// Has items written to a stream: as they are, or byte by byte of copies.
fn write_items(
    buffer: *const c_void,
    size: size_t,
    nr: size_t,
    write: impl Fn(*const c_void, size_t, size_t) -> size_t,
) -> size_t {
    let give = |bytes, len, _| write(bytes, 1, len) as isize;
    match size.checked_mul(nr).and_then(|len| maps::in_copies(buffer, len, give)) {
        Some(done) => done as usize / size,
        None => write(buffer, size, nr),
    }
}
