//! The system refuses descriptors, at each point in turn: an error or a fallback, no panic, nothing
//! lost. A separate binary, as it lowers the process's limit.

mod common;

use common::{PAGE, pattern_at};
use pagetide::{Bytes, OpenOptions, PageCache};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;

fn next_descriptor() -> u64 {
    use std::os::fd::AsRawFd;
    std::fs::File::open("/dev/null").unwrap().as_raw_fd() as u64
}

fn with_limit<T>(nr_descriptors: u64, run: impl FnOnce() -> T) -> T {
    let before = getrlimit(Resource::Nofile);
    let current = Some(nr_descriptors);
    setrlimit(Resource::Nofile, Rlimit { current, ..before }).unwrap();
    let result = run();
    setrlimit(Resource::Nofile, before).unwrap();
    result
}

/// Opens a cache and two files, copies one, and syncs. Returns the point of refusal.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let builder = PageCache::builder().memory(Bytes::from_pages(64));
    let cache = builder.build().map_err(|error| error.to_string())?;
    let open = |path: &Path, options| {
        cache.open(path, options).map_err(|error| {
            let message = error.to_string();
            assert!(message.contains("Too many open files"), "{message}");
            message
        })
    };
    let source = open(from, OpenOptions::new().read(true))?;
    let target = open(to, OpenOptions::new().read(true).write(true).create(true))?;
    let mut bytes = vec![0; source.len() as usize];
    assert_eq!(source.read_at(&mut bytes, 0).unwrap(), bytes.len());
    target.write_at(&bytes, 0).unwrap();
    target.sync_all().unwrap();
    Ok(())
}

#[test]
fn a_process_without_descriptors_gets_an_error_or_its_data() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let contents = pattern_at(0, 100 * PAGE + 9);
    std::fs::write(&from, &contents).unwrap();
    let first = next_descriptor();
    let mut nr_refused = 0;
    for nr_more in 0.. {
        match with_limit(first + nr_more, || copy(&from, &to)) {
            Ok(()) => assert!(std::fs::read(&to).unwrap() == contents, "{nr_more}"),
            Err(_) => nr_refused += 1,
        }
        // Enough for two descriptors a file, and a queue for each thread.
        if nr_more > 16 {
            break;
        }
        assert_eq!(next_descriptor(), first, "{nr_more}: none is left behind");
    }
    assert!(nr_refused >= 2, "one for each file");
    copy(&from, &to).unwrap();
}
