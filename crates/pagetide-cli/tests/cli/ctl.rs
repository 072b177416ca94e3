//! Queries and control of a running `run`.

use crate::run::{pagetide, stderr, stdout};
use crate::schema::check;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

const FILE_BYTES: usize = 4 << 20;

struct LongRun {
    folder: tempfile::TempDir,
    child: Child,
    stdin: Option<ChildStdin>,
    /// The program's.
    pid: String,
}

impl LongRun {
    fn start(more: &[&str]) -> LongRun {
        let script = "cat \"$0\" > /dev/null; cat \"$0\" > /dev/null; echo $$; read line";
        LongRun::start_in(folder(), more, script)
    }

    fn start_in(folder: tempfile::TempDir, more: &[&str], script: &str) -> LongRun {
        let data = folder.path().join("data");
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

    fn row(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        let mut document: Value = serde_json::from_slice(&output.stdout).expect("one document");
        check(&document);
        document["rows"][0].take()
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("data"), vec![7; FILE_BYTES]).expect("room");
    folder
}

/// Polls for up to a minute.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "it has not come in time");
        std::thread::yield_now();
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
    let stats = run.row(&["ctl", "stats", "--json"]);
    assert!(stats["accesses"].as_u64() >= Some(2 * 1024), "{stats}");
    assert!(stats["name"].as_str().is_some_and(|name| name.starts_with("sh -c cat")), "{stats}");
    assert_eq!(stats["files"][0]["file"].as_str(), run.data().to_str());
    let text = stdout(&run.run(&["ctl", &run.pid, "stats"]));
    assert!(
        text.contains("memory      8.0 MiB: ") && text.contains("\nsizing      with 4.0 MiB: "),
        "{text}"
    );

    let top = run.row(&["top", "--json"]);
    assert_eq!(top["pid"], stats["pid"]);
    let text = stdout(&run.run(&["top", "--once"]));
    let row = text.lines().nth(1).expect("a row for the cache");
    assert!(row.contains(" 8.0 MiB ") && row.contains("% ") && row.contains("sh -c cat"), "{text}");

    let dump = run.row(&["ctl", "--json", "dump"]);
    let ranges = dump["ranges"].as_array().expect("ranges");
    let nr: u64 = ranges.iter().map(|range| range[1].as_u64().expect("a count")).sum();
    assert_eq!(nr * 4096, stats["resident_bytes"].as_u64().expect("a number"));

    let resized = run.row(&["ctl", &run.pid, "resize", "1M", "--json"]);
    assert_eq!(resized["memory_bytes"], 1 << 20);
    assert!(resized["resident_bytes"].as_u64() <= Some(1 << 20), "{resized}");
    let refused = run.run(&["ctl", "resize", "1G"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("8M"), "{}", stderr(&refused));

    let data = run.data();
    let advise = ["ctl", "advise", data.to_str().expect("UTF-8"), "dontneed", "--json"];
    assert_eq!(run.row(&advise)["resident_bytes"], 0);
    assert_eq!(run.row(&["ctl", "drop", "--json"])["dropped_bytes"], 0);
    assert_eq!(run.row(&["ctl", "sync", "--json"])["dirty_bytes"], 0);
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
    assert_eq!(run.row(&["ctl", "lru_gen", &command, "--json"])["evicted_bytes"], 0);
    assert_ne!(stdout(&run.run(&["ctl", "lru_gen"])).lines().count(), 0);
}

/// A killed run leaves its last dump, used by the next run if the file is unchanged.
#[test]
fn a_run_begins_with_what_one_that_was_killed_had() {
    let here = folder();
    let [dump, summary] = ["dump", "summary"].map(|name| here.path().join(name));
    let name = dump.to_str().expect("UTF-8");
    let script = "cat \"$0\" > /dev/null; echo $$; read line";
    let mut killed = LongRun::start_in(here, &["--dump", name, "--dump-every", "0.1s"], script);
    let nr_pages = || {
        let text = std::fs::read_to_string(&dump).expect("it was written at the start");
        text.parse::<pagetide::ResidentSet>().expect("it is whole").nr_pages()
    };
    wait_until(|| nr_pages() == FILE_BYTES as u64 / 4096);
    killed.child.kill().expect("it runs");
    killed.child.wait().expect("it ends");

    let here = std::mem::replace(&mut killed.folder, folder());
    let script = "exec 3< \"$0\"; echo $$; read line";
    let mut warm = LongRun::start_in(here, &["--warm", name], script);
    let resident =
        |run: &LongRun| run.row(&["ctl", &run.pid, "stats", "--json"])["resident_bytes"].as_u64();
    wait_until(|| resident(&warm) == Some(FILE_BYTES as u64));

    warm.stdin.take();
    warm.child.wait().expect("it ends");
    let here = std::mem::replace(&mut warm.folder, folder());
    std::fs::write(here.path().join("data"), vec![8; FILE_BYTES]).expect("room");
    let summary = summary.to_str().expect("UTF-8");
    let mut stale = LongRun::start_in(here, &["--warm", name, "--json", summary], script);
    stale.stdin.take();
    stale.child.wait().expect("it ends");
    let told: Value =
        serde_json::from_slice(&std::fs::read(summary).expect("it is there")).expect("JSON");
    let warm = &told["rows"][0]["warm"];
    assert_eq!((&warm["pages"], &warm["stale_files"]), (&0.into(), &1.into()), "{told}");
}

/// The same line starts the first run and all later runs.
#[test]
fn a_run_that_finds_no_dump_starts_cold_and_says_so() {
    let here = folder();
    let dump = here.path().join("pages");
    let name = dump.to_str().expect("UTF-8");
    for is_first in [true, false] {
        let args = ["run", "--memory", "8M", "--warm", name, "--dump", name, "--", "true"];
        let output = pagetide().args(args).output().expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert_eq!(said.contains("does not exist"), is_first, "{said}");
    }
    std::fs::write(&dump, "not a dump").expect("room");
    let args = ["run", "--memory", "8M", "--warm", name, "--", "true"];
    let output = pagetide().args(args).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(1), "a file of another kind is refused");
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

#[test]
fn another_user_is_turned_away_though_the_socket_lets_it_in() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: another_user_is_turned_away_though_the_socket_lets_it_in: needs root");
        return;
    }
    let run = LongRun::start(&[]);
    let sockets = run.folder.path().join("pagetide");
    let socket = std::fs::read_dir(&sockets).expect("its folder").next().expect("a socket");
    let socket = socket.expect("a name").path();
    // Another user may lack access to the binary's folder.
    let command = run.folder.path().join("command");
    std::fs::copy(pagetide().get_program(), &command).expect("room");
    let asked = |uid: u32| {
        let asked = Command::new(&command).arg("ctl").arg(&socket).arg("stats").uid(uid).output();
        asked.expect("the binary runs").status.code()
    };
    assert_eq!(asked(0), Some(0));
    for path in [run.folder.path(), &sockets, &socket] {
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(path, all).expect("it is ours");
    }
    assert_eq!(asked(65534), Some(1));
    assert_eq!(asked(0), Some(0), "others are answered still");
}

