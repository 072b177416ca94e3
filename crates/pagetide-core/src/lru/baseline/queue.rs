//! The one list that LRU, FIFO and CLOCK share, and how it gives up victims.
//!
//! The three differ only in what an access does and what gives a folio another trip: a
//! [`QueueRule`]. Everything else, including what to do with dirty and refused folios, is here.
//!
//! ```text
//!   add --> head ......... tail --> victim
//!            ^                |
//!            +-- another trip +      dirty, unevictable, refused, or spared by the rule
//! ```

use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::list::FolioList;
use crate::lru::capability::{AgesByTables, Capabilities};
use crate::lru::{AccessRule, Context, LruConfig, LruPolicy, Progress, PutBack, Refusal};
use crate::reclaim::{Scan, Victims};
use core::marker::PhantomData;

/// What makes one queue policy different from another.
pub trait QueueRule {
    /// How accesses are noted.
    const ACCESS: AccessRule;
    /// How many turns of the list one pass may take: two where a folio can be spared once.
    const TURNS: u64;

    /// A logged access.
    fn touch(list: &mut FolioList, folios: &Folios, frame: FrameId) {
        let _ = (list, folios, frame);
    }

    /// Whether the folio at the old end gets another trip.
    fn spares(folios: &Folios, frame: FrameId) -> bool {
        let _ = (folios, frame);
        false
    }
}

/// Folios still to look at in this pass; set at its first batch.
#[derive(Debug, Default)]
pub struct QueueCursor {
    budget: Option<u64>,
}

/// A policy that is one list and a rule. Evicts one page a miss, as the papers define it.
#[derive(Debug)]
pub struct Queue<R> {
    list: FolioList,
    rule: PhantomData<R>,
}

impl<R: QueueRule> LruPolicy for Queue<R> {
    type Cursor = QueueCursor;

    const ACCESS: AccessRule = R::ACCESS;

    fn new(_config: &LruConfig) -> Queue<R> {
        Queue { list: FolioList::new(), rule: PhantomData }
    }

    fn add(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.list.push_head(cx.folios, frame);
    }

    fn touch(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        R::touch(&mut self.list, cx.folios, frame);
    }

    fn rotate(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.list.remove(cx.folios, frame);
        self.list.push_tail(cx.folios, frame);
    }

    fn remove(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.list.remove(cx.folios, frame);
    }

    fn isolate(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut QueueCursor,
        victims: &mut Victims,
    ) -> Progress {
        let budget = cursor.budget.get_or_insert(R::TURNS * u64::from(self.list.len()));
        let wanted = scan.nr_victims_wanted();
        while victims.len() < wanted && *budget > 0 {
            let Some(frame) = self.list.pop_tail(cx.folios) else { break };
            *budget -= 1;
            scan.count_scanned(1);
            if must_stay(cx, scan, frame) || R::spares(cx.folios, frame) {
                self.list.push_head(cx.folios, frame);
            } else {
                victims.take(cx.folios, frame);
            }
        }
        Progress::of_batch(victims)
    }

    fn put_back(
        &mut self,
        cx: &mut Context<'_>,
        _scan: &mut Scan,
        _cursor: &mut QueueCursor,
        frame: FrameId,
        refusal: Refusal,
    ) -> PutBack {
        if refusal == Refusal::Dirty {
            cx.folios[frame].set(Flags::RECLAIM);
        }
        self.list.push_head(cx.folios, frame);
        PutBack::Listed
    }

    fn nr_folios(&self) -> u64 {
        u64::from(self.list.len())
    }

    fn validate(&self, folios: &Folios) {
        self.list.validate(folios);
        for frame in self.list.iter(folios) {
            assert!(folios[frame].flags().any(Flags::ON_LIST), "{frame} listed but not flagged");
        }
    }
}

impl<R: QueueRule> Capabilities for Queue<R> {
    fn tables(&mut self) -> Option<&mut dyn AgesByTables> {
        Some(self)
    }
}

impl<R: QueueRule> AgesByTables for Queue<R> {
    /// A folio seen young by a walk counts as touched.
    fn young(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        cx.folios[frame].set(Flags::REFERENCED);
        R::touch(&mut self.list, cx.folios, frame);
    }
}

/// Dirty folios are left for the flusher, and marked so that they are taken once clean.
pub(super) fn must_stay(cx: &Context<'_>, scan: &mut Scan, frame: FrameId) -> bool {
    let flags = cx.flags(frame);
    if flags.any(scan.unclean()) {
        scan.dirty += 1;
        cx.folios[frame].set(Flags::RECLAIM);
        return true;
    }
    flags.any(Flags::UNEVICTABLE)
}
