//! Files that programs map: their pages are in a memory file, and holes are asked for here.
//!
//! ```text
//!   mmap     its userfaultfd --> the memory file                         Op::Map
//!   touch    of a hole: a signal there --> the page is put there         Op::Fault
//!   store    to a page that may only be read: as a touch --> dirty, and allowed there
//!   munmap   of the last part                                            Op::Unmap
//!   mlock    kept, within a share of the limit                           Op::Lock
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
use super::description::{Description, Real};
use super::holders::Closing;
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
use std::ops::Range;
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
    nr_locks_refused: AtomicU64,
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

    fn is_of(&self, process: u64, number: u64, id: u64) -> bool {
        let by_process = lock(&self.by_process);
        let mapped = by_process.get(&process).and_then(|maps| maps.get(&number));
        mapped.is_some_and(|one| one.id == id)
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

    /// Calls that were to lock mapped files in memory, and more than may be.
    pub fn nr_locks_refused(&self) -> u64 {
        self.maps.nr_locks_refused.load(Relaxed)
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
            one.unlock_pages(request.flags, &(0..u64::MAX));
            let result = self.unmapped(&one);
            // A lock ends with the last mapping of its description.
            self.let_go_if_unheld(&one, Closing::Nothing);
            result?;
        }
        done(0)
    }

    /// Pages of a mapping are locked in memory, or not any more.
    pub(super) fn lock_pages(&self, process: u64, request: &Request) -> Outcome {
        let (number, id) = (request.flags, request.id);
        let one = self.find(id).filter(|_| self.maps.is_of(process, number, id));
        let one = one.ok_or(Errno::BADF)?;
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        let end = offset.checked_add(request.len).ok_or(Errno::OVERFLOW)?;
        let pages = offset >> PAGE_SHIFT..end.div_ceil(PAGE_BYTES as u64);
        if request.total == 1 {
            one.unlock_pages(number, &pages);
            return done(0);
        }
        let state = one.file.state.read().expect("no holder panics");
        let Hands::Ours(opened) = &state.hands else { return Err(Errno::NOMEM) };
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

    /// A stand-in, for a child that inherits mappings of the description.
    pub(super) fn stand_in(&self, id: u64) -> Outcome {
        let one = self.find(id).ok_or(Errno::BADF)?;
        let copy = std::fs::File::from(one.stand_in.try_clone().errno()?);
        Ok(Answer { files: vec![Arc::new(copy)], ..Answer::of(Reply::done(0)) })
    }

    /// The process says no more; if it has ended, neither has it any mapping.
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
        let found = |(number, id)| self.find(id).map(|one| (number, one));
        for (number, one) in maps.into_iter().filter_map(found) {
            one.unlock_pages(number, &(0..u64::MAX));
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

impl OpenFile {
    /// A mapping has pages locked no more; of a file that is the kernel's, it has none.
    fn unlock_pages(&self, number: u64, pages: &Range<u64>) {
        let state = self.file.state.read().expect("no holder panics");
        if let Hands::Ours(opened) = &state.hands {
            opened.file.unlock_pages(number, pages);
        }
    }
}

impl Description {
    /// A handle with its own readahead, for faults.
    pub(super) fn map_handle(&self, opened: &Opened) -> File {
        self.inner().map_handle.get_or_insert_with(|| opened.file.for_maps()).clone()
    }

    /// The kernel has the file: what to map in place of the memory file. A mapping of the real
    /// descriptor keeps its locks, as the kernel's do.
    fn kernel_to_map(&self) -> Outcome {
        if let Real::Here(real) = &self.inner().real {
            return Ok(Answer::kernel(Some(Arc::clone(real))));
        }
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
