//! The benches end to end, quick: rows of the promised shape, and no leftovers.

use crate::run::{left_in, pagetide, run, stderr};
use serde_json::Value;
use std::process::Output;

fn quick(name: &str) -> Vec<Value> {
    quick_with(name, &[])
}

fn quick_with(name: &str, options: &[&str]) -> Vec<Value> {
    let dir = tempfile::tempdir().expect("a folder");
    let dir_name = dir.path().to_str().expect("a plain name");
    // More rounds only repeat the first.
    let nr_runs = if is_long() || name == "hit" { "2" } else { "1" };
    let usual = ["bench", name, "--quick", "--runs", nr_runs, "--dir", dir_name, "--json"];
    let output = run(&[&usual, options].concat());
    let errors = stderr(&output);
    let is_all_skipped = errors.contains("pagetide: nothing could be measured: ");
    assert_eq!(output.status.code(), Some(i32::from(is_all_skipped)), "{errors}");
    assert!(left_in(dir.path()).is_empty());
    // Other swap space belongs to other benches.
    let swaps = std::fs::read_to_string("/proc/swaps").expect("swaps");
    assert!(!swaps.contains(dir_name), "swap space was left behind:\n{swaps}");
    rows_of(&output)
}

/// Returns true for `cargo x check --long`.
fn is_long() -> bool {
    std::env::var_os("PAGETIDE_LONG").is_some_and(|value| value == "1")
}

fn rows_of(output: &Output) -> Vec<Value> {
    let rows: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    rows["rows"].as_array().expect("a list of rows").clone()
}

/// Checks that measured rows have both times and a ratio within the rounds' ratios.
fn check(rows: &[Value], expected: &[(&str, u64, &str)]) {
    let found: Vec<(&str, u64, &str)> = rows
        .iter()
        .map(|row| {
            let text = |field: &str| row[field].as_str().expect("a text field");
            (text("case"), row["threads"].as_u64().expect("threads"), text("reference"))
        })
        .collect();
    assert_eq!(found, expected);
    for row in rows {
        if let Some(why) = row.get("skipped") {
            eprintln!("SKIPPED: {} {}: {why}", row["bench"], row["case"]);
            continue;
        }
        let number = |field: &str| row[field].as_f64().expect("a number");
        let (subject, reference) = (number("subject_ns"), number("reference_ns"));
        assert!(subject > 0.0 && reference > 0.0, "{row}");
        assert!(number("subject_ns_min") <= subject && subject <= number("subject_ns_max"));
        assert!(number("ratio_min") <= number("ratio"), "{row}");
        assert!(number("ratio") <= number("ratio_max"), "{row}");
    }
}

#[test]
fn hit_is_measured_against_memcpy_pread_and_the_floor() {
    let expected = [
        ("copy", 1, "memcpy"),
        ("copy", 1, "pread"),
        ("copy", 2, "memcpy"),
        ("copy", 2, "pread"),
        ("guard-1", 1, "floor"),
        ("guard-16", 1, "floor"),
        ("guard-4096", 1, "floor"),
        ("guard", 1, "floor"),
        ("guard", 1, "memcpy"),
        ("index", 1, "slice"),
        ("read-8", 1, "floor"),
    ];
    check(&quick("hit"), &expected);
}

