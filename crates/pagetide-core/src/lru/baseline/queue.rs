//! The one list that LRU, FIFO, CLOCK and SIEVE share, and how it gives up victims.
//!
//! They differ only in what an access does, which folio is looked at next, and what gives it
//! another trip: a [`QueueRule`]. Everything else is here.
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
use crate::lru::{
    AccessRule, Context, LruConfig, LruPolicy, Progress, PutBack, Refusal, Scan, Victims,
};
use core::fmt;

/// What makes one queue policy different from another.
pub trait QueueRule: Default + fmt::Debug {
    /// How accesses are noted.
    const ACCESS: AccessRule;
    /// How many turns of the list one pass may take: two where a folio can be spared once.
    const TURNS: u64;

    /// A logged access.
    fn touch(list: &mut FolioList, folios: &Folios, frame: FrameId) {
        let _ = (list, folios, frame);
    }

    /// The folio to look at next, on the list.
    fn next(&mut self, list: &FolioList, folios: &Folios) -> Option<FrameId> {
        let _ = folios;
        list.tail()
    }

    /// Whether the folio looked at gets another trip.
    fn spares(folios: &Folios, frame: FrameId) -> bool {
        let _ = (folios, frame);
        false
    }

    /// Sends the folio looked at on another trip.
    fn keep(list: &mut FolioList, folios: &Folios, frame: FrameId) {
        list.move_to_head(folios, frame);
    }

    /// A folio is about to leave its place on the list for another reason.
    fn before_removal(&mut self, list: &FolioList, folios: &Folios, frame: FrameId) {
        let _ = (list, folios, frame);
    }

    /// Lists a victim that could not be taken.
    fn put_back(list: &mut FolioList, folios: &Folios, frame: FrameId, refusal: Refusal) {
        let _ = refusal;
        list.push_head(folios, frame);
    }

    /// Panics where an invariant of the rule's own is broken.
    fn validate(&self, list: &FolioList, folios: &Folios) {
        let _ = (list, folios);
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
    rule: R,
}

impl<R: QueueRule> Queue<R> {
    fn unlink(&mut self, folios: &Folios, frame: FrameId) {
        self.rule.before_removal(&self.list, folios, frame);
        self.list.remove(folios, frame);
    }
}

impl<R: QueueRule> LruPolicy for Queue<R> {
    type Cursor = QueueCursor;

    const ACCESS: AccessRule = R::ACCESS;

    fn new(_config: &LruConfig) -> Queue<R> {
        Queue { list: FolioList::new(), rule: R::default() }
    }

    fn add(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.list.push_head(cx.folios, frame);
    }

    fn touch(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        R::touch(&mut self.list, cx.folios, frame);
    }

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
        cursor: &mut QueueCursor,
        victims: &mut Victims,
    ) -> Progress {
        let budget = cursor.budget.get_or_insert(R::TURNS * u64::from(self.list.len()));
        let wanted = scan.nr_victims_wanted();
        while victims.len() < wanted && *budget > 0 {
            let Some(frame) = self.rule.next(&self.list, cx.folios) else { break };
            *budget -= 1;
            scan.count_scanned(1);
            if must_stay(cx, scan, frame) || R::spares(cx.folios, frame) {
                R::keep(&mut self.list, cx.folios, frame);
            } else {
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
        _cursor: &mut QueueCursor,
        frame: FrameId,
        refusal: Refusal,
    ) -> PutBack {
        if refusal == Refusal::Dirty {
            cx.folios[frame].set(Flags::RECLAIM);
        }
        R::put_back(&mut self.list, cx.folios, frame, refusal);
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
        self.rule.validate(&self.list, folios);
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
    if scan.waits_for_writing(flags) {
        scan.dirty += 1;
        cx.folios[frame].set(Flags::RECLAIM);
        return true;
    }
    flags.any(Flags::UNEVICTABLE)
}
