//! The kernel's copies of files that the run has written or read past its own cache.
//!
//! **Problem.** The kernel serves standard output, locked files and others, and a short new file is
//! written through the kernel. These pages are memory of the run, outside the limit.
//!
//! **Idea.** The server remembers such files with a read-only descriptor each. Together they keep
//! at most a few MiB in the kernel's page cache. Beyond that, the file noted first is written back
//! and dropped. A file that grows is written back a window at a time, and its writer waits.
//!
//! ```text
//!   last close of a short new file -----------.
//!   hand-over ------------------------------- note --> pages counted --> window full: write back
//!   library: 1 MiB moved past the server ----'|                    `--> all full: drop the oldest
//!   every 10 ms: files with unseen use -------'
//!   after 1 s without a change ----------------------> written back, dropped, forgotten
//! ```
//!
//! Pages that were in the kernel's cache before the run's first access are never dropped. A file
//! stays remembered while a process uses it unseen by the library: by a mapping, or by the C
//! library's streams.
//!
//! **Invariants.** A file that the server leases is not remembered here, because the descriptor
//! would conflict with the lease: [`Copies::take`] comes first. A thread with a file's lock
//! takes no other lock except the queue's.
//!
//! **Ignored.** Files with pages from before the run, on kernels without cachestat(2). Files in
//! memory. Pages that are mapped stay, and are only counted.

use super::identity::{is_in_memory, leaves_room, lock, path_of};
use super::small_files::SmallFiles;
use crate::wire::{SHORT_FILE_BYTES, pass};
use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::kernel_cache::{read_kernel_cache, read_resident, write_back};
use pagetide_sys::lease::{self, LeaseKind, LeaseListener};
use rustix::fs::{Advice, Mode, OFlags, fadvise};
use std::collections::VecDeque;
use std::fs::File;
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Bounds of the bytes that all files together may keep: the limit divided by `PART`.
const BYTES_MIN: u64 = 2 << 20;
const BYTES_MAX: u64 = 4 << 20;
const PART: u64 = 16;
/// Maximum number of remembered files.
const FILES_MAX: usize = 256;
const TICK: Duration = Duration::from_millis(10);
/// Length of the pause for each remembered file, added to a tick. A look takes a quarter of it.
const PAUSE: Duration = Duration::from_micros(20);
/// Number of ticks without a change after which a file is dropped and forgotten.
const IDLE_TICKS: u32 = 100;

/// A forgotten file, without a descriptor.
pub(super) struct Taken {
    before: Vec<Range<u64>>,
    unseen: Unseen,
}

impl Taken {
    /// Returns true if all pages in the kernel's cache are the run's.
    pub(super) fn is_fresh(&self) -> bool {
        self.before.is_empty()
    }
}

/// A file's pages in the kernel's cache, or `None` while the server has a lease, or has forgotten
/// the file.
pub(super) type CopySlot = Mutex<Option<Copied>>;

/// The files with pages in the kernel's cache.
pub(super) struct Copies {
    queue: Mutex<Queue>,
    changed: Condvar,
    small_files: Arc<SmallFiles>,
    /// Maximum of the bytes that all files together may keep.
    most: u64,
    /// Listener for leases that show if a file has a writer.
    pub(super) listener: OnceLock<LeaseListener>,
}

#[derive(Default)]
struct Queue {
    /// Oldest first. A file without a [`Copied`] is passed over.
    files: VecDeque<Arc<CopySlot>>,
    /// Bytes of all files, and of the mapped files among them.
    nr_bytes: i64,
    nr_mapped: i64,
    nr_bytes_peak: i64,
}

impl Queue {
    fn count(&mut self, of: &Copied, before: u64, now: u64) {
        let more = now as i64 - before as i64;
        self.nr_bytes += more;
        self.nr_mapped += if of.unseen == Unseen::Mapped { more } else { 0 };
        self.nr_bytes_peak = self.nr_bytes_peak.max(self.nr_bytes);
    }

    /// Returns true if files are to be dropped for their bytes.
    fn has_many_bytes(&self, most: u64) -> bool {
        self.nr_bytes - self.nr_mapped > most as i64
    }

    /// Returns true if new files are to be written back at once.
    fn is_half_full(&self, most: u64) -> bool {
        self.has_many_bytes(most / 2) || self.files.len() > FILES_MAX / 2
    }

    fn has_many_files(&self) -> bool {
        self.files.len() > FILES_MAX
    }
}

/// A file with pages in the kernel's cache.
pub(super) struct Copied {
    file: File,
    /// Ranges with pages from before the run's first access, in bytes.
    before: Vec<Range<u64>>,
    nr_bytes: u64,
    /// Length of the file in bytes.
    len: u64,
    nr_idle: u32,
    /// The use of the file that the library does not see.
    unseen: Unseen,
}

