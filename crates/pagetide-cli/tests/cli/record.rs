//! `pagetide record --filemap`: the kernel's tracepoints, if permitted.

use crate::run::{pagetide, run, stderr};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const NOBODY: u32 = 65_534;

/// Returns the folder of instances, or `None` with a skip message.
fn instances(test: &str) -> Option<PathBuf> {
    let root = Path::new("/sys/kernel/tracing");
    let has_events = root.join("events/filemap/mm_filemap_get_pages/enable").is_file();
    // Unique, because tests run in parallel.
    let own = root.join("instances").join(format!("probe-{}-{test}", std::process::id()));
    if has_events && std::fs::create_dir(&own).is_ok() {
        std::fs::remove_dir(&own).expect("it was just made");
        return Some(root.join("instances"));
    }
    let line = format!("SKIPPED: {test}: tracing the kernel's page cache takes root and tracefs\n");
    eprint!("{line}");
    if let Ok(path) = std::env::var("PAGETIDE_SKIP_LOG") {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(path);
        log.and_then(|mut log| log.write_all(line.as_bytes())).expect("the skip log takes a line");
    }
    None
}

/// Makes a folder on a disk, read through the kernel's page cache.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

fn accesses_of(record: &Path, args: &[&str]) -> serde_json::Value {
    let name = record.to_str().expect("a plain name");
    let output = run(&[&["trace", "info", name, "--json"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    document["rows"][0].clone()
}

#[test]
fn reads_of_a_program_and_its_children_are_recorded_hits_and_misses() {
    let Some(instances) = instances("reads_of_a_program_and_its_children_are_recorded") else {
        return;
    };
    let here = folder();
    std::fs::write(here.path().join("data"), vec![7; 1 << 20]).expect("room");
    let out = here.path().join("t.ptt");
    // Two passes by a child of the shell, a page at a time: the second pass only hits.
    let line =
        "dd if=data of=/dev/null bs=4k 2>/dev/null; dd if=data bs=4k 2>/dev/null | wc -c; exit 9";
    let mut command = pagetide();
    command.args(["record", "--filemap", "--output"]).arg(&out);
    command.args(["--", "sh", "-c", line]).current_dir(here.path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let own = instances.join(format!("pagetide-{}", child.id()));
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
    assert_eq!(output.stdout, b"1048576\n");
    let said = stderr(&output);
    assert!(said.contains("not recorded") && said.contains("accesses"), "{said}");
    let info = accesses_of(&out, &[]);
    let accesses = info["accesses"].as_u64().expect("a number");
    assert!((512..2000).contains(&accesses), "{info}");
    assert!(!own.exists(), "its instance is left");
    // Pages are used twice, so this memory hits at least half.
    let name = out.to_str().expect("a plain name");
    let mrc = run(&["replay", name, "--frames", "4096", "--policy", "lru", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&mrc.stdout).expect("one JSON document");
    let misses = told["rows"][0]["misses"].as_u64().expect("a number");
    assert!(misses * 2 < accesses + 100, "{told}");
}

#[test]
fn a_signal_is_the_programs_and_the_instance_goes() {
    let Some(instances) = instances("a_signal_is_the_programs_and_the_instance_goes") else {
        return;
    };
    let here = folder();
    let mut command = pagetide();
    command.args(["record", "--filemap", "--", "sleep", "1000"]).current_dir(here.path());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let own = instances.join(format!("pagetide-{}", child.id()));
    let mut said = String::new();
    let errors = child.stderr.take().expect("a pipe");
    BufReader::new(errors).read_line(&mut said).expect("a notice");
    assert!(own.is_dir(), "{said}");
    let killed = std::process::Command::new("kill").arg(child.id().to_string()).status();
    assert!(killed.expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(128 + 15));
    assert!(!own.exists());
    assert!(here.path().join("filemap.ptt").is_file());
}

#[test]
fn a_program_that_is_not_there_is_127_and_one_sentence() {
    let here = folder();
    let mut command = pagetide();
    command.args(["record", "--filemap", "--", "no-such-program"]).current_dir(here.path());
    let output = command.output().expect("it runs");
    let said = stderr(&output);
    assert_eq!((output.status.code(), said.lines().count()), (Some(127), 1), "{said}");
    assert!(said.contains("no-such-program"), "{said}");
    assert!(!here.path().join("filemap.ptt").exists());
}

#[test]
fn without_root_or_without_a_kind_it_is_one_sentence_and_2() {
    let here = folder();
    let output = run(&["record", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // A place from which another user can execute the copy.
    let copy = std::env::temp_dir().join(format!("pagetide-{}", std::process::id()));
    std::fs::copy(env!("CARGO_BIN_EXE_pagetide"), &copy).expect("room");
    let mut command = std::process::Command::new(&copy);
    command.args(["record", "--filemap", "--", "true"]).uid(NOBODY).current_dir("/");
    let output = command.output().expect("it runs");
    std::fs::remove_file(&copy).expect("it is there");
    let said = stderr(&output);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    drop(here);
}
