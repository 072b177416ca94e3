//! Aging and eviction on request, without memory pressure.
//!
//! ```text
//!   Age     walk all wanted tables --> max_seq + 1    unless another aging came first
//!   Evict   oldest, oldest, ...    --> up to seq, or a number of pages, or no progress
//! ```
//!
//! Source: `Documentation/admin-guide/mm/multigen_lru.rst`, "Experimental features".

use super::swappiness::Swappiness;
use super::window::evictable;
use super::{Multigen, MultigenCursor, Profile};
use crate::lru::{Context, GenCommand, GenRequest, Mechanism, Progress, Scan, Victims};
use crate::units::Millis;

impl<P: Profile> Multigen<P> {
    pub(super) fn serve(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut MultigenCursor,
        victims: &mut Victims,
        command: GenCommand,
    ) -> Progress {
        let own = self.swappiness;
        self.swappiness = own.for_request(command.swappiness, P::SWAPPINESS_MAX);
        let progress = match command.request {
            GenRequest::Age { force, .. } => self.serve_age(cx, cursor, force),
            GenRequest::Evict { seq, .. } => self.serve_evict(cx, scan, cursor, victims, seq),
        };
        self.swappiness = own;
        progress
    }

    fn serve_age(
        &mut self,
        cx: &mut Context<'_>,
        cursor: &mut MultigenCursor,
        force: bool,
    ) -> Progress {
        let max_seq = self.generations.window.max_seq;
        if cursor.first_max_seq.is_none() && self.walks_tables() {
            cursor.first_max_seq = Some(max_seq);
            self.walks.force_next(force);
            return Progress::WalkTables;
        }
        if cursor.first_max_seq.is_none_or(|walked_at| walked_at == max_seq) {
            self.start_generation(cx);
        }
        Progress::Exhausted
    }

    fn serve_evict(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut MultigenCursor,
        victims: &mut Victims,
        seq: u64,
    ) -> Progress {
        while !scan.is_satisfied() && self.oldest_evictable().is_some_and(|oldest| oldest <= seq) {
            let budget = scan.target - scan.reclaimed;
            let progress = self.evict(cx, scan, &mut cursor.done, victims, budget);
            if !victims.is_empty() {
                return Progress::Isolated;
            }
            if progress == 0 {
                break;
            }
        }
        Progress::Exhausted
    }

    pub(super) fn walks_tables(&self) -> bool {
        let wanted = [Mechanism::Generations, Mechanism::TableWalks];
        self.profile.walks_tables() && wanted.iter().all(|it| self.switches.has(*it))
    }

    pub(super) fn is_old_enough(&self, now: Millis) -> bool {
        let oldest = self.oldest_evictable();
        oldest.is_none_or(|oldest| self.births.is_old_enough(oldest, now, self.min_ttl))
    }

    fn oldest_evictable(&self) -> Option<u64> {
        let window = &self.generations.window;
        evictable(self.swappiness).map(|page_type| window.oldest(page_type)).min()
    }
}

impl Swappiness {
    /// Applies a request's swappiness. Anonymous pages stay unevictable without a swap store.
    fn for_request(self, asked: Option<u8>, max: u8) -> Swappiness {
        let own = self;
        asked.map_or(own, |asked| own.limited_to(asked.min(max)))
    }
}
