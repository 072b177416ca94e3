//! Small files and new files that the run leaves in the kernel's page cache.
//!
//! **Problem.** A program reads many small files faster from the kernel than from a server, again
//! and again, and writes new files faster. But the kernel's page cache is outside the limit.
//!
//! **Idea.** The page cache lends a part of its memory to these files, as long as the page
//! cache does not need the memory itself. The server remembers each file by its path and drops the
//! oldest file's pages when all files together exceed the loan. No descriptor is kept, so a file
//! can be unmounted, removed and leased at any time.
//!
//! ```text
//!   library: a file that was not cached, or a new file ---.
//!   library: a new file has grown by 1 MiB ------- grow --+
//!   copies: a short file, instead of a drop of its pages -+--> insert --> more than the loan?
//!                                                            frames are free: borrow a step more
//!                                                            otherwise: drop the oldest file
//!   every 10 ms: the frames run low ---------------------> drop files, return a step
//! ```
//!
//! The sum of the frames and of the loan never exceeds the limit.
//!
//! **Invariants.** A file that the server leases is not remembered here, because the open before
//! the drop would break the lease: [`SmallFiles::remove`] comes first. The list's lock is the last
//! lock, and no thread waits for a device meanwhile. One thread at a time drops files, and others
//! wait for their [`SmallFiles::turn`].
//!
//! **Ignored.** Files in a folder that is moved after they are remembered keep their pages.

use super::identity::{is_uncached, lock, path_of};
use crate::storage::Storage;
use pagetide::seam::{FrameUse, HeldFiles};
use pagetide::{Bytes, PageCache};
use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::kernel_cache::{read_kernel_cache, start_write_back, write_back};
use rustix::fs::{Access, Advice, AtFlags, CWD, Mode, OFlags, fadvise};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A step of the loan is the limit divided by `STEP_PART`, at most `STEP_BYTES_MAX`. The page cache
/// keeps at least the limit divided by `KEPT_PART`.
const STEP_PART: u64 = 16;
const STEP_BYTES_MAX: u64 = 32 << 20;
const KEPT_PART: u64 = 4;
/// Minimum limit of a run with a loan, in bytes.
const LIMIT_MIN: u64 = 8 << 20;
/// Maximum number of remembered files.
const FILES_MAX: usize = 1 << 16;
/// Time without an access after which the page cache lends frames in use.
const IDLE: Duration = Duration::from_secs(1);

/// Device and inode number, as in stat(2).
pub(super) type Numbers = (u64, u64);

/// A remembered file.
pub(super) struct Named {
    path: PathBuf,
    nr_bytes: u64,
}

#[derive(Default)]
struct List {
    files: HashMap<Numbers, Named>,
    /// Oldest first. Files that are no longer in `files` are passed over.
    order: VecDeque<Numbers>,
}

/// The part of the frames that the page cache lends.
struct Loan {
    step: u64,
    /// Number of accesses of the page cache, and the time at which this number was seen first.
    nr_accesses: u64,
    since: Instant,
}

impl Loan {
    /// Returns true if the page cache has not been accessed for long.
    fn is_idle(&mut self, frames: &FrameUse) -> bool {
        if self.nr_accesses != frames.nr_accesses {
            (self.nr_accesses, self.since) = (frames.nr_accesses, Instant::now());
        }
        self.since.elapsed() > IDLE
    }
}

pub(super) struct SmallFiles {
    list: Mutex<List>,
    turn: Mutex<()>,
    nr_bytes: AtomicU64,
    nr_bytes_max: AtomicU64,
    loan: Mutex<Loan>,
    nr_lent_bytes: AtomicU64,
    nr_lent_bytes_max: u64,
}

impl SmallFiles {
    /// Makes an empty list for a run with this page cache.
    pub(super) fn new(cache: &PageCache) -> SmallFiles {
        let limit = cache.frame_use().map_or(0, |frames| frames.nr_bytes);
        let step = (limit / STEP_PART).min(STEP_BYTES_MAX) / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        let most = if limit < LIMIT_MIN { 0 } else { limit - limit / KEPT_PART };
        SmallFiles {
            list: Mutex::default(),
            turn: Mutex::default(),
            nr_bytes: AtomicU64::new(0),
            nr_bytes_max: AtomicU64::new(0),
            loan: Mutex::new(Loan { step, nr_accesses: 0, since: Instant::now() }),
            nr_lent_bytes: AtomicU64::new(0),
            nr_lent_bytes_max: most,
        }
    }

    pub(super) fn nr_bytes(&self) -> u64 {
        self.nr_bytes.load(Relaxed)
    }

    pub(super) fn nr_bytes_max(&self) -> u64 {
        self.nr_bytes_max.load(Relaxed)
    }

    pub(super) fn nr_lent_bytes(&self) -> u64 {
        self.nr_lent_bytes.load(Relaxed)
    }

    pub(super) fn nr_lent_bytes_max(&self) -> u64 {
        self.nr_lent_bytes_max
    }

