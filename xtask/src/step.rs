//! Runs the commands of a check with a log and a time limit.
//!
//! Every command runs under `timeout` (coreutils), which ends the whole process group of a hung
//! check. Output goes to a file, as a forgotten grandchild could hold a pipe open. A long step
//! prints the last line of its log each minute.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Failed,
    /// Ended by its time limit.
    TimedOut,
    /// Could not be tried, with the reason. Always reported by name.
    Skipped(String),
}

pub(crate) struct StepContext<'a> {
    root: &'a Path,
    target_dir: PathBuf,
    log: PathBuf,
    deadline: Instant,
    /// Extra variables of every command.
    env: Vec<(&'static str, &'static str)>,
}

/// `timeout`'s exit status for an ended command, and after `--kill-after`.
pub(crate) const TIMED_OUT: [i32; 2] = [124, 137];
/// The variable that enables long tests, if `1`.
pub(crate) const LONG: &str = "PAGETIDE_LONG";
const MINUTE: Duration = Duration::from_secs(60);

impl<'a> StepContext<'a> {
    /// Makes an empty log `<target folder>/xtask/<name>.log`.
    pub(crate) fn new(root: &'a Path, name: &str, limit: Duration) -> io::Result<StepContext<'a>> {
        let target_dir = target_dir(root);
        let logs = target_dir.join("xtask");
        fs::create_dir_all(&logs)?;
        let log = logs.join(format!("{}.log", name.replace(' ', "-")));
        File::create(&log)?;
        Ok(StepContext { root, target_dir, log, deadline: Instant::now() + limit, env: Vec::new() })
    }

    pub(crate) fn with_env(mut self, name: &'static str, value: &'static str) -> StepContext<'a> {
        self.env.push((name, value));
        self
    }

    pub(crate) fn has_env(&self, name: &str) -> bool {
        let is_added = self.env.iter().any(|(added, _)| *added == name);
        is_added || std::env::var_os(name).is_some()
    }

    pub(crate) fn root(&self) -> &Path {
        self.root
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    pub(crate) fn target_dir(&self) -> &Path {
        &self.target_dir
    }

    pub(crate) fn read_log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) fn cargo(&self, arguments: &[&str]) -> Outcome {
        self.cargo_with(arguments, &[])
    }

    pub(crate) fn cargo_with(&self, arguments: &[&str], env: &[(&str, OsString)]) -> Outcome {
        self.command("cargo", arguments, env)
    }

    pub(crate) fn command(
        &self,
        program: &str,
        arguments: &[&str],
        env: &[(&str, OsString)],
    ) -> Outcome {
        self.command_into(&self.log, program, arguments, env)
    }

    /// Runs `program` from the root. Appends its standard output to the file `output`, and its
    /// standard error to the log.
    pub(crate) fn command_into(
        &self,
        output: &Path,
        program: &str,
        arguments: &[&str],
        env: &[(&str, OsString)],
    ) -> Outcome {
        let Some(mut command) = self.limited(program) else { return Outcome::TimedOut };
        command.args(arguments).envs(env.iter().map(|(name, value)| (name, value)));
        match self.wait(command, output) {
            Ok(Some(0)) => Outcome::Done,
            Ok(Some(status)) if TIMED_OUT.contains(&status) => Outcome::TimedOut,
            Ok(_) => Outcome::Failed,
            Err(error) => Outcome::Skipped(format!("cannot run {program} under timeout: {error}")),
        }
    }

    /// Returns a command that runs `program` in the root until the deadline, or `None` after the
    /// deadline.
    pub(crate) fn limited(&self, program: impl AsRef<OsStr>) -> Option<Command> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        let mut command = Command::new("timeout");
        command
            .arg("--kill-after=10")
            .arg(left.as_secs().max(1).to_string())
            .arg(program)
            // Set by the `cargo run` around this process, and not meant for the inner builds.
            .env_remove("CARGO_MANIFEST_DIR")
            .env_remove("RUSTUP_TOOLCHAIN_SOURCE")
            .envs(self.env.iter().copied())
            .current_dir(self.root)
            .stdin(Stdio::null());
        Some(command)
    }

    fn wait(&self, mut command: Command, output: &Path) -> io::Result<Option<i32>> {
        let append = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
        let mut child = command.stdout(append(output)?).stderr(append(&self.log)?).spawn()?;
        let (ended, end) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let begun = Instant::now();
                while end.recv_timeout(MINUTE) == Err(RecvTimeoutError::Timeout) {
                    self.say_where(begun.elapsed());
                }
            });
            let status = child.wait();
            drop(ended);
            Ok(status?.code())
        })
    }

    /// Ends the step's line with its progress, and begins another.
    fn say_where(&self, elapsed: Duration) {
        let log = self.read_log();
        let last = log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no word yet");
        let last: String = last.trim().chars().take(100).collect();
        print!("after {} min: {last}\n{:21}", elapsed.as_secs() / 60, "");
        io::stdout().flush().ok();
    }
}

fn target_dir(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root.join(dir),
        None => root.join("target"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(name: &str, limit: Duration) -> StepContext<'static> {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        // Separate names, as a running check writes its logs beside.
        StepContext::new(root, &format!("test of {name}"), limit)
            .expect("the target folder is writable")
    }

    #[test]
    fn output_of_both_streams_reaches_the_log() {
        let context = context("streams", Duration::from_secs(20));
        assert_eq!(context.command("sh", &["-c", "echo out; echo err >&2"], &[]), Outcome::Done);
        assert_eq!(context.read_log(), "out\nerr\n");
    }

    #[test]
    fn a_hanging_command_is_ended() {
        let context = context("limit", Duration::from_secs(1));
        assert_eq!(context.command("sh", &["-c", "sleep 30"], &[]), Outcome::TimedOut);
        assert_eq!(context.command("true", &[], &[]), Outcome::TimedOut);
    }

    #[test]
    fn a_failing_command_fails_the_step() {
        let context = context("failure", Duration::from_secs(20));
        let env = [("CODE", OsString::from("3"))];
        assert_eq!(context.command("sh", &["-c", "exit $CODE"], &env), Outcome::Failed);
    }
}
