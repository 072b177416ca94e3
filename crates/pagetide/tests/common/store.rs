//! A store in memory that fails when told to: a countdown picks the operation, a fault what
//! happens.

use pagetide::Store;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// What the operation does instead of its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Fails with this number of the system; nothing is done.
    Error(i32),
    /// Fails with this number; a write has done half of its work, and the half is kept.
    Torn(i32),
}

/// Which operations count towards the countdown, and can fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    Write,
    Sync,
    SetLen,
    Len,
}

/// How reads and writes go when they do not fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Manner {
    /// All of it at once.
    #[default]
    Whole,
    /// At most so many bytes a call.
    Short(usize),
    /// Every second call is interrupted by a signal.
    Interrupted,
}

#[derive(Default)]
struct State {
    contents: Vec<u8>,
    manner: Manner,
    /// Kind, calls of it until the fault, the fault, and for how many calls it stays.
    plan: Option<(Kind, u64, Fault, u64)>,
    nr_faults: u64,
    nr_calls: u64,
}

/// A shared handle on the contents and the plan; the cache gets a clone in a box.
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

    /// The `nth` call of `kind` from now (0 is the next) and `nr` from there on get `fault`.
    pub(crate) fn fail(&self, kind: Kind, nth: u64, fault: Fault, nr: u64) {
        self.lock().plan = Some((kind, nth, fault, nr));
    }

    /// No faults any more. Returns how many there were since the last time.
    pub(crate) fn lift(&self) -> u64 {
        let mut state = self.lock();
        state.plan = None;
        std::mem::take(&mut state.nr_faults)
    }

    /// How many faults there were since they were lifted last.
    pub(crate) fn nr_faults(&self) -> u64 {
        self.lock().nr_faults
    }

    pub(crate) fn contents(&self) -> Vec<u8> {
        self.lock().contents.clone()
    }

    /// Who holds the contents: this, its clones, and boxes.
    pub(crate) fn nr_owners(&self) -> usize {
        Arc::strong_count(&self.state)
    }

    /// Counts a call, and says what it gets.
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
    /// How many of `len` bytes this call moves.
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
            Some(Fault::Torn(code)) => {
                // Rubbish in the buffer that nobody may ever see.
                target.fill(0xee);
                Err(io::Error::from_raw_os_error(code))
            }
        }
    }

    fn write_at(&self, source: &[u8], offset: u64) -> io::Result<usize> {
        let (mut state, fault) = self.meet(Kind::Write);
        match fault {
            None => {
                let nr = state.portion(source.len())?;
                state.put(&source[..nr], offset);
                Ok(nr)
            }
            Some(Fault::Error(code)) => Err(io::Error::from_raw_os_error(code)),
            Some(Fault::Torn(code)) => {
                state.put(&source[..source.len() / 2], offset);
                Err(io::Error::from_raw_os_error(code))
            }
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.refuse_or_nothing(Kind::Sync)
    }

    fn len(&self) -> io::Result<u64> {
        let (state, fault) = self.meet(Kind::Len);
        fault.map_or(Ok(state.contents.len() as u64), |fault| Err(fault.error()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let (mut state, fault) = self.meet(Kind::SetLen);
        fault.map_or(Ok(()), |fault| Err(fault.error()))?;
        state.contents.resize(len as usize, 0);
        Ok(())
    }
}

impl FaultyStore {
    fn refuse_or_nothing(&self, kind: Kind) -> io::Result<()> {
        self.meet(kind).1.map_or(Ok(()), |fault| Err(fault.error()))
    }
}

impl Fault {
    fn error(self) -> io::Error {
        let (Fault::Error(code) | Fault::Torn(code)) = self;
        io::Error::from_raw_os_error(code)
    }
}
