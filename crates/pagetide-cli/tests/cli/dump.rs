//! `pagetide lab dump`: generations as text, and refused requests.

use crate::run::{rows_of, run, stderr, stdout};
use serde_json::json;
use std::path::{Path, PathBuf};

fn looping_trace(dir: &Path) -> PathBuf {
    let path = dir.join("loop.txt");
    let lines: String = (0..120).map(|step| format!("{}\n", step % 40)).collect();
    std::fs::write(&path, lines).expect("it works");
    path
}

#[test]
fn dump_prints_generations_as_lru_gen_does_and_carries_out_commands() {
    let dir = tempfile::tempdir().expect("it works");
    let trace = looping_trace(dir.path());
    let trace = trace.to_str().expect("it works");
    let told = run(&["lab", "dump", trace, "--frames", "64"]);
    assert_eq!(told.status.code(), Some(0), "{}", stderr(&told));
    let rows: Vec<Vec<String>> = stdout(&told)
        .lines()
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect();
    assert_eq!(rows[0][..2], ["memcg", "0"]);
    assert_eq!(rows[1], ["node", "0"]);
    assert_eq!(rows.len(), 6, "four generations");
    let (seq, sizes) = (&rows[2][0], &rows[2][2..]);
    assert_eq!((seq.as_str(), sizes), ("0", &["0".to_owned(), "40".to_owned()][..]), "all cold");
    let generations = rows_of(&["lab", "dump", trace, "--frames", "64", "--json"]);
    assert_eq!((&generations[0]["seq"], &generations[0]["file_pages"]), (&json!(0), &json!(40)));
    let aged = ["--command", "+ 0 0 3", "--command", "- 0 0 1"];
    let told = run(&[&["lab", "dump", trace, "--memory", "256K"], &aged[..]].concat());
    assert_eq!(told.status.code(), Some(0), "{}", stderr(&told));
    assert!(stderr(&told).contains("- 0 0 1: 40 pages evicted"), "{}", stderr(&told));
}

#[test]
fn dump_says_what_it_cannot_do() {
    let dir = tempfile::tempdir().expect("it works");
    let trace = looping_trace(dir.path());
    let trace = trace.to_str().expect("it works");
    let cases: [(&[&str], i32, &str); 5] = [
        (&["--frames", "0"], 2, "no frame"),
        (&["--frames", "64,128"], 2, "one memory size"),
        (&["--frames", "64", "--policy", "lru"], 2, "no generations"),
        (&["--frames", "64", "--command", "x"], 2, "cannot carry out 'x': not a command"),
        (&["--frames", "64", "--command", "+ 0 0 9"], 1, "cannot carry out '+ 0 0 9'"),
    ];
    for (flags, code, said) in cases {
        let told = run(&[&["lab", "dump", trace], flags].concat());
        assert_eq!(told.status.code(), Some(code), "{flags:?}: {}", stderr(&told));
        assert!(stderr(&told).contains(said), "{flags:?}: {}", stderr(&told));
        assert!(told.stdout.is_empty(), "nothing half done on stdout");
    }
}
