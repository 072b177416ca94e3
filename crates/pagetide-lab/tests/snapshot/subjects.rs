//! The compared policies and switches.

use pagetide_core::lru::{Mechanism, PolicyName, Switches};

/// A policy with at most one flipped mechanism.
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

    pub(crate) fn switches_text(self) -> String {
        self.flipped.map_or_else(|| "-".to_owned(), |mechanism| format!("~{mechanism}"))
    }
}

/// Returns every policy except `pagetide`, which may change (see `main.rs`).
pub(crate) fn policies() -> impl Iterator<Item = PolicyName> {
    PolicyName::ALL.iter().copied().filter(|policy| *policy != PolicyName::Pagetide)
}

pub(crate) fn plain() -> Vec<Design> {
    policies().map(|policy| Design { policy, flipped: None }).collect()
}

pub(crate) fn flipped() -> Vec<Design> {
    let of = |policy| Mechanism::of(policy).map(move |it| Design { policy, flipped: Some(it) });
    policies().flat_map(of).collect()
}
