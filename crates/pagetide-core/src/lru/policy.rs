//! The face every replacement policy has.
//!
//! A policy owns lists and counters, and answers one question, "which folios next?", in batches. It
//! never frees anything: [`LruPolicy::isolate`] takes folios off its lists, the world tries to take
//! their frames and hands back, folio by folio, [`LruPolicy::evicted`] or [`LruPolicy::put_back`].
//!
//! All methods run under the lruvec's lock and may take time proportional to the folios they look
//! at, which [`Scan`] bounds; none blocks, allocates per call, or looks at the clock.

use super::page_table::YoungPages;
use super::pagetide::Tuning;
use super::workingset::{ListPages, Passed};
use super::{AccessPath, AccessRule, LruvecId, ShadowEntry, Switches, TableWalk};
use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, PageType};
use crate::reclaim::{ReclaimKind, Scan, Victims};
use crate::units::Millis;
use crate::vmstat::{Counter, VmStat};
use core::fmt;

/// How old the statistics are that a policy decides on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Statistics {
    /// As things are: a kernel whose statistics are read, and thereby summed up, all the time.
    #[default]
    Live,
    /// As they were at the last [`Lruvec::fold_statistics`](super::Lruvec::fold_statistics), zero
    /// before the first: a kernel left alone, which sums up every two seconds. Only the two lists
    /// of today read such sums; other policies decide the same either way.
    Folded,
}

/// What a policy is told when it is built.
#[derive(Clone, Copy, Debug)]
pub struct LruConfig {
    /// Frames the lruvec can hold at most.
    pub nr_frames: u32,
    /// The lowest number among them; they follow each other.
    pub first_frame: FrameId,
    /// The lruvec's identity, for shadow entries.
    pub id: LruvecId,
    /// 0 to 200: how willing to evict anonymous folios. At 200 they always go first; 201 means
    /// anonymous only.
    pub swappiness: u8,
    /// Whether anonymous folios have anywhere to go.
    pub can_swap: bool,
    /// How long the multi-gen LRU keeps a generation at least; 0 asks for nothing.
    pub min_ttl: Millis,
    /// Which of the policy's mechanisms are on.
    pub switches: Switches,
    /// How old the statistics are that it decides on.
    pub statistics: Statistics,
    /// The constants of the policy that is called pagetide; others have their own in their files.
    pub tuning: Tuning,
    /// Frames of a larger machine that each frame here stands for: 1, but in a model of one. What
    /// depends on how much memory there is in bytes goes by the larger machine's; that is the
    /// length of inactive lists.
    pub frames_stand_for: u32,
}

impl LruConfig {
    /// A file-only lruvec: no swap, the usual swappiness.
    pub fn file_only(nr_frames: u32) -> LruConfig {
        LruConfig {
            nr_frames,
            first_frame: FrameId(0),
            id: LruvecId::default(),
            swappiness: 60,
            can_swap: false,
            min_ttl: Millis::default(),
            switches: Switches::default(),
            statistics: Statistics::default(),
            tuning: Tuning::default(),
            frames_stand_for: 1,
        }
    }
}

/// What a policy works on beside itself.
pub struct Context<'a> {
    /// The descriptors.
    pub folios: &'a Folios,
    /// The lruvec's counters.
    pub vmstat: &'a mut VmStat,
    /// The time, as the world last told it ([`Lruvec::tell_time`](super::Lruvec::tell_time)).
    pub now: Millis,
}

impl Context<'_> {
    /// A folio's flags.
    pub fn flags(&self, frame: FrameId) -> Flags {
        self.folios[frame].flags()
    }

    /// Counts one under the anonymous or the file counter.
    pub fn count_by_type(&mut self, page_type: PageType, anon: Counter, file: Counter) {
        self.vmstat.count(if page_type == PageType::Anon { anon } else { file });
    }

    /// Counts a page that came back after its eviction.
    pub fn count_refault(&mut self, page_type: PageType) {
        let (anon, file) = (Counter::WorkingsetRefaultAnon, Counter::WorkingsetRefaultFile);
        self.count_by_type(page_type, anon, file);
    }

    /// Counts a folio taken for part of the working set.
    pub fn count_activation(&mut self, page_type: PageType) {
        let (anon, file) = (Counter::WorkingsetActivateAnon, Counter::WorkingsetActivateFile);
        self.count_by_type(page_type, anon, file);
    }

    /// Counts a page that came back and was part of the working set before.
    pub fn count_restore(&mut self, page_type: PageType) {
        let (anon, file) = (Counter::WorkingsetRestoreAnon, Counter::WorkingsetRestoreFile);
        self.count_by_type(page_type, anon, file);
    }
}

