//! The worker pool: threads that load units and run their cells, within the available memory.
//!
//! Problem: units differ a thousandfold in length and memory, and a thread that waits wastes a
//! core. Idea: one queue under one lock. A thread takes a ready cell, and loads the next unit only
//! without ready cells. A long unit at the end thus has all cores, and few units are in memory.
//!
//! ```text
//!   units  3 4 5 ...          cells ready  2a 2b 2c          running  1d, 2-load
//!          ^ when none is ready            ^ first             booked  bytes of these
//! ```
//!
//! A task starts if its bytes fit beside the booked ones, or if nothing else runs. A started task
//! never waits, so the pool always progresses. Loading that takes more than estimated is booked
//! once known. A unit without memory is retried at the end, on its own.
//!
//! Ignored: other programs that take memory meanwhile.

use crate::room::read_memory_available;
use pagetide_lab::replay::{Cell, ReplayOutcome};
use pagetide_lab::trace::DenseTrace;
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Progress and cancellation of long work, from any thread.
pub trait Watch: Sync {
    /// Returns true to continue. Called at least every few milliseconds of work.
    fn keep_on(&self) -> bool;

    /// Reports progress.
    fn progress(&self, _nr_done: u64, _nr_parts: u64) {}
}

/// The work of a pool.
pub(crate) trait Work: Sync {
    type Loaded: Send + Sync;

    /// Estimates the bytes for loading the unit.
    fn bytes_to_load(&self, unit: usize) -> u64;

    /// Loads the unit. `is_alone` means that nothing else runs, on the last attempt.
    fn load(&self, unit: usize, is_alone: bool) -> Load<Self::Loaded>;

    fn run(&self, unit: usize, loaded: &Self::Loaded, cell: usize);
}

/// The result of loading.
pub(crate) enum Load<L> {
    /// The loaded unit, its bytes, and the additional bytes of each cell.
    Ready { loaded: L, bytes: u64, bytes_of_cells: Vec<u64> },
    /// Nothing to run.
    Nothing,
    /// Out of memory, with other units beside.
    Later,
}

enum Task<L> {
    Load { unit: usize, bytes: u64, is_alone: bool },
    Run { unit: usize, cell: usize, bytes: u64, loaded: Arc<L> },
}

struct State<L> {
    nr_units: usize,
    next: usize,
    later: Vec<usize>,
    ready: VecDeque<Task<L>>,
    /// Units in memory: unfinished cells, and bytes.
    held: BTreeMap<usize, (usize, u64)>,
    booked: u64,
    nr_running: usize,
    is_stopped: bool,
    panic: Option<Box<dyn Any + Send>>,
}

/// Runs all work of `nr_units` units.
pub(crate) fn work_through<W: Work>(
    work: &W,
    nr_units: usize,
    nr_threads: usize,
    budget: u64,
    watch: &dyn Watch,
) {
    let state = Mutex::new(State {
        nr_units,
        next: 0,
        later: Vec::new(),
        ready: VecDeque::new(),
        held: BTreeMap::new(),
        booked: 0,
        nr_running: 0,
        is_stopped: false,
        panic: None,
    });
    let changed = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 0..nr_threads.max(1) {
            scope.spawn(|| serve(work, &state, &changed, budget, watch));
        }
    });
    let ended = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(panic) = ended.panic {
        resume_unwind(panic);
    }
}

fn serve<W: Work>(
    work: &W,
    state: &Mutex<State<W::Loaded>>,
    changed: &Condvar,
    budget: u64,
    watch: &dyn Watch,
) {
    let mut now = lock(state);
    loop {
        now.is_stopped |= !watch.keep_on();
        if now.is_stopped {
            break;
        }
        if let Some(task) = now.take(work, budget) {
            drop(now);
            let done = catch_unwind(AssertUnwindSafe(|| perform(work, &task)));
            now = lock(state);
            match done {
                Ok(loaded) => now.finish(task, loaded),
                Err(panic) => {
                    now.is_stopped = true;
                    now.panic = Some(panic);
                }
            }
            changed.notify_all();
        } else if now.nr_running == 0 {
            break;
        } else {
            now = changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
    }
    changed.notify_all();
}

fn lock<L>(state: &Mutex<State<L>>) -> MutexGuard<'_, State<L>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn perform<W: Work>(work: &W, task: &Task<W::Loaded>) -> Option<Load<W::Loaded>> {
    match task {
        Task::Load { unit, is_alone, .. } => Some(work.load(*unit, *is_alone)),
        Task::Run { unit, cell, loaded, .. } => {
            work.run(*unit, loaded, *cell);
            None
        }
    }
}

