//! Length, durability, advice, times, and other calls that fail for a stand-in.
//!
//! The kernel always knows a managed file's length, so stat is not interposed. Its times are of the
//! last write or write-back, so the file is written back before times are set.
//!
//! ```text
//!   fchmod, fchown, f*xattr, futimens   the same call by the stand-in's path, /proc/self/fd/N
//!   truncate                            the kernel's own breaks the lease
//! ```

use crate::channel::{self, Parcel};
use crate::errno::{Errno, or_minus_one};
use crate::{arguments, limits, new_files, next, own, process, room, serve};
use libc::{
    c_char, c_int, c_uint, c_void, gid_t, mode_t, off_t, size_t, ssize_t, timespec, timeval, uid_t,
};
use pagetide_run::wire::{FILE_BYTES_MAX, Op, Reason, Request};

/// `None` if the file is the kernel's.
fn ask(fd: c_int, request: impl FnOnce(u64) -> Request) -> Option<Result<(), Errno>> {
    let id = serve::managed(fd)?;
    serve::plain(request(id)).map(|reply| reply.map(|_| ())).transpose()
}

/// Returns `None` for a new file, which the kernel serves.
fn kernel_if_new(fd: c_int) -> Option<()> {
    (!new_files::may_be_managed(fd)).then_some(())
}

fn status(answer: Option<Result<(), Errno>>) -> Option<c_int> {
    answer.map(|result| or_minus_one(result.map(|()| 0)))
}

