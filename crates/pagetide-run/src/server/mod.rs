//! The server: answers the requests of the processes under a run.
//!
//! ```text
//!   listener --> a thread for each socket --> Server::answer --> description --> page cache
//!   broken lease --> breaks --> the kernel gets the file
//! ```
//!
//! Written bytes stay in the page cache when the writing process ends.
//!
//! Lock order: an ending process, a call lock (`CallLock`), `files` (for look-ups only), a file's
//! `state`, a description's `inner`, `holders`, in-flight `changes`.

mod answer;
mod breaks;
mod call_lock;
mod changes;
mod copies;
mod holders;
mod identity;
mod kernel_files;
mod leased_file;
mod life;
mod maps;
mod miss_rings;
mod opening;
mod packets;
mod position;
mod requests;
mod served_file;
mod small_files;
mod sockets;
mod windows;
mod writing;

pub use sockets::Listener;
pub(crate) use sockets::answers;

use crate::errno::{Errno, IntoErrno};
use crate::filter::Filter;
use crate::wire::{self, MissRecord, Op, Reason, Request};
use answer::{Answer, ONLY_KERNEL, Outcome, done};
use breaks::Leases;
use changes::{Author, Changes};
use copies::{Copies, Unseen};
use holders::{Closing, Holder, Holders};
use identity::{FileKey, lock};
use maps::Maps;
use miss_rings::ThreadRing;
use pagetide::PageCache;
use pagetide::seam::{HeldFiles, SharedPages};
use pagetide_sys::miss_ring::NR_SLOTS;
use pagetide_sys::shared::ReadMarks;
use served_file::{Description, Ownership, ServedFile};
use small_files::SmallFiles;
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Maximum number of table entries before entries of closed files go.
const FILES_MAX: usize = 1 << 16;
/// Maximum number of miss rings. Threads without a ring send requests for misses.
const NR_RINGS_MAX: usize = 64;
/// Maximum number of write windows, and the range of their length in bytes. The length is the
/// cache's divided by `WINDOW_PART`.
const NR_WINDOWS_MAX: usize = 8;
const WINDOW_BYTES: RangeInclusive<u64> = 128 << 10..=1 << 20;
const WINDOW_PART: u64 = 64;

/// Prints a message for the user.
pub type Say = fn(&str);

#[derive(Clone, Copy)]
struct Sender<'a> {
    /// The process number in the greeting.
    process: u64,
    /// The system's id of the sending process.
    pid: i32,
    author: Author<'a>,
}

/// The state of one run.
pub struct Server {
    cache: PageCache,
    filter: Filter,
    say: Say,
    /// Positions that processes see and move without a request.
    positions: position::Words,
    /// Pages that processes are reading from disk.
    read_marks: ReadMarks,
    /// Read-only descriptors of the frame memory's two files, and the number of frames.
    frames: Option<([Arc<OwnedFd>; 2], u32)>,
    files: Mutex<HashMap<FileKey, Arc<ServedFile>>>,
    holders: Holders,
    changes: Changes,
    maps: Maps,
    leases: Leases,
    copies: Arc<Copies>,
    small_files: Arc<SmallFiles>,
    next_id: AtomicU64,
    handed_over: [AtomicU64; Reason::ALL.len()],
    said: Mutex<BTreeSet<String>>,
    nr_lost: AtomicU64,
    is_stopping: AtomicBool,
    /// Counts the miss rings, which hold one reference each.
    miss_rings: Arc<()>,
    /// Counts the write windows, which hold one reference each.
    windows: Arc<()>,
    /// Bytes of a write window.
    window_bytes: usize,
}

/// Returns one more reference, or `None` if `nr_max` are in use.
fn one_more(counted: &Arc<()>, nr_max: usize) -> Option<Arc<()>> {
    let one = Arc::clone(counted);
    // Two of the references are not in use: the server's and the new one.
    (Arc::strong_count(&one) <= nr_max + 1).then_some(one)
}

