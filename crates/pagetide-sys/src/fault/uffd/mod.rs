//! userfaultfd: page faults of an address range, delivered to the program.
//!
//! **Problem.** Older kernels lack some of the ioctls, and most of their errors are normal.
//!
//! **Idea.** One method per ioctl, with each error listed at its match.
//!
//! ```text
//!   a thread touches an absent page, or stores to a write-protected one
//!        |
//!        +--as a signal--> SIGBUS: the thread serves its own fault, see `signal`
//!        +--as a message-> the thread sleeps, another one reads the address and the cause
//!        v
//!   continues once there is a page:  MOVE, COPY, WRITEPROTECT, WAKE, POISON
//! ```
//!
//! **Data and invariants.** S9: an ioctl gets the address of a live value with the manual's layout.
//!
//! **Ignored.** Events other than faults, huge pages, shared memory.
//!
//! Source: manual pages userfaultfd(2), ioctl_userfaultfd(2) and the UFFDIO_* pages, and the Linux
//! documentation, "Userfaultfd" (admin-guide/mm/userfaultfd).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::memory::frames::FRAME_BYTES;

use self::abi::{
    API, ApiArgument, COPY_WP, IOC_API, IOC_COPY, IOC_MOVE, IOC_NEW, IOC_POISON, IOC_REGISTER,
    IOC_WAKE, IOC_WRITEPROTECT, PagesArgument, ProtectArgument, REGISTER_MISSING, REGISTER_WP,
    RangeArgument, RegisterArgument, TransferArgument, USER_MODE_ONLY, WRITEPROTECT_ON, ioctl,
};
use self::error::DEVICE;

pub use self::error::{UffdError, UffdFeatures, UffdSource};
pub use self::message::{Fault, FaultKind};
pub use self::store::StoreFault;

mod abi;
mod error;
mod message;
mod store;

/// The result of putting a page somewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Put {
    /// The page is there, and waiting threads were woken.
    Done,
    /// The target holds a page or a marker.
    Occupied,
    /// The source holds no page.
    Nothing,
    /// The page is in use elsewhere: in a forked child, or by a device.
    Busy,
}

#[derive(Debug)]
pub(crate) struct Uffd {
    file: File,
    features: UffdFeatures,
    source: UffdSource,
}

impl Uffd {
    /// Opens a userfaultfd with faults as messages, in any permitted way.
    ///
    /// # Errors
    /// Fails with [`UffdError::Refused`] or [`UffdError::Lacks`].
    pub(crate) fn open() -> Result<Uffd, UffdError> {
        Uffd::open_with(UffdFeatures(0), open_descriptor)
    }

    /// Opens a userfaultfd with user-mode faults as signals, which needs no privilege.
    ///
    /// # Errors
    /// As [`Uffd::open`], and [`UffdError::Lacks`] if the kernel lacks signals.
    pub(crate) fn open_for_signals() -> Result<Uffd, UffdError> {
        Uffd::open_with(UffdFeatures::SIGBUS, || match call(USER_MODE_ONLY) {
            Ok(descriptor) => Ok((descriptor, UffdSource::UserModeOnly)),
            // Kernels before 5.11 lack the flag.
            Err(_) => open_descriptor(),
        })
    }

    /// As [`Uffd::open_for_signals`], for memory files.
    ///
    /// # Errors
    /// As [`Uffd::open_for_signals`].
    pub(crate) fn open_for_files() -> Result<Uffd, UffdError> {
        let needed = UffdFeatures(UffdFeatures::SIGBUS.0 | UffdFeatures::MISSING_SHMEM.0);
        Uffd::open_with(needed, || match call(USER_MODE_ONLY) {
            Ok(descriptor) => Ok((descriptor, UffdSource::UserModeOnly)),
            Err(_) => open_descriptor(),
        })
    }

