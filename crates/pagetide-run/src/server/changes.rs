//! In-flight changes, and the requesting processes.
//!
//! **Problem.** A process is killed while the server handles its packet. A change after the
//! parent's wait would look like a write of a dead process.
//!
//! **Idea.** The server lists each change, then checks that the process lives, and drops the change
//! if not. A request waits for the listed changes of ended processes.
//!
//! Readers that copy bytes from frames send no request. The server therefore hides the pages of a
//! listed change from all processes except the requester. Other processes must send a request.
//!
//! ```text
//!   writer   sends a packet, is killed           server   list --> alive? --> change --> remove
//!   parent   sees the end --> reads frames         -->    hidden: sends a request
//!                         --> any request          -->    waits for listed changes of the dead
//! ```
//!
//! **Invariants.** A request is sent after its sender has seen a process end. Each change of that
//! process is then made, or never will be, because the server checks an unlisted change after the
//! end. A listed change waits for no call lock, so the holder of a call lock may wait for the
//! change. A read of frames happens before the change is listed, and then the change is never made,
//! or after the change has left the list.
//!
//! **Ignored.** A process number that the system reuses before the server reads the greeting. A
//! killed reader's request may still move a shared position until the request ends.

use super::identity::lock;
use super::life::{Life, Link, collect_ended};
use crate::errno::Errno;
use crate::wire::viewer_of;
use pagetide::File;
use pagetide::seam::SharedPages;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::shared::NO_VIEWER;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The in-flight changes of the run.
#[derive(Default)]
pub(super) struct Changes {
    listed: Mutex<Listed>,
    ended: Condvar,
}

#[derive(Default)]
struct Listed {
    entries: Vec<Entry>,
    next_number: u64,
    /// Number of requests that wait. No wake-up is sent to none.
    nr_waiting: usize,
}

struct Entry {
    number: u64,
    link: Arc<Link>,
    viewer: u32,
    contents: Option<Contents>,
}

/// The pages that a change affects.
pub(super) struct Contents {
    file: File,
    pages: Range<u64>,
}

impl Contents {
    /// Returns the pages that a write of `len` bytes at `offset` changes, without an end if the
    /// file grows.
    pub(super) fn written(file: &File, offset: u64, len: u64) -> Contents {
        let (end, now) = (offset.saturating_add(len), file.len());
        let pages = match end > now {
            true => offset.min(now) >> PAGE_SHIFT..u64::MAX,
            false => offset >> PAGE_SHIFT..end.div_ceil(PAGE_BYTES as u64),
        };
        Contents { file: file.clone(), pages }
    }

    /// Returns all pages and the length of a file.
    pub(super) fn all(file: &File) -> Contents {
        Contents { file: file.clone(), pages: 0..u64::MAX }
    }
}

/// The requester: a thread of a process.
#[derive(Clone, Copy)]
pub(super) struct Author<'a> {
    changes: &'a Changes,
    link: &'a Arc<Link>,
    viewer: u32,
}

/// A listed change, until dropped.
pub(super) struct Change<'a> {
    author: Author<'a>,
    number: u64,
}

impl<'a> Author<'a> {
    pub(super) fn new(changes: &'a Changes, link: &'a Arc<Link>, process: u64) -> Author<'a> {
        Author { changes, link, viewer: viewer_of(process) }
    }

    pub(super) fn life(self) -> Arc<Life> {
        Arc::clone(&self.link.life)
    }

    /// Lists a change, with pages or without. The caller holds all locks that the change needs.
    ///
    /// # Errors
    /// Fails with `ESRCH` if the process has ended. The caller must not make the change.
    pub(super) fn begin(self, contents: Option<Contents>) -> Result<Change<'a>, Errno> {
        let change = self.list(contents);
        if self.link.is_over() { Err(Errno::SRCH) } else { Ok(change) }
    }

    fn list(self, contents: Option<Contents>) -> Change<'a> {
        let mut listed = lock(&self.changes.listed);
        let number = listed.next_number;
        listed.next_number += 1;
        let (link, viewer) = (Arc::clone(self.link), self.viewer);
        listed.entries.push(Entry { number, link, viewer, contents });
        let contents = listed.entries.last().and_then(|entry| entry.contents.as_ref());
        contents.iter().for_each(|contents| listed.show(&contents.file));
        Change { author: self, number }
    }

    /// Waits for in-flight changes of other processes that have ended. The caller may hold call
    /// locks only.
    pub(super) fn settle(self) {
        let ended = collect_ended(self.collect_others());
        if ended.is_empty() {
            return;
        }
        let has_ended = |entry: &Entry| ended.iter().any(|one| Arc::ptr_eq(one, &entry.link));
        let mut listed = lock(&self.changes.listed);
        while listed.entries.iter().any(has_ended) {
            listed.nr_waiting += 1;
            let waited = self.changes.ended.wait(listed);
            listed = waited.unwrap_or_else(PoisonError::into_inner);
            listed.nr_waiting -= 1;
        }
    }

    /// Returns the threads of other processes with in-flight changes.
    fn collect_others(self) -> Vec<Arc<Link>> {
        let listed = lock(&self.changes.listed);
        let others = listed.entries.iter().map(|entry| &entry.link);
        others.filter(|link| !link.is_of_same_process(self.link)).cloned().collect()
    }
}

impl Listed {
    /// Shows the changed pages of a file only to the requester, and all other pages to every
    /// process.
    fn show(&self, file: &File) {
        let mut shown = (0, 0..0);
        for Entry { viewer, contents, .. } in &self.entries {
            let Some(Contents { file: other, pages }) = contents else { continue };
            if other.tag() != file.tag() {
                continue;
            }
            shown = match shown {
                (0, _) => (*viewer, pages.clone()),
                (before, range) => {
                    let viewer = if before == *viewer { before } else { NO_VIEWER };
                    (viewer, range.start.min(pages.start)..range.end.max(pages.end))
                }
            };
        }
        file.show_only_to(shown.0, &shown.1);
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let changes = self.author.changes;
        let mut listed = lock(&changes.listed);
        let mut entries = listed.entries.iter();
        if let Some(at) = entries.position(|entry| entry.number == self.number) {
            let entry = listed.entries.swap_remove(at);
            entry.contents.iter().for_each(|contents| listed.show(&contents.file));
        }
        if listed.nr_waiting > 0 {
            changes.ended.notify_all();
        }
    }
}
