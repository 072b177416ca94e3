//! Locks under a run end, stay and move as under the kernel. The same holds for executing a file
//! and for a file's length, because both depend on the open descriptors of other processes.

use super::worlds::{WORLDS, compiled, printed};
use super::{folder, has, is_long, pagetide, plain_shell_in, run_in};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const MATRIX: &str = "lock_matrix.c";

/// Compiles the matrix into the folder, also as a static program. Returns false with a message
/// without a compiler.
fn compile_matrix(here: &Path, test: &str) -> bool {
    if !has("gcc", test) {
        return false;
    }
    std::fs::write(here.join(MATRIX), include_str!("lock_matrix.c")).unwrap();
    for (flags, name) in [(&["-pthread"][..], "compiled"), (&["-pthread", "-static"], "static")] {
        let mut compile = Command::new("gcc");
        compile.args(["-O1", "-w", "-o", name, MATRIX]).args(flags).current_dir(here);
        if !compile.status().unwrap().success() {
            assert_eq!(name, "static");
            eprintln!("SKIPPED: {test}: no static C library is installed");
            return false;
        }
    }
    true
}

/// Returns the matrix's lines natively, or in a run with these options.
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

/// Checks both modes against the native lines.
fn assert_same(worlds: [Vec<String>; 3]) {
    let [kernel, plain, mapped] = worlds;
    for (mode, run) in [("plain", plain), ("mapped", mapped)] {
        let pairs = kernel.iter().zip(&run).filter(|(kernel, run)| kernel != run);
        let found: Vec<_> =
            pairs.map(|(kernel, run)| format!("kernel: {kernel}\nrun:    {run}")).collect();
        let first = &found[..found.len().min(20)];
        assert!(found.is_empty(), "{mode}: {} differ:\n{}", found.len(), first.join("\n"));
        assert_eq!(kernel.len(), run.len(), "{mode}");
    }
}

#[test]
fn locks_end_and_stay_as_the_kernel_has_them_directly_after_each_call() {
    let test = "locks_end_and_stay_as_the_kernel_has_them_directly_after_each_call";
    let here = folder();
    if !compile_matrix(here.path(), test) {
        return;
    }
    let found = std::thread::scope(|scope| {
        let compiled = here.path();
        let threads = WORLDS.map(|options| scope.spawn(move || lines(compiled, options)));
        threads.map(|thread| thread.join().unwrap())
    });
    assert!(found[0].len() > 800, "{} cases", found[0].len());
    assert_same(found);
}

/// Checks that both modes print `expected` in a case of `held_calls.c`, which holds up a thread.
fn assert_held_calls(case: &str, expected: &str, test: &str) {
    let Some(program) = compiled(include_str!("held_calls.c"), "-pthread", test) else { return };
    let program = program.path().join("compiled");
    for options in WORLDS.into_iter().flatten() {
        let here = folder();
        let mut command = Command::new(&program);
        command.arg(case).arg(pagetide()).args(["run", "--quiet", "--memory", "4M"]).args(options);
        let output = command.arg("--").arg(&program).current_dir(here.path()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(77) {
            eprintln!("SKIPPED: {test}: no filter can be installed: {errors}");
            return;
        }
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{options:?}: {errors}");
    }
}

#[test]
fn a_first_lock_is_kept_while_another_thread_closes_a_received_descriptor() {
    let test = "a_first_lock_is_kept_while_another_thread_closes_a_received_descriptor";
    assert_held_calls("lock", "w, a lock\n", test);
}

#[test]
fn a_lock_that_is_about_to_be_taken_is_kept_as_another_thread_closes() {
    let test = "a_lock_that_is_about_to_be_taken_is_kept_as_another_thread_closes";
    assert_held_calls("overtaken", "w, a lock\n", test);
}

#[test]
fn a_first_lock_is_kept_while_another_thread_creates_the_file() {
    let test = "a_first_lock_is_kept_while_another_thread_creates_the_file";
    assert_held_calls("created", "-, a lock\n", test);
}

#[test]
fn a_thread_reads_a_file_whose_description_another_thread_has_made_the_kernels() {
    let test = "a_thread_reads_a_file_whose_description_another_thread_has_made_the_kernels";
    assert_held_calls("forgotten", "w, no lock\n", test);
}

/// A process outside the run that opens or executes files on request.
struct Outside(Child);

impl Outside {
    fn begin(here: &Path) -> Outside {
        std::fs::write(here.join("outside.py"), include_str!("outside.py")).unwrap();
        let mut command = Command::new("python3");
        let started = command.arg("outside.py").current_dir(here).stdout(Stdio::piped()).spawn();
        let mut outside = Outside(started.unwrap());
        let mut line = String::new();
        BufReader::new(outside.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "listening\n");
        outside
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        // The process has ended with the connection.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the lines of a script that uses an outside process.
fn lines_of_script(script: &str, options: Option<&[&str]>) -> Vec<String> {
    let here = folder();
    std::fs::write(here.path().join("script.py"), script).unwrap();
    let _outside = Outside::begin(here.path());
    let text = printed(here.path(), Path::new("python3"), &["script.py"], options).0;
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_program_can_be_executed_directly_after_its_last_writers_close() {
    if has("python3", "a_program_can_be_executed_directly_after_its_last_writers_close") {
        let script = include_str!("written_programs.py");
        assert_same(WORLDS.map(|options| lines_of_script(script, options)));
    }
}

#[test]
fn a_file_that_is_cut_by_any_call_is_short_for_all() {
    if has("python3", "a_file_that_is_cut_by_any_call_is_short_for_all") {
        let script = include_str!("cut_files.py");
        assert_same(WORLDS.map(|options| lines_of_script(script, options)));
    }
}

/// A system call filter acts like a container's filter.
#[test]
fn a_description_is_kept_and_that_is_said_once_where_kcmp_is_refused() {
    let test = "a_description_is_kept_and_that_is_said_once_where_kcmp_is_refused";
    if !has("gcc", test) || !has("python3", test) {
        return;
    }
    let here = folder();
    std::fs::write(here.path().join("refuse.c"), include_str!("refuse_kcmp.c")).unwrap();
    plain_shell_in(here.path(), "gcc -O1 -w refuse.c -o refuse");
    let script = here.path().join("script.py");
    std::fs::write(&script, include_str!("kept_descriptions.py")).unwrap();
    let run = [pagetide().as_os_str(), "run".as_ref(), "--memory".as_ref(), "4M".as_ref()];
    let mut command = Command::new(here.path().join("refuse"));
    let output =
        command.args(run).args(["--", "python3", "script.py"]).current_dir(here.path()).output();
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) {
        eprintln!("SKIPPED: {test}: no filter can be installed: {errors}");
        return;
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{errors}");
    assert_eq!(errors.matches("refuses to compare").count(), 1, "{errors}");
    let plain = run_in(here.path(), "4M", &["python3", "script.py"]);
    let errors = String::from_utf8_lossy(&plain.stderr);
    assert_eq!(String::from_utf8_lossy(&plain.stdout), "ok\n", "{errors}");
    assert!(!errors.contains("refuses to compare"), "{errors}");
}