/// Runs if Debian's `prometheus` is installed.
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

fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has one").to_string()
}

fn get(address: &str, path: &str) -> String {
    let mut text = String::new();
    if let Ok(mut client) = std::net::TcpStream::connect(address) {
        let asked = client.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
        let _ = asked.and_then(|()| client.read_to_string(&mut text));
    }
    text
}

/// Runs if Prometheus is installed.
fn check_by_prometheus(folder: &Path, metrics: &str) {
    let [config, data, log] = ["prometheus.yml", "data", "log"].map(|name| folder.join(name));
    let job = format!(
        "{{job_name: a, scrape_interval: 1s, static_configs: [{{targets: ['{metrics}']}}]}}"
    );
    std::fs::write(&config, format!("scrape_configs: [{job}]\n")).expect("room");
    let own = free_address();
    let prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", data.display()))
        .arg(format!("--web.listen-address={own}"))
        .stderr(std::fs::File::create(log).expect("room"))
        .spawn();
    let Ok(mut prometheus) = prometheus else {
        eprintln!("SKIPPED: check_by_prometheus: there is no prometheus: install prometheus");
        return;
    };
    let begun = std::time::Instant::now();
    let mut text = String::new();
    while !text.contains("\"8388608\"") && begun.elapsed() < std::time::Duration::from_secs(60) {
        text = get(&own, "/api/v1/query?query=pagetide_memory_bytes");
        std::thread::yield_now();
    }
    prometheus.kill().expect("it runs");
    prometheus.wait().expect("it ends");
    assert!(text.contains("\"8388608\""), "{text}");
}

#[test]
fn metrics_are_served_and_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pagetide.prom");
    drop(LongRun::start(&["--metrics", file.to_str().expect("UTF-8")]));
    let text = std::fs::read_to_string(&file).expect("it was written at the end");
    assert!(text.contains("\npagetide_memory_bytes 8388608\n"), "{text}");
    check_by_promtool(&text);

    let address = free_address();
    let _run = LongRun::start(&["--metrics", &address]);
    let text = get(&address, "/metrics?files=5");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(body.contains("pagetide_file_device_read_bytes_total{file="), "{body}");
    // The dashboard shows only existing metrics, except of groups and tiers.
    let dashboard = include_str!("../../../../docs/grafana.json");
    let is_of_a_run = |word: &&str| !word.contains("_group_") && !word.contains("_tier_");
    let words = dashboard.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_');
    let shown = words.filter(|word| word.starts_with("pagetide_")).filter(is_of_a_run);
    assert_eq!(shown.filter(|name| !body.contains(name)).collect::<Vec<_>>(), [""; 0]);
    check_by_promtool(body);
    check_by_prometheus(folder.path(), &address);
}
