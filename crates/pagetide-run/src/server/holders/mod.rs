//! Knows which process holds which open file description, and ends a description with its last
//! holder.
//!
//! **Problem.** The kernel keeps an open file description, its locks and its blocks on the disk
//! until the last descriptor is closed. The server has a descriptor of each description, so it must
//! close its own as soon as no process has one, and not earlier. A process inherits descriptors and
//! receives them over sockets without the server's knowledge.
//!
//! **Idea.** A count decides when to write back, and a search decides when to end a description:
//!
//! ```text
//!   open, dup, first use, mmap     +1
//!   close, exit, exec, munmap      -1 --at 0--> closed: written back, not served
//!   closed --> search (kcmp) --no holder--> ended: out of the table, the server's descriptors closed
//!                            --a holder---> kept, for a later search; its next use opens it again
//! ```
//!
//! A description with a real descriptor may hold a lock. It is searched for within the call that
//! closes it. The scan thread searches for all others.
//!
//! **Data and invariants.** One lock protects the known processes and the table of descriptions,
//! and no other lock is taken under it. The count of a description is the sum of its stand-ins in
//! all known processes, and its mappings. A description leaves the table only at a count of 0.
//!
//! Processes are identified by the number in their greeting. A process is gone when its last socket
//! has closed, however it ended.
//!
//! **Ignored.** A descriptor in flight through a socket is in no process's table.

pub(super) mod scan;
mod search;

pub(super) use search::Closing;

use super::Server;
use super::identity::lock;
use super::life::Life;
use super::requests::OpenFile;
use super::served_file::ServedFile;
use crate::errno::Errno;
use scan::Scan;
use search::{Held, find_holders};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// The processes of a run, and the descriptions that they hold.
#[derive(Default)]
pub(super) struct Holders {
    known: Mutex<Known>,
    scan: Scan,
}

#[derive(Default)]
struct Known {
    processes: HashMap<u64, Process>,
    descriptions: BTreeMap<u64, Entry>,
    /// Number of processes that have greeted the server, counted again after each exec.
    nr_processes_ever: u64,
}

#[derive(Default)]
struct Process {
    nr_sockets: usize,
    /// Set at the greeting.
    life: Option<Arc<Life>>,
    /// Number of stand-ins of each description.
    nr_stand_ins: HashMap<u64, u64>,
}

struct Entry {
    one: Arc<OpenFile>,
    /// Number of known stand-ins and mappings.
    nr_known: u64,
}

impl Known {
    /// Subtracts `nr` from the count of a description. Returns the description.
    fn subtract(&mut self, id: u64, nr: u64) -> Option<Arc<OpenFile>> {
        let entry = self.descriptions.get_mut(&id)?;
        entry.nr_known -= nr;
        Some(Arc::clone(&entry.one))
    }
}

impl Holders {
    /// Returns the number of processes that have greeted the server, counted again after each exec.
    pub(super) fn nr_processes_ever(&self) -> u64 {
        lock(&self.known).nr_processes_ever
    }

    /// Adds a socket of `process`. `pid` sent the greeting. Returns the watch that tells if the
    /// process lives.
    pub(super) fn enter(&self, process: u64, pid: i32) -> Arc<Life> {
        let mut known = lock(&self.known);
        let is_new = !known.processes.contains_key(&process);
        known.nr_processes_ever += u64::from(is_new);
        let entry = known.processes.entry(process).or_default();
        entry.nr_sockets += 1;
        Arc::clone(entry.life.get_or_insert_with(|| Arc::new(Life::of(pid))))
    }

    /// Removes a socket of `process`. Returns true if it was the last.
    fn leave(&self, process: u64) -> bool {
        let mut known = lock(&self.known);
        let Some(entry) = known.processes.get_mut(&process) else { return false };
        entry.nr_sockets -= 1;
        entry.nr_sockets == 0
    }

