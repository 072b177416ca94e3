//! Files that the kernel serves: the library's reports, and the bytes of all files together.
//!
//! ```text
//!   a MiB moved past the server --> pass      --> copies       a few MiB, with descriptors
//!   a MiB of a new file written --> pass      --> small_files  memory that the page cache lends
//!   small files                 --> remember  --> small_files
//!   every 10 ms                 --> both
//! ```
//!
//! **Invariants.** A small file is open only while the server does not manage the file, and while
//! no other thread can lease the file, because this thread has the file's state for reading. The
//! open would break the server's own lease, or prevent the lease.

use super::Server;
use super::answer::{Outcome, done};
use super::copies::Unseen;
use super::identity::{FileKey, is_uncached, lock, path_of};
use super::served_file::{Ownership, ServedFile};
use super::small_files::{Numbers, drop_pages, open_name};
use crate::errno::Errno;
use crate::wire::{Reason, Request, decode_small_files, pass};
use pagetide_sys::kernel_cache::start_write_back;
use rustix::fs::{FileType, Mode, OFlags};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;

/// Limits the files every 10 ms, until the server stops.
pub(super) fn run(server: &Server) {
    server.copies.run(|| server.is_stopping(), || server.tick_small_files());
}

impl Server {
    /// Watches standard input, output and error of the run, which its programs inherit, if they are
    /// regular files.
    pub(super) fn watch_standard_files(&self) {
        let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        let (input, output) = ((input.as_fd(), Unseen::Reads), (output.as_fd(), Unseen::Writes));
        for (standard, unseen) in [output, (errors.as_fd(), Unseen::Writes), input] {
            let is_file = |stat: &rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode).is_file();
            let is_regular = rustix::fs::fstat(standard).is_ok_and(|stat| is_file(&stat));
            if let Some((key, _)) = FileKey::of(&standard).ok().filter(|_| is_regular) {
                let is_fresh = is_uncached(standard);
                self.copies.watch(&self.file(key).copy, &standard, is_fresh, unseen);
            }
        }
    }

    /// Returns the run's bytes in the kernel's page cache: now, and an upper bound of their
    /// maximum.
    pub fn kernel_bytes_cached(&self) -> (u64, u64) {
        let (now, most) = self.copies.nr_bytes();
        let small_files = &self.small_files;
        (now + small_files.nr_bytes(), most + small_files.nr_bytes_max())
    }

    /// Limits the pages of a file that the kernel serves. `files` holds the program's descriptor.
    /// Replies with 1 if the pages cannot be limited.
    pub(super) fn pass(&self, request: &Request, files: Vec<OwnedFd>) -> Outcome {
        let real = files.into_iter().next().ok_or(Errno::BADF)?;
        let (key, len) = FileKey::of(&real)?;
        let has = |flag| request.flags & flag != 0;
        if has(pass::ROOM) {
            self.make_room();
            return done(0);
        }
        let file = self.file(key);
        // Another process may read the file of the writer.
        let is_new = has(pass::NEW) || file.is_new.load(Relaxed);
        if has(pass::WATCH) {
            return self.watch(&real, &file, Reason::from_number(request.total));
        }
        if is_new && self.lend(&real, &file, request.len, len) {
            return done(0);
        }
        let is_fresh = has(pass::FRESH) || is_new;
        let end = match request.offset {
            _ if has(pass::WHOLE) => None,
            0.. => Some(request.offset as u64),
            _ => Some(rustix::fs::tell(&real).unwrap_or(u64::MAX)),
        };
        let is_limited = self.copies.pass(&file.copy, &real, is_fresh, end);
        done(u64::from(!is_limited))
    }

    /// Watches a new file, because the library does not see all of its writes.
    fn watch(&self, real: &OwnedFd, file: &ServedFile, reason: Option<Reason>) -> Outcome {
        self.small_files.remove(file.key.numbers());
        self.count_kernel_file(file, reason.unwrap_or(Reason::Interface));
        self.copies.watch(&file.copy, real, true, Unseen::Writes);
        done(0)
    }

    /// Counts `nr_bytes` more of a file of `len` bytes, which the run has created, and makes room
    /// for them in the loan. Returns false if the file is to be limited by `copies`.
    fn lend(&self, real: &OwnedFd, file: &ServedFile, nr_bytes: u64, len: u64) -> bool {
        file.is_new.store(true, Relaxed);
        // Direct writes bring in no pages.
        let is_direct = rustix::fs::fcntl_getfl(real).is_ok_and(|it| it.contains(OFlags::DIRECT));
        let nr_bytes = if is_direct { 0 } else { nr_bytes };
        let is_copied = lock(&file.copy).is_some();
        if is_copied || !self.small_files.grow(real, file.key.numbers(), nr_bytes, len) {
            return false;
        }
        if self.small_files.has_much() {
            // The pages are clean when they are to be dropped. The next sync reports a failure.
            let _ = start_write_back(real);
        }
        self.limit_small_files();
        true
    }

    /// Remembers small files that a process has reported. Replies with 1 if the server does not
    /// find the last file by its path.
    pub(super) fn remember(&self, request: &Request, records: &[u8]) -> Outcome {
        let mut is_found = true;
        let mut files = decode_small_files(records).peekable();
        while let Some((file, path)) = files.next() {
            let path = Path::new(OsStr::from_bytes(path));
            let numbers = (file.device, file.inode);
            if file.nr_bytes == 0 {
                self.small_files.move_to(numbers, path);
                continue;
            }
            let is_checked = request.total == 1 && files.peek().is_none();
            is_found = !is_checked || open_name(path, numbers).is_some();
            if is_found {
                self.small_files.insert(numbers, path, file.nr_bytes);
            }
            if is_found && file.is_written && self.small_files.is_nearly_full() {
                // The pages are clean when the file is the oldest.
                let _ = self.with_small_file(numbers, path, |file| start_write_back(file));
            }
        }
        self.limit_small_files();
        done(u64::from(!is_found))
    }

    /// Returns the bytes that all files may keep in the kernel's page cache.
    fn kernel_bytes_max(&self) -> u64 {
        self.copies.most() + self.small_files.nr_lent_bytes()
    }

    fn nr_kernel_bytes(&self) -> u64 {
        self.small_files.nr_bytes() + self.copies.nr_limited_bytes()
    }

    fn exceeds_loan(&self) -> bool {
        self.nr_kernel_bytes() > self.kernel_bytes_max() || self.small_files.has_many_files()
    }

    /// Keeps the small files within the loan: borrows more, or drops the oldest files.
    pub(super) fn limit_small_files(&self) {
        while self.exceeds_loan() {
            let turn = self.small_files.turn();
            if !self.make_room_in_loan(turn) {
                return;
            }
        }
    }

    /// Limits the small files as [`Server::limit_small_files`] does, unless another thread does so.
    /// A close waits for no other file.
    pub(super) fn limit_small_files_at_close(&self) {
        while self.exceeds_loan() {
            let Some(turn) = self.small_files.try_turn() else { return };
            if !self.make_room_in_loan(turn) {
                return;
            }
        }
    }

    /// Borrows a step more, or drops the oldest file. Returns false if neither is possible.
    fn make_room_in_loan(&self, _turn: MutexGuard<'_, ()>) -> bool {
        let files = &self.small_files;
        // Another thread may have made room meanwhile.
        if !self.exceeds_loan() {
            return true;
        }
        let borrowed = !files.has_many_files() && files.borrow_step(&self.cache);
        if borrowed {
            self.copies.wake();
        }
        borrowed || self.drop_oldest_small_file()
    }

    /// Limits the small files, and returns a step of the loan if the page cache needs frames.
    /// Returns true if a loan is left.
    pub(super) fn tick_small_files(&self) -> bool {
        let files = &self.small_files;
        self.limit_small_files();
        if files.is_needed(&self.cache) {
            let drop_files = || {
                while self.nr_kernel_bytes() > self.kernel_bytes_max()
                    && self.drop_oldest_small_file()
                {}
            };
            let _turn = files.turn();
            files.give_back(&self.cache, files.step(), drop_files);
        }
        files.nr_lent_bytes() > 0
    }

    /// Returns steps of the loan that no file uses, while the page cache needs frames.
    pub(super) fn take_back_loan(&self) {
        let (files, step) = (&self.small_files, self.small_files.step());
        if files.is_needed(&self.cache) && self.nr_kernel_bytes() + step <= self.kernel_bytes_max()
        {
            files.give_back(&self.cache, step, || {});
        }
    }

    /// Returns the whole loan at the end of the run. The files keep their pages.
    pub(super) fn return_loan(&self) {
        self.small_files.give_back(&self.cache, u64::MAX, || {});
    }

    /// Drops the oldest small file's pages, and forgets the file. Returns false if there is no
    /// file, or if another thread uses the file now. The caller has the turn.
    fn drop_oldest_small_file(&self) -> bool {
        let files = &self.small_files;
        let Some((numbers, path)) = files.oldest() else { return false };
        let try_path = |path: &Path| {
            self.with_small_file(numbers, path, |file| {
                let _counted = files.take_out(numbers);
                drop_pages(file);
            })
        };
        let mut dropped = try_path(&path);
        if matches!(dropped, Err(Errno::NOENT)) {
            dropped = files.follow_renames(numbers).map_or(Ok(()), |path| try_path(&path));
        }
        match dropped {
            Ok(()) => true,
            Err(Errno::AGAIN) => {
                files.put_last(numbers);
                false
            }
            // The owner of the lease drops the pages of a managed file.
            Err(_) => {
                files.remove(numbers);
                true
            }
        }
    }

    /// Opens a small file, and runs `act`. No other thread can lease the file meanwhile.
    ///
    /// # Errors
    /// Fails with the error of the open, with `EAGAIN` while another thread uses the file, and with
    /// `EBUSY` if the server manages the file.
    fn with_small_file<T>(
        &self,
        numbers: Numbers,
        path: &Path,
        act: impl FnOnce(&OwnedFd) -> T,
    ) -> Result<T, Errno> {
        let name = open_name(path, numbers).ok_or(Errno::NOENT)?;
        let file = self.file(FileKey::of(&name)?.0);
        let state = file.state.try_read().map_err(|_| Errno::AGAIN)?;
        if matches!(*state, Ownership::Cache(_)) {
            return Err(Errno::BUSY);
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let opened = rustix::fs::open(path_of(&name), flags, Mode::empty())?;
        let result = act(&opened);
        // Closed before another thread can lease the file.
        drop(opened);
        drop(state);
        Ok(result)
    }
}
