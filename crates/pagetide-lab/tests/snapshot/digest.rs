//! A portable 64-bit digest of a sequence.
//!
//! FNV-1a, by Fowler, Noll and Vo, over the little-endian bytes. Unlike the standard library's
//! hashers, FNV-1a never changes. The digest only detects accidents.

use pagetide_core::ids::PageId;
use pagetide_core::vmstat::{Counter, VmStat};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) const EMPTY: Digest = Digest(0xcbf2_9ce4_8422_2325);

    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) fn add_number(&mut self, number: u64) {
        self.add_bytes(&number.to_le_bytes());
    }

    pub(crate) fn add_page(&mut self, page: PageId) {
        self.add_number(page.mapping.0.into());
        self.add_number(page.index.0);
    }

    /// Adds a named number. Skips zero, so that a new counter that counted nothing changes nothing.
    pub(crate) fn add_count(&mut self, name: &str, number: u64) {
        if number > 0 {
            self.add_bytes(name.as_bytes());
            self.add_number(number);
        }
    }

    /// Adds a named measure to nine digits, as the last ones depend on the order of additions.
    pub(crate) fn add_measure(&mut self, name: &str, measure: f64) {
        self.add_bytes(format!("{name}={measure:.8e};").as_bytes());
    }

    pub(crate) fn add_counters(&mut self, vmstat: &VmStat) {
        for counter in Counter::ALL {
            self.add_count(counter.name(), vmstat.read(*counter));
        }
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[test]
fn digests_are_those_of_the_publication() {
    for (text, expected) in [("", "cbf29ce484222325"), ("foobar", "85944171f73967e8")] {
        let mut digest = Digest::EMPTY;
        digest.add_bytes(text.as_bytes());
        assert_eq!(digest.to_string(), expected);
    }
}