#[test]
fn policies_are_measured_side_by_side_and_against_the_first() {
    let expected = [
        ("copy mglru", 1, "memcpy"),
        ("copy mglru", 1, "pread"),
        ("copy pagetide", 1, "memcpy"),
        ("copy pagetide", 1, "pread"),
        ("copy pagetide", 1, "mglru"),
        ("copy mglru", 2, "memcpy"),
        ("copy mglru", 2, "pread"),
        ("copy pagetide", 2, "memcpy"),
        ("copy pagetide", 2, "pread"),
        ("copy pagetide", 2, "mglru"),
        ("guard-1 mglru", 1, "floor"),
        ("guard-1 pagetide", 1, "floor"),
        ("guard-1 pagetide", 1, "mglru"),
        ("guard-16 mglru", 1, "floor"),
        ("guard-16 pagetide", 1, "floor"),
        ("guard-16 pagetide", 1, "mglru"),
        ("guard-4096 mglru", 1, "floor"),
        ("guard-4096 pagetide", 1, "floor"),
        ("guard-4096 pagetide", 1, "mglru"),
        ("guard mglru", 1, "floor"),
        ("guard mglru", 1, "memcpy"),
        ("guard pagetide", 1, "floor"),
        ("guard pagetide", 1, "memcpy"),
        ("guard pagetide", 1, "mglru"),
        ("index mglru", 1, "slice"),
        ("index pagetide", 1, "slice"),
        ("index pagetide", 1, "mglru"),
        ("read-8 mglru", 1, "floor"),
        ("read-8 pagetide", 1, "floor"),
        ("read-8 pagetide", 1, "mglru"),
    ];
    check(&quick_with("hit", &["--policy", "mglru,pagetide"]), &expected);
    let mut rows = quick_with("evict", &["--policy", "fifo,lru,pagetide"]);
    assert_eq!(rows.remove(0)["case"], "fifo");
    check(&rows, &[("lru", 1, "fifo"), ("pagetide", 1, "fifo")]);
}

#[test]
fn miss_and_seq_are_measured_against_the_bare_device() {
    let expected =
        [("random", 1, "direct"), ("depth-8", 1, "io_uring"), ("depth-32", 1, "io_uring")];
    check(&quick("miss"), &expected);
    check(&quick("seq"), &[("cold", 1, "direct")]);
}

#[test]
fn a_bench_that_can_measure_nothing_fails_and_says_why() {
    let output = pagetide().args(["bench", "run", "--quick", "--json"]).env("PATH", "/").output();
    let output = output.expect("the binary runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("pagetide: nothing could be measured: "));
    assert!(rows_of(&output).iter().all(|row| row.get("skipped").is_some()));
}

#[test]
fn programs_are_measured_against_the_kernel() {
    let expected = [
        ("zipf", 1, "linux"),
        ("zipf", 2, "linux"),
        ("warm", 1, "linux"),
        ("warm", 2, "linux"),
        ("resident", 1, "linux"),
        ("seq", 1, "linux"),
        ("stream", 1, "linux"),
        ("sqlite", 1, "linux"),
        ("sqlite-device", 1, "linux"),
        ("small-open cold", 1, "linux"),
        ("small-open warm", 1, "linux"),
        ("one-pass-cat", 1, "linux"),
    ];
    let rows = quick("run");
    // A skipped case has one row.
    let is_skipped = |row: &Value| row["case"] == "sqlite" && row.get("skipped").is_some();
    let has_one = rows.iter().any(is_skipped);
    let expected = expected.into_iter().filter(|row| !has_one || row.0 != "sqlite-device");
    check(&rows, &expected.collect::<Vec<_>>());
}

#[test]
fn mapped_files_are_measured_against_the_kernels_mappings() {
    let expected = [
        ("mmap-random", 1, "linux-random"),
        ("mmap-random", 1, "linux-default"),
        ("mmap-random-memory", 1, "limit"),
        ("mmap-random", 2, "linux-random"),
        ("mmap-random", 2, "linux-default"),
        ("mmap-random-memory", 2, "limit"),
        ("mmap-loop", 1, "linux-random"),
        ("mmap-loop", 1, "linux-default"),
        ("mmap-loop-memory", 1, "limit"),
    ];
    check(&quick_with("run", &["--cases", "mmap-random,mmap-loop"]), &expected);
}

#[test]
fn scripts_are_measured_and_say_what_is_missing() {
    let source = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(source.path().join(name), text).expect("a file");
    };
    write("Makefile", "all: a.o b.o\n");
    write("a.c", "int a(void) { return 1; }\n");
    write("b.c", "int b(void) { return 2; }\n");
    let place = source.path().to_str().expect("a plain name");
    let cases = ["--cases", "build,sqlite-mapped", "--source", place];
    let expected = [
        ("sqlite-mapped", 1, "linux-mapped"),
        ("sqlite-mapped", 1, "linux-read"),
        ("sqlite-mapped-device", 1, "linux-mapped"),
        ("sqlite-mapped-device", 1, "linux-read"),
        ("build mglru", 1, "linux"),
        ("build mglru-6.1", 1, "linux"),
        ("build mglru-6.1", 1, "mglru"),
        ("build active-inactive", 1, "linux"),
        ("build active-inactive", 1, "mglru"),
        ("build-device mglru", 1, "linux"),
        ("build-device mglru-6.1", 1, "linux"),
        ("build-device mglru-6.1", 1, "mglru"),
        ("build-device active-inactive", 1, "linux"),
        ("build-device active-inactive", 1, "mglru"),
    ];
    let rows = quick_with("run", &cases);
    match rows.iter().find_map(|row| row["skipped"].as_str()) {
        Some(why) => eprintln!("SKIPPED: bench run: {why}"),
        None => check(&rows, &expected),
    }
    let rows = quick_with("run", &["--cases", "build"]);
    assert!(rows[0]["skipped"].as_str().is_some_and(|why| why.contains("--source")), "{rows:?}");
}

