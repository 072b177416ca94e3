//! Every function of functions.txt with ordinary and edge arguments: a run gives the kernel's
//! results, errors, bytes, positions and lengths.
//!
//! `call_table.c` prints a line per call. [`DIFFERENCES`] are documented in docs/calls.md.

use super::folder;
use super::worlds::{WORLDS, compiled, printed};
use std::collections::BTreeSet;
use std::path::Path;

const LIST: &str = include_str!("../../../pagetide-preload/functions.txt");

const PAGE: &str = include_str!("../../../../docs/calls.md");

struct Difference {
    row: &'static str,
    calls: &'static [&'static str],
    /// After the arguments.
    kernel: &'static str,
    /// After the arguments.
    run: &'static str,
    /// True on any file system.
    is_always: bool,
}

const BAD_WRITES: &[&str] = &["write(", "pwrite64(", "writev(", "pwritev64(", "pwritev64v2("];
const DIRECT_OPENS: &[&str] = &["open", "__open"];

const DIFFERENCES: &[Difference] = &[
    Difference {
        row: "a write from a bad address past the end",
        calls: BAD_WRITES,
        kernel: "-1 14 ",
        run: "-1 14 ",
        is_always: false,
    },
    Difference {
        row: "sendfile to overlapping bytes of the file",
        calls: &["sendfile"],
        kernel: "100 0 ",
        run: "100 0 ",
        is_always: false,
    },
    Difference {
        row: "ioctl with FICLONE",
        calls: &["ioctl"],
        kernel: "-1 ",
        run: "-1 95 ",
        is_always: false,
    },
    Difference {
        row: "O_DIRECT",
        calls: DIRECT_OPENS,
        kernel: "22 0 | flags c000 ",
        run: "22 0 | flags c000 ",
        is_always: false,
    },
    Difference {
        row: "mmap with MAP_LOCKED",
        calls: &["mmap"],
        kernel: "there 0 ",
        run: "-1 11 ",
        is_always: false,
    },
];

const WITHOUT_ROWS: [(&str, &str); 3] = [
    ("pthread_create", "its result is the kernel's, and new_files.py has its effect"),
    ("io_setup", "libaio's: the C library has none, and it is refused"),
    ("llseek", "no program can be linked with it any more"),
];

impl Difference {
    fn explains(&self, call: &str, kernel: &str, run: &str) -> bool {
        self.calls.iter().any(|known| call.starts_with(known))
            && kernel.starts_with(self.kernel)
            && run.starts_with(self.run)
    }
}

/// Returns differences without a row in the document, and differences that no run shows.
fn outdated(kernel: &[String], runs: &[&Vec<String>]) -> Vec<&'static str> {
    let has_row = |known: &Difference| PAGE.contains(&format!("\n| {}", known.row));
    let is_shown = |known: &Difference| {
        let mut pairs = runs.iter().flat_map(|run| kernel.iter().zip(*run));
        pairs.any(|(kernel, run)| {
            let ((call, was), (_, is)) = (halves(kernel), halves(run));
            kernel != run && known.explains(call, was, is)
        })
    };
    let is_outdated = |known: &&Difference| !has_row(known) || known.is_always && !is_shown(known);
    DIFFERENCES.iter().filter(is_outdated).map(|known| known.row).collect()
}

/// Returns the lines and the number of calls on managed files.
fn lines(program: &Path, options: Option<&[&str]>) -> (Vec<String>, u64) {
    let (text, errors) = printed(folder().path(), program, &[], options);
    let last = errors.lines().last().unwrap_or_default();
    let nr_managed = last.split(", ").nth(1).and_then(|part| part.split(' ').next());
    let nr_managed = nr_managed.and_then(|nr| nr.parse().ok()).expect("the program counts them");
    (text.lines().map(str::to_owned).collect(), nr_managed)
}

fn function_of(line: &str) -> &str {
    let call = line.split('(').next().unwrap_or_default();
    call.rsplit(": ").next().unwrap_or(call)
}

fn halves(line: &str) -> (&str, &str) {
    line.split_once(" = ").unwrap_or((line, ""))
}

fn undocumented(kernel: &[String], run: &[String]) -> Vec<String> {
    let differ = kernel.iter().zip(run).filter(|(kernel, run)| kernel != run);
    let unexplained = differ.filter(|(kernel, run)| {
        let ((call, kernel), (same, run)) = (halves(kernel), halves(run));
        call != same || !DIFFERENCES.iter().any(|known| known.explains(call, kernel, run))
    });
    let mut found: Vec<_> =
        unexplained.map(|(kernel, run)| format!("kernel: {kernel}\nrun:    {run}")).collect();
    if kernel.len() != run.len() {
        found.push(format!("{} lines and {}", kernel.len(), run.len()));
    }
    found
}

fn without_rows(lines: &[String]) -> Vec<&'static str> {
    let called: BTreeSet<&str> = lines.iter().map(|line| function_of(line)).collect();
    let taken = LIST.split("\n\n").find(|block| !block.starts_with('#')).unwrap();
    let has_reason = |name: &str| WITHOUT_ROWS.iter().any(|(known, _)| *known == name);
    let names = taken.split_ascii_whitespace();
    names.filter(|name| !called.contains(name) && !has_reason(name)).collect()
}

#[test]
fn every_call_answers_as_the_kernel_does() {
    let test = "every_call_answers_as_the_kernel_does";
    if !cfg!(target_arch = "x86_64") {
        eprintln!("SKIPPED: {test}: the program has instructions of x86-64");
        return;
    }
    let Some(here) = compiled(include_str!("call_table.c"), "-w", test) else { return };
    let program = here.path().join("compiled");
    let [kernel, plain, mapped] = std::thread::scope(|scope| {
        let program = &program;
        let threads = WORLDS.map(|options| scope.spawn(move || lines(program, options)));
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(without_rows(&kernel.0), [""; 0], "functions of functions.txt without a row");
    assert_eq!(outdated(&kernel.0, &[&plain.0, &mapped.0]), [""; 0], "documented differences");
    for (mode, (run, nr_managed)) in [("plain", plain), ("mapped", mapped)] {
        assert!(nr_managed > 3000, "{mode}: {nr_managed} calls on managed files");
        let found = undocumented(&kernel.0, &run);
        let first = &found[..found.len().min(20)];
        assert!(found.is_empty(), "{mode}: {} differ:\n{}", found.len(), first.join("\n"));
    }
}