impl Server {
    /// Makes a server of `cache`, which was built as shared.
    ///
    /// # Errors
    /// Fails with the system's error if memory or descriptors run out.
    pub fn new(cache: PageCache, filter: Filter, say: Say) -> std::io::Result<Server> {
        let frames = match cache.shared_files() {
            Some(([frames, numbers], nr_frames)) => {
                let files = [identity::open_read_only(frames)?, identity::open_read_only(numbers)?];
                Some((files, nr_frames))
            }
            None => None,
        };
        let limit = cache.stats().memory_bytes;
        let small_files = Arc::new(SmallFiles::new(&cache));
        let copies = Arc::new(Copies::new(limit, Arc::clone(&small_files)));
        let (shortest, longest) = WINDOW_BYTES.into_inner();
        let window_bytes = (limit / WINDOW_PART).clamp(shortest, longest) as usize;
        Ok(Server {
            cache,
            filter,
            say,
            positions: position::Words::new()?,
            read_marks: ReadMarks::new()?,
            frames,
            files: Mutex::default(),
            holders: Holders::default(),
            changes: Changes::default(),
            maps: Maps::default(),
            leases: Leases::default(),
            copies,
            small_files,
            next_id: AtomicU64::new(1),
            handed_over: Default::default(),
            said: Mutex::default(),
            nr_lost: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
            miss_rings: Arc::default(),
            windows: Arc::default(),
            window_bytes,
        })
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// Fails with the system's error if a thread or a signal cannot be set up.
    pub fn start(self: &Arc<Server>, listener: Listener) -> std::io::Result<Serving> {
        self.watch_standard_files();
        let (ready, is_ready) = channel();
        let own = Arc::clone(self);
        let thread = std::thread::Builder::new().name("pagetide-leases".into());
        let watching = thread.spawn(move || breaks::watch(&own, &ready))?;
        is_ready.recv().unwrap_or_else(|_| Err(std::io::ErrorKind::BrokenPipe.into()))?;
        let (own, listener) = (Arc::clone(self), Arc::new(listener));
        let listening = Arc::clone(&listener);
        let thread = std::thread::Builder::new().name("pagetide-accept".into());
        let accepting = thread.spawn(move || sockets::serve(&listening, &own))?;
        let own = Arc::clone(self);
        let thread = std::thread::Builder::new().name("pagetide-scan".into());
        let scanning = thread.spawn(move || holders::scan::run(&own))?;
        let own = Arc::clone(self);
        let thread = std::thread::Builder::new().name("pagetide-copies".into());
        let dropping = thread.spawn(move || kernel_files::run(&own))?;
        let threads = [watching, accepting, scanning, dropping];
        Ok(Serving { server: Arc::clone(self), listener, threads })
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Relaxed)
    }

    /// Returns the page cache.
    pub fn cache(&self) -> &PageCache {
        &self.cache
    }

    /// Returns the number of files that were left to the kernel, for each reason.
    pub fn handed_over(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(self.handed_over.iter().map(|count| count.load(Relaxed)))
    }

    /// Returns the number of greetings by processes. Each exec counts again.
    pub fn nr_processes(&self) -> u64 {
        self.holders.nr_processes_ever()
    }

    /// Returns the number of files that lost bytes in a hand-over to another program.
    pub fn nr_lost(&self) -> u64 {
        self.nr_lost.load(Relaxed)
    }

    /// Answers a request other than a write. Puts bytes to send into `target`.
    fn answer(
        &self,
        sender: Sender<'_>,
        request: &Request,
        source: &[u8],
        files: Vec<OwnedFd>,
        target: &mut [u8],
    ) -> Answer {
        let process = sender.process;
        let outcome = match request.op {
            Op::Leave => {
                self.note_own_bytes(request.len);
                self.forget_process(process, Closing::Process(sender.pid));
                done(0)
            }
            Op::FlushAll => self.cache.flush_all().errno().and_then(|()| done(0)),
            Op::Say => self.pass_on(source),
            Op::Open => self.open(sender, request.flags, files),
            Op::Adopt => self.adopt(process, files),
            Op::FlushFile => self.flush_file(files),
            Op::Map => self.map(sender, request, files),
            Op::Fault => self.fault(process, request),
            Op::Unmap => self.unmap(process, request),
            Op::Lock => self.lock_pages(process, request),
            Op::StandIn => self.stand_in(request.id),
            Op::Pass => self.pass(request, files),
            Op::Remember => self.remember(request, source),
            _ => self.answer_for(sender, request, source, target),
        };
        outcome.unwrap_or_else(Answer::failed)
    }

    fn answer_for(
        &self,
        sender: Sender<'_>,
        request: &Request,
        source: &[u8],
        target: &mut [u8],
    ) -> Outcome {
        let (process, holder) = (sender.process, Holder::Process(sender.process));
        match request.op {
            Op::Installed => {
                // The kernel has the file, so nothing is written back.
                let _ = self.forget(holder, request.id, u64::MAX, Closing::Nothing);
                done(0)
            }
            Op::TakeReal => match self.holders.find(request.id) {
                Some(one) => self.take_real(process, &one),
                None => done(self.holders.nr_reals()),
            },
            Op::Dup => {
                self.holders.add(holder, request.id);
                done(0)
            }
            Op::Close => {
                self.touch(source);
                let closing = Closing::Descriptor(sender.pid, request.offset as i32);
                self.forget(holder, request.id, 1, closing)?;
                done(0)
            }
            _ => {
                let act =
                    |one: &Arc<Description>| self.answer_by(one, sender.author, request, target);
                self.on(process, request.id, act).or_else(|errno| self.or_kernel(request.id, errno))
            }
        }
    }