#[test]
fn zipf_is_measured_against_the_kernel_on_disk_and_in_memory() {
    check(&quick("zipf"), &[("disk", 1, "linux"), ("ram", 1, "linux"), ("ram", 2, "linux")]);
    let mounts = std::fs::read_to_string("/proc/mounts").expect("mounts");
    assert!(!mounts.contains("/dev/shm/pagetide-"), "a mount was left behind:\n{mounts}");
}

#[test]
fn tier_is_measured_against_fast_memory_alone() {
    let expected = ["zipf auto", "zipf hot-selection", "zipf oracle", "zipf still", "fits"]
        .map(|case| (case, 1, "all-fast"));
    check(&quick("tier"), &expected);
}

#[test]
fn region_is_measured_against_faults_and_loads_of_the_kernel_and_against_guards() {
    let mut rows = quick("region");
    if rows[0].get("skipped").is_some() {
        return check(&rows, &[("missing", 1, "kernel")]);
    }
    let protect = rows.remove(1);
    assert!(protect["subject_ns"].as_f64().is_some_and(|nanoseconds| nanoseconds > 0.0));
    let expected = [
        ("missing", 1, "kernel"),
        ("minor", 1, "missing"),
        ("load", 1, "memory"),
        ("load", 1, "pages"),
        ("evict", 1, "bare"),
        ("evict", 2, "bare"),
        ("zipf", 1, "guard"),
    ];
    check(&rows[..7], &expected);
    let mut expected = Vec::new();
    for case in ["file-loads", "file-stores"] {
        let of = |threads| ["random", "mmap"].map(|reference| (case, threads, reference));
        expected.extend([1, 2, 4].map(of).concat());
    }
    expected.extend([("sum", 1, "mmap"), ("again", 1, "random"), ("again", 1, "mmap")]);
    for case in ["anon-loads", "anon-stores"] {
        expected.extend([1, 2, 4].map(|threads| (case, threads, "swap")));
    }
    expected.extend(["fill", "fill-more", "sort"].map(|case| (case, 1, "swap")));
    for (stores, memory) in
        [("file-stores", "file-stores-memory"), ("anon-stores", "anon-stores-memory")]
    {
        // If the kernel killed the swapping process, nothing is measured.
        let of_four = |row: &&Value| row["case"] == stores && row["threads"] == 4;
        if rows.iter().find(of_four).is_some_and(|row| row.get("skipped").is_none()) {
            let at = expected.iter().position(|one| (one.0, one.1) == (stores, 4));
            expected.insert(at.expect("it is expected"), (memory, 4, "limit"));
        }
    }
    check(&rows[7..], &expected);
}

