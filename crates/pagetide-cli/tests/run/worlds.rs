//! Programs natively and in both modes of a run.

use super::{folder, has, pagetide, plain_shell_in};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// The first world is native.
pub(super) const WORLDS: [Option<&[&str]>; 3] = [None, Some(&[]), Some(&["--mmap", "cache"])];

/// Returns `None` with a message without a compiler.
pub(super) fn compiled(source: &str, flags: &str, test: &str) -> Option<TempDir> {
    has("gcc", test).then(|| {
        let folder = folder();
        std::fs::write(folder.path().join("source.c"), source).unwrap();
        plain_shell_in(folder.path(), &format!("gcc -O1 {flags} source.c -o compiled"));
        folder
    })
}

/// Runs natively or in a run with `options`. Returns stdout and stderr.
pub(super) fn printed(
    here: &Path,
    program: &Path,
    arguments: &[&str],
    options: Option<&[&str]>,
) -> (String, String) {
    let mut command = match options {
        None => Command::new(program),
        Some(options) => {
            let mut run = Command::new(pagetide());
            run.args(["run", "--quiet", "--memory", "4M"]).args(options).arg("--").arg(program);
            run
        }
    };
    let output = command.args(arguments).current_dir(here).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?} {options:?}: {}, {errors}", output.status);
    (String::from_utf8(output.stdout).unwrap(), errors)
}

/// Panics if a run's output differs from the native output, and returns the latter.
pub(super) fn printed_in_each(program: &Path, arguments: &[&str]) -> String {
    let printed = WORLDS.map(|options| printed(folder().path(), program, arguments, options).0);
    let [kernel, runs @ ..] = printed;
    for (run, options) in runs.iter().zip(&WORLDS[1..]) {
        let first = kernel.lines().zip(run.lines()).find(|(kernel, run)| kernel != run);
        assert_eq!(first, None, "{arguments:?} {options:?}");
        assert_eq!(kernel, *run, "{arguments:?} {options:?}");
    }
    kernel
}
