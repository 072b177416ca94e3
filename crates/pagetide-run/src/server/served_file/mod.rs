//! One file of the run and its open file descriptions.
//!
//! **Problem.** Every program must get a file's bytes from the same place at any moment. POSIX
//! keeps the position and the status flags in the description, which dup, fork and exec share.
//!
//! **Idea.** A read-write lock protects the file's state. Requests share the lock, and a change of
//! ownership is exclusive.
//!
//! ```text
//!               no lease possible, excluded: opened natively
//!              +----------------------------------------------+
//!   Free ------+--- lease --> Cache--- last close: written back, released ---> Free
//!                              |
//!                              | another opener breaks the lease; mapped, locked, standard output
//!                              v
//!                            Kernel: written back, dropped from the cache; each description has a
//!                              |     real descriptor
//!                              +---- last of them is closed ----> Free
//! ```
//!
//! A program's descriptors of a description refer to a *stand-in*. The server has a descriptor of
//! the stand-in too, to recognise the program's. A description is one of:
//!
//! ```text
//!   open      the page cache answers requests by a handle. Or the kernel has the file, and each
//!             process that asks gets the real descriptor
//!   closed    by every known process. A request of an unknown holder (a child right after fork)
//!             opens the description again, position included
//! ```
//!
//! The module `holders` knows a description's holders, and ends the description.
//!
//! Lock order: a call lock (`CallLock`), the file's state, `lock_memory`, then `inner`. A read
//! copies bytes under the position's lock, as in the kernel, so two readers of a description never
//! get the same bytes.

mod flocks;

use super::Server;
use super::answer::{Answer, Outcome};
use super::call_lock::CallLock;
use super::copies::CopySlot;
use super::identity::{FileKey, lock, path_of};
use super::leased_file::LeasedFile;
use super::position::Position;
use crate::errno::{Errno, IntoErrno};
use crate::wire::Reason;
use pagetide::File;
use pagetide_sys::lease::LeaseKind;
use rustix::fs::{Mode, OFlags, SeekFrom};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, Weak};

use flocks::{FileLock, LockMemory, Moving};

const O_ACCMODE: u64 = 0o3;
const O_APPEND: u64 = 0o2000;
const O_DSYNC: u64 = 0o10000;
const O_SYNC: u64 = 0o4010000;
/// Flags of open(2) that affect only the open.
const O_OPENING: u64 = 0o100 | 0o200 | 0o400 | 0o1000 | 0o2000000;

/// The owner of a file.
pub(super) enum Ownership {
    /// No description is open.
    Free,
    /// The page cache serves the file.
    Cache(LeasedFile),
    /// The kernel serves the file while a description is open.
    Kernel,
}

/// One file, under all names.
pub(super) struct ServedFile {
    pub(super) key: FileKey,
    /// Shared by requests. Exclusive for changes of ownership and length, and for opens.
    pub(super) state: RwLock<Ownership>,
    /// Lock of calls that extend the file.
    pub(super) growth: Arc<CallLock>,
    /// Descriptions that a process may still hold.
    descriptions: Mutex<Vec<Weak<Description>>>,
    /// True if the file is never managed. `None` before the first open.
    pub(super) is_excluded: Mutex<Option<bool>>,
    /// True if the run has created the file, or truncated the file to nothing.
    pub(super) is_new: AtomicBool,
    /// True if counted as left to the kernel.
    pub(super) is_counted: AtomicBool,
    /// The memory file of the descriptions' flock locks. Locked throughout a call of flock.
    pub(super) lock_memory: Mutex<LockMemory>,
    /// The file's pages in the kernel's cache.
    pub(super) copy: Arc<CopySlot>,
}

impl ServedFile {
    pub(super) fn new(key: FileKey) -> ServedFile {
        ServedFile {
            key,
            state: RwLock::new(Ownership::Free),
            growth: Arc::default(),
            descriptions: Mutex::default(),
            is_excluded: Mutex::default(),
            is_new: AtomicBool::new(false),
            is_counted: AtomicBool::new(false),
            lock_memory: Mutex::default(),
            copy: Arc::default(),
        }
    }