#[test]
fn items_are_measured_under_each_policy_against_swap() {
    let rows = quick_with("items", &["--cases", "gets-even"]);
    if rows[0].get("skipped").is_some() {
        return check(&rows, &[("gets-even", 1, "swap")]);
    }
    if rows.last().is_some_and(|row| row.get("skipped").is_some()) {
        // The kernel killed the swapping process.
        assert!(number_of(&rows, "gets-even mglru", 1) > 0.0);
        let expected = [
            ("gets-even active-inactive", 1, "mglru"),
            ("gets-even pagetide", 1, "mglru"),
            ("gets-even", 1, "swap"),
        ];
        return check(&rows[1..], &expected);
    }
    let expected = [
        ("gets-even mglru", 1, "swap"),
        ("gets-even active-inactive", 1, "swap"),
        ("gets-even active-inactive", 1, "mglru"),
        ("gets-even pagetide", 1, "swap"),
        ("gets-even pagetide", 1, "mglru"),
    ];
    check(&rows, &expected);
}

#[test]
fn evict_reports_every_policy_against_the_first() {
    let mut rows = quick("evict");
    assert!(number_of(&rows, "pagetide", 1) > 0.0);
    rows.remove(0);
    assert!(rows.iter().any(|row| row["case"] == "lru"));
    fn against_first(row: &Value) -> (&str, u64, &str) {
        (row["case"].as_str().expect("a case"), 1, "pagetide")
    }
    check(&rows, &rows.iter().map(against_first).collect::<Vec<_>>());
}

#[test]
fn scans_are_measured_with_prefetch_against_without() {
    let lists = ["random", "in-order"]
        .into_iter()
        .flat_map(|order| ["next", "batch"].map(|form| format!("{form} {order} 10000")));
    let cases: Vec<String> =
        lists.chain(["evict mglru", "evict active-inactive"].map(str::to_owned)).collect();
    let expected: Vec<_> = cases.iter().map(|case| (case.as_str(), 1, "off")).collect();
    check(&quick("scan"), &expected);
}

fn number_of(rows: &[Value], case: &str, threads: u64) -> f64 {
    let row = rows.iter().find(|row| row["case"] == case && row["threads"] == threads);
    let row = row.unwrap_or_else(|| panic!("no row {case} with {threads} threads"));
    assert!(row["reference"].is_null() && row["ratio"].is_null(), "{row}");
    row["subject_ns"].as_f64().unwrap_or_else(|| panic!("no number: {row}"))
}

#[test]
fn alloc_is_measured_against_shared_lists_and_its_tunings_in_a_loop() {
    let rows = quick("alloc");
    let (pairs, loops): (Vec<Value>, Vec<Value>) =
        rows.into_iter().partition(|row| row["case"] == "pair");
    let references = ["mutex", "spin", "array-queue"];
    let expected: Vec<_> =
        [1, 2].into_iter().flat_map(|n| references.map(|name| ("pair", n, name))).collect();
    check(&pairs, &expected);
    assert_eq!(loops.len(), 12);
    for threads in [1, 2] {
        for tuning in ["fixed", "depth", "refill"] {
            assert!(number_of(&loops, &format!("fault {tuning}"), threads) > 0.0);
        }
        // After three cycles, a growing limit is as long as the loop is deep.
        let locked = |tuning: &str| number_of(&loops, &format!("locked {tuning}"), threads);
        assert_eq!(locked("refill"), 0.0);
        assert!(locked("fixed") > 0.0);
    }
}

#[test]
fn bad_names_and_sizes_are_usage_errors() {
    assert_eq!(run(&["bench", "fly"]).status.code(), Some(2));
    assert_eq!(run(&["bench", "hit", "--memory", "1M"]).status.code(), Some(2));
    assert_eq!(run(&["bench", "hit", "--runs", "0"]).status.code(), Some(2));
    assert_eq!(run(&["bench", "hit", "--cases", "seq"]).status.code(), Some(2));
    assert_eq!(run(&["bench", "hit", "--policy", "mglru,fly"]).status.code(), Some(2));
    assert_eq!(run(&["bench", "miss", "--policy", "mglru,lru"]).status.code(), Some(2));
    assert_eq!(run(&["bench", "run", "--cases", "seq,fly"]).status.code(), Some(2));
    assert_eq!(run(&["bench", "region", "--cases", "seq"]).status.code(), Some(2));
}
