//! Runs the Python package's tests with pytest, in a virtual environment below the target folder.
//!
//! ```text
//! <target folder>/python/   bin/python with numpy, pytest and others: installed once
//!                 package/  the package, laid out as an installation has it
//!                 wheels/   --long: the package as maturin builds it, to be installed
//! ```
//!
//! Cargo builds the extension module with the packages and features of the tests, so shared code is
//! compiled once. The long form also builds the wheel.

use crate::step::{LONG, Outcome, StepContext};
use std::ffi::OsString;
use std::path::Path;
use std::{fs, io};

const PACKAGES: [&str; 2] = ["numpy>=1.26", "pytest>=8"];
/// Optional packages. Tests that need a missing one skip loudly.
const COMPANIONS: [&str; 7] =
    ["duckdb", "fsspec", "matplotlib", "pandas", "pyarrow", "pytest-asyncio", "zarr>=3"];
/// For long tests only.
const ENGINES: [&str; 5] = ["distributed", "mpi4py", "mypy", "polars", "ray"];
const MATURIN: [&str; 1] = ["maturin>=1.9,<2"];
const DOOR: &str = "crates/pagetide-py";

/// Builds the package and runs its tests. Skipped without Python or an index.
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
    let python = folder.join("bin/python").to_string_lossy().into_owned();
    if let Some(why) = install_tools(context, &folder.to_string_lossy(), &python) {
        return Outcome::Skipped(why);
    }
    let build = ["build", "--workspace", "--all-targets", "--locked"];
    match context.cargo(&build) {
        Outcome::Done => {}
        outcome => return outcome,
    }
    let package = folder.join("package");
    if let Err(error) = lay_out(context, &package) {
        return Outcome::Skipped(format!("{} cannot be made: {error}", package.display()));
    }
    // Keeps the source folder clean.
    let clean = ("PYTHONDONTWRITEBYTECODE", OsString::from("1"));
    let test = ["-m", "pytest", "-q", "-p", "no:cacheprovider", DOOR];
    let here = ("PYTHONPATH", package.into_os_string());
    match context.command(&python, &test, &[clean.clone(), here]) {
        Outcome::Done if context.has_env(LONG) => {
            run_wheel(context, &folder, &python, &test, &[clean])
        }
        outcome => outcome,
    }
}

fn run_wheel(
    context: &StepContext,
    folder: &Path,
    python: &str,
    test: &[&str],
    env: &[(&str, OsString)],
) -> Outcome {
    let has_maturin = ["-c", "import maturin"];
    if context.command(python, &has_maturin, &[]) != Outcome::Done
        && !install(context, python, &MATURIN)
    {
        return Outcome::Skipped(format!("no index to install {} from", MATURIN.join(", ")));
    }
    let (manifest, wheels) = (format!("{DOOR}/Cargo.toml"), folder.join("wheels"));
    let wheels = wheels.to_string_lossy();
    let build = ["-m", "maturin", "build", "--locked", "--compatibility", "linux"];
    let build = [&build[..], &["--manifest-path", &manifest, "--out", &wheels]].concat();
    let command = context.target_dir().join("debug/pagetide");
    let built =
        with_command(&context.root().join(DOOR), &command, || context.command(python, &build, env));
    match built {
        Ok(Outcome::Done) => {}
        Ok(outcome) => return outcome,
        Err(error) => return Outcome::Skipped(format!("the command cannot be copied: {error}")),
    }
    let install = ["-m", "pip", "install", "--force-reinstall", "--no-deps", "--no-index"];
    let install = [&install[..], &["--find-links", &wheels, "pagetide"]].concat();
    match context.command(python, &install, env) {
        Outcome::Done => context.command(python, test, env),
        outcome => outcome,
    }
}

/// Lays out the package in the folder `package`, and the command beside Python, like an
/// installation.
///
/// # Errors
/// Fails if a file cannot be read or written.
fn lay_out(context: &StepContext, package: &Path) -> io::Result<()> {
    let (door, built) = (context.root().join(DOOR), context.target_dir().join("debug"));
    if package.exists() {
        fs::remove_dir_all(package)?;
    }
    let modules = package.join("pagetide");
    fs::create_dir_all(&modules)?;
    for entry in fs::read_dir(door.join("python/pagetide"))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), modules.join(entry.file_name()))?;
        }
    }
    fs::copy(built.join("lib_pagetide.so"), modules.join("_pagetide.abi3.so"))?;
    let version = env!("CARGO_PKG_VERSION");
    let facts = package.join(format!("pagetide-{version}.dist-info"));
    fs::create_dir_all(&facts)?;
    let metadata = format!("Metadata-Version: 2.1\nName: pagetide\nVersion: {version}\n");
    fs::write(facts.join("METADATA"), metadata)?;
    let project = fs::read_to_string(door.join("pyproject.toml"))?;
    fs::write(facts.join("entry_points.txt"), entry_points(&project))?;
    let command = package.with_file_name("bin").join("pagetide");
    fs::copy(built.join("pagetide"), command).map(drop)
}

/// Converts the tables of entry points in `pyproject.toml` to `entry_points.txt`.
fn entry_points(project: &str) -> String {
    let mut text = String::new();
    let mut is_inside = false;
    for line in project.lines() {
        if line.starts_with('[') {
            let table = line.strip_prefix("[project.entry-points.\"");
            is_inside = table.is_some();
            if let Some(group) = table.and_then(|rest| rest.strip_suffix("\"]")) {
                text.push_str(&format!("[{group}]\n"));
            }
        } else if is_inside && !line.is_empty() {
            text.push_str(&line.replace('"', ""));
            text.push('\n');
        }
    }
    text
}

/// Runs `build` with the command, if built, in maturin's folder for scripts, to be installed beside
/// Python.
///
/// # Errors
/// Fails if the command cannot be copied there.
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

fn install_tools(context: &StepContext, folder: &str, python: &str) -> Option<String> {
    let has_tools = ["-c", "import numpy, pytest"];
    if context.command(python, &has_tools, &[]) != Outcome::Done {
        if context.command("python3", &["-m", "venv", folder], &[]) != Outcome::Done {
            return Some(format!("python3 -m venv {folder} failed: install its venv and pip"));
        }
        if !install(context, python, &PACKAGES) {
            return Some(format!("no index to install {} from", PACKAGES.join(", ")));
        }
    }
    let companions = "import duckdb, fsspec, matplotlib, pandas, pyarrow, pytest_asyncio, zarr";
    if context.command(python, &["-c", companions], &[]) != Outcome::Done {
        install(context, python, &COMPANIONS);
    }
    let engines = ["-c", "import distributed, mpi4py, mypy, polars, ray"];
    if context.has_env(LONG) && context.command(python, &engines, &[]) != Outcome::Done {
        install(context, python, &ENGINES);
    }
    None
}

/// Returns true if pip succeeded. The timeout is for machines without a network.
fn install(context: &StepContext, python: &str, packages: &[&str]) -> bool {
    let pip = ["300", python, "-m", "pip", "install", "-q", "--retries", "0"];
    context.command("timeout", &[&pip[..], packages].concat(), &[]) == Outcome::Done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_points_are_those_of_the_project() {
        let project = "[project]\nname = \"a\"\n\n[project.entry-points.\"fsspec.specs\"]\n\
                       a = \"a.b:C\"\n\n[tool.maturin]\nstrip = true\n";
        assert_eq!(entry_points(project), "[fsspec.specs]\na = a.b:C\n");
    }
}
