//! Mapped files, and signals about them.
//!
//! ```text
//!   mmap                    managed, or the file becomes the kernel's before the call
//!   munmap, mremap, ..      of managed ranges: recorded, and done
//!   mlock, munlock, ..      of managed ranges: locked by the server, within a share of the limit
//!   send, fwrite, ..        with bytes in managed ranges: with copies
//!   sigaction, signal, ..   of SIGBUS and SIGSEGV, once any range is managed: recorded
//! ```

use super::interfaces::hand_over;
use crate::errno::{Errno, or_minus_one};
use crate::maps::{self, Wanted, signals};
use crate::transfer::part;
use crate::{errno, memory, next, passing, serve};
use libc::{c_int, c_void, off_t, sigset_t, size_t, ssize_t};

taken_over! {
    fn mmap64(
        at: *mut c_void, len: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t,
    ) -> *mut c_void {
        if maps::is_over(flags) {
            memory::about_to_change();
        }
        let is_file = flags & libc::MAP_ANONYMOUS == 0 && fd >= 0;
        if let Some(id) = Some(fd).filter(|_| is_file).and_then(serve::managed) {
            let wanted = Wanted { at: at as usize, len, protection, flags, offset };
            match maps::map(id, wanted) {
                Ok(start) if flags & libc::MAP_LOCKED != 0 && maps::lock(start, len).is_err() => {
                    let _ = maps::unmap(start, len);
                    errno::set(Errno(libc::EAGAIN));
                    return Some(libc::MAP_FAILED);
                }
                Ok(start) => return Some(start as *mut c_void),
                Err(reason) => {
                    if let Err(errno) = hand_over([fd], reason) {
                        errno::set(errno);
                        return Some(libc::MAP_FAILED);
                    }
                }
            }
        }
        let of_kernels = || {
            let [protection, flags, fd] = [protection, flags, fd].map(|number| number as usize);
            let arguments = [at as usize, len, protection, flags, fd, offset as usize];
            // SAFETY: the caller's arguments. The table is held (S36).
            unsafe { next::system(libc::SYS_mmap, arguments) }
        };
        let is_over = maps::is_over(flags);
        let mapped = is_over.then(|| maps::in_place_of(at as usize, len, of_kernels)).flatten()?;
        Some(address_of(mapped))
    }

    fn munmap(at: *mut c_void, len: size_t) -> c_int {
        memory::about_to_change();
        let unmapped = maps::unmap(at as usize, len)?;
        Some(or_minus_one(unmapped.map(|_| 0)))
    }

    fn mprotect(at: *mut c_void, len: size_t, protection: c_int) -> c_int {
        memory::about_to_change();
        if maps::overlaps(at as usize, len) {
            let protected = maps::protect(at as usize, len, protection)?;
            return Some(or_minus_one(protected.map(|()| 0)));
        }
        None
    }

    fn mremap(
        old: *mut c_void, old_len: size_t, len: size_t, flags: c_int, new: *mut c_void,
    ) -> *mut c_void {
        memory::about_to_change();
        let moved = maps::remap(old as usize, old_len, len, flags, new as usize)?;
        Some(address_of(moved))
    }

    fn madvise(at: *mut c_void, len: size_t, advice: c_int) -> c_int {
        if !maps::overlaps(at as usize, len) || !(at as usize).is_multiple_of(4096) {
            return None;
        }
        match advice {
            libc::MADV_NORMAL | libc::MADV_RANDOM | libc::MADV_SEQUENTIAL | libc::MADV_WILLNEED => {
                maps::advise(at as usize, len, advice as u64);
            }
            libc::MADV_POPULATE_READ => maps::populate(at as usize, len),
            libc::MADV_POPULATE_WRITE => maps::populate_to_write(at as usize, len),
            // Advice for the kernel's own pages. Children must not get these.
            libc::MADV_DOFORK
            | libc::MADV_DONTFORK
            | libc::MADV_COLD
            | libc::MADV_PAGEOUT
            | libc::MADV_HUGEPAGE
            | libc::MADV_NOHUGEPAGE => {}
            // The file's pages and blocks are to be freed.
            libc::MADV_REMOVE => {
                maps::hand_over(at as usize, len);
                return None;
            }
            _ => return None,
        }
        let is_whole = maps::is_mapped(at as usize, len);
        Some(if is_whole { 0 } else { or_minus_one(Err(Errno(libc::ENOMEM))) })
    }

    fn posix_madvise(at: *mut c_void, len: size_t, advice: c_int) -> c_int {
        let is_known = matches!(advice, 0..libc::POSIX_MADV_DONTNEED);
        let is_aligned = (at as usize).is_multiple_of(4096);
        if !is_known || !is_aligned || !maps::overlaps(at as usize, len) {
            return None;
        }
        maps::advise(at as usize, len, advice as u64);
        Some(if maps::is_mapped(at as usize, len) { 0 } else { libc::ENOMEM })
    }

    fn msync(at: *mut c_void, len: size_t, flags: c_int) -> c_int {
        if flags & libc::MS_SYNC == 0 || !maps::overlaps(at as usize, len) {
            return None;
        }
        maps::sync(at as usize, len).err().map(|errno| or_minus_one(Err(errno)))
    }

    fn mlock(at: *const c_void, len: size_t) -> c_int {
        lock(at, len)
    }

    fn mlock2(at: *const c_void, len: size_t, flags: libc::c_uint) -> c_int {
        if flags & !(libc::MLOCK_ONFAULT as libc::c_uint) == 0 { lock(at, len) } else { None }
    }

    fn mlockall(flags: c_int) -> c_int {
        maps::lock_all(flags).err().map(|errno| or_minus_one(Err(errno)))
    }

    fn munlock(at: *const c_void, len: size_t) -> c_int {
        maps::unlock(at as usize, len);
        None
    }

    fn munlockall() -> c_int {
        maps::unlock(0, usize::MAX & !4095);
        None
    }

    fn signal(signal: c_int, handler: usize) -> usize {
        signals::is_kept(signal).then(|| {
            // SAFETY: our caller's arguments (S20).
            unsafe { signals::set_handler(signal, handler, libc::SA_RESTART) }
        })
    }

    fn send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        maps::in_copies(buffer, len, |bytes, len, _| {
            // SAFETY: our caller's arguments, and a copy of its bytes (S20).
            unsafe { next::send(fd, bytes, len, flags) }
        })
        .or_else(|| super::filling::no_socket(fd, buffer, len))
    }

    fn sendto(
        fd: c_int, buffer: *const c_void, len: size_t, flags: c_int, address: *const c_void,
        address_len: libc::socklen_t,
    ) -> ssize_t {
        maps::in_copies(buffer, len, |bytes, len, _| {
            // SAFETY: our caller's arguments, and a copy of its bytes (S20).
            unsafe { next::sendto(fd, bytes, len, flags, address, address_len) }
        })
        .or_else(|| super::filling::no_socket(fd, buffer, len))
    }
}

