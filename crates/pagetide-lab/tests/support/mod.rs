//! Real traces for tests, from the folder named by `PAGETIDE_TRACES`.
//!
//! A test without its trace prints `SKIPPED: test: why`. The file named by `PAGETIDE_SKIP_LOG`, if
//! set, gets the same line, so that skips can be counted.

use pagetide_lab::trace::{DenseTrace, Trace};
use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// Returns the path of the trace `file`, or `None` after reporting `test` as skipped.
pub(crate) fn find_trace(test: &str, file: &str) -> Option<PathBuf> {
    let Some(folder) = env::var_os("PAGETIDE_TRACES") else {
        skip(test, &format!("PAGETIDE_TRACES is not set, wanted {file}"));
        return None;
    };
    let path = PathBuf::from(folder).join(file);
    if !path.is_file() {
        skip(test, &format!("no file {}", path.display()));
        return None;
    }
    Some(path)
}

/// Loads the trace `file` in its detected format, or returns `None` after reporting `test` as
/// skipped.
pub(crate) fn load_trace(test: &str, file: &str) -> Option<DenseTrace> {
    let path = find_trace(test, file)?;
    let mut trace = Trace::open(&path, None).expect("the trace opens");
    Some(DenseTrace::read(&mut trace).expect("the trace is sound"))
}

pub(crate) fn skip(test: &str, why: &str) {
    let line = format!("SKIPPED: {test}: {why}\n");
    eprint!("{line}");
    if let Some(log) = env::var_os("PAGETIDE_SKIP_LOG") {
        let log = OpenOptions::new().create(true).append(true).open(log);
        log.and_then(|mut log| log.write_all(line.as_bytes())).expect("the skip log takes a line");
    }
}
