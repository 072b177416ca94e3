//! userfaultfd: page faults of an address range, told to the program itself.
//!
//! **Problem.** A range of memory whose pages come and go needs a way to bring them at a fault.
//! The kernel offers that as a file descriptor and a few ioctls, of which each may be refused, or
//! missing in an older kernel, and most of whose errors are part of normal life.
//!
//! **Idea.** One type for the descriptor, a method for each ioctl, and each error listed where it
//! is matched.
//!
//! ```text
//!   a thread touches a page ---> fault: missing   no page in the file
//!                                       minor     a page in the file, none mapped
//!                                       write     mapped, write-protected
//!        sleeps                              |
//!                                            v  read(2): an address, and why
//!        goes on  <--- CONTINUE, WRITEPROTECT, WAKE, POISON
//! ```
//!
//! **Data and invariants.** S26: an ioctl gets the address of a live value on the stack, of the
//! layout the manual says, and a range of the mapping it is about.
//!
//! **Ignored.** Events other than faults (none are asked for); huge pages; COPY and MOVE, as a
//! region's pages are filled behind its user's back.
//!
//! Source: manual pages userfaultfd(2), ioctl_userfaultfd(2) and the UFFDIO_* pages; Linux
//! documentation, "Userfaultfd" (admin-guide/mm/userfaultfd).

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::memory::frames::FRAME_BYTES;

const DEVICE: &str = "/dev/userfaultfd";
const API: u64 = 0xaa;
const USER_MODE_ONLY: libc::c_int = 1;

// What can be asked of the descriptor: direction, size of the argument, type, number.
const IOC_NEW: u64 = 0xaa00;
const IOC_API: u64 = read_write::<ApiArgument>(0x3f);
const IOC_REGISTER: u64 = read_write::<RegisterArgument>(0x00);
const IOC_WAKE: u64 = 2 << 30 | (size_of::<RangeArgument>() as u64) << 16 | 0xaa02;
const IOC_WRITEPROTECT: u64 = read_write::<ProtectArgument>(0x06);
const IOC_CONTINUE: u64 = read_write::<PagesArgument>(0x07);
const IOC_POISON: u64 = read_write::<PagesArgument>(0x08);

const REGISTER_MISSING: u64 = 1 << 0;
const REGISTER_WP: u64 = 1 << 1;
const REGISTER_MINOR: u64 = 1 << 2;
const WRITEPROTECT_ON: u64 = 1 << 0;
const CONTINUE_WP: u64 = 1 << 1;

const EVENT_PAGEFAULT: u8 = 0x12;
const FAULT_WRITE: u64 = 1 << 0;
const FAULT_WP: u64 = 1 << 1;
const FAULT_MINOR: u64 = 1 << 2;
/// Bytes of one message; faults read at a time.
const MESSAGE_BYTES: usize = 32;
const MESSAGES_MAX: usize = 16;

const fn read_write<T>(number: u64) -> u64 {
    3 << 30 | (size_of::<T>() as u64) << 16 | 0xaa00 | number
}

#[repr(C)]
struct ApiArgument {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RangeArgument {
    start: u64,
    len: u64,
}

#[repr(C)]
struct RegisterArgument {
    range: RangeArgument,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct ProtectArgument {
    range: RangeArgument,
    mode: u64,
}

/// CONTINUE and POISON: `done` is how many bytes were, or an error, negated.
#[repr(C)]
struct PagesArgument {
    range: RangeArgument,
    mode: u64,
    done: i64,
}

/// What a kernel's userfaultfd can do, of what Linux has added since the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UffdFeatures(u64);

impl UffdFeatures {
    /// Write-protect faults, told apart (5.7).
    pub const PAGEFAULT_FLAG_WP: UffdFeatures = UffdFeatures(1 << 0);
    /// Missing faults of shared memory (4.11).
    pub const MISSING_SHMEM: UffdFeatures = UffdFeatures(1 << 5);
    /// Minor faults of shared memory (5.14).
    pub const MINOR_SHMEM: UffdFeatures = UffdFeatures(1 << 10);
    /// Write protection of shared memory (5.19).
    pub const WP_SHMEM: UffdFeatures = UffdFeatures(1 << 12);
    /// Pages that raise SIGBUS (6.6).
    pub const POISON: UffdFeatures = UffdFeatures(1 << 14);

