//! The holders of each open file description. A description ends with the last holder.
//!
//! **Problem.** The kernel keeps an open file description, with locks and disk blocks, until the
//! last descriptor is closed. The server has a descriptor of each description, and must close this
//! descriptor as soon as no process has one, and not earlier. The server does not see a process
//! inherit descriptors, or receive descriptors over sockets.
//!
//! **Idea.** Known holders decide when to write back. A search decides when to end a description:
//!
//! ```text
//!   open, dup, first use, mmap          a known holder
//!   close, exit, exec, munmap           none left: closed, that is, written back and not served
//!   closed --> search (kcmp) --none---> ended: out of the table, the server's descriptors closed
//!                            --found--> kept until a later search. The next use opens it again
//! ```
//!
//! A closed description with a real descriptor may hold a lock, so the closing call searches at
//! once. The scan thread searches for other descriptions' holders.
//!
//! **Data and invariants.** One lock protects the processes and the table of descriptions. A thread
//! with this lock takes no other lock. A description with a known holder stays in the table.
//!
//! The number in a greeting identifies a process. A process is forgotten when its last socket
//! closes, when its pidfd shows the end, or when it leaves the run.
//!
//! **Ignored.** A descriptor in flight through a socket is in no process's table.

pub(super) mod scan;
mod search;

pub(super) use search::Closing;

use super::Server;
use super::identity::lock;
use super::life::Life;
use super::served_file::{Description, ServedFile};
use crate::errno::Errno;
use crate::wire::Reason;
use scan::Scan;
use search::{Held, find_holders};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// A known holder of a description.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holder {
    /// A process with stand-ins.
    Process(u64),
    /// A mapping of a process, by both numbers.
    Mapping(u64, u64),
}

impl Holder {
    fn is_of(self, of: u64) -> bool {
        let (Holder::Process(process) | Holder::Mapping(process, _)) = self;
        process == of
    }
}

/// The processes and held descriptions of a run.
#[derive(Default)]
pub(super) struct Holders {
    known: Mutex<Known>,
    scan: Scan,
}

#[derive(Default)]
struct Known {
    processes: HashMap<u64, Process>,
    descriptions: BTreeMap<u64, Entry>,
    nr_processes_ever: u64,
}

struct Process {
    nr_sockets: usize,
    life: Arc<Life>,
    /// Held by a thread that forgets the process. Other threads wait for that.
    ending: Arc<Mutex<()>>,
}

struct Entry {
    one: Arc<Description>,
    /// Number of known descriptors of each holder.
    holders: BTreeMap<Holder, u64>,
}

impl Known {
    fn collect(&mut self, is_wanted: impl Fn(&mut Entry) -> bool) -> Vec<Arc<Description>> {
        let entries = self.descriptions.values_mut();
        entries.filter_map(|entry| is_wanted(entry).then(|| Arc::clone(&entry.one))).collect()
    }
}

impl Holders {
    /// Returns the number of greetings by processes. Each exec counts again.
    pub(super) fn nr_processes_ever(&self) -> u64 {
        lock(&self.known).nr_processes_ever
    }

    /// Adds a socket of `process`, which greeted as `pid`. Returns the watch of the process.
    pub(super) fn enter(&self, process: u64, pid: i32) -> Arc<Life> {
        let known = &mut *lock(&self.known);
        let entry = known.processes.entry(process).or_insert_with(|| {
            known.nr_processes_ever += 1;
            Process { nr_sockets: 0, life: Arc::new(Life::of(pid)), ending: Arc::default() }
        });
        entry.nr_sockets += 1;
        Arc::clone(&entry.life)
    }

    /// Removes a socket of `process`. Returns true if no socket is left.
    fn leave(&self, process: u64) -> bool {
        let mut known = lock(&self.known);
        let Some(entry) = known.processes.get_mut(&process) else { return false };
        entry.nr_sockets -= 1;
        entry.nr_sockets == 0
    }