    fn open_with(
        needed: UffdFeatures,
        open: impl Fn() -> Result<(OwnedFd, UffdSource), UffdError>,
    ) -> Result<Uffd, UffdError> {
        let needed = UffdFeatures(UffdFeatures::NEEDED.0 | needed.0);
        // Features can be queried once per descriptor, so the first descriptor only serves for the
        // query.
        let (first, _) = open()?;
        let known = agree(first.as_fd(), UffdFeatures(0))?;
        if !known.has(needed) {
            return Err(UffdError::Lacks { lacking: UffdFeatures(needed.0 & !known.0) });
        }
        let wanted = UffdFeatures(needed.0 | known.0 & UffdFeatures::USED.0);
        let (descriptor, source) = open()?;
        agree(descriptor.as_fd(), wanted)?;
        Ok(Uffd { file: descriptor.into(), features: wanted, source })
    }

    pub(crate) fn features(&self) -> UffdFeatures {
        self.features
    }

    pub(crate) fn source(&self) -> UffdSource {
        self.source
    }

    /// Delivers faults of the range here: on absent pages, and on stores to protected pages.
    ///
    /// # Safety
    /// The range is private memory that no other code knows yet.
    pub(crate) unsafe fn register(&self, range: Range<usize>) -> Result<(), UffdError> {
        // SAFETY: S24, S9, by the caller's word.
        unsafe { self.register_for(range, REGISTER_MISSING | REGISTER_WP) }
    }

    /// Makes touches of the range's holes raise signals, and allows putting pages there.
    ///
    /// # Safety
    /// The range is a mapping of a memory file that no other code knows yet.
    pub(crate) unsafe fn register_absent(&self, range: Range<usize>) -> Result<(), UffdError> {
        // SAFETY: S9, S33, by the caller's word.
        unsafe { self.register_for(range, REGISTER_MISSING) }
    }

    /// Allows moving pages into the range. The kernel keeps serving its faults, since no page is
    /// protected.
    ///
    /// # Safety
    /// The range is private memory.
    pub(crate) unsafe fn register_target(&self, range: Range<usize>) -> Result<(), UffdError> {
        // SAFETY: S24, S9, by the caller's word.
        unsafe { self.register_for(range, REGISTER_WP) }
    }

    /// # Safety
    /// As of [`Uffd::register`], for faults of `mode`.
    unsafe fn register_for(&self, range: Range<usize>, mode: u64) -> Result<(), UffdError> {
        let range = argument(&range);
        let mut register = RegisterArgument { range, mode, ioctls: 0 };
        // SAFETY: S9 (the argument's layout), and the caller's word for the range.
        let result = unsafe { ioctl(self.file.as_raw_fd(), IOC_REGISTER, &mut register) };
        result.map_err(failed("UFFDIO_REGISTER", range))
    }

    /// Reads pending faults without blocking.
    ///
    /// # Errors
    /// Fails with the error of read(2), except `EAGAIN` (no fault) and `EINTR`.
    pub(crate) fn read_faults(&self, each: impl FnMut(Fault)) -> io::Result<()> {
        message::read_faults(&self.file, each)
    }

    /// Moves the page at `source` to the empty `target`, writable, and wakes waiting threads.
    ///
    /// # Safety
    /// Both are whole pages of private memory, exclusively the caller's apart from faults at
    /// `target`.
    ///
    /// # Errors
    /// Fails with [`UffdError::Call`]: `ENOMEM`, or `ESRCH` at exit.
    pub(crate) unsafe fn move_to(
        &self,
        target: Range<usize>,
        source: usize,
    ) -> Result<Put, UffdError> {
        // SAFETY: S24, S9, by the caller's word.
        unsafe { self.transfer("UFFDIO_MOVE", IOC_MOVE, &target, source, 0) }
    }

    /// Copies pages from `source` to `target`, write-protected unless `writable`, and wakes waiting
    /// threads. Returns the number of bytes copied, 0 if the first page is occupied.
    ///
    /// # Safety
    /// As of [`Uffd::move_to`], with `source` only read.
    ///
    /// # Errors
    /// As of [`Uffd::move_to`].
    pub(crate) unsafe fn copy_some(
        &self,
        target: &Range<usize>,
        source: usize,
        writable: bool,
    ) -> Result<usize, UffdError> {
        let mode = if writable { 0 } else { COPY_WP };
        let RangeArgument { start, len } = argument(target);
        loop {
            let source = source as u64;
            let mut argument = TransferArgument { target: start, source, len, mode, done: 0 };
            // SAFETY: S9 (the argument's layout), and the caller's word for both ranges.
            let result = unsafe { ioctl(self.file.as_raw_fd(), IOC_COPY, &mut argument) };
            let Err(error) = result else { return Ok(len as usize) };
            match error.raw_os_error() {
                _ if argument.done > 0 => return Ok(argument.done as usize),
                // The mapping was changing meanwhile.
                Some(libc::EAGAIN) => std::thread::yield_now(),
                Some(libc::EEXIST) => return Ok(0),
                _ => return Err(failed("UFFDIO_COPY", RangeArgument { start, len })(error)),
            }
        }
    }

