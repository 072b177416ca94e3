//! Outputs to pipes with stopped or absent readers.

use super::{has, script};

const WITHOUT: &str = "without a reader: 1 no process reads this pipe: start its reader first, as \
                       in `cat pipe &`";
const GONE: &str = "with a reader that goes: 1 its reader has gone, and the rest is lost";

#[test]
fn no_reader_of_an_output_hangs_a_run() {
    if !has("python3", "no_reader_of_an_output_hangs_a_run") {
        return;
    }
    let said = script("stopped_readers.py");
    let has_line = |line: &str| assert!(said.lines().any(|it| it == line), "no {line} in\n{said}");
    for option in ["--json", "--dump", "--report"] {
        has_line(&format!("{option} {WITHOUT}"));
        has_line(&format!("{option} {GONE}"));
    }
    for option in ["--metrics", "--record"] {
        has_line(&format!("{option} {WITHOUT}"));
        // Failed extra outputs do not fail the run.
        has_line(&format!("{option} with a reader that goes: 0"));
    }
    for option in ["--json", "--dump", "--report", "--metrics", "--record"] {
        has_line(&format!("{option} with a reader: 0 True"));
    }
    for signal in ["SIGTERM", "SIGINT"] {
        has_line(&format!("{signal} to a run whose reader stops: True"));
    }
    assert!(!said.contains("hangs"), "{said}");
}
