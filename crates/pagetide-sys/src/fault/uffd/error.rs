//! What a kernel's userfaultfd can do, and why there is none.

use std::fmt;
use std::io;

pub(super) const DEVICE: &str = "/dev/userfaultfd";

/// What a kernel's userfaultfd can do, of what Linux has added since the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UffdFeatures(pub(super) u64);

impl UffdFeatures {
    /// Write-protect faults, told apart (5.7).
    pub const PAGEFAULT_FLAG_WP: UffdFeatures = UffdFeatures(1 << 0);
    /// Absent pages of memory files (4.11).
    pub const MISSING_SHMEM: UffdFeatures = UffdFeatures(1 << 5);
    /// Faults that are signals of the thread that touched the page (4.14).
    pub const SIGBUS: UffdFeatures = UffdFeatures(1 << 7);
    /// Pages that raise SIGBUS (6.6).
    pub const POISON: UffdFeatures = UffdFeatures(1 << 14);
    /// Pages moved from one place to another (6.8).
    pub const MOVE: UffdFeatures = UffdFeatures(1 << 16);

    const NAMES: [(UffdFeatures, &'static str); 5] = [
        (UffdFeatures::PAGEFAULT_FLAG_WP, "write-protect faults"),
        (UffdFeatures::MISSING_SHMEM, "faults of memory files"),
        (UffdFeatures::SIGBUS, "faults as signals"),
        (UffdFeatures::POISON, "poisoned pages"),
        (UffdFeatures::MOVE, "pages that are moved"),
    ];

    /// What a region cannot do without.
    pub(super) const NEEDED: UffdFeatures = UffdFeatures::PAGEFAULT_FLAG_WP;

    /// What it makes use of where it is.
    pub(super) const USED: UffdFeatures =
        UffdFeatures(UffdFeatures::POISON.0 | UffdFeatures::MOVE.0);

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
    /// The kernel is too old: 5.7 has all that is needed.
    #[error("userfaultfd of this kernel lacks {lacking}: Linux 5.7 or newer is needed")]
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
