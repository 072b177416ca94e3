//! Calls that may be given bytes of a managed mapping, such as a path, an address or a message.
//! Absent pages are filled, and the call is repeated (`next`).

use crate::errno::or_minus_one;
use crate::serve;
use libc::{c_int, c_uint, c_void, mmsghdr, socklen_t, ssize_t};
use pagetide_run::wire::Reason;

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
    fn rename(from, to) -> c_int;
    fn renameat(folder, from, other, to) -> c_int;
    fn renameat2(folder, from, other, to, flags) -> c_int;
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
