//! flock(2) on managed files. Such a lock belongs to an open file description, so each locked
//! description has a descriptor of its own, which the server keeps as long as the lock.
//!
//! ```text
//!   read lease    a read-only descriptor of the file: processes outside the run see the lock
//!   write lease   a descriptor of an empty memory file, one for each locked file: no process
//!                 outside the run has the file open
//! ```
//!
//! The server tries a lock without waiting. To wait, the process gets the descriptor for as long as
//! it waits, and asks again. At a hand-over, each lock moves to the description's real descriptor.
//!
//! **Invariants.** The lease does not change while a description has a lock. A description with a
//! lock is closed only after a search has found no holder. Otherwise the file is handed over.
//!
//! **Ignored.** Between the end of a write lease and the lock of the real descriptor, a process
//! outside the run can take the lock first. The file's leased descriptor keeps shared locks
//! meanwhile, and becomes the real descriptor of an exclusive lock if access mode and O_SYNC are
//! the same.
//!
//! Source: flock(2), proc(5) "/proc/pid/fdinfo".

use super::{Access, Description, O_SYNC, ServedFile};
use crate::errno::Errno;
use crate::server::answer::{Answer, ONLY_KERNEL, Outcome, done};
use crate::server::identity::{lock, path_of};
use crate::server::leased_file::LeasedFile;
use crate::wire::{Reply, SHORT_FILE_BYTES};
use pagetide_sys::lease::LeaseKind;
use rustix::fs::{FlockOperation, MemfdFlags, Mode, OFlags, flock, memfd_create};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Weak};

const SHARED: u64 = 1;
const EXCLUSIVE: u64 = 2;
const NO_WAIT: u64 = 4;
const UNLOCK: u64 = 8;

/// The descriptor with a description's lock.
#[derive(Clone)]
pub(in crate::server) struct FileLock {
    pub(in crate::server) file: Arc<File>,
    /// The memory file of all locks on the file, or `None` if `file` is a descriptor of the file.
    memory: Option<Arc<File>>,
}

/// The memory file of a file's locks, if any.
pub(in crate::server) type LockMemory = Weak<File>;

impl FileLock {
    /// Returns the kind of the lock: [`SHARED`], [`EXCLUSIVE`], or 0.
    fn kind(&self) -> u64 {
        let about = format!("/proc/self/fdinfo/{}", self.file.as_raw_fd());
        let about = std::fs::read_to_string(about).unwrap_or_default();
        let locks =
            about.lines().filter(|line| line.starts_with("lock:") && line.contains("FLOCK"));
        let kind = |line: &str| if line.contains(" WRITE ") { EXCLUSIVE } else { SHARED };
        locks.map(kind).max().unwrap_or(0)
    }

    /// Returns true for a descriptor of the locked file.
    pub(in crate::server) fn is_of_file(&self) -> bool {
        self.memory.is_none()
    }
}

fn apply(file: &File, kind: u64) -> Result<(), Errno> {
    let operation = match kind {
        SHARED => FlockOperation::NonBlockingLockShared,
        EXCLUSIVE => FlockOperation::NonBlockingLockExclusive,
        _ => FlockOperation::NonBlockingUnlock,
    };
    flock(file, operation)
}

impl Description {
    /// Locks or unlocks the description as flock(2) with `operation`. Replies with 1 and the
    /// descriptor to wait by if another description has a lock.
    ///
    /// # Errors
    /// Fails with [`ONLY_KERNEL`] for an operation that is not documented, and as
    /// [`Description::new_lock`].
    pub(in crate::server) fn flock(&self, operation: u64) -> Outcome {
        let kind = operation & !NO_WAIT;
        self.share_apart(|opened, _| {
            if !matches!(kind, SHARED | EXCLUSIVE | UNLOCK) {
                return Err(ONLY_KERNEL);
            }
            // Two calls at once would make two descriptors, the locks of which conflict.
            let mut memory = lock(&self.file.lock_memory);
            let known = self.inner().lock.clone();
            let held = match known {
                None if kind == UNLOCK => return done(0),
                None => self.new_lock(opened, &mut memory)?,
                Some(held) => held,
            };
            match apply(&held.file, kind) {
                Err(Errno::WOULDBLOCK) if operation & NO_WAIT == 0 => {
                    let files = vec![Arc::clone(&held.file)];
                    self.inner().lock = Some(held);
                    Ok(Answer { files, ..Answer::of(Reply::done(1)) })
                }
                locked => {
                    // A failed change of a lock drops the lock.
                    self.inner().lock = Some(held).filter(|_| locked.is_ok() && kind != UNLOCK);
                    locked.and_then(|()| done(0))
                }
            }
        })
    }

