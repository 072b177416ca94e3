//! The Python door's own tests: built by maturin, and run by pytest, in a folder of virtual
//! environments that a check makes for itself below the target folder.
//!
//! ```text
//! <target folder>/python/   bin/python with maturin, numpy, pytest: installed once
//!                 wheels/   the package, built anew each time, in the dev profile
//! ```

use crate::step::{Outcome, StepContext};
use std::ffi::OsString;

const PACKAGES: [&str; 3] = ["maturin>=1.9,<2", "numpy>=1.26", "pytest>=8"];

/// Builds the package and runs its tests; skipped where there is no Python or no index.
pub(crate) fn run(context: &StepContext) -> Outcome {
    let is_new_enough = "import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))";
    if context.command("python3", &["-c", is_new_enough], &[]) != Outcome::Done {
        return Outcome::Skipped("no python3 with venv, 3.11 or newer: install one".to_owned());
    }
    let folder = context.target_dir().join("python");
    let (wheels, python) = (folder.join("wheels"), folder.join("bin/python"));
    let (wheels, python) = (wheels.to_string_lossy(), python.to_string_lossy());
    if let Some(why) = install_tools(context, &folder.to_string_lossy(), &python) {
        return Outcome::Skipped(why);
    }
    let door = "crates/pagetide-py";
    let manifest = format!("{door}/Cargo.toml");
    let build = ["-m", "maturin", "build", "--locked", "--compatibility", "linux"];
    let build = [&build[..], &["--manifest-path", &manifest, "--out", &wheels]].concat();
    let install = ["-m", "pip", "install", "--force-reinstall", "--no-deps", "--no-index"];
    let install = [&install[..], &["--find-links", &wheels, "pagetide"]].concat();
    let test = ["-m", "pytest", "-q", "-p", "no:cacheprovider", door];
    // Nothing is left behind among the sources.
    let env = [("PYTHONDONTWRITEBYTECODE", OsString::from("1"))];
    for arguments in [&build[..], &install, &test] {
        let outcome = context.command(&python, arguments, &env);
        if outcome != Outcome::Done {
            return outcome;
        }
    }
    Outcome::Done
}

/// Has the environment's folder hold what builds and tests; says why it cannot.
fn install_tools(context: &StepContext, folder: &str, python: &str) -> Option<String> {
    let has_tools = ["-c", "import maturin, numpy, pytest"];
    if context.command(python, &has_tools, &[]) == Outcome::Done {
        return None;
    }
    if context.command("python3", &["-m", "venv", folder], &[]) != Outcome::Done {
        return Some(format!("python3 -m venv {folder} failed: install its venv and pip"));
    }
    // A machine without a network must not hang here.
    let install = [&["120", python, "-m", "pip", "install", "-q", "--retries", "0"], &PACKAGES[..]];
    let installed = context.command("timeout", &install.concat(), &[]);
    (installed != Outcome::Done)
        .then(|| format!("no index to install {} from", PACKAGES.join(", ")))
}
