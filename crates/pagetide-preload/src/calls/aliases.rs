//! Second names of the library's functions: for other offset widths, internal names of the C
//! library, and fortified variants with the buffer's length. Programs must not bypass the library
//! by them.

use crate::next::Stream;
use libc::{c_char, c_int, c_void, iovec, mode_t, off_t, pid_t, size_t, socklen_t, ssize_t};

/// Rows of a function, its aliases, and the aliases with a buffer length: at the end, or at the
/// semicolon.
macro_rules! aliases {
    (
        @declare $name:ident
        ($($arg:ident: $ty:ty),* $(; $($rest:ident: $rest_ty:ty),+)?) $ret:ty
    ) => {
        unsafe extern "C" {
            fn $name($($arg: $ty,)* $($($rest: $rest_ty),+)?) -> $ret;
        }
    };
    (@same $alias:ident $name:ident ($($arg:ident: $ty:ty),*) $ret:ty) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $alias($($arg: $ty),*) -> $ret {
            // SAFETY: the same function (S20).
            unsafe { $name($($arg),*) }
        }
    };
    (
        @checked $alias:ident $name:ident
        ($($arg:ident: $ty:ty),* $(; $($rest:ident: $rest_ty:ty),+)?) $ret:ty
    ) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $alias(
            $($arg: $ty,)* _room: size_t $(, $($rest: $rest_ty),+)?
        ) -> $ret {
            // SAFETY: the same function, and the caller has checked its buffer's length (S20).
            unsafe { $name($($arg,)* $($($rest),+)?) }
        }
    };
    ($($name:ident $args:tt -> $ret:ty: $($alias:ident)* $(, checked $($checked:ident)+)?;)+) => {
        $(
            aliases!(@declare $name $args $ret);
            $(aliases!(@same $alias $name $args $ret);)*
            $($(aliases!(@checked $checked $name $args $ret);)+)?
        )+
    };
}

aliases! {
    // Names with a 2 are fortified open without a mode: no file is created, and the mode is not
    // read.
    open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int:
        open __open __open64 __open_2 __open64_2;
    openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int:
        openat __openat_2 __openat64_2;
    creat64(path: *const c_char, mode: mode_t) -> c_int: creat;
    mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int: mkostemps;
    mkostemp64(template: *mut c_char, flags: c_int) -> c_int: mkostemp;
    mkstemps64(template: *mut c_char, suffix: c_int) -> c_int: mkstemps;
    mkstemp64(template: *mut c_char) -> c_int: mkstemp;
    close(fd: c_int) -> c_int: __close;
    getrlimit64(resource: c_int, limit: *mut c_void) -> c_int: getrlimit;
    setrlimit64(resource: c_int, limit: *const c_void) -> c_int: setrlimit;
    prlimit64(
        process: pid_t, resource: c_int, new: *const c_void, old: *mut c_void
    ) -> c_int: prlimit;
    dup2(fd: c_int, target: c_int) -> c_int: __dup2;
    fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int: fcntl __fcntl;
    lockf64(fd: c_int, command: c_int, len: off_t) -> c_int: lockf;
    read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t: __read, checked __read_chk;
    pread64(fd: c_int, buffer: *mut c_void, len: size_t, at: off_t) -> ssize_t:
        pread __pread64, checked __pread_chk __pread64_chk;
    preadv64(fd: c_int, parts: *const iovec, nr: c_int, at: off_t) -> ssize_t: preadv;
    preadv64v2(fd: c_int, parts: *const iovec, nr: c_int, at: off_t, flags: c_int) -> ssize_t:
        preadv2;
    recv(fd: c_int, buffer: *mut c_void, len: size_t; flags: c_int) -> ssize_t:,
        checked __recv_chk;
    recvfrom(
        fd: c_int, buffer: *mut c_void, len: size_t; flags: c_int, address: *mut c_void,
        address_len: *mut socklen_t
    ) -> ssize_t:, checked __recvfrom_chk;
    fread(buffer: *mut c_void; size: size_t, nr: size_t, stream: *mut Stream) -> size_t:,
        checked __fread_chk;
    fread_unlocked(buffer: *mut c_void; size: size_t, nr: size_t, stream: *mut Stream) -> size_t:,
        checked __fread_unlocked_chk;
    write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t: __write;
    pwrite64(fd: c_int, buffer: *const c_void, len: size_t, at: off_t) -> ssize_t:
        pwrite __pwrite64;
    pwritev64(fd: c_int, parts: *const iovec, nr: c_int, at: off_t) -> ssize_t: pwritev;
    pwritev64v2(fd: c_int, parts: *const iovec, nr: c_int, at: off_t, flags: c_int) -> ssize_t:
        pwritev2;
    lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t: lseek __lseek llseek;
    sendfile64(out: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t: sendfile;
    ftruncate64(fd: c_int, len: off_t) -> c_int: ftruncate;
    fallocate64(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int: fallocate;
    posix_fallocate64(fd: c_int, offset: off_t, len: off_t) -> c_int: posix_fallocate;
    posix_fadvise64(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int: posix_fadvise;
    vfork() -> pid_t: __vfork;
    wait(status: *mut c_int) -> pid_t: __wait;
    waitpid(child: pid_t, status: *mut c_int, options: c_int) -> pid_t: __waitpid;
    _exit(status: c_int) -> !: _Exit;
    fopen64(path: *const c_char, mode: *const c_char) -> *mut Stream: fopen _IO_fopen;
    freopen64(path: *const c_char, mode: *const c_char, stream: *mut Stream) -> *mut Stream:
        freopen;
    fdopen(fd: c_int, mode: *const c_char) -> *mut Stream: _IO_fdopen;
    tmpfile64() -> *mut Stream: tmpfile;
    truncate64(path: usize, len: usize) -> c_int: truncate;
    aio_read64(control: *mut c_void) -> c_int: aio_read;
    aio_write64(control: *mut c_void) -> c_int: aio_write;
    aio_fsync64(op: c_int, control: *mut c_void) -> c_int: aio_fsync;
    lio_listio64(mode: c_int, list: *const *mut c_void, nr: c_int, event: *mut c_void) -> c_int:
        lio_listio;
    backtrace_symbols_fd(addresses: *const *mut c_void, nr: c_int, fd: c_int) -> ():
        __backtrace_symbols_fd;
}
