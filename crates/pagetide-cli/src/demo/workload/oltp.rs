//! Random reads and writes with syncs, and every byte verified at the end.
//!
//! ```text
//!   pages      0 1 2 3 4 5 ...          thread t owns the pages with index % threads == t
//!   a write    owner only: generation + 1, whole page
//!   a read     any page; the owner knows the generation and checks a word of it
//!   each 1024 writes of a thread: sync_data
//!   at the end: sync_data, drop from the kernel's page cache, read all from disk, check all words
//! ```
//!
//! Data: a generation per page, with one writer. Details: `writes`, `syncs`, `sync_max_us`,
//! `verified_pages`.
//!
//! Ignored: transactions and partial-page writes.

use super::{Harness, microseconds};
use crate::dataset::DataFile;
use crate::demo::measure::{Client, Measurements};
use crate::demo::plan::OLTP_FILE;
use crate::demo::subject::{MeasuredFile, OpenMode};
use crate::failure::Failure;
use crate::pages::{PagePicker, Skew};
use pagetide_core::units::PAGE_BYTES;
use serde_json::json;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

const ZIPF_EXPONENT: f64 = 0.8;
const READ_PERCENT: u32 = 70;
/// Writes of a thread per sync.
const WRITES_PER_SYNC: u32 = 1024;

struct Table<'a> {
    data: &'a DataFile,
    file: &'a dyn MeasuredFile,
    generations: Vec<AtomicU32>,
    nr_threads: u64,
    nr_writes: AtomicU64,
    nr_syncs: AtomicU64,
    sync_us_max: AtomicU64,
}

struct Worker {
    number: u64,
    picker: PagePicker,
    page: Vec<u8>,
    nr_unsynced: u32,
}

pub(super) fn run(harness: &Harness<'_>) -> Result<Measurements, Failure> {
    let data = harness.data(OLTP_FILE);
    let file = harness.open(data, OpenMode::ReadWrite)?;
    let table = Table {
        data,
        file: file.as_ref(),
        generations: (0..data.nr_pages).map(|_| AtomicU32::new(0)).collect(),
        nr_threads: u64::from(harness.nr_threads),
        nr_writes: AtomicU64::new(0),
        nr_syncs: AtomicU64::new(0),
        sync_us_max: AtomicU64::new(0),
    };
    let pickers = harness.pickers(data.nr_pages, Skew::Zipf(ZIPF_EXPONENT));
    let workers = (0..)
        .zip(pickers)
        .map(|(number, picker)| Worker {
            number,
            picker,
            page: vec![0; PAGE_BYTES],
            nr_unsynced: 0,
        })
        .collect();
    harness.begin()?;
    let mut measured =
        harness.run_timed(workers, |worker, client| table.operate(worker, client))?;
    table.sync()?;
    let generation = |index: u64| table.generations[index as usize].load(Ordering::Relaxed);
    data.verify(generation, harness.interrupt)?;
    measured.detail.insert("verified_pages".into(), json!(data.nr_pages));
    for (name, count) in [
        ("writes", &table.nr_writes),
        ("syncs", &table.nr_syncs),
        ("sync_max_us", &table.sync_us_max),
    ] {
        measured.detail.insert(name.into(), json!(count.load(Ordering::Relaxed)));
    }
    Ok(measured)
}

impl Table<'_> {
    fn operate(&self, worker: &mut Worker, client: &mut Client<'_>) -> Result<Instant, Failure> {
        let index = u64::from(worker.picker.pick());
        if worker.picker.chance(READ_PERCENT) {
            return self.read(worker, client, index);
        }
        // Each page has one writer: use this thread's page nearby.
        let mut own = index - index % self.nr_threads + worker.number;
        if own >= self.data.nr_pages {
            own = worker.number;
        }
        let generation = self.generations[own as usize].load(Ordering::Relaxed) + 1;
        self.data.fill_page(own, generation, &mut worker.page);
        let mut end = client.write(self.file, self.data, own, &worker.page)?;
        self.generations[own as usize].store(generation, Ordering::Relaxed);
        self.nr_writes.fetch_add(1, Ordering::Relaxed);
        worker.nr_unsynced += 1;
        if worker.nr_unsynced == WRITES_PER_SYNC {
            worker.nr_unsynced = 0;
            self.sync()?;
            end = Instant::now();
        }
        Ok(end)
    }

    fn read(
        &self,
        worker: &mut Worker,
        client: &mut Client<'_>,
        index: u64,
    ) -> Result<Instant, Failure> {
        let end = client.read(self.file, self.data, index, &mut worker.page)?;
        if index % self.nr_threads == worker.number {
            let generation = self.generations[index as usize].load(Ordering::Relaxed);
            client.check(self.data, index, generation, &worker.page)?;
        }
        Ok(end)
    }

    fn sync(&self) -> Result<(), Failure> {
        let start = Instant::now();
        self.file.sync_data().map_err(|error| Failure::on_path("sync", &self.data.path, &error))?;
        self.nr_syncs.fetch_add(1, Ordering::Relaxed);
        self.sync_us_max.fetch_max(microseconds(start.elapsed()) as u64, Ordering::Relaxed);
        Ok(())
    }
}