impl<L> State<L> {
    fn take<W: Work<Loaded = L>>(&mut self, work: &W, budget: u64) -> Option<Task<L>> {
        let fits = |bytes: u64| self.nr_running == 0 || self.booked.saturating_add(bytes) <= budget;
        let task = if let Some(Task::Run { bytes, .. }) = self.ready.front() {
            if !fits(*bytes) {
                return None;
            }
            self.ready.pop_front()?
        } else if self.next < self.nr_units {
            let (unit, bytes) = (self.next, work.bytes_to_load(self.next));
            if !fits(bytes) {
                return None;
            }
            self.next += 1;
            Task::Load { unit, bytes, is_alone: false }
        } else if self.nr_running == 0 {
            let unit = self.later.pop()?;
            Task::Load { unit, bytes: work.bytes_to_load(unit), is_alone: true }
        } else {
            return None;
        };
        self.booked = self.booked.saturating_add(task.bytes());
        self.nr_running += 1;
        Some(task)
    }

    fn finish(&mut self, task: Task<L>, loaded: Option<Load<L>>) {
        self.nr_running -= 1;
        self.booked = self.booked.saturating_sub(task.bytes());
        match (task, loaded) {
            (Task::Load { unit, .. }, Some(Load::Ready { loaded, bytes, bytes_of_cells })) => {
                if bytes_of_cells.is_empty() {
                    return;
                }
                self.held.insert(unit, (bytes_of_cells.len(), bytes));
                self.booked = self.booked.saturating_add(bytes);
                let loaded = Arc::new(loaded);
                let cells = bytes_of_cells.into_iter().enumerate();
                self.ready.extend(cells.map(|(cell, bytes)| Task::Run {
                    unit,
                    cell,
                    bytes,
                    loaded: Arc::clone(&loaded),
                }));
            }
            (Task::Load { unit, .. }, Some(Load::Later)) => self.later.push(unit),
            (Task::Load { .. }, _) => {}
            (Task::Run { unit, .. }, _) => {
                if let Some((nr_left, bytes)) = self.held.get_mut(&unit) {
                    *nr_left -= 1;
                    if *nr_left == 0 {
                        self.booked = self.booked.saturating_sub(*bytes);
                        self.held.remove(&unit);
                    }
                }
            }
        }
    }
}

impl<L> Task<L> {
    fn bytes(&self) -> u64 {
        match self {
            Task::Load { bytes, .. } | Task::Run { bytes, .. } => *bytes,
        }
    }
}

/// Returns the bytes that a pool may book: three quarters of the available memory.
pub(crate) fn read_budget() -> u64 {
    read_memory_available().map_or(u64::MAX, |available| available.0 / 4 * 3)
}

/// Returns the requested number of threads, by default one per core.
pub(crate) fn nr_threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1)
}

/// Replays one trace through all `cells` on `jobs` threads (`None`: one per core). Returns the
/// outcomes and seconds, in the cells' order.
///
/// Returns `None` if `watch` stopped the work.
pub fn run_cells(
    trace: &DenseTrace,
    cells: &[Cell],
    jobs: Option<usize>,
    watch: &dyn Watch,
) -> Option<Vec<(ReplayOutcome, f64)>> {
    let work = Cells { trace, cells, watch, done: Mutex::new(vec![None; cells.len()]) };
    work_through(&work, cells.len(), nr_threads(jobs).min(cells.len()), read_budget(), watch);
    work.done.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
}

/// Each cell as a unit, of a loaded trace.
struct Cells<'a> {
    trace: &'a DenseTrace,
    cells: &'a [Cell],
    watch: &'a dyn Watch,
    done: Mutex<Vec<Option<(ReplayOutcome, f64)>>>,
}

