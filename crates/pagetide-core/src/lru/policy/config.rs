//! The configuration common to all policies.

use crate::ids::FrameId;
use crate::lru::{LruvecId, Switches};
use crate::units::Millis;

/// The freshness of the statistics that a policy uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Statistics {
    /// Current values, as in a kernel with constant readers of its statistics, which fold them.
    #[default]
    Live,
    /// Values at the last [`Lruvec::fold_statistics`](crate::lru::Lruvec::fold_statistics), zero
    /// before the first: an unobserved kernel, which folds every two seconds. Used by
    /// `active-inactive` only.
    Folded,
}

/// The configuration of a policy.
#[derive(Clone, Copy, Debug)]
pub struct LruConfig {
    /// Maximum number of frames in the lruvec.
    pub nr_frames: u32,
    /// The first frame number. Frame numbers are consecutive.
    pub first_frame: FrameId,
    /// The lruvec's identity in shadow entries.
    pub id: LruvecId,
    /// Willingness to evict anonymous folios, 0 to 200. At 200 anonymous folios always go first.
    /// 201 evicts anonymous folios only.
    pub swappiness: u8,
    /// True if anonymous folios can be swapped out.
    pub can_swap: bool,
    /// Minimum age of an evicted generation (multi-gen LRU), 0 for none.
    pub min_ttl: Millis,
    /// The active mechanisms.
    pub switches: Switches,
    /// The freshness of statistics.
    pub statistics: Statistics,
}

impl LruConfig {
    /// Returns the configuration of a file-only lruvec: no swap, swappiness 60.
    pub fn file_only(nr_frames: u32) -> LruConfig {
        LruConfig {
            nr_frames,
            first_frame: FrameId(0),
            id: LruvecId::default(),
            swappiness: 60,
            can_swap: false,
            min_ttl: Millis::default(),
            switches: Switches::default(),
            statistics: Statistics::default(),
        }
    }
}
