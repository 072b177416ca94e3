//! What is resident, written down; and a cache that begins with it.

use crate::api::cache::PageCache;
use crate::engine::resident::{ResidentFile, ResidentSet, WarmStats};

impl PageCache {
    /// Which pages of files are in memory now, and how hot they are as the policy has it. Left
    /// out are pages that a thread has locked, stores of the caller's, and regions.
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
    /// Beside all others; pages that come or go meanwhile may be in it or not.
    ///
    /// # Cost
    /// A visit to each page in memory, under the lock of the lists, page by page.
    pub fn dump(&self) -> ResidentSet {
        let engine = &self.shared.engine;
        // What is still in logs is not on the lists yet.
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

    /// Brings in what `set` names, of each file once it is opened and if it has not changed: the
    /// hottest pages first, in the order of the file, until memory is full. While the program
    /// itself reads from the device, one piece of at most 512 KiB is on its way at a time. What was
    /// to be brought in by an earlier call is forgotten.
    ///
    /// # Errors
    /// What the system says where there can be no more threads.
    ///
    /// # Concurrency
    /// By a thread of its own; without [background threads](crate::Builder::background) by the
    /// thread that opens a file.
    pub fn warm(&self, set: ResidentSet) -> std::io::Result<()> {
        self.shared.engine.warmer.plan(set);
        self.shared.start_warmer()
    }

    /// How far [`PageCache::warm`] has come.
    pub fn warm_stats(&self) -> WarmStats {
        self.shared.engine.warmer.stats()
    }
}
