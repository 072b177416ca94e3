//! Calls that may be given bytes of a managed mapping, such as a path, an address or a message.
//! Absent pages are filled, and the call is repeated (`next`).
//!
//! The server finds small files by their paths, so a rename to another folder is reported.

use crate::errno::or_minus_one;
use crate::process::{self, is_regular};
use crate::{errno, own, room, serve, small_reports};
use libc::{AT_FDCWD, c_char, c_int, c_uint, c_void, mmsghdr, socklen_t, ssize_t};
use pagetide_run::wire::Reason;
use std::ffi::CStr;

macro_rules! repeated {
    ($(fn $name:ident($($arg:ident),+) -> $ret:ty;)+) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: usize),+) -> $ret {
                let next = {
                    $crate::next::next! { fn $name($($arg: usize),+) -> $ret; }
                    $name
                };
                // SAFETY: the caller's arguments, each one register (S20).
                unsafe { next($($arg),+) }
            }
        )+
    };
}

repeated! {
    fn stat(path, stat) -> c_int;
    fn lstat(path, stat) -> c_int;
    fn fstatat(folder, path, stat, flags) -> c_int;
    fn stat64(path, stat) -> c_int;
    fn lstat64(path, stat) -> c_int;
    fn fstatat64(folder, path, stat, flags) -> c_int;
    fn statx(folder, path, flags, mask, stat) -> c_int;
    fn access(path, mode) -> c_int;
    fn faccessat(folder, path, mode, flags) -> c_int;
    fn readlink(path, target, len) -> ssize_t;
    fn readlinkat(folder, path, target, len) -> ssize_t;
    fn unlink(path) -> c_int;
    fn unlinkat(folder, path, flags) -> c_int;
    fn link(from, to) -> c_int;
    fn linkat(folder, from, other, to, flags) -> c_int;
    fn symlink(to, path) -> c_int;
    fn symlinkat(to, folder, path) -> c_int;
    fn mkdir(path, mode) -> c_int;
    fn mkdirat(folder, path, mode) -> c_int;
    fn rmdir(path) -> c_int;
    fn chdir(path) -> c_int;
    fn chmod(path, mode) -> c_int;
    fn chown(path, user, group) -> c_int;
    fn lchown(path, user, group) -> c_int;
    fn fchownat(folder, path, user, group, flags) -> c_int;
    fn truncate64(path, len) -> c_int;
}

macro_rules! renames {
    ($(fn $name:ident($($arg:ident),+): $from:expr, $to:expr;)+) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: usize),+) -> c_int {
                let next = {
                    $crate::next::next! { fn $name($($arg: usize),+) -> c_int; }
                    $name
                };
                // SAFETY: the caller's arguments, each one register (S20).
                let result = unsafe { next($($arg),+) };
                if result == 0 {
                    moved($from, $to);
                }
                result
            }
        )+
    };
}

renames! {
    fn rename(from, to): (AT_FDCWD as usize, from), (AT_FDCWD as usize, to);
    fn renameat(folder, from, other, to): (folder, from), (other, to);
    fn renameat2(folder, from, other, to, flags): (folder, from), (other, to);
}

/// Reports the new path of a file that was moved to another folder. Each path is given with the
/// descriptor of its start.
fn moved(from: (usize, usize), to: (usize, usize)) {
    if !process::is_on() || folder_of(from) == folder_of(to) {
        return;
    }
    let flags = libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    errno::kept(|| {
        let Ok(fd) = room::open(to.0 as c_int, to.1 as *const c_char, flags) else { return };
        if let Some(stat) = process::stat(fd).ok().filter(is_regular) {
            small_reports::moved(fd, &stat);
        }
        own::close(fd);
    });
}

/// Returns the folder's part of a path, with the descriptor of the path's start.
fn folder_of((start, path): (usize, usize)) -> (c_int, &'static [u8]) {
    // SAFETY: the caller's path, which the kernel has just read (S20).
    let path = unsafe { CStr::from_ptr(path as *const c_char) }.to_bytes();
    let len = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    (start as c_int, &path[..len])
}

/// Hands a file over before a socket call: the kernel's error differs for a stand-in.
fn let_kernel_refuse<T: From<i8>>(fd: c_int) -> Option<T> {
    let handed = serve::hand_over_managed(fd, Reason::Interface);
    handed.err().map(|errno| or_minus_one(Err(errno)))
}

taken_over! {
    fn connect(socket: c_int, address: *const c_void, len: socklen_t) -> c_int {
        let_kernel_refuse(socket)
    }

    fn bind(socket: c_int, address: *const c_void, len: socklen_t) -> c_int {
        let_kernel_refuse(socket)
    }

    fn setsockopt(
        socket: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t,
    ) -> c_int {
        let_kernel_refuse(socket)
    }

    fn sendmmsg(socket: c_int, messages: *mut mmsghdr, nr: c_uint, flags: c_int) -> c_int {
        let_kernel_refuse(socket)
    }
}
