//! SIEVE: a queue whose hand leaves what it spares where it is.
//!
//! Problem: CLOCK carries a page that was hit to the young end, among pages not asked for
//! again yet, so that the hand needs a whole turn to find those.
//!
//! ```text
//!   add --> head .... spared . spared . HAND .... tail
//!                                <-- the hand moves; pages do not
//! ```
//!
//! Reading of the paper: as its algorithm 1, one visited bit, the hand starts at the old end, stays
//! between evictions and wraps from the young end to the old. A dirty folio keeps its place, as if
//! spared. One the world refuses comes back at the old end, behind the hand: put before it, a few
//! of them would keep the hand among themselves and from ever coming round.
//!
//! Do not use it where scans repeat (it has no memory of what it evicted), or where a working set
//! shifts: spared pages keep their place until the hand has been all the way round.
//! Source: Zhang, Yang, Yue, Vigfusson and Rashmi, "SIEVE is simpler than LRU", NSDI 2024.

use super::queue::must_stay;
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::list::FolioList;
use crate::lru::capability::{AgesByTables, Capabilities};
use crate::lru::{AccessRule, Context, LruConfig, LruPolicy, Progress, PutBack, Refusal};
use crate::reclaim::{Scan, Victims};

/// How often one pass may go round: once to clear the bits, once to find a clear one.
const TURNS: u64 = 2;

/// Folios still to look at in this pass; set at its first batch.
#[derive(Debug, Default)]
pub struct SieveCursor {
    budget: Option<u64>,
}

/// SIEVE with one visited bit. Evicts one page a miss.
#[derive(Debug)]
pub struct Sieve {
    list: FolioList,
    /// The next folio to look at, on the list; `None` stands for the old end.
    hand: Option<FrameId>,
}

impl Sieve {
    /// Takes `frame` off the list; a hand that pointed at it moves on.
    fn unlink(&mut self, folios: &Folios, frame: FrameId) {
        if self.hand == Some(frame) {
            self.hand = self.list.younger(folios, frame);
        }
        self.list.remove(folios, frame);
    }
}

impl LruPolicy for Sieve {
    type Cursor = SieveCursor;

    const ACCESS: AccessRule = AccessRule::ReferenceBit;

    fn new(_config: &LruConfig) -> Sieve {
        Sieve { list: FolioList::new(), hand: None }
    }

    fn add(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.list.push_head(cx.folios, frame);
    }

    /// To the old end, which the hand meets next after the young one.
    fn rotate(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.unlink(cx.folios, frame);
        self.list.push_tail(cx.folios, frame);
    }

    fn remove(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.unlink(cx.folios, frame);
    }

    fn isolate(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut SieveCursor,
        victims: &mut Victims,
    ) -> Progress {
        let budget = cursor.budget.get_or_insert(TURNS * u64::from(self.list.len()));
        let wanted = scan.nr_victims_wanted();
        while victims.len() < wanted && *budget > 0 {
            let Some(frame) = self.hand.or(self.list.tail()) else { break };
            *budget -= 1;
            scan.count_scanned(1);
            self.hand = self.list.younger(cx.folios, frame);
            let stays = must_stay(cx, scan, frame);
            if !stays && !cx.folios[frame].clear(Flags::REFERENCED).any(Flags::REFERENCED) {
                self.list.remove(cx.folios, frame);
                victims.take(cx.folios, frame);
            }
        }
        Progress::of_batch(victims)
    }

    fn put_back(
        &mut self,
        cx: &mut Context<'_>,
        _scan: &mut Scan,
        _cursor: &mut SieveCursor,
        frame: FrameId,
        refusal: Refusal,
    ) -> PutBack {
        match refusal {
            Refusal::Young => cx.folios[frame].set(Flags::REFERENCED),
            Refusal::Dirty => cx.folios[frame].set(Flags::RECLAIM),
            Refusal::Busy => Flags::NONE,
        };
        self.list.push_tail(cx.folios, frame);
        PutBack::Listed
    }

    fn nr_folios(&self) -> u64 {
        u64::from(self.list.len())
    }

    fn validate(&self, folios: &Folios) {
        self.list.validate(folios);
        let mut is_hand_listed = self.hand.is_none();
        for frame in self.list.iter(folios) {
            assert!(folios[frame].flags().any(Flags::ON_LIST), "{frame} listed but not flagged");
            is_hand_listed |= self.hand == Some(frame);
        }
        assert!(is_hand_listed, "the hand points at {:?}, which is not listed", self.hand);
    }
}

impl Capabilities for Sieve {
    fn tables(&mut self) -> Option<&mut dyn AgesByTables> {
        Some(self)
    }
}

impl AgesByTables for Sieve {
    fn young(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        cx.folios[frame].set(Flags::REFERENCED);
    }
}
