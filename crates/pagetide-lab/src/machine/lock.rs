//! A lock in virtual time: first come, first served.
//!
//! **Problem.** Queue order and hand-off time decide the cost of contention. **Idea.** The kernel's
//! queued spin lock, as a queue:
//!
//! ```text
//!   ask:      free -> granted, after `acquire` (and `line_transfer` if another CPU had it last)
//!             held -> at the end of the queue
//!   release:  the first of the queue is granted it, `hand_off` later
//! ```
//!
//! **Invariants.** Granted in queue order, to one task at a time. A release by another task panics.
//! **Ignored.** Lock stealing in the narrow window of a real queued spin lock. Readers beside
//! writers. Sleeping waiters.
//!
//! Source: Linux's qspinlock, by its documentation and published measurements.

use super::clock::Nanos;
use super::costs::Costs;
use super::workload::TaskId;
use pagetide_core::ids::CpuId;
use std::collections::VecDeque;

/// A task that asks for the lock, and its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// The task.
    pub task: TaskId,
    /// The task's CPU.
    pub cpu: CpuId,
}

/// A FIFO lock.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FifoLock {
    holder: Option<Asker>,
    waiters: VecDeque<Asker>,
    /// The CPU with the lock's cache line.
    line_at: Option<CpuId>,
    /// The lock and its data came to the holder from another CPU.
    is_moved: bool,
}

impl FifoLock {
    /// Returns true if the lock is held or being handed over.
    pub fn is_held(&self) -> bool {
        self.holder.is_some()
    }

    /// Returns true if another CPU than the holder's held the lock last.
    pub fn is_moved(&self) -> bool {
        self.is_moved
    }

    /// Takes a free lock and returns the delay, or queues the asker and returns `None`.
    pub fn ask(&mut self, asker: Asker, costs: &Costs) -> Option<Nanos> {
        let Some(holder) = self.holder else {
            self.take(asker);
            let transfer = if self.is_moved { costs.line_transfer } else { Nanos::ZERO };
            return Some(costs.acquire + transfer);
        };
        assert!(holder.task != asker.task, "{:?} waits for itself", asker.task);
        self.waiters.push_back(asker);
        None
    }

    /// Takes a free lock at no cost. Returns `false` if the lock is held.
    pub fn try_take(&mut self, asker: Asker) -> bool {
        let is_free = self.holder.is_none();
        if is_free {
            self.take(asker);
        }
        is_free
    }

    /// Releases the lock to the first waiter. Returns the task to wake, and the delay.
    pub fn release(&mut self, task: TaskId, costs: &Costs) -> Option<(TaskId, Nanos)> {
        let holder = self.holder.take().expect("a held lock is released");
        assert!(holder.task == task, "{task:?} releases what {:?} holds", holder.task);
        let next = self.waiters.pop_front()?;
        self.take(next);
        Some((next.task, costs.hand_off))
    }

    fn take(&mut self, asker: Asker) {
        self.is_moved = self.line_at.is_some_and(|cpu| cpu != asker.cpu);
        self.holder = Some(asker);
        self.line_at = Some(asker.cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COSTS: Costs =
        Costs { acquire: Nanos(10), hand_off: Nanos(50), line_transfer: Nanos(30), ..Costs::HOST };

    fn asker(number: u32) -> Asker {
        Asker { task: TaskId(number), cpu: CpuId(number) }
    }

    #[test]
    fn a_free_lock_costs_more_when_its_line_is_elsewhere() {
        let mut lock = FifoLock::default();
        assert_eq!(lock.ask(asker(0), &COSTS), Some(Nanos(10)));
        assert_eq!(lock.release(TaskId(0), &COSTS), None);
        assert_eq!(lock.ask(asker(0), &COSTS), Some(Nanos(10)));
        assert_eq!(lock.release(TaskId(0), &COSTS), None);
        assert_eq!(lock.ask(asker(1), &COSTS), Some(Nanos(40)));
        assert!(lock.is_held() && !lock.try_take(asker(2)));
    }

    #[test]
    #[should_panic(expected = "TaskId(2) releases what TaskId(1) holds")]
    fn only_the_holder_releases() {
        let mut lock = FifoLock::default();
        lock.ask(asker(1), &COSTS);
        lock.release(TaskId(2), &COSTS);
    }

    proptest! {
        /// Grants follow the order of asking, once each, for any sequence.
        #[test]
        fn first_come_first_served(asks in prop::collection::vec(any::<bool>(), 1..200)) {
            let mut lock = FifoLock::default();
            let (mut asked, mut granted) = (Vec::new(), Vec::new());
            let release = |lock: &mut FifoLock, granted: &mut Vec<u32>| {
                let holder = *granted.last().expect("a task was granted it");
                let next = lock.release(TaskId(holder), &COSTS);
                granted.extend(next.map(|(task, _)| task.0));
            };
            for ask in asks {
                if ask {
                    let number = asked.len() as u32;
                    asked.push(number);
                    let was_held = lock.is_held();
                    let is_granted = lock.ask(asker(number), &COSTS).is_some();
                    prop_assert_eq!(is_granted, !was_held);
                    granted.extend(is_granted.then_some(number));
                } else if lock.is_held() {
                    release(&mut lock, &mut granted);
                }
            }
            while lock.is_held() {
                release(&mut lock, &mut granted);
            }
            prop_assert_eq!(granted, asked);
        }
    }
}
