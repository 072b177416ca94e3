//! Opens: the program gets a stand-in, which only names the file. The server gets the real
//! descriptor.
//!
//! ```text
//!   not a regular file, in a system folder, or small and only read     the kernel's, no request
//!   a file that the call creates  the kernel's while it is only written (`new_files`), or:
//!                                 S, real, at the result's number; P, the stand-in
//!                                 Open [P, S] --> managed: P replaces S
//!   an existing file              P at the result's number
//!                                 Open [P] --> managed; or the kernel opens the file after all,
//!                                 as a new file if the call truncates the file
//! ```
//!
//! Without an answer from the server, the kernel opens the file. The open of a managed file then
//! breaks the lease, and waits until the server releases the file.
//!
//! **Invariants.** A real descriptor of an existing file is never opened and closed here, because
//! the close would release the program's record locks. A new file's descriptor is replaced only
//! while no thread can have locked the file. If names change meanwhile, the kernel decides.
//!
//! Source: open(2), `O_PATH`, and fcntl(2), "Leases".

use crate::errno::Errno;
use crate::manage::{Opened, ask_to_manage, manage_new};
use crate::process::{control, is_regular};
use crate::table::{self, Entry};
use crate::{arguments, new_files, next, own, passing, process, small};
use libc::{c_char, c_int, mode_t};
use pagetide_run::wire::{open, variable};
use std::ffi::CStr;

/// Files below these folders are the kernel's, unless a pattern of the run matches.
const SYSTEM_FOLDERS: [&[u8]; 9] =
    [b"/proc", b"/sys", b"/dev", b"/usr", b"/lib", b"/lib64", b"/bin", b"/sbin", b"/etc"];
/// Maximum number of attempts while a name appears and disappears.
const NR_TRIES: usize = 3;

#[derive(Clone, Copy)]
struct Call {
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
}

impl Call {
    fn has(self, flag: c_int) -> bool {
        self.flags & flag == flag
    }

    /// Returns true if the kernel opens the file without a request.
    fn is_kernels(self) -> bool {
        let is_no_file = self.flags & libc::O_PATH != 0
            || self.has(libc::O_DIRECTORY) && !self.has(libc::O_TMPFILE);
        is_no_file || arguments::is_null(self.path as usize) || self.is_systems()
    }

    fn is_systems(self) -> bool {
        // SAFETY: the caller's path, which is not null (S20).
        let path = unsafe { CStr::from_ptr(self.path) }.to_bytes();
        let is_below = |folder: &&[u8]| {
            path.strip_prefix(*folder).is_some_and(|rest| rest.first().is_none_or(|b| *b == b'/'))
        };
        process::has_flag(variable::SYSTEM_FOLDERS) && SYSTEM_FOLDERS.iter().any(is_below)
    }

    /// Returns true if the call truncates a file without write access. The kernel does not report
    /// such a truncation to the holder of a read lease.
    fn cuts_unseen(self) -> bool {
        self.has(libc::O_TRUNC) && self.flags & (libc::O_ACCMODE | libc::O_PATH) == libc::O_RDONLY
    }

    /// Makes the server hand over a file before the kernel truncates it by a path such as
    /// /proc/self/fd.
    fn tell_of_cut(self) {
        // SAFETY: the caller's path (S20).
        let fd = unsafe { next::openat(self.folder, self.path, libc::O_PATH | libc::O_CLOEXEC, 0) };
        if fd >= 0 {
            if process::stat(fd).is_ok_and(|stat| is_regular(&stat)) {
                // The kernel has the file afterwards, whatever the answer.
                let _ = ask_to_manage(self.flags, 0, &[fd]);
            }
            own::close(fd);
        }
    }

    fn open_natively(self, flags: c_int) -> c_int {
        // SAFETY: the caller's arguments (S20).
        let fd = unsafe { next::openat(self.folder, self.path, flags, self.mode) };
        let waits = libc::O_NONBLOCK;
        let is_refused = fd < 0 && flags & waits != 0 && crate::errno::read().0 == libc::EAGAIN;
        if !is_refused || !self.look().is_ok_and(|stat| is_regular(&stat)) {
            return fd;
        }
        // The open would break a lease, and O_NONBLOCK does not wait. The flag has no other meaning
        // for a file.
        // SAFETY: the caller's arguments (S20).
        let fd = unsafe { next::openat(self.folder, self.path, flags & !waits, self.mode) };
        if fd >= 0 {
            // A failure has no consequence.
            let _ = control(fd, libc::F_GETFL, 0)
                .and_then(|now| control(fd, libc::F_SETFL, now | waits as usize));
        }
        fd
    }

    fn leave_to_kernel(self) -> c_int {
        let fd = self.open_natively(self.flags);
        if fd >= 0 {
            table::set(fd, Entry::Kernel);
        }
        fd
    }

