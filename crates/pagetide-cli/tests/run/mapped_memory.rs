//! Mapped files stay within the limit, sampled over time in several processes, with huge pages at
//! first.

use super::mapped::{compile, is_served};
use super::resident::{descendants_of, memory_of_all};
use super::{folder, has, pagetide};
use std::collections::BTreeSet;
use std::fs::{File, read_dir, read_link, read_to_string};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: u64 = 24 << 20;
/// Pages copied to their mapping before they leave their frames, per requesting process.
const IN_TRANSIT: u64 = 5 * 16 * 4096;

fn memory_files_of(server: u32) -> Vec<File> {
    let mut seen = BTreeSet::new();
    let links = read_dir(format!("/proc/{server}/fd")).unwrap().flatten().map(|entry| entry.path());
    let is_frames = |name: &std::path::Path| name.to_string_lossy().contains("pagetide-frames");
    let frames = links.filter(|link| read_link(link).is_ok_and(|name| is_frames(&name)));
    let files = frames.filter_map(|link| File::open(link).ok());
    files.filter(|file| seen.insert(file.metadata().unwrap().ino())).collect()
}

/// Counts a moving page once. Returns `None` if the files keep changing.
fn bytes_of(files: &[File]) -> Option<u64> {
    let look = || -> Vec<u64> {
        files.iter().map(|file| file.metadata().unwrap().blocks() * 512).collect()
    };
    let mut looks = (0..100).map(|_| [look(), look()]);
    let [moment, _] = looks.find(|[first, second]| first == second)?;
    Some(moment.iter().sum())
}

fn has_huge_pages(server: u32) -> bool {
    let text = read_to_string(format!("/proc/{server}/smaps_rollup")).unwrap();
    let line = text.lines().find(|line| line.starts_with("ShmemPmdMapped:"));
    line.is_some_and(|line| line.split_ascii_whitespace().nth(1) != Some("0"))
}

#[test]
fn mapped_files_and_frames_are_within_the_limit_together() {
    let test = "mapped_files_and_frames_are_within_the_limit_together";
    let here = folder();
    if !has("gcc", test) || !is_served(here.path(), test) {
        return;
    }
    compile(here.path(), "memory", include_str!("mapped_memory.c"));
    let pages: Vec<u8> = (0..12_000_u32).flat_map(|at| [b'a' + (at % 26) as u8; 4096]).collect();
    std::fs::write(here.path().join("file"), pages).unwrap();
    let mut run = Command::new(pagetide());
    run.args(["run", "-q", "--mmap", "cache", "--memory", "24M", "--", "./memory"]);
    let run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir(here.path());
    let mut child = run.spawn().unwrap();
    let server = child.id();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("read"));
    // After a timeout, small pages are sampled.
    let began = Instant::now();
    while !has_huge_pages(server) && began.elapsed() < Duration::from_secs(5) {
        std::thread::yield_now();
    }
    if !has_huge_pages(server) {
        eprintln!("SKIPPED: {test}: no huge pages here, only small ones: Linux 6.1 makes them");
    }
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let (mut files, mut most, mut most_of_all) = (Vec::new(), 0, 0);
    let mut last = String::new();
    for (nr, line) in lines.enumerate() {
        if nr % 20 == 0 {
            files = memory_files_of(server);
            most_of_all = most_of_all.max(memory_of_all(&descendants_of(server)));
        }
        most = most.max(bytes_of(&files).unwrap_or(0));
        last = line;
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(last, "ok");
    println!("{} KiB of frames, {} KiB of memory at most", most >> 10, most_of_all >> 10);
    assert!(most > LIMIT / 2, "{most} bytes: they were looked at");
    assert!(most <= LIMIT + IN_TRANSIT, "{most} bytes of {LIMIT}");
    // By "Resident size" in results/notes.md.
    let allowed = LIMIT + LIMIT / 4096 * 160 + 6 * (392 << 10) + (12 << 20);
    assert!(most_of_all <= allowed, "{most_of_all} bytes, {allowed} allowed");
}
