//! What the engine tells a profile when it asks how a pass goes on, and what the profile answers.

/// How the folios that may be evicted are spread.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct EvictableSizes {
    /// Generations, of the type that has more of them.
    pub(super) nr_gens: u64,
    pub(super) nr_folios: u64,
    /// Those in the youngest generation.
    pub(super) nr_young: u64,
    /// Those in the third youngest.
    pub(super) nr_old: u64,
}

/// What a pass has done at its priority.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct PassProgress {
    /// It has looked at the sizes before.
    pub(super) has_begun: bool,
    /// What it was first told to look at, in folios.
    pub(super) budget: Option<u64>,
    /// Progress so far, in folios; compared with what it is told to look at.
    pub(super) progress: u64,
    /// It has isolated anonymous folios.
    pub(super) took_anon: bool,
    /// Generations started meanwhile, by any pass.
    pub(super) nr_started: u64,
}

/// What a pass does next at its priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    /// Look at this many folios; possibly none.
    Scan(u64),
    /// Start a generation.
    Age(Then),
}

/// How a pass goes on after aging.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    /// With the next priority.
    EndPriority,
    /// With this many folios to look at.
    Scan(u64),
    /// With a new plan.
    PlanAgain,
}