    const NAMES: [(UffdFeatures, &'static str); 5] = [
        (UffdFeatures::PAGEFAULT_FLAG_WP, "write-protect faults"),
        (UffdFeatures::MISSING_SHMEM, "missing faults of shared memory"),
        (UffdFeatures::MINOR_SHMEM, "minor faults of shared memory"),
        (UffdFeatures::WP_SHMEM, "write protection of shared memory"),
        (UffdFeatures::POISON, "poisoned pages"),
    ];

    /// What a region cannot do without.
    const NEEDED: UffdFeatures = UffdFeatures(
        UffdFeatures::PAGEFAULT_FLAG_WP.0
            | UffdFeatures::MISSING_SHMEM.0
            | UffdFeatures::MINOR_SHMEM.0
            | UffdFeatures::WP_SHMEM.0,
    );

    /// Whether all of `others` are among these.
    pub fn has(self, others: UffdFeatures) -> bool {
        self.0 & others.0 == others.0
    }
}

impl fmt::Display for UffdFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (feature, name) in UffdFeatures::NAMES {
            if self.has(feature) {
                write!(f, "{between}{name}")?;
                between = ", ";
            }
        }
        Ok(())
    }
}

/// How the descriptor was had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UffdSource {
    /// From `/dev/userfaultfd`, by its access rights.
    Device,
    /// From the system call, by privilege or `vm.unprivileged_userfaultfd`.
    Call,
    /// From the system call, for faults of user mode alone: a system call that is given an address
    /// whose page is not mapped fails with `EFAULT`.
    UserModeOnly,
}

/// Why there is no userfaultfd, or why it did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UffdError {
    /// Neither the device nor the call gave one; the message says what to change.
    #[error(
        "userfaultfd is refused ({DEVICE}: {device}; the call: {call}): run as root, give access \
         to {DEVICE}, or set vm.unprivileged_userfaultfd to 1"
    )]
    Refused {
        /// What opening the device said.
        device: io::Error,
        /// What the system call said.
        call: io::Error,
    },
    /// The kernel is too old: 5.19 has all that is needed.
    #[error("userfaultfd of this kernel lacks {lacking}: Linux 5.19 or newer is needed")]
    Lacks {
        /// What it has not.
        lacking: UffdFeatures,
    },
    /// A call failed that should not.
    #[error("{call} of {len} bytes at {start:#x} failed")]
    Call {
        /// The call's name.
        call: &'static str,
        /// Where its range begins.
        start: u64,
        /// How long its range is.
        len: u64,
        /// What the kernel said.
        source: io::Error,
    },
}

impl UffdError {
    /// The kind of [`io::Error`] that says the same.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            UffdError::Refused { call, .. } => call.kind(),
            UffdError::Lacks { .. } => io::ErrorKind::Unsupported,
            UffdError::Call { source, .. } => source.kind(),
        }
    }
}

impl From<UffdError> for io::Error {
    fn from(error: UffdError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}

/// A fault, as the kernel tells it. The thread that serves it looks at the page itself: by then,
/// the page may be in another state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The address touched, rounded down to its page.
    pub address: usize,
    /// Whether it was a store.
    pub is_write: bool,
    /// What the kernel found there.
    pub kind: FaultKind,
}

/// What the kernel found where a fault was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// No page in the file.
    Missing,
    /// A page in the file, which was not mapped.
    Minor,
    /// A page that was mapped for reading.
    WriteProtect,
}

/// What came of mapping a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Continued {
    /// It is mapped now, and the waiting threads were woken.
    Mapped,
    /// Something is mapped there already; no thread was woken.
    AlreadyMapped,
    /// The kernel does not know the mode: it cannot map write-protected.
    UnknownMode,
}

/// A userfaultfd.
#[derive(Debug)]
pub(crate) struct Uffd {
    file: File,
    features: UffdFeatures,
    source: UffdSource,
}

