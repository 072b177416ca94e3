//! Runs the ladder of checks, cheapest first.
//!
//! ```text
//! format > tidy > clippy > no-OS check > docs > build > tests > python > loom > Miri > fuzz
//! ```
//!
//! The ladder should take less than [`TOTAL`] from an empty target folder on two CPUs. Tests run in
//! parallel in the dev profile (see Cargo.toml). Loom, Miri and fuzzing run only for changed code
//! ([`crate::changed`]). A check that the machine cannot run (no nightly, no network) is skipped,
//! counted, and printed last.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::changed::Change;
use crate::programs;
use crate::python;
use crate::step::{LONG, Outcome, StepContext};
use crate::suite;
use crate::tally::{self, Tally};
use crate::tidy;

/// Maximum duration of a check. Steps that can be skipped get the remaining time.
const TOTAL: Duration = Duration::from_secs(700);
/// Maximum duration with `--long`, also for each test step.
const TOTAL_LONG: Duration = Duration::from_secs(4 * 3600);

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    is_fast: bool,
    keeps_going: bool,
    is_long: bool,
    installs: bool,
}

impl Options {
    /// Parses the flags. Returns `None` if a flag is unknown.
    pub(crate) fn parse(flags: &[&str]) -> Option<Options> {
        let mut options = Options::default();
        for flag in flags {
            match *flag {
                "--fast" => options.is_fast = true,
                "--keep-going" => options.keeps_going = true,
                "--long" => options.is_long = true,
                "--install" => options.installs = true,
                _ => return None,
            }
        }
        Some(options)
    }
}

struct Step {
    name: &'static str,
    limit_seconds: u64,
    kind: Kind,
    work: fn(&StepContext) -> Outcome,
    /// The files and folders that the step checks. An empty list means always.
    follows: &'static [&'static str],
}

