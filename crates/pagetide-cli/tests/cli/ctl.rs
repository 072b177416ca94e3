//! A run that is asked and steered while it lasts.

use crate::run::{pagetide, stderr, stdout};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Output, Stdio};

const FILE_BYTES: usize = 4 << 20;

/// A run that has read a file, and lasts until it is dropped.
struct LongRun {
    folder: tempfile::TempDir,
    child: Child,
    stdin: Option<ChildStdin>,
    /// The program's.
    pid: String,
}

impl LongRun {
    fn start(more: &[&str]) -> LongRun {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        std::fs::write(&data, vec![7; FILE_BYTES]).expect("room");
        let script = "cat \"$0\" > /dev/null; cat \"$0\" > /dev/null; echo $$; read line";
        let mut child = pagetide()
            .args(["run", "--memory", "8M", "--quiet"])
            .args(more)
            .args(["--", "sh", "-c", script])
            .arg(&data)
            .env("XDG_RUNTIME_DIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut pid = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut pid).expect("the program says its number");
        LongRun { folder, stdin: child.stdin.take(), child, pid: pid.trim().to_owned() }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("it is there").join("data")
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = pagetide();
        command.args(args).env("XDG_RUNTIME_DIR", self.folder.path());
        command.output().expect("the binary runs")
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        serde_json::from_slice(&output.stdout).expect("one JSON document")
    }
}

impl Drop for LongRun {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
fn a_run_is_asked_resized_and_emptied_while_it_lasts() {
    let run = LongRun::start(&[]);
    let stats = run.json(&["ctl", "stats", "--json"]);
    assert!(stats["accesses"].as_u64() >= Some(2 * 1024), "{stats}");
    assert!(stats["name"].as_str().is_some_and(|name| name.starts_with("sh -c cat")), "{stats}");
    assert_eq!(stats["files"][0]["file"].as_str(), run.data().to_str());
    let text = stdout(&run.run(&["ctl", &run.pid, "stats"]));
    assert!(
        text.contains("memory      8.0 MiB: ") && text.contains("\nsizing      with 4.0 MiB: "),
        "{text}"
    );

    let top = run.json(&["top", "--json"]);
    assert_eq!(top["caches"][0]["pid"], stats["pid"]);
    let text = stdout(&run.run(&["top", "--once"]));
    let row = text.lines().nth(1).expect("a row for the cache");
    assert!(row.contains(" 8.0 MiB ") && row.contains("% ") && row.contains("sh -c cat"), "{text}");

    let dump = run.json(&["ctl", "--json", "dump"]);
    let pages = dump["files"][0]["pages"].as_array().expect("ranges");
    let nr: u64 = pages.iter().map(|range| range[1].as_u64().expect("a count")).sum();
    assert_eq!(nr * 4096, stats["resident_bytes"].as_u64().expect("a number"));

    let resized = run.json(&["ctl", &run.pid, "resize", "1M", "--json"]);
    assert_eq!(resized["memory_bytes"], 1 << 20);
    assert!(resized["resident_bytes"].as_u64() <= Some(1 << 20), "{resized}");
    let refused = run.run(&["ctl", "resize", "1G"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("8M"), "{}", stderr(&refused));

    let data = run.data();
    let advise = ["ctl", "advise", data.to_str().expect("UTF-8"), "dontneed", "--json"];
    assert_eq!(run.json(&advise)["resident_bytes"], 0);
    assert_eq!(run.json(&["ctl", "drop", "--json"])["dropped_bytes"], 0);
    assert_eq!(run.json(&["ctl", "sync", "--json"])["dirty_bytes"], 0);
    let no_groups = run.run(&["ctl", "groups", "set", "scans", "low=1M"]);
    assert!(stderr(&no_groups).contains("the cache has none"), "{}", stderr(&no_groups));
}

#[test]
fn generations_are_shown_and_commanded() {
    let run = LongRun::start(&["--policy", "mglru"]);
    let text = stdout(&run.run(&["ctl", "lru_gen"]));
    assert!(text.starts_with("memcg "), "{text}");
    let newest = text.lines().last().and_then(|line| line.split_whitespace().next());
    let command = format!("+ 0 0 {}", newest.expect("a generation"));
    assert_eq!(run.json(&["ctl", "lru_gen", &command, "--json"])["evicted_bytes"], 0);
    assert_ne!(stdout(&run.run(&["ctl", "lru_gen"])).lines().count(), 0);
}

#[test]
fn where_no_cache_is_that_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    for (args, said) in [
        (&["ctl", "stats"][..], "no cache of this user can be asked"),
        (&["ctl", "1", "stats"], "process 1 has no cache"),
        (&["ctl", "/nowhere.sock", "stats"], "no cache can be asked there"),
    ] {
        let output = pagetide().args(args).env("XDG_RUNTIME_DIR", folder.path()).output();
        let output = output.expect("the binary runs");
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
}

/// Prometheus's own check, where Debian's package `prometheus` is installed.
fn check_by_promtool(text: &str) {
    let command = Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).spawn();
    let Ok(mut promtool) = command else {
        eprintln!("SKIPPED: check_by_promtool: there is no promtool: install prometheus");
        return;
    };
    let mut stdin = promtool.stdin.take().expect("it is piped");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    assert!(promtool.wait().expect("it ends").success(), "promtool finds fault with\n{text}");
}

#[test]
fn metrics_are_served_and_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pagetide.prom");
    drop(LongRun::start(&["--metrics", file.to_str().expect("UTF-8")]));
    let text = std::fs::read_to_string(&file).expect("it was written at the end");
    assert!(text.contains("\npagetide_memory_bytes 8388608\n"), "{text}");
    check_by_promtool(&text);

    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = free.local_addr().expect("it has one").to_string();
    drop(free);
    let _run = LongRun::start(&["--metrics", &address]);
    let mut client = std::net::TcpStream::connect(&address).expect("it listens");
    client.write_all(b"GET /metrics?files=5 HTTP/1.1\r\n\r\n").expect("it reads");
    let mut text = String::new();
    client.read_to_string(&mut text).expect("it answers");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(body.contains("pagetide_file_device_read_bytes_total{file="), "{body}");
    check_by_promtool(body);
}
