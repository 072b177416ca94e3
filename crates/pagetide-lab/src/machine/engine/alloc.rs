//! Allocation and free: core's allocator calls in virtual time.
//!
//! ```text
//!   take:  list's lock? -- held --> zone: TakePast       none? -- core's SlowPath returns the
//!            | free                                               next attempt, or gives up
//!          from the list -- empty --> zone: Refill
//!   give:  list's lock? -- held --> zone: GivePast
//!            | free
//!          to the list -- core says drain --> zone: Drain
//! ```
//!
//! As in the page cache, the list's lock stays held during a visit to the zone, when attempts of
//! other tasks fail.

use super::{Machine, QUANTUM};
use crate::machine::clock::Nanos;
use crate::machine::memory::Visit;
use crate::machine::task::{AllocJob, Job, Shed, Stage};
use crate::machine::workload::{End, TaskId};
use pagetide_core::page_alloc::{AllocRequest, Attempt, Attempted, SlowPath};

impl Machine {
    /// Allocates up to a quantum of pages from the CPU's list.
    pub(super) fn alloc_some(&mut self, id: TaskId) {
        let task = &mut self.tasks[id.0 as usize];
        let cpu = task.cpu;
        let Some(Job::Alloc(job)) = task.jobs.last_mut() else {
            unreachable!("an allocation is under way");
        };
        let request = AllocRequest::fast(job.order).at(job.level);
        let each = self.costs.list_hit + job.each;
        let mut nr_hits = 0;
        let mut past = None;
        while job.nr_left > 0 && nr_hits < u64::from(QUANTUM) {
            if self.list_locks[cpu.0 as usize].is_held() {
                past = Some(Visit::TakePast(request));
                break;
            }
            let Some(frame) = self.memory.take(cpu, &request) else {
                past = Some(Visit::Refill(request));
                break;
            };
            task.held.push_back(frame);
            job.next_page();
            nr_hits += 1;
            if job.level != request.level {
                break;
            }
        }
        let is_done = job.nr_left == 0;
        self.record_hits(nr_hits, each, Direction::Alloc);
        self.meter.nr_taken += nr_hits << request.order.0;
        match past {
            Some(visit) => self.leave_list(id, each * nr_hits, visit),
            None => self.finish_if(id, is_done, each * nr_hits),
        }
    }

    /// Frees up to a quantum of pages, until core wants a drain.
    pub(super) fn free_some(&mut self, id: TaskId) {
        let cpu = self.task(id).cpu;
        let task = &mut self.tasks[id.0 as usize];
        let Some(Job::Free { nr_left, end, each }) = task.jobs.last_mut() else {
            unreachable!("a return is under way");
        };
        let (end, each) = (*end, self.costs.list_hit + *each);
        let now = self.agenda.now();
        let (mut nr_hits, mut nr_frames) = (0, 0);
        let mut past = None;
        while *nr_left > 0 && nr_hits < u64::from(QUANTUM) {
            if self.list_locks[cpu.0 as usize].is_held() {
                past = Some(Visit::GivePast(end));
                break;
            }
            let frame = match end {
                End::Oldest => task.held.pop_front(),
                End::Newest => task.held.pop_back(),
            };
            let Some(frame) = frame else {
                *nr_left = 0;
                break;
            };
            nr_frames += u64::from(self.memory.order_of(frame).nr_frames());
            if let Some(drain) = self.memory.give(cpu, frame, now + each * nr_hits) {
                past = Some(Visit::Drain(cpu, drain));
                break;
            }
            *nr_left -= 1;
            nr_hits += 1;
        }
        let is_done = *nr_left == 0;
        self.record_hits(nr_hits, each, Direction::Free);
        self.meter.nr_freed += nr_frames;
        match past {
            Some(visit) => self.leave_list(id, each * nr_hits, visit),
            None => self.finish_if(id, is_done, each * nr_hits),
        }
    }

    fn leave_list(&mut self, id: TaskId, after: Nanos, visit: Visit) {
        if matches!(visit, Visit::Refill(_) | Visit::Drain(..)) {
            let asker = self.asker(id);
            let is_taken = self.list_locks[asker.cpu.0 as usize].try_take(asker);
            assert!(is_taken, "the list was free a moment ago");
        }
        let list_hit = self.costs.list_hit;
        self.meter.busy += list_hit;
        self.task(id).began = self.agenda.now() + after;
        self.plan(id, after + list_hit, Stage::AtZone(visit));
    }

    fn finish_if(&mut self, id: TaskId, is_done: bool, after: Nanos) {
        if is_done {
            self.task(id).jobs.pop();
        }
        self.plan(id, after, Stage::Running);
    }

