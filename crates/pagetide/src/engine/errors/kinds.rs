//! The [`io::Error`] kind of each error.
//!
//! An error with a cause has the cause's kind. For the rest, the kind states the remedy:
//!
//! | kind | meaning |
//! |---|---|
//! | `InvalidInput` | no such call can succeed: change the arguments |
//! | `PermissionDenied` | the handle lacks this access: open another |
//! | `NotFound`, `AlreadyExists` | the name does not exist, or is taken |
//! | `UnexpectedEof` | the file is shorter than the read |
//! | `FileTooLarge` | the file is, or would be, longer than a cache can map |
//! | `ResourceBusy` | pinned, dirty, open or in a region now: release it, then try again |
//! | `OutOfMemory`, `QuotaExceeded` | nothing is left: ask for less |
//! | `Deadlock` | the thread would wait for its own guard: drop the guard first |
//! | `Unsupported` | this cache was not built for it |

use super::{
    AdviseError, BuildError, CreateRegionError, GroupError, OpenError, ReadError, ResizeError,
    SyncError, WriteError,
};
use crate::memory::tier::ParseTierError;
use crate::memory::tier::plan::TierError;
use std::io::{self, ErrorKind};

impl BuildError {
    fn kind(&self) -> ErrorKind {
        match self {
            BuildError::NoMemory
            | BuildError::TooSmall { .. }
            | BuildError::Knob { .. }
            | BuildError::Tiering(_) => ErrorKind::InvalidInput,
            BuildError::Tiers(error) => error.kind(),
            BuildError::Reserve(error) => error.kind(),
            BuildError::Record { source, .. } | BuildError::Thread(source) => source.kind(),
        }
    }
}

impl TierError {
    fn kind(&self) -> ErrorKind {
        match self {
            TierError::NoSuchNode { .. } => ErrorKind::NotFound,
            TierError::NodeFull { .. } => ErrorKind::OutOfMemory,
            _ => ErrorKind::InvalidInput,
        }
    }
}

impl ParseTierError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}

impl OpenError {
    fn kind(&self) -> ErrorKind {
        match self {
            OpenError::NoAccess => ErrorKind::InvalidInput,
            OpenError::Open { source, .. } => source.kind(),
            OpenError::TooLong { .. } => ErrorKind::FileTooLarge,
            OpenError::GroupRemoved { .. } => ErrorKind::NotFound,
            OpenError::TooManyMappings => ErrorKind::QuotaExceeded,
            OpenError::InRegion { .. } => ErrorKind::ResourceBusy,
        }
    }
}

impl CreateRegionError {
    fn kind(&self) -> ErrorKind {
        match self {
            CreateRegionError::Memory(error) => error.kind(),
            CreateRegionError::Open(error) => error.kind(),
            CreateRegionError::InUse { .. } => ErrorKind::ResourceBusy,
            CreateRegionError::Shared => ErrorKind::Unsupported,
            CreateRegionError::NotPrivate => ErrorKind::InvalidInput,
            CreateRegionError::Swap { source, .. } | CreateRegionError::Thread(source) => {
                source.kind()
            }
        }
    }
}

impl ReadError {
    fn kind(&self) -> ErrorKind {
        match self {
            ReadError::Store { source, .. } => source.kind(),
            ReadError::PastEnd { .. } | ReadError::UnexpectedEnd { .. } => ErrorKind::UnexpectedEof,
            ReadError::NotReadable => ErrorKind::PermissionDenied,
            ReadError::NoFrame { .. } | ReadError::Pinned { .. } => ErrorKind::ResourceBusy,
            ReadError::WouldDeadlock { .. } => ErrorKind::Deadlock,
        }
    }
}

impl WriteError {
    fn kind(&self) -> ErrorKind {
        match self {
            WriteError::Store { source, .. } | WriteError::SetLen { source, .. } => source.kind(),
            WriteError::NotWritable => ErrorKind::PermissionDenied,
            WriteError::TooLong { .. } => ErrorKind::FileTooLarge,
            WriteError::PastEnd { .. } => ErrorKind::InvalidInput,
            WriteError::NoFrame { .. } | WriteError::Pinned { .. } => ErrorKind::ResourceBusy,
            WriteError::WouldDeadlock { .. } => ErrorKind::Deadlock,
        }
    }
}

impl SyncError {
    fn kind(&self) -> ErrorKind {
        match self {
            SyncError::Writeback(source)
            | SyncError::Unwritten { source, .. }
            | SyncError::Store(source) => source.kind(),
            SyncError::WouldDeadlock { .. } => ErrorKind::Deadlock,
        }
    }
}

