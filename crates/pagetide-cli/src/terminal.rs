//! Where words go: results on stdout, everything else on stderr, colour only for eyes.
//!
//! Problem: the same command is read by a person and by a script. Idea: stdout carries the one
//! thing asked for (a table, or with `--json` one document); progress, notes and errors go to
//! stderr; bars and colours appear only where stderr is a terminal.
//!
//! Ignored: terminals' widths beyond what the bar library finds out by itself.

use crate::failure::Failure;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pagetide_core::units::Bytes;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Steps in a full bar; progress is given as a share of one.
const BAR_STEPS: u64 = 1000;

/// Parses a size for the command line.
pub(crate) fn parse_size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error| format!("{error}"))
}

/// Prints to stdout; a reader that has gone away is no error.
///
/// # Errors
/// Where stdout cannot take it (a full disk behind a redirection).
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::on("write to stdout", &error))
        }
        _ => Ok(()),
    }
}

/// Prints `value` as the one JSON document on stdout.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut text =
        serde_json::to_string_pretty(value).map_err(|error| Failure::on("write JSON", &error))?;
    text.push('\n');
    print(&text)
}

/// Says something beside the result, on stderr.
pub(crate) fn note(sentence: &str) {
    // A closed stderr leaves nobody to tell.
    let _ = writeln!(io::stderr().lock(), "{sentence}");
}

/// How far a step has come; invisible where stderr is not a terminal.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar named `label`, at zero.
    pub(crate) fn new(label: String) -> Progress {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(BAR_STEPS), target);
        if let Ok(style) =
            ProgressStyle::with_template("{msg:34} [{bar:30}] {percent:>3}%  {elapsed}")
        {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(label);
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }

    /// Moves the bar to `share` of the whole, 0 to 1.
    pub(crate) fn set(&self, share: f64) {
        self.0.set_position((share.clamp(0.0, 1.0) * BAR_STEPS as f64) as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
