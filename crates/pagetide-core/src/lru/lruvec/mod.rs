//! The lruvec: a policy, its folios and its counters, behind one lock of the world.
//!
//! Everything common to all policies is here: draining access logs, dropping pages, and the states
//! of a folio between bind and free.
//!
//! ```text
//!   bound --log.add--> PENDING --drain--> ON_LIST --isolate--> ISOLATED --evicted--> free
//!                         |                  |  ^                 |
//!                         |                  |  +----put back-----+
//!                         +-----discard------+--> free
//!                         +-----withdraw-----+--> free, its page in another node's frame
//! ```

mod capability;

use super::{
    AccessLog, AccessPath, AccessRule, Context, Cursor, Logged, LruConfig, LruvecId, Policy,
    PolicyChoice, PolicyName, PolicyVisitor, ShadowEntry, Statistics,
};
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::units::Millis;
use crate::vmstat::{Counter, VmStat};
use alloc::sync::Arc;
use core::ops::Range;

/// The folios of one memory group and node. All methods need the lruvec's lock.
pub struct Lruvec {
    name: PolicyName,
    id: LruvecId,
    frames: Range<u32>,
    pub(crate) policy: Policy,
    pub(crate) folios: Arc<Folios>,
    pub(crate) vmstat: VmStat,
    now: Millis,
    statistics: Statistics,
    nr_folios_folded: u64,
}

impl Lruvec {
    /// Creates an empty lruvec over `folios`.
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

    /// Sets the time, in the world's clock. Time never goes back. Without a clock all ages are
    /// zero.
    pub fn tell_time(&mut self, now: Millis) {
        self.now = self.now.max(now);
    }

    /// Folds the statistics of a lruvec built with [`Statistics::Folded`], which decides on these
    /// sums until the next call. Others ignore the call. The kernel folds every two seconds. O(1).
    ///
    /// Folios in access logs are not listed yet and not counted.
    pub fn fold_statistics(&mut self) {
        self.nr_folios_folded = self.nr_folios();
        self.fold_policy_statistics();
    }

    /// Returns the number of listed folios as the statistics see them. The limit on shadows follows
    /// from it ([`ShadowBudget::nr_leaves_to_free`](super::ShadowBudget::nr_leaves_to_free)).
    pub fn nr_pages_for_shadows(&self) -> u64 {
        match self.statistics {
            Statistics::Live => self.nr_folios(),
            Statistics::Folded => self.nr_folios_folded,
        }
    }

    /// Returns the group and node.
    pub fn id(&self) -> LruvecId {
        self.id
    }

    /// Returns the time of the last [`Lruvec::tell_time`].
    pub fn now(&self) -> Millis {
        self.now
    }

    /// Returns the policy's name.
    pub fn policy_name(&self) -> PolicyName {
        self.name
    }

    /// Returns the access rule. The hit plane keeps a copy.
    pub fn access_rule(&self) -> AccessRule {
        self.policy.access_rule()
    }

    /// Returns the counters.
    pub fn vmstat(&self) -> &VmStat {
        &self.vmstat
    }

    /// Counts the listed folios (not pending, not isolated).
    pub fn nr_folios(&self) -> u64 {
        self.policy.nr_folios()
    }

    /// Drains an access log into the policy. Stale entries do nothing.
    pub fn drain(&mut self, log: &mut AccessLog) {
        self.apply_entries(log.drain());
    }

    pub(crate) fn apply_entries(&mut self, entries: impl IntoIterator<Item = Logged>) {
        let (policy, mut cx) = self.parts();
        policy.apply_entries(&mut cx, entries);
    }

    /// Refaults an evicted page. `frame` is bound to the page and not logged yet.
    ///
    /// Drains `log` first if the policy's clock counts its entries.
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

    /// Runs work that is compiled for each policy.
    #[inline]
    pub fn visit<V: PolicyVisitor>(&mut self, visitor: V) -> V::Output {
        let Lruvec { policy, folios, vmstat, now, .. } = self;
        let cx = Context { folios, vmstat, now: *now };
        policy.visit(cx, now, visitor)
    }

    /// Drops a truncated or invalidated page. Its frame leaves without a shadow, and is the
    /// caller's.
    pub fn discard(&mut self, frame: FrameId) {
        self.vmstat.count(Counter::Pgdiscard);
        self.withdraw(frame);
    }

    /// Takes a folio off the lists because its page moves to another node. The caller owns the
    /// frame. Its flags are kept for the new frame
    /// ([`Folio::bind_moved`](crate::folio::Folio::bind_moved)).
    pub fn withdraw(&mut self, frame: FrameId) {
        let (policy, mut cx) = self.parts();
        if cx.flags(frame).any(Flags::ON_LIST) {
            policy.remove(&mut cx, frame);
        }
        let listed = Flags::ON_LIST.with(Flags::PENDING).with(Flags::ISOLATED);
        cx.folios[frame].clear(listed.with(Flags::GEN));
    }

    /// Checks all invariants. Panics if one is broken. No other lruvec may have folios among its
    /// frames. O(folios).
    pub fn validate(&self) {
        self.validate_lists();
        let end = self.frames.end.min(self.folios.nr_frames());
        let on_list = (self.frames.start..end)
            .filter(|frame| self.folios[FrameId(*frame)].flags().any(Flags::ON_LIST))
            .count();
        assert_eq!(on_list as u64, self.nr_folios(), "folios flagged on a list, and on lists");
    }

    /// Allows several lruvecs over the same folios.
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
