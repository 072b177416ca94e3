//! kill -9: synced data is in the file.
//!
//! A child writes numbered versions of pages through a cache, syncs, and prints the durable
//! version. The parent kills the child at a random moment. Every page must be a whole version, at
//! least as new as the last acknowledged one.
//!
//! This proves that a sync writes everything, not that the device keeps it.

use crate::common::PAGE;
use crate::common::pages::{Random, seed, stamp, version_of};
use crate::common::watchdog::Watchdog;
use pagetide::{Bytes, OpenOptions, PageCache, PolicyName};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const NR_PAGES: u64 = 96;
/// Minimum number of rounds. The test goes on until a kill interrupts a write.
const NR_ROUNDS_LEAST: u64 = 50;
/// Environment variable that selects the child: the path of its file.
const CHILD: &str = "PAGETIDE_KILL_CHILD";

fn be_the_child(path: &str) {
    let policy = [PolicyName::Mglru, PolicyName::ActiveInactive][path.len() % 2];
    let cache = PageCache::builder().memory(Bytes::from_pages(48)).policy(policy).build().unwrap();
    let options = OpenOptions::new().read(true).write(true).create(true);
    let file = cache.open(path, options).unwrap();
    let mut page = vec![0; PAGE];
    for version in 1.. {
        for index in 0..NR_PAGES {
            stamp(&mut page, 1, index, version);
            file.write_at(&page, index * PAGE as u64).unwrap();
        }
        file.sync_data().unwrap();
        println!("durable {version}");
        std::io::stdout().flush().unwrap();
    }
}

fn live_and_die(path: &Path, delay: Duration) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::synced_bytes_survive_a_kill", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (tell, told) = channel();
    let reader = std::thread::spawn(move || {
        let mut durable = 0;
        for line in output.lines().map_while(Result::ok) {
            // The test harness prints on the same line, and the last line may be incomplete.
            if let Some((_, number)) = line.split_once("durable ")
                && let Ok(number) = number.parse::<u64>()
            {
                assert_eq!(number, durable + 1);
                durable = number;
                let _ = tell.send(());
            }
        }
        durable
    });
    // The delay starts at the child's first sync.
    told.recv().expect("the child lives until its first sync");
    let end = Instant::now() + delay;
    while told.recv_timeout(end.saturating_duration_since(Instant::now())).is_ok() {}
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[test]
fn synced_bytes_survive_a_kill() {
    if let Ok(path) = std::env::var(CHILD) {
        return be_the_child(&path);
    }
    let _watchdog = Watchdog::new();
    let mut random = Random::new(seed());
    let dir = tempfile::tempdir().unwrap();
    let (mut round, mut nr_versions, mut nr_newer) = (0, 0, 0);
    while round < NR_ROUNDS_LEAST || nr_newer == 0 {
        let path = dir.path().join("x".repeat(1 + round as usize % 2));
        let durable = live_and_die(&path, Duration::from_micros(random.below(60_000)));
        nr_versions += durable;
        let contents = std::fs::read(&path).unwrap();
        assert_eq!(contents.len() as u64, NR_PAGES * PAGE as u64);
        for (index, page) in (0..).zip(contents.chunks_exact(PAGE)) {
            let version = version_of(page, 1, index)
                .unwrap_or_else(|wrong| panic!("round {round}, durable {durable}: {wrong}"));
            assert!(
                (durable..=durable + 2).contains(&version),
                "round {round}: page {index} is version {version}, {durable} was acknowledged"
            );
            nr_newer += u64::from(version > durable);
        }
        std::fs::remove_file(&path).unwrap();
        round += 1;
    }
    println!("{round} kills, {nr_versions} versions acknowledged, {nr_newer} newer pages found");
}
