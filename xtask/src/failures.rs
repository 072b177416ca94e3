//! Finds the failed tests in a step's log, with their output.
//!
//! libtest prints the output of failed tests between two lines `failures:`:
//!
//! ```text
//!      Running pagetide::kill (target/debug/deps/kill-1f)
//! failures:
//! ---- synced_bytes_survive stdout ----
//! thread 'synced_bytes_survive' panicked at crates/pagetide/tests/kill.rs:80:5: left: 7, right: 8
//! failures:
//!     synced_bytes_survive
//! ```
//!
//! The report of a check ends with the failed tests. An output longer than [`SHOWN`] keeps its
//! panic message and its end.

/// Prefix of the line that names a program, before its output.
pub(crate) const PROGRAM: &str = "     Running ";
/// Maximum output of a failed test in the report, in bytes.
const SHOWN: usize = 8 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) name: String,
    pub(crate) output: String,
}

impl Failure {
    pub(crate) fn block(&self) -> String {
        let Failure { name, output } = self;
        format!("FAILED: {name}\n{}\n", shortened(output).trim_end())
    }
}

pub(crate) fn in_log(log: &str) -> Vec<Failure> {
    let mut failures: Vec<Failure> = Vec::new();
    let (mut program, mut is_inside) = ("", false);
    let mut lines = log.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix(PROGRAM) {
            program = name.split(" (").next().unwrap_or(name);
            is_inside = false;
        } else if line == "failures:" {
            // Only names follow the second such line.
            let is_first = lines.peek().is_some_and(|next| next.trim().is_empty());
            is_inside = is_first;
        } else if let (true, Some(test)) = (is_inside, test_of(line)) {
            let name = format!("{program} {test}").trim().to_owned();
            failures.push(Failure { name, output: String::new() });
        } else if let (true, Some(last)) = (is_inside, failures.last_mut()) {
            last.output.push_str(line);
            last.output.push('\n');
        }
    }
    failures
}

/// Returns the test's name in `---- reads_pages stdout ----`.
fn test_of(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// Returns a failed test in libtest's format, for a program that could not print one.
pub(crate) fn of_program(name: &str, output: &str) -> String {
    let output: String = output.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "\nfailures:\n\n---- {name} stdout ----\n{output}\nfailures:\n    {name}\n\n\
         test result: FAILED. 0 passed; 1 failed; 0 ignored\n"
    )
}

/// Returns at most [`SHOWN`] bytes of an output, and a line for each omitted part. Half of the
/// bytes start at the first panic, half are the end.
pub(crate) fn shortened(output: &str) -> String {
    if output.len() <= SHOWN {
        return output.to_owned();
    }
    let tail = boundary(output, output.len() - SHOWN / 2);
    let panic = output.find("panicked at ").unwrap_or(0);
    let begin = output[..panic].rfind('\n').map_or(0, |end| end + 1).min(tail);
    let end = boundary(output, begin + SHOWN / 2).min(tail);
    let left_out = |len: usize| match len {
        0 => String::new(),
        _ => format!("\n({len} bytes are left out; the log has them)\n"),
    };
    let (head, middle) = (left_out(begin), left_out(tail - end));
    format!("{head}{}{middle}{}", &output[begin..end], &output[tail..])
}

fn boundary(text: &str, at: usize) -> usize {
    (at..text.len()).find(|place| text.is_char_boundary(*place)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
   Compiling a v0.1.0
     Running a::reads (target/debug/deps/reads-1f)
running 2 tests
test maps ... ok
test reads ... FAILED

successes:

---- maps stdout ----
nothing of interest

successes:
    maps

failures:

---- reads stdout ----

thread 'reads' (7) panicked at a.rs:1:1:
assertion `left == right` failed
  left: 7
 right: 8

---- writes stdout ----
other

failures:
    reads
    writes

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out
     Running a::maps (target/debug/deps/maps-1f)
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out
";

    #[test]
    fn each_failed_test_has_its_own_output() {
        let failures = in_log(LOG);
        let names: Vec<&str> = failures.iter().map(|failure| failure.name.as_str()).collect();
        assert_eq!(names, ["a::reads reads", "a::reads writes"]);
        assert!(failures[0].output.contains("  left: 7\n right: 8\n"));
        assert_eq!(failures[1].output.trim(), "other");
    }

    #[test]
    fn a_program_without_a_result_is_read_as_a_failed_test() {
        let output = "it ended\nfailures:\n---- odd stdout ----\n     Running x (y)";
        let failures = in_log(&of_program("a::b", output));
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert_eq!(failures[0].name, "a::b");
        assert!(failures[0].output.contains("it ended"));
    }

    #[test]
    fn an_output_of_four_kibibytes_is_whole() {
        let output = "x".repeat(4096);
        assert_eq!(shortened(&output), output);
    }

    #[test]
    fn a_long_output_keeps_the_panic_message_and_the_end() {
        let noise = "noise\n".repeat(10_000);
        let message = format!("thread 'a' panicked at b.rs:1:1:\nleft: 7\n{}", "y".repeat(3_000));
        let shown = shortened(&format!("{noise}{message}\n{noise}the end\n"));
        assert!(shown.contains(&message) && shown.ends_with("the end\n"));
        assert!(shown.len() < SHOWN + 200 && shown.contains("bytes are left out"));
    }

    #[test]
    fn characters_are_not_cut() {
        for shift in 0..3 {
            let output = format!("{}{}", "a".repeat(shift), "\u{20ac}".repeat(5_000));
            assert!(shortened(&output).len() < SHOWN + 200);
        }
    }
}
