//! Mappings of managed files. The pages are in a memory file, with holes that the server fills on
//! request.
//!
//! ```text
//!   mmap     sends a userfaultfd --> gets the memory file                Op::Map
//!   touch    of a hole: a signal --> the page is put into the file       Op::Fault
//!   store    to a read-only page: as a touch --> dirty and writable      Op::Fault
//!   munmap   of the last part                                            Op::Unmap
//!   mlock    keeps pages resident, within a share of the limit           Op::Lock
//! ```
//!
//! A mapping keeps the description open, as in the kernel. The server also keeps the mapping's
//! userfaultfd, because a program may close all descriptors, and a touch without a userfaultfd
//! would fill a hole with zeros.
//!
//! **Invariants.** A page is in the memory file only while the server manages the file. All pages
//! are removed from all processes before a hand-over or release. The next touch then faults, learns
//! that the kernel has the file, and maps the kernel's file instead. A page open to stores is
//! dirty. The page is removed from all processes, with the last stored byte, before the dirty state
//! ends. So a process may be killed at any moment, and the server still writes all stores back.
//!
//! **Ignored.** After an exec, the server keeps the userfaultfd until the process ends.

use super::answer::{Answer, Outcome, done};
use super::holders::{Closing, Holder};
use super::identity::{leaves_room, lock, path_of};
use super::leased_file::LeasedFile;
use super::life::Life;
use super::served_file::{Description, Ownership};
use super::{Sender, Server};
use crate::errno::{Errno, IntoErrno};
use crate::wire::{Reply, Request, SHORT_FILE_BYTES, Status, fault};
use pagetide::File;
use pagetide::seam::MappedPages;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::{PAGE_FILE_PAGES_MAX, PageFile, StoreFault};
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Ratio of a memory file's length to the file's length, so that the file can grow.
const GROWTH: u64 = 2;
/// Smallest length of a memory file, in pages. Unused addresses cost no memory.
const PAGES_MIN: u64 = 1 << 18;

#[derive(Default)]
pub(super) struct Maps {
    by_process: Mutex<HashMap<u64, HashMap<u64, Mapped>>>,
    /// Mappings of processes that are about to end, but may still run threads.
    left: Mutex<Vec<Mapped>>,
    next: AtomicU64,
    nr_ever: AtomicU64,
    own_bytes: AtomicU64,
    nr_locks_refused: AtomicU64,
}

struct Mapped {
    number: u64,
    /// Number of the description.
    id: u64,
    life: Arc<Life>,
    /// Reports holes to the process while open.
    uffd: Arc<OwnedFd>,
    is_written: bool,
}

impl Maps {
    pub(super) fn nr_ever(&self) -> u64 {
        self.nr_ever.load(Relaxed)
    }

    /// Returns the userfaultfd of a writable mapping.
    fn writer(&self, process: u64, number: u64) -> Option<Arc<OwnedFd>> {
        let by_process = lock(&self.by_process);
        let left = lock(&self.left);
        let mapped = by_process.get(&process).and_then(|maps| maps.get(&number));
        let mapped = mapped.or_else(|| left.iter().find(|one| one.number == number));
        mapped.filter(|one| one.is_written).map(|one| Arc::clone(&one.uffd))
    }

    fn is_of(&self, process: u64, number: u64, id: u64) -> bool {
        let by_process = lock(&self.by_process);
        let mapped = by_process.get(&process).and_then(|maps| maps.get(&number));
        mapped.is_some_and(|one| one.id == id)
    }
}

impl Server {
    /// Returns the number of mappings that were served.
    pub fn nr_mappings(&self) -> u64 {
        self.maps.nr_ever()
    }

    /// Returns the bytes stored to private mappings. These bytes are the programs' own memory, and
    /// do not count toward the limit. A program that is killed or executes another reports none.
    pub fn own_bytes_of_mappings(&self) -> u64 {
        self.maps.own_bytes.load(Relaxed)
    }

    /// Returns the number of calls refused because of too many locked mapped pages.
    pub fn nr_locks_refused(&self) -> u64 {
        self.maps.nr_locks_refused.load(Relaxed)
    }

    pub(super) fn note_own_bytes(&self, nr: u64) {
        self.maps.own_bytes.fetch_add(nr, Relaxed);
    }

