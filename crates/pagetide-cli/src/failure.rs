//! The failures of a command, mapped to exit codes.
//!
//! ```text
//!   Usage        exit 2   invalid command line: the message names a correct one
//!   Refused      exit 1   the machine or the data refused: the message has numbers and a remedy
//!   Interrupted  exit 130 Ctrl-C: 128 plus the signal's number, as in shells
//! ```

use std::fmt;
use std::io;
use std::path::Path;

/// Sentences for a person.
#[derive(Debug)]
pub(crate) enum Failure {
    Usage(String),
    Refused(String),
    /// Ctrl-C or a termination signal.
    Interrupted,
    /// The results so far.
    InterruptedWith(String),
}

impl Failure {
    /// Formats "cannot `act` `path`: why".
    pub(crate) fn on_path(act: &str, path: &Path, error: &io::Error) -> Failure {
        Failure::Refused(format!("cannot {act} {}: {error}", path.display()))
    }

    /// Formats "cannot `act`: why".
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
