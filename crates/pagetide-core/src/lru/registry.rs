//! The table of built-in policies: one row each, and the dispatch made from it.
//!
//! A policy is an enum variant, so calls are static and the compiler finds every place that must
//! know of a new one.

use super::active_inactive::{
    ActiveInactive, ActiveInactive315, ActiveInactive2013, ActiveInactiveVanilla,
};
use super::baseline::{Arc, Clock, Fifo, Lirs, Lru, S3Fifo, Sieve, TwoQueue, WTinyLfu};
use super::capability::Capabilities;
use super::lruvec::{hear_all, hear_return};
use super::multigen::{Mglru, Mglru61, MultigenSummary};
use super::pagetide::{Pagetide, SelectionSummary};
use super::{
    AccessLog, AccessPath, AccessRule, Context, Logged, LruConfig, LruPolicy, PassPlan, Progress,
    ShadowEntry,
};
use crate::folio::Folios;
use crate::ids::FrameId;
use crate::reclaim::{ReclaimBatch, ReclaimKind, Scan, Victims, settle_all};
use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};
use core::{fmt, str::FromStr};

macro_rules! policies {
    ($($(#[doc = $doc:literal])+ $name:ident($type:ty) = $text:literal, $summary:literal;)+) => {
        /// The name of a built-in policy, as the command line spells it.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum PolicyName {
            $($(#[doc = $doc])+ $name,)+
        }

        impl PolicyName {
            /// All of them.
            pub const ALL: &'static [PolicyName] = &[$(PolicyName::$name,)+];

            /// The name as typed.
            pub const fn as_str(self) -> &'static str {
                match self { $(PolicyName::$name => $text,)+ }
            }

            /// One sentence: what it is and where it comes from.
            pub const fn summary(self) -> &'static str {
                match self { $(PolicyName::$name => $summary,)+ }
            }
        }

        /// A policy at work.
        pub(crate) enum Policy {
            $($name(Box<$type>),)+
        }

        /// A pass's memory, of the same variant as the policy it was made by.
        #[derive(Debug)]
        pub(crate) enum Cursor {
            $($name(<$type as LruPolicy>::Cursor),)+
        }

        impl Policy {
            pub(crate) fn new(name: PolicyName, config: &LruConfig) -> Policy {
                match name {
                    $(PolicyName::$name => Policy::$name(Box::new(<$type>::new(config))),)+
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

        /// What each must do.
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

/// The policy where none is named: the one with nothing to set.
impl Default for PolicyName {
    fn default() -> PolicyName {
        PolicyName::Pagetide
    }
}

policies! {
    /// Our own.
    Pagetide(Pagetide) = "pagetide",
        "Our own: probation and main judged by instants; miniatures choose between four designs.";
    /// The multi-gen LRU.
    Mglru(Mglru) = "mglru", "Multi-gen LRU as of Linux 6.18: generations, tiers, refault feedback.";
    /// The multi-gen LRU as first measured.
    Mglru61(Mglru61) = "mglru-6.1",
        "Multi-gen LRU as of Linux 6.1: aging by size, coupled types, refaults judged briefly.";
    /// Two lists per type and refault distance.
    ActiveInactive(ActiveInactive) = "active-inactive",
        "Two lists per type and refault distance: the kernel's classic LRU as of 6.18.";
    /// Two lists and refault distance as first merged.
    ActiveInactive315(ActiveInactive315) = "active-inactive-3.15",
        "Two lists and refault distance as first merged (3.15): a page back in time is activated.";
    /// Two lists and refault distance as first proposed.
    ActiveInactive2013(ActiveInactive2013) = "active-inactive-2013",
        "Two lists, refault distance as proposed (2013): a page back in time challenges another.";
    /// Two lists without refault detection.
    ActiveInactiveVanilla(ActiveInactiveVanilla) = "active-inactive-vanilla",
        "Two lists before refault detection: at most half of the file pages are active.";
    /// Strict least recently used.
    Lru(Lru) = "lru", "Strict LRU: every access moves the page to the young end.";
    /// First in, first out.
    Fifo(Fifo) = "fifo", "First in, first out: accesses do not matter.";
    /// CLOCK, the one-bit approximation of LRU.
    Clock(Clock) = "clock", "CLOCK (Corbato 1968): FIFO with a reference bit and a second chance.";
    /// A queue whose hand leaves what it spares in place.
    Sieve(Sieve) = "sieve",
        "SIEVE (Zhang et al. 2024): CLOCK whose hand moves and whose pages do not.";
    /// Three static queues.
    S3Fifo(S3Fifo) = "s3fifo",
        "S3-FIFO (Yang et al. 2023): a small queue filters what a main queue and ghosts keep.";
    /// Two queues and a list of ghosts.
    TwoQueue(TwoQueue) = "2q",
        "2Q (Johnson and Shasha 1994): hot is what came back after eviction.";
    /// The adaptive replacement cache.
    Arc(Arc) = "arc",
        "ARC (Megiddo and Modha 2003): ghosts move memory between recency and frequency.";
    /// Admission by frequency, behind a small window.
    WTinyLfu(WTinyLfu) = "w-tinylfu",
        "W-TinyLFU (Einziger et al. 2017): a frequency sketch decides who enters main memory.";
    /// Low inter-reference recency set.
    Lirs(Lirs) = "lirs",
        "LIRS (Jiang and Zhang 2002): keeps pages whose last two accesses lie close together.";
}

/// What worlds and passes ask of any policy, as [`LruPolicy`] has it. Logs and batches are handed
/// on whole: which policy it is is found out once for each.
impl Policy {
    pub(crate) fn access_rule(&self) -> AccessRule {
        each!(self, policy => access_rule_of(&**policy))
    }

    #[inline]
    pub(crate) fn plan_pass(&self, kind: ReclaimKind, target: Option<u64>) -> PassPlan {
        each!(self, policy => policy.plan_pass(kind, target))
    }

    pub(crate) fn hear(&mut self, cx: &mut Context<'_>, entries: impl IntoIterator<Item = Logged>) {
        each!(self, policy => hear_all(&mut **policy, cx, entries))
    }

    /// Does what log entries ask for, and then judges a return, as [`LruPolicy::refault`] has it.
    pub(crate) fn hear_return(
        &mut self,
        cx: &mut Context<'_>,
        log: &mut AccessLog,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
    ) {
        each!(self, policy => hear_return(&mut **policy, cx, log, frame, shadow, kind))
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

    pub(crate) fn isolate(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut Cursor,
        victims: &mut Victims,
    ) -> Progress {
        each_with_cursor!(self, cursor, (policy, inner) => policy.isolate(cx, scan, inner, victims))
    }

    pub(crate) fn settle(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut Cursor,
        batch: &mut ReclaimBatch,
        was_looking: bool,
    ) {
        each_with_cursor!(self, cursor, (policy, inner) => {
            settle_all(&mut **policy, cx, scan, inner, batch, was_looking)
        })
    }

    pub(crate) fn end_pass(
        &mut self,
        cx: &mut Context<'_>,
        scan: &Scan,
        cursor: &mut Cursor,
    ) -> bool {
        each_with_cursor!(self, cursor, (policy, inner) => policy.end_pass(cx, scan, inner))
    }

    pub(crate) fn multigen_summary(&self) -> Option<MultigenSummary> {
        match self {
            Policy::Mglru(policy) => Some(policy.summary()),
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

/// What a policy offers besides is asked of the policy itself.
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

/// An unknown policy name; the message lists those there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownPolicy;

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown policy; there are")?;
        PolicyName::ALL.iter().try_for_each(|name| write!(f, " {name}"))
    }
}

impl core::error::Error for UnknownPolicy {}

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<PolicyName, UnknownPolicy> {
        PolicyName::ALL.iter().copied().find(|name| name.as_str() == text).ok_or(UnknownPolicy)
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_parse_back_and_strangers_are_told_the_choice() {
        for name in PolicyName::ALL {
            assert_eq!(name.to_string().parse(), Ok(*name));
            assert!(name.summary().ends_with('.'));
        }
        assert_eq!("mru".parse::<PolicyName>(), Err(UnknownPolicy));
        assert!(UnknownPolicy.to_string().contains("clock"));
    }
}
