//! Power loss after any request to the store: synced data is on the disk, and each sector has
//! contents written since.

use crate::common::PAGE;
use crate::common::pages::{Random, seed};
use crate::common::power::{Disk, PowerStore, SECTOR};
use crate::common::watchdog::Watchdog;
use pagetide::{Advice, Bytes, File, PageCache, PolicyName};

const CAPACITY: usize = 24 * PAGE;
const NR_SECTORS: usize = CAPACITY / SECTOR;

struct History {
    /// Contents of each sector over time, latest last.
    sectors: Vec<Vec<[u8; SECTOR]>>,
    lengths: Vec<usize>,
    promises: Vec<Promise>,
}

/// A completed sync: from this request on, the disk is no older.
struct Promise {
    nr_ops: usize,
    /// Index of each sector's contents in its history.
    sectors: Vec<usize>,
    length: usize,
}

struct Program {
    file: File,
    twin: Vec<u8>,
    store: PowerStore,
    history: History,
    _cache: PageCache,
}

impl Program {
    fn new(store: PowerStore, policy: PolicyName, background: bool) -> Program {
        let builder = PageCache::builder().memory(Bytes::from_pages(16)).policy(policy);
        let cache = builder.background(background).build().unwrap();
        let file = cache.open_store(store.boxed()).unwrap();
        let history = History {
            sectors: vec![vec![[0; SECTOR]]; NR_SECTORS],
            lengths: vec![0],
            promises: vec![Promise { nr_ops: 0, sectors: vec![0; NR_SECTORS], length: 0 }],
        };
        Program { file, twin: Vec::new(), store, history, _cache: cache }
    }

    fn step(&mut self, step: u64, random: &mut Random) {
        match random.below(20) {
            0..11 => {
                let offset = random.below(CAPACITY as u64 - 1) as usize;
                let len = 1 + random.below(3 * PAGE as u64) as usize;
                let bytes = vec![step as u8 | 1; len.min(CAPACITY - offset)];
                self.write(offset, &bytes);
            }
            11 | 12 => {
                let index = random.below(CAPACITY as u64 / PAGE as u64);
                self.write(index as usize * PAGE, &[step as u8 | 1; PAGE]);
            }
            13 => self.change_in_place(random, step as u8 | 1),
            14 => self.set_len(random.below(CAPACITY as u64) as usize),
            15 => {
                self.file.advise(Advice::DontNeed, 0, random.below(CAPACITY as u64)).unwrap();
            }
            16 => self.file.flush().unwrap(),
            17 => {
                let mut all = vec![0; CAPACITY];
                assert_eq!(self.file.read_at(&mut all, 0).unwrap(), self.twin.len());
                assert!(all[..self.twin.len()] == self.twin);
            }
            _ => self.sync(),
        }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        self.twin.resize(self.twin.len().max(end), 0);
        self.twin[offset..end].copy_from_slice(bytes);
        // Page by page, as in the store.
        self.remember();
        assert_eq!(self.file.write_at(bytes, offset as u64).unwrap(), bytes.len());
    }

    fn change_in_place(&mut self, random: &mut Random, byte: u8) {
        if self.twin.is_empty() {
            return;
        }
        let at = random.below(self.twin.len() as u64) as usize;
        self.twin[at] = byte;
        self.remember();
        self.file.page_mut((at / PAGE) as u64).unwrap()[at % PAGE] = byte;
    }

    fn set_len(&mut self, len: usize) {
        self.twin.resize(len, 0);
        self.remember();
        self.file.set_len(len as u64).unwrap();
    }

    fn sync(&mut self) {
        self.file.sync_data().unwrap();
        let sectors = self.history.sectors.iter().map(|held| held.len() - 1).collect();
        let nr_ops = self.store.nr_ops();
        self.history.promises.push(Promise {
            nr_ops,
            sectors,
            length: self.history.lengths.len() - 1,
        });
    }

    /// Records the expected contents during and after the next call.
    fn remember(&mut self) {
        let mut whole = self.twin.clone();
        whole.resize(CAPACITY, 0);
        for (held, now) in self.history.sectors.iter_mut().zip(whole.chunks_exact(SECTOR)) {
            if held.last().unwrap() != now {
                held.push(now.try_into().unwrap());
            }
        }
        self.history.lengths.push(self.twin.len());
    }
}

impl History {
    fn check(&self, nr_ops: usize, disk: &Disk) -> Result<(), String> {
        let promise = self.promises.iter().rfind(|promise| promise.nr_ops <= nr_ops).unwrap();
        for (nth, now) in disk.contents.chunks_exact(SECTOR).enumerate() {
            let held = &self.sectors[nth][promise.sectors[nth]..];
            let start = nth * SECTOR;
            // A truncation reaches the store at once, and cuts earlier sectors there.
            let cuts = self.lengths[promise.length..].iter().map(|len| len.saturating_sub(start));
            let mut ends = cuts.filter(|end| *end < SECTOR).chain([SECTOR]);
            let is_of = |one: &[u8; SECTOR], end: usize| {
                one[..end] == now[..end] && now[end..].iter().all(|byte| *byte == 0)
            };
            if !ends.any(|end| held.iter().any(|one| is_of(one, end))) {
                return Err(format!("sector {nth} has {} {}", now[0], now[SECTOR - 1]));
            }
        }
        let lengths = &self.lengths[promise.length..];
        let (least, most) = (lengths.iter().min().unwrap(), lengths.iter().max().unwrap());
        if (least..=most).contains(&&disk.len) {
            return Ok(());
        }
        Err(format!("it is {} bytes long, and was {least} to {most}", disk.len))
    }

    /// Tries a few sets of unsynced sectors after each request.
    fn check_all(&self, store: &PowerStore, random: &mut Random) -> Result<(), String> {
        let log = store.log();
        for nr_ops in 0..=log.len() {
            for _ in 0..4 {
                let disk = Disk::after(&log[..nr_ops], CAPACITY, random);
                let checked = self.check(nr_ops, &disk);
                checked.map_err(|why| format!("after {nr_ops} requests: {why}"))?;
            }
        }
        Ok(())
    }
}

fn play(store: &PowerStore, random: &mut Random, background: bool) -> Result<(), String> {
    let policy = [PolicyName::Pagetide, PolicyName::Mglru][random.below(2) as usize];
    let mut program = Program::new(store.clone(), policy, background);
    (0..150).for_each(|step| program.step(step, random));
    program.sync();
    let Program { file, history, _cache: cache, .. } = program;
    drop((file, cache));
    history.check_all(store, random)
}

#[test]
fn what_was_synced_survives_and_no_sector_has_what_was_never_written_there() {
    let nr_rounds = if std::env::var_os("PAGETIDE_LONG").is_some() { 400 } else { 8 };
    let mut random = Random::new(seed());
    let _watchdog = Watchdog::new();
    for round in 0..nr_rounds {
        let store = PowerStore::default();
        play(&store, &mut random, round % 2 == 1).unwrap_or_else(|why| panic!("{round}: {why}"));
    }
}

#[test]
fn a_sync_that_never_came_is_noticed() {
    let mut random = Random::new(5);
    let noticed = play(&PowerStore::that_forgets_syncs(), &mut random, false);
    assert!(noticed.is_err(), "syncs that do nothing lose what they promise");
}