/// The use of a file that the library does not see.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unseen {
    None,
    /// A process may read the file by the C library's streams.
    Reads,
    /// A process may also write the file so.
    Writes,
    /// The file is mapped. The pages are only counted.
    Mapped,
}

impl Copied {
    /// Opens the file of `of` again. `is_fresh` is true if no page was in the kernel's cache before
    /// the run's first access.
    fn open(of: &impl AsFd, is_fresh: bool) -> Option<Copied> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = rustix::fs::open(path_of(of), flags, Mode::empty()).ok()?;
        let file = Some(file).filter(leaves_room).filter(|file| !is_in_memory(file))?;
        let before = match is_fresh {
            true => Vec::new(),
            false => read_resident(&file, rustix::fs::fstat(&file).ok()?.st_size as u64).ok()?,
        };
        let (file, nr_bytes, len) = (file.into(), 0, 0);
        Some(Copied { file, before, nr_bytes, len, nr_idle: 0, unseen: Unseen::None })
    }

    /// Counts the run's bytes in the kernel's cache. Returns true if the number has changed.
    fn count(&mut self) -> bool {
        // A truncation has dropped the pages beyond the end.
        let len = rustix::fs::fstat(&self.file).map_or(i64::MAX, |stat| stat.st_size) as u64;
        self.len = len;
        self.before.retain(|range| range.start < len);
        if let Some(last) = self.before.last_mut() {
            last.end = last.end.min(len.next_multiple_of(PAGE_BYTES as u64));
        }
        let before: u64 = self.before.iter().map(|range| range.end - range.start).sum();
        // Without cachestat, the file counts as one window, and each report drops the pages.
        let unknown = pass::WINDOW / PAGE_BYTES as u64;
        let cached = read_kernel_cache(&self.file, 0, 0);
        let nr_cached = cached.map_or(unknown, |answer| answer.nr_cached);
        let now = (nr_cached * PAGE_BYTES as u64).saturating_sub(before);
        std::mem::replace(&mut self.nr_bytes, now) != now
    }

    /// Writes back, and drops clean pages before offset `end`. With `whole`, waits until the pages
    /// are clean.
    fn drop_pages(&self, end: u64, whole: bool) {
        // A failed write-back is reported to the program's next sync.
        let _ = write_back(&self.file, whole);
        let mut from = 0;
        for before in self.before.iter().chain([&(end..end)]) {
            let until = before.start.min(end);
            // A length of 0 stands for the rest of the file.
            let len = NonZeroU64::new(until.saturating_sub(from)).filter(|_| until < u64::MAX);
            if until > from {
                let _ = fadvise(&self.file, from, len, Advice::DontNeed);
            }
            from = from.max(before.end);
        }
    }

    /// Counts the pages, and writes back and drops what exceeds a window. A reader has read up to
    /// `end`.
    fn limit(&mut self, end: Option<u64>) {
        if self.count() {
            self.nr_idle = 0;
        }
        if self.unseen == Unseen::Mapped || self.nr_bytes < pass::WINDOW {
            return;
        }
        // Pages that a sequential reader has still to read are dropped last.
        self.drop_pages(end.unwrap_or(u64::MAX), false);
        self.count();
        if end.is_some() && self.nr_bytes > BYTES_MAX * 4 {
            self.drop_pages(u64::MAX, false);
            self.count();
        }
    }

    /// Returns true if the file is short, and all its pages in the kernel's cache are the run's.
    fn is_short(&self) -> bool {
        let is_small = self.len <= SHORT_FILE_BYTES && self.nr_bytes > 0;
        is_small && self.unseen == Unseen::None && self.before.is_empty()
    }

    /// Returns true if the file has no name: its blocks are free once no process has it open.
    fn is_unlinked(&self) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Returns true if a process may have the file open and use it unseen by the library.
    fn has_opener(&self, listener: Option<&LeaseListener>) -> bool {
        let Some(listener) = listener else { return true };
        // The kernel grants a write lease only to the single opener.
        match lease::take(self.file.as_fd(), LeaseKind::Write, *listener) {
            Ok(()) => lease::release(self.file.as_fd()).is_err(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => true,
            // The file system has no leases, or another user owns the file.
            Err(_) => self.unseen != Unseen::None,
        }
    }

    /// Counts a tick. Returns true if the file is to be dropped now: the file has not changed for
    /// long, or has neither a name nor an opener.
    fn is_due(&mut self, listener: Option<&LeaseListener>) -> bool {
        self.nr_idle += 1;
        let is_idle = self.nr_idle > IDLE_TICKS && self.nr_idle.is_multiple_of(IDLE_TICKS);
        is_idle || self.is_gone(listener)
    }

    /// Returns true if the file has neither a name nor an opener.
    fn is_gone(&self, listener: Option<&LeaseListener>) -> bool {
        self.is_unlinked() && !self.has_opener(listener)
    }
}