    /// Returns the numbers of processes that have ended before all their sockets were seen to
    /// close.
    fn collect_ended(&self) -> Vec<u64> {
        let life_of = |(number, one): (&u64, &Process)| Some((*number, one.life.clone()?));
        let lives: Vec<_> = lock(&self.known).processes.iter().filter_map(life_of).collect();
        lives.into_iter().filter(|(_, life)| life.is_over()).map(|(number, _)| number).collect()
    }

    /// Adds a description that `process` has opened.
    pub(super) fn insert(&self, process: u64, one: Arc<OpenFile>) {
        let mut known = lock(&self.known);
        known.processes.entry(process).or_default().nr_stand_ins.insert(one.id, 1);
        known.descriptions.insert(one.id, Entry { one, nr_known: 1 });
    }

    /// Returns a description that has not ended.
    pub(super) fn find(&self, id: u64) -> Option<Arc<OpenFile>> {
        lock(&self.known).descriptions.get(&id).map(|entry| Arc::clone(&entry.one))
    }

    /// Returns a description that `process` uses. From now on the process is known to hold it.
    pub(super) fn hold(&self, process: u64, id: u64) -> Option<Arc<OpenFile>> {
        let known = &mut *lock(&self.known);
        let entry = known.descriptions.get_mut(&id)?;
        known.processes.entry(process).or_default().nr_stand_ins.entry(id).or_insert_with(|| {
            entry.nr_known += 1;
            1
        });
        Some(Arc::clone(&entry.one))
    }

    /// Counts one more stand-in of a description in `process`.
    pub(super) fn add_stand_in(&self, process: u64, id: u64) {
        let known = &mut *lock(&self.known);
        if let Some(entry) = known.descriptions.get_mut(&id) {
            entry.nr_known += 1;
            *known.processes.entry(process).or_default().nr_stand_ins.entry(id).or_default() += 1;
        }
    }

    /// Subtracts at most `most` stand-ins of a description in `process`. Returns the description.
    pub(super) fn remove_stand_ins(
        &self,
        process: u64,
        id: u64,
        most: u64,
    ) -> Option<Arc<OpenFile>> {
        let mut known = lock(&self.known);
        let process = known.processes.entry(process).or_default();
        let before = process.nr_stand_ins.remove(&id).unwrap_or(0);
        let nr = before.min(most);
        if before > nr {
            process.nr_stand_ins.insert(id, before - nr);
        }
        known.subtract(id, nr)
    }

    /// Counts one more mapping of a description.
    pub(super) fn add_mapping(&self, id: u64) {
        if let Some(entry) = lock(&self.known).descriptions.get_mut(&id) {
            entry.nr_known += 1;
        }
    }

    /// Subtracts a mapping of a description.
    pub(super) fn remove_mapping(&self, id: u64) {
        lock(&self.known).subtract(id, 1);
    }

    /// Subtracts all stand-ins of a process. Returns their descriptions.
    fn remove_process(&self, process: u64) -> Vec<Arc<OpenFile>> {
        let mut known = lock(&self.known);
        let Some(entry) = known.processes.get_mut(&process) else { return Vec::new() };
        let nr_stand_ins = std::mem::take(&mut entry.nr_stand_ins);
        if entry.nr_sockets == 0 {
            known.processes.remove(&process);
        }
        nr_stand_ins.into_iter().filter_map(|(id, nr)| known.subtract(id, nr)).collect()
    }

    /// Returns true if a process is known to hold the description.
    pub(super) fn is_held(&self, id: u64) -> bool {
        lock(&self.known).descriptions.get(&id).is_some_and(|entry| entry.nr_known > 0)
    }

    /// Returns the wanted descriptions.
    fn collect(&self, is_wanted: impl Fn(&Entry) -> bool) -> Vec<Arc<OpenFile>> {
        let known = lock(&self.known);
        let wanted = known.descriptions.values().filter(|entry| is_wanted(entry));
        wanted.map(|entry| Arc::clone(&entry.one)).collect()
    }

