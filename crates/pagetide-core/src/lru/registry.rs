//! The types behind the policy names, and static dispatch over them.

use super::baseline::{
    Arc, Clock, Clock2QPlus, Fifo, Lirs, Lirs2, Lru, S3Fifo, Sieve, TwoQueue, WTinyLfu,
};
use super::capability::Capabilities;
use super::drain::{apply_entries, drain_and_refault};
use super::kernel::active_inactive::{
    ActiveInactive, ActiveInactive315, ActiveInactive2013, ActiveInactiveVanilla,
};
use super::kernel::multigen::{Mglru, Mglru61, Mglru73, MultigenSummary};
use super::own::{Pagetide, SelectionSummary, Tuning};
use super::settle::settle_all;
use super::step::{Stage, Step, isolate};
use super::visit::{PolicyLists, PolicyVisitor};
use super::{
    AccessLog, AccessPath, AccessRule, Context, Logged, LruConfig, LruPolicy, PassPlan, PolicyName,
    ReclaimBatch, ReclaimKind, Scan, ShadowEntry,
};
use crate::folio::Folios;
use crate::ids::FrameId;
use crate::units::Millis;
use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};

macro_rules! policies {
    ($($name:ident),+) => {
        pub(crate) enum Policy {
            $($name(Box<$name>),)+
        }

        #[derive(Debug)]
        pub(crate) enum Cursor {
            $($name(<$name as LruPolicy>::Cursor),)+
        }

        impl Policy {
            fn usual(name: PolicyName, config: &LruConfig) -> Policy {
                match name {
                    $(PolicyName::$name => Policy::$name(Box::new($name::new(config))),)+
                }
            }

            #[inline]
            pub(crate) fn cursor(&self) -> Cursor {
                match self { $(Policy::$name(_) => Cursor::$name(Default::default()),)+ }
            }
        }

        macro_rules! each {
            ($self:expr, $policy:ident => $call:expr) => {
                match $self { $(Policy::$name($policy) => $call,)+ }
            };
        }

        #[cfg(test)]
        mod conformance {
            use crate::lru::conformance::conformance;

            conformance! { $($name)+ }
        }

        macro_rules! each_with_cursor {
            ($self:expr, $cursor:expr, ($policy:ident, $inner:ident) => $call:expr) => {
                match ($self, $cursor) {
                    $((Policy::$name($policy), Cursor::$name($inner)) => $call,)+
                    _ => unreachable!("a reclaim pass works on the lruvec that began it"),
                }
            };
        }
    };
}

// Each is a name in `PolicyName` and a type.
policies!(
    Pagetide,
    Mglru,
    Mglru73,
    Mglru61,
    ActiveInactive,
    ActiveInactive315,
    ActiveInactive2013,
    ActiveInactiveVanilla,
    Lru,
    Fifo,
    Clock,
    Sieve,
    S3Fifo,
    Clock2QPlus,
    TwoQueue,
    Arc,
    WTinyLfu,
    Lirs,
    Lirs2
);

/// A policy and its own configuration.
#[derive(Clone, Copy, Debug)]
pub struct PolicyChoice {
    /// The policy.
    pub name: PolicyName,
    /// Its configuration.
    pub config: PolicyConfig,
}

/// The configuration specific to one policy.
#[derive(Clone, Copy, Default, Debug)]
pub enum PolicyConfig {
    /// Defaults.
    #[default]
    Usual,
    /// The constants of `pagetide`.
    Pagetide(Tuning),
    /// The machine size that `active-inactive` models.
    ActiveInactive {
        /// Frames of the modelled machine per frame. The inactive lists' minimum length depends on
        /// memory in bytes.
        frames_stand_for: u32,
    },
}

impl From<PolicyName> for PolicyChoice {
    /// Uses the defaults.
    fn from(name: PolicyName) -> PolicyChoice {
        PolicyChoice { name, config: PolicyConfig::Usual }
    }
}

