//! A subject: a policy, flipped mechanisms, and a condition.
//!
//! ```text
//!   mglru                               the policy as it is
//!   mglru~tiers                         without tiers, which are on by default
//!   mglru~tiers~lazy-promotion          without either
//!   active-inactive@stale-statistics    with statistics that lag
//! ```
//!
//! `~` flips a default-on mechanism off, and a default-off mechanism on. A mechanism that the
//! policy lacks is an error. `@` names a condition of real machines.

use pagetide_core::lru::{Mechanism, PolicyName, Switches, UnknownMechanism, UnknownPolicy};
use std::fmt;
use std::str::FromStr;

/// A policy, its switches, and its condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyVariant {
    /// The policy.
    pub policy: PolicyName,
    /// Enabled mechanisms.
    pub switches: Switches,
    /// The condition.
    pub condition: Condition,
}

pagetide_core::named! {
    /// A condition of the machine.
    #[derive(Default)]
    pub enum Condition or UnknownCondition("unknown condition") {
        /// None: statistics are exact.
        #[default]
        Tidy = "tidy",
        /// Statistics are folded at intervals, at a phase from the seed. The period is the kernel's
        /// two seconds, scaled with memory.
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

/// A parse error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseVariantError {
    /// The first word is no policy.
    #[error(transparent)]
    Policy(#[from] UnknownPolicy),
    /// The word after `~` is no mechanism.
    #[error(transparent)]
    Mechanism(#[from] UnknownMechanism),
    /// The policy lacks the mechanism.
    #[error("{policy} has no mechanism {mechanism}")]
    NotItsMechanism {
        /// The policy.
        policy: PolicyName,
        /// The mechanism.
        mechanism: Mechanism,
    },
    /// The word after `@` is no condition.
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