    fn answer_by(
        &self,
        one: &Description,
        author: Author<'_>,
        request: &Request,
        target: &mut [u8],
    ) -> Outcome {
        match request.op {
            Op::Read => one.read(author, request, target),
            Op::Reserve => one.reserve(author, request.total, &self.positions),
            Op::ReadAt => one.read_at(request, target),
            Op::BringIn => one.bring_in(request),
            Op::Seek => one.seek(author, request, &self.positions),
            Op::SetLen => one.set_len(author, request.len),
            Op::Allocate => self.with_room(|| one.allocate(author, request)),
            Op::Sync => one.sync(request.flags == 1),
            Op::Flush => one.flush(),
            Op::Advise => one.advise(request),
            Op::SetFlags => one.set_flags(author, request.flags),
            Op::GetFlags => one.flags(),
            Op::Lend => {
                self.end_locks_of(&one.file);
                one.lend(request)
            }
            Op::Flock => self.lock_description(one, request.flags),
            Op::HandOver => {
                let reason = Reason::from_number(request.flags).ok_or(Errno::INVAL)?;
                self.hand_over(one, reason)
            }
            _ => Err(Errno::NOSYS),
        }
    }

    /// Prints a message of the preload library, once.
    fn pass_on(&self, sentence: &[u8]) -> Outcome {
        let sentence = &sentence[..sentence.len().min(wire::SENTENCE_BYTES_MAX)];
        self.say_once(String::from_utf8_lossy(sentence).trim_end());
        done(0)
    }

    /// Prints a message, unless printed before.
    fn say_once(&self, sentence: &str) {
        if lock(&self.said).insert(sentence.to_owned()) {
            (self.say)(sentence);
        }
    }

    fn note_lost(&self, sentence: &str) {
        self.nr_lost.fetch_add(1, Relaxed);
        (self.say)(sentence);
    }

    /// Counts a file that is left to the kernel, once.
    fn count_kernel_file(&self, file: &ServedFile, reason: Reason) {
        if !file.is_counted.swap(true, Relaxed) {
            self.handed_over[reason as usize].fetch_add(1, Relaxed);
        }
    }

    fn name_of(&self, file: &ServedFile) -> String {
        let path = file
            .descriptions()
            .first()
            .and_then(|one| std::fs::read_link(identity::path_of(&one.stand_in)).ok());
        path.map_or_else(|| "a file".to_owned(), |path| path.display().to_string())
    }

    /// Records hits without requests.
    fn touch(&self, log: &[u8]) {
        let entries: Vec<(u64, u64, u64)> = wire::decode_touches(log).collect();
        for of_one in entries.chunk_by(|one, next| one.0 == next.0) {
            let handle = self.holders.find(of_one[0].0).and_then(|one| one.inner().handle.clone());
            if let Some(handle) = handle {
                let ranges: Vec<_> = of_one.iter().map(|(_, first, nr)| (*first, *nr)).collect();
                handle.touch_ranges(&ranges);
            }
        }
    }

    /// Inserts the pages of a miss ring into the cache, and records a log of hits.
    fn insert(&self, ring: &ThreadRing, request: &Request, data: &[u8]) {
        let (records, log) = wire::decode_records(data, request.len);
        let first = request.offset as u64;
        let records: Vec<(MissRecord, u64)> = records
            .take(NR_SLOTS)
            .zip(0..)
            .map(|(one, nr)| (one, first.wrapping_add(nr)))
            .collect();
        for of_one in records.chunk_by(|one, next| one.0.id == next.0.id) {
            if let Some(one) = self.holders.find(of_one[0].0.id) {
                ring.insert(&one, of_one, &self.read_marks);
            }
        }
        ring.give_back(first.wrapping_add(records.len() as u64));
        self.touch(log);
    }

    /// Returns a reference for one more miss ring, or `None` at the maximum.
    fn count_ring(&self) -> Option<Arc<()>> {
        one_more(&self.miss_rings, NR_RINGS_MAX)
    }

    /// Returns a reference for one more write window, or `None` at the maximum.
    fn count_window(&self) -> Option<Arc<()>> {
        one_more(&self.windows, NR_WINDOWS_MAX)
    }

