//! Runs a program to its end, under `pagetide run` or in a memory cgroup of the same limit.

use super::super::Bench;
use super::memory::read_memory_below;
use crate::cgroup::MemoryGroup;
use crate::dataset::make_folder;
use crate::document;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine;
use pagetide_core::lru::PolicyName;
use pagetide_core::units::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(50);
const HOLDER: &str = "taskset";
pub(super) const PROGRAM_BYTES_MIN: u64 = 16 << 20;

pub(super) const LINUX: &str = "linux";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Under {
    /// The reference's name.
    Linux(&'static str),
    Run(PolicyName),
}

/// Returns the reason if this machine cannot measure `program`.
pub(super) fn why_not(memory: Bytes, program: &str) -> Option<String> {
    if let Err(why) = MemoryGroup::with_limit(memory) {
        return Some(why);
    }
    if let Err(failure) = crate::run::library::find() {
        return Some(failure);
    }
    [program, HOLDER].into_iter().find_map(why_not_there)
}

pub(in crate::bench) fn why_not_there(program: &str) -> Option<String> {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    let is_there = version.is_ok_and(|status| status.success());
    (!is_there).then(|| format!("{program} is not installed"))
}

/// As [`why_not`], for a program with mappings to serve.
pub(super) fn why_not_mapped(memory: Bytes, program: &str) -> Option<String> {
    let refused = pagetide_sys::PageFile::new(1).err().map(|error| error.to_string());
    refused.or_else(|| why_not(memory, program))
}

pub(super) struct Program<'a> {
    pub(super) bench: &'a Bench<'a>,
    pub(super) memory: Bytes,
    /// The program's own memory, added to the cgroup limit.
    pub(super) beside: u64,
    /// A lower bound for the run.
    pub(super) nr_mappings: u64,
    pub(super) arguments: Vec<OsString>,
}

pub(super) struct Ran {
    pub(super) seconds: f64,
    pub(super) printed: String,
    /// Bytes read by all processes of the run.
    pub(super) device_read: u64,
}

impl Program<'_> {
    /// Touches as much free memory as the limit, then runs the program on `cpu` if given.
    pub(super) fn run(&self, under: Under, cpu: Option<usize>) -> Result<Ran, Failure> {
        self.run_looked_at(under, cpu, &mut |_| ())
    }

    /// Returns the peak of samples under `pagetide run`, in bytes.
    pub(super) fn most_memory(&self) -> Result<u64, Failure> {
        let mut most = 0;
        let mut look = |process| most = read_memory_below(process).max(most);
        self.run_looked_at(Under::Run(self.bench.policy()), None, &mut look)?;
        Ok(most)
    }

    fn run_looked_at(
        &self,
        under: Under,
        cpu: Option<usize>,
        look: &mut dyn FnMut(u32),
    ) -> Result<Ran, Failure> {
        drop(self.bench.make_cache(PolicyName::Fifo, self.memory)?);
        let folder = make_folder(&self.bench.args.dir)?;
        let summary = folder.path().join("summary.json");
        let (mut command, _group) = self.command_under(under, &summary)?;
        if let Some(cpu) = cpu {
            command.args([HOLDER, "--cpu-list", &cpu.to_string()]);
        }
        command.args(&self.arguments).env("LC_ALL", "C");
        let (start, before) = (Instant::now(), read_device_bytes());
        let output = output_looked_at(&mut command, self.bench.interrupt, look)?;
        let (seconds, device_read) = (start.elapsed().as_secs_f64(), read_device_bytes() - before);
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let program = Path::new(&self.arguments[0]).display();
            let under = if let Under::Linux(name) = under { name } else { "run" };
            let why = format!("{program} under {under}: {}: {errors}", output.status);
            return Err(Failure::Refused(why));
        }
        let is_served = |nr| nr >= self.nr_mappings;
        if matches!(under, Under::Run(_)) && !is_served(summary_number(&summary, "mappings")?) {
            return Err(Failure::Refused("the run did not serve what was mapped".into()));
        }
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Ran { seconds, printed, device_read })
    }

    fn command_under(
        &self,
        under: Under,
        summary: &Path,
    ) -> Result<(Command, Option<MemoryGroup>), Failure> {
        let Under::Run(policy) = under else {
            let limit = Bytes(self.memory.0 + self.beside);
            let group = MemoryGroup::with_limit(limit).map_err(Failure::Refused)?;
            let mut shell = Command::new("sh");
            shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group.handle().members());
            return Ok((shell, Some(group)));
        };
        let mut run = Command::new(machine::own_executable()?);
        run.args(["run", "--memory", &self.memory.0.to_string(), "--policy", policy.as_str()]);
        run.arg("--json").arg(summary);
        run.args((self.nr_mappings > 0).then_some("--mmap=cache"));
        for setting in &self.bench.args.set {
            run.arg("--set").arg(setting.to_string());
        }
        run.arg("--");
        Ok((run, None))
    }
}

/// Includes reaped descendants.
fn read_device_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Runs `command` to its end, or terminates it at Ctrl-C.
pub(in crate::bench) fn output_of(
    command: &mut Command,
    interrupt: &Interrupt,
) -> Result<Output, Failure> {
    output_looked_at(command, interrupt, &mut |_| ())
}

/// As [`output_of`], calling `look` with the process id at intervals.
fn output_looked_at(
    command: &mut Command,
    interrupt: &Interrupt,
    look: &mut dyn FnMut(u32),
) -> Result<Output, Failure> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let name = command.get_program().to_string_lossy().into_owned();
    let child = command.spawn().map_err(|error| Failure::on(&format!("run {name}"), &error))?;
    let pid = Pid::from_child(&child);
    let id = child.id();
    look(id);
    let (sender, ended) = channel();
    // A program that ignores TERM is waited for.
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let mut is_signalled = false;
    let output = loop {
        match ended.recv_timeout(LOOK_EVERY) {
            Err(RecvTimeoutError::Timeout) if interrupt.is_set() && !is_signalled => {
                // The process may have just ended.
                let _ = kill_process(pid, Signal::TERM);
                is_signalled = true;
            }
            Err(RecvTimeoutError::Timeout) => look(id),
            ended => break ended.expect("invariant: the thread sends before it ends"),
        }
    };
    interrupt.check()?;
    output.map_err(|error| Failure::on("run a program", &error))
}

fn summary_number(summary: &Path, name: &str) -> Result<u64, Failure> {
    let text = fs::read(summary).map_err(|error| Failure::on_path("read", summary, &error))?;
    let rows = document::read_rows(&text).map_err(|error| Failure::on("read a summary", &error))?;
    let number = rows.first().and_then(|row| row.get(name)?.as_u64());
    number.ok_or_else(|| Failure::Refused(format!("the run's summary has no {name}")))
}
