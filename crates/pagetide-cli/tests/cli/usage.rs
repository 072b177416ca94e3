//! Command-line edge cases: output for valid and invalid requests.

use crate::run::{run, stderr, stdout};

#[test]
fn every_command_has_help_with_examples() {
    let commands = ["demo", "run", "record", "bench", "replay", "ablate", "mrc", "trace", "lab"];
    for command in commands.into_iter().chain(["tier", "policies", "completions", "ctl", "top"]) {
        let output = run(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{command}: {}", stderr(&output));
        assert!(
            stdout(&output).contains(&format!("pagetide {command}")),
            "{command} shows no example"
        );
    }
}

#[test]
fn completions_and_manuals_are_of_the_commands_that_people_type() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        let text = stdout(&output);
        assert!(output.status.success() && text.contains("readahead"), "{shell}: {text}");
    }
    assert_eq!(run(&["completions", "dos"]).status.code(), Some(2));
    let folder = tempfile::tempdir().unwrap();
    assert!(run(&["manuals", folder.path().to_str().unwrap()]).status.success());
    let names = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> = names.map(|one| one.unwrap().file_name()).collect();
    names.sort();
    assert!(names.contains(&"pagetide.1".into()) && names.contains(&"pagetide-run.1".into()));
    assert!(!names.contains(&"pagetide-manuals.1".into()), "{names:?}");
    let page = std::fs::read_to_string(folder.path().join("pagetide-run.1")).unwrap();
    assert!(page.starts_with(".ie") && page.contains("memory"), "{page}");
    assert_eq!(run(&["manuals", "/dev/null/here"]).status.code(), Some(1));
}

#[test]
fn no_command_and_unknown_command_are_usage_errors() {
    assert_eq!(run(&[]).status.code(), Some(2));
    assert_eq!(run(&["fly"]).status.code(), Some(2));
}

#[test]
fn bad_sizes_are_usage_errors_that_say_what_is_wrong() {
    for (size, said) in [
        ("12Q", "whole number"),
        ("3.5M", "whole number"),
        ("M", "no number"),
        ("99999999999T", "64 bits"),
    ] {
        let output = run(&["demo", "--memory", size]);
        assert_eq!(output.status.code(), Some(2), "{size}");
        assert!(stderr(&output).contains(said), "{size}: {}", stderr(&output));
    }
}