impl Uffd {
    /// Opens one, by whichever way is allowed, with all features of [`UffdFeatures`] it has.
    ///
    /// # Errors
    /// [`UffdError::Refused`], [`UffdError::Lacks`].
    pub(crate) fn open() -> Result<Uffd, UffdError> {
        // A descriptor is asked only once: the first is to find out what there is.
        let (first, _) = open_descriptor()?;
        let known = agree(first.as_fd(), UffdFeatures(0))?;
        if !known.has(UffdFeatures::NEEDED) {
            return Err(UffdError::Lacks {
                lacking: UffdFeatures(UffdFeatures::NEEDED.0 & !known.0),
            });
        }
        let wanted = UffdFeatures(UffdFeatures::NEEDED.0 | known.0 & UffdFeatures::POISON.0);
        let (descriptor, source) = open_descriptor()?;
        agree(descriptor.as_fd(), wanted)?;
        Ok(Uffd { file: descriptor.into(), features: wanted, source })
    }

    pub(crate) fn features(&self) -> UffdFeatures {
        self.features
    }

    pub(crate) fn source(&self) -> UffdSource {
        self.source
    }

    /// Has faults of the range told here from now on: missing, minor and write-protect.
    ///
    /// # Safety
    /// The range is a shared mapping of a memory file, of which nothing else has been told yet.
    pub(crate) unsafe fn register(&self, range: Range<usize>) -> Result<(), UffdError> {
        let mode = REGISTER_MISSING | REGISTER_MINOR | REGISTER_WP;
        let range = argument(&range);
        let mut register = RegisterArgument { range, mode, ioctls: 0 };
        // SAFETY: S26 (the argument's layout), and the caller's word for the range.
        let result = unsafe { ioctl(self.file.as_raw_fd(), IOC_REGISTER, &mut register) };
        result.map_err(failed("UFFDIO_REGISTER", range))
    }

    /// Reads faults that were not told yet, without waiting; calls `each` for every one.
    ///
    /// # Errors
    /// What read(2) says, but for `EAGAIN` (there is none) and `EINTR`.
    pub(crate) fn read_faults(&self, mut each: impl FnMut(Fault)) -> io::Result<()> {
        let mut buffer = [0; MESSAGE_BYTES * MESSAGES_MAX];
        let len = match (&self.file).read(&mut buffer) {
            Ok(len) => len,
            // Another thread was faster, or the fault was resolved meanwhile.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        buffer[..len].chunks_exact(MESSAGE_BYTES).filter_map(parse).for_each(&mut each);
        Ok(())
    }

    /// Maps the page of the file at this place, and wakes the threads that wait for it.
    ///
    /// # Errors
    /// [`UffdError::Call`]: `EFAULT` if the file has no page there, `ENOMEM`, `ESRCH` at exit.
    pub(crate) fn continue_at(
        &self,
        range: Range<usize>,
        write: bool,
    ) -> Result<Continued, UffdError> {
        let mode = if write { 0 } else { CONTINUE_WP };
        let range = argument(&range);
        loop {
            let mut pages = PagesArgument { range, mode, done: 0 };
            // SAFETY: S26 (the argument's layout; the range is the region's, or the call fails).
            let result = unsafe { ioctl(self.file.as_raw_fd(), IOC_CONTINUE, &mut pages) };
            let Err(error) = result else { return Ok(Continued::Mapped) };
            match error.raw_os_error() {
                // The mapping was being changed meanwhile: by fork, or by a hole punched.
                Some(libc::EAGAIN) => std::thread::yield_now(),
                Some(libc::EEXIST) => return Ok(Continued::AlreadyMapped),
                Some(libc::EINVAL) if !write => return Ok(Continued::UnknownMode),
                _ => return Err(failed("UFFDIO_CONTINUE", range)(error)),
            }
        }
    }

    /// Takes writing away from the pages mapped in the range, or gives it back and wakes what waits
    /// to write.
    pub(crate) fn protect(&self, range: Range<usize>, on: bool) -> Result<(), UffdError> {
        let mode = if on { WRITEPROTECT_ON } else { 0 };
        let range = argument(&range);
        loop {
            let mut protect = ProtectArgument { range, mode };
            // SAFETY: S26 (the argument's layout; the range is the region's, or the call fails).
            let result = unsafe { ioctl(self.file.as_raw_fd(), IOC_WRITEPROTECT, &mut protect) };
            match result {
                Ok(()) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
                    std::thread::yield_now();
                }
                Err(error) => return Err(failed("UFFDIO_WRITEPROTECT", range)(error)),
            }
        }
    }

    /// Wakes threads that wait for a page of the range: they look again.
    pub(crate) fn wake(&self, range: Range<usize>) -> Result<(), UffdError> {
        let mut range = argument(&range);
        // SAFETY: S26 (the argument's layout; the range is the region's, or the call fails).
        let result = unsafe { ioctl(self.file.as_raw_fd(), IOC_WAKE, &mut range) };
        result.map_err(failed("UFFDIO_WAKE", range))
    }