    /// Adds a description. The caller holds `state` for writing.
    pub(super) fn add(&self, description: &Arc<Description>) {
        let mut descriptions = lock(&self.descriptions);
        descriptions.retain(|one| one.strong_count() > 0);
        descriptions.push(Arc::downgrade(description));
    }

    /// Returns true if no later open needs this entry.
    pub(super) fn is_free(&self) -> bool {
        let is_free = self.state.try_read().is_ok_and(|state| matches!(*state, Ownership::Free));
        // The server's descriptor would keep the next open from a lease.
        is_free && Arc::strong_count(&self.copy) == 1
    }

    /// Returns the descriptions that a process may still hold.
    pub(super) fn descriptions(&self) -> Vec<Arc<Description>> {
        lock(&self.descriptions).iter().filter_map(Weak::upgrade).collect()
    }

    /// Hands the file over to the kernel: writes back, and opens each description's real
    /// descriptor.
    ///
    /// # Errors
    /// Fails if a page cannot be written back. The page stays dirty, and the file managed.
    pub(super) fn hand_over(&self, state: &mut Ownership) -> Result<(), Errno> {
        if let Ownership::Cache(opened) = &*state {
            let moving = self.begin_to_move_locks(opened);
            if let Err(errno) = opened.hand_over() {
                moving.undo(opened);
                return Err(errno);
            }
            self.open_reals(opened, moving);
            *state = self.unmanaged();
        }
        Ok(())
    }

    /// Hands the file over as [`ServedFile::hand_over`] does, and drops dirty pages.
    pub(super) fn hand_over_at_once(&self, state: &mut Ownership) {
        if let Ownership::Cache(opened) = &*state {
            let moving = self.begin_to_move_locks(opened);
            opened.discard();
            self.open_reals(opened, moving);
            *state = self.unmanaged();
        }
    }

    /// Returns the open descriptions. The caller holds `state`.
    pub(super) fn open_descriptions(&self) -> impl Iterator<Item = Arc<Description>> {
        self.descriptions().into_iter().filter(|one| one.inner().is_open)
    }

    /// Counts the open descriptions with write access. The caller holds `state`.
    pub(super) fn nr_writers(&self) -> usize {
        self.open_descriptions().filter(|one| one.access.write).count()
    }

    /// Takes a lease, as [`LeasedFile::take`] does. `is_fresh` is true if all the file's pages in
    /// the kernel's page cache are known to be the run's.
    fn lease(
        self: &Arc<ServedFile>,
        server: &Server,
        stand_in: &OwnedFd,
        made: Option<OwnedFd>,
        write: bool,
        is_fresh: bool,
    ) -> Result<LeasedFile, Reason> {
        let taken = server.copies.take(&self.copy);
        let small = server.small_files.remove(self.key.numbers());
        let lease = |real: &_, kind| server.leases.take(real, kind, self);
        let has_pages = taken.is_some() || small.is_some() || made.is_some();
        match LeasedFile::take(server, lease, stand_in, made, write) {
            Ok(mut opened) => {
                opened.is_fresh |= is_fresh || taken.is_some_and(|taken| taken.is_fresh());
                if small.is_some() {
                    opened.has_pages_of_the_run();
                }
                if has_pages && opened.is_fresh {
                    opened.move_pages(server);
                }
                Ok(opened)
            }
            Err(reason) => {
                server.copies.put_back(&self.copy, stand_in, taken);
                if let Some(small) = small {
                    server.small_files.put_back(self.key.numbers(), &small);
                }
                Err(reason)
            }
        }
    }

    /// Returns the owner after a hand-over.
    fn unmanaged(&self) -> Ownership {
        if self.open_descriptions().next().is_some() { Ownership::Kernel } else { Ownership::Free }
    }

