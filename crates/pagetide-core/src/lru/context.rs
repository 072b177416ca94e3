//! The environment of a policy: descriptors, counters, time.

use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, PageType};
use crate::units::Millis;
use crate::vmstat::{Counter, VmStat};

/// The environment of a policy.
pub struct Context<'a> {
    /// The folio descriptors.
    pub folios: &'a Folios,
    /// The lruvec's counters.
    pub vmstat: &'a mut VmStat,
    /// The time of the last [`Lruvec::tell_time`](super::Lruvec::tell_time).
    pub now: Millis,
}

impl Context<'_> {
    /// Returns a folio's flags.
    pub fn flags(&self, frame: FrameId) -> Flags {
        self.folios[frame].flags()
    }

    /// Increments the anonymous or the file counter.
    pub fn count_by_type(&mut self, page_type: PageType, anon: Counter, file: Counter) {
        self.vmstat.count(if page_type == PageType::Anon { anon } else { file });
    }

    /// Counts a refault.
    pub fn count_refault(&mut self, page_type: PageType) {
        let (anon, file) = (Counter::WorkingsetRefaultAnon, Counter::WorkingsetRefaultFile);
        self.count_by_type(page_type, anon, file);
    }

    /// Counts an activation.
    pub fn count_activation(&mut self, page_type: PageType) {
        let (anon, file) = (Counter::WorkingsetActivateAnon, Counter::WorkingsetActivateFile);
        self.count_by_type(page_type, anon, file);
    }

    /// Counts a refault of a working-set page.
    pub fn count_restore(&mut self, page_type: PageType) {
        let (anon, file) = (Counter::WorkingsetRestoreAnon, Counter::WorkingsetRestoreFile);
        self.count_by_type(page_type, anon, file);
    }
}
