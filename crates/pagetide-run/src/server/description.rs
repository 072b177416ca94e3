//! An open file description: the state that all descriptors of one open share.
//!
//! POSIX keeps the position and the status flags in the description, and dup, fork and exec share
//! them. The server does the same here. The program's descriptors refer to a *stand-in*. The server
//! keeps a descriptor of the stand-in too, to recognise it.
//!
//! ```text
//!   open      has a handle: the page cache answers its requests. Or it has a real descriptor: the
//!             kernel has the file, and each process that asks gets the descriptor
//!   closed    every known process has closed it. A request of a process that inherited it without
//!             the server's knowledge (a child right after fork) opens it again, position included
//! ```
//!
//! The module `holders` knows the processes that hold a description, and ends the description.
//!
//! Lock order: a call lock (`Turn`), the file's state, then `inner`. The position's lock is held
//! while bytes are copied, as in the kernel. Two readers of one description never get the same
//! bytes.

use super::answer::{Answer, Outcome};
use super::identity::{lock, path_of};
use super::position::Position;
use super::served_file::ServedFile;
use super::turn::Turn;
use crate::errno::{Errno, IntoErrno};
use pagetide::File;
use rustix::fs::{Mode, OFlags, SeekFrom};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

const O_ACCMODE: u64 = 0o3;
const O_APPEND: u64 = 0o2000;
const O_DSYNC: u64 = 0o10000;
const O_SYNC: u64 = 0o4010000;
/// Flag that Linux adds to each open on 64-bit machines.
const O_LARGEFILE: u64 = 0o100000;
/// Flags of open(2) that affect only the open, and not the description.
const O_OPENING: u64 = 0o100 | 0o200 | 0o400 | 0o1000 | 0o2000000;

/// One open file description.
pub(super) struct Description {
    pub(super) id: u64,
    pub(super) file: Arc<ServedFile>,
    pub(super) stand_in: OwnedFd,
    pub(super) access: Access,
    /// The lock of calls that use the position.
    pub(super) turn: Arc<Turn>,
    pub(super) inner: Mutex<Inner>,
}

/// The access mode of a description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Access {
    pub(super) read: bool,
    pub(super) write: bool,
}

impl Access {
    /// Returns the access mode in open(2)'s flags.
    pub(super) fn of(flags: u64) -> Access {
        let mode = flags & O_ACCMODE;
        Access { read: mode == 0 || mode == 2, write: mode == 1 || mode == 2 }
    }
}

/// The mutable state of a description.
pub(super) struct Inner {
    pub(super) handle: Option<File>,
    /// The handle for faults of mappings. Absent until the first mapping.
    pub(super) map_handle: Option<File>,
    /// The descriptor for calls in the kernel, or the error of its open, once the kernel has the
    /// file.
    pub(super) real: Option<Result<Arc<std::fs::File>, Errno>>,
    /// True from the open to the close. The file's `state` is held for writing while this changes.
    pub(super) is_open: bool,
    pub(super) position: Position,
    /// The status flags, access mode included.
    pub(super) flags: u64,
}

/// The durability that each write waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    None,
    Contents,
    All,
}

impl Durability {
    pub(super) fn make(self, handle: &File) -> Result<(), Errno> {
        match self {
            Durability::None => Ok(()),
            Durability::Contents => handle.sync_data().errno(),
            Durability::All => handle.sync_all().errno(),
        }
    }
}

impl Inner {
    pub(super) fn appends(&self) -> bool {
        self.flags & O_APPEND != 0
    }

    pub(super) fn durability(&self) -> Durability {
        match self.flags {
            flags if flags & O_SYNC == O_SYNC => Durability::All,
            flags if flags & O_DSYNC != 0 => Durability::Contents,
            _ => Durability::None,
        }
    }
}

impl Description {
    pub(super) fn new(
        id: u64,
        file: Arc<ServedFile>,
        stand_in: OwnedFd,
        handle: File,
        flags: u64,
    ) -> Description {
        let inner = Inner {
            handle: Some(handle),
            map_handle: None,
            real: None,
            is_open: true,
            position: Position::Own(0),
            flags: flags & u64::from(u32::MAX) & !O_OPENING | O_LARGEFILE,
        };
        Description {
            id,
            file,
            stand_in,
            access: Access::of(flags),
            turn: Arc::default(),
            inner: Mutex::new(inner),
        }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Opens the real descriptor after the kernel got the file, at the description's position and
    /// with its flags. If the file cannot be opened, uses `instead` if it has the same access mode.
    pub(super) fn open_real(&self, instead: Option<&Arc<std::fs::File>>) {
        let mut inner = self.inner();
        if !inner.is_open || inner.real.is_some() {
            return;
        }
        (inner.handle, inner.map_handle) = (None, None);
        let flags = OFlags::from_bits_retain(inner.flags as u32);
        // The open goes through a symbolic link in /proc, and names a file, not a folder.
        let flags = flags - OFlags::NOFOLLOW - OFlags::TMPFILE;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        let opened = rustix::fs::open(path_of(&self.stand_in), flags, Mode::empty());
        let opened = opened.map(|real| Arc::new(real.into()));
        let real = opened.or_else(|errno| {
            let same = instead.filter(|real| self.may_as(real)).ok_or(errno)?;
            rustix::fs::fcntl_setfl(&**same, flags - OFlags::CLOEXEC).map(|()| Arc::clone(same))
        });
        let position = inner.position.close();
        let real =
            real.and_then(|real| rustix::fs::seek(&*real, SeekFrom::Start(position)).map(|_| real));
        inner.real = Some(real);
    }

    /// Returns true if the description was closed or has ended, so that no request can be served.
    pub(super) fn is_unserved(&self) -> bool {
        let inner = self.inner();
        inner.handle.is_none() && inner.real.is_none()
    }

    /// Returns true if the server has a real descriptor for processes that hold a stand-in.
    pub(super) fn has_real(&self) -> bool {
        matches!(self.inner().real, Some(Ok(_)))
    }

    /// Returns true if `real` has exactly this description's access mode.
    fn may_as(&self, real: &std::fs::File) -> bool {
        let mode = rustix::fs::fcntl_getfl(real).map(|flags| u64::from(flags.bits()));
        mode.is_ok_and(|mode| Access::of(mode) == self.access)
    }

    /// Removes the handle while the lease is exchanged. Returns true if there was one.
    pub(super) fn take_handle(&self) -> bool {
        let mut inner = self.inner();
        inner.map_handle = None;
        inner.handle.take().is_some()
    }

    pub(super) fn give_handle(&self, handle: File) {
        self.inner().handle = Some(handle);
    }

    /// Returns the answer that the kernel has the file, with the real descriptor to continue with.
    pub(super) fn kernel_answer(&self) -> Outcome {
        match &self.inner().real {
            Some(Ok(real)) => Ok(Answer::kernel(Some(Arc::clone(real)))),
            Some(Err(errno)) => Err(*errno),
            None => Err(Errno::IO),
        }
    }

    pub(super) fn must_read(&self) -> Result<(), Errno> {
        if self.access.read { Ok(()) } else { Err(Errno::BADF) }
    }

    pub(super) fn must_write(&self) -> Result<(), Errno> {
        if self.access.write { Ok(()) } else { Err(Errno::BADF) }
    }
}
