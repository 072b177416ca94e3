//! Runs each job in a child process.
//!
//! Problem: a cgroup limits whole processes, and runs must not affect each other. Idea: start the
//! same program with a hidden command, send the job on stdin, and read messages, one JSON object
//! per line:
//!
//! ```text
//!   parent                                     child: pagetide run-subject
//!     makes files, cgroup -- Job on stdin -->    joins the cgroup, plays the workload
//!     moves the bar      <-- progress --------   sampler: hit timeline, resident size
//!     keeps the outcome  <-- done | failed ---   ends
//!     removes files, cgroup
//! ```
//!
//! Invariant: the parent owns everything to remove, so a child may be killed at any moment. The
//! kernel kills the child when the parent dies. The child joins the cgroup last, so that the limit
//! holds only page cache.
//!
//! Ignored: concurrent children.

use super::job::Job;
use super::measure::{HitCounts, HitTimeline, Measurements};
use super::plan::Workload;
use super::row::{Outcome, Row};
use super::subject::{self, MeasuredCache, SubjectName};
use super::workload::{self, Harness};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use ::pagetide::{ParseTierError, Tier};
use pagetide_core::units::Bytes;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

pub(crate) const COMMAND: &str = "run-subject";
/// Interval between checks of Ctrl-C.
const POLL: Duration = Duration::from_millis(50);
const SAMPLE: Duration = Duration::from_millis(50);

#[derive(Debug, Serialize, Deserialize)]
enum Message {
    /// Thousandths.
    Progress(u64),
    Done(Box<Outcome>),
    Failed(String),
}

pub(crate) enum ChildEnd {
    Done(Box<Outcome>),
    /// Killed by this foreign signal: the cgroup's limit was too small.
    Killed(i32),
}

/// Calls `on_progress` with the finished share, 0 to 1.
pub(crate) fn run(
    job: &Job,
    interrupt: &Interrupt,
    on_progress: impl Fn(f64),
) -> Result<ChildEnd, Failure> {
    let refuse = |error: io::Error| Failure::on("start a child process", &error);
    let program = std::env::current_exe().map_err(refuse)?;
    let child =
        Command::new(program).arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = Reaped(child.map_err(refuse)?);
    let mut stdin = child.0.stdin.take().expect("stdin is piped");
    serde_json::to_writer(&mut stdin, job)
        .map_err(|error| Failure::on("send a job to the child", &error))?;
    drop(stdin);
    let stdout = child.0.stdout.take().expect("stdout is piped");
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // On an interrupt the receiver is gone.
            let _ = sender.send(line);
        }
    });
    loop {
        interrupt.check()?;
        let line = match receiver.recv_timeout(POLL) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => {
                return ended_in_silence(&mut child.0, interrupt);
            }
        };
        match serde_json::from_str(&line)
            .map_err(|error| Failure::on("understand the child process", &error))?
        {
            Message::Progress(thousandths) => on_progress(thousandths as f64 / 1000.0),
            Message::Done(outcome) => return Ok(ChildEnd::Done(outcome)),
            Message::Failed(sentence) => {
                interrupt.check()?;
                return Err(Failure::Refused(format!(
                    "{} under {}: {sentence}",
                    job.workload, job.subject
                )));
            }
        }
    }
}

fn ended_in_silence(child: &mut Child, interrupt: &Interrupt) -> Result<ChildEnd, Failure> {
    use std::os::unix::process::ExitStatusExt;
    let status = child.wait().map_err(|error| Failure::on("wait for the child process", &error))?;
    interrupt.check()?;
    match status.signal() {
        Some(signal) => Ok(ChildEnd::Killed(signal)),
        None => {
            Err(Failure::Refused(format!("the child process ended without a result: {status}")))
        }
    }
}

struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        // Both fail only if the child is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Plays the job of stdin. Fails only if stdout is closed, the channel of all other failures.
pub(crate) fn serve(interrupt: &Interrupt) -> Result<(), Failure> {
    // If refused, the child still ends by itself.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let job: Job = serde_json::from_reader(io::stdin().lock()).map_err(|error| {
        Failure::on("read the job; this command is for pagetide itself", &error)
    })?;
    let message = match play(&job, interrupt) {
        Ok(outcome) => Message::Done(Box::new(outcome)),
        Err(failure) => Message::Failed(failure.to_string()),
    };
    say(&message)
}

fn say(message: &Message) -> Result<(), Failure> {
    let text = serde_json::to_string(message).map_err(|error| Failure::on("write JSON", &error))?;
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|error| Failure::on("answer the parent", &error))
}

fn play(job: &Job, interrupt: &Interrupt) -> Result<Outcome, Failure> {
    let name: SubjectName = job.subject.parse().map_err(Failure::Usage)?;
    let (memory, limit) = (Bytes(job.memory_bytes), Bytes(job.limit_bytes));
    let tiers: Result<Vec<Tier>, _> = job.tiers.iter().map(|tier| tier.parse()).collect();
    let tiers = tiers.map_err(|error: ParseTierError| Failure::Usage(error.to_string()))?;
    let subject = subject::make(name, limit, &tiers, job)
        .map_err(|error| Failure::on(&format!("make a cache of {limit}"), &error))?;
    let (hit_counts, done) = (HitCounts::default(), AtomicU64::new(0));
    let harness = Harness {
        subject: subject.as_ref(),
        memory,
        files: &job.files,
        duration: Duration::from_secs_f64(job.seconds),
        nr_threads: job.nr_threads,
        seed: job.seed,
        hits: &hit_counts,
        done: &done,
        interrupt,
        group: job.group.as_ref(),
        is_begun: AtomicBool::new(false),
    };
    let before = subject.read_counters();
    let (measured, timeline) = play_sampled(job.workload, &harness, before.device_read_bytes);
    let mut measured = measured?;
    let after = subject.read_counters();
    let hits = harness.load_hits(job.workload, after.device_read_bytes - before.device_read_bytes);
    subject.describe(&mut measured.detail);
    let (row, latency) =
        Row::from_run(job.workload, job.subject.clone(), measured, hits, (before, after));
    Ok(Outcome { row, latency_curve: latency.curve, hit_timeline: timeline.points() })
}

/// Plays on a new thread while this thread samples.
fn play_sampled(
    workload: Workload,
    harness: &Harness<'_>,
    device_read_bytes_before: u64,
) -> (Result<Measurements, Failure>, HitTimeline) {
    let mut timeline = HitTimeline::default();
    let start = Instant::now();
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // The receiver lives until the end of this scope.
            let _ = sender.send(workload::run(workload, harness));
        });
        loop {
            let ended = receiver.recv_timeout(SAMPLE);
            let device_read_bytes =
                harness.subject.read_device_read_bytes() - device_read_bytes_before;
            timeline.push(
                start.elapsed().as_secs_f64(),
                harness.load_hits(workload, device_read_bytes),
            );
            MeasuredCache::sample(harness.subject);
            match ended {
                Ok(measured) => return (measured, timeline),
                Err(RecvTimeoutError::Timeout) => {
                    // A closed pipe means that the parent died and this process is about to die.
                    let _ = say(&Message::Progress(harness.done.load(Ordering::Relaxed)));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let reason =
                        "the workload panicked; this is a bug, please report it".to_owned();
                    return (Err(Failure::Refused(reason)), timeline);
                }
            }
        }
    })
}