impl Copies {
    /// Makes an empty list for a run with this limit, in bytes.
    pub(super) fn new(limit: u64, small_files: Arc<SmallFiles>) -> Copies {
        Copies {
            queue: Mutex::default(),
            changed: Condvar::new(),
            small_files,
            most: (limit / PART).clamp(BYTES_MIN, BYTES_MAX),
            listener: OnceLock::new(),
        }
    }

    /// Returns the maximum of the bytes that all files together may keep.
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    /// Returns the bytes of all files, now and at most.
    pub(super) fn nr_bytes(&self) -> (u64, u64) {
        let queue = lock(&self.queue);
        (queue.nr_bytes.max(0) as u64, queue.nr_bytes_peak.max(0) as u64)
    }

    /// Counts the pages of a file that the kernel serves, as [`Copies::note`] does. `is_fresh` is
    /// as in [`Copied::open`].
    pub(super) fn pass(
        &self,
        file: &Arc<CopySlot>,
        of: &impl AsFd,
        is_fresh: bool,
        end: Option<u64>,
    ) -> bool {
        self.note(file, || Copied::open(of, is_fresh), end)
    }

    /// Returns the bytes of all files except the mapped ones.
    pub(super) fn nr_limited_bytes(&self) -> u64 {
        let queue = lock(&self.queue);
        (queue.nr_bytes - queue.nr_mapped).max(0) as u64
    }

    /// Counts a file's pages, and keeps all files together within the bound. Remembers a new file
    /// by `open`. `end` is the offset up to which a reader has read. Returns false if the file is
    /// not remembered.
    fn note(
        &self,
        file: &Arc<CopySlot>,
        open: impl FnOnce() -> Option<Copied>,
        end: Option<u64>,
    ) -> bool {
        let mut copied = lock(file);
        let is_new = copied.is_none();
        if is_new {
            *copied = open();
        }
        let Some(known) = copied.as_mut() else { return false };
        let before = known.nr_bytes;
        known.limit(end);
        let is_short = known.is_short() && self.small_files.nr_lent_bytes_max() > 0;
        if is_new && !is_short && lock(&self.queue).is_half_full(self.most) {
            // The write-back has ended when the file is the oldest.
            let _ = write_back(&known.file, false);
        }
        let mut queue = lock(&self.queue);
        queue.count(known, before, known.nr_bytes);
        if is_new {
            queue.files.push_back(Arc::clone(file));
        }
        let nr_tries = if end.is_some() {
            // A reader's pages ahead may exceed the bound.
            0
        } else if queue.has_many_bytes(self.most) {
            queue.files.len()
        } else {
            usize::from(is_new && queue.has_many_files())
        };
        drop((copied, queue));
        self.drop_oldest(nr_tries);
        if is_new {
            self.changed.notify_one();
        }
        true
    }

    /// Drops at most `nr_tries` files, oldest first, until the others are within the bounds.
    fn drop_oldest(&self, nr_tries: usize) {
        for _ in 0..nr_tries {
            let mut queue = lock(&self.queue);
            if !queue.has_many_bytes(self.most) && !queue.has_many_files() {
                return;
            }
            let Some(oldest) = queue.files.pop_front() else { return };
            drop(queue);
            if self.drop_file(&oldest) {
                lock(&self.queue).files.push_back(oldest);
            }
        }
    }

    /// Writes back and drops a file's pages, and forgets the file unless a process uses it unseen.
    /// Returns true if the file stays remembered.
    fn drop_file(&self, file: &CopySlot) -> bool {
        let mut copied = lock(file);
        let Some(known) = copied.as_mut() else { return false };
        if known.is_short() && self.small_files.keep(&known.file, known.nr_bytes) {
            lock(&self.queue).count(known, known.nr_bytes, 0);
            *copied = None;
            return false;
        }
        let before = known.nr_bytes;
        let (has_opener, is_unlinked) =
            (known.has_opener(self.listener.get()), known.is_unlinked());
        let is_needless = if has_opener { known.unseen == Unseen::Mapped } else { is_unlinked };
        if !is_needless {
            known.drop_pages(u64::MAX, true);
        }
        known.count();
        // The reports of an unlinked file's users do not tell if its pages are the run's.
        let is_left = has_opener && (known.unseen != Unseen::None || is_unlinked);
        let now = if is_left { known.nr_bytes } else { 0 };
        lock(&self.queue).count(known, before, now);
        if !is_left {
            *copied = None;
        }
        is_left
    }

    /// Forgets a file before the server leases the file, and closes the descriptor. Returns
    /// the rest for [`Copies::put_back`].
    pub(super) fn take(&self, file: &CopySlot) -> Option<Taken> {
        let copied = lock(file).take()?;
        lock(&self.queue).count(&copied, copied.nr_bytes, 0);
        Some(Taken { before: copied.before, unseen: copied.unseen })
    }