#[test]
fn too_little_memory_is_a_usage_error_with_the_least_there_can_be() {
    let output = run(&["demo", "--memory", "64K"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("64K") && stderr(&output).contains("4M"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn unknown_names_are_answered_with_the_known_ones() {
    let output = run(&["demo", "--workloads", "nothing"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("zipf-scan"), "{}", stderr(&output));
    let output = run(&["demo", "--subjects", "windows"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("active-inactive"), "{}", stderr(&output));
}

#[test]
fn wrong_knobs_are_usage_errors() {
    for wrong in ["no_such_knob=1", "dirty=often", "dirty"] {
        assert_eq!(run(&["demo", "--set", wrong]).status.code(), Some(2), "{wrong}");
        assert_eq!(run(&["bench", "miss", "--set", wrong]).status.code(), Some(2), "{wrong}");
    }
}

#[test]
fn missing_folder_is_a_failure_that_names_it() {
    let output = run(&["demo", "--dir", "/no/such/folder"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/no/such/folder"), "{}", stderr(&output));
    assert!(stdout(&output).is_empty());
}

#[test]
fn too_small_a_disk_or_memory_is_refused_with_both_numbers() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir_name = dir.path().to_str().expect("a plain name");
    let output = run(&["demo", "--memory", "16T", "--dir", dir_name]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains("not enough disk: this needs")
            && said.contains("TiB")
            && said.contains("free"),
        "{said}"
    );
    assert!(crate::run::left_in(dir.path()).is_empty());
}

#[test]
fn policies_are_listed_for_people_and_scripts() {
    let output = run(&["policies"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("mglru"));
    let output = run(&["policies", "--json"]);
    let list: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("one JSON document");
    let names: Vec<&str> = list["rows"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|row| row["name"].as_str())
        .collect();
    for name in ["mglru", "active-inactive", "lru"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(output.stderr.is_empty());
}

#[test]
fn replay_says_what_is_wrong_with_its_file_and_sizes() {
    let missing = run(&["replay", "/no/such/trace", "--memory", "1M", "--policy", "lru"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("/no/such/trace"), "{}", stderr(&missing));
    let nothing = run(&["replay", "/no/such/trace", "--memory", "12", "--policy", "lru"]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(stderr(&nothing).contains("no frame"), "{}", stderr(&nothing));
    assert_eq!(run(&["replay", "/no/such/trace"]).status.code(), Some(2));
    let args = ["replay", "/no/such/trace", "--memory", "112K", "--reclaim", "kernel-group"];
    let others_only = run(&args);
    assert_eq!(others_only.status.code(), Some(2));
    assert!(stderr(&others_only).contains("28"), "{}", stderr(&others_only));
}

#[test]
fn run_recorded_by_the_library_replays() {
    let dir = tempfile::tempdir().expect("a folder");
    let (data, record) = (dir.path().join("data"), dir.path().join("run.trace"));
    std::fs::write(&data, vec![1; 64 * 4096]).expect("room");
    let builder = pagetide::PageCache::builder().memory(pagetide::Bytes(1 << 20)).background(false);
    let cache = builder.record(&record).build().expect("a cache");
    let file = cache.open(&data, pagetide::OpenOptions::new().read(true)).expect("the file");
    let mut page = [0; 4096];
    for step in 0..500_u64 {
        file.read_at(&mut page, step * 7 % 64 * 4096).expect("a read");
    }
    drop(file);
    drop(cache);
    let name = record.to_str().expect("a plain name");
    let output = run(&["replay", name, "--memory", "1M,64K", "--policy", "mglru,opt", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
    let rows = told["rows"].as_array().expect("a list");
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row["accesses"] == 500), "{rows:?}");
    assert!(rows[0]["misses"].as_u64() < rows[2]["misses"].as_u64(), "{rows:?}");
}

#[test]
fn replay_counts_misses_of_a_loop_as_belady_and_lru_must() {
    let dir = tempfile::tempdir().expect("a folder");
    let trace = dir.path().join("loop.trace");
    let lines: String = (0..1000).map(|step| format!("{}\n", step % 10)).collect();
    std::fs::write(&trace, lines).expect("room");
    let name = trace.to_str().expect("a plain name");
    let output = run(&[
        "replay", name, "--format", "decimal", "--memory", "32K,40K", "--policy", "lru,opt",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("one JSON document");
    let misses: Vec<(u64, u64)> = rows["rows"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| {
            (row["frames"].as_u64().expect("frames"), row["misses"].as_u64().expect("misses"))
        })
        .collect();
    // A loop of ten over eight frames: LRU always misses, the optimum keeps seven.
    assert_eq!((misses[0], misses[2], misses[3]), ((8, 1000), (10, 10), (10, 10)));
    assert!(misses[1].0 == 8 && misses[1].1 < 400, "{misses:?}");
    for field in
        ["policy", "accesses", "miss_ratio", "evictions", "refaults", "activations", "seconds"]
    {
        assert!(rows["rows"][0].get(field).is_some(), "no field {field}");
    }
}

#[test]
fn a_place_that_cannot_be_written_is_said_before_the_work() {
    let dir = tempfile::tempdir().expect("a folder");
    let nowhere = dir.path().join("none/out");
    let nowhere = nowhere.to_str().expect("a plain name");
    // The target is checked before the absent trace.
    let replay = ["replay", "no-such-trace", "--frames", "10"];
    for (args, what) in [
        (&[&replay[..], &["--report", nowhere]].concat()[..], "report"),
        (
            &[&replay[..], &["--policy", "pagetide", "--explain", "--svg", nowhere]].concat(),
            "picture",
        ),
        (&["ablate", "no-such-trace", "--frames", "10", "--report", nowhere], "report"),
        (&["mrc", "no-such-trace", "--svg", nowhere], "picture"),
        (&["tier", "no-such-trace", "--report", nowhere], "report"),
        (&["lab", "run", "no-such-scenario", "--report", nowhere], "report"),
        (&["demo", "--dir", "no-such-folder", "--report", nowhere], "report"),
        (&["run", "--memory", "1M", "--report", nowhere, "--", "no-such-program"], "report"),
        (&["run", "--memory", "1M", "--json", nowhere, "--", "no-such-program"], "summary"),
        (&["lab", "make", "loop15", nowhere], "trace"),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", stderr(&output));
        let said = format!("pagetide: cannot write the {what} {nowhere}: No such file");
        assert!(stderr(&output).starts_with(&said), "{args:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}