    fn look(self) -> Result<libc::stat, Errno> {
        let follow = if self.has(libc::O_NOFOLLOW) { libc::AT_SYMLINK_NOFOLLOW } else { 0 };
        let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the caller's path, and room for one stat (S20).
        let looked = unsafe { libc::fstatat(self.folder, self.path, stat.as_mut_ptr(), follow) };
        if looked != 0 {
            return Err(crate::errno::read());
        }
        // SAFETY: fstatat has filled it (S20).
        Ok(unsafe { stat.assume_init() })
    }

    fn open(self) -> c_int {
        if self.has(libc::O_TMPFILE) || self.has(libc::O_CREAT | libc::O_EXCL) {
            return self.create();
        }
        if self.has(libc::O_CREAT) && new_files::may_keep(self.flags) {
            // Most such files are new. If there is a file, a look is due.
            let fd = Call { flags: self.flags | libc::O_EXCL, ..self }.create();
            if fd >= 0 {
                return fd;
            }
        }
        for _ in 0..NR_TRIES {
            match self.look() {
                Ok(stat) if !is_regular(&stat) => break,
                Ok(stat) if small::is_small(&stat, self.flags) => return self.open_small(&stat),
                Ok(stat) => {
                    new_files::give_same(&stat);
                    return self.open_existing();
                }
                Err(Errno(libc::ENOENT)) if self.has(libc::O_CREAT) => {
                    let new = Call { flags: self.flags | libc::O_EXCL, ..self };
                    let fd = new.create();
                    if fd >= 0 || crate::errno::read() != Errno(libc::EEXIST) {
                        return fd;
                    }
                }
                Err(_) => break,
            }
        }
        self.leave_to_kernel()
    }

    fn open_small(self, stat: &libc::stat) -> c_int {
        let fd = self.open_natively(self.flags);
        if fd >= 0 {
            table::set(fd, small::opened(fd, stat));
            passing::begin_small(fd);
        }
        fd
    }

    /// Opens a file that is large or to be written.
    fn open_existing(self) -> c_int {
        let kept = self.flags & (libc::O_CLOEXEC | libc::O_NOFOLLOW);
        // SAFETY: the caller's path (S20).
        let fd = unsafe { next::openat(self.folder, self.path, kept | libc::O_PATH, 0) };
        let is_file = || process::stat(fd).is_ok_and(|stat| is_regular(&stat));
        if fd < 0 {
            return self.leave_to_kernel();
        }
        let is_cut = self.has(libc::O_TRUNC) && new_files::may_keep(self.flags);
        let opened = match table::can_manage(fd) && is_file() {
            true => ask_to_manage(self.flags, if is_cut { open::MAY_KEEP } else { 0 }, &[fd]),
            false => Opened::Kernel,
        };
        if let Opened::Managed(id) = opened {
            table::set(fd, Entry::Managed(id));
            return fd;
        }
        own::close(fd);
        let fd = self.leave_to_kernel();
        if fd >= 0 && matches!(opened, Opened::New) {
            new_files::keep(fd, self.flags);
        }
        fd
    }

    /// Creates a file. No other process can have the file open.
    fn create(self) -> c_int {
        if new_files::may_keep(self.flags) {
            let fd = self.open_natively(self.flags);
            if fd >= 0 {
                new_files::keep(fd, self.flags);
            }
            return fd;
        }
        let fd = self.open_natively(self.flags & !libc::O_ACCMODE | libc::O_RDWR);
        if fd >= 0 {
            manage_new(fd, self.flags, 0);
        }
        fd
    }
}

fn open_at(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    let call = Call { folder, path, flags, mode };
    if !process::is_on() {
        return call.open_natively(flags);
    }
    if !call.is_kernels() {
        return call.open();
    }
    if call.cuts_unseen() && !arguments::is_null(path as usize) {
        call.tell_of_cut();
    }
    let fd = call.leave_to_kernel();
    passing::ignore(fd);
    fd
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_at(libc::AT_FDCWD, path, flags, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn openat64(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    open_at(folder, path, flags, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn creat64(path: *const c_char, mode: mode_t) -> c_int {
    open_at(libc::AT_FDCWD, path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode)
}

/// Makes a temporary file. The C library would open the file without interposition.
fn make_temporary(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller's template (S20).
    let fd = unsafe { next::mkostemps(template, suffix, flags) };
    if fd >= 0 && process::is_on() {
        let flags = flags & !libc::O_ACCMODE | libc::O_RDWR;
        if new_files::may_keep(flags) {
            new_files::keep(fd, flags);
        } else {
            manage_new(fd, flags, 0);
        }
    }
    fd
}

macro_rules! temporaries {
    ($($name:ident($($arg:ident),*) = $suffix:expr, $flags:expr;)+) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(template: *mut c_char $(, $arg: c_int)*) -> c_int {
                make_temporary(template, $suffix, $flags)
            }
        )+
    };
}

temporaries! {
    mkostemps64(suffix, flags) = suffix, flags;
    mkostemp64(flags) = 0, flags;
    mkstemps64(suffix) = suffix, 0;
    mkstemp64() = 0, 0;
}
