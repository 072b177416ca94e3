//! The mechanisms of the policies.
//!
//! Problem: some ideas of a design may not help a workload. Idea: each can be switched off alone,
//! to measure its effect.
//!
//! ```text
//!   MECHANISMS table --> policies --json       the list
//!                    --> --off tiers,...       Switches --> LruConfig --> the policy
//!                    --> ablate                each off in turn
//! ```
//!
//! To add a mechanism: a row here, and the `if` in the policy. The conformance tests flip it alone
//! and with every other mechanism of the policy.

use super::PolicyName;

macro_rules! mechanisms {
    ($($name:ident = $text:literal, [$($policy:ident),+], $default:ident,
       $effect:literal, $source:literal;)+) => {
        /// A part of a policy that can be switched off.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum Mechanism {
            $(#[doc = $effect] $name,)+
        }

        impl Mechanism {
            /// All mechanisms, in table order.
            pub const ALL: &'static [Mechanism] = &[$(Mechanism::$name,)+];

            /// Returns the name on the command line.
            pub const fn as_str(self) -> &'static str {
                match self { $(Mechanism::$name => $text,)+ }
            }

            /// Returns the effect on the policy, in one sentence.
            pub const fn effect(self) -> &'static str {
                match self { $(Mechanism::$name => $effect,)+ }
            }

            /// Returns the source of the description.
            pub const fn source(self) -> &'static str {
                match self { $(Mechanism::$name => $source,)+ }
            }

            /// Returns the policies with this mechanism.
            pub const fn policies(self) -> &'static [PolicyName] {
                match self { $(Mechanism::$name => &[$(PolicyName::$policy,)+],)+ }
            }

            /// Returns true if the mechanism is on by default.
            pub const fn is_on_by_default(self) -> bool {
                match self { $(Mechanism::$name => mechanisms!(@$default),)+ }
            }
        }
    };
    (@on) => { true };
    (@off) => { false };
}

