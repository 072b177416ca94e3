//! Builds the tests and runs them in parallel.
//!
//! **Problem.** `cargo test` runs test programs one after another, and many leave CPUs idle.
//!
//! ```text
//! cargo test --no-run --message-format=json --> programs   the test programs that cargo has built
//! one thread a CPU, longest program first   --> runner     runs them, a log each
//! step log, in the order of their ends      --> tally, failures
//! ```
//!
//! Each program gets its package's folder and cargo's variables. Doc tests are one more program:
//! `cargo test --doc`. A program without a result is a failed test.

mod programs;
mod runner;

use crate::step::{Outcome, StepContext};
use programs::{Folders, Program};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const ALL: [&str; 1] = ["--workspace"];
const FAST: [&str; 4] = ["-p", "pagetide-core", "-p", "xtask"];

pub(crate) fn build_all(context: &StepContext) -> Outcome {
    build(context, &ALL).err().unwrap_or(Outcome::Done)
}

pub(crate) fn run_all(context: &StepContext) -> Outcome {
    run(context, &ALL)
}

pub(crate) fn build_fast(context: &StepContext) -> Outcome {
    build(context, &FAST).err().unwrap_or(Outcome::Done)
}

pub(crate) fn run_fast(context: &StepContext) -> Outcome {
    run(context, &FAST)
}

fn run(context: &StepContext, packages: &[&str]) -> Outcome {
    let mut programs = match build(context, packages) {
        Ok(programs) => programs,
        Err(outcome) => return outcome,
    };
    programs.push(doc_tests(context, packages));
    programs::sort_longest_first(&mut programs);
    runner::run(context, &programs)
}

/// Compiles the tests and returns their programs. Takes a second if nothing changed.
///
/// # Errors
/// Fails with the outcome of the step if the compiler failed or the time was over.
fn build(context: &StepContext, packages: &[&str]) -> Result<Vec<Program>, Outcome> {
    let messages = context.log().with_extension("json");
    let failed = |error| {
        println!("cannot use {}: {error}", messages.display());
        Outcome::Failed
    };
    std::fs::write(&messages, "").map_err(failed)?;
    let flags = ["--no-run", "--locked", "--message-format=json-render-diagnostics"];
    let arguments = [&["test"], packages, &flags].concat();
    match context.command_into(&messages, "cargo", &arguments, &[]) {
        Outcome::Done => {}
        outcome => return Err(outcome),
    }
    let messages = std::fs::read_to_string(&messages).map_err(failed)?;
    let folders = Folders { libraries: sysroot_libraries(), python: python_folder() };
    Ok(programs::of_messages(&messages, &folders))
}

/// Returns the folder of the Python interpreter. A version manager's `python3` is a shell script
/// that takes five times as long to start.
fn python_folder() -> Option<PathBuf> {
    let ask = ["-c", "import sys; print(sys.executable)"];
    let output = std::process::Command::new("python3").args(ask).output().ok()?;
    let program = String::from_utf8(output.stdout).ok()?;
    Path::new(program.trim()).parent().map(Path::to_owned)
}

/// Returns the folder of rustc's shared libraries, which tests of a procedural macro need.
fn sysroot_libraries() -> Option<PathBuf> {
    let output = std::process::Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(sysroot.trim()).join("lib"))
}

fn doc_tests(context: &StepContext, packages: &[&str]) -> Program {
    let flags = ["--doc", "--locked", "--no-fail-fast", "--", "--show-output"];
    let arguments = [&["test"], packages, &flags].concat();
    Program {
        name: "doc tests".to_owned(),
        path: PathBuf::from("cargo"),
        arguments: arguments.into_iter().map(OsString::from).collect(),
        folder: context.root().to_owned(),
        env: Vec::new(),
        has_result: true,
    }
}
