//! Changes that are being made, and whether the process that asked for them still lives.
//!
//! **Problem.** A process is killed while its packet is here. Its parent's wait returns, and the
//! packet changes the file after that, as if the dead wrote on. **Idea.** A change is listed before
//! its process is looked at, and is not made if that has ended. A request waits for the changes
//! that are listed for processes that have ended by now.
//!
//! Those that copy what they find in the frames ask nothing. So while a change of pages is listed,
//! they are shown to the process alone that makes it; the others ask.
//!
//! ```text
//!   writer   sends a packet, is killed           here   listed --> alive? --> made --> struck off
//!   parent   sees its end --> a look               -->  not shown: a request
//!                         --> any request          -->  listed for a dead process? waits for it
//! ```
//!
//! **Invariants.** A request that was sent after its sender saw a process end finds each change of
//! that process either made or never to be made: one that was not listed yet is looked at later,
//! when the process has ended. A listed change waits for no turn, so a request that has one may
//! wait for it. The same holds for a look, which comes before the change is listed (then it is
//! never made), or after it is struck off.
//!
//! **Ignored.** A process whose number is another's by the time its greeting is read. A position
//! that readers move by themselves: a request of a killed reader may move it for as long as that
//! takes.

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

/// The changes that are being made now.
#[derive(Default)]
pub(super) struct Changes {
    listed: Mutex<Listed>,
    ended: Condvar,
}

#[derive(Default)]
struct Listed {
    entries: Vec<Entry>,
    next_number: u64,
    /// Requests that wait for the end of one: without them, no wake-up is paid for.
    nr_waiting: usize,
}

struct Entry {
    number: u64,
    link: Arc<Link>,
    viewer: u32,
    contents: Option<Contents>,
}

/// Pages that are changed, of a file that views find.
pub(super) struct Contents {
    file: File,
    pages: Range<u64>,
}

impl Contents {
    /// What `len` bytes change that are written at `offset`: all that follows, if the file becomes
    /// longer.
    pub(super) fn written(file: &File, offset: u64, len: u64) -> Contents {
        let (end, now) = (offset.saturating_add(len), file.len());
        let pages = match end > now {
            true => offset.min(now) >> PAGE_SHIFT..u64::MAX,
            false => offset >> PAGE_SHIFT..end.div_ceil(PAGE_BYTES as u64),
        };
        Contents { file: file.clone(), pages }
    }

    /// All of a file, and its length.
    pub(super) fn all(file: &File) -> Contents {
        Contents { file: file.clone(), pages: 0..u64::MAX }
    }
}

/// What a request is made by: a thread of a process, and what it waits for.
#[derive(Clone, Copy)]
pub(super) struct Author<'a> {
    changes: &'a Changes,
    link: &'a Arc<Link>,
    viewer: u32,
}

/// A change that is being made, until dropped.
pub(super) struct Change<'a> {
    author: Author<'a>,
    number: u64,
}

impl<'a> Author<'a> {
    pub(super) fn new(changes: &'a Changes, link: &'a Arc<Link>, process: u64) -> Author<'a> {
        Author { changes, link, viewer: viewer_of(process) }
    }

    /// The life of the process.
    pub(super) fn life(self) -> Arc<Life> {
        Arc::clone(&self.link.life)
    }

    /// Begins a change, of contents or of what no view finds. The caller has the turns and the
    /// locks it needs, and waits for none until it has made it.
    ///
    /// # Errors
    /// The process has ended: it is not to be made.
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

    /// Waits for what is being changed for other processes that have ended. The caller holds
    /// turns at most.
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

    /// The threads of other processes for which something is being changed.
    fn collect_others(self) -> Vec<Arc<Link>> {
        let listed = lock(&self.changes.listed);
        let others = listed.entries.iter().map(|entry| &entry.link);
        others.filter(|link| !link.is_of_same_process(self.link)).cloned().collect()
    }
}

impl Listed {
    /// Shows what is being changed of a file to the process alone that does so, the rest to all.
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