    /// Writes the file back before the caller sets times, so that no write-back changes the times.
    fn flush_file(&self, files: Vec<OwnedFd>) -> Outcome {
        let stand_in = files.first().ok_or(Errno::BADF)?;
        let (key, _) = FileKey::of(stand_in)?;
        let known = lock(&self.files).get(&key).cloned();
        if let Some(file) = known {
            let state = file.state.read().expect("no holder panics");
            if let Ownership::Cache(opened) = &*state {
                opened.flush()?;
            }
        }
        done(0)
    }

    /// Hands the file over if only the kernel can answer a failed request. If the description has
    /// ended, another thread of the process has replaced the stand-ins.
    fn or_kernel(&self, id: u64, errno: Errno) -> Outcome {
        match self.holders.find(id) {
            _ if errno != ONLY_KERNEL => Err(errno),
            Some(one) => self.hand_over(&one, Reason::Interface),
            None => Ok(Answer::kernel(None)),
        }
    }

    /// Serves flock(2).
    fn lock_description(&self, one: &Description, operation: u64) -> Outcome {
        self.end_locks_of(&one.file);
        match one.flock(operation) {
            Err(ONLY_KERNEL) => self.hand_over(one, Reason::Locked),
            outcome => outcome,
        }
    }

    /// Prepares an exec in `process` that closes a stand-in of the description. The kernel gets a
    /// lock that the exec may end.
    fn take_real(&self, process: u64, one: &Description) -> Outcome {
        if one.has_lock() && !self.holders.is_held_beside(process, one.id) {
            return self.hand_over(one, Reason::Locked);
        }
        match one.has_real() {
            true => one.kernel_answer(),
            false => done(self.holders.nr_reals()),
        }
    }

    fn hand_over(&self, one: &Description, reason: Reason) -> Outcome {
        let mut state = one.file.state.write().expect("no holder panics");
        if let Ownership::Cache(opened) = &*state {
            let is_fresh = opened.is_fresh;
            let unseen = match reason {
                Reason::Mapped | Reason::Unwatched | Reason::Short => Unseen::Mapped,
                _ if one.access.write => Unseen::Writes,
                _ => Unseen::Reads,
            };
            one.file.hand_over(&mut state)?;
            self.count_kernel_file(&one.file, reason);
            self.copies.watch(&one.file.copy, &one.stand_in, is_fresh, unseen);
        }
        drop(state);
        one.open_real(None);
        self.end_locks_of(&one.file);
        one.kernel_answer()
    }

    fn file(&self, key: FileKey) -> Arc<ServedFile> {
        let mut files = lock(&self.files);
        if files.len() >= FILES_MAX && !files.contains_key(&key) {
            // An entry with one reference has no description and no request.
            files.retain(|_, file| Arc::strong_count(file) > 1 || !file.is_free());
        }
        Arc::clone(files.entry(key).or_insert_with(|| Arc::new(ServedFile::new(key))))
    }

    /// Runs `act`. On a full disk, makes room and repeats `act`.
    fn with_room<T>(&self, act: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        act().or_else(|errno| match errno {
            Errno::NOSPC | Errno::DQUOT => {
                self.make_room();
                act()
            }
            _ => Err(errno),
        })
    }

    /// Ends unheld descriptions, and closes the files that only the server has open. Frees the
    /// blocks of removed files.
    fn make_room(&self) {
        self.end_all_unheld();
        self.copies.drop_all();
        self.cache.wait_for_closed_files();
    }

    /// Ends the run: writes back all dirty pages and releases every file.
    ///
    /// # Errors
    /// Fails if a dirty page cannot be written back.
    pub fn finish(&self) -> Result<(), pagetide::SyncError> {
        let flushed = self.cache.flush_all();
        for file in lock(&self.files).values() {
            let mut state = file.state.write().expect("no holder panics");
            if let Ownership::Cache(opened) = std::mem::replace(&mut *state, Ownership::Free) {
                opened.close(&file.copy);
            }
        }
        self.copies.finish();
        self.return_loan();
        flushed
    }
}

/// A server with running threads.
pub struct Serving {
    server: Arc<Server>,
    listener: Arc<Listener>,
    threads: [JoinHandle<()>; 4],
}

impl Serving {
    /// Stops accepting connections. Returns when all programs have disconnected.
    pub fn stop(self) {
        self.server.is_stopping.store(true, Relaxed);
        self.listener.stop();
        self.server.leases.wake();
        self.server.holders.scan();
        self.server.copies.wake();
        for thread in self.threads {
            // A panic has printed a message, and the cache is written back all the same.
            let _ = thread.join();
        }
    }
}
