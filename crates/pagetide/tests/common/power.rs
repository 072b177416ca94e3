//! A store that logs writes and syncs, and the possible disk contents after a power loss.
//!
//! ```text
//!   log     write  write  set_len  sync  write  write | power loss
//!   disk    <--------- all of it -------> any subset of sectors
//! ```
//!
//! Each sector written after the last sync is present or not, independently, so a write is torn
//! between any two sectors. The length is the last one, or any since the sync.

use super::pages::Random;
use pagetide::Store;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

pub(crate) const SECTOR: usize = 512;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Whole sectors, and the resulting file length.
    Change {
        start: usize,
        sectors: Vec<u8>,
        len: usize,
    },
    Sync,
}

#[derive(Default)]
struct State {
    contents: Vec<u8>,
    log: Vec<Op>,
    forgets_syncs: bool,
}

#[derive(Clone, Default)]
pub(crate) struct PowerStore {
    state: Arc<Mutex<State>>,
}

pub(crate) struct Disk {
    pub(crate) contents: Vec<u8>,
    pub(crate) len: usize,
}

impl PowerStore {
    /// A store that ignores syncs, to check that tests notice.
    pub(crate) fn that_forgets_syncs() -> PowerStore {
        let store = PowerStore::default();
        store.lock().forgets_syncs = true;
        store
    }

    pub(crate) fn boxed(&self) -> Box<dyn Store> {
        Box::new(self.clone())
    }

    pub(crate) fn log(&self) -> Vec<Op> {
        self.lock().log.clone()
    }

    pub(crate) fn nr_ops(&self) -> usize {
        self.lock().log.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Disk {
    /// Replays `log`, at most `capacity` bytes. `random` selects the unsynced sectors.
    pub(crate) fn after(log: &[Op], capacity: usize, random: &mut Random) -> Disk {
        let nr_synced = log.iter().rposition(|op| matches!(op, Op::Sync)).map_or(0, |at| at + 1);
        let mut disk = Disk { contents: vec![0; capacity], len: 0 };
        let (synced, unsynced) = log.split_at(nr_synced);
        synced.iter().for_each(|op| disk.apply(op, &mut || true));
        // All, none, or with some probability.
        let odds = [0, 1, 5, 9, 10][random.below(5) as usize];
        unsynced.iter().for_each(|op| disk.apply(op, &mut || random.below(10) < odds));
        disk
    }

    fn apply(&mut self, op: &Op, arrives: &mut impl FnMut() -> bool) {
        let Op::Change { start, sectors, len } = op else { return };
        for (at, sector) in (*start..).step_by(SECTOR).zip(sectors.chunks_exact(SECTOR)) {
            if arrives() {
                self.contents[at..at + SECTOR].copy_from_slice(sector);
            }
        }
        if arrives() {
            self.len = *len;
        }
    }
}

impl State {
    /// Logs a change of a range, with zeros past the end.
    fn note_change(&mut self, range: Range<usize>) {
        let (start, end) = (range.start / SECTOR * SECTOR, range.end.next_multiple_of(SECTOR));
        let len = self.contents.len();
        let mut sectors = self.contents[start.min(len)..end.min(len)].to_vec();
        sectors.resize(end - start, 0);
        self.log.push(Op::Change { start, sectors, len });
    }
}

impl Store for PowerStore {
    fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.lock();
        let rest = state.contents.get(offset as usize..).unwrap_or(&[]);
        let nr_bytes = rest.len().min(target.len());
        target[..nr_bytes].copy_from_slice(&rest[..nr_bytes]);
        Ok(nr_bytes)
    }

    fn write_at(&self, source: &[u8], offset: u64) -> io::Result<usize> {
        let (offset, mut state) = (offset as usize, self.lock());
        let end = offset + source.len();
        if state.contents.len() < end {
            state.contents.resize(end, 0);
        }
        state.contents[offset..end].copy_from_slice(source);
        state.note_change(offset..end);
        Ok(source.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.lock();
        if !state.forgets_syncs {
            state.log.push(Op::Sync);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().contents.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let (len, mut state) = (len as usize, self.lock());
        let was = state.contents.len();
        state.contents.resize(len, 0);
        state.note_change(len.min(was)..was.max(len));
        Ok(())
    }
}
