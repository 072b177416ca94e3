//! A store in memory that fails on command: a countdown selects the operation.

use pagetide::Store;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Fails with this error code, without effect.
    Error(i32),
    /// Fails with this error code. A write keeps half of its bytes.
    Torn(i32),
    /// Panics without effect.
    Panic,
    /// Reports a byte more than requested.
    Lie,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    Write,
    Sync,
    SetLen,
    Len,
}

/// How successful reads and writes behave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Manner {
    #[default]
    Whole,
    /// At most so many bytes a call.
    Short(usize),
    /// Every second call is interrupted by a signal.
    Interrupted,
}

/// An operation in flight: start, end, and true for a write.
type Range = (u64, u64, bool);

#[derive(Default)]
struct State {
    contents: Vec<u8>,
    manner: Manner,
    /// Kind, calls until the fault, the fault, and its number of calls.
    plan: Option<(Kind, u64, Fault, u64)>,
    nr_faults: u64,
    nr_calls: u64,
    under_way: Vec<Range>,
    /// First use, and total delay since.
    began: Option<Instant>,
    lingered: Duration,
    broken: Option<String>,
}

/// Removes a range on drop, mostly after a delay, so that overlaps may occur.
struct UnderWay<'s> {
    store: &'s FaultyStore,
    range: Range,
    lingers: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let started = Instant::now();
        if self.lingers {
            std::thread::yield_now();
        }
        let mut state = self.store.lock();
        state.lingered += started.elapsed();
        let at = state.under_way.iter().position(|other| *other == self.range).unwrap();
        state.under_way.swap_remove(at);
    }
}

/// A shared handle on the contents and the plan. The cache gets a boxed clone.
#[derive(Clone, Default)]
pub(crate) struct FaultyStore {
    state: Arc<Mutex<State>>,
}

impl FaultyStore {
    pub(crate) fn with_contents(contents: &[u8]) -> FaultyStore {
        let store = FaultyStore::default();
        store.lock().contents = contents.to_vec();
        store
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn boxed(&self) -> Box<dyn Store> {
        Box::new(self.clone())
    }

    pub(crate) fn set_manner(&self, manner: Manner) {
        self.lock().manner = manner;
    }

    /// Makes `nr` calls of `kind` fail, starting with the `nth` from now (0 is the next).
    pub(crate) fn fail(&self, kind: Kind, nth: u64, fault: Fault, nr: u64) {
        self.lock().plan = Some((kind, nth, fault, nr));
    }

    /// Ends all faults. Returns their number since the last call.
    pub(crate) fn lift(&self) -> u64 {
        let mut state = self.lock();
        state.plan = None;
        std::mem::take(&mut state.nr_faults)
    }

    pub(crate) fn nr_faults(&self) -> u64 {
        self.lock().nr_faults
    }

    /// Returns the contents. Panics if the cache broke a promise.
    pub(crate) fn contents(&self) -> Vec<u8> {
        let state = self.lock();
        assert_eq!(state.broken, None);
        state.contents.clone()
    }

    pub(crate) fn nr_owners(&self) -> usize {
        Arc::strong_count(&self.state)
    }

    /// Records the start of an operation. Nothing may overlap a write, and writes start at a page:
    /// [`FaultyStore::contents`] reports violations.
    fn begin(&self, start: u64, len: usize, writes: bool) -> UnderWay<'_> {
        let range = (start, start + len as u64, writes);
        let mut state = self.lock();
        let overlaps = |other: &&Range| other.0 < range.1 && start < other.1 && (writes || other.2);
        let other = state.under_way.iter().find(overlaps).copied();
        if let Some(other) = other {
            state.broken = Some(format!("{range:?} beside {other:?}"));
        }
        if writes && state.manner == Manner::Whole && !start.is_multiple_of(super::PAGE as u64) {
            state.broken = Some(format!("a write at {start}"));
        }
        state.under_way.push(range);
        UnderWay { store: self, range, lingers: state.lingers() }
    }

