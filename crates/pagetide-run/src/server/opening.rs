//! Opens, recognises and closes descriptions.

use super::answer::{Answer, ONLY_KERNEL, Outcome, done};
use super::changes::Contents;
use super::copies::{Copies, Unseen};
use super::holders::Closing;
use super::identity::{FileKey, leaves_room, path_of};
use super::served_file::{Access, Description, Ownership, ServedFile};
use super::{Sender, Server};
use crate::errno::{Errno, IntoErrno};
use crate::program;
use crate::wire::{FILE_BYTES_MAX, Reason, Reply, Status, open};
use pagetide::File;
use pagetide_sys::lease::{LeaseKind, is_same_open_file};
use pagetide_sys::rights;
use rustix::fs::{AtFlags, CWD, OFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Server {
    /// Opens a file for a program. `files` holds the stand-in and, for a new file, the real
    /// descriptor.
    pub(super) fn open(&self, sender: Sender<'_>, flags: u64, files: Vec<OwnedFd>) -> Outcome {
        let mut files = files.into_iter();
        let (stand_in, made) = (files.next(), files.next());
        let was_made = flags & open::CREATED != 0;
        let has_all = |_: &OwnedFd| !was_made || made.is_some();
        let Some(stand_in) = stand_in.filter(has_all).filter(leaves_room) else {
            // The server had no free descriptor to receive the program's.
            self.handed_over[Reason::Exhausted as usize].fetch_add(1, Relaxed);
            return Ok(Answer::kernel(None));
        };
        let made = made.filter(|made| was_made && is_fresh(made));
        must_be_a_name(&stand_in)?;
        let access = Access::of(flags);
        if made.is_none() {
            check_access(&stand_in, access)?;
        }
        let (key, len) = FileKey::of(&stand_in)?;
        let file = self.file(key);
        if !rights::has_ours(sender.pid) {
            return self.leave_to_kernel(&file, Reason::OtherUser);
        }
        let truncates = made.is_none() && flags & u64::from(OFlags::TRUNC.bits()) != 0;
        if self.is_excluded(&file, &stand_in, len) {
            return self.leave_to_kernel(&file, Reason::Excluded);
        }
        let mut state = file.state.write().expect("no holder panics");
        if truncates && !access.write {
            // The kernel's truncation at such an open breaks no read lease.
            file.hand_over(&mut state)?;
            drop(state);
            return self.leave_to_kernel(&file, Reason::Interface);
        }
        if truncates && flags & open::MAY_KEEP != 0 && self.forget_unused(&file, &state) {
            return Ok(Answer::of(Reply { result: open::IS_NEW, ..Reply::status(Status::Kernel) }));
        }
        let write = access.write || made.is_some();
        let mut acquired = state.acquire(&file, self, &stand_in, made, write);
        if acquired.as_ref().is_err_and(|why| *why == Some(Reason::Outside))
            && self.end_locks_of(&file)
        {
            acquired = state.acquire(&file, self, &stand_in, None, write);
        }
        let handle = match acquired {
            Ok(handle) => handle,
            Err(reason) => {
                let reason = reason.unwrap_or(Reason::Outside);
                if access.write && reason == Reason::Outside {
                    self.copies.watch(&file.copy, &stand_in, false, Unseen::Writes);
                }
                drop(state);
                return self.leave_to_kernel(&file, reason);
            }
        };
        let cut = if truncates { cut(sender, &state, &handle) } else { Ok(()) };
        let id = self.next_id.fetch_add(1, Relaxed);
        let description = Description::new(id, Arc::clone(&file), stand_in, handle, flags);
        let description = Arc::new(description);
        file.add(&description);
        if let Err(errno) = cut {
            description.inner().is_open = false;
            state.release_unused(&file);
            return Err(errno);
        }
        drop(state);
        self.holders.insert(sender.process, description);
        Ok(Answer::of(Reply::done(id as i64)))
    }

    /// Forgets the pages of a file that the kernel is to truncate. Returns false if a process of
    /// the run may use the file.
    fn forget_unused(&self, file: &ServedFile, state: &Ownership) -> bool {
        let is_unused = matches!(state, Ownership::Free) && !Copies::is_watched(&file.copy);
        if is_unused {
            self.small_files.remove(file.key.numbers());
            self.copies.take(&file.copy);
        }
        is_unused
    }

    fn leave_to_kernel(&self, file: &ServedFile, reason: Reason) -> Outcome {
        self.count_kernel_file(file, reason);
        Ok(Answer::kernel(None))
    }

    /// Returns true if the file is never managed. The name at the first open decides.
    fn is_excluded(&self, file: &ServedFile, stand_in: &OwnedFd, len: u64) -> bool {
        let mut known = super::lock(&file.is_excluded);
        len >= FILE_BYTES_MAX
            || *known.get_or_insert_with(|| {
                let path = std::fs::read_link(path_of(stand_in));
                path.map_or(true, |path| {
                    !self.filter.takes(&path) || program::is_program(stand_in, &path)
                })
            })
    }

    /// Recognises a process's descriptor that may be a stand-in.
    pub(super) fn adopt(&self, process: u64, files: Vec<OwnedFd>) -> Outcome {
        let found = files.first().ok_or(Errno::BADF)?;
        let (key, _) = FileKey::of(found)?;
        let file = super::lock(&self.files).get(&key).cloned();
        let Some(file) = file else { return Ok(Answer::stranger()) };
        let is_it = |one: &Arc<Description>| {
            is_same_open_file(one.stand_in.as_fd(), found.as_fd()) == Some(true)
        };
        let Some(one) = file.descriptions().into_iter().find(is_it) else {
            return Ok(Answer::stranger());
        };
        self.wake(process, one.id)?;
        let is_kernels = one.inner().real.is_some();
        let mut answer = if is_kernels { one.kernel_answer()? } else { done(one.id)? };
        answer.reply.result = one.id as i64;
        Ok(answer)
    }

    /// Returns the description that a process uses, and opens a closed description again. The
    /// process is from now on a known holder, by a descriptor or a mapping.
    pub(super) fn wake(&self, process: u64, id: u64) -> Result<Arc<Description>, Errno> {
        let one = self.holders.hold(process, id).ok_or(Errno::BADF)?;
        self.open_again(&one);
        Ok(one)
    }

    /// Runs `act` on the description that a process uses. Opens the description again and repeats
    /// `act` if the end of one of the process's sockets has closed the description meanwhile.
    ///
    /// # Errors
    /// Fails with [`ONLY_KERNEL`] if the description has ended.
    pub(super) fn on<T>(
        &self,
        process: u64,
        id: u64,
        mut act: impl FnMut(&Arc<Description>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        loop {
            let one = self.wake(process, id).map_err(|_| ONLY_KERNEL)?;
            match act(&one) {
                Err(Errno::IO) if one.is_unserved() => {}
                outcome => return outcome,
            }
        }
    }

    /// Opens a closed description again for a process with a descriptor.
    pub(super) fn open_again(&self, one: &Description) {
        if one.inner().is_open {
            return;
        }
        let mut state = one.file.state.write().expect("no holder panics");
        let is_kernels = {
            let mut inner = one.inner();
            if std::mem::replace(&mut inner.is_open, true) {
                return;
            }
            inner.real.is_some()
        };
        if !is_kernels {
            let write = one.access.write;
            let acquired = state.acquire(&one.file, self, &one.stand_in, None, write);
            if let Ok(handle) = acquired {
                one.give_handle(handle);
                return;
            }
            one.open_real(None);
        }
        if matches!(*state, Ownership::Free) {
            *state = Ownership::Kernel;
        }
    }

    /// Closes a description without a known holder. The last writer's close writes dirty pages
    /// back, so that the file is complete and has the right times.
    pub(super) fn close_unheld(
        &self,
        one: &Arc<Description>,
        closing: Closing,
    ) -> Result<(), Errno> {
        if self.holders.is_held(one.id) || !one.inner().is_open {
            return Ok(());
        }
        self.end_lock(one, closing);
        let mut written = Ok(());
        if one.access.write {
            // Flushes beside other requests, before this thread takes the exclusive lock.
            let _state = one.file.state.read().expect("no holder panics");
            let handle = one.inner().handle.clone();
            if let Some(handle) = handle.filter(|_| one.file.nr_writers() == 1) {
                written = handle.flush().errno();
            }
        }
        let mut state = one.file.state.write().expect("no holder panics");
        let mut inner = one.inner();
        if self.holders.is_held(one.id) || !std::mem::replace(&mut inner.is_open, false) {
            return written;
        }
        (inner.handle, inner.map_handle) = (None, None);
        drop(inner);
        let reads = match &*state {
            Ownership::Cache(opened) if one.access.write => Some(opened.reads_ahead()),
            _ => None,
        };
        state.release_unused(&one.file);
        if one.access.write {
            state.stop_writing(&one.file, self);
        }
        // A file open for writing cannot be executed, so the close waits for reads ahead. With
        // other writers left, the file is not closed, and there is no wait.
        let is_closed = !matches!(&*state, Ownership::Cache(now) if now.kind == LeaseKind::Write);
        drop(state);
        if is_closed && let Some(reads) = reads {
            reads();
        }
        self.limit_small_files_at_close();
        self.holders.scan();
        written
    }
}

/// Truncates a managed file to nothing.
fn cut(sender: Sender<'_>, state: &Ownership, handle: &File) -> Result<(), Errno> {
    let Ownership::Cache(opened) = state else { return Ok(()) };
    let _change = sender.author.begin(Some(Contents::all(handle)))?;
    opened.set_len(handle, 0)
}

/// Returns true if `made` is a read-write descriptor, as the library makes for a new file.
fn is_fresh(made: &OwnedFd) -> bool {
    rustix::fs::fcntl_getfl(made)
        .is_ok_and(|flags| flags.contains(OFlags::RDWR) && !flags.contains(OFlags::PATH))
}

/// Fails with `EBADF` if the descriptor is not `O_PATH`.
fn must_be_a_name(stand_in: &OwnedFd) -> Result<(), Errno> {
    let flags = rustix::fs::fcntl_getfl(stand_in)?;
    if flags.contains(OFlags::PATH) { Ok(()) } else { Err(Errno::BADF) }
}

/// Fails as the kernel would fail to open the file. The program has the server's own rights.
fn check_access(stand_in: &OwnedFd, access: Access) -> Result<(), Errno> {
    use rustix::fs::Access as May;
    let mut wanted = May::empty();
    wanted.set(May::READ_OK, access.read);
    wanted.set(May::WRITE_OK, access.write);
    rustix::fs::accessat(CWD, path_of(stand_in), wanted, AtFlags::EACCESS)
}
