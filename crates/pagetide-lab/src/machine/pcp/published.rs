//! Published figures for the workloads, to print beside the virtual figures.
//!
//! Problem: a number alone says little. Idea: the published figures before and after, in their own
//! units. Only ratios compare, as the machines differ. Source: the commit message of the RFC of
//! July 2023, and the cover letter of the series merged in Linux 6.7.

use super::PcpWorkload;

/// A workload's published figures: without tuning, and with the RFC's depth tuning.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PublishedFigures {
    /// Unit of `score`.
    pub unit: &'static str,
    /// Before and after.
    pub score: (f64, f64),
    /// Share of cycles waiting for spin locks, 0 to 1, if published.
    pub lock_wait_share: Option<(f64, f64)>,
    /// Other published remarks.
    pub note: &'static str,
}

/// Returns the figures for this workload, if any.
pub const fn published(workload: PcpWorkload) -> Option<PublishedFigures> {
    match workload {
        PcpWorkload::PageFault1 => Some(PublishedFigures {
            unit: "GB/s",
            score: (34.3, 75.0),
            lock_wait_share: Some((0.609, 0.002)),
            note: "56 CPUs of one socket",
        }),
        PcpWorkload::Kbuild => Some(PublishedFigures {
            unit: "s to build",
            score: (162.67, 162.67),
            lock_wait_share: Some((0.17, 0.1228)),
            note: "all spin locks; the merged series sent 20 % of the pages through the zone",
        }),
        PcpWorkload::Netperf => Some(PublishedFigures {
            unit: "MB/s",
            score: (7136.0, 8489.0),
            lock_wait_share: None,
            note: "by its like elsewhere Mbit/s a process; p99 of allocating -48.4 %, of freeing \
                   -78.8 %; memory used +55 %",
        }),
        PcpWorkload::PatternA | PcpWorkload::Pressure | PcpWorkload::Mixed => None,
    }
}