    /// Returns the numbers of ended processes with sockets that are still open here.
    fn collect_ended(&self) -> Vec<u64> {
        let life_of = |(number, one): (&u64, &Process)| (*number, Arc::clone(&one.life));
        let lives: Vec<_> = lock(&self.known).processes.iter().map(life_of).collect();
        lives.into_iter().filter(|(_, life)| life.is_over()).map(|(number, _)| number).collect()
    }

    /// Adds a description, opened by `process`.
    pub(super) fn insert(&self, process: u64, one: Arc<Description>) {
        let holders = BTreeMap::from([(Holder::Process(process), 1)]);
        lock(&self.known).descriptions.insert(one.id, Entry { one, holders });
    }

    /// Returns a description that has not ended.
    pub(super) fn find(&self, id: u64) -> Option<Arc<Description>> {
        lock(&self.known).descriptions.get(&id).map(|entry| Arc::clone(&entry.one))
    }

    /// Returns a description that has not ended. `process` is from now on a known holder: by a
    /// descriptor, unless by a mapping already.
    pub(super) fn hold(&self, process: u64, id: u64) -> Option<Arc<Description>> {
        let mut known = lock(&self.known);
        let entry = known.descriptions.get_mut(&id)?;
        if !entry.holders.keys().any(|holder| holder.is_of(process)) {
            entry.holders.insert(Holder::Process(process), 1);
        }
        Some(Arc::clone(&entry.one))
    }

    /// Counts one more descriptor of the holder.
    pub(super) fn add(&self, holder: Holder, id: u64) {
        if let Some(entry) = lock(&self.known).descriptions.get_mut(&id) {
            *entry.holders.entry(holder).or_default() += 1;
        }
    }

    /// Subtracts at most `most` descriptors of the holder. Returns the description.
    fn remove(&self, holder: Holder, id: u64, most: u64) -> Option<Arc<Description>> {
        let mut known = lock(&self.known);
        let entry = known.descriptions.get_mut(&id)?;
        if let Some(nr) = entry.holders.remove(&holder).filter(|nr| *nr > most) {
            entry.holders.insert(holder, nr - most);
        }
        Some(Arc::clone(&entry.one))
    }

    fn ending(&self, process: u64) -> Arc<Mutex<()>> {
        let known = lock(&self.known);
        known.processes.get(&process).map(|one| Arc::clone(&one.ending)).unwrap_or_default()
    }

    /// Removes a process that has no socket left.
    fn remove_process(&self, process: u64) {
        lock(&self.known).processes.retain(|number, one| *number != process || one.nr_sockets > 0);
    }

    /// Removes a process and the process's mappings from all descriptions. Returns the changed
    /// descriptions.
    fn remove_holders(&self, process: u64) -> Vec<Arc<Description>> {
        lock(&self.known).collect(|entry| {
            let before = entry.holders.len();
            entry.holders.retain(|holder, _| !holder.is_of(process));
            entry.holders.len() < before
        })
    }

    fn unheld(&self) -> Vec<Arc<Description>> {
        lock(&self.known).collect(|entry| entry.holders.is_empty())
    }

    pub(super) fn is_held(&self, id: u64) -> bool {
        lock(&self.known).descriptions.get(&id).is_some_and(|entry| !entry.holders.is_empty())
    }

    /// Returns true if the description has a known holder in another process than `process`.
    pub(super) fn is_held_beside(&self, process: u64, id: u64) -> bool {
        let known = lock(&self.known);
        let entry = known.descriptions.get(&id);
        entry.is_some_and(|entry| entry.holders.keys().any(|other| !other.is_of(process)))
    }

    /// Counts the descriptions with a real descriptor, or with a lock.
    pub(super) fn nr_reals(&self) -> u64 {
        let all = lock(&self.known).collect(|_| true);
        all.iter().filter(|one| one.has_real() || one.has_lock()).count() as u64
    }

    /// Removes a description and closes the real descriptor, unless there is a holder again.
    fn end(&self, one: &Description) {
        let mut known = lock(&self.known);
        if known.descriptions.get(&one.id).is_some_and(|entry| entry.holders.is_empty()) {
            let ended = known.descriptions.remove(&one.id);
            drop(known);
            // Another thread may still refer to the description. The lock ends here.
            one.inner().real = None;
            drop(ended);
        }
    }