/// What [`LruPolicy::isolate`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Progress {
    /// At least one victim is in the batch: try to evict them.
    Isolated,
    /// The same, and no other is looked for if all of them go.
    IsolatedAll,
    /// At least one victim is in the batch, only to learn whether it is young: all come back, as
    /// [`Refusal::Young`] or [`Refusal::Busy`].
    Look,
    /// Before going on, walk the page tables and report young pages ([`LruPolicy::young`]).
    WalkTables,
    /// Nothing more at this priority.
    Exhausted,
}

impl Progress {
    /// What a policy says that takes all victims it is going to in one batch.
    pub fn of_batch(victims: &Victims) -> Progress {
        if victims.is_empty() { Progress::Exhausted } else { Progress::IsolatedAll }
    }
}

/// Why the world could not take a victim's frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its page word was young: accessed through a table since the last look (now cleared).
    Young,
    /// Pinned or locked.
    Busy,
    /// Dirty or under write-back.
    Dirty,
}

/// What becomes of a refused victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum PutBack {
    /// It is on a list again.
    Listed,
    /// Try it once more, at once; it stays isolated.
    Retry,
}

/// A replacement policy. See the module for the contract, `conformance.rs` for the test.
pub trait LruPolicy {
    /// What one reclaim pass remembers at one priority; a fresh one starts each priority.
    type Cursor: Default + fmt::Debug;

    /// Builds the policy with empty lists.
    fn new(config: &LruConfig) -> Self
    where
        Self: Sized;

    /// How descriptor accesses are noted.
    fn access_rule(&self) -> AccessRule;

    /// Pages a direct pass should free: 32 for the kernel's policies, 1 for those whose definition
    /// evicts one page a miss.
    fn direct_target(&self) -> u64 {
        32
    }

    /// The priority that a pass for `target` pages starts at; each next one scans twice as much.
    fn initial_priority(&self, kind: ReclaimKind, target: u64) -> u8 {
        let _ = (kind, target);
        crate::reclaim::DEF_PRIORITY
    }

