//! Output channels: results on stdout, all other messages on stderr.
//!
//! stdout carries only the result: a table, or a document with `--json`. Bars and colours appear
//! only if stderr is a terminal.

use crate::document::Document;
use crate::failure::Failure;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use pagetide_core::units::Bytes;
use serde::Serialize;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const BAR_STEPS: u64 = 1000;

pub(crate) fn parse_size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error| format!("{error}"))
}

/// Prints to stdout. A closed reader is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::on("write to stdout", &error))
        }
        _ => Ok(()),
    }
}

/// The argument of commands that print rows.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct JsonArgs {
    /// Print one JSON document instead of the table.
    #[arg(long)]
    json: bool,
}

impl JsonArgs {
    pub(crate) fn print<R: Serialize, A: Serialize>(
        self,
        document: &Document<R, A>,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.json { print(&document.to_text()?) } else { print(&text()) }
    }
}

pub(crate) fn note(sentence: &str) {
    // If stderr is closed, the message is lost.
    let _ = writeln!(io::stderr().lock(), "{sentence}");
}

/// Prints only if stderr is not a terminal.
pub(crate) fn step(sentence: &str) {
    if !io::stderr().is_terminal() {
        note(sentence);
    }
}

/// A bar, hidden if stderr is not a terminal.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(label: String) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(BAR_STEPS), draw_target());
        if let Ok(style) =
            ProgressStyle::with_template("{msg:34} [{bar:30}] {percent:>3}%  {elapsed}")
        {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(label);
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }

    pub(crate) fn with_time_left(label: String) -> Progress {
        let progress = Progress::new(label);
        let template = "{msg:34} [{bar:30}] {percent:>3}%  {elapsed}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            progress.0.set_style(style.progress_chars("=> "));
        }
        progress
    }

    /// Takes a `share` of 0 to 1.
    pub(crate) fn set(&self, share: f64) {
        self.0.set_position((share.clamp(0.0, 1.0) * BAR_STEPS as f64) as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

const PARTS: f64 = 1000.0;

/// One bar for several runs, possibly in parallel.
#[derive(Debug)]
pub(crate) struct JointProgress {
    bar: Progress,
    nr_runs: usize,
    nr_parts_done: AtomicU64,
}

impl JointProgress {
    pub(crate) fn new(label: String, nr_runs: usize) -> JointProgress {
        JointProgress { bar: Progress::new(label), nr_runs, nr_parts_done: AtomicU64::new(0) }
    }

    /// Returns a function that takes the finished share of a run, 0 to 1.
    pub(crate) fn of_run(&self) -> impl FnMut(f64) {
        let mut nr_before = 0;
        move |share| {
            let nr_parts = (share * PARTS) as u64;
            let more = nr_parts.saturating_sub(nr_before);
            nr_before = nr_parts;
            let sum = self.nr_parts_done.fetch_add(more, Ordering::Relaxed) + more;
            self.bar.set(sum as f64 / (PARTS * self.nr_runs as f64));
        }
    }
}

/// Entries of a trace, with rate and remaining time. Threads may share the meter. Hidden if stderr
/// is not a terminal.
#[derive(Debug)]
pub(crate) struct Meter(ProgressBar);

impl Meter {
    /// Makes a meter. A `total` adds a bar and the remaining time.
    pub(crate) fn new(label: String, total: Option<u64>) -> Meter {
        let bar = ProgressBar::with_draw_target(total, draw_target());
        let template = match total {
            Some(_) => "{msg:24} [{bar:30}] {percent:>3}%  {rate:>10}  {eta} left",
            None => "{msg:24} {human_pos} entries  {rate}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
                // A display error is no failure.
                let _ = write!(out, "{:.1} M/s", state.per_sec() / 1e6);
            };
            bar.set_style(style.progress_chars("=> ").with_key("rate", rate));
        }
        bar.set_message(label);
        bar.enable_steady_tick(Duration::from_millis(200));
        Meter(bar)
    }

    pub(crate) fn add(&self, entries: u64) {
        self.0.inc(entries);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn draw_target() -> ProgressDrawTarget {
    if io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    }
}
