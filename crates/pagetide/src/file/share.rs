//! Hits in other processes: what they are told, and what they say afterwards.
//!
//! ```text
//!   other process: read, missing --> we answer, and tell where the pages are now (sights)
//!                  read again    --> copies by itself, as long as the sights are good
//!                  now and then  --> which pages it has read: touched here, as if read here
//! ```

use super::read::Piece;
use super::{File, page_range};
use pagetide_core::ids::PageIndex;
use pagetide_core::units::PAGE_SHIFT;
use pagetide_sys::current_cpu;
use pagetide_sys::shared::Sight;
use std::sync::atomic::Ordering::Relaxed;

impl File {
    /// Where the pages of a byte range are now, for a process with a
    /// [view](pagetide_sys::shared::FrameView) of [`PageCache::shared_files`]. `None` for a page
    /// that is not resident, is being changed, or does not lie in the file as a whole.
    ///
    /// [`PageCache::shared_files`]: crate::PageCache::shared_files
    pub fn sights(&self, offset: u64, len: u64) -> impl Iterator<Item = Option<Sight>> {
        let mapping = &self.handle.mapping;
        let range = page_range(offset, len);
        (range.start.0..range.end.0).map(|index| {
            let sight = mapping.table.page(PageIndex(index))?.sight()?;
            // Looked at last: a file that is cut meanwhile changes its pages after its length.
            (mapping.len() >> PAGE_SHIFT > index).then_some(sight)
        })
    }

    /// Notes that page `index` was read by somebody who was told where it is: a hit as any other.
    /// Returns whether it is resident still; nothing is noted otherwise.
    pub fn touch_page(&self, index: u64) -> bool {
        let handle = &*self.handle;
        let cpu = current_cpu();
        let counts = handle.last_page.at(cpu).swap(index, Relaxed) != index
            && !handle.no_reuse.load(Relaxed);
        handle.read_hit(cpu, &Piece { index, last: index, within: 0, counts }, &mut [], true)
    }
}