impl Step {
    const fn following(self, follows: &'static [&'static str]) -> Step {
        Step { follows, ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Reads the code. The log is shown only on failure.
    Lint,
    /// Runs tests, and counts the results in the log.
    Tests,
    /// Runs tests in the remaining time. A timeout is a skip, not a failure.
    DeepTests,
    /// Like `DeepTests`, without counting results as tests.
    Deep,
}

impl Kind {
    const fn counts_tests(self) -> bool {
        matches!(self, Kind::Tests | Kind::DeepTests)
    }

    const fn takes_what_is_left(self) -> bool {
        matches!(self, Kind::DeepTests | Kind::Deep)
    }
}

const fn step(
    name: &'static str,
    limit_seconds: u64,
    kind: Kind,
    work: fn(&StepContext) -> Outcome,
) -> Step {
    Step { name, limit_seconds, kind, work, follows: &[] }
}

/// Runs first, and only with `--install`.
const INSTALL: Step = step("programs", 900, Kind::Lint, programs::install);

const FULL: [Step; 11] = [
    step("format", 60, Kind::Lint, format),
    step("tidy", 60, Kind::Lint, house_rules),
    step("clippy", 1_800, Kind::Lint, clippy),
    step("core without an OS", 900, Kind::Lint, core_without_an_os),
    step("docs", 900, Kind::Lint, docs),
    step("build of the tests", 3_600, Kind::Lint, suite::build_all),
    step("tests", 3_600, Kind::Tests, suite::run_all),
    step("python", 1_500, Kind::DeepTests, python::run),
    step("loom", 300, Kind::DeepTests, loom).following(&LOOM),
    step("miri", 420, Kind::DeepTests, miri).following(&MIRI),
    step("fuzz", 300, Kind::Deep, fuzz).following(&FUZZ),
];

/// The code that loom's tests check.
const LOOM: [&str; 7] = [
    "Cargo.lock",
    "crates/pagetide-core/src/page_alloc",
    "crates/pagetide-sys/src/machine",
    "crates/pagetide-sys/src/memory",
    "crates/pagetide-sys/src/page",
    "crates/pagetide-sys/src/sync.rs",
    "crates/pagetide/src/memory",
];
/// The code that Miri interprets.
const MIRI: [&str; 3] = [
    "crates/pagetide-core/src/ids.rs",
    "crates/pagetide-core/src/list.rs",
    "crates/pagetide-sys/src/page/word",
];
/// The code that the fuzz targets call.
const FUZZ: [&str; 5] = [
    "crates/pagetide-core/src",
    "crates/pagetide-lab/src",
    "crates/pagetide-run/src/wire",
    "crates/pagetide/src/api/control",
    "fuzz",
];

const FAST: [Step; 5] = [
    step("format", 60, Kind::Lint, format),
    step("tidy", 60, Kind::Lint, house_rules),
    step("clippy on libraries", 1_800, Kind::Lint, clippy_on_libraries),
    step("build of unit tests", 1_800, Kind::Lint, suite::build_fast),
    step("unit tests", 1_800, Kind::Tests, suite::run_fast),
];

pub(crate) fn run(root: &Path, options: Options) -> bool {
    let start = Instant::now();
    let steps: &[Step] = if options.is_fast { &FAST } else { &FULL };
    let install = options.installs.then_some(&INSTALL);
    let total = if options.is_long { TOTAL_LONG } else { TOTAL };
    // A long check runs every step.
    let change = if options.is_long { None } else { Change::of_tree(root) };
    let (mut sum, mut times) = (Tally::default(), Vec::new());
    for step in install.into_iter().chain(steps) {
        let before = start.elapsed();
        let excuse = change.as_ref().and_then(|change| change.excuse(step.follows));
        let tally = match excuse {
            Some(why) => leave_out(step, &why),
            None => climb(root, step, options.is_long, total.saturating_sub(before)),
        };
        times.push((start.elapsed() - before, step.name));
        let has_failed = tally.failed > 0;
        sum.add(tally);
        if has_failed && !options.keeps_going {
            println!("stopped at the first failure; --keep-going runs the rest");
            break;
        }
    }
    for cause in sum.by_cause() {
        println!("{cause}");
    }
    for failure in &sum.failures {
        println!("{}", failure.block());
    }
    println!("total {:.1} s: {}", start.elapsed().as_secs_f64(), longest(times));
    println!("{}", sum.summary());
    sum.failed == 0
}

fn longest(mut times: Vec<(Duration, &str)>) -> String {
    times.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    let said = times.iter().take(3).map(|(time, name)| format!("{name} {} s", time.as_secs()));
    said.collect::<Vec<_>>().join(", ")
}

/// Counts an unneeded step as skipped, and prints its line.
fn leave_out(step: &Step, why: &str) -> Tally {
    println!("{:<20} {:7.1} s  SKIPPED", step.name, 0.0);
    let mut tally = Tally::default();
    tally.skip(&format!("step {}", step.name), why);
    tally
}

/// Runs one step and prints its line. A failed step counts at least one failure.
fn climb(root: &Path, step: &Step, is_long: bool, left: Duration) -> Tally {
    print!("{:<20} ", step.name);
    std::io::stdout().flush().ok();
    let start = Instant::now();
    let mut limit = Duration::from_secs(step.limit_seconds);
    if is_long && step.kind.counts_tests() {
        limit = TOTAL_LONG;
    }
    let limit = if step.kind.takes_what_is_left() { limit.min(left) } else { limit };
    let context = match StepContext::new(root, step.name, limit) {
        Ok(context) if is_long => context.with_env(LONG, "1"),
        Ok(context) => context,
        Err(error) => {
            println!("FAILED: cannot write its log: {error}");
            return Tally { failed: 1, ..Tally::default() };
        }
    };
    let outcome = (step.work)(&context);
    let log = context.read_log();
    let mut tally = if step.kind.counts_tests() { Tally::from_log(&log) } else { Tally::default() };
    let outcome = judge(step.kind, outcome, &tally, limit);
    print!("{:7.1} s  ", start.elapsed().as_secs_f64());
    match &outcome {
        Outcome::Done => println!("ok"),
        Outcome::Skipped(why) => {
            println!("SKIPPED");
            tally.skip(&format!("step {}", step.name), why);
        }
        Outcome::Failed | Outcome::TimedOut => {
            println!("FAILED{}", if outcome == Outcome::TimedOut { " (time limit)" } else { "" });
            print_failure(step, &context, &tally, &log);
            tally.failed = tally.failed.max(1);
        }
    }
    tally
}

/// Prints the names of the failed tests, or the log without its successes if there are none.
fn print_failure(step: &Step, context: &StepContext, tally: &Tally, log: &str) {
    for failure in &tally.failures {
        println!("    {}", failure.name);
    }
    if tally.failures.is_empty() {
        println!("{}", tally::without_successes(log));
    }
    println!("^ output of {}, whole in {}", step.name, context.log().display());
}

/// Returns the outcome of a step. A test step without tests is skipped, not passed.
fn judge(kind: Kind, outcome: Outcome, tally: &Tally, limit: Duration) -> Outcome {
    match outcome {
        Outcome::Done if kind.counts_tests() && tally.nr_tests() == 0 => {
            Outcome::Skipped("no test matched".to_owned())
        }
        Outcome::TimedOut if kind.takes_what_is_left() && tally.failed == 0 => {
            Outcome::Skipped(format!("not done within {} s", limit.as_secs()))
        }
        other => other,
    }
}

fn format(context: &StepContext) -> Outcome {
    context.cargo(&["fmt", "--all", "--check"])
}

fn house_rules(context: &StepContext) -> Outcome {
    match tidy::report(context.root()) {
        Ok(report) if report.is_empty() => Outcome::Done,
        Ok(report) | Err(report) => {
            if let Err(error) = std::fs::write(context.log(), report) {
                println!("cannot write {}: {error}", context.log().display());
            }
            Outcome::Failed
        }
    }
}

fn clippy(context: &StepContext) -> Outcome {
    context.cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
}

fn clippy_on_libraries(context: &StepContext) -> Outcome {
    context.cargo(&["clippy", "--workspace", "--lib", "--locked", "--", "-D", "warnings"])
}

fn docs(context: &StepContext) -> Outcome {
    let env = [("RUSTDOCFLAGS", OsString::from("-D warnings"))];
    context.cargo_with(&["doc", "--workspace", "--no-deps", "--locked"], &env)
}

const NO_OS: &str = "x86_64-unknown-none";

/// Proves that core is pure: the target has no standard library.
fn core_without_an_os(context: &StepContext) -> Outcome {
    if !has_target(NO_OS) {
        // The only download of a check. The timeout is for machines without a network.
        let added = context.command("timeout", &["60", "rustup", "target", "add", NO_OS], &[]);
        if added != Outcome::Done {
            return Outcome::Skipped(format!("the target {NO_OS} cannot be added with rustup"));
        }
    }
    context.cargo(&["check", "-p", "pagetide-core", "--target", NO_OS, "--locked"])
}

fn has_target(target: &str) -> bool {
    let libdir = output_of("rustc", &["--print", "target-libdir", "--target", target]);
    libdir.is_some_and(|dir| Path::new(dir.trim()).is_dir())
}

/// Runs every interleaving of the page word and the code on top.
fn loom(context: &StepContext) -> Outcome {
    let env = [
        ("RUSTFLAGS", OsString::from("--cfg loom")),
        // A separate folder, because the flags would rebuild everything in the common one.
        ("CARGO_TARGET_DIR", context.target_dir().join("loom").into_os_string()),
        // Loom's tests are built once and run for a minute.
        ("CARGO_PROFILE_RELEASE_LTO", OsString::from("off")),
    ];
    let command = ["test", "-p", "pagetide-sys", "-p", "pagetide", "--release", "--lib"];
    context.cargo_with(&[&command[..], &["--locked", "loom", "--", "--show-output"]].concat(), &env)
}

/// Looks for undefined behaviour and index errors in code that an interpreter runs quickly.
fn miri(context: &StepContext) -> Outcome {
    if let Some(why) = miri_is_missing() {
        return Outcome::Skipped(why);
    }
    if context.cargo(&["+nightly", "miri", "setup"]) != Outcome::Done {
        return Outcome::Skipped("`cargo +nightly miri setup` cannot build its library".to_owned());
    }
    let env = [
        // proptest reads the current folder, and its usual number of cases would run for hours.
        ("MIRIFLAGS", OsString::from("-Zmiri-disable-isolation")),
        ("PROPTEST_CASES", OsString::from("4")),
    ];
    let flags = ["--lib", "--locked", "--", "--show-output"];
    let command = ["+nightly", "miri", "test", "-p"];
    let rooms: [(&str, &[&str]); 2] =
        [("pagetide-core", &["ids::", "list::"]), ("pagetide-sys", &["word::"])];
    for (package, filters) in rooms {
        let arguments = [&command[..], &[package], &flags, filters].concat();
        let outcome = context.cargo_with(&arguments, &env);
        if outcome != Outcome::Done {
            return outcome;
        }
    }
    Outcome::Done
}

fn fuzz(context: &StepContext) -> Outcome {
    if let Some(why) = fuzz_is_missing() {
        return Outcome::Skipped(why);
    }
    for target in ["traces", "replay", "wire", "control"] {
        let corpus = context.target_dir().join("fuzz-corpus").join(target);
        if let Err(error) = std::fs::create_dir_all(&corpus) {
            println!("cannot create {}: {error}", corpus.display());
            return Outcome::Failed;
        }
        let corpus = corpus.to_string_lossy();
        let limits = ["--", "-max_total_time=15", "-max_len=4096"];
        let outcome =
            context.cargo(&[&["+nightly", "fuzz", "run", target, &corpus], &limits[..]].concat());
        if outcome != Outcome::Done {
            return outcome;
        }
    }
    Outcome::Done
}

/// Returns the reason why fuzzing cannot run. Never downloads anything.
fn fuzz_is_missing() -> Option<String> {
    if let Some(why) = nightly_is_missing() {
        return Some(why);
    }
    let version = output_of("cargo", &["fuzz", "--version"]);
    version.is_none().then(|| "no cargo-fuzz: cargo install cargo-fuzz".to_owned())
}

/// Returns the reason why there is no nightly toolchain. Never makes rustup download one.
fn nightly_is_missing() -> Option<String> {
    let Some(toolchains) = output_of("rustup", &["toolchain", "list"]) else {
        return Some("rustup is not here, so neither is a nightly toolchain".to_owned());
    };
    if !toolchains.lines().any(|line| line.starts_with("nightly-")) {
        return Some("no nightly toolchain: rustup toolchain install nightly".to_owned());
    }
    None
}

/// Returns the reason why Miri cannot run. Never downloads anything.
fn miri_is_missing() -> Option<String> {
    if let Some(why) = nightly_is_missing() {
        return Some(why);
    }
    let components = ["component", "list", "--installed", "--toolchain", "nightly"];
    let components = output_of("rustup", &components).unwrap_or_default();
    if ["miri", "rust-src"].iter().any(|part| !components.contains(part)) {
        return Some("rustup component add --toolchain nightly miri rust-src".to_owned());
    }
    None
}

fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = std::process::Command::new("timeout")
        .arg("20")
        .arg(program)
        .args(arguments)
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_steps_are_named_the_longest_first() {
        let times = [(3, "docs"), (80, "tests"), (0, "tidy"), (9, "clippy")];
        let times = times.map(|(seconds, name)| (Duration::from_secs(seconds), name));
        assert_eq!(longest(times.to_vec()), "tests 80 s, clippy 9 s, docs 3 s");
    }

    #[test]
    fn unknown_flags_are_refused() {
        assert_eq!(Options::parse(&["--slow"]), None);
        let both = Options::parse(&["--keep-going", "--fast"]).unwrap();
        assert_eq!(both, Options { is_fast: true, keeps_going: true, ..Options::default() });
        let rest = Options::parse(&["--long", "--install"]).unwrap();
        assert_eq!(rest, Options { is_long: true, installs: true, ..Options::default() });
    }

    #[test]
    fn the_tests_are_given_the_long_form() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let is_given = |context: &StepContext| {
            context.command("sh", &["-c", "test \"$PAGETIDE_LONG\" = 1"], &[])
        };
        let one = step("test of the long form", 20, Kind::Lint, is_given);
        assert_eq!(climb(root, &one, true, TOTAL).failed, 0);
        // This may itself be a test of a long check.
        let is_set_here = std::env::var_os(LONG).is_some_and(|value| value == "1");
        assert_eq!(climb(root, &one, false, TOTAL).failed, u64::from(!is_set_here));
    }

    #[test]
    fn every_step_of_the_fast_check_is_a_cheaper_one_of_the_full_check() {
        let name = |step: &Step| step.name.split(' ').next().unwrap().to_owned();
        let full: Vec<String> = FULL.iter().map(name).collect();
        for step in &FAST[..3] {
            assert!(full.contains(&name(step)), "{}", step.name);
        }
    }

    #[test]
    fn every_followed_path_is_there() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        for path in FULL.iter().flat_map(|step| step.follows) {
            assert!(root.join(path).exists(), "{path}");
        }
    }

    #[test]
    fn a_step_that_is_left_out_is_a_loud_skip() {
        let one = step("test of leaving out", 20, Kind::Lint, |_| Outcome::Failed);
        let tally = leave_out(&one, "nothing has changed");
        assert_eq!(tally.reasons, ["SKIPPED: step test of leaving out: nothing has changed"]);
    }

    fn climb_with(name: &'static str, kind: Kind, work: fn(&StepContext) -> Outcome) -> Tally {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        climb(root, &step(name, 20, kind, work), false, TOTAL)
    }

    #[test]
    fn a_failed_step_without_tests_counts_one_failure() {
        let tally = climb_with("test of failing", Kind::Lint, |_| Outcome::Failed);
        assert_eq!(tally.summary(), "0 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn a_test_step_that_runs_nothing_is_a_loud_skip() {
        let tally = climb_with("test of nothing", Kind::Tests, |_| Outcome::Done);
        assert_eq!(tally.reasons, ["SKIPPED: step test of nothing: no test matched"]);
    }

    #[test]
    fn a_step_that_cannot_be_tried_is_a_loud_skip() {
        let tally = climb_with("test of skips", Kind::Lint, |_| Outcome::Skipped("no".into()));
        assert_eq!(tally.summary(), "0 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn only_deep_tests_may_run_out_of_time() {
        let late = |kind| climb_with("test of time", kind, |_| Outcome::TimedOut).summary();
        assert_eq!(late(Kind::DeepTests), "0 passed, 0 failed, 1 skipped");
        assert_eq!(late(Kind::Tests), "0 passed, 1 failed, 0 skipped");
    }
}
