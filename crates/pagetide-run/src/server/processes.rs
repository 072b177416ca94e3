//! Which processes there are, and which descriptions each is known to have.
//!
//! A process is known by the number in its greetings; it is gone when its last socket is, however
//! it ended, and what it had open is closed for it.

use super::identity::lock;
use super::life::Life;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// All processes that have spoken to us and are not gone.
#[derive(Default)]
pub(super) struct Processes {
    by_number: Mutex<HashMap<u64, Process>>,
    nr_seen: AtomicU64,
}

#[derive(Default)]
struct Process {
    nr_sockets: usize,
    /// Once it has greeted.
    life: Option<Arc<Life>>,
    /// Descriptors of each description.
    known: HashMap<u64, u64>,
}

impl Processes {
    /// Those that have spoken to us, those that executed another program counted again.
    pub(super) fn nr_seen(&self) -> u64 {
        self.nr_seen.load(Relaxed)
    }

    /// A socket of `process` is there, by which `pid` has greeted; returns what tells whether the
    /// process lives.
    pub(super) fn enter(&self, process: u64, pid: i32) -> Arc<Life> {
        let mut processes = lock(&self.by_number);
        let entry = processes.entry(process).or_insert_with(|| {
            self.nr_seen.fetch_add(1, Relaxed);
            Process::default()
        });
        entry.nr_sockets += 1;
        Arc::clone(entry.life.get_or_insert_with(|| Arc::new(Life::of(pid))))
    }

    /// A socket of `process` is gone; returns whether it was the last.
    pub(super) fn leave(&self, process: u64) -> bool {
        let mut processes = lock(&self.by_number);
        let Some(entry) = processes.get_mut(&process) else { return false };
        entry.nr_sockets -= 1;
        entry.nr_sockets == 0
    }

    /// The process has no descriptor any more; returns those it was known to have, by description.
    pub(super) fn forget_all(&self, process: u64) -> HashMap<u64, u64> {
        let mut processes = lock(&self.by_number);
        let known = processes.get_mut(&process).map(|entry| std::mem::take(&mut entry.known));
        if processes.get(&process).is_some_and(|entry| entry.nr_sockets == 0) {
            processes.remove(&process);
        }
        known.unwrap_or_default()
    }

    /// Numbers of processes that have ended, and of which a socket's end was not seen yet.
    pub(super) fn collect_ended(&self) -> Vec<u64> {
        let processes = lock(&self.by_number);
        let is_over = |one: &Process| one.life.as_ref().is_some_and(|life| life.is_over());
        processes.iter().filter(|(_, one)| is_over(one)).map(|(number, _)| *number).collect()
    }

    /// The process has one descriptor more of the description.
    pub(super) fn count(&self, process: u64, id: u64) {
        let mut processes = lock(&self.by_number);
        *processes.entry(process).or_default().known.entry(id).or_default() += 1;
    }

    /// The process has a descriptor of the description, or more; returns whether that is news.
    pub(super) fn learn(&self, process: u64, id: u64) -> bool {
        let mut processes = lock(&self.by_number);
        let known = &mut processes.entry(process).or_default().known;
        let is_new = !known.contains_key(&id);
        if is_new {
            known.insert(id, 1);
        }
        is_new
    }

    /// The process has no stand-in of the description any more; returns how many it was known to
    /// have.
    pub(super) fn forget_description(&self, process: u64, id: u64) -> u64 {
        let mut processes = lock(&self.by_number);
        processes.get_mut(&process).and_then(|entry| entry.known.remove(&id)).unwrap_or(0)
    }

    /// The process has closed one of its descriptors; returns whether we knew of it.
    pub(super) fn forget_one(&self, process: u64, id: u64) -> bool {
        let mut processes = lock(&self.by_number);
        let Some(entry) = processes.get_mut(&process) else { return false };
        let Some(nr) = entry.known.get_mut(&id) else { return false };
        *nr -= 1;
        if *nr == 0 {
            entry.known.remove(&id);
        }
        true
    }
}