impl AdviseError {
    fn kind(&self) -> ErrorKind {
        match self {
            AdviseError::Writeback(source) => source.kind(),
            AdviseError::WouldDeadlock { .. } => ErrorKind::Deadlock,
        }
    }
}

impl ResizeError {
    fn kind(&self) -> ErrorKind {
        match self {
            ResizeError::OutOfRange { .. }
            | ResizeError::NoSuchTier { .. }
            | ResizeError::Promised { .. } => ErrorKind::InvalidInput,
            ResizeError::Busy { .. } => ErrorKind::ResourceBusy,
        }
    }
}

impl GroupError {
    fn kind(&self) -> ErrorKind {
        match self {
            GroupError::Off => ErrorKind::Unsupported,
            GroupError::NameTaken { .. } => ErrorKind::AlreadyExists,
            GroupError::TooSmall { .. }
            | GroupError::AboveLimit { .. }
            | GroupError::Overcommitted { .. } => ErrorKind::InvalidInput,
            GroupError::TooMany => ErrorKind::QuotaExceeded,
            GroupError::Removed { .. } => ErrorKind::NotFound,
            GroupError::HasChildren { .. } => ErrorKind::ResourceBusy,
        }
    }
}

macro_rules! into_io {
    ($($error:ty),+ $(,)?) => {
        $(impl From<$error> for io::Error {
            fn from(error: $error) -> io::Error {
                io::Error::new(error.kind(), error)
            }
        })+
    };
}

into_io!(
    AdviseError,
    BuildError,
    CreateRegionError,
    GroupError,
    OpenError,
    ParseTierError,
    ReadError,
    ResizeError,
    SyncError,
    TierError,
    WriteError,
);

#[cfg(test)]
mod tests {
    use super::*;
    use pagetide_core::units::Bytes;
    use pagetide_sys::{RegionError, ReserveError, UffdError};
    use std::path::PathBuf;

    fn kind_of<E>(error: E) -> ErrorKind
    where
        E: std::error::Error + Into<io::Error> + 'static,
    {
        let text = error.to_string();
        let converted: io::Error = error.into();
        assert_eq!(converted.to_string(), text);
        assert!(converted.get_ref().is_some_and(|inner| inner.is::<E>()), "{text}");
        converted.kind()
    }

    fn refused() -> io::Error {
        ErrorKind::PermissionDenied.into()
    }

    #[test]
    fn an_error_with_a_cause_has_the_kind_of_its_cause() {
        let path = PathBuf::from("a");
        let [offset, len] = [0, 4096];
        let kinds = [
            kind_of(BuildError::Record { path: path.clone(), source: refused() }),
            kind_of(BuildError::Thread(refused())),
            kind_of(OpenError::Open { path: path.clone(), source: refused() }),
            kind_of(CreateRegionError::Swap { folder: path.clone(), source: refused() }),
            kind_of(CreateRegionError::Thread(refused())),
            kind_of(CreateRegionError::from(OpenError::Open { path, source: refused() })),
            kind_of(ReadError::Store { offset, len, source: refused() }),
            kind_of(WriteError::Store { offset, len, source: refused() }),
            kind_of(WriteError::SetLen { len, source: refused() }),
            kind_of(SyncError::Writeback(refused())),
            kind_of(SyncError::Unwritten {
                path: None,
                nr_bytes: 1,
                nr_files: 1,
                source: refused(),
            }),
            kind_of(SyncError::Store(refused())),
            kind_of(AdviseError::Writeback(refused())),
        ];
        assert_eq!(kinds, [ErrorKind::PermissionDenied; 13]);
    }

    #[test]
    fn arguments_that_cannot_work_are_invalid() {
        let (given, least, most) = (Bytes(1), Bytes(2), Bytes(3));
        let kinds = [
            kind_of(BuildError::NoMemory),
            kind_of(BuildError::TooSmall { given, least }),
            kind_of(BuildError::Tiers(TierError::ZeroLatency)),
            kind_of(TierError::NoFastTier),
            kind_of(ParseTierError::Form),
            kind_of(OpenError::NoAccess),
            kind_of(WriteError::PastEnd { index: 1, len: 0 }),
            kind_of(ResizeError::OutOfRange { given, least, most }),
            kind_of(ResizeError::NoSuchTier { given: 2, tiers: 1 }),
            kind_of(ResizeError::Promised { given, min: most }),
        ];
        assert_eq!(kinds, [ErrorKind::InvalidInput; 10]);
    }