impl Policy {
    pub(crate) fn new(choice: PolicyChoice, config: &LruConfig) -> Policy {
        match (choice.name, choice.config) {
            (PolicyName::Pagetide, PolicyConfig::Pagetide(tuning)) => {
                Policy::Pagetide(Box::new(Pagetide::tuned(config, tuning)))
            }
            (PolicyName::ActiveInactive, PolicyConfig::ActiveInactive { frames_stand_for }) => {
                Policy::ActiveInactive(Box::new(ActiveInactive::scaled(config, frames_stand_for)))
            }
            (name, _) => Policy::usual(name, config),
        }
    }
}

/// One dispatch for each log or batch.
impl Policy {
    pub(crate) fn access_rule(&self) -> AccessRule {
        each!(self, policy => access_rule_of(&**policy))
    }

    #[inline]
    pub(crate) fn plan_pass(&self, kind: ReclaimKind, target: Option<u64>) -> PassPlan {
        each!(self, policy => policy.plan_pass(kind, target))
    }

    pub(crate) fn apply_entries(
        &mut self,
        cx: &mut Context<'_>,
        entries: impl IntoIterator<Item = Logged>,
    ) {
        each!(self, policy => apply_entries(&mut **policy, cx, entries))
    }

    pub(crate) fn drain_and_refault(
        &mut self,
        cx: &mut Context<'_>,
        log: &mut AccessLog,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
    ) {
        each!(self, policy => drain_and_refault(&mut **policy, cx, log, frame, shadow, kind))
    }

    pub(crate) fn refault(
        &mut self,
        cx: &mut Context<'_>,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
    ) {
        each!(self, policy => policy.refault(cx, frame, shadow, kind))
    }

    pub(crate) fn remove(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        each!(self, policy => policy.remove(cx, frame))
    }

    #[inline]
    pub(crate) fn isolate(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut Cursor,
        stage: &mut Stage,
        batch: &mut ReclaimBatch,
    ) -> Step {
        each_with_cursor!(self, cursor, (policy, inner) => {
            isolate(&mut **policy, cx, scan, inner, stage, batch)
        })
    }

    #[inline]
    pub(crate) fn settle(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut Cursor,
        stage: &Stage,
        batch: &mut ReclaimBatch,
    ) {
        each_with_cursor!(self, cursor, (policy, inner) => {
            settle_all(&mut **policy, cx, scan, inner, batch, stage.is_looking)
        })
    }

    #[inline]
    pub(crate) fn visit<V: PolicyVisitor>(
        &mut self,
        cx: Context<'_>,
        now: &mut Millis,
        visitor: V,
    ) -> V::Output {
        each!(self, policy => visitor.visit(PolicyLists { policy: &mut **policy, cx, now }))
    }

    /// Ends a pass over several lruvecs.
    pub(crate) fn end_pass(&mut self, cx: &mut Context<'_>, scan: &Scan) -> bool {
        each!(self, policy => policy.end_pass(cx, scan, &mut Default::default()))
    }

    pub(crate) fn multigen_summary(&self) -> Option<MultigenSummary> {
        match self {
            Policy::Mglru(policy) => Some(policy.summary()),
            Policy::Mglru73(policy) => Some(policy.summary()),
            Policy::Mglru61(policy) => Some(policy.summary()),
            _ => None,
        }
    }

    pub(crate) fn selection_summary(&self) -> Option<SelectionSummary> {
        match self {
            Policy::Pagetide(policy) => policy.selection_summary(),
            _ => None,
        }
    }

    pub(crate) fn nr_folios(&self) -> u64 {
        each!(self, policy => policy.nr_folios())
    }

    pub(crate) fn validate(&self, folios: &Folios) {
        each!(self, policy => policy.validate(folios))
    }
}

const fn access_rule_of<P: LruPolicy>(_: &P) -> AccessRule {
    P::ACCESS
}

/// Gives access to the policy's optional methods.
impl Deref for Policy {
    type Target = dyn Capabilities;

    fn deref(&self) -> &Self::Target {
        each!(self, policy => &**policy)
    }
}

impl DerefMut for Policy {
    fn deref_mut(&mut self) -> &mut Self::Target {
        each!(self, policy => &mut **policy)
    }
}
