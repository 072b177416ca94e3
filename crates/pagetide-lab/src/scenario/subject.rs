//! Who plays: a policy, with some of its mechanisms turned the other way.
//!
//! ```text
//!   mglru                        the policy as it is
//!   mglru~tiers                  without tiers, which are on by default
//!   mglru~tiers~lazy-promotion   without either
//! ```
//!
//! `~` flips: off what is on by default, on what is off. A mechanism the policy does not have is an
//! error, as it would change nothing.

use pagetide_core::lru::{Mechanism, PolicyName, Switches, UnknownMechanism, UnknownPolicy};
use std::fmt;
use std::str::FromStr;

/// A policy and its switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subject {
    /// The policy.
    pub policy: PolicyName,
    /// Which of its mechanisms are on.
    pub switches: Switches,
}

impl From<PolicyName> for Subject {
    fn from(policy: PolicyName) -> Subject {
        Subject { policy, switches: Switches::default() }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.policy.as_str().to_owned();
        let usual = Switches::default();
        for mechanism in Mechanism::of(self.policy) {
            if self.switches.has(mechanism) != usual.has(mechanism) {
                text.push('~');
                text.push_str(mechanism.as_str());
            }
        }
        f.pad(&text)
    }
}

/// Why a text names no subject.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseSubjectError {
    /// The first word is no policy's name.
    #[error(transparent)]
    Policy(#[from] UnknownPolicy),
    /// A word behind a `~` is no mechanism's name.
    #[error(transparent)]
    Mechanism(#[from] UnknownMechanism),
    /// The policy has no such mechanism: flipping it would change nothing.
    #[error("{policy} has no mechanism {mechanism}")]
    NotItsMechanism {
        /// The policy.
        policy: PolicyName,
        /// The mechanism.
        mechanism: Mechanism,
    },
}

impl FromStr for Subject {
    type Err = ParseSubjectError;

    fn from_str(text: &str) -> Result<Subject, ParseSubjectError> {
        let mut words = text.split('~');
        let policy: PolicyName = words.next().unwrap_or_default().parse()?;
        let mut switches = Switches::default();
        for word in words {
            let mechanism = Mechanism::named(word)?;
            if !mechanism.policies().contains(&policy) {
                return Err(ParseSubjectError::NotItsMechanism { policy, mechanism });
            }
            switches = switches.flipped(mechanism);
        }
        Ok(Subject { policy, switches })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_print_as_they_are_typed() {
        for text in ["mglru", "mglru~tiers", "mglru~tiers~lazy-promotion", "lru"] {
            let subject: Subject = text.parse().expect("a subject");
            assert_eq!(subject.to_string(), text);
        }
    }

    #[test]
    fn a_mechanism_of_another_policy_is_refused_with_both_names() {
        let error = "lru~tiers".parse::<Subject>().expect_err("lru has no tiers");
        assert_eq!(error.to_string(), "lru has no mechanism tiers");
        assert!("mglru~tears".parse::<Subject>().is_err());
        assert!("mlgru".parse::<Subject>().is_err());
    }
}