    /// Remembers a file with up to `nr_bytes` in the kernel's page cache.
    pub(super) fn insert(&self, numbers: Numbers, path: &Path, nr_bytes: u64) {
        let nr_bytes = nr_bytes.next_multiple_of(PAGE_BYTES as u64);
        let mut list = lock(&self.list);
        let named = Named { path: path.to_owned(), nr_bytes };
        let now = self.nr_bytes.fetch_add(nr_bytes, Relaxed) + nr_bytes;
        self.nr_bytes_max.fetch_max(now, Relaxed);
        match list.files.insert(numbers, named) {
            Some(before) => {
                self.nr_bytes.fetch_sub(before.nr_bytes, Relaxed);
            }
            None => list.order.push_back(numbers),
        }
    }

    /// Remembers an open file by its name, so that its pages stay. Returns false if the file has no
    /// name, or if the name is another process's: in a mount namespace, paths differ.
    pub(super) fn keep(&self, file: &impl AsFd, nr_bytes: u64) -> bool {
        let Ok(stat) = rustix::fs::fstat(file) else { return false };
        let Ok(path) = std::fs::read_link(path_of(file)) else { return false };
        let numbers = (stat.st_dev, stat.st_ino);
        let has_name = || stat.st_nlink > 0 && open_name(&path, numbers).is_some();
        if self.nr_lent_bytes_max == 0 || !has_name() {
            return false;
        }
        if self.is_nearly_full() {
            // The pages are clean when the file is the oldest.
            let _ = start_write_back(file);
        }
        self.insert(numbers, &path, nr_bytes);
        true
    }

    /// Counts `nr_bytes` more of a file of `len` bytes in the kernel's page cache, and remembers
    /// the file by its name. Returns false if the file cannot be followed by its name.
    pub(super) fn grow(&self, file: &OwnedFd, numbers: Numbers, nr_bytes: u64, len: u64) -> bool {
        if let Some(named) = lock(&self.list).files.get_mut(&numbers) {
            let most = len.next_multiple_of(PAGE_BYTES as u64).max(named.nr_bytes);
            let now = (named.nr_bytes + nr_bytes).min(most);
            let all = self.nr_bytes.fetch_add(now - named.nr_bytes, Relaxed);
            self.nr_bytes_max.fetch_max(all + now - named.nr_bytes, Relaxed);
            named.nr_bytes = now;
            return true;
        }
        let is_local = rustix::fs::fstatfs(file)
            .is_ok_and(|stat| Storage::of_kind(stat.f_type as u64) == Storage::Local);
        let read = Access::READ_OK;
        // A file that was forgotten by another name may have more pages.
        let cached = read_kernel_cache(file, 0, 0).map(|found| found.nr_cached * PAGE_BYTES as u64);
        is_local
            && rustix::fs::accessat(CWD, path_of(file), read, AtFlags::EACCESS).is_ok()
            && self.keep(file, cached.unwrap_or(nr_bytes))
    }

    /// Forgets a file. Returns the file, or `None` if the file was not remembered.
    pub(super) fn remove(&self, numbers: Numbers) -> Option<Named> {
        // An entry in `order` stays until it is the oldest.
        let removed = lock(&self.list).files.remove(&numbers);
        self.nr_bytes.fetch_sub(removed.as_ref().map_or(0, |named| named.nr_bytes), Relaxed);
        removed
    }

    /// Remembers a removed file again.
    pub(super) fn put_back(&self, numbers: Numbers, named: &Named) {
        self.insert(numbers, &named.path, named.nr_bytes);
    }

    /// Changes the path of a file, if remembered.
    pub(super) fn move_to(&self, numbers: Numbers, path: &Path) {
        if let Some(named) = lock(&self.list).files.get_mut(&numbers) {
            named.path = path.to_owned();
        }
    }

