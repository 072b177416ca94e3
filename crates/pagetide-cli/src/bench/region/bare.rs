//! Fault and eviction by bare system calls, one page at a time.
//!
//! ```text
//!   touch --SIGBUS--> the oldest page moved back --> the page read --> copied in, protected
//! ```
//!
//! Locks pages for concurrency, but has no policy, statistics or dirty index. Regions evict in
//! batches instead.

use crate::failure::Failure;
use pagetide_core::ids::{FrameId, PageIndex};
use pagetide_sys::{
    ArenaOptions, Fault, FaultDelivery, FaultRegistration, FrameArena, FrameLender, PageTable,
    RegionMemory, Served, StoreFile, StoreOptions, serve_faults,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

pub(super) struct BareRegion {
    pages: Arc<BarePages>,
    _registration: FaultRegistration,
}

struct BarePages {
    memory: Arc<RegionMemory>,
    table: PageTable,
    file: StoreFile,
    /// The page in each frame.
    resident: Box<[AtomicU32]>,
    next: AtomicUsize,
    nr_faults: AtomicU64,
}

const NONE: u32 = u32::MAX;

impl BareRegion {
    pub(super) fn new(path: &Path, nr_pages: u64, nr_frames: u32) -> Result<BareRegion, Failure> {
        let refused = |error: std::io::Error| Failure::on_path("map", path, &error);
        let options = ArenaOptions { huge_pages: false, pretouch: true };
        let arena = FrameArena::reserve(nr_frames, options).map_err(|e| refused(e.into()))?;
        let lender = FrameLender::new(&Arc::new(arena)).map_err(|e| refused(e.into()))?;
        let memory = RegionMemory::new(nr_pages, &Arc::new(lender), FaultDelivery::Signal);
        let memory = Arc::new(memory.map_err(|e| refused(e.into()))?);
        let options = StoreOptions::default();
        let file = StoreFile::open(path, options).map_err(|e| refused(e.into()))?;
        let table = PageTable::over_region(Arc::clone(&memory));
        // All page metadata must exist before the first fault.
        (0..nr_pages).step_by(512).for_each(|index| {
            table.page_or_make(PageIndex(index));
        });
        let resident = (0..nr_frames).map(|_| AtomicU32::new(NONE)).collect();
        let (next, nr_faults) = (AtomicUsize::new(0), AtomicU64::new(0));
        let pages = BarePages { memory, table, file, resident, next, nr_faults };
        let pages = Arc::new(pages);
        let served = Arc::clone(&pages);
        let serve = move |fault: Fault| served.serve(fault).map_or(Served::No, |()| Served::Yes);
        let registration = serve_faults(&pages.memory, Arc::new(serve));
        Ok(BareRegion { pages, _registration: registration })
    }

    pub(super) fn words(&self) -> &[AtomicU64] {
        self.pages.memory.words()
    }

    pub(super) fn nr_faults(&self) -> u64 {
        self.pages.nr_faults.load(Relaxed)
    }
}

impl BarePages {
    /// Returns `None` if the file cannot be read.
    fn serve(&self, fault: Fault) -> Option<()> {
        let index = self.memory.page_at(fault.address)?;
        let mut page = self.table.page(PageIndex(index))?.lock();
        if page.frame().is_none() {
            // Skips frames with a page being filled by another thread.
            let (frame, old) = std::iter::repeat_with(|| self.next_frame()).find_map(|frame| {
                let old = self.resident[frame as usize].load(Relaxed);
                let old = self.table.page(PageIndex(old.into()));
                old.map_or(Some((frame, None)), |old| Some((frame, Some(old.try_lock().ok()?))))
            })?;
            if let Some(mut old) = old.filter(|old| old.frame() == Some(FrameId(frame))) {
                self.table.arena().release(old.evict(None));
            }
            page.install(self.table.arena().claim(FrameId(frame)).ok()?);
            self.resident[frame as usize].store(index as u32, Relaxed);
            let pages = std::slice::from_mut(&mut page);
            self.file.read_frames(index << 12, pages).ok()?;
            self.nr_faults.fetch_add(1, Relaxed);
        }
        page.map_user(fault.is_write == Some(true)).ok()?;
        Some(())
    }

    fn next_frame(&self) -> u32 {
        (self.next.fetch_add(1, Relaxed) % self.resident.len()) as u32
    }
}