    fn meet(&self, kind: Kind) -> (MutexGuard<'_, State>, Option<Fault>) {
        let mut state = self.lock();
        let mut met = None;
        if let Some((planned, left, fault, nr)) = &mut state.plan
            && *planned == kind
        {
            if *left > 0 {
                *left -= 1;
            } else if *nr > 0 {
                *nr -= 1;
                met = Some(*fault);
            }
        }
        state.nr_faults += u64::from(met.is_some());
        (state, met)
    }
}

impl State {
    /// Returns true if the operation should be delayed. Delays take at most half of the time, as
    /// they are long on a busy machine.
    fn lingers(&mut self) -> bool {
        let began = *self.began.get_or_insert_with(Instant::now);
        self.lingered * 2 <= began.elapsed()
    }

    fn portion(&mut self, len: usize) -> io::Result<usize> {
        self.nr_calls += 1;
        match self.manner {
            Manner::Whole => Ok(len),
            Manner::Short(most) => Ok(len.min(most)),
            Manner::Interrupted if self.nr_calls % 2 == 1 => {
                Err(io::Error::from_raw_os_error(libc::EINTR))
            }
            Manner::Interrupted => Ok(len),
        }
    }

    fn put(&mut self, source: &[u8], offset: u64) {
        let start = offset as usize;
        let end = start + source.len();
        if self.contents.len() < end {
            self.contents.resize(end, 0);
        }
        self.contents[start..end].copy_from_slice(source);
    }
}

impl Store for FaultyStore {
    fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        let _under_way = self.begin(offset, target.len(), false);
        self.read(target, offset)
    }

    fn write_at(&self, source: &[u8], offset: u64) -> io::Result<usize> {
        let _under_way = self.begin(offset, source.len(), true);
        self.write(source, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.refuse_or_nothing(Kind::Sync)
    }

    fn len(&self) -> io::Result<u64> {
        self.refuse_or_nothing(Kind::Len)?;
        Ok(self.lock().contents.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.refuse_or_nothing(Kind::SetLen)?;
        self.lock().contents.resize(len as usize, 0);
        Ok(())
    }
}

impl FaultyStore {
    fn read(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        let (mut state, fault) = self.meet(Kind::Read);
        let start = (offset as usize).min(state.contents.len());
        let len = target.len().min(state.contents.len() - start);
        match fault {
            None => {
                let nr = state.portion(len)?;
                target[..nr].copy_from_slice(&state.contents[start..start + nr]);
                Ok(nr)
            }
            Some(Fault::Error(code)) => Err(io::Error::from_raw_os_error(code)),
            Some(Fault::Lie) => Ok(target.len() + 1),
            Some(fault @ Fault::Panic) => Err(fault.error_after(state)),
            Some(Fault::Torn(code)) => {
                // Garbage that no reader may see.
                target.fill(0xee);
                Err(io::Error::from_raw_os_error(code))
            }
        }
    }

    fn write(&self, source: &[u8], offset: u64) -> io::Result<usize> {
        let (mut state, fault) = self.meet(Kind::Write);
        match fault {
            None => {
                let nr = state.portion(source.len())?;
                state.put(&source[..nr], offset);
                Ok(nr)
            }
            Some(Fault::Error(code)) => Err(io::Error::from_raw_os_error(code)),
            Some(Fault::Lie) => Ok(source.len() + 1),
            Some(fault @ Fault::Panic) => Err(fault.error_after(state)),
            Some(Fault::Torn(code)) => {
                state.put(&source[..source.len() / 2], offset);
                Err(io::Error::from_raw_os_error(code))
            }
        }
    }

    fn refuse_or_nothing(&self, kind: Kind) -> io::Result<()> {
        let fault = self.meet(kind).1;
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }
}

impl Fault {
    fn error(self) -> io::Error {
        match self {
            Fault::Error(code) | Fault::Torn(code) => io::Error::from_raw_os_error(code),
            // Without the message on stderr.
            Fault::Panic | Fault::Lie => std::panic::resume_unwind(Box::new("planned")),
        }
    }

    /// May panic as [`Fault::error`] does, but with the state unlocked.
    fn error_after(self, state: MutexGuard<'_, State>) -> io::Error {
        drop(state);
        self.error()
    }
}
