//! Counters, with the kernel's names where one exists.
//!
//! Plain numbers behind the lruvec's lock. The world adds its own counters to the report.

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

            /// Returns the counter's name in reports.
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
    /// Refaults of anonymous pages.
    WorkingsetRefaultAnon = "workingset_refault_anon",
    /// Refaults of file pages.
    WorkingsetRefaultFile = "workingset_refault_file",
    /// Anonymous refaults activated at once.
    WorkingsetActivateAnon = "workingset_activate_anon",
    /// File refaults activated at once.
    WorkingsetActivateFile = "workingset_activate_file",
    /// Anonymous refaults of working set pages: thrashing.
    WorkingsetRestoreAnon = "workingset_restore_anon",
    /// File refaults of working set pages: thrashing.
    WorkingsetRestoreFile = "workingset_restore_file",
    /// Refaults too late to have fitted (challenging two lists).
    WorkingsetStale = "workingset_stale",
    /// Refaults that challenged an active folio (challenging two lists).
    WorkingsetBalance = "workingset_balance",
    /// Such challenges while the inactive list was not low.
    WorkingsetBalanceForce = "workingset_balance_force",
    /// Folios scanned by background reclaim.
    PgscanBackground = "pgscan_kswapd",
    /// Folios scanned by direct reclaim.
    PgscanDirect = "pgscan_direct",
    /// Folios evicted or demoted by background reclaim.
    PgstealBackground = "pgsteal_kswapd",
    /// Folios evicted or demoted by direct reclaim.
    PgstealDirect = "pgsteal_direct",
    /// Folios scanned on request.
    PgscanProactive = "pgscan_proactive",
    /// Folios evicted or demoted on request.
    PgstealProactive = "pgsteal_proactive",
    /// Anonymous folios evicted or demoted.
    PgstealAnon = "pgsteal_anon",
    /// File folios evicted or demoted.
    PgstealFile = "pgsteal_file",
    /// Folios activated.
    Pgactivate = "pgactivate",
    /// Folios deactivated.
    Pgdeactivate = "pgdeactivate",
    /// Folios scanned on an active list.
    Pgrefill = "pgrefill",
    /// Folios rotated to the old end after write-back.
    Pgrotated = "pgrotated",
    /// Victims refused: busy, dirty or young.
    PgstealRefused = "pgsteal_refused",
    /// Folios protected by ref tier in a multi-gen pass.
    LruGenProtected = "lru_gen_protected",
    /// Saturated folios moved on by a multi-gen pass (lazy promotion).
    LruGenPromotedLazily = "lru_gen_promoted_lazily",
    /// Folios moved to their own generation's list by a multi-gen pass.
    LruGenSorted = "lru_gen_sorted",
    /// Dirty folios left to the flusher by a multi-gen pass.
    LruGenUnwritten = "lru_gen_unwritten",
    /// Generations started.
    LruGenAged = "lru_gen_aged",
    /// Folios moved to the youngest generation by a table walk.
    LruGenWalkPromoted = "lru_gen_walk_promoted",
    /// Young pages found by table walks.
    LruGenWalkYoung = "lru_gen_walk_young",
    /// Young victims with a look-around of up to 64 pages.
    LruGenLookAround = "lru_gen_look_around",
    /// Young pages found by look-around.
    LruGenLookAroundYoung = "lru_gen_look_around_young",
    /// Passes ended because all generations were younger than `min_ttl`.
    LruGenTooYoung = "lru_gen_too_young",
    /// Folios dropped with their page.
    Pgdiscard = "pgdiscard",
    /// Folios demoted by background reclaim.
    PgdemoteBackground = "pgdemote_kswapd",
    /// Folios demoted by direct reclaim.
    PgdemoteDirect = "pgdemote_direct",
    /// Folios demoted on request.
    PgdemoteProactive = "pgdemote_proactive",
    /// Page words armed by hint scans.
    NumaPteUpdates = "numa_pte_updates",
    /// Hint faults.
    NumaHintFaults = "numa_hint_faults",
    /// Hint faults on a page of the CPU's own node.
    NumaHintFaultsLocal = "numa_hint_faults_local",
    /// Pages moved after a hint fault.
    NumaPagesMigrated = "numa_pages_migrated",
    /// Pages promoted.
    PgpromoteSuccess = "pgpromote_success",
    /// Hot pages, rate-limited ones included.
    PgpromoteCandidate = "pgpromote_candidate",
    /// Pages promoted without selection, into ample free space.
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

    /// Returns a counter's value.
    pub fn read(&self, counter: Counter) -> u64 {
        self.counts[counter as usize]
    }

    /// Adds another set.
    pub fn merge(&mut self, other: &VmStat) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, nr)| *sum += nr);
    }

    /// Returns all counters, in report order.
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
