//! Statistics of a region.

use pagetide_core::units::Bytes;
use pagetide_sys::{FaultDelivery, UffdSource};
use std::fmt;

/// Fault counts and memory of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RegionStats {
    /// Faults on absent pages.
    pub missing_faults: u64,
    /// Faults on resident, unmapped pages, which reveal their use.
    pub minor_faults: u64,
    /// Stores to pages mapped for reading.
    pub wp_faults: u64,
    /// Faults on pages that could not be provided: the user got a signal.
    pub failed_faults: u64,
    /// Faults among these served by the helper thread, as they needed memory or a wait for
    /// write-back. Only with signals.
    pub helped_faults: u64,
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// Delivery of faults. With [`FaultDelivery::Signal`], system calls fail with `EFAULT` on
    /// unmapped addresses of the region: call [`populate`](crate::Region::populate) first.
    pub delivery: FaultDelivery,
    /// Source of faults. The `EFAULT` limitation also applies to [`UffdSource::UserModeOnly`].
    pub uffd: UffdSource,
}

impl fmt::Display for RegionStats {
    /// Writes three lines for people.
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
