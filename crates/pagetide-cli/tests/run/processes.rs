//! Several processes share a cache and a limit. A process's death loses no data of others.

use super::{
    folder, has, is_long, noise, pagetide, plain_shell_in, python_in, run_counted, run_in, shell_in,
};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn summary_of(folder: &Path, memory: &str, line: &str) -> Value {
    // Only the test's own files.
    let own = format!("{}/**", folder.display());
    let (output, summary) = run_counted(folder, memory, &["--include", &own], &["sh", "-c", line]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    summary
}

#[test]
fn two_processes_hold_one_file_once() {
    let here = folder();
    let contents = noise(1 << 20, 4);
    std::fs::write(here.path().join("a"), &contents).unwrap();
    let once = summary_of(here.path(), "8M", "cp a b1");
    let twice = summary_of(here.path(), "8M", "cp a b1; cp a b2 & cp a b3; wait");
    let read = |summary: &Value| summary["device_read_bytes"].as_u64().unwrap();
    assert_eq!(read(&once), 1 << 20);
    assert_eq!(read(&twice), 1 << 20);
    for copy in ["b1", "b2", "b3"] {
        assert!(std::fs::read(here.path().join(copy)).unwrap() == contents, "{copy}");
    }
}

#[test]
fn the_limit_holds_for_the_whole_tree() {
    let here = folder();
    std::fs::write(here.path().join("a"), noise(2 << 20, 5)).unwrap();
    let summary = summary_of(here.path(), "512K", "for i in 1 2 3 4; do cp a b$i & done; wait");
    let resident = summary["resident_bytes_max"].as_u64().unwrap();
    assert!(resident <= 512 << 10, "{resident}");
    assert!(summary["evictions"].as_u64().unwrap() > 0);
    assert!(summary["processes"].as_u64().unwrap() >= 4);
}

#[test]
fn a_killed_writer_leaves_what_it_wrote_and_harms_nobody() {
    let test = "a_killed_writer_leaves_what_it_wrote_and_harms_nobody";
    if !has("python3", test) {
        return;
    }
    let here = folder();
    python_in(here.path(), "256K", include_str!("killed.py"));
}

#[test]
fn pages_copied_without_asking_are_always_the_files() {
    if !has("python3", "pages_copied_without_asking_are_always_the_files") {
        return;
    }
    let here = folder();
    python_in(here.path(), "256K", include_str!("views.py"));
}

#[test]
fn a_position_is_one_for_all_who_move_it() {
    if !has("python3", "a_position_is_one_for_all_who_move_it") {
        return;
    }
    let here = folder();
    python_in(here.path(), "8M", include_str!("positions.py"));
}

#[test]
fn a_window_begins_when_the_marker_before_it_is_read() {
    let test = "a_window_begins_when_the_marker_before_it_is_read";
    if !has("python3", test) {
        return;
    }
    if !Path::new("/proc/self/io").exists() {
        eprintln!("SKIPPED: {test}: this kernel does not count what processes read");
        return;
    }
    let here = folder();
    std::fs::write(here.path().join("a"), noise(4 << 20, 9)).unwrap();
    python_in(here.path(), "32M", include_str!("markers.py"));
}

#[test]
fn pages_read_past_the_server_are_always_the_files() {
    if !has("python3", "pages_read_past_the_server_are_always_the_files") {
        return;
    }
    let here = folder();
    let contents: Vec<u8> = (0..512_u32)
        .flat_map(|page| [(page % 251) as u8, 0].into_iter().cycle().take(4096))
        .collect();
    for name in ["a", "b"] {
        std::fs::write(here.path().join(name), &contents).unwrap();
    }
    for memory in ["256K", "8M"] {
        std::fs::write(here.path().join("a"), &contents).unwrap();
        python_in(here.path(), memory, include_str!("self_reads.py"));
    }
}

#[test]
fn pages_in_miss_rings_are_always_the_files() {
    if !has("python3", "pages_in_miss_rings_are_always_the_files") {
        return;
    }
    let here = folder();
    let contents: Vec<u8> = (0..384_u32)
        .flat_map(|page| [(page % 251) as u8, (page >> 8) as u8].into_iter().cycle().take(4096))
        .collect();
    for name in ["a", "b"] {
        std::fs::write(here.path().join(name), &contents).unwrap();
    }
    for memory in ["256K", "8M"] {
        python_in(here.path(), memory, include_str!("miss_rings.py"));
    }
}

#[test]
fn misses_of_many_at_once_stay_within_the_limit() {
    if !has("python3", "misses_of_many_at_once_stay_within_the_limit") {
        return;
    }
    let here = folder();
    std::fs::write(here.path().join("a"), noise(8 << 20, 11)).unwrap();
    let line = "for child in 1 2 3; do python3 -c 'import os; f = os.open(\"a\", os.O_RDONLY); \
                [os.pread(f, 4096, (p * 997 + 5) % 2048 * 4096) for p in range(4096)]' & done; \
                wait";
    let summary = summary_of(here.path(), "1M", line);
    let count = |name: &str| summary[name].as_u64().unwrap();
    assert!(count("resident_bytes_max") <= 1 << 20, "{summary}");
    // Each of three processes reads each of 2048 pages twice. A hit on a page evicted before the
    // report goes uncounted. A page evicted between fill and copy is requested and counted twice.
    assert!((12_000..=12_600).contains(&count("accesses")), "{summary}");
    // All pages are filled in the first round, and all that did not fit again in the second, even
    // in lockstep.
    let nr_untold = 12_288_u64.saturating_sub(count("accesses"));
    assert!(count("misses") + nr_untold >= 2 * 2048 - 256, "{summary}");
    // A page that all miss together is read once: the others wait. Without that, each of the three
    // processes reads each page.
    assert!(count("device_reads") <= count("misses") * 3 / 2, "{summary}");
    // Readahead runs until memory is full, and sometimes a repeated page starts a stream.
    let nr_ahead = (count("device_read_bytes") / 4096).checked_sub(count("misses"));
    assert!(nr_ahead.is_some_and(|nr| nr <= 256 + count("misses") / 50), "{summary}");
}

#[test]
fn misses_are_counted_that_nobody_asked_for() {
    if !has("python3", "misses_are_counted_that_nobody_asked_for") {
        return;
    }
    let here = folder();
    std::fs::write(here.path().join("a"), noise(1 << 20, 8)).unwrap();
    let line = "python3 -c 'import os; f = os.open(\"a\", os.O_RDONLY); \
                [os.pread(f, 4096, (p * 97 + 5) % 256 * 4096) for p in range(1024)]; os.close(f)'";
    let summary = summary_of(here.path(), "4M", line);
    let count = |name: &str| summary[name].as_u64().unwrap();
    assert_eq!(count("accesses"), 1024, "{summary}");
    assert_eq!(count("device_read_bytes"), 1 << 20, "{summary}");
    // Ample memory allows readahead: with the first four misses, read by the server, and later ones
    // as soon as the server allows it.
    assert!((64..=244).contains(&count("misses")), "{summary}");
}

#[test]
fn hits_are_counted_that_nobody_asked_for() {
    if !has("python3", "hits_are_counted_that_nobody_asked_for") {
        return;
    }
    let here = folder();
    std::fs::write(here.path().join("a"), noise(256 << 10, 7)).unwrap();
    let line = "python3 -c 'import os; f = os.open(\"a\", os.O_RDONLY); \
                [os.pread(f, 4096, p % 64 * 4096) for p in range(16000)]'";
    let summary = summary_of(here.path(), "1M", line);
    let count = |name: &str| summary[name].as_u64().unwrap();
    assert!((15_900..=16_000).contains(&count("accesses")), "{summary}");
    assert_eq!(count("accesses") - count("hits"), count("misses"));
    assert!((1..=64).contains(&count("misses")), "{summary}");
}

#[test]
fn a_killed_database_is_whole() {
    if !has("sqlite3", "a_killed_database_is_whole") {
        return;
    }
    let here = folder();
    let nr_kills = if is_long() { 50 } else { 6 };
    let make = "sqlite3 a.db 'create table t(a integer primary key, b text)'";
    let kill = "do \
          (i=0; while :; do echo \"insert into t(b) values(hex(randomblob(900)));\"; done) | \
            sqlite3 a.db & \
          until [ \"$(sqlite3 a.db 'select count(*) from t' 2>/dev/null || echo 0)\" -ge \
            $((i * 5)) ]; do :; done; \
          kill -9 $! 2>/dev/null; wait $! 2>/dev/null; \
          sqlite3 a.db 'pragma integrity_check'; \
        done";
    let line = format!("{make}; for i in $(seq {nr_kills}); {kill}");
    let printed = shell_in(here.path(), "256K", &line);
    assert_eq!(printed, "ok\n".repeat(nr_kills));
}

fn terminate(child: &Child) {
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
}

#[test]
fn signals_reach_the_program_and_its_status_is_ours() {
    let here = folder();
    let line = "trap 'echo caught; exit 7' TERM; echo ready; while :; do :; done";
    let mut run = Command::new(pagetide());
    run.args(["run", "--memory", "1M", "--", "sh", "-c", line]).current_dir(here.path());
    let mut child = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    terminate(&child);
    assert_eq!(lines.next().unwrap().unwrap(), "caught");
    assert_eq!(child.wait().unwrap().code(), Some(7));
    let killed = run_in(here.path(), "1M", &["sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.status.code(), Some(137));
    assert_eq!(killed.status.signal(), None);
}

/// Otherwise the run would wait forever without a message.
#[test]
fn what_a_program_leaves_behind_is_named_and_ends_by_a_signal() {
    let here = folder();
    // The pipe is never written.
    plain_shell_in(here.path(), "mkfifo fifo");
    let line = "cat fifo >left 2>&1 & exit 3";
    let mut run = Command::new(pagetide());
    run.args(["run", "--memory", "1M", "--", "sh", "-c", line]).current_dir(here.path());
    let mut child = run.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let said = lines.next().unwrap().unwrap();
    assert!(said.contains("has ended, and 1 of its processes"), "{said}");
    terminate(&child);
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

/// The C library writes standard output past the interception, so the kernel gets the file at once.
#[test]
fn standard_output_that_was_opened_outside_is_one_file() {
    if !has("gcc", "standard_output_that_was_opened_outside_is_one_file") {
        return;
    }
    let here = folder();
    let source = "#include <fcntl.h>\n#include <stdio.h>\n#include <unistd.h>\n\
        int main(void) { char in[64]; int fd = open(\"out\", O_RDONLY);\n\
        for (int n = 1; n < 4; n++) { puts(\"line\"); fflush(stdout);\n\
        if (pread(fd, in, 64, 0) != 5 * n) return n; } return 0; }";
    std::fs::write(here.path().join("a.c"), source).unwrap();
    shell_in(here.path(), "1M", "gcc -o a a.c");
    let mut run = Command::new(pagetide());
    run.args(["run", "--memory", "1M", "--", "./a"]).current_dir(here.path());
    run.stdout(std::fs::File::create(here.path().join("out")).unwrap());
    let output = run.stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}
