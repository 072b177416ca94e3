//! Runs test programs in parallel, one per CPU.
//!
//! ```text
//! queue of programs --> thread, thread --> <target folder>/xtask/tests/<program>.log
//!                             |
//!                             `--> ended: its log goes to the step's log, a line to the terminal
//! ```
//!
//! A program's output stays together in the step's log. A program that fails without a failed test
//! (a signal, the time limit) is logged as a failed test in the format of libtest, so that one
//! parser reads all failures.

use super::programs::Program;
use crate::failures;
use crate::step::{Outcome, StepContext, TIMED_OUT};
use crate::tally::Tally;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Interval of the list of running programs on the terminal.
const WORD: Duration = Duration::from_secs(60);

struct Ended<'a> {
    program: &'a Program,
    log: PathBuf,
    end: End,
    time: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Exited(ExitStatus),
    /// Ended by the time limit of the step, or never started because of it.
    TimedOut,
    /// Could not be started.
    NotStarted,
}

pub(super) fn run(context: &StepContext, programs: &[Program]) -> Outcome {
    let width = std::thread::available_parallelism().map_or(2, usize::from);
    println!("{} programs, {width} at a time", programs.len());
    let queue = Mutex::new(programs.iter().collect::<VecDeque<_>>());
    let next = || queue.lock().expect("no thread panics with it").pop_front();
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..width {
            let tell = tell.clone();
            scope.spawn(move || {
                while let Some(program) = next() {
                    let ended = start_and_wait(context, program);
                    tell.send(ended).expect("the receiver outlives the threads");
                }
            });
        }
        drop(tell);
        collect(context, programs, &told)
    })
}

