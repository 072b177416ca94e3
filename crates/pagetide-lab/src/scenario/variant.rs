//! What plays: a policy, with some of its mechanisms turned the other way, under some condition.
//!
//! ```text
//!   mglru                               the policy as it is
//!   mglru~tiers                         without tiers, which are on by default
//!   mglru~tiers~lazy-promotion          without either
//!   active-inactive@stale-statistics    on a machine whose statistics lag
//! ```
//!
//! `~` flips: off what is on by default, on what is off. A mechanism the policy does not have is an
//! error, as it would change nothing. `@` names what a real machine does to a policy and a tidy one
//! does not.

use pagetide_core::lru::{Mechanism, PolicyName, Switches, UnknownMechanism, UnknownPolicy};
use std::fmt;
use std::str::FromStr;

/// A policy, its switches, and the condition it plays under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyVariant {
    /// The policy.
    pub policy: PolicyName,
    /// Which of its mechanisms are on.
    pub switches: Switches,
    /// What the machine does to it.
    pub condition: Condition,
}

pagetide_core::named! {
    /// What a machine does to the policies on it.
    #[derive(Default)]
    pub enum Condition or UnknownCondition("unknown condition") {
        /// Nothing: statistics are as things are.
        #[default]
        Tidy = "tidy",
        /// Statistics are summed up every so often, at a phase that the seed decides, and are as
        /// old as the last sum in between. The period is the kernel's two seconds, scaled with
        /// memory.
        StaleStatistics = "stale-statistics",
    }
}

impl From<PolicyName> for PolicyVariant {
    fn from(policy: PolicyName) -> PolicyVariant {
        PolicyVariant { policy, switches: Switches::default(), condition: Condition::Tidy }
    }
}

impl fmt::Display for PolicyVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.policy.as_str().to_owned();
        let usual = Switches::default();
        for mechanism in Mechanism::of(self.policy) {
            if self.switches.has(mechanism) != usual.has(mechanism) {
                text.push('~');
                text.push_str(mechanism.as_str());
            }
        }
        if self.condition != Condition::Tidy {
            text.push('@');
            text.push_str(self.condition.as_str());
        }
        f.pad(&text)
    }
}

/// Why a text names no subject.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseVariantError {
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
    /// The word behind `@` is no condition's name.
    #[error(transparent)]
    Condition(#[from] UnknownCondition),
}

impl FromStr for PolicyVariant {
    type Err = ParseVariantError;

    fn from_str(text: &str) -> Result<PolicyVariant, ParseVariantError> {
        let (text, condition) = match text.split_once('@') {
            None => (text, Condition::Tidy),
            Some((text, name)) => (text, name.parse()?),
        };
        let mut words = text.split('~');
        let policy: PolicyName = words.next().unwrap_or_default().parse()?;
        let mut switches = Switches::default();
        for word in words {
            let mechanism: Mechanism = word.parse()?;
            if !mechanism.policies().contains(&policy) {
                return Err(ParseVariantError::NotItsMechanism { policy, mechanism });
            }
            switches = switches.flipped(mechanism);
        }
        Ok(PolicyVariant { policy, switches, condition })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_print_as_they_are_typed() {
        for text in [
            "mglru",
            "mglru~tiers",
            "mglru~tiers~lazy-promotion",
            "active-inactive@stale-statistics",
            "mglru~tiers@stale-statistics",
            "lru",
        ] {
            let subject: PolicyVariant = text.parse().expect("a subject");
            assert_eq!(subject.to_string(), text);
        }
    }

    #[test]
    fn a_mechanism_of_another_policy_is_refused_with_both_names() {
        let error = "lru~tiers".parse::<PolicyVariant>().expect_err("lru has no tiers");
        assert_eq!(error.to_string(), "lru has no mechanism tiers");
        assert!("mglru~tears".parse::<PolicyVariant>().is_err());
        assert!("mlgru".parse::<PolicyVariant>().is_err());
        let error = "mglru@stale".parse::<PolicyVariant>().expect_err("half a name");
        for condition in Condition::ALL {
            assert!(error.to_string().contains(condition.as_str()), "{error}");
        }
    }
}
