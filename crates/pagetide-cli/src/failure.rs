//! The failures of a command.
//!
//! Problem: a person or a script must distinguish three causes of a failed command: an impossible
//! request, a refusal by the machine, and an interrupt by the user. Idea: one enum, mapped to exit
//! codes in one place.
//!
//! ```text
//!   Usage        exit 2   the command line makes no sense: the message names a correct one
//!   Refused      exit 1   the machine or the data refused: the message has numbers and a remedy
//!   Interrupted  exit 130 Ctrl-C: 128 plus the signal's number, as in shells
//! ```
//!
//! Ignored: which of the termination signals arrived.

use std::fmt;
use std::io;
use std::path::Path;

/// The reason why a command failed, as a sentence for a person.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line asks for something impossible. Exit code 2.
    Usage(String),
    /// The machine, a file or a check refused. Exit code 1.
    Refused(String),
    /// Ctrl-C or a termination signal. Exit code 130.
    Interrupted,
    /// An interrupt with a sentence about the results so far. Exit code 130.
    InterruptedWith(String),
}

impl Failure {
    /// Returns a refusal by the operating system, as "cannot `act` `path`: why".
    pub(crate) fn on_path(act: &str, path: &Path, error: &io::Error) -> Failure {
        Failure::Refused(format!("cannot {act} {}: {error}", path.display()))
    }

    /// Returns a refusal by the operating system, as "cannot `act`: why".
    pub(crate) fn on(act: &str, error: &dyn std::error::Error) -> Failure {
        let mut sentence = format!("cannot {act}: {error}");
        let mut cause = error.source();
        while let Some(inner) = cause {
            let inner_text = inner.to_string();
            if !sentence.contains(&inner_text) {
                sentence.push_str(&format!(": {inner_text}"));
            }
            cause = inner.source();
        }
        Failure::Refused(sentence)
    }

    /// Returns the process's exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Refused(_) => 1,
            Failure::Interrupted | Failure::InterruptedWith(_) => 130,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(sentence) | Failure::Refused(sentence) => f.write_str(sentence),
            Failure::Interrupted => f.write_str("interrupted"),
            Failure::InterruptedWith(sentence) => write!(f, "interrupted; {sentence}"),
        }
    }
}
