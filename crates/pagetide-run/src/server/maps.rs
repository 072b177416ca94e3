//! Files that programs map: their pages are in a memory file, and holes are asked for here.
//!
//! ```text
//!   mmap     its userfaultfd --> the memory file                         Op::Map
//!   touch    of a hole: a signal there --> the page is put there         Op::Fault
//!   store    to a page that may only be read: as a touch --> dirty, and allowed there
//!   munmap   of the last part                                            Op::Unmap
//! ```
//!
//! A mapping keeps its description open, as in the kernel. The userfaultfd by which its holes are
//! noticed is kept here as well: a program that closes all its descriptors cannot lose it. Without
//! it, a touch would fill a hole with zeros.
//!
//! **Invariants.** A page is in the memory file only while the file is ours: what takes the file
//! from us, or lets it go, takes all pages out first, for all processes at once. From then on a
//! touch is a fault, which learns that the kernel has the file, and maps that in its place. A page
//! that a process may store to is dirty: what ends that takes it from all of them first, with the
//! last byte. So a process may be killed at any moment, and what it has stored is ours to write.
//!
//! **Ignored.** Programs that execute another keep a descriptor here until they end.

use super::answer::{Answer, Outcome, done};
use super::description::Description;
use super::identity::{lock, path_of};
use super::life::Life;
use super::opened::Opened;
use super::opening::leaves_room;
use super::requests::OpenFile;
use super::served_file::Hands;
use super::{Sender, Server};
use crate::errno::{Errno, IntoErrno};
use crate::wire::{Reply, Request, Status, fault};
use pagetide::File;
use pagetide::seam::MappedPages;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::{PAGE_FILE_PAGES_MAX, PageFile, StoreFault};
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// A memory file has room for a file to become so many times as long.
const GROWTH: u64 = 2;
/// And for this many pages at least: addresses cost nothing.
const PAGES_MIN: u64 = 1 << 18;
/// Shorter files are the kernel's once they are mapped to be written: see [`Reason::Short`].
///
/// [`Reason::Short`]: crate::wire::Reason::Short
const WRITTEN_BYTES_MIN: u64 = 128 << 10;

/// All mappings there are.
#[derive(Default)]
pub(super) struct Maps {
    by_process: Mutex<HashMap<u64, HashMap<u64, Mapped>>>,
    /// Of processes that are about to end, whose threads may go on until they have.
    left: Mutex<Vec<Mapped>>,
    next: AtomicU64,
    nr_ever: AtomicU64,
    own_bytes: AtomicU64,
}

struct Mapped {
    number: u64,
    /// The description that was mapped.
    id: u64,
    life: Arc<Life>,
    /// Tells the process of holes as long as it is open.
    uffd: Arc<OwnedFd>,
    is_written: bool,
}

impl Maps {
    /// Mappings that were served.
    pub(super) fn nr_ever(&self) -> u64 {
        self.nr_ever.load(Relaxed)
    }

    /// The userfaultfd of a mapping that may be written.
    fn writer(&self, process: u64, number: u64) -> Option<Arc<OwnedFd>> {
        let by_process = lock(&self.by_process);
        let left = lock(&self.left);
        let mapped = by_process.get(&process).and_then(|maps| maps.get(&number));
        let mapped = mapped.or_else(|| left.iter().find(|one| one.number == number));
        mapped.filter(|one| one.is_written).map(|one| Arc::clone(&one.uffd))
    }

    fn has(&self, process: u64, id: u64) -> bool {
        let by_process = lock(&self.by_process);
        by_process.get(&process).is_some_and(|maps| maps.values().any(|one| one.id == id))
    }
}

impl Server {
    /// Mappings that were served.
    pub fn nr_mappings(&self) -> u64 {
        self.maps.nr_ever()
    }

    /// Bytes that programs have stored to private mappings, by those that could still say so: their
    /// own memory, beside the limit.
    pub fn own_bytes_of_mappings(&self) -> u64 {
        self.maps.own_bytes.load(Relaxed)
    }

    /// So much more is that.
    pub(super) fn note_own_bytes(&self, nr: u64) {
        self.maps.own_bytes.fetch_add(nr, Relaxed);
    }