    fn open_reals(&self, opened: &LeasedFile, moving: Moving) {
        moving.finish(opened);
        for description in self.descriptions() {
            description.open_real(Some(&opened.real));
        }
    }
}

impl Ownership {
    /// Releases a file without open descriptions. The file stays managed if a dirty page cannot be
    /// written back.
    pub(super) fn release_unused(&mut self, file: &ServedFile) {
        if file.open_descriptions().next().is_some() {
            return;
        }
        match std::mem::replace(self, Ownership::Free) {
            Ownership::Cache(opened) if !opened.file.is_stored() && opened.flush().is_err() => {
                *self = Ownership::Cache(opened);
            }
            Ownership::Cache(opened) => opened.close(&file.copy),
            Ownership::Free | Ownership::Kernel => {}
        }
    }

    /// Makes the page cache serve the file with at least this access. Returns a new handle.
    ///
    /// # Errors
    /// Fails with the reason for which the kernel keeps the file, or with `None` if the kernel had
    /// the file before.
    pub(super) fn acquire(
        &mut self,
        file: &Arc<ServedFile>,
        server: &Server,
        stand_in: &OwnedFd,
        made: Option<OwnedFd>,
        write: bool,
    ) -> Result<File, Option<Reason>> {
        match self {
            Ownership::Kernel => return Err(None),
            Ownership::Cache(opened) if !write || opened.kind == LeaseKind::Write => {
                return Ok(opened.file.reopen());
            }
            Ownership::Cache(_) if file.has_locks() => {
                file.hand_over(self).map_err(|_| Some(Reason::Locked))?;
                return Err(Some(Reason::Locked));
            }
            Ownership::Cache(_) => {
                return self.exchange_lease(file, server, stand_in, LeaseKind::Write);
            }
            Ownership::Free => {}
        }
        let opened = file.lease(server, stand_in, made, write, false).map_err(Some)?;
        let handle = opened.file.reopen();
        *self = Ownership::Cache(opened);
        Ok(handle)
    }

    /// Exchanges a write lease for a read lease if no writer is left, so that the file can be
    /// executed. Keeps the write lease if a dirty page cannot be written back.
    pub(super) fn stop_writing(&mut self, file: &Arc<ServedFile>, server: &Server) {
        let is_due = match self {
            Ownership::Cache(opened) if opened.kind == LeaseKind::Write => {
                file.nr_writers() == 0 && (opened.file.is_stored() || opened.flush().is_ok())
            }
            _ => false,
        };
        if is_due && file.has_locks() {
            // A failure keeps the write lease.
            let _ = file.hand_over(self);
            return;
        }
        if let Some(reader) = file.open_descriptions().next().filter(|_| is_due) {
            // Readers can continue, even if the kernel got the file.
            let _ = self.exchange_lease(file, server, &reader.stand_in, LeaseKind::Read);
        }
    }

    /// Exchanges the lease for another kind, with a release in between. A change by another process
    /// in that moment is noticed as at any open.
    fn exchange_lease(
        &mut self,
        file: &Arc<ServedFile>,
        server: &Server,
        stand_in: &OwnedFd,
        kind: LeaseKind,
    ) -> Result<File, Option<Reason>> {
        let Ownership::Cache(before) = std::mem::replace(self, Ownership::Free) else {
            return Err(None);
        };
        let descriptions = file.descriptions();
        let readers: Vec<_> = descriptions.iter().filter(|one| one.take_handle()).collect();
        let is_fresh = before.is_fresh;
        before.release();
        match file.lease(server, stand_in, None, kind == LeaseKind::Write, is_fresh) {
            Ok(opened) => {
                readers.iter().for_each(|one| one.give_handle(opened.file.reopen()));
                let handle = opened.file.reopen();
                *self = Ownership::Cache(opened);
                Ok(handle)
            }
            Err(reason) => {
                readers.iter().for_each(|one| one.open_real(None));
                *self = file.unmanaged();
                Err(Some(reason))
            }
        }
    }
}

