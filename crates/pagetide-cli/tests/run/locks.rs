//! Locks under a run end, stay and move as under the kernel.

use super::{folder, has, is_long, pagetide};
use std::path::Path;
use std::process::Command;

const MATRIX: &str = "lock_matrix.c";

/// Compiles the matrix into the folder, as a program and as a static one. Returns false, and says
/// so, where there is no compiler.
fn compile_matrix(here: &Path, test: &str) -> bool {
    if !has("gcc", test) {
        return false;
    }
    std::fs::write(here.join(MATRIX), include_str!("lock_matrix.c")).unwrap();
    for (flags, name) in [(&["-pthread"][..], "compiled"), (&["-pthread", "-static"], "static")] {
        let mut compile = Command::new("gcc");
        compile.args(["-O1", "-w", "-o", name, MATRIX]).args(flags).current_dir(here);
        assert!(compile.status().unwrap().success(), "{name}");
    }
    true
}

/// What the matrix prints natively, or in a run with these options.
fn lines(compiled: &Path, options: Option<&[&str]>) -> Vec<String> {
    let here = folder();
    for name in ["compiled", "static"] {
        std::fs::copy(compiled.join(name), here.path().join(name)).unwrap();
    }
    let mut command = Command::new("./compiled");
    if let Some(options) = options {
        command.arg(pagetide()).args(["run", "--quiet", "--memory", "4M"]).args(options).arg("--");
    }
    command.arg("./compiled").current_dir(here.path());
    if is_long() {
        command.env("LOCKS_ALL", "1");
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{options:?}: {}, {errors}", output.status);
    let said = format!("stand-in: {}", u8::from(options.is_some()));
    assert!(errors.contains(&said), "{options:?}: {errors}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Ways to end a lock after which the server keeps it for up to 50 ms, or until the process ends.
const LATE: [&str; 2] = ["early_", " stays_by_exec,"];

#[test]
fn locks_end_and_stay_as_the_kernel_has_them_directly_after_each_call() {
    let test = "locks_end_and_stay_as_the_kernel_has_them_directly_after_each_call";
    let here = folder();
    if !compile_matrix(here.path(), test) {
        return;
    }
    let worlds = [None, Some(&[][..]), Some(&["--mmap", "cache"][..])];
    let [kernel, plain, mapped] = std::thread::scope(|scope| {
        let compiled = here.path();
        let threads = worlds.map(|options| scope.spawn(move || lines(compiled, options)));
        threads.map(|thread| thread.join().unwrap())
    });
    assert!(kernel.len() > 800, "{} cases", kernel.len());
    for (mode, run) in [("plain", plain), ("mapped", mapped)] {
        assert_eq!(kernel.len(), run.len(), "{mode}");
        let pairs = kernel.iter().zip(&run).filter(|(kernel, run)| kernel != run);
        let found: Vec<_> = pairs
            .filter(|(kernel, _)| !LATE.iter().any(|way| kernel.contains(way)))
            .map(|(kernel, run)| format!("kernel: {kernel}\nrun:    {run}"))
            .collect();
        let first = &found[..found.len().min(20)];
        assert!(found.is_empty(), "{mode}: {} differ:\n{}", found.len(), first.join("\n"));
    }
}
