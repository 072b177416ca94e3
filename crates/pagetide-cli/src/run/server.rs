//! The server: what the processes under a run ask, and who answers.
//!
//! ```text
//!   doorbell thread --> a thread for each socket --> Server::answer --> description --> page cache
//! ```
//!
//! A process is known by the number in its greetings; it is gone when its last socket is, however
//! it ended, and what it had open is closed for it. What it had written is in the page cache, and
//! stays.
//!
//! Lock order: files and descriptions (each held for a look-up only), a file's owner, a
//! description's `inner`, processes.

use super::description::{Answer, Description, Start, is_write};
use super::errno::{Errno, IntoErrno};
use super::filter::Filter;
use super::program;
use super::served_file::{FileKey, Owner, ServedFile, lock, path_of};
use crate::terminal;
use pagetide::PageCache;
use pagetide_sys::shared::Positions;
use pagetide_sys::tray::{NR_SLOTS, Tray};
use pagetide_sys::wire::{self, Offer, Op, Reason, Reply, Request, Status, TAG, adopt};
use rustix::fs::{Mode, OFlags, SeekFrom};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Descriptions, and files, kept although nobody is known to have them open.
const FORGOTTEN_MAX: usize = 1 << 17;
/// Threads that can have a tray at one time; others ask for what they miss.
const NR_TRAYS_MAX: usize = 64;

/// One run's state.
pub(super) struct Server {
    pub(super) cache: PageCache,
    filter: Filter,
    /// Positions that processes move by themselves.
    positions: Arc<Positions>,
    files: Mutex<HashMap<FileKey, Arc<ServedFile>>>,
    descriptions: Mutex<BTreeMap<u64, Arc<Description>>>,
    processes: Mutex<HashMap<u64, Process>>,
    next_id: AtomicU64,
    handed_over: [AtomicU64; Reason::ALL.len()],
    nr_processes: AtomicU64,
    /// Held once more for each tray.
    trays: Arc<()>,
}

/// What a process has.
#[derive(Default)]
struct Process {
    nr_sockets: usize,
    /// Descriptors of each description.
    known: HashMap<u64, u64>,
}

impl Server {
    pub(super) fn new(cache: PageCache, filter: Filter, positions: Positions) -> Server {
        Server {
            cache,
            filter,
            positions: Arc::new(positions),
            files: Mutex::default(),
            descriptions: Mutex::default(),
            processes: Mutex::default(),
            next_id: AtomicU64::new(1),
            handed_over: Default::default(),
            nr_processes: AtomicU64::new(0),
            trays: Arc::default(),
        }
    }

    /// How many files were handed to the kernel, for each reason.
    pub(super) fn handed_over(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(self.handed_over.iter().map(|count| count.load(Relaxed)))
    }

    /// Processes that have spoken to us, those that executed another program counted again.
    pub(super) fn nr_processes(&self) -> u64 {
        self.nr_processes.load(Relaxed)
    }

    /// A socket of `process` is there.
    pub(super) fn enter(&self, process: u64) {
        let mut processes = lock(&self.processes);
        let entry = processes.entry(process).or_insert_with(|| {
            self.nr_processes.fetch_add(1, Relaxed);
            Process::default()
        });
        entry.nr_sockets += 1;
    }

    /// A socket of `process` is gone; with the last, the process.
    pub(super) fn leave(&self, process: u64) {
        let mut processes = lock(&self.processes);
        let Some(entry) = processes.get_mut(&process) else { return };
        entry.nr_sockets -= 1;
        if entry.nr_sockets > 0 {
            return;
        }
        drop(processes);
        self.forget_all(process);
        lock(&self.processes).remove(&process);
    }

    /// The process has no descriptor any more that we know of.
    fn forget_all(&self, process: u64) {
        let mut processes = lock(&self.processes);
        let known = processes.get_mut(&process).map(|entry| std::mem::take(&mut entry.known));
        drop(processes);
        for (id, nr) in known.unwrap_or_default() {
            if let Some(description) = self.find(id) {
                // Nobody is left to tell; a later sync of the file still says so.
                let _ = self.release(&description, nr);
            }
        }
    }

    /// Answers one request. Bytes to send along are put into `target`.
    pub(super) fn answer(
        &self,
        process: u64,
        request: &Request,
        source: &[u8],
        descriptor: Option<OwnedFd>,
        target: &mut [u8],
    ) -> (Reply, usize) {
        let answer = match request.op {
            Op::Hello => Ok((Reply::done(0), 0)),
            Op::Leave => {
                self.forget_all(process);
                Ok((Reply::done(0), 0))
            }
            Op::FlushAll => self.cache.flush_all().errno().map(|()| (Reply::done(0), 0)),
            Op::Adopt
            | Op::HandOver
            | Op::Settle
            | Op::Execute
            | Op::Bypass
            | Op::FlushFile
            | Op::CutFile => self.answer_about(process, request, descriptor),
            _ => self.answer_for(process, request, source, target),
        };
        answer.unwrap_or_else(|errno| (Reply::done(-i64::from(errno.raw_os_error())), 0))
    }