/// One open file description.
pub(super) struct Description {
    pub(super) id: u64,
    pub(super) file: Arc<ServedFile>,
    pub(super) stand_in: OwnedFd,
    pub(super) access: Access,
    /// Lock of calls that use the position.
    pub(super) call_lock: Arc<CallLock>,
    /// Guess that the next write extends the file.
    pub(super) grows: AtomicBool,
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

pub(super) struct Inner {
    pub(super) handle: Option<File>,
    /// The handle for faults of mappings, from the first mapping on.
    pub(super) map_handle: Option<File>,
    /// The descriptor for calls in the kernel, or the open's error, once the kernel has the file.
    pub(super) real: Option<Result<Arc<std::fs::File>, Errno>>,
    /// The lock by flock(2), while the page cache serves the file.
    pub(super) lock: Option<FileLock>,
    /// True from open to close. Changes only under the file's `state`, held for writing.
    pub(super) is_open: bool,
    pub(super) position: Position,
    /// Status flags and access mode.
    pub(super) flags: u64,
}

/// Durability that each write waits for.
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
            lock: None,
            is_open: true,
            position: Position::Own(0),
            flags: flags & u64::from(u32::MAX) & !O_OPENING,
        };
        Description {
            id,
            file,
            stand_in,
            access: Access::of(flags),
            call_lock: Arc::default(),
            grows: AtomicBool::new(false),
            inner: Mutex::new(inner),
        }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Opens the real descriptor after a hand-over, with the description's position and flags. Uses
    /// `instead` if the open fails and `instead` is like this description.
    pub(super) fn open_real(&self, instead: Option<&Arc<std::fs::File>>) {
        let mut inner = self.inner();
        if !inner.is_open || inner.real.is_some() {
            return;
        }
        (inner.handle, inner.map_handle) = (None, None);
        let flags = OFlags::from_bits_retain(inner.flags as u32);
        // The open goes through a symbolic link in /proc, and names a file.
        let flags = flags - OFlags::NOFOLLOW - OFlags::TMPFILE;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        let set = |real: Arc<std::fs::File>| {
            rustix::fs::fcntl_setfl(&*real, flags - OFlags::CLOEXEC).map(|()| real)
        };
        // The lock stays with its descriptor, which has the same access mode and O_SYNC.
        let opened = match inner.lock.take_if(|held| held.is_of_file()) {
            Some(held) => set(held.file),
            None => {
                let opened = rustix::fs::open(path_of(&self.stand_in), flags, Mode::empty());
                opened.map(|real| Arc::new(real.into()))
            }
        };
        let real = opened.or_else(|errno| {
            let same = instead.filter(|real| self.may_as(&inner, real)).ok_or(errno)?;
            set(Arc::clone(same))
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

    /// Returns true if the server holds a real descriptor for processes.
    pub(super) fn has_real(&self) -> bool {
        matches!(self.inner().real, Some(Ok(_)))
    }

    /// Returns true if `real` has exactly this access mode, and synchronizes the same writes.
    fn may_as(&self, inner: &Inner, real: &std::fs::File) -> bool {
        let synchronized = inner.flags & O_SYNC;
        let flags = rustix::fs::fcntl_getfl(real).map(|flags| u64::from(flags.bits()));
        flags.is_ok_and(|real| Access::of(real) == self.access && real & O_SYNC == synchronized)
    }

    /// Removes the handle for an exchange of the lease. Returns true if there was one.
    pub(super) fn take_handle(&self) -> bool {
        let mut inner = self.inner();
        inner.map_handle = None;
        inner.handle.take().is_some()
    }

    pub(super) fn give_handle(&self, handle: File) {
        self.inner().handle = Some(handle);
    }

    /// Answers that the kernel has the file, with the real descriptor.
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
