//! What people read of a region.

use pagetide_core::units::Bytes;
use pagetide_sys::{FaultDelivery, UffdSource};
use std::fmt;

/// Faults of a region so far, and what it takes now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RegionStats {
    /// On pages that were not in memory.
    pub missing_faults: u64,
    /// On pages in memory that were not mapped: to learn that they are used.
    pub minor_faults: u64,
    /// Stores to pages that were mapped for reading.
    pub wp_faults: u64,
    /// On pages that could not be had: their users got a signal.
    pub failed_faults: u64,
    /// Of all these, those that the region's helper thread has served, where faults are signals:
    /// they had to wait for write-back, or for memory to know pages by.
    pub helped_faults: u64,
    /// Memory that its pages take now, bytes.
    pub resident_bytes: u64,
    /// To what faults are told. [`FaultDelivery::Signal`] means that system calls given addresses
    /// of the region fail with `EFAULT` where the page is not mapped: call
    /// [`populate`](crate::Region::populate) first.
    pub delivery: FaultDelivery,
    /// How faults are had. [`UffdSource::UserModeOnly`] means the same, whatever they are told to.
    pub uffd: UffdSource,
}

impl fmt::Display for RegionStats {
    /// Three lines for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "resident    {}", Bytes(self.resident_bytes))?;
        writeln!(
            f,
            "faults      {} on absent pages, {} to learn of uses, {} first stores, {} failed, \
             {} helped",
            self.missing_faults,
            self.minor_faults,
            self.wp_faults,
            self.failed_faults,
            self.helped_faults
        )?;
        let source = match self.uffd {
            UffdSource::Device => "from the device, for all faults",
            UffdSource::Call => "from the system call, for all faults",
            UffdSource::UserModeOnly => "from the system call, for faults of user mode alone",
        };
        let served = match self.delivery {
            FaultDelivery::Signal => "the thread that touched the page",
            FaultDelivery::Message => "threads of the region",
        };
        write!(f, "userfaultfd {source}, served by {served}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_print_what_their_fields_say() {
        let stats = RegionStats {
            missing_faults: 3,
            minor_faults: 2,
            wp_faults: 1,
            failed_faults: 0,
            helped_faults: 4,
            resident_bytes: 8192,
            delivery: FaultDelivery::Signal,
            uffd: UffdSource::UserModeOnly,
        };
        let expected = "\
resident    8K
faults      3 on absent pages, 2 to learn of uses, 1 first stores, 0 failed, 4 helped
userfaultfd from the system call, for faults of user mode alone, \
served by the thread that touched the page";
        assert_eq!(stats.to_string(), expected);
    }
}