    /// Maps a file. `files` holds the mapping's userfaultfd.
    pub(super) fn map(
        &self,
        sender: Sender<'_>,
        request: &Request,
        files: Vec<OwnedFd>,
    ) -> Outcome {
        let uffd = files.into_iter().next().filter(leaves_room).ok_or(Errno::MFILE)?;
        let one = self.wake(sender.process, request.id)?;
        let is_written = request.flags == 1;
        if !one.access.read || is_written && !one.access.write {
            return Err(Errno::ACCESS);
        }
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        let end = offset.checked_add(request.len).ok_or(Errno::OVERFLOW)?;
        let number = self.maps.next.fetch_add(1, Relaxed) + 1;
        let holder = Holder::Mapping(sender.process, number);
        self.holders.add(holder, one.id);
        let outcome = one.share_apart(|opened, _| {
            let is_new = request.total == 0;
            if is_written && is_new && opened.file.len() < SHORT_FILE_BYTES {
                return done(fault::TOO_SHORT as u64);
            }
            let file = page_file(opened)?;
            if end > file.nr_pages() << PAGE_SHIFT {
                return Err(Errno::OVERFLOW);
            }
            let reply =
                Reply { offset: number, total: file.number(), ..Reply::done(fault::IS_THERE) };
            let memory = if is_written { to_be_written(&file)? } else { to_be_read(&file)? };
            Ok(Answer { files: vec![Arc::new(memory)], ..Answer::of(reply) })
        });
        if !outcome.as_ref().is_ok_and(|answer| answer.reply.result == fault::IS_THERE) {
            let _ = self.forget(holder, one.id, 1, Closing::Nothing);
            let is_kernel = outcome.as_ref().is_ok_and(|one| one.reply.status == Status::Kernel);
            return if is_kernel { one.kernel_to_map() } else { outcome };
        }
        self.maps.nr_ever.fetch_add(1, Relaxed);
        let (life, uffd) = (sender.author.life(), Arc::new(uffd));
        let mapped = Mapped { number, id: request.id, life, uffd, is_written };
        lock(&self.maps.by_process).entry(sender.process).or_default().insert(number, mapped);
        outcome
    }

    /// Serves a touch of a hole, or a store to a read-only page.
    pub(super) fn fault(&self, process: u64, request: &Request) -> Outcome {
        let one = self.wake(process, request.id)?;
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        let state = one.file.state.read().expect("no holder panics");
        let Ownership::Cache(opened) = &*state else { return one.kernel_to_map() };
        if page_file(opened)?.number() != request.flags {
            return done(fault::OTHER_FILE as u64);
        }
        let (handle, page) = (one.map_handle(opened), offset >> PAGE_SHIFT);
        let is_there = match request.len {
            0 => handle.map_in(page),
            address => {
                let uffd = self.maps.writer(process, request.total).ok_or(Errno::ACCESS)?;
                opened.note_store(offset)?;
                handle.map_in_to_write(page, &StoreFault::new(uffd.as_fd(), address))
            }
        };
        let is_there = is_there.errno()?;
        done(if is_there { fault::IS_THERE } else { fault::PAST_END } as u64)
    }

    /// Removes a mapping, or counts the private bytes of an unmapped part.
    pub(super) fn unmap(&self, process: u64, request: &Request) -> Outcome {
        self.note_own_bytes(request.len);
        let mut by_process = lock(&self.maps.by_process);
        let mapped = by_process.get_mut(&process).and_then(|maps| maps.remove(&request.flags));
        drop(by_process);
        if let Some(one) = mapped.and_then(|mapped| self.holders.find(mapped.id)) {
            one.unlock_pages(request.flags, &(0..u64::MAX));
            self.forget(Holder::Mapping(process, request.flags), one.id, 1, Closing::Nothing)?;
        }
        done(0)
    }

