//! Second names the C library has for functions of ours. Few programs use them; one that does must
//! not get past us.

use crate::next::Stream;
use libc::{c_char, c_int, c_void, mode_t, off_t, pid_t, size_t, ssize_t};

// The functions a program would call.
unsafe extern "C" {
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn dup2(fd: c_int, target: c_int) -> c_int;
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int;
    fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t;
    fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t;
    fn pread64(fd: c_int, buffer: *mut c_void, len: size_t, at: off_t) -> ssize_t;
    fn pwrite64(fd: c_int, buffer: *const c_void, len: size_t, at: off_t) -> ssize_t;
    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t;
    fn vfork() -> pid_t;
    fn wait(status: *mut c_int) -> pid_t;
    fn waitpid(child: pid_t, status: *mut c_int, options: c_int) -> pid_t;
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut Stream;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut Stream;
    fn backtrace_symbols_fd(addresses: *const *mut c_void, nr: c_int, fd: c_int);
}

macro_rules! aliases {
    ($(fn $alias:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $name:ident;)+) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $alias($($arg: $ty),*) -> $ret {
                // SAFETY: the same function (S20).
                unsafe { $name($($arg),*) }
            }
        )+
    };
}

aliases! {
    fn __open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = open64;
    fn __open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = open64;
    fn __close(fd: c_int) -> c_int = close;
    fn __dup2(fd: c_int, target: c_int) -> c_int = dup2;
    fn __fcntl(fd: c_int, command: c_int, argument: usize) -> c_int = fcntl64;
    fn __read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t = read;
    fn __write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t = write;
    fn __pread64(fd: c_int, buffer: *mut c_void, len: size_t, at: off_t) -> ssize_t = pread64;
    fn __pwrite64(fd: c_int, buffer: *const c_void, len: size_t, at: off_t) -> ssize_t = pwrite64;
    fn __lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t = lseek64;
    fn llseek(fd: c_int, offset: off_t, whence: c_int) -> off_t = lseek64;
    fn __vfork() -> pid_t = vfork;
    fn __wait(status: *mut c_int) -> pid_t = wait;
    fn __waitpid(child: pid_t, status: *mut c_int, options: c_int) -> pid_t = waitpid;
    fn _IO_fopen(path: *const c_char, mode: *const c_char) -> *mut Stream = fopen64;
    fn _IO_fdopen(fd: c_int, mode: *const c_char) -> *mut Stream = fdopen;
    fn __backtrace_symbols_fd(addresses: *const *mut c_void, nr: c_int, fd: c_int) -> ()
        = backtrace_symbols_fd;
}