    /// Opens the descriptor for a lock.
    ///
    /// # Errors
    /// Fails with [`ONLY_KERNEL`] for a file that other processes of the run open without asking
    /// the server, unless a hand-over keeps the lock throughout.
    fn new_lock(&self, opened: &LeasedFile, known: &mut LockMemory) -> Result<FileLock, Errno> {
        if opened.kind == LeaseKind::Read {
            // A hand-over makes the descriptor the real one. F_SETFL cannot add O_SYNC then.
            let synchronized = OFlags::from_bits_retain((self.inner().flags & O_SYNC) as u32);
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | synchronized;
            let file = rustix::fs::open(path_of(&self.stand_in), flags, Mode::empty())?;
            return Ok(FileLock { file: Arc::new(file.into()), memory: None });
        }
        let is_kept = self.access == Access { read: true, write: true } && !opened.is_lent();
        if opened.file.len() <= SHORT_FILE_BYTES && !is_kept {
            return Err(ONLY_KERNEL);
        }
        let memory = match known.upgrade() {
            Some(memory) => memory,
            None => {
                let memory = memfd_create("pagetide-locks", MemfdFlags::CLOEXEC)?;
                let memory = Arc::new(File::from(memory));
                *known = Arc::downgrade(&memory);
                memory
            }
        };
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(path_of(&memory), flags, Mode::empty())?;
        Ok(FileLock { file: Arc::new(file.into()), memory: Some(memory) })
    }

    /// Opens the real descriptor. It is `leased`, with the lock, if [`Description::may_as`] allows.
    fn move_to(&self, leased: &Arc<File>) {
        let may_be_leased = self.may_as(&self.inner(), leased);
        if may_be_leased {
            let file = Arc::clone(leased);
            self.inner().lock = Some(FileLock { file, memory: None });
        }
        self.open_real(Some(leased));
    }

    pub(in crate::server) fn has_lock(&self) -> bool {
        self.inner().lock.is_some()
    }
}

/// The locks of a file in a hand-over, by description.
pub(in crate::server) struct Moving {
    locks: Vec<(Arc<Description>, u64)>,
}

impl ServedFile {
    /// Returns true if a description has a lock.
    pub(in crate::server) fn has_locks(&self) -> bool {
        self.descriptions().iter().any(|one| one.has_lock())
    }

    /// Begins to move the locks that are in memory, before the lease ends. The leased descriptor
    /// takes the strongest lock.
    pub(in crate::server) fn begin_to_move_locks(&self, opened: &LeasedFile) -> Moving {
        let kind_of = |one: &Arc<Description>| {
            let held = one.inner().lock.clone().filter(|held| !held.is_of_file());
            held.map_or(0, |held| held.kind())
        };
        let all = self.descriptions().into_iter().map(|one| (Arc::clone(&one), kind_of(&one)));
        let locks: Vec<_> = all.filter(|(_, kind)| *kind != 0).collect();
        if let Some(kind) = locks.iter().map(|(_, kind)| *kind).max() {
            // Only processes of the run have locks, which do not conflict.
            let _ = apply(&opened.real, kind);
        }
        Moving { locks }
    }
}

impl Moving {
    /// Locks the real descriptors, after the lease has ended.
    pub(in crate::server) fn finish(self, opened: &LeasedFile) {
        let is_left = |one: &Description| match &one.inner().real {
            Some(Ok(real)) => Arc::ptr_eq(real, &opened.real),
            _ => false,
        };
        let keeps_exclusive = |kind| kind == EXCLUSIVE && !opened.is_lent();
        for (one, kind) in &self.locks {
            match keeps_exclusive(*kind) {
                true => one.move_to(&opened.real),
                false => one.open_real(Some(&opened.real)),
            }
            if !is_left(one) {
                if *kind == EXCLUSIVE {
                    let _ = apply(&opened.real, UNLOCK);
                }
                if let Some(Ok(real)) = &one.inner().real {
                    // Fails only if a process outside the run was faster.
                    let _ = apply(real, *kind);
                }
            }
            one.inner().lock = None;
        }
        if !self.locks.iter().any(|(one, _)| is_left(one)) {
            let _ = apply(&opened.real, UNLOCK);
        }
    }

    /// Drops the lock of the leased descriptor, after a hand-over has failed.
    pub(in crate::server) fn undo(self, opened: &LeasedFile) {
        if !self.locks.is_empty() {
            let _ = apply(&opened.real, UNLOCK);
        }
    }
}
