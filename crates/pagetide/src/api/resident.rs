//! Dumping the resident set, and warming a cache from it.

use crate::api::cache::PageCache;
use crate::engine::resident::{ResidentFile, ResidentSet, WarmStats};

impl PageCache {
    /// Returns the resident pages of files and their heat by the policy. Leaves out pages locked by
    /// a thread, stores of the caller, and regions.
    ///
    /// ```
    /// # use pagetide::{Bytes, OpenOptions, PageCache, ResidentSet};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// # std::fs::write(&path, vec![1; 1 << 20])?;
    /// let cache = PageCache::builder().memory(Bytes(4 << 20)).build()?;
    /// let file = cache.open(&path, OpenOptions::new().read(true))?;
    /// file.read_exact_at(&mut [0; 4096], 8192)?;
    /// let text = cache.dump().to_string(); // to a file, and back after a restart:
    /// let again = PageCache::builder().memory(Bytes(4 << 20)).build()?;
    /// again.warm(text.parse::<ResidentSet>()?)?;
    /// let file = again.open(&path, OpenOptions::new().read(true))?; // its pages come from here on
    /// # drop(file);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Concurrency
    /// Thread-safe. Pages that come or go meanwhile may be included or not.
    ///
    /// # Cost
    /// A visit to each resident page, under the lock of the lists, page by page.
    pub fn dump(&self) -> ResidentSet {
        let engine = &self.shared.engine;
        // Pages in logs are not on the lists yet.
        engine.pages.nodes.drain_logs();
        let files = engine.mappings.snapshot();
        let files = files.iter().filter_map(|mapping| {
            let (fingerprint, path) = mapping.fingerprint()?;
            let mut file = ResidentFile {
                ino: fingerprint.ino,
                len: fingerprint.len,
                mtime_ns: fingerprint.mtime_ns,
                path,
                ranges: Vec::new(),
            };
            engine.pages.for_each_resident(mapping, |index, heat| file.push(index, heat));
            (!file.ranges.is_empty()).then_some(file)
        });
        ResidentSet { files: files.collect() }
    }

    /// Reads the pages in `set` as their files are opened, if unchanged: hottest pages first, in
    /// file order, until memory is full. While the program itself reads from the device, at most
    /// one piece of 512 KiB is in flight. Replaces the set of an earlier call.
    ///
    /// # Errors
    /// The system's error if no thread can be started.
    ///
    /// # Concurrency
    /// Runs in a thread of its own. Without [background threads](crate::Builder::background), runs
    /// in the thread that opens a file.
    pub fn warm(&self, set: ResidentSet) -> std::io::Result<()> {
        self.shared.engine.warmer.plan(set);
        self.shared.start_warmer()
    }

    /// Returns the progress of [`PageCache::warm`].
    pub fn warm_stats(&self) -> WarmStats {
        self.shared.engine.warmer.stats()
    }
}