impl Work for Cells<'_> {
    type Loaded = ();

    fn bytes_to_load(&self, unit: usize) -> u64 {
        self.cells[unit].bytes_needed(self.trace)
    }

    fn load(&self, unit: usize, _: bool) -> Load<()> {
        let start = Instant::now();
        let outcome = self.cells[unit].run_while(self.trace, |_| self.watch.keep_on());
        let answer = outcome.map(|outcome| (outcome, start.elapsed().as_secs_f64()));
        self.done.lock().unwrap_or_else(PoisonError::into_inner)[unit] = answer;
        Load::Nothing
    }

    fn run(&self, _: usize, (): &(), _: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

    struct Going(AtomicBool);

    impl Watch for Going {
        fn keep_on(&self) -> bool {
            self.0.load(SeqCst)
        }
    }

    /// Units with as many cells as their number. A cell takes 10 bytes, a unit 100.
    #[derive(Default)]
    struct Counted {
        ran: Mutex<Vec<(usize, usize)>>,
        bytes: AtomicU64,
        bytes_max: AtomicU64,
        nr_later: AtomicU64,
    }

    impl Counted {
        fn hold(&self, bytes: u64) {
            let now = self.bytes.fetch_add(bytes, SeqCst) + bytes;
            self.bytes_max.fetch_max(now, SeqCst);
        }
    }

    struct Held<'a>(&'a Counted);

    impl Drop for Held<'_> {
        fn drop(&mut self) {
            self.0.bytes.fetch_sub(100, SeqCst);
        }
    }

    impl<'a> Work for &'a Counted {
        type Loaded = Held<'a>;

        fn bytes_to_load(&self, _: usize) -> u64 {
            100
        }

        fn load(&self, unit: usize, is_alone: bool) -> Load<Held<'a>> {
            if unit == 3 && !is_alone {
                self.nr_later.fetch_add(1, SeqCst);
                return Load::Later;
            }
            self.hold(100);
            Load::Ready { loaded: Held(self), bytes: 100, bytes_of_cells: vec![10; unit] }
        }

        fn run(&self, unit: usize, _: &Held<'a>, cell: usize) {
            self.hold(10);
            self.ran.lock().expect("no panic").push((unit, cell));
            self.bytes.fetch_sub(10, SeqCst);
        }
    }

    #[test]
    fn each_cell_runs_once_and_no_more_is_held_than_may_be() {
        for (nr_threads, budget) in [(1, 0), (4, 0), (4, 250), (4, u64::MAX)] {
            let counted = Counted::default();
            let watch = Going(AtomicBool::new(true));
            work_through(&&counted, 9, nr_threads, budget, &watch);
            let mut ran = counted.ran.into_inner().expect("no panic");
            ran.sort_unstable();
            let all: Vec<_> = (0..9).flat_map(|unit| (0..unit).map(move |it| (unit, it))).collect();
            assert_eq!(ran, all, "{nr_threads} threads");
            assert_eq!(counted.nr_later.into_inner(), 1, "it was tried again by itself");
            // Without a budget, one task runs at a time, in a loaded unit.
            let most = if budget == 0 { 110 + 100 } else { budget };
            let held = counted.bytes_max.into_inner();
            assert!(held <= most, "{held} of {most} bytes on {nr_threads} threads");
        }
    }

    #[test]
    fn what_is_stopped_ends_and_a_panic_is_passed_on() {
        let counted = Counted::default();
        work_through(&&counted, 9, 2, u64::MAX, &Going(AtomicBool::new(false)));
        assert!(counted.ran.into_inner().expect("no panic").is_empty());

        struct Panics;
        impl Work for Panics {
            type Loaded = ();
            fn bytes_to_load(&self, _: usize) -> u64 {
                0
            }
            fn load(&self, unit: usize, _: bool) -> Load<()> {
                assert_ne!(unit, 5, "the fifth");
                Load::Nothing
            }
            fn run(&self, _: usize, (): &(), _: usize) {}
        }
        let watch = Going(AtomicBool::new(true));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            work_through(&Panics, 9, 3, u64::MAX, &watch);
        }));
        assert!(ended.is_err());
    }
}
