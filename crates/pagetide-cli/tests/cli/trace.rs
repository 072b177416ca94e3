//! `pagetide trace`: counting, converting, and bad traces under every command.

use crate::run::{left_in, pagetide, rows_of, run, stderr, stdout};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn csv() -> String {
    let line = |step: u64| {
        let op = if step.is_multiple_of(7) { "set" } else { "get" };
        format!("{step},{op},{}\n", step * step % 101 + 5_000_000_000)
    };
    "time,op,id\n".to_owned() + &(0..3000).map(line).collect::<String>()
}

fn write(dir: &Path, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, contents).expect("room");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain name")
}

#[test]
fn info_counts_and_a_conversion_changes_none_of_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let original = write(dir.path(), "run.csv", csv());
    let before = rows_of(&["trace", "info", text(&original), "--json"]);
    assert_eq!(before[0]["format"], "csv");
    assert_eq!(before[0]["accesses"], 3000);
    assert_eq!(before[0]["kinds"][1]["name"], "write");
    assert_eq!(before[0]["pages"], 51, "squares modulo 101");
    assert_eq!(before[0]["footprint_bytes"], 51 * 4096);
    assert_eq!(before[0]["reuse"]["first_uses"], 51);
    assert_eq!(before[0]["recorded"], serde_json::Value::Null);
    for name in ["run.ptt", "run.ptt.zst"] {
        let record = dir.path().join(name);
        let done = rows_of(&["trace", "convert", text(&original), text(&record), "--json"]);
        assert_eq!(done[0]["entries"], 3000);
        let length = std::fs::metadata(&record).expect("it is there").len();
        assert_eq!(done[0]["len_bytes"], length);
        assert!(length < csv().len() as u64 / 3, "{length} bytes");
        let mut after = rows_of(&["trace", "info", text(&record), "--json"]);
        assert_eq!(after[0]["format"], "compact");
        after[0]["format"] = "csv".into();
        assert_eq!(after, before);
    }
    assert_eq!(left_in(dir.path()).len(), 3, "nothing else is left");
    let said = stdout(&run(&["trace", "info", text(&original)]));
    for word in ["accesses", "3000", "pages used once", "reuse distance"] {
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn a_hyphen_is_standard_input_and_output() {
    let made = run(&["lab", "make", "loop15", "-"]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let dir = tempfile::tempdir().expect("a folder");
    let file = write(dir.path(), "loop15.txt", &made.stdout);
    let piped = |args: &[&str]| {
        let (mut command, input) = (pagetide(), std::fs::File::open(&file).expect("it is there"));
        let output = command.args(args).stdin(input).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        output
    };
    let by_pipe = piped(&["replay", "-", "--memory", "1M", "--json"]);
    let by_name = run(&["replay", text(&file), "--memory", "1M", "--json"]);
    let misses = |output| {
        let document: serde_json::Value = serde_json::from_str(&stdout(output)).expect("JSON");
        document["rows"][0]["misses"].as_u64().expect("misses")
    };
    assert_eq!(misses(&by_pipe), misses(&by_name));
    let record = write(dir.path(), "loop15.ptt", piped(&["trace", "convert", "-", "-"]).stdout);
    let known = rows_of(&["trace", "info", text(&record), "--json"]);
    assert_eq!(
        known[0]["accesses"],
        rows_of(&["trace", "info", text(&file), "--json"])[0]["accesses"]
    );
}

#[test]
fn conversion_refuses_to_write_over_the_trace_or_where_it_cannot() {
    let dir = tempfile::tempdir().expect("a folder");
    let original = write(dir.path(), "run.csv", csv());
    let same = run(&["trace", "convert", text(&original), text(&original)]);
    assert_eq!(same.status.code(), Some(2), "{}", stderr(&same));
    let nowhere = run(&["trace", "convert", text(&original), "/no/such/folder/out"]);
    assert_eq!(nowhere.status.code(), Some(1), "{}", stderr(&nowhere));
    assert!(stderr(&nowhere).contains("/no/such/folder/out"));
    let damaged = write(dir.path(), "damaged.csv", csv() + "x\n");
    let out = dir.path().join("out");
    let refused = run(&["trace", "convert", text(&damaged), text(&out)]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("line 3002"), "{}", stderr(&refused));
    assert_eq!(left_in(dir.path()).len(), 2, "half a record is left");
}

#[test]
fn bad_traces_get_one_sentence_and_no_partial_document() {
    let dir = tempfile::tempdir().expect("a folder");
    let original = write(dir.path(), "run.csv", csv());
    let record = dir.path().join("run.ptt");
    rows_of(&["trace", "convert", text(&original), text(&record), "--json"]);
    let whole = std::fs::read(&record).expect("the record");
    let zstd = dir.path().join("run.zst");
    rows_of(&["trace", "convert", text(&original), text(&zstd), "--json"]);
    let packed = std::fs::read(&zstd).expect("the record");
    let bad: [(&str, &[u8], &str); 8] = [
        ("empty.csv", b"", "is empty"),
        ("header-only.csv", b"time,op,id\n", "has no accesses"),
        ("unknown.bin", b"\x01\x02\x03", "--format"),
        ("malformed.csv", b"time,op,id\n1,get,2\n2,get,two\n", "line 3"),
        ("columns.csv", b"1,2,3\n", "--format"),
        ("cut.oracleGeneral", &[1; 30], "ends inside the 24-byte record"),
        // The end marker has a two-byte count: this cuts the marker.
        ("torn.ptt", &whole[..whole.len() - 1], "cut off inside an entry"),
        ("torn.zst", &packed[..packed.len() / 2], "cannot read the trace"),
    ];
    for (name, contents, said) in bad {
        let path = write(dir.path(), name, contents);
        let out = dir.path().join("out");
        let commands: [&[&str]; 4] = [
            &["trace", "info", text(&path), "--json"],
            &["trace", "convert", text(&path), text(&out), "--json"],
            &["mrc", text(&path), "--json"],
            &["replay", text(&path), "--frames", "10", "--json"],
        ];
        for command in commands {
            let output = run(command);
            assert_eq!(output.status.code(), Some(1), "{command:?}: {}", stderr(&output));
            assert!(stderr(&output).contains(said), "{command:?}: {}", stderr(&output));
            assert_eq!(stderr(&output).lines().count(), 1, "{command:?}: {}", stderr(&output));
            assert!(output.stdout.is_empty(), "{command:?} printed something");
            assert!(!out.exists(), "{command:?} left a file");
        }
    }
}

#[test]
fn lenient_reading_skips_and_counts() {
    let dir = tempfile::tempdir().expect("a folder");
    let damaged = write(dir.path(), "damaged.csv", csv() + "x\n1,fly,2\n1,get,2\n");
    let info = rows_of(&["trace", "info", text(&damaged), "--lenient", "--json"]);
    assert_eq!((&info[0]["accesses"], &info[0]["skipped_entries"]), (&3001.into(), &2.into()));
    let rows = rows_of(&["replay", text(&damaged), "--frames", "9", "--lenient", "--json"]);
    assert_eq!(rows[0]["accesses"], 3001);
    let original = write(dir.path(), "run.csv", csv());
    let record = dir.path().join("run.ptt");
    rows_of(&["trace", "convert", text(&original), text(&record), "--json"]);
    let whole = std::fs::read(&record).expect("the record");
    let torn = write(dir.path(), "torn.ptt", &whole[..whole.len() - 1]);
    let info = rows_of(&["trace", "info", text(&torn), "--lenient", "--json"]);
    assert_eq!((&info[0]["accesses"], &info[0]["skipped_entries"]), (&3000.into(), &1.into()));
}

#[test]
fn unknown_formats_are_answered_with_the_known_ones() {
    for command in [
        &["trace", "info", "x", "--format", "arc"][..],
        &["mrc", "x", "--format", "arc"],
        &["replay", "x", "--frames", "1", "--format", "arc"],
    ] {
        let output = run(command);
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        assert!(stderr(&output).contains("arc-lis"), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}

/// Only the signal can end the command: the pipe never ends.
#[test]
fn ctrl_c_ends_the_reading_of_an_endless_trace() {
    let dir = tempfile::tempdir().expect("a folder");
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("a pipe");
    let mut child = pagetide()
        .args(["replay", text(&pipe), "--frames", "10", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // Returns once the command has opened the pipe, and so watches for signals.
    let mut trace = std::fs::File::create(&pipe).expect("a reader");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let lines = "12345\n".repeat(10_000);
    while child.try_wait().expect("it is ours").is_none() {
        if trace.write_all(lines.as_bytes()).is_err() {
            break;
        }
    }
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("interrupted"), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
}
