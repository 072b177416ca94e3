//! Counters, with the kernel's names where it has one.
//!
//! Every decision has a counter. They are plain numbers behind the lruvec's lock, so counting costs
//! nothing extra; the world adds its own counters (hits, device requests) to the same report.

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// One counter.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Counter {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Counter {
            /// All counters, in report order.
            pub const ALL: &'static [Counter] = &[$(Counter::$variant,)+];

            /// The counter's name in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Counter::$variant => $name,)+
                }
            }
        }

        const NR_COUNTERS: usize = Counter::ALL.len();
    };
}

counters! {
    /// Faults on anonymous pages that were evicted before.
    WorkingsetRefaultAnon = "workingset_refault_anon",
    /// Faults on file pages that were evicted before.
    WorkingsetRefaultFile = "workingset_refault_file",
    /// Refaults of anonymous pages that were made active at once.
    WorkingsetActivateAnon = "workingset_activate_anon",
    /// Refaults of file pages that were made active at once.
    WorkingsetActivateFile = "workingset_activate_file",
    /// Refaults of anonymous pages that had been in the working set: thrashing.
    WorkingsetRestoreAnon = "workingset_restore_anon",
    /// Refaults of file pages that had been in the working set: thrashing.
    WorkingsetRestoreFile = "workingset_restore_file",
    /// Refaults of pages that were away for too long to have fitted (challenging two lists).
    WorkingsetStale = "workingset_stale",
    /// Refaults that challenged an active folio (challenging two lists).
    WorkingsetBalance = "workingset_balance",
    /// Those of them that came while the inactive list was not low.
    WorkingsetBalanceForce = "workingset_balance_force",
    /// Folios looked at by background reclaim.
    PgscanBackground = "pgscan_kswapd",
    /// Folios looked at by direct reclaim.
    PgscanDirect = "pgscan_direct",
    /// Folios that background reclaim got rid of: evicted or demoted.
    PgstealBackground = "pgsteal_kswapd",
    /// Folios that direct reclaim got rid of.
    PgstealDirect = "pgsteal_direct",
    /// Folios looked at on request.
    PgscanProactive = "pgscan_proactive",
    /// Folios that were got rid of on request.
    PgstealProactive = "pgsteal_proactive",
    /// Anonymous folios that reclaim got rid of.
    PgstealAnon = "pgsteal_anon",
    /// File folios that reclaim got rid of.
    PgstealFile = "pgsteal_file",
    /// Folios made active.
    Pgactivate = "pgactivate",
    /// Folios made inactive.
    Pgdeactivate = "pgdeactivate",
    /// Folios looked at on an active list.
    Pgrefill = "pgrefill",
    /// Folios rotated to the old end after their write-back.
    Pgrotated = "pgrotated",
    /// Victims that came back: busy, dirty or young.
    PgstealRefused = "pgsteal_refused",
    /// Folios a multi-gen pass protected by their tier.
    LruGenProtected = "lru_gen_protected",
    /// Saturated folios a multi-gen pass moved on (lazy promotion).
    LruGenPromotedLazily = "lru_gen_promoted_lazily",
    /// Promoted folios a multi-gen pass met and moved to their own generation's list.
    LruGenSorted = "lru_gen_sorted",
    /// Dirty folios a multi-gen pass left to the flusher.
    LruGenUnwritten = "lru_gen_unwritten",
    /// Generations started.
    LruGenAged = "lru_gen_aged",
    /// Folios promoted to the youngest generation by a table walk.
    LruGenWalkPromoted = "lru_gen_walk_promoted",
    /// Young pages that table walks found.
    LruGenWalkYoung = "lru_gen_walk_young",
    /// Young victims beside which a pass looked at up to 64 pages.
    LruGenLookAround = "lru_gen_look_around",
    /// Young pages found beside victims.
    LruGenLookAroundYoung = "lru_gen_look_around_young",
    /// Passes that took nothing more, as all generations were younger than `min_ttl`.
    LruGenTooYoung = "lru_gen_too_young",
    /// Folios dropped because their page went away.
    Pgdiscard = "pgdiscard",
    /// Folios that background reclaim demoted: moved to a slower node.
    PgdemoteBackground = "pgdemote_kswapd",
    /// Folios that direct reclaim demoted.
    PgdemoteDirect = "pgdemote_direct",
    /// Folios demoted on request.
    PgdemoteProactive = "pgdemote_proactive",
    /// Page words a hint scan armed.
    NumaPteUpdates = "numa_pte_updates",
    /// Faults on armed words.
    NumaHintFaults = "numa_hint_faults",
    /// Those of them on a page of the node that the accessing CPU belongs to.
    NumaHintFaultsLocal = "numa_hint_faults_local",
    /// Pages moved after their hint fault.
    NumaPagesMigrated = "numa_pages_migrated",
    /// Pages promoted: moved from a slow node to a fast one.
    PgpromoteSuccess = "pgpromote_success",
    /// Pages found hot, whether the rate limit let them pass or not.
    PgpromoteCandidate = "pgpromote_candidate",
    /// Pages promoted unconditionally, as the fast node had much room.
    PgpromoteCandidateNrl = "pgpromote_candidate_nrl",
}

/// A set of counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VmStat {
    counts: [u64; NR_COUNTERS],
}

impl Default for VmStat {
    fn default() -> VmStat {
        VmStat { counts: [0; NR_COUNTERS] }
    }
}

impl VmStat {
    /// Counts one event.
    pub fn count(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Counts `nr` events.
    pub fn add(&mut self, counter: Counter, nr: u64) {
        self.counts[counter as usize] += nr;
    }

    /// One counter's value.
    pub fn read(&self, counter: Counter) -> u64 {
        self.counts[counter as usize]
    }

    /// Adds another set, counter by counter.
    pub fn merge(&mut self, other: &VmStat) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, nr)| *sum += nr);
    }

    /// All counters, in report order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Counter::ALL.iter().map(|counter| (counter.name(), self.read(*counter)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_independent_and_named() {
        let mut stat = VmStat::default();
        stat.add(Counter::PgscanDirect, 3);
        stat.count(Counter::Pgdiscard);
        assert_eq!(stat.read(Counter::PgscanDirect), 3);
        assert_eq!(stat.iter().filter(|(_, value)| *value != 0).count(), 2);
        assert!(stat.iter().any(|row| row == ("pgscan_direct", 3)));
        stat.merge(&stat.clone());
        assert_eq!(stat.read(Counter::PgscanDirect), 6);
    }
}
