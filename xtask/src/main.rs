//! The project's checks: `cargo x check` is all of CI, `cargo x tidy` is the house rules.
//!
//! The same commands run on a laptop and in CI:
//!
//! ```text
//! main ----> check ----> step      one command: a log file, a time limit, a verdict
//!   |          |-------> changed   which files a change touches
//!   |          |-------> suite/    the test programs, side by side
//!   |          |-------> tally     test counts and loud skips, read from the logs
//!   |          |-------> failures  the failed tests in a log, each with its output
//!   |          |-------> programs  programs for tests, from Debian's packages
//!   |-------> dist              the distribution, with checksums
//!   |-------> results/              measurements, and the document of their rows
//!   '-------> tidy/                 one small rule a file, each with an example that must fail
//! ```
//!
//! Without `--install`, xtask installs only the no-OS compile target. Root is never needed.
#![forbid(unsafe_code)]

mod changed;
mod check;
mod dist;
mod failures;
mod programs;
mod python;
mod results;
mod step;
mod suite;
mod tally;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
The project's own checks.

Usage: cargo x <command>

Commands:
  check               everything CI runs: format, tidy, clippy, docs, tests, Python, loom, Miri,
                      fuzzing. The last three run if a file that they look at has changed: since
                      the last merge or, if the commit is a merge, since its first parent.
    --fast            format, tidy, clippy on the libraries, unit tests of core and xtask
    --keep-going      run the remaining steps after a failed one
    --long            every step, and the tests' long forms (PAGETIDE_LONG=1): a 200 MB
                      database, 50 kills, stresses of a minute; takes a quarter of an hour
    --install         first install the programs that tests run (fio, sqlite3, MariaDB, ...),
                      with apt-get, as root; what cannot be installed is a loud skip
  tidy                the house rules only
    --list            print the rules and their reasons, check nothing
  measure [SECTION...] run the commands whose rows docs/results.md shows, into results/*.jsonl;
                      about 25 minutes, on an idle machine, as root, nothing committed meanwhile
    --long            more runs and seeds
  results             make docs/results.md of these rows, if all are of one commit
  dist                build all that is handed out into <target folder>/release/dist: the command,
                      the C library and header, manual pages, completions, packages; checksums
  help, --help, -h    this text

Exit: 0 all well, 1 something failed, 2 usage. Logs: <target folder>/xtask/<step>.log
The last line of `check` is always `N passed, N failed, N skipped`.
";

/// The commands that a README may name after `cargo x`.
const COMMANDS: [&str; 5] = ["check", "tidy", "measure", "results", "dist"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["help" | "--help" | "-h"] | [_, "--help" | "-h"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        ["check", flags @ ..] => match check::Options::parse(flags) {
            Some(options) => verdict(check::run(&root(), options)),
            None => usage(),
        },
        ["measure", words @ ..] => match results::measure::Options::parse(words) {
            Some(options) => verdict(results::measure::run(&root(), &options)),
            None => usage(),
        },
        ["dist"] => verdict(dist::run(&root())),
        ["results"] => verdict(results::make(&root())),
        ["tidy"] => verdict(tidy::run(&root())),
        ["tidy", "--list"] => {
            tidy::list();
            ExitCode::SUCCESS
        }
        _ => usage(),
    }
}

fn verdict(all_well: bool) -> ExitCode {
    if all_well { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn usage() -> ExitCode {
    eprint!("{HELP}");
    ExitCode::from(2)
}

fn root() -> PathBuf {
    let manifest_dir =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(manifest_dir).join("..")
}
