//! Plain hits: the fast path for reads that only mark a folio.
//!
//! Problem: hits decide a replay's speed. Idea: a tight loop over runs of certain hits.
//!
//! ```text
//!   entries    h h h h M h h W h h h h h h ...
//!              `-----'   `-'   `-----------'        loops of hits (M: of misses); W: the long way
//! ```
//!
//! A plain hit reads an unmarked file page in the fastest memory, other than the last page read
//! through one open file. `apply_any` gives the same result for any entry.

use super::World;
use crate::trace::AccessKind;

impl World<'_> {
    pub(super) fn play_entries(&mut self, ranks: &[u32], kinds: &[AccessKind]) {
        let mut at = 0;
        loop {
            at += self.play_hits(&ranks[at..], &kinds[at..]);
            let nr_missed = self.play_misses(&ranks[at..], &kinds[at..]);
            at += nr_missed;
            if nr_missed == 0 {
                let (Some(&rank), Some(&kind)) = (ranks.get(at), kinds.get(at)) else { break };
                self.apply_any(rank, kind);
                at += 1;
            }
        }
    }

    #[inline]
    fn play_hits(&mut self, ranks: &[u32], kinds: &[AccessKind]) -> usize {
        let until_look = self.look_at.saturating_sub(self.accesses);
        let nr_max = usize::try_from(until_look).map_or(ranks.len(), |nr| nr.min(ranks.len()));
        // Loads constants once. The compiler must assume that a log drain changes everything.
        let (rule, slow_from, has_one_handle) = (self.rule, self.slow_from, self.has_one_handle);
        let (pages, folios, node) = (&self.pages[..], &*self.folios, &mut self.nodes[0]);
        let logs_hits = rule.logs_hits();
        let mut last_read = self.last_read;
        let mut nr_played = 0;
        for (&rank, &kind) in ranks[..nr_max].iter().zip(kinds) {
            let plain = pages[rank as usize].plain_frame();
            let Some(frame) = plain.filter(|frame| frame.0 < slow_from) else { break };
            if kind != AccessKind::Read || rank == last_read {
                break;
            }
            if has_one_handle {
                last_read = rank;
            }
            let marked = rule.mark(folios, frame);
            if logs_hits {
                node.log_touch(marked, frame);
            }
            nr_played += 1;
        }
        self.last_read = last_read;
        self.accesses += nr_played as u64;
        nr_played
    }
}