    #[test]
    fn what_may_work_later_is_busy() {
        let path = PathBuf::from("a");
        let kinds = [
            kind_of(OpenError::InRegion { path: path.clone() }),
            kind_of(CreateRegionError::InUse { path }),
            kind_of(ReadError::NoFrame { frames: 16 }),
            kind_of(WriteError::NoFrame { frames: 16 }),
            kind_of(ResizeError::Busy { given_up: 1, wanted: 2 }),
        ];
        assert_eq!(kinds, [ErrorKind::ResourceBusy; 5]);
    }

    #[test]
    fn waiting_for_oneself_is_a_deadlock() {
        let kinds = [
            kind_of(ReadError::WouldDeadlock { index: 1 }),
            kind_of(WriteError::WouldDeadlock { index: 1 }),
            kind_of(SyncError::WouldDeadlock { index: 1 }),
            kind_of(AdviseError::WouldDeadlock { index: 1 }),
        ];
        assert_eq!(kinds, [ErrorKind::Deadlock; 4]);
    }

    #[test]
    fn ends_rights_names_and_memory_are_told_apart() {
        assert_eq!(kind_of(ReadError::PastEnd { index: 1, len: 0 }), ErrorKind::UnexpectedEof);
        assert_eq!(kind_of(ReadError::UnexpectedEnd { end: 1, len: 0 }), ErrorKind::UnexpectedEof);
        assert_eq!(kind_of(ReadError::NotReadable), ErrorKind::PermissionDenied);
        assert_eq!(kind_of(WriteError::NotWritable), ErrorKind::PermissionDenied);
        assert_eq!(kind_of(WriteError::TooLong { end: 2, most: 1 }), ErrorKind::FileTooLarge);
        let (len, most) = (Bytes(2), Bytes(1));
        assert_eq!(kind_of(OpenError::TooLong { len, most }), ErrorKind::FileTooLarge);
        assert_eq!(kind_of(OpenError::TooManyMappings), ErrorKind::QuotaExceeded);
        assert_eq!(kind_of(OpenError::GroupRemoved { name: String::new() }), ErrorKind::NotFound);
        assert_eq!(kind_of(CreateRegionError::Shared), ErrorKind::Unsupported);
        let online = vec![0];
        assert_eq!(kind_of(TierError::NoSuchNode { node: 9, online }), ErrorKind::NotFound);
        let (available, wanted) = (Bytes(1), Bytes(2));
        let full = TierError::NodeFull { node: 1, available, wanted };
        assert_eq!(kind_of(BuildError::Tiers(full)), ErrorKind::OutOfMemory);
    }

    #[test]
    fn errors_of_groups_have_their_kinds() {
        let name = String::from("a");
        let (limit, least) = (Bytes(1), Bytes(2));
        let rows = [
            (GroupError::Off, ErrorKind::Unsupported),
            (GroupError::NameTaken { name: name.clone() }, ErrorKind::AlreadyExists),
            (GroupError::TooSmall { limit, least }, ErrorKind::InvalidInput),
            (GroupError::TooMany, ErrorKind::QuotaExceeded),
            (GroupError::Removed { name: name.clone() }, ErrorKind::NotFound),
            (GroupError::HasChildren { name, nr_children: 1 }, ErrorKind::ResourceBusy),
        ];
        for (error, kind) in rows {
            let text = error.to_string();
            assert_eq!(kind_of(error), kind, "{text}");
        }
    }

    #[test]
    fn what_the_system_says_of_memory_and_faults_is_passed_on() {
        let (wanted, available) = (Bytes(2), Bytes(1));
        let reserved = [
            ReserveError::FrameCount { nr_frames: 0 },
            ReserveError::NotAvailable { wanted, available },
            ReserveError::NotBound { wanted, node: 1, source: refused() },
            ReserveError::Refused { wanted, source: ErrorKind::OutOfMemory.into() },
        ];
        let kinds = reserved.map(|error| kind_of(BuildError::from(error)));
        let expected = [
            ErrorKind::InvalidInput,
            ErrorKind::OutOfMemory,
            ErrorKind::PermissionDenied,
            ErrorKind::OutOfMemory,
        ];
        assert_eq!(kinds, expected);
        let not_found = || io::Error::from(ErrorKind::NotFound);
        let no_faults = UffdError::Refused { device: not_found(), call: refused() };
        assert_eq!(kind_of(no_faults), ErrorKind::PermissionDenied);
        let (call, source) = ("UFFDIO_COPY", ErrorKind::OutOfMemory.into());
        let failed = UffdError::Call { call, start: 0, len: 4096, source };
        let region = CreateRegionError::from(RegionError::Uffd(failed));
        assert_eq!(kind_of(region), ErrorKind::OutOfMemory);
        let too_long = CreateRegionError::from(RegionError::PageCount { nr_pages: 0 });
        assert_eq!(kind_of(too_long), ErrorKind::InvalidInput);
    }
}