    /// Calls the scan thread.
    pub(super) fn scan(&self) {
        self.scan.call();
    }
}

impl Server {
    /// Removes a socket of `process`, and with the last socket the process.
    pub(super) fn leave(&self, process: u64) {
        if self.holders.leave(process) {
            self.forget_process(process, Closing::Nothing);
        }
    }

    /// Forgets all ended processes. The threads of the sockets may see the end later than the
    /// parents do. A packet that is still queued opens the description again.
    pub(super) fn forget_ended(&self) {
        for process in self.holders.collect_ended() {
            self.forget_process(process, Closing::Nothing);
        }
        self.end_locks(self.holders.unheld(), Closing::Nothing);
    }

    /// Forgets a process that has ended or is about to end.
    pub(super) fn forget_process(&self, process: u64, closing: Closing) {
        let ending = self.holders.ending(process);
        let _ending = lock(&ending);
        self.unmap_all(process);
        for one in self.holders.remove_holders(process) {
            // No process is left to tell. A later sync of the file reports the error.
            let _ = self.close_unheld(&one, closing);
        }
        self.end_locks(self.holders.unheld(), closing);
        self.holders.remove_process(process);
    }

    /// Forgets at most `most` descriptors of a holder.
    ///
    /// # Errors
    /// Fails with the write-back's error if the description was closed.
    pub(super) fn forget(
        &self,
        holder: Holder,
        id: u64,
        most: u64,
        closing: Closing,
    ) -> Result<(), Errno> {
        let Some(one) = self.holders.remove(holder, id, most) else { return Ok(()) };
        let closed = self.close_unheld(&one, closing);
        self.end_locks(vec![one], closing);
        closed
    }

    /// Ends the file's descriptions that hold a lock for no process. Returns true if any has ended,
    /// and the file may be leased now.
    pub(super) fn end_locks_of(&self, file: &ServedFile) -> bool {
        self.end_locks(file.descriptions(), Closing::Nothing)
    }

    /// Ends the lock of a description without a known holder. If a process still has a descriptor,
    /// the file is handed over, and the kernel keeps the lock.
    pub(super) fn end_lock(&self, one: &Arc<Description>, closing: Closing) {
        if !one.has_lock() {
            return;
        }
        if self.has_no_holder(one, closing) {
            one.inner().lock = None;
        } else {
            // A failed write-back leaves the lock with the description.
            let _ = self.hand_over(one, Reason::Locked);
        }
    }

    /// Returns true if a search finds no holder of the description.
    fn has_no_holder(&self, one: &Arc<Description>, closing: Closing) -> bool {
        find_holders(std::slice::from_ref(one), closing) == [Held::No]
    }

    /// Ends each description with a real descriptor and no holder. Returns true if any has ended.
    fn end_locks(&self, mut these: Vec<Arc<Description>>, closing: Closing) -> bool {
        these.retain(|one| one.has_real() && !self.holders.is_held(one.id));
        let nr = these.len();
        let left = self.end_unheld(these, closing);
        if left.iter().any(|(_, held)| *held == Held::Unknown) {
            self.say_once(
                "pagetide: the kernel refuses to compare descriptors of a program (kcmp, /proc): \
                 locks of files that the kernel has may stay until that program ends",
            );
        }
        left.len() < nr
    }

    /// Searches the processes for holders of the descriptions, and ends each description without
    /// any. Returns the other descriptions.
    fn end_unheld(
        &self,
        these: Vec<Arc<Description>>,
        closing: Closing,
    ) -> Vec<(Arc<Description>, Held)> {
        let held = find_holders(&these, closing);
        let all = these.into_iter().zip(held);
        let (unheld, left): (Vec<_>, Vec<_>) = all.partition(|(_, held)| *held == Held::No);
        unheld.iter().for_each(|(one, _)| self.holders.end(one));
        left
    }
}
