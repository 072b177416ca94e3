//! One file of the run, served by the page cache or by the kernel.
//!
//! **Problem.** Every program must get a file's bytes from the same place at any moment.
//!
//! **Idea.** A read-write lock protects the file's state. Requests share the lock, and a change of
//! ownership holds it exclusively.
//!
//! ```text
//!               no lease possible, excluded: opened natively
//!              +----------------------------------------------+
//!   Free ------+--- lease --> Ours ---- last close: written back, released ---> Free
//!                              |
//!                              | another opener breaks the lease; mapped, locked, standard output
//!                              v
//!                            Kernel: written back, dropped from the cache; each description has a
//!                              |     real descriptor
//!                              +---- last of them is closed ----> Free
//! ```

use super::Server;
use super::description::Description;
use super::identity::{FileKey, lock};
use super::opened::Opened;
use super::turn::Turn;
use crate::errno::Errno;
use crate::wire::Reason;
use pagetide::File;
use pagetide_sys::lease::LeaseKind;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, RwLock, Weak};

/// The owner of a file.
pub(super) enum Hands {
    /// No description of the file is open.
    Free,
    /// The page cache serves the file.
    Ours(Opened),
    /// The kernel serves the file, as long as a description is open.
    Kernel,
}

/// One file, under all its names.
pub(super) struct ServedFile {
    pub(super) key: FileKey,
    /// Requests share the lock. Changes of ownership and length, and opens, hold it exclusively.
    pub(super) state: RwLock<Hands>,
    /// The lock of calls that extend the file.
    pub(super) growth: Arc<Turn>,
    /// All descriptions that a process may still hold.
    descriptions: Mutex<Vec<Weak<Description>>>,
    /// True if the file is never managed. `None` until the first open decides.
    pub(super) is_excluded: Mutex<Option<bool>>,
    /// True if the file was counted as left to the kernel.
    pub(super) is_counted: AtomicBool,
}

impl ServedFile {
    pub(super) fn new(key: FileKey) -> ServedFile {
        ServedFile {
            key,
            state: RwLock::new(Hands::Free),
            growth: Arc::default(),
            descriptions: Mutex::default(),
            is_excluded: Mutex::default(),
            is_counted: AtomicBool::new(false),
        }
    }

    /// Adds an open description. The caller holds `state` for writing.
    pub(super) fn add(&self, description: &Arc<Description>) {
        let mut descriptions = lock(&self.descriptions);
        descriptions.retain(|one| one.strong_count() > 0);
        descriptions.push(Arc::downgrade(description));
    }

    /// Returns true if the file has no state that a later open needs.
    pub(super) fn is_free(&self) -> bool {
        self.state.try_read().is_ok_and(|state| matches!(*state, Hands::Free))
    }

    /// Returns the descriptions that a process may still hold.
    pub(super) fn descriptions(&self) -> Vec<Arc<Description>> {
        lock(&self.descriptions).iter().filter_map(Weak::upgrade).collect()
    }

    /// Hands the file over to the kernel: writes back dirty pages, and opens a real descriptor for
    /// each description.
    ///
    /// # Errors
    /// Fails if a page cannot be written back. The page stays dirty, and the file stays managed.
    pub(super) fn hand_over(&self, state: &mut Hands) -> Result<(), Errno> {
        if let Hands::Ours(opened) = &*state {
            opened.hand_over()?;
            self.open_reals(opened);
            *state = self.unmanaged();
        }
        Ok(())
    }

    /// Hands the file over as [`ServedFile::hand_over`] does, and drops pages that cannot be
    /// written back.
    pub(super) fn hand_over_at_once(&self, state: &mut Hands) {
        if let Hands::Ours(opened) = &*state {
            opened.discard();
            self.open_reals(opened);
            *state = self.unmanaged();
        }
    }

    /// Returns the open descriptions. The caller holds `state`.
    pub(super) fn open_descriptions(&self) -> impl Iterator<Item = Arc<Description>> {
        self.descriptions().into_iter().filter(|one| one.inner().is_open)
    }

