//! The access record: all inputs of reclaim decisions in a run, for replay in the lab.
//!
//! A tick records changes of file lengths, on which hint scans depend. A write error ends the
//! record with one message on standard error. The run goes on.

use crate::memory::locks::lock;
use pagetide_core::ids::{MappingId, PageId};
use pagetide_core::record::{Access, AccessKind, Encoder, Header, Note};
use pagetide_core::tiering::ScannedMapping;
use pagetide_core::units::Millis;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Write buffer in bytes: the amount lost when the process is killed.
const BUFFER_BYTES: usize = 64 << 10;

pub(crate) struct Recorder {
    sink: Mutex<Option<Sink>>,
}

struct Sink {
    file: BufWriter<File>,
    encoder: Encoder,
    scratch: Vec<u8>,
    /// Mappings as last recorded.
    mappings: BTreeMap<MappingId, ScannedMapping>,
}

impl Recorder {
    pub(crate) fn create(path: &Path, header: &Header) -> io::Result<Recorder> {
        let mut file = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
        let mut scratch = Vec::new();
        header.append_to(&mut scratch);
        file.write_all(&scratch)?;
        scratch.clear();
        let (encoder, mappings) = (Encoder::new(), BTreeMap::new());
        Ok(Recorder { sink: Mutex::new(Some(Sink { file, encoder, scratch, mappings })) })
    }

    pub(crate) fn record(&self, page: PageId, kind: AccessKind) {
        let access = Access { page, kind, thread: thread_number() };
        self.append(|sink| sink.append(&access));
    }

    /// Records a tick, and the changes since the last tick. `mappings` is complete.
    pub(crate) fn record_tick(&self, now: Millis, mappings: impl Iterator<Item = ScannedMapping>) {
        let all: BTreeMap<_, _> = mappings.map(|mapping| (mapping.id, mapping)).collect();
        self.append(|sink| {
            let before = std::mem::replace(&mut sink.mappings, all.clone());
            let gone = before.values().filter(|mapping| !all.contains_key(&mapping.id));
            let gone = gone.map(|mapping| ScannedMapping { nr_pages: 0, ..*mapping });
            let changed = all.values().filter(|it| before.get(&it.id) != Some(*it)).copied();
            for mapping in gone.chain(changed) {
                sink.append_note(&Note::Mapping(mapping))?;
            }
            sink.append_note(&Note::Tick(now))
        });
    }

    pub(crate) fn note(&self, note: &Note) {
        self.append(|sink| sink.append_note(note));
    }

    fn append(&self, append: impl FnOnce(&mut Sink) -> io::Result<()>) {
        let mut sink = lock(&self.sink);
        if let Some(open) = sink.as_mut()
            && let Err(error) = append(open)
        {
            eprintln!("pagetide: the access record ends here, writing it failed: {error}");
            *sink = None;
        }
    }

    /// Ends the record, so that a reader knows it is complete.
    pub(crate) fn finish(&self) {
        let Some(mut sink) = lock(&self.sink).take() else { return };
        sink.encoder.finish(&mut sink.scratch);
        let written = sink.file.write_all(&sink.scratch).and_then(|()| sink.file.flush());
        if let Err(error) = written {
            eprintln!("pagetide: the end of the access record could not be written: {error}");
        }
    }
}

impl Sink {
    fn append(&mut self, access: &Access) -> io::Result<()> {
        self.scratch.clear();
        self.encoder.append(access, &mut self.scratch);
        self.write()
    }

    fn append_note(&mut self, note: &Note) -> io::Result<()> {
        self.scratch.clear();
        self.encoder.append_note(note, &mut self.scratch);
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        self.file.write_all(&self.scratch)?;
        self.scratch.clear();
        Ok(())
    }
}

fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static NUMBER: Cell<Option<u32>> = const { Cell::new(None) };
    }
    NUMBER.with(|number| {
        number.get().unwrap_or_else(|| {
            let mine = NEXT.fetch_add(1, Ordering::Relaxed);
            number.set(Some(mine));
            mine
        })
    })
}
