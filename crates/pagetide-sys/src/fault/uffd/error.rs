//! Features of the kernel's userfaultfd, and its errors.

use std::fmt;
use std::io;

pub(super) const DEVICE: &str = "/dev/userfaultfd";

/// Features that Linux has added to userfaultfd.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UffdFeatures(pub(super) u64);

impl UffdFeatures {
    /// Write-protect faults (5.7).
    pub const PAGEFAULT_FLAG_WP: UffdFeatures = UffdFeatures(1 << 0);
    /// Absent pages of memory files (4.11).
    pub const MISSING_SHMEM: UffdFeatures = UffdFeatures(1 << 5);
    /// Faults as signals of the thread that touched the page (4.14).
    pub const SIGBUS: UffdFeatures = UffdFeatures(1 << 7);
    /// Pages that raise SIGBUS (6.6).
    pub const POISON: UffdFeatures = UffdFeatures(1 << 14);
    /// Moves of pages (6.8).
    pub const MOVE: UffdFeatures = UffdFeatures(1 << 16);

    const NAMES: [(UffdFeatures, &'static str); 5] = [
        (UffdFeatures::PAGEFAULT_FLAG_WP, "write-protect faults"),
        (UffdFeatures::MISSING_SHMEM, "faults of memory files"),
        (UffdFeatures::SIGBUS, "faults as signals"),
        (UffdFeatures::POISON, "poisoned pages"),
        (UffdFeatures::MOVE, "pages that are moved"),
    ];

    /// The features that a region requires.
    pub(super) const NEEDED: UffdFeatures = UffdFeatures::PAGEFAULT_FLAG_WP;

    /// The features that a region uses if available.
    pub(super) const USED: UffdFeatures =
        UffdFeatures(UffdFeatures::POISON.0 | UffdFeatures::MOVE.0);

    /// Returns true if these features include all of `others`.
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

/// How the descriptor was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UffdSource {
    /// `/dev/userfaultfd`, by its access rights.
    Device,
    /// The system call, by privilege or `vm.unprivileged_userfaultfd`.
    Call,
    /// The system call, for faults of user mode only: a system call that is given the address of an
    /// unmapped page fails with `EFAULT`.
    UserModeOnly,
}

/// The reason why a userfaultfd is unavailable, or a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UffdError {
    /// Both the device and the call failed. The message says how to get access.
    #[error(
        "userfaultfd is refused ({DEVICE}: {device}; the call: {call}): run as root, give access \
         to {DEVICE}, or set vm.unprivileged_userfaultfd to 1"
    )]
    Refused {
        /// The device's error.
        device: io::Error,
        /// The system call's error.
        call: io::Error,
    },
    /// The kernel is too old. Linux 5.7 has all required features.
    #[error("userfaultfd of this kernel lacks {lacking}: Linux 5.7 or newer is needed")]
    Lacks {
        /// The missing features.
        lacking: UffdFeatures,
    },
    /// A call failed unexpectedly.
    #[error("{call} of {len} bytes at {start:#x} failed")]
    Call {
        /// The call's name.
        call: &'static str,
        /// The first address of the call's range.
        start: u64,
        /// The length of the range in bytes.
        len: u64,
        /// The kernel's error.
        source: io::Error,
    },
}

impl UffdError {
    /// Returns the matching [`io::ErrorKind`].
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
