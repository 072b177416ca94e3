//! The policies and switches that are compared.

use pagetide_core::lru::{Mechanism, PolicyName, Switches};

/// A policy with at most one mechanism turned the other way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Design {
    pub(crate) policy: PolicyName,
    pub(crate) flipped: Option<Mechanism>,
}

impl Design {
    pub(crate) fn switches(self) -> Switches {
        let usual = Switches::default();
        self.flipped.map_or(usual, |mechanism| usual.flipped(mechanism))
    }

    /// As it stands in rows.
    pub(crate) fn switches_text(self) -> String {
        self.flipped.map_or_else(|| "-".to_owned(), |mechanism| format!("~{mechanism}"))
    }
}

/// Every policy but `pagetide`, which is its own and may change; see the head of the test.
pub(crate) fn policies() -> impl Iterator<Item = PolicyName> {
    PolicyName::ALL.iter().copied().filter(|policy| *policy != PolicyName::Pagetide)
}

/// They, as they are.
pub(crate) fn plain() -> Vec<Design> {
    policies().map(|policy| Design { policy, flipped: None }).collect()
}

/// They, with each of their mechanisms flipped.
pub(crate) fn flipped() -> Vec<Design> {
    let of = |policy| Mechanism::of(policy).map(move |it| Design { policy, flipped: Some(it) });
    policies().flat_map(of).collect()
}
