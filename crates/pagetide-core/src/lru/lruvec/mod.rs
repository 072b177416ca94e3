//! The lruvec: a policy, its folios and its counters, behind one lock of the world's.
//!
//! Here is everything that is the same for all policies: draining access logs, dropping pages, and
//! the life of a folio between being bound and being freed.
//!
//! ```text
//!   bound --log.add--> PENDING --drain--> ON_LIST --isolate--> ISOLATED --evicted--> free
//!                         |                  |  ^                 |  |
//!                         |                  |  +----put back-----+  +--discard--> ORPHAN --> free
//!                         +-----discard------+--> free                             (by the pass)
//!                         +-----withdraw-----+--> free, its page in another node's frame
//! ```

mod capability;

use super::{
    AccessLog, AccessPath, AccessRule, Context, Cursor, Logged, LruConfig, LruvecId, Policy,
    PolicyChoice, PolicyName, ShadowEntry, Statistics,
};
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::units::Millis;
use crate::vmstat::{Counter, VmStat};
use alloc::sync::Arc;
use core::ops::Range;

/// Which side frees the frame of a dropped page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Discarded {
    /// The caller, now.
    Freed,
    /// The reclaim pass that has it isolated; it comes back among its settled frames.
    Deferred,
}

/// The folios of one memory group and node. All methods need the lruvec's lock.
pub struct Lruvec {
    name: PolicyName,
    id: LruvecId,
    /// The numbers of the frames it can hold.
    frames: Range<u32>,
    pub(crate) policy: Policy,
    pub(crate) folios: Arc<Folios>,
    pub(crate) vmstat: VmStat,
    now: Millis,
    statistics: Statistics,
    /// Folios on the lists at the last fold.
    nr_folios_folded: u64,
}

impl Lruvec {
    /// An empty lruvec over `folios`.
    pub fn new(policy: impl Into<PolicyChoice>, config: &LruConfig, folios: Arc<Folios>) -> Lruvec {
        let choice = policy.into();
        Lruvec {
            name: choice.name,
            id: config.id,
            frames: config.first_frame.0..config.first_frame.0.saturating_add(config.nr_frames),
            policy: Policy::new(choice, config),
            folios,
            vmstat: VmStat::default(),
            now: Millis::default(),
            statistics: config.statistics,
            nr_folios_folded: 0,
        }
    }

    /// Tells the time, in whatever clock the world has; it never goes back. Worlds without a clock
    /// say nothing, and all ages are zero.
    pub fn tell_time(&mut self, now: Millis) {
        self.now = self.now.max(now);
    }

    /// Sums up the statistics for an lruvec built with [`Statistics::Folded`], which decides on
    /// these sums until the next call; any other ignores it. The kernel's period is two seconds, at
    /// a phase that a boot sets. O(1).
    ///
    /// What waits in access logs is not on the lists yet, and not in the sums.
    pub fn fold_statistics(&mut self) {
        self.nr_folios_folded = self.nr_folios();
        self.fold_policy_statistics();
    }

    /// The pages of memory that the limit on shadows follows from
    /// ([`ShadowBudget::nr_leaves_to_free`](super::ShadowBudget::nr_leaves_to_free)): the folios on
    /// the lists, as the statistics have them.
    pub fn nr_pages_for_shadows(&self) -> u64 {
        match self.statistics {
            Statistics::Live => self.nr_folios(),
            Statistics::Folded => self.nr_folios_folded,
        }
    }

    /// The group and node whose folios these are.
    pub fn id(&self) -> LruvecId {
        self.id
    }

    /// The time, as it was told last.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// The policy's name.
    pub fn policy_name(&self) -> PolicyName {
        self.name
    }

    /// How descriptor accesses are noted; the hit plane keeps a copy.
    pub fn access_rule(&self) -> AccessRule {
        self.policy.access_rule()
    }

    /// The counters.
    pub fn vmstat(&self) -> &VmStat {
        &self.vmstat
    }

    /// Folios on the lists (not pending, not isolated).
    pub fn nr_folios(&self) -> u64 {
        self.policy.nr_folios()
    }

    /// Empties an access log into the policy. Stale entries do nothing.
    pub fn drain(&mut self, log: &mut AccessLog) {
        self.apply_entries(log.drain());
    }

    /// Does what log entries ask for, in their order.
    pub(crate) fn apply_entries(&mut self, entries: impl IntoIterator<Item = Logged>) {
        let (policy, mut cx) = self.parts();
        policy.apply_entries(&mut cx, entries);
    }

    /// Judges the return of an evicted page; `frame` is bound to it and not logged yet.
    ///
    /// Drains `log` first where the policy's clock depends on what is in it.
    #[inline]
    pub fn refault(
        &mut self,
        log: &mut AccessLog,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
    ) {
        let (policy, mut cx) = self.parts();
        policy.drain_and_refault(&mut cx, log, frame, shadow, kind);
    }

    /// Drops a page that went away (truncated, invalidated): its frame leaves without a shadow.
    pub fn discard(&mut self, frame: FrameId) -> Discarded {
        let (policy, mut cx) = self.parts();
        cx.vmstat.count(Counter::Pgdiscard);
        let flags = cx.flags(frame);
        if flags.any(Flags::ISOLATED) {
            cx.folios[frame].set(Flags::ORPHAN);
            return Discarded::Deferred;
        }
        if flags.any(Flags::ON_LIST) {
            policy.remove(&mut cx, frame);
        }
        cx.folios[frame].clear(Flags::ON_LIST.with(Flags::PENDING).with(Flags::GEN));
        Discarded::Freed
    }

    /// Takes a folio off the lists, as its page moves to another node. `false`: a pass has it
    /// isolated, and it stays; so does one that was dropped.
    ///
    /// The frame is the caller's then, as after [`Discarded::Freed`]; its flags still say what the
    /// page takes along ([`Folio::bind_moved`](crate::folio::Folio::bind_moved)).
    pub fn withdraw(&mut self, frame: FrameId) -> bool {
        let (policy, mut cx) = self.parts();
        let flags = cx.flags(frame);
        if flags.any(Flags::ISOLATED) {
            return false;
        }
        if flags.any(Flags::ON_LIST) {
            policy.remove(&mut cx, frame);
        }
        cx.folios[frame].clear(Flags::ON_LIST.with(Flags::PENDING).with(Flags::GEN));
        true
    }

    /// Walks everything and panics where an invariant is broken; other lruvecs have no folios among
    /// its frames. O(folios).
    pub fn validate(&self) {
        self.validate_lists();
        let end = self.frames.end.min(self.folios.nr_frames());
        let on_list = (self.frames.start..end)
            .filter(|frame| self.folios[FrameId(*frame)].flags().any(Flags::ON_LIST))
            .count();
        assert_eq!(on_list as u64, self.nr_folios(), "folios flagged on a list, and on lists");
    }

    /// As [`Lruvec::validate`], for one of several over the same folios.
    pub(crate) fn validate_lists(&self) {
        self.policy.validate(&self.folios);
    }

    pub(crate) fn cursor(&self) -> Cursor {
        self.policy.cursor()
    }

    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut Policy, Context<'_>) {
        let Lruvec { policy, folios, vmstat, now, .. } = self;
        (policy, Context { folios, vmstat, now: *now })
    }
}