    /// Calls core when the zone's lock is granted. Returns true if an allocation got its page.
    pub(super) fn visit(&mut self, id: TaskId, visit: Visit) -> bool {
        let task = &mut self.tasks[id.0 as usize];
        let frame = match visit {
            Visit::Refill(request) => self.memory.refill(task.cpu, &request),
            Visit::TakePast(request) => self.memory.take_past(&request),
            Visit::Drain(cpu, drain) => {
                self.memory.drain(cpu, drain);
                None
            }
            Visit::GivePast(end) => {
                let frame = match end {
                    End::Oldest => task.held.pop_front(),
                    End::Newest => task.held.pop_back(),
                };
                if let Some(frame) = frame {
                    self.meter.nr_freed += u64::from(self.memory.order_of(frame).nr_frames());
                    self.memory.give_past(frame);
                }
                None
            }
            Visit::Balloon { nr_free } => {
                self.memory.keep_free(nr_free);
                None
            }
        };
        task.held.extend(frame);
        frame.is_some()
    }

    pub(super) fn after_visit(&mut self, id: TaskId, visit: Visit, found: bool) {
        let cpu = self.task(id).cpu;
        let is_shedding = matches!(self.task(id).jobs.last(), Some(Job::Shed { .. }));
        match visit {
            Visit::Drain(..) if is_shedding => self.plan(id, Nanos::ZERO, Stage::WithList),
            Visit::Balloon { .. } => self.finish_if(id, true, Nanos::ZERO),
            Visit::Refill(_) => {
                self.release_list(id, cpu);
                self.after_take(id, found);
            }
            Visit::TakePast(_) => self.after_take(id, found),
            Visit::Drain(..) => {
                self.release_list(id, cpu);
                self.after_give(id);
            }
            Visit::GivePast(_) => self.after_give(id),
        }
    }

    fn after_take(&mut self, id: TaskId, found: bool) {
        if !found {
            return self.try_harder(id);
        }
        let took = self.agenda.now() - self.task(id).began;
        self.meter.allocs.saturating_record(took.0);
        let Some(Job::Alloc(job)) = self.tasks[id.0 as usize].jobs.last_mut() else {
            unreachable!("an allocation is under way");
        };
        job.next_page();
        let (is_done, each) = (job.nr_left == 0, job.each);
        self.meter.nr_taken += u64::from(job.order.nr_frames());
        self.meter.busy += each;
        self.finish_if(id, is_done, each);
    }

    fn after_give(&mut self, id: TaskId) {
        let took = self.agenda.now() - self.task(id).began;
        self.meter.frees.saturating_record(took.0);
        let Some(Job::Free { nr_left, each, .. }) = self.tasks[id.0 as usize].jobs.last_mut()
        else {
            unreachable!("a return is under way");
        };
        *nr_left -= 1;
        let (is_done, each) = (*nr_left == 0, *each);
        self.meter.busy += each;
        self.finish_if(id, is_done, each);
    }

    /// Makes core's next attempt. Reclaim has nothing to free here.
    fn try_harder(&mut self, id: TaskId) {
        let (nr_cpus, memory) = (self.memory.nr_cpus(), &mut self.memory);
        let Some(Job::Alloc(job)) = self.tasks[id.0 as usize].jobs.last_mut() else {
            unreachable!("an allocation is under way");
        };
        let path = job.path.get_or_insert_with(|| {
            let mut path = SlowPath::new();
            let first = path.next(Attempted::Failed);
            assert_eq!(first, Attempt::Take(AllocJob::FAST), "the fast path comes first");
            path
        });
        let mut outcome = Attempted::Failed;
        loop {
            outcome = match path.next(outcome) {
                Attempt::Take(level) => {
                    job.level = level;
                    return self.plan(id, Nanos::ZERO, Stage::Running);
                }
                Attempt::WakeBackground => {
                    memory.wake_reclaim();
                    Attempted::Progress
                }
                Attempt::DirectReclaim => Attempted::Failed,
                Attempt::DrainCpus => {
                    job.starving = Some(memory.starve());
                    let shed = Job::Shed { cpu: 0, end: nr_cpus, how: Shed::Full };
                    self.task(id).jobs.push(shed);
                    return self.plan(id, Nanos::ZERO, Stage::Running);
                }
                Attempt::GiveUp => break,
            };
        }
        job.next_page();
        let is_done = job.nr_left == 0;
        self.task(id).nr_failed += 1;
        self.meter.nr_failed += 1;
        self.finish_if(id, is_done, Nanos::ZERO);
    }

    fn record_hits(&mut self, nr_hits: u64, each: Nanos, direction: Direction) {
        let histogram = match direction {
            Direction::Alloc => &mut self.meter.allocs,
            Direction::Free => &mut self.meter.frees,
        };
        histogram.saturating_record_n(self.costs.list_hit.0, nr_hits);
        self.meter.busy += each * nr_hits;
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Alloc,
    Free,
}