    /// Requests about a descriptor that comes along.
    fn answer_about(&self, process: u64, request: &Request, came: Option<OwnedFd>) -> Answer {
        if request.op == Op::Bypass {
            terminal::note("pagetide: a program asked for io_uring or kernel AIO, and was refused");
            return Ok((Reply::done(0), 0));
        }
        let descriptor = came.ok_or(Errno::BADF)?;
        let reply = match request.op {
            Op::Adopt => self.adopt(process, request.flags, descriptor)?,
            Op::HandOver => {
                let reason = Reason::from_number(request.flags).ok_or(Errno::INVAL)?;
                self.hand_over(&descriptor, reason)?
            }
            Op::Settle => {
                let description = self.find(request.id).ok_or(Errno::BADF)?;
                settle(&description, &descriptor)?;
                Reply::status(Status::Kernel)
            }
            Op::FlushFile => self.flush_file(&descriptor)?,
            Op::CutFile => self.cut_file(&descriptor, request.len)?,
            _ => program::execute(&descriptor),
        };
        Ok((reply, 0))
    }

    /// Requests for a description.
    fn answer_for(
        &self,
        process: u64,
        request: &Request,
        source: &[u8],
        target: &mut [u8],
    ) -> Answer {
        let Some(one) = self.find(request.id) else {
            return Ok((Reply::status(Status::Forgotten), 0));
        };
        if !matches!(request.op, Op::Dup | Op::Close | Op::SetFlags) {
            one.open_pending(&self.cache)?;
        }
        match request.op {
            Op::Dup => {
                self.count(process, &one, 1);
                Ok((Reply::done(0), 0))
            }
            Op::Close => {
                self.touch(source);
                self.forget_one(process, &one)?;
                Ok((Reply::done(0), 0))
            }
            Op::Read => one.read(request, target),
            Op::Reserve => one.reserve(request.total, &self.positions),
            Op::ReadAt => one.read_at(request, target),
            Op::BringIn => one.bring_in(request),
            Op::Write => one.write(request, source, Start::Position),
            Op::WriteAt => one.write_at(request, source),
            Op::Append => one.write(request, source, Start::End),
            Op::Seek => one.seek(request),
            Op::SetLen => one.set_len(request.len),
            Op::Allocate => one.allocate(request),
            Op::Sync => one.sync(request.flags == 1),
            Op::Flush => one.flush(),
            Op::Advise => one.advise(request),
            Op::SetFlags => one.set_flags(request.flags),
            _ => Err(Errno::NOSYS),
        }
    }

    /// Pages that were read without asking: hits as any other.
    pub(super) fn touch(&self, log: &[u8]) {
        let entries: Vec<(u64, u64, u64)> = wire::decode_touches(log).collect();
        for of_one in entries.chunk_by(|one, next| one.0 == next.0) {
            let handle = self.find(of_one[0].0).and_then(|one| one.inner().handle.clone());
            if let Some(handle) = handle {
                let ranges: Vec<_> = of_one.iter().map(|(_, first, nr)| (*first, *nr)).collect();
                handle.touch_ranges(&ranges);
            }
        }
    }

    /// Pages that were missed, and read, by who has set them down; and a log.
    pub(super) fn admit(&self, tray: &Tray, request: &Request, data: &[u8]) {
        let (offers, log) = wire::decode_offers(data, request.len);
        let first = request.offset as u64;
        let offers: Vec<(Offer, u64)> =
            offers.take(NR_SLOTS).zip(0..).map(|(one, nr)| (one, first.wrapping_add(nr))).collect();
        for of_one in offers.chunk_by(|one, next| one.0.id == next.0.id) {
            if let Some(one) = self.find(of_one[0].0.id) {
                one.admit(tray, of_one);
            }
        }
        // A log alone may come by the other way, after pages that were set down later.
        if !offers.is_empty() {
            tray.give_back(first.wrapping_add(offers.len() as u64));
        }
        self.touch(log);
    }

    /// What counts one more thread's tray; `None` if there are enough.
    pub(super) fn count_tray(&self) -> Option<Arc<()>> {
        let counted = Arc::clone(&self.trays);
        // The server's own, and the new one.
        (Arc::strong_count(&counted) <= NR_TRAYS_MAX + 1).then_some(counted)
    }