fn address_of(mapped: Result<usize, Errno>) -> *mut c_void {
    mapped.map_or_else(
        |errno| {
            errno::set(errno);
            libc::MAP_FAILED
        },
        |start| start as *mut c_void,
    )
}

fn lock(at: *const c_void, len: size_t) -> Option<c_int> {
    let locked = maps::overlaps(at as usize, len).then(|| maps::lock(at as usize, len))?;
    Some(or_minus_one(locked.map(|()| 0)))
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
unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: our caller's arguments (S20).
    unsafe { signals::exchange(signal, new, old) }
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

/// The C library's streams write long buffers directly.
#[unsafe(no_mangle)]
unsafe extern "C" fn fwrite(
    buffer: *const c_void,
    size: size_t,
    nr: size_t,
    stream: *mut next::Stream,
) -> size_t {
    // SAFETY: our caller's arguments, or a copy of its bytes (S20).
    write_items(buffer, size, nr, stream, |bytes, size, nr| unsafe {
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
    write_items(buffer, size, nr, stream, |bytes, size, nr| unsafe {
        next::fwrite_unlocked(bytes, size, nr, stream)
    })
}

unsafe extern "C" {
    static stdout: *mut next::Stream;
}

/// Directly, or byte by byte from copies.
fn write_items(
    buffer: *const c_void,
    size: size_t,
    nr: size_t,
    stream: *mut next::Stream,
    write: impl Fn(*const c_void, size_t, size_t) -> size_t,
) -> size_t {
    let give = |bytes, len, _| write(bytes, 1, len) as isize;
    let len = size.checked_mul(nr);
    // SAFETY: a variable of the C library's (S21).
    if stream == unsafe { stdout } {
        let whole = part(buffer.cast_mut(), len.unwrap_or(0));
        passing::note(libc::STDOUT_FILENO, &whole, None, true);
    }
    match len.and_then(|len| maps::in_copies(buffer, len, give)) {
        Some(done) => done as usize / size,
        None => write(buffer, size, nr),
    }
}