    /// Counts the open descriptions that can write. The caller holds `state`.
    pub(super) fn nr_writers(&self) -> usize {
        self.open_descriptions().filter(|one| one.access.write).count()
    }

    /// Returns the owner of the file once the page cache does not serve it.
    fn unmanaged(&self) -> Hands {
        if self.open_descriptions().next().is_some() { Hands::Kernel } else { Hands::Free }
    }

    /// Opens the real descriptor of each description.
    fn open_reals(&self, opened: &Opened) {
        for description in self.descriptions() {
            description.open_real(Some(&opened.real));
        }
    }
}

impl Hands {
    /// Releases a file without open descriptions. If a dirty page cannot be written back, the file
    /// stays managed.
    pub(super) fn release_unused(&mut self, file: &ServedFile) {
        if file.open_descriptions().next().is_some() {
            return;
        }
        match std::mem::replace(self, Hands::Free) {
            Hands::Ours(opened) if !opened.file.is_stored() && opened.flush().is_err() => {
                *self = Hands::Ours(opened);
            }
            Hands::Ours(opened) => opened.let_go(),
            Hands::Free | Hands::Kernel => {}
        }
    }

    /// Makes the page cache serve the file with at least the requested access, and returns a new
    /// handle.
    ///
    /// # Errors
    /// Fails with the reason for which the kernel keeps the file, or with `None` if the kernel
    /// already had the file.
    pub(super) fn acquire(
        &mut self,
        file: &Arc<ServedFile>,
        server: &Server,
        stand_in: &OwnedFd,
        made: Option<OwnedFd>,
        write: bool,
    ) -> Result<File, Option<Reason>> {
        match self {
            Hands::Kernel => return Err(None),
            Hands::Ours(opened) if !write || opened.kind == LeaseKind::Write => {
                return Ok(opened.file.reopen());
            }
            Hands::Ours(_) => {
                return self.exchange_lease(file, server, stand_in, LeaseKind::Write);
            }
            Hands::Free => {}
        }
        let lease = |real: &_, kind| server.leases.take(real, kind, file);
        let opened = Opened::take(server, lease, stand_in, made, write).map_err(Some)?;
        let handle = opened.file.reopen();
        *self = Hands::Ours(opened);
        Ok(handle)
    }

    /// Exchanges a write lease for a read lease if no writer is left. The server then has the file
    /// open for reading only, so the file can be executed. Keeps the write lease if a dirty page
    /// cannot be written back.
    pub(super) fn stop_writing(&mut self, file: &Arc<ServedFile>, server: &Server) {
        let is_due = match self {
            Hands::Ours(opened) if opened.kind == LeaseKind::Write => {
                file.nr_writers() == 0 && (opened.file.is_stored() || opened.flush().is_ok())
            }
            _ => false,
        };
        if let Some(reader) = file.open_descriptions().next().filter(|_| is_due) {
            // The file's readers can continue, even if the kernel got the file.
            let _ = self.exchange_lease(file, server, &reader.stand_in, LeaseKind::Read);
        }
    }

    /// Exchanges the lease for a lease of another kind. The server releases the file in between. A
    /// change by another process in that moment is noticed as at any open.
    fn exchange_lease(
        &mut self,
        file: &Arc<ServedFile>,
        server: &Server,
        stand_in: &OwnedFd,
        kind: LeaseKind,
    ) -> Result<File, Option<Reason>> {
        let Hands::Ours(before) = std::mem::replace(self, Hands::Free) else {
            return Err(None);
        };
        let descriptions = file.descriptions();
        let readers: Vec<_> = descriptions.iter().filter(|one| one.take_handle()).collect();
        before.let_go();
        let lease = |real: &_, kind| server.leases.take(real, kind, file);
        match Opened::take(server, lease, stand_in, None, kind == LeaseKind::Write) {
            Ok(opened) => {
                readers.iter().for_each(|one| one.give_handle(opened.file.reopen()));
                let handle = opened.file.reopen();
                *self = Hands::Ours(opened);
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
