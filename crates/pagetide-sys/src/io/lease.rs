//! Leases: a notice before another process opens a file.
//!
//! **Problem.** A cached file is valid only while no other process changes it, and dirty pages only
//! while no other process reads them. **Idea.** While a lease holds, a conflicting open waits, and
//! a signal tells the holder, which writes back and releases the lease.
//!
//! ```text
//!   read lease    no process has the file open for writing; such an open waits
//!   write lease   no other open description of the file exists; a new one waits
//!                 (O_PATH descriptors and duplicates of the holder's descriptor do not count)
//! ```
//!
//! **Data and invariants.** A lease belongs to the open file description, and ends with it. Signals
//! go to the thread that owns [`Breaks`], which has them blocked. A signal lost to a full queue
//! becomes [`Break::Unknown`].
//!
//! **Ignored.** The kernel removes a lease after /proc/sys/fs/lease-break-time (45 seconds).
//!
//! Source: Linux man pages fcntl(2) "Leases", "Managing signals", `F_DUPFD_QUERY`, and kcmp(2).

use crate::machine::signals;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// From asm-generic/fcntl.h, missing in `libc`.
const F_SETSIG: libc::c_int = 10;

/// The opens that a lease conflicts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseKind {
    /// Opens for writing. Only for a file that is open read-only.
    Read,
    /// All other opens.
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

/// The thread that receives the signals of broken leases.
#[derive(Clone, Copy, Debug)]
pub struct LeaseListener(libc::pid_t);

impl LeaseListener {
    /// Makes [`Breaks::wait`] return once, with [`Break::Unknown`].
    pub fn wake(self) {
        // SAFETY: S9 (numbers): no arguments.
        let own = unsafe { libc::getpid() };
        // SAFETY: S9 (numbers): the thread has the signal blocked, or is gone.
        unsafe { libc::syscall(libc::SYS_tgkill, own, self.0, libc::SIGIO) };
    }
}

/// Takes a lease on an open file. `listener` learns of its break.
///
/// # Errors
/// Fails with `EAGAIN` if the file is open elsewhere, with `EACCES` if another user owns the file,
/// and with `EINVAL` if the file system has no leases.
pub fn take(file: BorrowedFd<'_>, kind: LeaseKind, listener: LeaseListener) -> io::Result<()> {
    send_signals_to(file, listener)?;
    control(file, F_SETSIG, signal())?;
    control(file, libc::F_SETLEASE, kind.number()).map(|_| ())
}

/// Releases the lease, so that waiting opens continue.
///
/// # Errors
/// Fails if there was no lease.
pub fn release(file: BorrowedFd<'_>) -> io::Result<()> {
    control(file, libc::F_SETLEASE, libc::F_UNLCK).map(|_| ())
}

/// Returns true if no other open file description of the file exists, in any process. Takes a
/// write lease and releases it. False if the file cannot be leased.
///
/// The signal for an opener in between is one that programs ignore by default.
pub(crate) fn is_sole(file: BorrowedFd<'_>) -> bool {
    let leased = control(file, F_SETSIG, libc::SIGURG)
        .and_then(|_| control(file, libc::F_SETLEASE, LeaseKind::Write.number()));
    leased.is_ok() && is_whole(file, LeaseKind::Write) && release(file).is_ok()
}

/// Returns true if the lease is unbroken: no opener waits for its release.
pub fn is_whole(file: BorrowedFd<'_>, kind: LeaseKind) -> bool {
    control(file, libc::F_GETLEASE, 0).is_ok_and(|now| now == kind.number())
}

/// A notice of a broken lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Break {
    /// An opener waits for the file of this descriptor.
    Of(RawFd),
    /// One or more openers wait for an unknown file.
    Unknown,
}

/// The receiver of broken leases, bound to the thread that created it.
#[derive(Debug)]
pub struct Breaks {
    listener: LeaseListener,
    /// Makes the type `!Send`.
    _thread: PhantomData<*const ()>,
}

impl Breaks {
    /// Blocks the signals in the calling thread, which will wait for them.
    ///
    /// # Errors
    /// Fails with the system's error.
    pub fn new() -> io::Result<Breaks> {
        signals::block(&broken())?;
        // SAFETY: S9 (numbers): no arguments.
        let listener = LeaseListener(unsafe { libc::gettid() });
        Ok(Breaks { listener, _thread: PhantomData })
    }

    /// Returns the listener, for taking leases in any thread.
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

/// Returns true if two descriptors share one open file description, `None` if the kernel cannot
/// tell.
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

/// Returns true if descriptor `number` of process `pid` shares the open file description of `one`,
/// and false if the process has no such descriptor. `None` if the kernel cannot tell.
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

/// Returns 0 if the two open file descriptions are the same.
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
    // SAFETY: S9 (numbers): the descriptor is open, and the commands take numbers.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A real-time signal, which is queued and carries the descriptor, unlike SIGIO.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 4
}

fn broken() -> libc::sigset_t {
    signals::set_of(&[signal(), libc::SIGIO])
}

/// Reads `si_fd`, which is unnamed in `libc`, after the long `si_band`.
fn descriptor_of(info: &libc::siginfo_t) -> RawFd {
    const SI_FD_AT: usize = 24;
    let start = std::ptr::from_ref(info).cast::<u8>();
    // SAFETY: S9: the address is aligned and within the siginfo, and any bits are a number.
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
