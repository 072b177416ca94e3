//! Limits on eviction history in the design of 2013, by file and in total.
//!
//! Problem: a file streamed once leaves a shadow for each page, never to be used.
//!
//! Idea: a file with more debt plants fewer shadows. A new file owes one memory of pages. A planted
//! shadow adds one, and a refault pays back as many evictions as its shadow stands for.
//!
//! ```text
//!   debt >> shift:     0        1        2        3         4 and more
//!   plants:          each   1 of 32  1 of 64  1 of 128   1 of 256, and the debt stays
//!   a refault pays:    1       32       64      128        256
//! ```
//!
//! In total, shadows of two memories are allowed, and older ones are deleted without a walk:
//! [`ShadowShrinker`] records the clock, and tests a refaulting shadow against it. A deleted shadow
//! is never recent, and only fails to pay a debt.
//!
//! Data: one sorted entry per file, with spare capacity because a pass must not allocate. Files are
//! never forgotten: a reused id inherits the debt. The shadow count is an upper bound.
//!
//! Ignored: the original deleted a little later. Source: the second posting of "thrash
//! detection-based file cache sizing", 30 May 2013.

use crate::ids::MappingId;
use crate::lru::refault_distance::NonresidentAge;
use crate::lru::{ShadowEntry, TOKEN_MASK};
use alloc::vec::Vec;

const DEPTH_MAX: u32 = 4;

/// Initial capacity, in files.
const FILES_AHEAD: usize = 256;

fn depth_shift(dirtyable: u32) -> u32 {
    dirtyable.saturating_sub(1).checked_ilog2().unwrap_or(0)
}

/// The debts of files.
#[derive(Clone, Debug)]
pub struct FileDebts {
    dirtyable: u64,
    shift: u32,
    /// Files that planted or refaulted. Any other file owes `dirtyable`.
    debts: Vec<(MappingId, u64)>,
}

impl FileDebts {
    /// Creates the debts for a memory of `dirtyable` pages.
    pub fn new(dirtyable: u32) -> FileDebts {
        let shift = depth_shift(dirtyable);
        FileDebts { dirtyable: u64::from(dirtyable), shift, debts: Vec::with_capacity(FILES_AHEAD) }
    }

    /// Returns a file's debt, in shadows.
    pub fn debt(&self, mapping: MappingId) -> u64 {
        self.find(mapping).map_or(self.dirtyable, |at| self.debts[at].1)
    }

    fn find(&self, mapping: MappingId) -> Result<usize, usize> {
        self.debts.binary_search_by_key(&mapping, |(id, _)| *id)
    }

    fn set(&mut self, mapping: MappingId, debt: u64) {
        match self.find(mapping) {
            Ok(at) => self.debts[at].1 = debt,
            Err(at) => self.debts.insert(at, (mapping, debt)),
        }
    }

    fn depth(&self, debt: u64) -> u32 {
        (debt >> self.shift).min(u64::from(DEPTH_MAX)) as u32
    }

    const fn period(depth: u32) -> u64 {
        if depth == 0 { 1 } else { 32 << (depth - 1) }
    }

    /// Returns true if the shadow of an evicted page of `mapping` is kept. `clock` is the number of
    /// the eviction.
    pub fn plants(&mut self, mapping: MappingId, clock: u64) -> bool {
        let debt = self.debt(mapping);
        let depth = self.depth(debt);
        if !clock.is_multiple_of(FileDebts::period(depth)) {
            return false;
        }
        if depth < DEPTH_MAX {
            self.set(mapping, debt + 1);
        }
        true
    }

    /// Pays back for a refault with a shadow.
    pub fn repay(&mut self, mapping: MappingId) {
        let debt = self.debt(mapping);
        let paid = FileDebts::period(self.depth(debt));
        self.set(mapping, debt.saturating_sub(paid));
    }
}

/// The limit on the number of shadows.
#[derive(Clone, Debug)]
pub struct ShadowShrinker {
    /// Maximum number of shadows, and the age from which they are deleted.
    allowed: u64,
    nr_shadows: u64,
    shrunk_at: Option<NonresidentAge>,
}

impl ShadowShrinker {
    /// Creates the limit for a memory of `dirtyable` pages.
    pub fn new(dirtyable: u32) -> ShadowShrinker {
        ShadowShrinker { allowed: 2 << depth_shift(dirtyable), nr_shadows: 0, shrunk_at: None }
    }

