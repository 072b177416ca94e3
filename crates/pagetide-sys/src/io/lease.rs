//! Leases: notice of every other opener of a file before it sees a byte.
//!
//! **Problem.** A cache of a file's contents is right only as long as no other process changes the
//! file, and dirty pages are right only as long as no other process reads it. **Idea.** The kernel
//! lends the file: while the lease holds, another open of the file that does not go with it waits,
//! and the holder is told by a signal. It writes back, lets go, and the other goes on.
//!
//! ```text
//!   read lease    no process has the file open to write; one that wants to waits
//!   write lease   no other open file of it exists; one that is to be made waits
//!                 (O_PATH descriptors, and duplicates of the holder's own, do not count)
//! ```
//!
//! **Data and invariants.** A lease belongs to the open file, and ends with it. The signals go to
//! the one thread that has [`Breaks`], which has them blocked; a signal that was lost because the
//! queue was full becomes [`Break::Unknown`].
//!
//! **Ignored.** The kernel takes a lease away that is not given up within
//! /proc/sys/fs/lease-break-time (45 seconds).
//!
//! Source: Linux man page fcntl(2), "Leases", "Managing signals", `F_DUPFD_QUERY`; kcmp(2).

use crate::machine::signals;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// As asm-generic/fcntl.h has it; the C library's binding does not.
const F_SETSIG: libc::c_int = 10;

/// Which opens the lease speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseKind {
    /// Those that can write. Of a file that is open to be read only.
    Read,
    /// All others.
    Write,
}

impl LeaseKind {
    fn number(self) -> libc::c_int {
        match self {
            LeaseKind::Read => libc::F_RDLCK,
            LeaseKind::Write => libc::F_WRLCK,
        }
    }
}

/// The thread that is told of broken leases.
#[derive(Clone, Copy, Debug)]
pub struct LeaseListener(libc::pid_t);

impl LeaseListener {
    /// Has [`Breaks::wait`] return once, with [`Break::Unknown`].
    pub fn wake(self) {
        // SAFETY: S9 (numbers): no arguments.
        let own = unsafe { libc::getpid() };
        // SAFETY: S9 (numbers): a thread that has the signal blocked, or is gone.
        unsafe { libc::syscall(libc::SYS_tgkill, own, self.0, libc::SIGIO) };
    }
}

/// Takes a lease on an open file; `listener` is told when it is broken.
///
/// # Errors
/// EAGAIN while the file is open elsewhere; EACCES where it is another user's; EINVAL where the
/// file system has no leases.
pub fn take(file: BorrowedFd<'_>, kind: LeaseKind, listener: LeaseListener) -> io::Result<()> {
    send_signals_to(file, listener)?;
    control(file, F_SETSIG, signal())?;
    control(file, libc::F_SETLEASE, kind.number()).map(|_| ())
}

/// Lets go; whatever waits for the file goes on.
///
/// # Errors
/// Where there was no lease.
pub fn release(file: BorrowedFd<'_>) -> io::Result<()> {
    control(file, libc::F_SETLEASE, libc::F_UNLCK).map(|_| ())
}

/// Whether the lease is as it was taken: no opener waits for its end.
pub fn is_whole(file: BorrowedFd<'_>, kind: LeaseKind) -> bool {
    control(file, libc::F_GETLEASE, 0).is_ok_and(|now| now == kind.number())
}

/// What was noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Break {
    /// An opener waits for the file that the lease was taken on by this descriptor.
    Of(RawFd),
    /// At least one opener waits for some file.
    Unknown,
}

/// Where broken leases are noticed, by the thread that has made it.
#[derive(Debug)]
pub struct Breaks {
    listener: LeaseListener,
    /// It stays in its thread.
    _thread: PhantomData<*const ()>,
}

impl Breaks {
    /// Blocks the signals in the calling thread, which is to wait for them.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Breaks> {
        signals::block(&broken())?;
        // SAFETY: S9 (numbers): no arguments.
        let listener = LeaseListener(unsafe { libc::gettid() });
        Ok(Breaks { listener, _thread: PhantomData })
    }

    /// What leases are taken with, in any thread, for this one to notice.
    pub fn listener(&self) -> LeaseListener {
        self.listener
    }

    /// Waits for the next break.
    pub fn wait(&self) -> Break {
        let set = broken();
        // SAFETY: S9 (live values): zeros are a valid siginfo.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        loop {
            // SAFETY: S9: both live through the call.
            let number = unsafe { libc::sigwaitinfo(&set, &mut info) };
            if number == libc::SIGIO {
                return Break::Unknown;
            }
            if number == signal() {
                return Break::Of(descriptor_of(&info));
            }
        }
    }
}