    /// Puts a new folio on a list, as its flags say now.
    fn add(&mut self, cx: &mut Context<'_>, frame: FrameId);

    /// Hears of a page that was moved here from another node, in a frame on no list yet;
    /// [`LruPolicy::add`] follows. What the policy keeps in the descriptor beside flags is left
    /// over from another page.
    fn welcome(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let _ = (cx, frame);
    }

    /// Hears of a logged access to a folio on its lists.
    fn touch(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let _ = (cx, frame);
    }

    /// Moves a folio on its lists whose write-back ended to where it will be taken soon.
    fn rotate(&mut self, cx: &mut Context<'_>, frame: FrameId);

    /// Takes a folio off its lists for good; no shadow is left.
    fn remove(&mut self, cx: &mut Context<'_>, frame: FrameId);

    /// Judges a folio that returns: `shadow` is what its last eviction left. Sets flags that
    /// [`LruPolicy::add`] will see. The folio is on no list yet.
    fn refault(
        &mut self,
        cx: &mut Context<'_>,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
    ) {
        let _ = (cx, frame, shadow, kind);
    }

    /// As [`LruPolicy::refault`], where the clock that the page was evicted by says whether it is
    /// recent: that of another lruvec, perhaps. Only for policies that answer
    /// [`LruPolicy::is_recent`].
    fn refault_judged(
        &mut self,
        cx: &mut Context<'_>,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
        is_recent: bool,
    ) {
        let _ = is_recent;
        self.refault(cx, frame, shadow, kind);
    }

    /// Whether a page that left `shadow` by this lruvec's clock is recent among lists of `sizes`,
    /// its group's and those below it. `None`: the policy judges returns by itself.
    fn is_recent(
        &self,
        shadow: ShadowEntry,
        page_type: PageType,
        sizes: &ListPages,
    ) -> Option<bool> {
        let _ = (shadow, page_type, sizes);
        None
    }

    /// The lengths of its lists, as [`LruPolicy::is_recent`] wants them; zeros without such lists.
    fn list_pages(&self, cx: &Context<'_>) -> ListPages {
        let _ = cx;
        ListPages::default()
    }

    /// What its ancestors count, too, so far.
    fn passed(&self) -> Passed {
        Passed::default()
    }

    /// Counts what passed in a lruvec below this one. `nr_listed` are the folios on this one's
    /// lists and below.
    fn count_below(&mut self, passed: &Passed, nr_listed: u64) {
        let _ = (passed, nr_listed);
    }

    /// Weighs the types as `config` says from now on.
    fn set_swappiness(&mut self, config: &LruConfig) {
        let _ = config;
    }

    /// Hears that a table walk found a folio on its lists young. Flags decide what that means.
    fn young(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let _ = (cx, frame);
    }

    /// Sums up the statistics that it decides on where they are [`Statistics::Folded`].
    fn fold_statistics(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }

    /// Begins a table walk: which leaf tables it wants to see.
    fn start_walk(&mut self) -> TableWalk {
        TableWalk::of_all()
    }

    /// Hears what looking at page tables found beside the young folios it is told one by one: in a
    /// walk begun while `walk_seq` was the youngest generation, or beside victims of a pass.
    fn saw(&mut self, found: &YoungPages, walk_seq: Option<u64>) {
        let _ = (found, walk_seq);
    }

    /// Whether a pass that finds a victim young looks at the pages beside it.
    fn looks_around(&self) -> bool {
        false
    }

    /// Takes a bounded batch of victims off the lists ([`Victims::take`]), or says why not.
    /// Must end in [`Progress::Exhausted`] after finitely many calls at one priority.
    fn isolate(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut Self::Cursor,
        victims: &mut Victims,
    ) -> Progress;

    /// A victim's frame was taken: returns the shadow to leave in its place, if any.
    fn evicted(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut Self::Cursor,
        frame: FrameId,
    ) -> Option<ShadowEntry>;

    /// A victim's page was moved to a slower node. To its lists it is gone, but nothing was
    /// evicted: no shadow is left, no clock of evictions moves, and what would have been remembered
    /// of it is forgotten.
    fn demoted(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut Self::Cursor,
        frame: FrameId,
    ) {
        let _ = (cx, scan, cursor, frame);
    }

    /// A victim's frame could not be taken. `PutBack::Retry` at most once a victim.
    fn put_back(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut Self::Cursor,
        frame: FrameId,
        refusal: Refusal,
    ) -> PutBack;

    /// The pass is over. `true` asks for one more round from the first priority with
    /// [`Scan::forced`] set; honoured once.
    fn end_pass(&mut self, cx: &mut Context<'_>, scan: &Scan, cursor: &mut Self::Cursor) -> bool {
        let _ = (cx, scan, cursor);
        false
    }

    /// Whether a pass at `priority` would find enough folios, old enough to be evicted.
    fn is_reclaimable(&self, now: Millis, priority: u8) -> bool {
        let _ = now;
        self.nr_folios() >> priority > 0
    }

    /// Says in words where a folio on its lists stands, for people. What its flags say, unless the
    /// policy knows more.
    ///
    /// # Errors
    /// What `out` returns.
    fn write_standing(
        &self,
        folios: &Folios,
        frame: FrameId,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        write!(out, "{:?}", folios[frame].flags())
    }

    /// Says in words what a shadow entry remembers, for people.
    ///
    /// # Errors
    /// What `out` returns.
    fn write_past(&self, shadow: ShadowEntry, out: &mut dyn fmt::Write) -> fmt::Result {
        let _ = (shadow, out);
        Ok(())
    }

    /// Folios on the lists.
    fn nr_folios(&self) -> u64;

    /// Walks everything and panics where an invariant is broken. O(folios).
    fn validate(&self, folios: &Folios);
}