taken_over! {
    fn ftruncate64(fd: c_int, len: off_t) -> c_int {
        if len < 0 {
            return status(Some(Err(Errno(libc::EINVAL))));
        }
        if new_files::takes_offset(fd, len) {
            return None;
        }
        serve::managed(fd)?;
        if let Err(errno) = limits::check_len(fd, len) {
            return status(Some(Err(errno)));
        }
        status(ask(fd, |id| Request { len: len as u64, ..Request::new(Op::SetLen, id) }))
    }

    fn fallocate64(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int {
        status(allocate(fd, mode, offset, len))
    }

    fn posix_fallocate64(fd: c_int, offset: off_t, len: off_t) -> c_int {
        Some(match allocate(fd, 0, offset, len)? {
            Ok(()) => 0,
            // Without allocation in the file system, a longer file suffices.
            Err(Errno(libc::EOPNOTSUPP)) => lengthen(fd, offset.saturating_add(len)),
            Err(errno) => errno.0,
        })
    }

    fn fsync(fd: c_int) -> c_int {
        kernel_if_new(fd)?;
        status(ask(fd, |id| Request { flags: 1, ..Request::new(Op::Sync, id) }))
    }

    fn fdatasync(fd: c_int) -> c_int {
        kernel_if_new(fd)?;
        status(ask(fd, |id| Request::new(Op::Sync, id)))
    }

    fn sync_file_range(fd: c_int, at: off_t, len: off_t, flags: c_uint) -> c_int {
        kernel_if_new(fd)?;
        const KNOWN: c_uint = 7;
        let is_range = at >= 0 && len >= 0 && at.checked_add(len).is_some();
        if (flags & !KNOWN != 0 || !is_range) && serve::managed(fd).is_some() {
            return status(Some(Err(Errno(libc::EINVAL))));
        }
        status(ask(fd, |id| Request::new(Op::Flush, id)))
    }

    fn syncfs(fd: c_int) -> c_int {
        if process::is_on()
            && let Err(errno) = channel::tell(Op::FlushAll).and_then(|reply| match reply.result {
                0.. => Ok(()),
                failed => Err(Errno(-failed as c_int)),
            })
        {
            return status(Some(Err(errno)));
        }
        serve::managed(fd)?;
        // SAFETY: no arguments (S20).
        unsafe { next::sync() };
        Some(0)
    }

    fn posix_fadvise64(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int {
        kernel_if_new(fd)?;
        if len < 0 && serve::managed(fd).is_some() {
            return Some(libc::EINVAL);
        }
        let advised = advise(fd, offset, len as u64, advice)?;
        Some(advised.map_or_else(|errno| errno.0, |()| 0))
    }

    fn readahead(fd: c_int, offset: off_t, len: size_t) -> ssize_t {
        kernel_if_new(fd)?;
        let advised = advise(fd, offset, len as u64, libc::POSIX_FADV_WILLNEED)?;
        let is_write_only = |flags: c_int| flags & libc::O_ACCMODE == libc::O_WRONLY;
        let result = match serve::status_flags(fd).is_ok_and(is_write_only) {
            true => Err(Errno(libc::EBADF)),
            false if isize::try_from(len).is_err() => Err(Errno(libc::EINVAL)),
            false => advised,
        };
        Some(or_minus_one(result.map(|()| 0)))
    }

    fn futimens(fd: c_int, times: *const timespec) -> c_int {
        kernel_if_new(fd)?;
        set_times(fd, times)
    }

    fn futimes(fd: c_int, times: *const timeval) -> c_int {
        kernel_if_new(fd)?;
        serve::managed(fd)?;
        write_back(fd);
        // SAFETY: a zero-terminated path, and the caller's times (S20).
        Some(unsafe { next::utimes(process::path_of(fd).as_ptr().cast(), times) })
    }

    fn utimensat(
        folder: c_int, path: *const c_char, times: *const timespec, flags: c_int,
    ) -> c_int {
        write_back_path(folder, path, flags);
        None
    }

    fn futimesat(folder: c_int, path: *const c_char, times: *const timeval) -> c_int {
        if path.is_null() {
            serve::managed(folder)?;
            write_back(folder);
            // SAFETY: a zero-terminated path, and the caller's times (S20).
            return Some(unsafe { next::utimes(process::path_of(folder).as_ptr().cast(), times) });
        }
        write_back_path(folder, path, 0);
        None
    }

    fn utimes(path: *const c_char, times: *const timeval) -> c_int {
        write_back_path(libc::AT_FDCWD, path, 0);
        None
    }

    fn utime(path: *const c_char, times: *const c_void) -> c_int {
        write_back_path(libc::AT_FDCWD, path, 0);
        None
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sync() {
    if process::is_on() {
        let _ = channel::tell(Op::FlushAll);
    }
    // SAFETY: no arguments (S20).
    unsafe { next::sync() };
}

fn allocate(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> Option<Result<(), Errno>> {
    let refused = match (offset, len) {
        (0.., 1..) => (!is_mode(mode)).then_some(Errno(libc::EOPNOTSUPP)),
        _ => Some(Errno(libc::EINVAL)),
    };
    if let Some(errno) = refused.filter(|_| serve::managed(fd).is_some()) {
        return Some(Err(errno));
    }
    let end = offset.saturating_add(len);
    if mode & libc::FALLOC_FL_KEEP_SIZE == 0
        && (end as u64) < FILE_BYTES_MAX
        && serve::managed(fd).is_some()
        && let Err(errno) = limits::check_len(fd, end)
    {
        return Some(Err(errno));
    }
    let flags = mode as u32 as u64;
    ask(fd, |id| Request { flags, offset, len: len as u64, ..Request::new(Op::Allocate, id) })
}

fn is_mode(mode: c_int) -> bool {
    let keeps_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
    match mode & !libc::FALLOC_FL_KEEP_SIZE {
        0 | libc::FALLOC_FL_UNSHARE_RANGE | libc::FALLOC_FL_ZERO_RANGE => true,
        libc::FALLOC_FL_PUNCH_HOLE => keeps_size,
        libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE => !keeps_size,
        _ => false,
    }
}

fn lengthen(fd: c_int, end: off_t) -> c_int {
    let is_long = process::stat(fd).is_ok_and(|stat| stat.st_size >= end);
    let grown = |id| Request { len: end as u64, ..Request::new(Op::SetLen, id) };
    match (is_long, ask(fd, grown)) {
        (true, _) | (_, Some(Ok(()))) => 0,
        (_, Some(Err(errno))) => errno.0,
        (_, None) => libc::EOPNOTSUPP,
    }
}

/// The kernel accepts any start.
fn advise(fd: c_int, offset: off_t, len: u64, advice: c_int) -> Option<Result<(), Errno>> {
    let (flags, offset) = (advice as u32 as u64, offset.max(0));
    ask(fd, |id| Request { flags, offset, len, ..Request::new(Op::Advise, id) })
}

/// Writes back, so that a later write-back does not change the times to be set.
fn write_back(fd: c_int) {
    // Bytes that cannot be written now change the times later.
    let _ = ask(fd, |id| Request::new(Op::Flush, id));
}

/// As [`write_back`], for the file at a path. Preserves errno.
fn write_back_path(folder: c_int, path: *const c_char, flags: c_int) {
    if !process::is_on() || arguments::is_null(path as usize) {
        return;
    }
    let before = crate::errno::read();
    let no_follow = if flags & libc::AT_SYMLINK_NOFOLLOW != 0 { libc::O_NOFOLLOW } else { 0 };
    let naming = libc::O_PATH | libc::O_CLOEXEC | no_follow;
    if let Ok(fd) = room::open(folder, path, naming) {
        if process::stat(fd).is_ok_and(|stat| process::is_regular(&stat)) {
            let parcel = Parcel { files: &[fd], ..Parcel::default() };
            let _ = channel::ask(&Request::new(Op::FlushFile, 0), parcel);
        }
        own::close(fd);
    }
    crate::errno::set(before);
}

/// `None` if the file is the kernel's.
fn set_times(fd: c_int, times: *const timespec) -> Option<c_int> {
    serve::managed(fd)?;
    write_back(fd);
    // The file may just have become the kernel's.
    serve::managed(fd)?;
    let path = process::path_of(fd);
    // SAFETY: a zero-terminated path, and the caller's times (S20).
    Some(unsafe { next::utimensat(libc::AT_FDCWD, path.as_ptr().cast(), times, 0) })
}

/// Functions of a descriptor that have an equivalent by path, which works for a stand-in.
macro_rules! by_path {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $of_path:ident;)+) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(fd: c_int $(, $arg: $ty)*) -> $ret {
                if kernel_if_new(fd).and_then(|()| serve::managed(fd)).is_some() {
                    let path = process::path_of(fd);
                    // SAFETY: a zero-terminated path, and the caller's arguments (S20).
                    let result = unsafe { libc::$of_path(path.as_ptr().cast() $(, $arg)*) };
                    if result >= 0 || crate::errno::read() != Errno(libc::ENOENT) {
                        return result;
                    }
                    // /proc is not mounted.
                    if let Err(errno) = serve::hand_over_managed(fd, Reason::Interface) {
                        return or_minus_one(Err(errno));
                    }
                }
                $crate::next::next! { fn $name(fd: c_int $(, $arg: $ty)*) -> $ret; }
                // SAFETY: the caller's arguments (S20).
                unsafe { $name(fd $(, $arg)*) }
            }
        )+
    };
}

by_path! {
    fn fchmod(mode: mode_t) -> c_int = chmod;
    fn fchown(user: uid_t, group: gid_t) -> c_int = chown;
    fn fgetxattr(name: *const c_char, value: *mut c_void, len: size_t) -> ssize_t = getxattr;
    fn fsetxattr(name: *const c_char, value: *const c_void, len: size_t, flags: c_int) -> c_int
        = setxattr;
    fn flistxattr(list: *mut c_char, len: size_t) -> ssize_t = listxattr;
    fn fremovexattr(name: *const c_char) -> c_int = removexattr;
}