    /// Counts a planted shadow.
    pub fn planted(&mut self) {
        self.nr_shadows += 1;
    }

    /// Deletes old shadows if there are too many. Call at the end of each pass.
    pub fn shrink(&mut self, clock: NonresidentAge) {
        if self.nr_shadows > self.allowed {
            self.shrunk_at = Some(clock);
            // Each shadow has a different age, at most `allowed`.
            self.nr_shadows = self.allowed;
        }
    }

    /// Removes the shadow of a refaulted page. Returns true if it was already deleted.
    pub fn take(&mut self, shadow: ShadowEntry) -> bool {
        let is_deleted = self.shrunk_at.is_some_and(|clock| {
            // The distance of a shadow planted since then wraps to the upper half.
            let age = clock.distance(shadow);
            age > self.allowed && age <= TOKEN_MASK / 2
        });
        if !is_deleted {
            self.nr_shadows = self.nr_shadows.saturating_sub(1);
        }
        is_deleted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lru::LruvecId;

    const FILE: MappingId = MappingId(7);

    fn debts(debt: u64) -> FileDebts {
        let mut debts = FileDebts::new(4096);
        debts.set(FILE, debt);
        debts
    }

    #[test]
    fn new_file_plants_one_of_64_and_a_refault_pays_for_64() {
        let mut debts = FileDebts::new(4096);
        assert_eq!((debts.shift, debts.debt(FILE)), (11, 4096));
        assert!((4097..4160).all(|clock| !debts.plants(FILE, clock)));
        assert_eq!(debts.debt(FILE), 4096);
        assert!(debts.plants(FILE, 4160));
        assert_eq!(debts.debt(FILE), 4097);
        debts.repay(FILE);
        assert_eq!(debts.debt(FILE), 4033);
        assert_eq!(debts.depth(4033), 1);
    }

    #[test]
    fn file_without_debt_plants_at_each_eviction_and_pays_one_by_one() {
        let mut debts = debts(2000);
        for clock in 101..111 {
            assert!(debts.plants(FILE, clock));
        }
        assert_eq!(debts.debt(FILE), 2010);
        debts.repay(FILE);
        assert_eq!(debts.debt(FILE), 2009);
    }

    #[test]
    fn each_depth_has_its_period_and_the_deepest_debt_is_frozen() {
        for (debt, period, grows) in
            [(2048, 32, 1), (4096, 64, 1), (6144, 128, 1), (8192, 256, 0), (1 << 40, 256, 0)]
        {
            let mut debts = debts(debt);
            let planted: Vec<u64> =
                (1..=period).filter(|clock| debts.plants(FILE, *clock)).collect();
            assert_eq!(planted, [period], "debt {debt}");
            assert_eq!(debts.debt(FILE), debt + grows);
            debts.repay(FILE);
            assert_eq!(debts.debt(FILE), debt + grows - period);
        }
    }

    #[test]
    fn debts_are_of_one_file_and_never_negative() {
        let mut debts = debts(0);
        debts.repay(FILE);
        assert_eq!((debts.debt(FILE), debts.debt(MappingId(8))), (0, 4096));
    }

    #[test]
    fn old_shadows_go_when_there_are_more_than_two_memories_of_them() {
        let mut shrinker = ShadowShrinker::new(4096);
        assert_eq!(shrinker.allowed, 4096);
        let mut clock = NonresidentAge::default();
        let plant = |shrinker: &mut ShadowShrinker, clock: &mut NonresidentAge| {
            clock.advance(1);
            shrinker.planted();
            clock.shadow(LruvecId::default(), false)
        };
        let shadows: Vec<ShadowEntry> =
            (0..4096).map(|_| plant(&mut shrinker, &mut clock)).collect();
        clock.advance(100);
        shrinker.shrink(clock);
        assert!(!shrinker.take(shadows[0]), "as many as are allowed: the oldest is kept");
        plant(&mut shrinker, &mut clock);
        plant(&mut shrinker, &mut clock);
        shrinker.shrink(clock);
        assert!(shrinker.take(shadows[1]) && shrinker.take(shadows[100]));
        assert_eq!(clock.distance(shadows[101]), 4096, "the cutoff");
        assert!(!shrinker.take(shadows[101]));
        let newer = plant(&mut shrinker, &mut clock);
        clock.advance(5000);
        assert!(!shrinker.take(newer), "planted since: kept until the next time");
    }
}