    /// Has the next touches of the pages raise SIGBUS, and wakes what waits for them.
    pub(crate) fn poison(&self, range: Range<usize>) -> Result<(), UffdError> {
        let range = argument(&range);
        let mut pages = PagesArgument { range, mode: 0, done: 0 };
        // SAFETY: S26 (the argument's layout; the range is the region's, or the call fails).
        let result = unsafe { ioctl(self.file.as_raw_fd(), IOC_POISON, &mut pages) };
        result.map_err(failed("UFFDIO_POISON", range))
    }
}

impl AsFd for Uffd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn argument(range: &Range<usize>) -> RangeArgument {
    debug_assert!(range.start.is_multiple_of(FRAME_BYTES) && range.end.is_multiple_of(FRAME_BYTES));
    RangeArgument { start: range.start as u64, len: range.len() as u64 }
}

fn failed(call: &'static str, range: RangeArgument) -> impl FnOnce(io::Error) -> UffdError {
    move |source| UffdError::Call { call, start: range.start, len: range.len, source }
}

/// One of the three ways, in order of what they can do.
fn open_descriptor() -> Result<(OwnedFd, UffdSource), UffdError> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    let from_device = File::options().read(true).write(true).open(DEVICE).and_then(|device| {
        // SAFETY: S9 (the flags are a number): the call makes a descriptor, or fails.
        owned(unsafe { libc::ioctl(device.as_raw_fd(), IOC_NEW, flags) }.into())
    });
    let device = match from_device {
        Ok(descriptor) => return Ok((descriptor, UffdSource::Device)),
        Err(error) => error,
    };
    // SAFETY: S9 (the flags are a number): the call makes a descriptor, or fails.
    if let Ok(descriptor) = owned(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) }) {
        return Ok((descriptor, UffdSource::Call));
    }
    // SAFETY: S9, as above.
    match owned(unsafe { libc::syscall(libc::SYS_userfaultfd, flags | USER_MODE_ONLY) }) {
        Ok(descriptor) => Ok((descriptor, UffdSource::UserModeOnly)),
        Err(call) => Err(UffdError::Refused { device, call }),
    }
}

fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    let descriptor = RawFd::try_from(result).ok().filter(|descriptor| *descriptor >= 0);
    let descriptor = descriptor.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: S26 (the kernel has just made the descriptor, and nothing else knows of it).
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Agrees on features, once for a descriptor; returns all that the kernel has.
fn agree(descriptor: BorrowedFd<'_>, wanted: UffdFeatures) -> Result<UffdFeatures, UffdError> {
    let mut api = ApiArgument { api: API, features: wanted.0, ioctls: 0 };
    // SAFETY: S26 (the argument's layout).
    let result = unsafe { ioctl(descriptor.as_raw_fd(), IOC_API, &mut api) };
    result.map_err(failed("UFFDIO_API", RangeArgument { start: 0, len: 0 }))?;
    Ok(UffdFeatures(api.features))
}

/// # Safety
/// `request` takes a pointer to a `T`, and what it does to memory is the caller's to do.
unsafe fn ioctl<T>(descriptor: RawFd, request: u64, argument: &mut T) -> io::Result<()> {
    // SAFETY: S26 (a live value of the layout the request takes, by the caller's word).
    let result = unsafe { libc::ioctl(descriptor, request, std::ptr::from_mut(argument)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The fault a message tells of; `None` for events that were never asked for.
fn parse(message: &[u8]) -> Option<Fault> {
    let number = |at: usize| {
        u64::from_ne_bytes(message[at..at + 8].try_into().expect("a message has 32 bytes"))
    };
    if message[0] != EVENT_PAGEFAULT {
        return None;
    }
    let (flags, address) = (number(8), number(16) as usize);
    let kind = match flags {
        _ if flags & FAULT_WP != 0 => FaultKind::WriteProtect,
        _ if flags & FAULT_MINOR != 0 => FaultKind::Minor,
        _ => FaultKind::Missing,
    };
    let is_write = flags & (FAULT_WRITE | FAULT_WP) != 0;
    Some(Fault { address: address - address % FRAME_BYTES, is_write, kind })
}