    /// A program maps the file; its userfaultfd comes along.
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
        one.inner().nr_maps += 1;
        let number = self.maps.next.fetch_add(1, Relaxed) + 1;
        let outcome = one.share_apart(|opened, _| {
            let is_new = request.total == 0;
            if is_written && is_new && opened.file.len() < WRITTEN_BYTES_MIN {
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
            let _ = self.unmapped(&one);
            let is_kernel = outcome.as_ref().is_ok_and(|one| one.reply.status == Status::Kernel);
            return if is_kernel { one.kernel_to_map() } else { outcome };
        }
        self.maps.nr_ever.fetch_add(1, Relaxed);
        let (life, uffd) = (sender.author.life(), Arc::new(uffd));
        let mapped = Mapped { number, id: request.id, life, uffd, is_written };
        lock(&self.maps.by_process).entry(sender.process).or_default().insert(number, mapped);
        outcome
    }

    /// A touch of a hole, or a store to a page that may only be read.
    pub(super) fn fault(&self, process: u64, request: &Request) -> Outcome {
        let one = if self.maps.has(process, request.id) {
            let one = self.find(request.id).ok_or(Errno::BADF)?;
            if !one.inner().is_open {
                self.open_again(&one);
            }
            one
        } else {
            self.wake(process, request.id)?
        };
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        let state = one.file.state.read().expect("no holder panics");
        let Hands::Ours(opened) = &state.hands else { return one.kernel_to_map() };
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

    /// A program has unmapped all of a mapping, or a part that was its own.
    pub(super) fn unmap(&self, process: u64, request: &Request) -> Outcome {
        self.note_own_bytes(request.len);
        let mut by_process = lock(&self.maps.by_process);
        let mapped = by_process.get_mut(&process).and_then(|maps| maps.remove(&request.flags));
        drop(by_process);
        if let Some(one) = mapped.and_then(|mapped| self.find(mapped.id)) {
            self.unmapped(&one)?;
        }
        done(0)
    }

    /// The process says no more; if it has ended, neither has it any mapping.
    pub(super) fn unmap_all(&self, process: u64) {
        let ids: Vec<u64> = {
            let mut by_process = lock(&self.maps.by_process);
            let mut left = lock(&self.maps.left);
            left.retain(|one| !one.life.is_over());
            let maps = by_process.remove(&process).unwrap_or_default();
            let ids = maps.values().map(|one| one.id).collect();
            left.extend(maps.into_values());
            ids
        };
        for one in ids.into_iter().filter_map(|id| self.find(id)) {
            // There is no process to tell; a later sync of the file still says so.
            let _ = self.unmapped(&one);
        }
    }

    fn unmapped(&self, one: &OpenFile) -> Result<(), Errno> {
        {
            let mut inner = one.inner();
            inner.nr_maps = inner.nr_maps.saturating_sub(1);
        }
        self.release(one, 0)
    }
}

impl Description {
    /// A handle with its own readahead, for faults.
    pub(super) fn map_handle(&self, opened: &Opened) -> File {
        self.inner().map_handle.get_or_insert_with(|| opened.file.for_maps()).clone()
    }

    /// The kernel has the file: what to map in place of the memory file.
    fn kernel_to_map(&self) -> Outcome {
        let access = if self.access.write { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = access | OFlags::CLOEXEC | OFlags::NOCTTY;
        let real = rustix::fs::open(path_of(&self.stand_in), flags, Mode::empty())?;
        Ok(Answer::kernel(Some(Arc::new(real.into()))))
    }
}

fn page_file(opened: &Opened) -> Result<Arc<PageFile>, Errno> {
    let nr_pages = opened.file.len().div_ceil(PAGE_BYTES as u64);
    let room = (nr_pages * GROWTH).clamp(PAGES_MIN, PAGE_FILE_PAGES_MAX);
    opened.file.page_file(room).errno()
}

/// The memory file, to be written where a store was allowed.
fn to_be_written(file: &PageFile) -> Result<std::fs::File, Errno> {
    file.prepare_writers().errno()?;
    Ok(file.file().try_clone_to_owned().errno()?.into())
}

/// The memory file, by a descriptor that nothing can be written by; nor can one of another user's
/// be made of it.
fn to_be_read(file: &PageFile) -> Result<std::fs::File, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let looked_at = rustix::fs::open(path_of(&file.file()), flags, Mode::empty())?;
    rustix::fs::fchmod(&looked_at, Mode::RUSR)?;
    Ok(looked_at.into())
}
