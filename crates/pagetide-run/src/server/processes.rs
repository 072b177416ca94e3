//! The known processes, and the descriptions that each is known to hold.
//!
//! The number in a greeting identifies a process. A process is gone when its last socket has
//! closed, however it ended. The server then closes its open descriptions.

use super::identity::lock;
use super::life::Life;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// All processes that have greeted the server and are not gone.
#[derive(Default)]
pub(super) struct Processes {
    by_number: Mutex<HashMap<u64, Process>>,
    nr_seen: AtomicU64,
}

#[derive(Default)]
struct Process {
    nr_sockets: usize,
    /// Set at the greeting.
    life: Option<Arc<Life>>,
    /// Number of descriptors of each description.
    known: HashMap<u64, u64>,
    /// Held while the process is forgotten. A thread that finds the process's end waits for
    /// another thread that has found the end before.
    ending: Arc<Mutex<()>>,
}

impl Processes {
    /// Returns the number of processes that have greeted the server, counted again after each exec.
    pub(super) fn nr_seen(&self) -> u64 {
        self.nr_seen.load(Relaxed)
    }

    /// Adds a socket of `process`. `pid` sent the greeting. Returns the watch that tells if the
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

    /// Removes a socket of `process`. Returns true if it was the last.
    pub(super) fn leave(&self, process: u64) -> bool {
        let mut processes = lock(&self.by_number);
        let Some(entry) = processes.get_mut(&process) else { return false };
        entry.nr_sockets -= 1;
        entry.nr_sockets == 0
    }

    /// Returns the lock to hold while the process is forgotten.
    pub(super) fn ending(&self, process: u64) -> Arc<Mutex<()>> {
        let processes = lock(&self.by_number);
        processes.get(&process).map(|entry| Arc::clone(&entry.ending)).unwrap_or_default()
    }

    /// Forgets all descriptors of the process. Returns their known numbers by description.
    pub(super) fn forget_all(&self, process: u64) -> HashMap<u64, u64> {
        let mut processes = lock(&self.by_number);
        let known = processes.get_mut(&process).map(|entry| std::mem::take(&mut entry.known));
        known.unwrap_or_default()
    }

    /// Removes the process, if its last socket was removed.
    pub(super) fn remove_left(&self, process: u64) {
        let mut processes = lock(&self.by_number);
        if processes.get(&process).is_some_and(|entry| entry.nr_sockets == 0) {
            processes.remove(&process);
        }
    }

    /// Returns the numbers of processes that have ended before all their sockets were seen to
    /// close.
    pub(super) fn collect_ended(&self) -> Vec<u64> {
        let processes = lock(&self.by_number);
        let is_over = |one: &Process| one.life.as_ref().is_some_and(|life| life.is_over());
        processes.iter().filter(|(_, one)| is_over(one)).map(|(number, _)| *number).collect()
    }

    /// Counts one more descriptor of the description in the process.
    pub(super) fn count(&self, process: u64, id: u64) {
        let mut processes = lock(&self.by_number);
        *processes.entry(process).or_default().known.entry(id).or_default() += 1;
    }

    /// Records that the process has a descriptor of the description. Returns true if that was not
    /// known.
    pub(super) fn learn(&self, process: u64, id: u64) -> bool {
        let mut processes = lock(&self.by_number);
        let known = &mut processes.entry(process).or_default().known;
        let is_new = !known.contains_key(&id);
        if is_new {
            known.insert(id, 1);
        }
        is_new
    }

    /// Forgets the stand-ins of the description in the process. Returns their known number.
    pub(super) fn forget_description(&self, process: u64, id: u64) -> u64 {
        let mut processes = lock(&self.by_number);
        processes.get_mut(&process).and_then(|entry| entry.known.remove(&id)).unwrap_or(0)
    }

    /// Forgets one descriptor that the process has closed. Returns true if it was known.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_until_it_is_forgotten() {
        let processes = Processes::default();
        processes.enter(5, std::process::id() as i32);
        processes.count(5, 1);
        assert!(processes.leave(5), "it was the last socket");
        let ending = processes.ending(5);
        let held = lock(&ending);
        assert_eq!(processes.forget_all(5).into_iter().collect::<Vec<_>>(), [(1, 1)]);
        let again = processes.ending(5);
        assert!(again.try_lock().is_err(), "another thread that finds the end waits");
        drop(held);
        assert!(processes.forget_all(5).is_empty());
        processes.remove_left(5);
        assert!(!Arc::ptr_eq(&ending, &processes.ending(5)));
    }

    #[test]
    fn a_process_that_greets_again_is_not_removed() {
        let processes = Processes::default();
        processes.enter(5, std::process::id() as i32);
        assert!(processes.leave(5));
        processes.enter(5, std::process::id() as i32);
        processes.remove_left(5);
        assert!(processes.leave(5), "the second socket is known");
        assert_eq!(processes.nr_seen(), 1);
    }
}