    /// The frames' files, for a process to look at, that of the positions, and how many frames
    /// there are.
    pub(super) fn shared_files(&self) -> Option<([BorrowedFd<'_>; 3], u32)> {
        let ([frames, numbers], nr_frames) = self.cache.shared_files()?;
        Some(([frames, numbers, self.positions.file()?], nr_frames))
    }

    fn find(&self, id: u64) -> Option<Arc<Description>> {
        lock(&self.descriptions).get(&id).cloned()
    }

    /// The description that `descriptor` belongs to, if its position says so.
    fn find_tagged(&self, descriptor: &OwnedFd, key: FileKey) -> Option<Arc<Description>> {
        let position = rustix::fs::tell(descriptor).ok()?;
        self.find(position.checked_sub(TAG)?).filter(|found| found.key == key)
    }

    fn adopt(&self, process: u64, flags: u64, descriptor: OwnedFd) -> Result<Reply, Errno> {
        let (key, len) = FileKey::of(&descriptor)?;
        if let Some(known) = self.find_tagged(&descriptor, key) {
            return self.adopt_again(process, flags, &known, &descriptor);
        }
        let file = self.file(key);
        let mut owner = file.owner.write().expect("no holder panics");
        let reason = match &*owner {
            Owner::Kernel => return Ok(Reply::status(Status::Kernel)),
            _ if flags & adopt::FRESH == 0 => Some(Reason::Outside),
            _ if flags & adopt::KERNEL != 0 => Some(Reason::Standard),
            Owner::Nobody if self.is_excluded(&descriptor, len) => Some(Reason::Excluded),
            _ => None,
        };
        if let Some(reason) = reason {
            return self.give_up(&mut owner, reason);
        }
        let id = self.next_id.fetch_add(1, Relaxed);
        // A file system may have no such position.
        if rustix::fs::seek(&descriptor, SeekFrom::Start(TAG + id)).is_err() {
            return self.give_up(&mut owner, Reason::Excluded);
        }
        let description = Arc::new(Description::new(id, key, Arc::clone(&file), flags));
        if is_write(flags) {
            // One that cannot be opened again, to be read as well, cannot be served.
            let Ok(handle) = file.open(&mut owner, &self.cache, &descriptor, true) else {
                rustix::fs::seek(&descriptor, SeekFrom::Start(0))?;
                return self.give_up(&mut owner, Reason::Excluded);
            };
            if flags & adopt::TRUNCATE != 0 {
                file.set_len(&handle, 0)?;
            }
            description.inner().handle = Some(handle);
        } else {
            description.inner().pending = Some(name_of(descriptor));
        }
        self.remember(&description);
        self.count(process, &description, 1);
        Ok(Reply::done(id as i64))
    }

    /// A descriptor of a description we know, in a process that did not know it.
    fn adopt_again(
        &self,
        process: u64,
        flags: u64,
        known: &Arc<Description>,
        descriptor: &OwnedFd,
    ) -> Result<Reply, Errno> {
        let mut owner = known.file.owner.write().expect("no holder panics");
        if flags & adopt::KERNEL != 0 && !matches!(*owner, Owner::Kernel) {
            self.give_up(&mut owner, Reason::Standard)?;
        }
        if matches!(*owner, Owner::Kernel) {
            drop(owner);
            settle(known, descriptor)?;
            return Ok(Reply::status(Status::Kernel));
        }
        let is_forgotten = {
            let inner = known.inner();
            inner.handle.is_none() && inner.pending.is_none()
        };
        if is_forgotten {
            let handle = known.file.open(&mut owner, &self.cache, descriptor, known.write)?;
            known.inner().handle = Some(handle);
        }
        self.count(process, known, 1);
        Ok(Reply::done(known.id as i64))
    }

    fn is_excluded(&self, descriptor: &OwnedFd, len: u64) -> bool {
        let Ok(path) = std::fs::read_link(path_of(descriptor)) else { return true };
        len >= TAG || !self.filter.takes(&path) || program::is_program(descriptor, &path)
    }

    /// Hands the file over, and counts it.
    fn give_up(&self, owner: &mut Owner, reason: Reason) -> Result<Reply, Errno> {
        ServedFile::hand_over(owner)?;
        self.handed_over[reason as usize].fetch_add(1, Relaxed);
        Ok(Reply::status(Status::Kernel))
    }

    fn hand_over(&self, descriptor: &OwnedFd, reason: Reason) -> Result<Reply, Errno> {
        let (key, _) = FileKey::of(descriptor)?;
        let file = self.file(key);
        let mut owner = file.owner.write().expect("no holder panics");
        if !matches!(*owner, Owner::Kernel) {
            self.give_up(&mut owner, reason)?;
        }
        drop(owner);
        if let Some(description) = self.find_tagged(descriptor, key) {
            settle(&description, descriptor)?;
        }
        Ok(Reply::status(Status::Kernel))
    }

    /// Whatever times the caller is about to set must not be those of a later write-back.
    fn flush_file(&self, descriptor: &OwnedFd) -> Result<Reply, Errno> {
        let (key, _) = FileKey::of(descriptor)?;
        let known = lock(&self.files).get(&key).cloned();
        if let Some(file) = known {
            let owner = file.owner.read().expect("no holder panics");
            if let Owner::PageCache(opened) = &*owner {
                file.forget_touch();
                opened.flush()?;
            }
        }
        Ok(Reply::done(0))
    }

    /// truncate(2), where the page cache has the file.
    fn cut_file(&self, descriptor: &OwnedFd, len: u64) -> Result<Reply, Errno> {
        let (key, _) = FileKey::of(descriptor)?;
        let known = lock(&self.files).get(&key).cloned();
        let Some(file) = known else { return Ok(Reply::status(Status::Kernel)) };
        let mut owner = file.owner.write().expect("no holder panics");
        if !matches!(*owner, Owner::PageCache(_)) {
            return Ok(Reply::status(Status::Kernel));
        }
        file.set_len_by_name(&mut owner, &self.cache, descriptor, len)?;
        Ok(Reply::done(0))
    }

    fn file(&self, key: FileKey) -> Arc<ServedFile> {
        let mut files = lock(&self.files);
        if files.len() >= FORGOTTEN_MAX {
            // The map's own reference, and nobody else's: no description, no request.
            files.retain(|_, file| {
                Arc::strong_count(file) > 1
                    || !matches!(file.owner.try_read().as_deref(), Ok(Owner::Nobody))
            });
        }
        Arc::clone(files.entry(key).or_insert_with(|| Arc::new(ServedFile::new())))
    }

    fn remember(&self, description: &Arc<Description>) {
        let mut descriptions = lock(&self.descriptions);
        descriptions.insert(description.id, Arc::clone(description));
        if descriptions.len() > 2 * FORGOTTEN_MAX {
            let forgotten = descriptions.iter().filter(|(_, one)| one.inner().handle.is_none());
            let oldest: Vec<u64> = forgotten.map(|(id, _)| *id).take(FORGOTTEN_MAX).collect();
            oldest.iter().for_each(|id| drop(descriptions.remove(id)));
        }
    }

    fn count(&self, process: u64, description: &Description, nr: u64) {
        description.inner().nr_known += nr;
        let mut processes = lock(&self.processes);
        *processes.entry(process).or_default().known.entry(description.id).or_default() += nr;
    }

    /// The process has closed one of its descriptors; one we did not know of is no matter.
    fn forget_one(&self, process: u64, description: &Description) -> Result<(), Errno> {
        let mut processes = lock(&self.processes);
        let Some(known) = processes.get_mut(&process).map(|entry| &mut entry.known) else {
            return Ok(());
        };
        let Some(nr) = known.get_mut(&description.id) else { return Ok(()) };
        *nr -= 1;
        if *nr == 0 {
            known.remove(&description.id);
        }
        drop(processes);
        self.release(description, 1)
    }

    /// `nr` descriptors less; with the last that can write, what is dirty is written, so that the
    /// file is whole, with its right times, for everybody outside.
    fn release(&self, description: &Description, nr: u64) -> Result<(), Errno> {
        let file = &description.file;
        let mut written = Ok(());
        let is_last = description.inner().nr_known == nr;
        if is_last && description.write {
            let owner = file.owner.read().expect("no holder panics");
            let is_last_writer =
                matches!(&*owner, Owner::PageCache(opened) if opened.nr_writers == 1);
            let handle = description.inner().handle.clone();
            if let Some(handle) = handle.filter(|_| is_last_writer) {
                written = handle.flush().errno();
            }
        }
        let mut owner = file.owner.write().expect("no holder panics");
        let mut inner = description.inner();
        inner.nr_known = inner.nr_known.saturating_sub(nr);
        if inner.nr_known == 0 {
            inner.pending = None;
        }
        if inner.nr_known == 0 && inner.handle.take().is_some() {
            ServedFile::close(&mut owner, description.write);
        }
        written
    }
}

/// A descriptor that only names what `descriptor` has open: to keep that itself would keep the
/// file locks of a program that is killed, until we have heard of it.
fn name_of(descriptor: OwnedFd) -> OwnedFd {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::open(path_of(&descriptor), flags, Mode::empty()).unwrap_or(descriptor)
}

/// Gives the kernel the position of a description whose file it has.
fn settle(description: &Description, descriptor: &OwnedFd) -> Result<(), Errno> {
    let mut inner = description.inner();
    if !inner.is_settled {
        rustix::fs::seek(descriptor, SeekFrom::Start(inner.position.close()))?;
        if !inner.wants_direct {
            let flags = rustix::fs::fcntl_getfl(descriptor)?;
            rustix::fs::fcntl_setfl(descriptor, flags - OFlags::DIRECT)?;
        }
        inner.is_settled = true;
        inner.handle = None;
        inner.pending = None;
    }
    Ok(())
}
