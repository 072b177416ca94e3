//! What a policy works on beside itself: descriptors, counters, the time.

use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, PageType};
use crate::units::Millis;
use crate::vmstat::{Counter, VmStat};

/// What a policy works on beside itself.
pub struct Context<'a> {
    /// The descriptors.
    pub folios: &'a Folios,
    /// The lruvec's counters.
    pub vmstat: &'a mut VmStat,
    /// The time, as the world last told it ([`Lruvec::tell_time`](super::Lruvec::tell_time)).
    pub now: Millis,
}

impl Context<'_> {
    /// A folio's flags.
    pub fn flags(&self, frame: FrameId) -> Flags {
        self.folios[frame].flags()
    }

    /// Counts one under the anonymous or the file counter.
    pub fn count_by_type(&mut self, page_type: PageType, anon: Counter, file: Counter) {
        self.vmstat.count(if page_type == PageType::Anon { anon } else { file });
    }

    /// Counts a page that came back after its eviction.
    pub fn count_refault(&mut self, page_type: PageType) {
        let (anon, file) = (Counter::WorkingsetRefaultAnon, Counter::WorkingsetRefaultFile);
        self.count_by_type(page_type, anon, file);
    }

    /// Counts a folio taken for part of the working set.
    pub fn count_activation(&mut self, page_type: PageType) {
        let (anon, file) = (Counter::WorkingsetActivateAnon, Counter::WorkingsetActivateFile);
        self.count_by_type(page_type, anon, file);
    }

    /// Counts a page that came back and was part of the working set before.
    pub fn count_restore(&mut self, page_type: PageType) {
        let (anon, file) = (Counter::WorkingsetRestoreAnon, Counter::WorkingsetRestoreFile);
        self.count_by_type(page_type, anon, file);
    }
}
