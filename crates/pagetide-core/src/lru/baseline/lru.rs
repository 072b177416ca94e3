//! Strict least recently used.
//!
//! Every access moves the page to the young end. Weak on a scan longer than memory, which evicts
//! everything else. Source: Mattson et al., "Evaluation techniques for storage hierarchies", 1970.

use super::queue::{Queue, QueueRule};
use crate::folio::Folios;
use crate::ids::FrameId;
use crate::list::FolioList;
use crate::lru::AccessRule;

/// The rule of strict LRU.
#[derive(Debug, Default)]
pub struct LruRule;

/// Strict LRU.
pub type Lru = Queue<LruRule>;

impl QueueRule for LruRule {
    const ACCESS: AccessRule = AccessRule::LogEach;
    const TURNS: u64 = 1;

    fn touch(list: &mut FolioList, folios: &Folios, frame: FrameId) {
        list.move_to_head(folios, frame);
    }
}
