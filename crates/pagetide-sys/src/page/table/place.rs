//! The place of a page's bytes: in its frame, in the mapping of a region's user, or in the memory
//! file that other processes map.

use pagetide_core::ids::FrameId;

use super::PageRef;
use crate::fault::page_file::PageFile;
use crate::fault::region::{RegionMemory, UserAccess};
use crate::memory::frames::FrameMemory;

impl<'a> PageRef<'a> {
    /// Returns true if a region's user has the page mapped.
    #[inline]
    pub(crate) fn is_mapped(self) -> bool {
        let region = self.table.region.as_ref();
        region.is_some_and(|region| region.access(self.index.0) != UserAccess::None)
    }

    /// Returns the page's region, and the page's number in the region.
    #[inline]
    pub(crate) fn region(self) -> Option<(&'a RegionMemory, u32)> {
        // Every use refuses a number that is too large.
        let number = u32::try_from(self.index.0).unwrap_or(u32::MAX);
        self.table.region.as_deref().map(|region| (region, number))
    }

    /// Returns the memory file that other processes map.
    #[inline]
    pub(crate) fn page_file(self) -> Option<&'a PageFile> {
        self.table.page_file().map(|file| &**file)
    }

    /// Returns true if the page's bytes are in the memory file, in place of the frame.
    #[inline]
    pub fn is_in_file(self) -> bool {
        self.page_file().is_some_and(|file| file.holds(self.index.0))
    }

    /// Returns true if other processes may be storing to the page in the memory file.
    #[inline]
    pub fn is_written_in_file(self) -> bool {
        self.page_file().is_some_and(|file| file.is_written(self.index.0))
    }

    /// Returns the memory and the place in the memory of a page in `frame`. Valid while the page is
    /// locked or pinned.
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