    /// Remembers a file again that could not be leased. `of` is a descriptor of the file.
    pub(super) fn put_back(&self, file: &Arc<CopySlot>, of: &impl AsFd, taken: Option<Taken>) {
        if let Some(Taken { before, unseen }) = taken {
            self.note(file, || Some(Copied { before, unseen, ..Copied::open(of, true)? }), None);
        }
    }

    /// Notes a short file after the release of its write lease. No page was cached before.
    pub(super) fn note_closed(&self, file: &Arc<CopySlot>, real: Arc<File>) {
        self.note(file, move || Copied::open(&real, true), None);
    }

    /// Returns true if a process may use the file unseen by the library.
    pub(super) fn is_watched(file: &CopySlot) -> bool {
        lock(file).as_ref().is_some_and(|copied| copied.unseen != Unseen::None)
    }

    /// Watches a file that the kernel serves. `is_fresh` is as in [`Copied::open`].
    pub(super) fn watch(
        &self,
        file: &Arc<CopySlot>,
        of: &impl AsFd,
        is_fresh: bool,
        unseen: Unseen,
    ) {
        self.forget_unlinked();
        self.note(file, || Some(Copied { unseen, ..Copied::open(of, is_fresh)? }), None);
        let mut copied = lock(file);
        if let Some(known) = copied.as_mut().filter(|_| unseen == Unseen::Writes)
            && known.unseen != Unseen::Mapped
        {
            known.unseen = unseen;
        }
    }

    /// Forgets the files with neither a name nor an opener, before a process needs their
    /// blocks.
    fn forget_unlinked(&self) {
        let files: Vec<_> = lock(&self.queue).files.iter().cloned().collect();
        for file in files {
            let listener = self.listener.get();
            let is_due = file
                .try_lock()
                .is_ok_and(|copied| copied.as_ref().is_some_and(|known| known.is_gone(listener)));
            if is_due {
                self.drop_file(&file);
            }
        }
    }

    /// Drops all files that no process has open, for their blocks on a full disk.
    pub(super) fn drop_all(&self) {
        let files = std::mem::take(&mut lock(&self.queue).files);
        let left: Vec<_> = files.into_iter().filter(|file| self.drop_file(file)).collect();
        lock(&self.queue).files.extend(left);
    }

    /// Looks at all files after a tick. Returns their number.
    fn look(&self) -> usize {
        let files: Vec<_> = lock(&self.queue).files.iter().cloned().collect();
        files.iter().for_each(|file| self.look_at(file));
        // Another thread may remember a file again, so a file in use stays.
        let is_remembered =
            |file: &Arc<CopySlot>| file.try_lock().map_or(true, |file| file.is_some());
        lock(&self.queue).files.retain(is_remembered);
        files.len()
    }

    fn look_at(&self, file: &Arc<CopySlot>) {
        let unseen = lock(file).as_ref().map(|copied| copied.unseen);
        match unseen {
            // A reader's position is unknown.
            Some(Unseen::Reads) => self.note(file, || None, Some(0)),
            Some(Unseen::Writes | Unseen::Mapped) => self.note(file, || None, None),
            Some(Unseen::None) | None => false,
        };
        let listener = self.listener.get();
        let is_due = lock(file).as_mut().is_some_and(|copied| copied.is_due(listener));
        if is_due {
            self.drop_file(file);
        }
    }

    /// Looks at the files every 10 ms, and calls `tick`, until the server stops. Waits while there
    /// are no files and `tick` returns false.
    pub(super) fn run(&self, is_stopping: impl Fn() -> bool, tick: impl Fn() -> bool) {
        while !is_stopping() {
            let nr_files = self.look();
            if tick() || nr_files > 0 {
                std::thread::sleep(TICK + PAUSE * nr_files as u32);
                continue;
            }
            let queue = lock(&self.queue);
            let has_loan = || self.small_files.nr_lent_bytes() > 0;
            let is_idle =
                |queue: &mut Queue| queue.files.is_empty() && !has_loan() && !is_stopping();
            drop(self.changed.wait_while(queue, is_idle).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Drops the pages that readers have left, and those written since the last look, at the end of
    /// the run.
    pub(super) fn finish(&self) {
        // The queue's lock comes after the files' locks.
        let files = std::mem::take(&mut lock(&self.queue).files);
        for file in files {
            if let Some(copied) = &*lock(&file)
                && copied.unseen != Unseen::Mapped
                && copied.nr_bytes >= pass::WINDOW
            {
                copied.drop_pages(u64::MAX, true);
            }
        }
    }

    pub(super) fn wake(&self) {
        let _queue = lock(&self.queue);
        self.changed.notify_one();
    }
}
