//! What every policy is told when it is built.

use crate::ids::FrameId;
use crate::lru::{LruvecId, Switches};
use crate::units::Millis;

/// How old the statistics are that a policy decides on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Statistics {
    /// As things are: a kernel whose statistics are read, and thereby summed up, all the time.
    #[default]
    Live,
    /// As they were at the last [`Lruvec::fold_statistics`](crate::lru::Lruvec::fold_statistics),
    /// zero before the first: a kernel left alone, which sums up every two seconds. Only the two
    /// lists of today read such sums; other policies decide the same either way.
    Folded,
}

/// What a policy is told when it is built.
#[derive(Clone, Copy, Debug)]
pub struct LruConfig {
    /// Frames the lruvec can hold at most.
    pub nr_frames: u32,
    /// The lowest number among them; they follow each other.
    pub first_frame: FrameId,
    /// The lruvec's identity, for shadow entries.
    pub id: LruvecId,
    /// 0 to 200: how willing to evict anonymous folios. At 200 they always go first; 201 means
    /// anonymous only.
    pub swappiness: u8,
    /// Whether anonymous folios have anywhere to go.
    pub can_swap: bool,
    /// How long the multi-gen LRU keeps a generation at least; 0 asks for nothing.
    pub min_ttl: Millis,
    /// Which of the policy's mechanisms are on.
    pub switches: Switches,
    /// How old the statistics are that it decides on.
    pub statistics: Statistics,
}

impl LruConfig {
    /// A file-only lruvec: no swap, the usual swappiness.
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
