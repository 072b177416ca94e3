//! The calls on an open file description.
//!
//! **Problem.** A call's description and file must agree on who serves the file, the page cache or
//! the kernel.
//!
//! **Idea.** A read-write lock protects a file's state during a call. Calls that change the file's
//! length hold the lock exclusively, and other calls share the lock. If the kernel has the file,
//! the call returns the real descriptor.
//!
//! **Ignored.** Writes, which take several packets. See `writing`.

use super::answer::{Answer, ONLY_KERNEL, Outcome, done};
use super::changes::{Author, Contents};
use super::leased_file::LeasedFile;
use super::position::Words;
use super::served_file::{Description, Durability, Inner, Ownership};
use crate::errno::{Errno, IntoErrno};
use crate::wire::{CHUNK_BYTES, FILE_BYTES_MAX, Reply, Request, bring_in, lend};
use pagetide::seam::SharedPages;
use pagetide::{Advice, File};
use pagetide_sys::lease::LeaseKind;
use rustix::fs::{OFlags, SeekFrom};
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};

impl Description {
    /// Runs a request that shares the file with other requests. The request holds the description's
    /// `inner`, and may move the position.
    pub(super) fn share(
        &self,
        request: impl FnOnce(&LeasedFile, &mut MutexGuard<'_, Inner>, &File) -> Outcome,
    ) -> Outcome {
        let state = self.file.state.read().expect("no holder panics");
        let mut inner = self.inner();
        match (&*state, inner.handle.clone()) {
            (Ownership::Cache(opened), Some(handle)) => request(opened, &mut inner, &handle),
            _ => {
                drop(inner);
                self.kernel_answer()
            }
        }
    }

    /// Runs a request as [`Description::share`] does, without `inner`. Other requests may move the
    /// position.
    pub(super) fn share_apart(
        &self,
        request: impl FnOnce(&LeasedFile, &File) -> Outcome,
    ) -> Outcome {
        let state = self.file.state.read().expect("no holder panics");
        let handle = self.inner().handle.clone();
        match (&*state, handle) {
            (Ownership::Cache(opened), Some(handle)) => request(opened, &handle),
            _ => self.kernel_answer(),
        }
    }

    /// Runs a request with exclusive access to the file.
    fn with_exclusive(
        &self,
        author: Author<'_>,
        request: impl FnOnce(&LeasedFile, &File) -> Outcome,
    ) -> Outcome {
        let _call_lock = self.file.growth.take();
        let state = self.file.state.write().expect("no holder panics");
        let handle = self.inner().handle.clone();
        match (&*state, handle) {
            (Ownership::Cache(opened), Some(handle)) => {
                let _change = author.begin(Some(Contents::all(&handle)))?;
                request(opened, &handle)
            }
            _ => self.kernel_answer(),
        }
    }

    pub(super) fn read(&self, author: Author<'_>, request: &Request, target: &mut [u8]) -> Outcome {
        self.must_read()?;
        let _call_lock = self.call_lock.take();
        self.share(|_, inner, handle| {
            let _change = author.begin(None)?;
            let wanted = request.total.max(request.len);
            let (base, most) = inner.position.advance(wanted, handle.len());
            let len = request.len.min(target.len() as u64).min(most) as usize;
            let read = handle.read_at(&mut target[..len], base).errno();
            let nr_read = *read.as_ref().unwrap_or(&0);
            let total = if nr_read < len { nr_read as u64 } else { most };
            if total < most {
                // The rest was not read. The position moves back, unless another reader moved the
                // position.
                inner.position.replace(base + most, base + total);
            }
            let result = read? as i64;
            let reply = Reply { offset: base, total, tag: tag_of(handle), ..Reply::done(result) };
            Ok(Answer { nr_out: nr_read, ..Answer::of(reply) })
        })
    }

    /// Moves the position over bytes that the preload library then reads without requests.
    pub(super) fn reserve(&self, author: Author<'_>, total: u64, words: &Words) -> Outcome {
        self.must_read()?;
        let _call_lock = self.call_lock.take();
        self.share(|_, inner, handle| {
            let _change = author.begin(None)?;
            let (offset, total) = inner.position.advance(total, handle.len());
            // The next call moves the position without a request. See `position`.
            let word = if self.access.write { 0 } else { inner.position.share(words, false) };
            let reply = Reply { offset, total, tag: tag_of(handle), word, ..Reply::done(0) };
            Ok(Answer::of(reply))
        })
    }

    pub(super) fn read_at(&self, request: &Request, target: &mut [u8]) -> Outcome {
        self.must_read()?;
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        self.share_apart(|_, handle| {
            let len = request.len.min(target.len() as u64) as usize;
            let nr_read = handle.read_at(&mut target[..len], offset).errno()?;
            let reply = Reply { tag: tag_of(handle), ..Reply::done(nr_read as i64) };
            Ok(Answer { nr_out: nr_read, ..Answer::of(reply) })
        })
    }

    pub(super) fn bring_in(&self, request: &Request) -> Outcome {
        self.must_read()?;
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        self.share_apart(|_, handle| {
            let len = request.len.min(CHUNK_BYTES as u64);
            let continues = request.flags & bring_in::CONTINUES != 0;
            let nr_bytes = handle.bring_in(offset, len, continues).errno()?;
            Ok(Answer::of(Reply { tag: tag_of(handle), ..Reply::done(nr_bytes as i64) }))
        })
    }

    pub(super) fn seek(&self, author: Author<'_>, request: &Request, words: &Words) -> Outcome {
        let _call_lock = self.call_lock.take();
        self.share(|opened, inner, handle| {
            let _change = author.begin(None)?;
            let len = handle.len() as i64;
            let found = match request.flags {
                3 => Some(opened.find(handle, SeekFrom::Data(request.offset as u64))?),
                4 => Some(opened.find(handle, SeekFrom::Hole(request.offset as u64))?),
                _ => None,
            };
            let target = |before: u64| match request.flags {
                0 => Some(request.offset),
                1 => (before as i64).checked_add(request.offset),
                2 => len.checked_add(request.offset),
                _ => found,
            };
            let is_far = Cell::new(false);
            let is_position = |at: i64| {
                is_far.set(at >= FILE_BYTES_MAX as i64);
                u64::try_from(at).ok().filter(|_| !is_far.get())
            };
            let has_moved = inner.position.get() != 0;
            let moved = inner.position.update(|before| target(before).and_then(is_position));
            if is_far.get() {
                return Err(ONLY_KERNEL);
            }
            let result = moved.ok_or(Errno::INVAL)?;
            // The tag of a file is told to readers only. Many programs seek once, right after the
            // open.
            if !self.access.read || !has_moved {
                return done(result);
            }
            let word = inner.position.share(words, self.access.write);
            Ok(Answer::of(Reply { tag: tag_of(handle), word, ..Reply::done(result as i64) }))
        })
    }

    pub(super) fn set_len(&self, author: Author<'_>, len: u64) -> Outcome {
        if !self.access.write {
            return Err(Errno::INVAL);
        }
        self.with_exclusive(author, |opened, handle| {
            opened.set_len(handle, len).and_then(|()| done(0))
        })
    }

    pub(super) fn allocate(&self, author: Author<'_>, request: &Request) -> Outcome {
        self.must_write()?;
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        let mode = u32::try_from(request.flags).map_err(|_| Errno::INVAL)?;
        self.with_exclusive(author, |opened, handle| {
            opened.change_blocks(handle, mode, offset, request.len)?;
            done(0)
        })
    }

    pub(super) fn sync(&self, with_metadata: bool) -> Outcome {
        self.share_apart(|_, handle| {
            let durability = if with_metadata { Durability::All } else { Durability::Contents };
            durability.make(handle)?;
            done(0)
        })
    }

    pub(super) fn flush(&self) -> Outcome {
        self.share_apart(|opened, _| opened.flush().and_then(|()| done(0)))
    }

    pub(super) fn advise(&self, request: &Request) -> Outcome {
        let advice = match request.flags {
            0 => Advice::Normal,
            1 => Advice::Random,
            2 => Advice::Sequential,
            3 => Advice::WillNeed,
            4 => Advice::DontNeed,
            5 => Advice::NoReuse,
            _ => return Err(Errno::INVAL),
        };
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        self.share_apart(|opened, handle| {
            let for_maps = (request.total == 1).then(|| self.map_handle(opened));
            let handle = for_maps.as_ref().unwrap_or(handle);
            // Advice may fail silently. The next sync reports failed writes.
            let _ = handle.advise(advice, offset, request.len);
            done(0)
        })
    }

    /// Lends the server's descriptor to a description with at least that access mode.
    pub(super) fn lend(&self, request: &Request) -> Outcome {
        self.share_apart(|opened, _| {
            let covers = match opened.kind {
                LeaseKind::Read => self.access.read,
                LeaseKind::Write => self.access.read && self.access.write,
            };
            if !covers {
                return done(0);
            }
            let flags = rustix::fs::fcntl_getfl(&*opened.real)?;
            let direct = if flags.contains(OFlags::DIRECT) { lend::DIRECT } else { 0 };
            let reply = Reply::done(lend::LENT | direct);
            let is_sent = request.flags & lend::WITHOUT == 0;
            opened.is_lent.store(true, Relaxed);
            let files = is_sent.then(|| Arc::clone(&opened.real)).into_iter().collect();
            Ok(Answer { files, ..Answer::of(reply) })
        })
    }

    /// Sets the status flags, also for a later open of the real descriptor.
    pub(super) fn set_flags(&self, author: Author<'_>, flags: u64) -> Outcome {
        const CHANGEABLE: u64 = 0o2000 | 0o4000 | 0o20000 | 0o40000 | 0o1000000;
        self.share(|_, inner, _| {
            let _change = author.begin(None)?;
            inner.flags = inner.flags & !CHANGEABLE | flags & CHANGEABLE;
            done(0)
        })
    }

    pub(super) fn flags(&self) -> Outcome {
        self.share_apart(|_, _| done(self.inner().flags))
    }
}

/// Returns the tag by which the preload library finds the file's pages.
fn tag_of(handle: &File) -> u32 {
    handle.tag().unwrap_or(0)
}
