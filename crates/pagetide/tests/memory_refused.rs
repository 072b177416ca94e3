//! Addresses that the system refuses, with a little more of them each time: an error that says what
//! was refused, or what was asked for; no panic, no abort. Alone in its process, whose limit it
//! lowers.

use pagetide::{Bytes, PageCache, RegionOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const MEMORY: Bytes = Bytes(64 << 20);
const STEP: u64 = 2 << 20;

/// Runs with so many more bytes of addresses than the process has.
fn with_more<T>(nr_bytes: u64, run: impl FnOnce() -> T) -> T {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let nr_pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    let before = getrlimit(Resource::As);
    let current = Some(nr_pages * 4096 + nr_bytes);
    setrlimit(Resource::As, Rlimit { current, ..before }).unwrap();
    let result = run();
    setrlimit(Resource::As, before).unwrap();
    result
}

fn caches() {
    let (mut nr_refused, mut nr_built) = (0, 0);
    for nr_bytes in (0..=512 << 20).step_by(STEP as usize) {
        let built = with_more(nr_bytes, || PageCache::builder().memory(MEMORY).build());
        match built.map_err(|error| error.to_string()) {
            Ok(_) => nr_built += 1,
            Err(message) => {
                let says = ["ask for less", "a worker thread could not be started"];
                assert!(says.iter().any(|part| message.contains(part)), "{nr_bytes}: {message}");
                nr_refused += 1;
            }
        }
    }
    assert!(nr_refused > 0 && nr_built > 0, "{nr_refused} refused, {nr_built} built");
}

/// One after the other: the limit is the process's.
#[test]
fn a_process_without_addresses_gets_an_error_or_what_it_asked_for() {
    caches();
    regions();
}

fn regions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    std::fs::File::create(&path).unwrap().set_len(MEMORY.0).unwrap();
    let small = || PageCache::builder().memory(Bytes(4 << 20)).build().unwrap();
    if let Err(error) = small().region(RegionOptions::over(&path)) {
        eprintln!("SKIPPED: no regions here: {error}");
        return;
    }
    let (mut nr_refused, mut nr_made) = (0, 0);
    for nr_bytes in (0..=512 << 20).step_by(STEP as usize) {
        let cache = small();
        let made = with_more(nr_bytes, || cache.region(RegionOptions::over(&path)).map(drop));
        match made.map_err(|error| error.to_string()) {
            Ok(()) => nr_made += 1,
            Err(message) => {
                let says = ["ask for less", "could not be started"];
                assert!(says.iter().any(|part| message.contains(part)), "{nr_bytes}: {message}");
                nr_refused += 1;
            }
        }
    }
    assert!(nr_refused > 0 && nr_made > 0, "{nr_refused} refused, {nr_made} made");
}