    /// Waits for other threads that drop files. The caller may drop files while it has the guard.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        lock(&self.turn)
    }

    /// Returns `None` if another thread drops files.
    pub(super) fn try_turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.turn.try_lock().ok()
    }

    /// Returns the oldest file. The caller must call [`SmallFiles::take_out`],
    /// [`SmallFiles::remove`] or [`SmallFiles::put_last`] for the file.
    pub(super) fn oldest(&self) -> Option<(Numbers, PathBuf)> {
        let mut list = lock(&self.list);
        while let Some(numbers) = list.order.pop_front() {
            if let Some(named) = list.files.get(&numbers) {
                return Some((numbers, named.path.clone()));
            }
        }
        None
    }

    /// Makes the oldest file the newest.
    pub(super) fn put_last(&self, numbers: Numbers) {
        lock(&self.list).order.push_back(numbers);
    }

    /// Forgets a file before the drop of its pages, which are counted until the result is dropped.
    pub(super) fn take_out(&self, numbers: Numbers) -> Option<TakenOut<'_>> {
        let named = lock(&self.list).files.remove(&numbers)?;
        Some(TakenOut { files: self, nr_bytes: named.nr_bytes })
    }

    /// Looks for the files of one folder by their inode numbers, after one of them has another
    /// name. Returns that name. Forgets the files that are not in the folder.
    pub(super) fn follow_renames(&self, renamed: Numbers) -> Option<PathBuf> {
        let mut list = lock(&self.list);
        let list = &mut *list;
        let Some(folder) = list.files.get(&renamed).and_then(|named| named.path.parent()) else {
            self.forget(list, renamed);
            return None;
        };
        let folder = folder.to_owned();
        let is_here = |named: &Named| named.path.parent() == Some(&folder);
        let here = list.files.iter().filter(|(_, named)| is_here(named));
        let mut lost: HashMap<u64, Numbers> =
            here.map(|(numbers, _)| (numbers.1, *numbers)).collect();
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let found = lost.remove(&entry.ino());
            if let Some(named) = found.and_then(|numbers| list.files.get_mut(&numbers)) {
                named.path = entry.path();
            }
        }
        lost.into_values().for_each(|numbers| self.forget(list, numbers));
        list.files.get(&renamed).map(|named| named.path.clone())
    }

    fn forget(&self, list: &mut List, numbers: Numbers) {
        if let Some(named) = list.files.remove(&numbers) {
            self.nr_bytes.fetch_sub(named.nr_bytes, Relaxed);
        }
    }

    /// Returns true if closed new files are to be written back at once.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.nr_bytes() >= self.nr_lent_bytes_max() / 4 * 3
    }

    /// Returns true if a growing file is to be written back. Many temporary files are removed
    /// before.
    pub(super) fn has_much(&self) -> bool {
        self.nr_bytes() >= self.nr_lent_bytes_max() / 4
    }

    pub(super) fn has_many_files(&self) -> bool {
        lock(&self.list).order.len() > FILES_MAX
    }

    /// Borrows a step more from the page cache. Returns false if the page cache needs its frames.
    pub(super) fn borrow_step(&self, cache: &PageCache) -> bool {
        let mut loan = lock(&self.loan);
        let lent = self.nr_lent_bytes();
        let Some(frames) = cache.frame_use().filter(|_| lent + loan.step <= self.nr_lent_bytes_max)
        else {
            return false;
        };
        let nr_free = frames.nr_bytes.saturating_sub(frames.nr_resident_bytes);
        let is_idle = loan.is_idle(&frames);
        let has_room = nr_free > loan.step + low_mark(&frames);
        let may_borrow = frames.nr_bytes > loan.step && (has_room || is_idle);
        if !may_borrow || cache.resize(Bytes(frames.nr_bytes - loan.step)).is_err() {
            return false;
        }
        self.nr_lent_bytes.store(lent + loan.step, Relaxed);
        true
    }

    /// Returns true if the page cache needs a step of the loan back.
    pub(super) fn is_needed(&self, cache: &PageCache) -> bool {
        let mut loan = lock(&self.loan);
        let Some(frames) = cache.frame_use() else { return false };
        let nr_free = frames.nr_bytes.saturating_sub(frames.nr_resident_bytes);
        self.nr_lent_bytes() > 0 && nr_free <= low_mark(&frames) && !loan.is_idle(&frames)
    }

    /// Returns up to `nr_bytes` of the loan. `drop_files` keeps the files within the rest first.
    pub(super) fn give_back(&self, cache: &PageCache, nr_bytes: u64, drop_files: impl FnOnce()) {
        let _loan = lock(&self.loan);
        let nr_bytes = nr_bytes.min(self.nr_lent_bytes());
        self.nr_lent_bytes.fetch_sub(nr_bytes, Relaxed);
        drop_files();
        if let Some(frames) = cache.frame_use().filter(|_| nr_bytes > 0) {
            // A cache that cannot grow stays below the limit.
            let _ = cache.resize(Bytes(frames.nr_bytes + nr_bytes));
        }
    }

    pub(super) fn step(&self) -> u64 {
        lock(&self.loan).step
    }
}

/// Returns the number of free bytes below which the frames run low.
fn low_mark(frames: &FrameUse) -> u64 {
    frames.nr_bytes / 8
}

/// A file that was taken out of the list, with pages that are counted.
pub(super) struct TakenOut<'a> {
    files: &'a SmallFiles,
    nr_bytes: u64,
}

impl Drop for TakenOut<'_> {
    fn drop(&mut self) {
        self.files.nr_bytes.fetch_sub(self.nr_bytes, Relaxed);
    }
}

/// Opens the name of a small file, unless the path names another file now.
pub(super) fn open_name(path: &Path, numbers: Numbers) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let name = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&name).ok()?;
    (numbers == (stat.st_dev, stat.st_ino)).then_some(name)
}

/// Drops a file's pages. Writes dirty pages back before.
pub(super) fn drop_pages(file: impl AsFd + Copy) {
    let drop = || fadvise(file, 0, None, Advice::DontNeed);
    let _ = drop();
    if !is_uncached(file) {
        // A failed write-back is reported to the program's next sync.
        let _ = write_back(file, true);
        let _ = drop();
    }
}
