//! `--set name=value`: any knob of the library (docs/config.md), checked early.
//!
//! ```text
//!   --set readahead_max=0 --set dirty=30  -->  Builder::set(name, value), in order
//! ```
//!
//! The kernel as a subject has no knobs. `memory` is refused, because `--memory` sets every
//! subject's limit.

use ::pagetide::{Builder, KnobError, PageCache};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A valid knob and value, as typed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Setting {
    name: String,
    value: String,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Setting, String> {
        let Some((name, value)) = text.split_once('=') else {
            return Err("write it as name=value, as in readahead_max=0".to_owned());
        };
        if name == "memory" {
            return Err("use --memory, which every subject gets".to_owned());
        }
        let setting = Setting { name: name.to_owned(), value: value.to_owned() };
        match apply(PageCache::builder(), std::slice::from_ref(&setting)) {
            Ok(_) => Ok(setting),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

pub(crate) fn apply(builder: Builder, settings: &[Setting]) -> Result<Builder, KnobError> {
    settings.iter().try_fold(builder, |builder, setting| builder.set(&setting.name, &setting.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_knob_is_taken_and_unknown_refused() {
        assert!("readahead_max=0".parse::<Setting>().is_ok());
        for wrong in ["readahead_max", "no_such_knob=1", "dirty=often", "memory=4M"] {
            assert!(wrong.parse::<Setting>().is_err(), "{wrong}");
        }
    }
}