    /// # Safety
    /// As of the callers.
    unsafe fn transfer(
        &self,
        name: &'static str,
        request: u64,
        target: &Range<usize>,
        source: usize,
        mode: u64,
    ) -> Result<Put, UffdError> {
        let RangeArgument { start, len } = argument(target);
        loop {
            let source = source as u64;
            let mut argument = TransferArgument { target: start, source, len, mode, done: 0 };
            // SAFETY: S9 (the argument's layout), and the caller's word for both ranges.
            let result = unsafe { ioctl(self.file.as_raw_fd(), request, &mut argument) };
            let Err(error) = result else { return Ok(Put::Done) };
            match error.raw_os_error() {
                // The mapping was changing meanwhile, or the page was in use.
                Some(libc::EAGAIN) => std::thread::yield_now(),
                Some(libc::EEXIST) => return Ok(Put::Occupied),
                Some(libc::ENOENT) => return Ok(Put::Nothing),
                Some(libc::EBUSY) => return Ok(Put::Busy),
                _ => return Err(failed(name, RangeArgument { start, len })(error)),
            }
        }
    }

    /// Write-protects the mapped pages, or unprotects them and wakes waiting writers.
    pub(crate) fn protect(&self, range: Range<usize>, on: bool) -> Result<(), UffdError> {
        let mode = if on { WRITEPROTECT_ON } else { 0 };
        let range = argument(&range);
        loop {
            let mut protect = ProtectArgument { range, mode };
            // SAFETY: S9 (the argument's layout). The range is the region's, or the call fails.
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

    pub(crate) fn wake(&self, range: Range<usize>) -> Result<(), UffdError> {
        let mut range = argument(&range);
        // SAFETY: S9 (the argument's layout). The range is the region's, or the call fails.
        let result = unsafe { ioctl(self.file.as_raw_fd(), IOC_WAKE, &mut range) };
        result.map_err(failed("UFFDIO_WAKE", range))
    }

    pub(crate) fn poison(&self, range: Range<usize>) -> Result<(), UffdError> {
        let range = argument(&range);
        let mut pages = PagesArgument { range, mode: 0, done: 0 };
        // SAFETY: S9 (the argument's layout). The range is the region's, or the call fails.
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

/// Most capable first.
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
    if let Ok(descriptor) = call(0) {
        return Ok((descriptor, UffdSource::Call));
    }
    match call(USER_MODE_ONLY) {
        Ok(descriptor) => Ok((descriptor, UffdSource::UserModeOnly)),
        Err(call) => Err(UffdError::Refused { device, call }),
    }
}

fn call(flags: libc::c_int) -> io::Result<OwnedFd> {
    let flags = flags | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: S9 (the flags are a number): the call makes a descriptor, or fails.
    owned(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) })
}

fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    let descriptor = RawFd::try_from(result).ok().filter(|descriptor| *descriptor >= 0);
    let descriptor = descriptor.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: S9 (the kernel has just made the descriptor, and only this code knows it).
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Agrees on features, once per descriptor. Returns all features of the kernel.
fn agree(descriptor: BorrowedFd<'_>, wanted: UffdFeatures) -> Result<UffdFeatures, UffdError> {
    let mut api = ApiArgument { api: API, features: wanted.0, ioctls: 0 };
    // SAFETY: S9 (the argument's layout).
    let result = unsafe { ioctl(descriptor.as_raw_fd(), IOC_API, &mut api) };
    result.map_err(failed("UFFDIO_API", RangeArgument { start: 0, len: 0 }))?;
    Ok(UffdFeatures(api.features))
}
