//! The Python door's own tests: built by maturin, and run by pytest, in a folder of virtual
//! environments that a check makes for itself below the target folder.
//!
//! ```text
//! <target folder>/python/   bin/python with maturin, numpy, pytest and others: installed once
//!                 wheels/   the package, built anew each time, in the dev profile
//! ```

use crate::step::{Outcome, StepContext};
use std::ffi::OsString;
use std::path::Path;
use std::{fs, io};

const PACKAGES: [&str; 3] = ["maturin>=1.9,<2", "numpy>=1.26", "pytest>=8"];
/// What the package works with where it is there; tests that want one skip loudly without.
const COMPANIONS: [&str; 6] =
    ["fsspec", "matplotlib", "pandas", "pyarrow", "pytest-asyncio", "zarr>=3"];
/// For the long forms alone.
const ENGINES: [&str; 3] = ["distributed", "mpi4py", "ray"];

/// Builds the package and runs its tests; skipped where there is no Python or no index.
pub(crate) fn run(context: &StepContext) -> Outcome {
    let is_new_enough = "import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))";
    match context.command("python3", &["-c", is_new_enough], &[]) {
        Outcome::Done => {}
        Outcome::TimedOut => return Outcome::TimedOut,
        _ => {
            let why = "no python3 with venv, 3.11 or newer: install one";
            return Outcome::Skipped(why.to_owned());
        }
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
    let command = context.target_dir().join("debug/pagetide");
    let built = with_command(&context.root().join(door), &command, || {
        context.command(&python, &build, &env)
    });
    match built {
        Ok(Outcome::Done) => {}
        Ok(outcome) => return outcome,
        Err(error) => return Outcome::Skipped(format!("the command cannot be copied: {error}")),
    }
    for arguments in [&install[..], &test] {
        let outcome = context.command(&python, arguments, &env);
        if outcome != Outcome::Done {
            return outcome;
        }
    }
    Outcome::Done
}

/// Does `build` while the command, if it is built, lies where maturin takes it from: what is there
/// is installed beside Python. The command has its library inside.
///
/// # Errors
/// Where it cannot be put there.
pub(crate) fn with_command<T>(
    door: &Path,
    command: &Path,
    build: impl FnOnce() -> T,
) -> io::Result<T> {
    let data = door.join("pagetide.data");
    fs::create_dir_all(data.join("scripts"))?;
    if command.is_file() {
        fs::copy(command, data.join("scripts/pagetide"))?;
    }
    let built = build();
    fs::remove_dir_all(&data)?;
    Ok(built)
}

/// Has the environment's folder hold what builds and tests; says why it cannot.
fn install_tools(context: &StepContext, folder: &str, python: &str) -> Option<String> {
    let has_tools = ["-c", "import maturin, numpy, pytest"];
    if context.command(python, &has_tools, &[]) != Outcome::Done {
        if context.command("python3", &["-m", "venv", folder], &[]) != Outcome::Done {
            return Some(format!("python3 -m venv {folder} failed: install its venv and pip"));
        }
        if !install(context, python, &PACKAGES) {
            return Some(format!("no index to install {} from", PACKAGES.join(", ")));
        }
    }
    let companions = "import fsspec, matplotlib, pandas, pyarrow, pytest_asyncio, zarr";
    if context.command(python, &["-c", companions], &[]) != Outcome::Done {
        install(context, python, &COMPANIONS);
    }
    let is_long = std::env::var_os("PAGETIDE_LONG").is_some();
    let engines = ["-c", "import distributed, mpi4py, ray"];
    if is_long && context.command(python, &engines, &[]) != Outcome::Done {
        install(context, python, &ENGINES);
    }
    None
}

/// Whether pip could; a machine without a network must not hang here.
fn install(context: &StepContext, python: &str, packages: &[&str]) -> bool {
    let pip = ["300", python, "-m", "pip", "install", "-q", "--retries", "0"];
    context.command("timeout", &[&pip[..], packages].concat(), &[]) == Outcome::Done
}