fn collect(context: &StepContext, programs: &[Program], told: &mpsc::Receiver<Ended>) -> Outcome {
    let (begun, mut outcome) = (Instant::now(), Outcome::Done);
    let mut left: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
    loop {
        match told.recv_timeout(WORD) {
            Ok(ended) => {
                left.retain(|name| *name != ended.program.name);
                match report(context, &ended) {
                    Ok(Outcome::Done) => {}
                    Ok(other) if outcome != Outcome::TimedOut => outcome = other,
                    Ok(_) => {}
                    Err(error) => {
                        println!("cannot copy {} into the log: {error}", ended.log.display());
                        outcome = Outcome::Failed;
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let minutes = begun.elapsed().as_secs() / 60;
                println!("    after {minutes} min: {} left, first {}", left.len(), left[0]);
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    print!("{:21}", "");
    io::stdout().flush().ok();
    outcome
}

fn start_and_wait<'a>(context: &StepContext, program: &'a Program) -> Ended<'a> {
    let begun = Instant::now();
    let file = format!("{}.log", program.name.replace("::", ".").replace(' ', "-"));
    let log = context.log().with_extension("").join(file);
    let end = match start(context, program, &log) {
        Ok(Some(status)) if status.code().is_some_and(|code| TIMED_OUT.contains(&code)) => {
            End::TimedOut
        }
        Ok(Some(status)) => End::Exited(status),
        Ok(None) => End::TimedOut,
        Err(error) => {
            fs::write(&log, format!("cannot start it: {error}\n")).ok();
            End::NotStarted
        }
    };
    Ended { program, log, end, time: begun.elapsed() }
}

/// Runs a program and waits for its end. Returns `None` if no time is left.
fn start(context: &StepContext, program: &Program, log: &Path) -> io::Result<Option<ExitStatus>> {
    fs::create_dir_all(log.parent().expect("it is in a folder"))?;
    let output = File::create(log)?;
    let Some(mut command) = context.limited(&program.path) else { return Ok(None) };
    command.args(&program.arguments).envs(program.env.iter().map(|(name, value)| (name, value)));
    command.current_dir(&program.folder);
    // Both streams share one file offset.
    command.stdout(output.try_clone()?).stderr(output).status().map(Some)
}

fn report(context: &StepContext, ended: &Ended) -> io::Result<Outcome> {
    let bytes = fs::read(&ended.log)?;
    let mut output = String::from_utf8_lossy(&bytes).into_owned();
    if let Some(failure) = lost_failure(ended, &output) {
        output.push_str(&failure);
    }
    let mut log = OpenOptions::new().append(true).open(context.log())?;
    let Program { name, path, .. } = ended.program;
    writeln!(log, "{}{name} ({})\n{output}", failures::PROGRAM, path.display())?;
    let tally = Tally::from_log(&output);
    let verdict = if ended.has_succeeded() && tally.failed == 0 { "" } else { "  FAILED" };
    println!("    {name:<32} {:6.1} s  {}{verdict}", ended.time.as_secs_f64(), tally.summary());
    Ok(match ended.end {
        End::TimedOut => Outcome::TimedOut,
        _ if verdict.is_empty() => Outcome::Done,
        _ => Outcome::Failed,
    })
}

impl Ended<'_> {
    fn has_succeeded(&self) -> bool {
        matches!(self.end, End::Exited(status) if status.success())
    }
}

/// Returns a failed test in libtest's format for a program that failed without one, else `None`.
fn lost_failure(ended: &Ended, output: &str) -> Option<String> {
    let tally = Tally::from_log(output);
    let has_result = output.lines().any(|line| line.starts_with("test result: "));
    if tally.failed > 0 && has_result {
        return None;
    }
    let why = match ended.end {
        End::Exited(status) if !status.success() => status.to_string(),
        End::Exited(_) if ended.program.has_result && !has_result => "no test result".to_owned(),
        End::Exited(_) => return None,
        End::TimedOut => "the time limit of its step".to_owned(),
        End::NotStarted => "it was not started".to_owned(),
    };
    let shown = failures::shortened(output);
    let name = &ended.program.name;
    Some(failures::of_program(name, &format!("{name} ended: {why}\n{shown}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str, script: &str) -> Program {
        Program {
            name: name.to_owned(),
            path: "sh".into(),
            arguments: vec!["-c".into(), script.into()],
            folder: "/".into(),
            env: vec![("WORD", "given".into())],
            has_result: true,
        }
    }

    fn run_all(name: &str, seconds: u64, programs: &[Program]) -> (Outcome, Tally, String) {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let name = format!("test of programs {name}");
        let context = StepContext::new(root, &name, Duration::from_secs(seconds)).unwrap();
        let outcome = run(&context, programs);
        let log = context.read_log();
        (outcome, Tally::from_log(&log), log)
    }

    const PASSES: &str = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";

    #[test]
    fn the_results_of_all_programs_are_counted() {
        let programs = ["a", "b", "c", "d", "e"].map(|name| program(name, PASSES));
        let (outcome, tally, log) = run_all("that pass", 600, &programs);
        assert_eq!((outcome, tally.passed, tally.failed), (Outcome::Done, 10, 0));
        for one in &programs {
            let header = format!("{}{} (sh)\n", failures::PROGRAM, one.name);
            assert_eq!(log.matches(&header).count(), 1, "{log}");
        }
    }

    #[test]
    fn programs_run_side_by_side() {
        if std::thread::available_parallelism().map_or(2, usize::from) < 2 {
            return eprintln!("SKIPPED: programs_run_side_by_side: there is one CPU");
        }
        // Each program waits for the start of the second. In sequence they would reach the limit.
        let folder = std::env::temp_dir().join(format!("pagetide-beside-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let meet = |own: &str, other: &str| {
            let script = format!("touch {own}; until [ -e {other} ]; do :; done; {PASSES}");
            Program { folder: folder.clone(), ..program(own, &script) }
        };
        let (outcome, tally, _) = run_all("at once", 600, &[meet("a", "b"), meet("b", "a")]);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((outcome, tally.passed), (Outcome::Done, 4));
    }

    #[test]
    fn a_failed_program_is_reported_with_its_output_and_the_others_run() {
        let fails = "echo 'failures:'; echo; echo '---- reads stdout ----'; echo left is 7 >&2; \
                     echo; echo 'failures:'; echo '    reads'; \
                     echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; exit 101";
        let programs = [program("bad", fails), program("good", PASSES)];
        let (outcome, tally, _) = run_all("of which one fails", 600, &programs);
        assert_eq!((outcome, tally.passed, tally.failed), (Outcome::Failed, 3, 1));
        assert_eq!(tally.failures.len(), 1);
        assert_eq!(tally.failures[0].name, "bad reads");
        assert!(tally.failures[0].output.contains("left is 7"));
    }

    #[test]
    fn a_program_that_dies_is_a_failed_test() {
        let dies = "echo 'running 3 tests'; echo 'test one ... ok'; kill -SEGV $$";
        let (outcome, tally, _) = run_all("that die", 600, &[program("dead", dies)]);
        assert_eq!((outcome, tally.failed), (Outcome::Failed, 1));
        let failure = &tally.failures[0];
        assert!(failure.output.contains("signal: 11"), "{}", failure.output);
        assert!(failure.output.contains("running 3 tests"), "{}", failure.output);
    }

    #[test]
    fn an_exit_status_counts_where_the_result_does_not_say_so() {
        let (outcome, tally, _) =
            run_all("of status 3", 600, &[program("odd", &format!("{PASSES}; exit 3"))]);
        assert_eq!((outcome, tally.passed, tally.failed), (Outcome::Failed, 2, 1));
        assert!(tally.failures[0].output.contains("exit status: 3"));
        let (outcome, tally, _) = run_all("without a result", 600, &[program("mute", "exit 0")]);
        assert_eq!((outcome, tally.failed), (Outcome::Failed, 1));
        let bench = Program { has_result: false, ..program("bench", "echo quick") };
        assert_eq!(run_all("without tests", 600, &[bench]).0, Outcome::Done);
    }

    #[test]
    fn programs_that_reach_the_time_limit_are_failed_tests() {
        // More programs than run at a time, so some never start.
        let nr = std::thread::available_parallelism().map_or(2, usize::from) + 1;
        let hangs = |nth: usize| program(&format!("hangs {nth}"), "sleep 60");
        let programs: Vec<Program> = (0..nr).map(hangs).collect();
        let (outcome, tally, log) = run_all("that hang", 1, &programs);
        assert_eq!((outcome, tally.failed), (Outcome::TimedOut, nr as u64));
        assert_eq!(log.matches("the time limit of its step").count(), nr, "{log}");
    }

    #[test]
    fn a_program_that_is_not_there_is_a_failed_test() {
        let missing = Program { path: "/nonexistent/program".into(), ..program("gone", "") };
        let (outcome, tally, _) = run_all("that are missing", 600, &[missing]);
        assert_eq!((outcome, tally.failed), (Outcome::Failed, 1));
    }

    #[test]
    fn a_program_has_its_folder_and_its_variables() {
        let script = format!("test \"$WORD\" = given && test \"$(pwd)\" = / && {PASSES}");
        assert_eq!(run_all("with a folder", 600, &[program("at", &script)]).0, Outcome::Done);
    }
}