mechanisms! {
    Generations = "generations", [Mglru, Mglru73, Mglru61], on,
        "How a folio came decides which generation it enters, and table accesses make it young; \
         off, all enter the youngest and leave in order of arrival.",
        "multigen_lru.rst, \"Workflow overview\" (Linux documentation)";
    ColdInsertion = "cold-insertion", [Mglru, Mglru73, Mglru61], on,
        "What was only read enters the oldest generation; off, the one after it (in 6.18, max-2).",
        "Linux 6.1, 6.7 and 6.18, lru_gen_add_folio()";
    Tiers = "tiers", [Mglru, Mglru73, Mglru61], on,
        "Folios of tiers that refault more than tier 0 move on instead of being evicted.",
        "multigen_lru.rst, \"Eviction\", \"PID controller\" (Linux documentation)";
    TierMargin = "tier-margin", [Mglru, Mglru73, Mglru61], on,
        "Tiers are protected above 1.5 times the refault ratio of tier 0 (6.1: 2); off, above 1.",
        "Linux 6.1 and 6.18, get_tier_idx()";
    LazyPromotion = "lazy-promotion", [Mglru, Mglru73], on,
        "Eviction moves a folio accessed five times or more on, whatever its tier.",
        "Linux 6.18, sort_folio()";
    StickyWorkingset = "sticky-workingset", [Mglru, Mglru73], on,
        "A folio that moves on stays marked as working set; off, as in 6.1, it starts over.",
        "Linux 6.14, commit 4d5d14a01e2c";
    TwoStepPromotion = "two-step-promotion", [Mglru, Mglru73], on,
        "A folio found young by its table is promoted the second time; off, as in 6.1, the first.",
        "Linux 6.14, commit 4d5d14a01e2c";
    MarkedInsertion = "marked-insertion", [Mglru73], on,
        "A folio read before its batch of 31 is listed enters max-2; off, as in 6.18, the oldest.",
        "Linux 7.2, \"use folio_mark_accessed to replace folio_set_active\", 2026";
    FaultMarks = "fault-marks", [Mglru73], on,
        "A fault marks its folio as read once; off, as in 6.18, it makes it active.",
        "Linux 7.2, \"use folio_mark_accessed to replace folio_set_active\", 2026";
    ThirdLook = "third-look", [Mglru73], on,
        "A victim found young joins the working set at the third observation; off, as in 6.18, at \
         the second.",
        "Linux 7.2, \"use folio_mark_accessed to replace folio_set_active\", 2026";
    AgingInLoop = "aging-in-loop", [Mglru73], on,
        "A pass starts a generation where one is due and goes on; off, as in 6.18, its priority \
         ends.",
        "Linux 7.2, \"improve reclaim loop and dirty folio handling\", 2026";
    ShortScans = "short-scans", [Mglru73], on,
        "A scan looks at 64 folios, by tiers chosen anew, and sorting is progress; off, as in \
         6.18, at all the priority allows, and only victims are.",
        "Linux 7.2, \"improve reclaim loop and dirty folio handling\", 2026";
    StopAtTarget = "stop-at-target", [Mglru73], on,
        "A pass for a group ends once its target is met; off, as in 6.18, once its budget is \
         spent.",
        "Linux 7.1, reclaim of a memory cgroup";
    DirtyVictims = "dirty-victims", [Mglru73], on,
        "Dirty folios are tried, refused, and come back young; off, as in 6.18, sorting moves them \
         on by one.",
        "Linux 7.2, \"improve reclaim loop and dirty folio handling\", 2026";
    Controller = "controller", [Mglru, Mglru73, Mglru61], on,
        "Refaults decide between anon and file and which tiers to protect; off, swappiness alone \
         decides and no tier is protected.",
        "multigen_lru.rst, \"PID controller\" (Linux documentation)";
    TypeByAllTiers = "type-by-all-tiers", [Mglru, Mglru73], on,
        "Anon and file are weighed by the refaults of all tiers; off, as in 6.1, of tier 0.",
        "Linux 6.14, commit 37a260870f2c";
    IndependentTypes = "independent-types", [Mglru, Mglru73], on,
        "Anon and file retire their generations apart; off, as in 6.1, file waits for anon.",
        "Linux 6.14, commit 798c0330c2ca";
    RefaultMemory = "refault-memory", [Mglru, Mglru73, Mglru61], on,
        "A page that comes back is known: its tier's refault counts, its history is restored.",
        "Linux 6.18, lru_gen_refault()";
    RefaultWindow = "refault-window", [Mglru, Mglru73], on,
        "A refault counts for four generations; off, as in 6.1, while its generation is evicted.",
        "Linux 6.14, commit b1a71694fb00";
    AgingBySize = "aging-by-size", [Mglru61], on,
        "At three generations aging waits until half of all is young or the oldest is short; off, \
         as in 6.18, it does not wait.",
        "Linux 6.1; removed by 6.14, commit 798c0330c2ca";
    Retry = "retry", [Mglru, Mglru73, Mglru61], on,
        "A refused victim that is clean again is tried once more, at once.",
        "Linux 6.18, evict_folios()";
    ScanPrefetch = "scan-prefetch", [Mglru, Mglru73, Mglru61, ActiveInactive, ActiveInactive315,
        ActiveInactive2013, ActiveInactiveVanilla], off,
        "A list scan asks for the next folio's descriptor early; no decision depends on it.",
        "\"mm, lru_gen: try to prefetch next page when scanning LRU\", 2024";
    MinimalPatch = "minimal-patch", [Mglru61], off,
        "The series at its sixth patch: no table walks, no forced aging, no second trials, no \
         fairness between groups.",
        "the multi-gen LRU series of 2022, patch 6, \"minimal implementation\"";
    TableWalks = "table-walks", [Mglru, Mglru73, Mglru61], on,
        "Aging first walks page tables, so that pages accessed through them do not grow older.",
        "multigen_lru.rst, \"Aging\" (Linux documentation); patch 8 of the series of 2022";
    BloomFilter = "bloom-filter", [Mglru, Mglru73, Mglru61], on,
        "Table walks skip leaf tables that were not dense in young pages the last time.",
        "multigen_lru.rst, \"Bloom filters\" (Linux documentation)";
    LookAround = "look-around", [Mglru, Mglru73, Mglru61], on,
        "Eviction that finds a victim young also clears and counts up to 64 pages beside it.",
        "multigen_lru.rst, \"Rmap/PT walk feedback\" (Linux documentation)";
    Activation = "activation", [ActiveInactive, ActiveInactive315, ActiveInactive2013,
        ActiveInactiveVanilla], on,
        "The second access to an inactive folio moves it to the active list.",
        "Linux 6.18, folio_mark_accessed()";
    RefaultDistance = "refault-distance", [ActiveInactive, ActiveInactive315, ActiveInactive2013],
        on,
        "A page that returns sooner than the active list is long is treated as part of the working \
         set.",
        "Linux, mm/workingset.c; \"thrash detection-based file cache sizing\", 2013";
    RefaultDeactivation = "refault-deactivation", [ActiveInactive], on,
        "After a refault was activated, one pass may deactivate though the inactive list is long.",
        "Linux 6.18, prepare_scan_control()";
    SqrtRatio = "sqrt-ratio", [ActiveInactive], on,
        "The larger memory is, the smaller the part of it that has to stay inactive.",
        "Linux 6.18, inactive_is_low()";
    ExecProtection = "exec-protection", [Mglru73, ActiveInactive, ActiveInactive315,
        ActiveInactive2013, ActiveInactiveVanilla], on,
        "Executable pages of files become and stay active when they are young once.",
        "Linux 6.18, folio_check_references() and shrink_active_list()";
    CostModel = "cost-model", [ActiveInactive, ActiveInactive315, ActiveInactive2013,
        ActiveInactiveVanilla], on,
        "The type whose scans and refaults cost more is scanned less.",
        "Linux 6.18, get_scan_count()";
    CountedCosts = "counted-costs", [ActiveInactive], off,
        "Costs are taken from counters when a pass begins, as in 7.3; off, as in 6.18, each event \
         is charged.",
        "Linux 7.3, mm/vmscan.c";
    Challenge = "challenge", [ActiveInactive2013], on,
        "A page that returns in time stays inactive and has an active one put beside it.",
        "\"thrash detection-based file cache sizing\", 2013";
    ShadowThrottle = "shadow-throttle", [ActiveInactive2013], on,
        "A file whose evicted pages do not come back leaves fewer shadows.",
        "\"thrash detection-based file cache sizing\", 2013";
    ShadowShrinker = "shadow-shrinker", [ActiveInactive2013], on,
        "Of more shadows than two memories, those go that are older than this.",
        "\"thrash detection-based file cache sizing\", 2013";
    SettingSelection = "setting-selection", [Pagetide], on,
        "Four designs are tried on samples, and the best one is in charge; off, the first is.",
        "miniature simulation, Waldspurger et al., 2017; the choice is our own";
    RefaultAdmission = "refault-admission", [Pagetide], on,
        "A page that comes back in time may enter main at once; off, it goes on probation.",
        "our own; the instants that are compared are those of LIRS, 2002";
    DistanceMargin = "distance-margin", [Pagetide], on,
        "A page that comes back must fit memory, or be a quarter nearer in distinct pages than its \
         victim; off, to be nearer is enough.",
        "our own";
    HitCredit = "hit-credit", [Pagetide], on,
        "Each hit, up to three, spares a page of main once; off, all together spare it once.",
        "our own; one bit of it is CLOCK, Corbato 1968";
    ShadowLimit = "shadow-limit", [Mglru, Mglru73, Mglru61, ActiveInactive, ActiveInactive315], on,
        "Of tree nodes that hold shadows alone, no more are kept than an eighth of the pages; only \
         replays that pay for nodes (--reclaim kernel-group) have such nodes.",
        "Linux 6.18, mm/workingset.c, count_shadow_nodes()";
}