    /// Counts the real descriptors that the server holds for processes.
    pub(super) fn nr_reals(&self) -> u64 {
        self.collect(|_| true).iter().filter(|one| one.has_real()).count() as u64
    }

    /// Removes a description, unless a process has used it meanwhile, and closes its real
    /// descriptor.
    fn end(&self, one: &OpenFile) {
        let mut known = lock(&self.known);
        if known.descriptions.get(&one.id).is_some_and(|entry| entry.nr_known == 0) {
            let ended = known.descriptions.remove(&one.id);
            drop(known);
            // Another thread may still use the description, and only its lock ends here.
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
    /// Removes a socket of `process`, and forgets the process with its last one.
    pub(super) fn leave(&self, process: u64) {
        if self.holders.leave(process) {
            self.forget_process(process, Closing::Nothing);
        }
    }

    /// Forgets all descriptors of processes that have ended. The threads of their sockets may see
    /// the end later than the parents do. A packet that is still queued opens its description
    /// again.
    pub(super) fn forget_ended(&self) {
        for process in self.holders.collect_ended() {
            self.forget_process(process, Closing::Nothing);
        }
        self.end_unheld_reals(self.unheld(), Closing::Nothing);
    }

    /// Forgets all descriptors of a process that has ended or is about to end.
    pub(super) fn forget_process(&self, process: u64, closing: Closing) {
        self.unmap_all(process);
        for one in self.holders.remove_process(process) {
            // No process is left to tell. A later sync of the file reports the error.
            let _ = self.close_unheld(&one);
        }
        self.end_unheld_reals(self.unheld(), closing);
    }

    /// Forgets at most `most` stand-ins of a process, and ends the description with the last one.
    ///
    /// # Errors
    /// Fails with the error of the write-back.
    pub(super) fn forget_stand_ins(
        &self,
        process: u64,
        id: u64,
        most: u64,
        closing: Closing,
    ) -> Result<(), Errno> {
        let one = self.holders.remove_stand_ins(process, id, most);
        let closed = one.as_ref().map_or(Ok(()), |one| self.close_unheld(one));
        self.end_unheld_reals(one, closing);
        closed
    }

    /// Ends the descriptions of a file that have a real descriptor and no holder. Their locks and
    /// their descriptors conflict with locks and leases. Returns true if any has ended.
    pub(super) fn end_unheld_of(&self, file: &ServedFile) -> bool {
        let descriptions = file.descriptions();
        let these = descriptions.iter().filter_map(|one| self.holders.find(one.id));
        self.end_unheld_reals(these, Closing::Nothing)
    }

    /// Returns the descriptions that no process is known to hold.
    fn unheld(&self) -> Vec<Arc<OpenFile>> {
        self.holders.collect(|entry| entry.nr_known == 0)
    }

    /// Ends each of the descriptions that has a real descriptor and no holder. Returns true if any
    /// has ended.
    pub(super) fn end_unheld_reals(
        &self,
        these: impl IntoIterator<Item = Arc<OpenFile>>,
        closing: Closing,
    ) -> bool {
        let is_due = |one: &Arc<OpenFile>| one.has_real() && !self.holders.is_held(one.id);
        let these: Vec<_> = these.into_iter().filter(is_due).collect();
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

    /// Searches the processes for holders of the descriptions, and ends each description that has
    /// none. Returns the other descriptions.
    fn end_unheld(
        &self,
        these: Vec<Arc<OpenFile>>,
        closing: Closing,
    ) -> Vec<(Arc<OpenFile>, Held)> {
        let held = find_holders(&these, closing);
        let all = these.into_iter().zip(held);
        let (unheld, left): (Vec<_>, Vec<_>) = all.partition(|(_, held)| *held == Held::No);
        unheld.iter().for_each(|(one, _)| self.holders.end(one));
        left
    }
}
