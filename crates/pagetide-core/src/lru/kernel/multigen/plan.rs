//! Input and answer of a profile that plans the next step of a pass.

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct EvictableSizes {
    /// Of the type with more generations.
    pub(super) nr_gens: u64,
    pub(super) nr_folios: u64,
    pub(super) nr_young: u64,
    /// Folios in the third youngest generation.
    pub(super) nr_old: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct PassProgress {
    pub(super) has_begun: bool,
    /// First scan budget, in folios.
    pub(super) budget: Option<u64>,
    /// Progress so far, in folios, to compare with `budget`.
    pub(super) progress: u64,
    pub(super) took_anon: bool,
    /// Generations started meanwhile by any pass.
    pub(super) nr_started: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    /// Scan this number of folios, possibly 0.
    Scan(u64),
    Age(Then),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    EndPriority,
    Scan(u64),
    PlanAgain,
}