impl Mechanism {
    /// Returns the mechanisms of a policy.
    pub fn of(policy: PolicyName) -> impl Iterator<Item = Mechanism> {
        Mechanism::ALL.iter().copied().filter(move |it| it.policies().contains(&policy))
    }

    const fn bit(self) -> u64 {
        1 << self as u32
    }
}

crate::typed!(Mechanism or UnknownMechanism("unknown mechanism"));

/// The active mechanisms. A policy ignores mechanisms of other policies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Switches {
    on: u64,
}

const _: () = assert!(Mechanism::ALL.len() <= 64, "a switch is a bit of a word");

impl Default for Switches {
    /// Returns the defaults of the table.
    fn default() -> Switches {
        Mechanism::ALL
            .iter()
            .filter(|it| it.is_on_by_default())
            .fold(Switches { on: 0 }, |switches, it| switches.with(*it))
    }
}

impl Switches {
    /// Returns true if `mechanism` is on.
    pub const fn has(self, mechanism: Mechanism) -> bool {
        self.on & mechanism.bit() != 0
    }

    /// Returns a copy with `mechanism` on.
    pub const fn with(self, mechanism: Mechanism) -> Switches {
        Switches { on: self.on | mechanism.bit() }
    }

    /// Returns a copy with `mechanism` off.
    pub const fn without(self, mechanism: Mechanism) -> Switches {
        Switches { on: self.on & !mechanism.bit() }
    }

    /// Returns a copy with `mechanism` toggled, for ablations.
    pub const fn flipped(self, mechanism: Mechanism) -> Switches {
        Switches { on: self.on ^ mechanism.bit() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;

    const DOCUMENTED: &str = include_str!("../../../../docs/policies.md");

    #[test]
    fn names_parse_back_and_strangers_are_told_the_choice() {
        for mechanism in Mechanism::ALL {
            assert_eq!(mechanism.to_string().parse(), Ok(*mechanism));
            assert!(mechanism.effect().ends_with('.') && !mechanism.source().is_empty());
            assert!(!mechanism.policies().is_empty(), "{mechanism} is of no policy");
        }
        assert_eq!("tears".parse::<Mechanism>(), Err(UnknownMechanism));
        assert!(UnknownMechanism.to_string().contains("tiers"));
    }

    #[test]
    fn a_switch_moves_alone() {
        let all = Switches::default();
        for mechanism in Mechanism::ALL {
            let other = all.flipped(*mechanism);
            let moved = Mechanism::ALL.iter().filter(|it| all.has(**it) != other.has(**it));
            assert!(moved.eq([mechanism]));
            assert_eq!(other.flipped(*mechanism), all);
            assert!(!all.without(*mechanism).has(*mechanism));
            assert!(all.with(*mechanism).has(*mechanism));
        }
    }

    #[test]
    fn documentation_has_a_paragraph_for_every_policy() {
        for policy in PolicyName::ALL {
            let start = format!("\n\n**`{policy}`**: ");
            assert!(DOCUMENTED.contains(&start), "docs/policies.md says nothing of {policy}");
        }
    }
}
