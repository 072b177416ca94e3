//! How a command ends when it does not end well.
//!
//! Problem: a person (or a script) must learn three different things from a failed command: that
//! they asked for something impossible, that the machine refused, or that they themselves stopped
//! it. Idea: one enum, mapped to exit codes in one place.
//!
//! ```text
//!   Usage        exit 2   the command line cannot mean anything; say what would
//!   Refused      exit 1   the machine or the data said no; say the numbers and what to do
//!   Interrupted  exit 130 Ctrl-C: 128 and the signal's number, as shells have it
//! ```
//!
//! Ignored: which of the termination signals it was.

use std::fmt;
use std::io;
use std::path::Path;

/// Why a command failed, as a sentence for a person.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line asks for something that cannot be; exit 2.
    Usage(String),
    /// The machine, a file or a check said no; exit 1.
    Refused(String),
    /// Ctrl-C or a termination signal; exit 130.
    Interrupted,
    /// The same, and a sentence that says what there is so far.
    InterruptedWith(String),
}

impl Failure {
    /// A refusal of the operating system, said as "cannot `act` `path`: why".
    pub(crate) fn on_path(act: &str, path: &Path, error: &io::Error) -> Failure {
        Failure::Refused(format!("cannot {act} {}: {error}", path.display()))
    }

    /// A refusal of the operating system, said as "cannot `act`: why".
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

    /// The process's exit code.
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
