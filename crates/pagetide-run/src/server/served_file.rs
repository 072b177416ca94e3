//! One file of the tree of processes: ours, or the kernel's.
//!
//! Problem: a file must be answered from one place only, for every program, at any moment. Idea: a
//! state behind a lock that every request shares and a change of hands has alone.
//!
//! ```text
//!               no lease to be had, excluded: opened natively
//!              +----------------------------------------------+
//!   Free ------+--- lease --> Ours ---- last close: written back, let go ----> Free
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

/// What answers for a file.
pub(super) enum Hands {
    /// No description of it is open.
    Free,
    /// The page cache.
    Ours(Opened),
    /// The kernel, as long as a description of it is open.
    Kernel,
}

/// The state of a file.
pub(super) struct State {
    pub(super) hands: Hands,
    /// Open descriptions, and those of them that can write.
    pub(super) nr_open: usize,
    pub(super) nr_writers: usize,
}

/// One file, under whatever names it is open.
pub(super) struct ServedFile {
    pub(super) key: FileKey,
    /// Requests share it; changing hands, lengths and opens have it alone.
    pub(super) state: RwLock<State>,
    /// The turn of calls that make the file longer.
    pub(super) growth: Arc<Turn>,
    /// All that may still be held somewhere.
    descriptions: Mutex<Vec<Weak<Description>>>,
    /// Whether the file is never managed, once that was looked at.
    pub(super) is_excluded: Mutex<Option<bool>>,
    /// It was counted among the kernel's.
    pub(super) is_counted: AtomicBool,
}

impl ServedFile {
    pub(super) fn new(key: FileKey) -> ServedFile {
        ServedFile {
            key,
            state: RwLock::new(State { hands: Hands::Free, nr_open: 0, nr_writers: 0 }),
            growth: Arc::default(),
            descriptions: Mutex::default(),
            is_excluded: Mutex::default(),
            is_counted: AtomicBool::new(false),
        }
    }

    /// Lists a description, and counts it as open.
    pub(super) fn add(&self, state: &mut State, description: &Arc<Description>) {
        let mut descriptions = lock(&self.descriptions);
        descriptions.retain(|one| one.strong_count() > 0);
        descriptions.push(Arc::downgrade(description));
        drop(descriptions);
        state.count(description);
    }

    /// Whether nothing is known of it that matters later.
    pub(super) fn is_free(&self) -> bool {
        self.state.try_read().is_ok_and(|state| matches!(state.hands, Hands::Free))
    }

    /// The descriptions that may still be held somewhere.
    pub(super) fn descriptions(&self) -> Vec<Arc<Description>> {
        lock(&self.descriptions).iter().filter_map(Weak::upgrade).collect()
    }

    /// Leaves the file to the kernel: what is dirty is written back, and each description has a
    /// real descriptor from here on.
    ///
    /// # Errors
    /// What could not be written is dirty still, and the file stays ours.
    pub(super) fn hand_over(&self, state: &mut State) -> Result<(), Errno> {
        if let Hands::Ours(opened) = &state.hands {
            opened.hand_over()?;
            self.settle(opened);
            state.hands = if state.nr_open > 0 { Hands::Kernel } else { Hands::Free };
        }
        Ok(())
    }

    /// As [`ServedFile::hand_over`], whatever can be written back: the rest is lost.
    pub(super) fn hand_over_at_once(&self, state: &mut State) {
        if let Hands::Ours(opened) = &state.hands {
            opened.discard();
            self.settle(opened);
            state.hands = if state.nr_open > 0 { Hands::Kernel } else { Hands::Free };
        }
    }

    /// Gives each description its real descriptor.
    fn settle(&self, opened: &Opened) {
        for description in self.descriptions() {
            description.settle(Some(&opened.real));
        }
    }
}

impl State {
    /// One open description less. The caller has written back what it had to; what could not be
    /// written keeps the file ours.
    pub(super) fn close(&mut self, description: &Description) {
        self.nr_open = self.nr_open.saturating_sub(1);
        self.nr_writers = self.nr_writers.saturating_sub(usize::from(description.access.write));
        if self.nr_open > 0 {
            return;
        }
        match std::mem::replace(&mut self.hands, Hands::Free) {
            Hands::Ours(opened) if !opened.file.is_stored() && opened.flush().is_err() => {
                self.hands = Hands::Ours(opened);
            }
            Hands::Ours(opened) => opened.let_go(),
            Hands::Free | Hands::Kernel => {}
        }
    }

    /// One open description more.
    pub(super) fn count(&mut self, description: &Description) {
        self.nr_open += 1;
        self.nr_writers += usize::from(description.access.write);
    }

    /// Has the file in our hands, with the access that is asked for; returns a handle of its own.
    ///
    /// # Errors
    /// Why the kernel has it; `None` where it had it before.
    pub(super) fn acquire(
        &mut self,
        file: &Arc<ServedFile>,
        server: &Server,
        stand_in: &OwnedFd,
        made: Option<OwnedFd>,
        write: bool,
    ) -> Result<File, Option<Reason>> {
        match &self.hands {
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
        self.hands = Hands::Ours(opened);
        Ok(handle)
    }

    /// Exchanges a write lease for a read lease if no writer is left: the server has the file open
    /// to be read alone, so that the file can be executed. What could not be written keeps the
    /// write lease.
    pub(super) fn stop_writing(&mut self, file: &Arc<ServedFile>, server: &Server) {
        let is_due = match &self.hands {
            Hands::Ours(opened) if self.nr_writers == 0 && opened.kind == LeaseKind::Write => {
                opened.file.is_stored() || opened.flush().is_ok()
            }
            _ => false,
        };
        if !is_due {
            return;
        }
        let mut descriptions = file.descriptions().into_iter();
        if let Some(reader) = descriptions.find(|one| one.inner().handle.is_some()) {
            // Whether the file is still served or the kernel's, each reader can go on.
            let _ = self.exchange_lease(file, server, &reader.stand_in, LeaseKind::Read);
        }
    }

    /// Exchanges the lease for one of another kind. The server lets go of the file in between: what
    /// another process changes in that moment is noticed as at any open.
    fn exchange_lease(
        &mut self,
        file: &Arc<ServedFile>,
        server: &Server,
        stand_in: &OwnedFd,
        kind: LeaseKind,
    ) -> Result<File, Option<Reason>> {
        let Hands::Ours(before) = std::mem::replace(&mut self.hands, Hands::Free) else {
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
                self.hands = Hands::Ours(opened);
                Ok(handle)
            }
            Err(reason) => {
                readers.iter().for_each(|one| one.settle(None));
                if self.nr_open > 0 {
                    self.hands = Hands::Kernel;
                }
                Err(Some(reason))
            }
        }
    }
}
