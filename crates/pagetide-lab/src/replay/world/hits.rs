//! Plain hits: the reads that have nothing to do but to mark a folio, as most have.
//!
//! Problem: a replay is as fast as its hits, and an entry of a trace can be anything. Idea: take
//! entries that can only be a hit as long as they come, in a loop of their own. What is the same
//! for all of them is asked once: which policy it is, and how many come before the next look at the
//! clock.
//!
//! ```text
//!   entries    h h h h M h h W h h h h h h ...
//!              `-----'   `-'   `-----------'        loops of hits; M, W: the long way
//! ```
//!
//! A hit is plain if its page is there and a file's, has no mark, is in the fastest memory, and was
//! not the one read last through the one handle. Everything else is left to `apply_any`, which
//! comes to the same where both can do it.

use super::{World, skips_repeats};
use crate::trace::AccessKind;
use pagetide_core::folio::Folio;
use pagetide_core::ids::{FrameId, PageId};
use pagetide_core::lru::{AccessRule, Marked};

impl<Evicted: FnMut(PageId)> World<'_, Evicted> {
    /// Plays entries in order, plain hits in runs.
    pub(super) fn play_entries(&mut self, ranks: &[u32], kinds: &[AccessKind]) {
        macro_rules! by_rule {
            ($($rule:ident)+) => {
                match self.rule {
                    $(AccessRule::$rule => {
                        let mark = |folio: &_, tick| AccessRule::$rule.mark_alone(folio, tick);
                        const LOGS: bool = AccessRule::$rule.logs_hits();
                        const SKIPS: bool = skips_repeats(AccessRule::$rule);
                        self.play_entries_by::<LOGS, SKIPS>(ranks, kinds, mark)
                    })+
                }
            };
        }
        by_rule! {
            CountReferences CountAfterWorkingset TwoTouches ReferenceBit CountHits CountAndLog
            LogEach Ignore
        }
    }

    fn play_entries_by<const LOGS: bool, const SKIPS: bool>(
        &mut self,
        ranks: &[u32],
        kinds: &[AccessKind],
        mark: impl Fn(&Folio, u16) -> Marked,
    ) {
        let mut at = 0;
        loop {
            at += self.play_hits::<LOGS, SKIPS>(&ranks[at..], &kinds[at..], &mark);
            let (Some(&rank), Some(&kind)) = (ranks.get(at), kinds.get(at)) else { break };
            if !self.play_miss(rank, kind) {
                self.apply_any(rank, kind);
            }
            at += 1;
            // To look for hits where there are none costs half of what a miss does.
            while let (Some(&rank), Some(&kind)) = (ranks.get(at), kinds.get(at))
                && self.pages[rank as usize].is_plainly_absent()
                && self.play_miss(rank, kind)
            {
                at += 1;
            }
        }
    }

    /// Plays the entries at the front that are plain hits, and says how many there were.
    #[inline(always)]
    fn play_hits<const LOGS: bool, const SKIPS: bool>(
        &mut self,
        ranks: &[u32],
        kinds: &[AccessKind],
        mark: impl Fn(&Folio, u16) -> Marked,
    ) -> usize {
        let until_look = self.look_at.saturating_sub(self.accesses);
        let nr_max = usize::try_from(until_look).map_or(ranks.len(), |nr| nr.min(ranks.len()));
        let (pages, folios, node) = (&self.pages[..], &*self.folios, &mut self.nodes[0]);
        let fast = &folios.as_slice()[..self.slow_from as usize];
        let has_one_handle = self.has_one_handle;
        let mut last_read = self.last_read;
        let mut tick = folios.tick();
        let mut nr_played = 0;
        for (&rank, &kind) in ranks[..nr_max].iter().zip(kinds) {
            let index = pages[rank as usize].plain_index();
            let Some(folio) = fast.get(index) else { break };
            if kind != AccessKind::Read {
                break;
            }
            if SKIPS && has_one_handle {
                if rank == last_read {
                    break;
                }
                last_read = rank;
            }
            let marked = mark(folio, tick);
            if LOGS && node.log_touch(marked, FrameId(index as u32)) {
                tick = folios.tick();
            }
            nr_played += 1;
        }
        self.last_read = last_read;
        self.accesses += nr_played as u64;
        nr_played
    }
}
