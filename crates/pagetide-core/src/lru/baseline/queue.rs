//! One list with a victim search, shared by LRU, FIFO, CLOCK and SIEVE.
//!
//! A [`QueueRule`] defines the effect of an access, the next candidate, and the reason for another
//! trip.
//!
//! ```text
//!   add --> head ......... tail --> victim
//!            ^                |
//!            +-- another trip +      dirty, unevictable, refused, or spared by the rule
//! ```

use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::list::FolioList;
use crate::lru::capability::Capabilities;
use crate::lru::{
    AccessRule, Context, LruConfig, LruPolicy, Progress, PutBack, Refusal, Scan, Victims,
};
use core::fmt;

/// The rule of a queue policy.
pub trait QueueRule: Default + fmt::Debug {
    /// The way accesses are recorded.
    const ACCESS: AccessRule;
    /// Maximum turns of the list per pass: two if a folio can be spared once.
    const TURNS: u64;

    /// Handles a logged access.
    fn touch(list: &mut FolioList, folios: &Folios, frame: FrameId) {
        let _ = (list, folios, frame);
    }

    /// Returns the next candidate, still listed.
    fn next(&mut self, list: &FolioList, folios: &Folios) -> Option<FrameId> {
        let _ = folios;
        list.tail()
    }

    /// Returns true if the candidate gets another trip.
    fn spares(folios: &Folios, frame: FrameId) -> bool {
        let _ = (folios, frame);
        false
    }

    /// Sends the candidate on another trip.
    fn keep(list: &mut FolioList, folios: &Folios, frame: FrameId) {
        list.move_to_head(folios, frame);
    }

    /// Prepares for a folio that leaves its place for another reason.
    fn before_removal(&mut self, list: &FolioList, folios: &Folios, frame: FrameId) {
        let _ = (list, folios, frame);
    }

    /// Lists a refused victim.
    fn put_back(list: &mut FolioList, folios: &Folios, frame: FrameId, refusal: Refusal) {
        let _ = refusal;
        list.push_head(folios, frame);
    }

    /// Panics if an invariant of the rule is broken.
    fn validate(&self, list: &FolioList, folios: &Folios) {
        let _ = (list, folios);
    }
}

/// Remaining looks in this pass. Set at its first batch.
#[derive(Debug, Default)]
pub struct QueueCursor {
    budget: Option<u64>,
}

/// A policy of one list and a rule. Evicts one page per miss, as in the papers.
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
    fn young(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        cx.folios[frame].set(Flags::REFERENCED);
        R::touch(&mut self.list, cx.folios, frame);
    }
}

/// Returns true for unevictable folios, and for dirty ones, which are marked to be taken once
/// clean.
pub(super) fn must_stay(cx: &Context<'_>, scan: &mut Scan, frame: FrameId) -> bool {
    let flags = cx.flags(frame);
    if scan.waits_for_writing(flags) {
        scan.dirty += 1;
        cx.folios[frame].set(Flags::RECLAIM);
        return true;
    }
    flags.any(Flags::UNEVICTABLE)
}