    /// Locks or unlocks pages in memory.
    pub(super) fn lock_pages(&self, process: u64, request: &Request) -> Outcome {
        let (number, id) = (request.flags, request.id);
        let one = self.holders.find(id).filter(|_| self.maps.is_of(process, number, id));
        let one = one.ok_or(Errno::BADF)?;
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        let end = offset.checked_add(request.len).ok_or(Errno::OVERFLOW)?;
        let pages = offset >> PAGE_SHIFT..end.div_ceil(PAGE_BYTES as u64);
        if request.total == 1 {
            one.unlock_pages(number, &pages);
            return done(0);
        }
        let state = one.file.state.read().expect("no holder panics");
        let Ownership::Cache(opened) = &*state else { return Err(Errno::NOMEM) };
        if one.map_handle(opened).lock_pages(number, pages).errno()? {
            return done(0);
        }
        self.maps.nr_locks_refused.fetch_add(1, Relaxed);
        self.say_once(
            "pagetide: a program was to lock more of mapped files in memory than half of the \
             limit, or than they have: it got ENOMEM",
        );
        Err(Errno::NOMEM)
    }

    /// Returns a stand-in for a child that inherits mappings.
    pub(super) fn stand_in(&self, id: u64) -> Outcome {
        let one = self.holders.find(id).ok_or(Errno::BADF)?;
        let copy = std::fs::File::from(one.stand_in.try_clone().errno()?);
        Ok(Answer { files: vec![Arc::new(copy)], ..Answer::of(Reply::done(0)) })
    }

    /// Removes all mappings of a process that sends no more requests. Unlocks the pages, and keeps
    /// the userfaultfds until the process has ended.
    pub(super) fn unmap_all(&self, process: u64) {
        let maps: Vec<(u64, u64)> = {
            let mut by_process = lock(&self.maps.by_process);
            let mut left = lock(&self.maps.left);
            left.retain(|one| !one.life.is_over());
            let maps = by_process.remove(&process).unwrap_or_default();
            let numbers = maps.values().map(|one| (one.number, one.id)).collect();
            left.extend(maps.into_values());
            numbers
        };
        let found = |(number, id)| self.holders.find(id).map(|one| (number, one));
        for (number, one) in maps.into_iter().filter_map(found) {
            one.unlock_pages(number, &(0..u64::MAX));
        }
    }
}

impl Description {
    /// Unlocks pages of a mapping, unless the kernel has the file.
    fn unlock_pages(&self, number: u64, pages: &Range<u64>) {
        let state = self.file.state.read().expect("no holder panics");
        if let Ownership::Cache(opened) = &*state {
            opened.file.unlock_pages(number, pages);
        }
    }

    /// Returns a handle with a separate readahead state, for faults.
    pub(super) fn map_handle(&self, opened: &LeasedFile) -> File {
        self.inner().map_handle.get_or_insert_with(|| opened.file.for_maps()).clone()
    }

    /// Returns the descriptor to map in place of the memory file, once the kernel has the file. A
    /// mapping of the real descriptor keeps the description's locks, as in the kernel.
    fn kernel_to_map(&self) -> Outcome {
        if let Some(Ok(real)) = &self.inner().real {
            return Ok(Answer::kernel(Some(Arc::clone(real))));
        }
        let access = if self.access.write { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = access | OFlags::CLOEXEC | OFlags::NOCTTY;
        let real = rustix::fs::open(path_of(&self.stand_in), flags, Mode::empty())?;
        Ok(Answer::kernel(Some(Arc::new(real.into()))))
    }
}

fn page_file(opened: &LeasedFile) -> Result<Arc<PageFile>, Errno> {
    let nr_pages = opened.file.len().div_ceil(PAGE_BYTES as u64);
    let room = (nr_pages * GROWTH).clamp(PAGES_MIN, PAGE_FILE_PAGES_MAX);
    opened.file.page_file(room).errno()
}

/// Returns a writable descriptor of the memory file. The program can write only pages with an
/// allowed store.
fn to_be_written(file: &PageFile) -> Result<std::fs::File, Errno> {
    file.prepare_writers().errno()?;
    Ok(file.file().try_clone_to_owned().errno()?.into())
}

/// Returns a read-only descriptor of the memory file, which another user cannot reopen for writing.
fn to_be_read(file: &PageFile) -> Result<std::fs::File, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let looked_at = rustix::fs::open(path_of(&file.file()), flags, Mode::empty())?;
    rustix::fs::fchmod(&looked_at, Mode::RUSR)?;
    Ok(looked_at.into())
}