/// Whether two descriptors are of one open file; `None` where the kernel does not tell.
pub fn is_same_open_file(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> Option<bool> {
    const F_DUPFD_QUERY: libc::c_int = 1027;
    if let Ok(same) = control(one, F_DUPFD_QUERY, other.as_raw_fd()) {
        return Some(same == 1);
    }
    match kcmp(own_pid(), one, own_pid(), other.as_raw_fd()) {
        Ok(order) => Some(order == 0),
        Err(_) => None,
    }
}

/// Returns true if descriptor `number` of process `pid` is of the open file that `one` is of, and
/// false if that process has no such descriptor. `None` if the kernel does not tell.
pub fn is_open_file_of(one: BorrowedFd<'_>, pid: i32, number: RawFd) -> Option<bool> {
    match kcmp(own_pid(), one, pid, number) {
        Ok(order) => Some(order == 0),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EBADF)) => {
            Some(false)
        }
        Err(_) => None,
    }
}

fn own_pid() -> i32 {
    // SAFETY: S9 (numbers): no arguments.
    unsafe { libc::getpid() }
}

/// Compares the open file behind a descriptor of process `own` with one of process `pid`: 0 means
/// that they are the same.
fn kcmp(own: i32, one: BorrowedFd<'_>, pid: i32, other: RawFd) -> io::Result<libc::c_long> {
    const KCMP_FILE: libc::c_long = 0;
    let (one, other) = (one.as_raw_fd(), other);
    // SAFETY: S9: numbers only.
    match unsafe { libc::syscall(libc::SYS_kcmp, own, pid, KCMP_FILE, one, other) } {
        ..0 => Err(io::Error::last_os_error()),
        order => Ok(order),
    }
}

fn send_signals_to(file: BorrowedFd<'_>, listener: LeaseListener) -> io::Result<()> {
    const F_SETOWN_EX: libc::c_int = 15;
    const F_OWNER_TID: libc::c_int = 0;
    let owner = [F_OWNER_TID, listener.0];
    // SAFETY: S9 (live values): the two numbers of a struct f_owner_ex.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), F_SETOWN_EX, owner.as_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn control(
    file: BorrowedFd<'_>,
    command: libc::c_int,
    argument: libc::c_int,
) -> io::Result<libc::c_int> {
    // SAFETY: S9 (numbers): an open descriptor, and commands that take numbers.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Queued, and with the descriptor, unlike SIGIO.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 4
}

/// The signals of broken leases.
fn broken() -> libc::sigset_t {
    signals::set_of(&[signal(), libc::SIGIO])
}

/// `si_fd`, which the C library's binding has no name for: behind `si_band`, a long.
fn descriptor_of(info: &libc::siginfo_t) -> RawFd {
    const SI_FD_AT: usize = 24;
    let start = std::ptr::from_ref(info).cast::<u8>();
    // SAFETY: S9: within the siginfo, aligned, and any bits are a number.
    unsafe { start.wrapping_add(SI_FD_AT).cast::<RawFd>().read() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::os::fd::AsFd;
    use std::os::unix::fs::OpenOptionsExt;

    fn open(path: &std::path::Path) -> File {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
    }

    #[test]
    fn another_opener_is_heard_of_and_waits_until_the_lease_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let breaks = Breaks::new().unwrap();
        let listener = breaks.listener();
        let name = path.clone();
        let taken = std::thread::spawn(move || {
            let file = open(&name);
            take(file.as_fd(), LeaseKind::Write, listener).map(|()| file)
        });
        let file = match taken.join().unwrap() {
            Ok(file) => file,
            Err(error) => {
                println!("SKIPPED: leases: the temporary folder has none: {error}");
                return;
            }
        };
        assert!(is_whole(file.as_fd(), LeaseKind::Write));
        let other = std::thread::spawn(move || File::open(path).unwrap());
        assert_eq!(breaks.wait(), Break::Of(file.as_raw_fd()));
        assert!(!is_whole(file.as_fd(), LeaseKind::Write));
        release(file.as_fd()).unwrap();
        other.join().unwrap();
    }

    #[test]
    fn names_and_duplicates_are_no_other_open_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = open(&path);
        let name = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(&path).unwrap();
        let copy = file.try_clone().unwrap();
        let breaks = Breaks::new().unwrap();
        let Ok(()) = take(file.as_fd(), LeaseKind::Write, breaks.listener()) else {
            println!("SKIPPED: leases: the temporary folder has none");
            return;
        };
        assert_eq!(is_same_open_file(file.as_fd(), copy.as_fd()), Some(true));
        assert_eq!(is_same_open_file(file.as_fd(), name.as_fd()), Some(false));
    }
}
