//! Where a page's bytes are: in its frame, or in place of it, in the mapping of a region's user, or
//! in the memory file that other processes map.

use pagetide_core::ids::FrameId;

use super::PageRef;
use crate::fault::page_file::PageFile;
use crate::fault::region::{RegionMemory, UserAccess};
use crate::memory::frames::FrameMemory;

impl<'a> PageRef<'a> {
    /// Whether the page is a region's, and in its user's mapping.
    #[inline]
    pub(crate) fn is_mapped(self) -> bool {
        let region = self.table.region.as_ref();
        region.is_some_and(|region| region.access(self.index.0) != UserAccess::None)
    }

    /// The region the page belongs to, and its number there.
    #[inline]
    pub(crate) fn region(self) -> Option<(&'a RegionMemory, u32)> {
        // A number too large is refused wherever it is used.
        let number = u32::try_from(self.index.0).unwrap_or(u32::MAX);
        self.table.region.as_deref().map(|region| (region, number))
    }

    /// The memory file in which other processes map the table's pages.
    #[inline]
    pub(crate) fn page_file(self) -> Option<&'a PageFile> {
        self.table.page_file().map(|file| &**file)
    }

    /// Whether the page's bytes are in that file, in place of its frame.
    #[inline]
    pub fn is_in_file(self) -> bool {
        self.page_file().is_some_and(|file| file.holds(self.index.0))
    }

    /// Whether other processes may be storing to the page, in that file.
    #[inline]
    pub fn is_written_in_file(self) -> bool {
        self.page_file().is_some_and(|file| file.is_written(self.index.0))
    }

    /// Where the bytes of the page are, which is in `frame`: in which memory, and at which place.
    /// They stay there as long as the page is locked or pinned.
    #[inline]
    pub(crate) fn place(self, frame: FrameId) -> (&'a FrameMemory, u32) {
        if let Some(file) = self.page_file().filter(|file| file.holds(self.index.0)) {
            return (file.memory(), self.index.0 as u32);
        }
        match self.region() {
            Some((region, number)) if region.access(number.into()) != UserAccess::None => {
                (region.user(), number)
            }
            _ => (self.table.arena.memory(), frame.0),
        }
    }
}
