//! Random schedules of operations in three processes of a run and one process outside. Every
//! result, every byte and every file must match the kernel's.
//!
//! `schedule.c` executes the operations of a schedule one after another, so that the kernel's
//! results are the same each time. The first difference is shrunk to the necessary operations, and
//! printed as a command.
//!
//! The generator avoids the differences that docs/calls.md documents:
//!
//! - an outside open with O_NONBLOCK, or with O_RDONLY and O_TRUNC
//! - O_DIRECT with offsets, lengths or memory that the kernel refuses
//! - holes of a file that is not written back
//! - O_NOFOLLOW and O_TMPFILE of a description that was handed over
//! - bytes stored to a private mapping of a file that is truncated
//! - times, blocks and inode numbers

mod generator;

use super::worlds::compiled;
use super::{folder, is_long, pagetide, summary_in};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const TEST: &str = "random_schedules_end_as_with_the_kernel";
const TIME: Duration = Duration::from_secs(30);
/// Maximum number of seeds of the short form. Fast and slow machines use the same seeds.
const NR_SEEDS: u64 = 80;
const NR_OPERATIONS_LONG: usize = 1_000_000;
/// Maximum time to shrink a difference.
const SHRINKING_TIME: Duration = Duration::from_secs(240);

/// Schedules that once differed from the kernel.
const FOUND: &[&str] = &[
    // A test lock looks for exclusive locks of other processes.
    "1 fork 5; 1 open 3 f0 +c; 1 lock 3 o r 7 10 0; 5 open 1 f0 w; 5 lockf 1 t 30",
    // An O_PATH descriptor of a locked file is closed.
    "- file f2 140000 834; 1 fork 4; 4 open 3 f2 +efP; 4 open 2 f2 wc; 3 open 5 f2 rce; \
     4 lock 2 p w 41 1 2; 4 close 3; 3 getlock 5 p w 11 0",
    // An exec closes the same kind of descriptor.
    "- file f3 400000 960; 0 open 2 f3 +e; 0 map 2 2 0 1 r pf; 0 lock 2 p r 1 1 1; 0 close 2; \
     0 fork 5; 5 open 5 f3 rcas; 5 lock 5 p r 22 0 0; 0 open 7 f3 rd; 5 exec; \
     0 getlock 7 o w 10 30",
    // The kernel gets a file without a name after an exec.
    "1 open 7 . +T; 1 dup 7 4; 1 lockf 4 u 0; 1 exec; 1 pread 4 2 983484",
    // An exec closes a file with record locks and other locks.
    "0 open 1 f2 +cen; 0 pwrite 1 42662 94207 27206; 0 lock 1 p w 15 30 2; 0 lock 1 o w 37 10 0; \
     0 exec; 2 open 1 f2 +; 2 lock 1 o w 37 0 0",
    // A lock is the first call on a file that the kernel got: no second descriptor is left.
    "- file f1 200000 124; 1 open 5 f1 w; 3 open 6 f1 rc; 1 lock 5 p w 5 0 0; 0 open 7 f1 +cs; \
     1 exec; 0 getlock 7 p w 2 30",
    "- file f3 140000 606; 2 open 5 f3 ra; 0 open 6 f3 +ce; 0 getlock 6 o w 18 30; \
     2 lock 5 p u 18 0 2; 2 lock 5 o r 43 1 1; 2 close 5; 1 open 6 f3 +ca; 1 getlock 6 p w 42 0",
    // A mapping keeps the locks of the description.
    "0 open 5 f4 +c; 0 ftrunc 5 200000; 0 map 1 5 0 178157 rw pf; 0 lock 5 o w 42 10 0; \
     0 open 4 f4 +cef; 0 load 1 8865 61440; 0 close 5; 0 lock 4 p w 44 1 0; 0 unmap 1 0 200000; \
     0 lock 4 p w 44 1 0",
    // The first call after an exec closes a locked file.
    "0 open 4 f2 +c; 0 lock 4 p w 35 0 2; 0 exec; 0 close 4; 0 open 0 f2 rn; \
     0 getlock 0 o w 9 0",
    // Advice about a range with free addresses.
    "- file f2 140000 439; 2 open 5 f2 +; 2 map 0 5 0 49153 r p; 2 unmap 0 32768 47109; \
     2 madvise 0 16384 191515 3",
    // A child's mappings outlive the parent's.
    "- file f1 400000 306; 0 open 0 f1 +; 0 map 0 0 0 153217 r s; 0 load 0 100 1000; 0 close 0; \
     0 fork 4; 0 unmap 0 0 1000000; 0 shell f1 f2 x; 0 shell f1 f2 x; 4 load 0 100 1000; \
     4 load 0 10000 1000",
    // A process's mappings outlive the creating thread.
    "- file f2 140000 254; 2 t:open 3 f2 +c; 2 t:map 2 3 0 28840 rw pf; 2 open 4 f1 +ctd; \
     2 load 2 3178 8170",
    // The close of a stand-in drops locks that the program has by a descriptor of the kernel's.
    "1 open 5 f4 rc; 1 open 7 f4 r; 1 open 3 f4 +; 1 lock 3 p w 7 1 0; 1 close 5; \
     0 open 4 f4 +; 0 lock 4 p w 7 1 0",
    "- file f1 1000 5; 0 open 3 f1 r; 0 lock 3 p r 0 10 0; 1 trunc f1 200000; 0 open 4 f1 r; \
     0 close 4; 1 open 5 f1 +; 1 lock 5 p w 0 10 0",
    // The same with locks from before an exec.
    "- file f1 1000 5; 0 open 3 f1 r; 0 lock 3 p r 0 10 0; 1 trunc f1 200000; 0 open 4 f1 r; \
     0 exec; 0 pread 4 10 0; 0 close 4; 1 open 5 f1 +; 1 lock 5 p w 0 10 0",
    // An exec closes the stand-in.
    "- file f1 1000 5; 0 open 3 f1 r; 0 lock 3 p r 0 10 0; 1 trunc f1 200000; 0 open 4 f1 re; \
     0 exec; 1 open 5 f1 +; 1 lock 5 p w 0 10 0",
    // The first call after an exec closes a descriptor of the kernel's, of a locked file.
    "1 open 4 f0 +c; 1 lock 4 p w 0 10 0; 1 flock 4 w; 1 exec; 1 close 4; 2 open 3 f0 +; \
     2 flock 3 w",
    // A mapping without a descriptor is synced, and keeps the lock no longer than the mapping
    // lives.
    "1 open 3 f2 +c; 1 map 3 3 0 160680 r pf; 1 lock 3 o w 30 30 0; 1 close 3; \
     1 msync 3 53248 5157 s; 1 open 4 f2 +c; 1 unmap 3 0 1000000; 1 getlock 4 p w 31 10",
    // A mapping with a hole is moved.
    "1 open 3 . +T; 1 map 2 3 102400 20480 r s; 1 unmap 2 4096 179; 1 remap 2 17504 f",
    "- file f1 400000 5; 1 open 3 f1 +; 1 map 0 3 0 40960 rw s; 1 store 0 0 100 7; \
     1 unmap 0 4096 4096; 1 remap 0 40960 f; 1 load 0 0 100; 1 load 0 8192 4096; \
     1 load 0 4096 10; 1 store 0 30000 100 8; 2 open 4 f1 r; 2 pread 4 40960 0",
    // A child's exec ends an inherited mapping, and with the mapping the description's lock.
    "- file f1 400000 52; 2 open 7 f1 +; 1 open 3 f1 +; 1 map 0 3 0 274432 rw sf; 1 flock 3 w; \
     1 fork 4; 1 close 3; 1 unmap 0 0 1000000; 4 close 3; 4 exec; 2 flock 7 w",
    // A locked description with O_SYNC is handed over.
    "1 t:open 3 f0 +cs; 1 flock 3 w; 1 open 6 f0 rcdm@; 1 getfl 3",
    "1 open 3 f0 +cs; 1 flock 3 r; 1 open 4 f0 rs; 1 flock 4 r; 1 open 6 f0 rcdm@; 1 getfl 3; \
     1 getfl 4",
];

/// Schedules that sometimes differed from the kernel: a first part, and a part that is repeated.
const FOUND_AT_TIMES: &[(&str, &str)] = &[
    // An exec ends a mapping, and with the mapping the description's lock.
    (
        "- file f1 400000 52",
        "; 1 open 3 f1 +; 1 map 0 3 0 274432 rw sf; 1 load 0 0 100; 2 open 7 f1 +; 1 flock 3 w; \
         1 close 3; 1 exec; 2 flock 7 w; 2 close 7",
    ),
    (
        "- file f1 400000 52",
        "; 1 open 3 f1 +; 1 map 0 3 0 274432 rw sf; 2 open 7 f1 +; 1 lock 3 p w 0 1 0; \
         1 flock 3 w; 1 close 3; 1 exec; 2 flock 7 w; 2 close 7",
    ),
];
const NR_REPEATS: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum World {
    Kernel,
    Run,
    Mapped,
}

/// The compiled program.
struct Program {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Program {
    /// Compiles the program. Returns `None`, with a message, if there is no compiler.
    fn new() -> Option<Self> {
        let folder = compiled(include_str!("schedule.c"), "-w -pthread", TEST)?;
        Some(Self { path: folder.path().join("compiled"), _folder: folder })
    }

    /// Returns the log of a schedule in `world`, and the number of calls on managed files.
    fn log(&self, lines: &[String], world: World) -> (Vec<String>, u64) {
        let here = folder();
        let at = |name: &str| here.path().join(name);
        std::fs::create_dir(at("files")).unwrap();
        std::fs::write(at("schedule"), lines.join("\n") + "\n").unwrap();
        let mut command = Command::new(&self.path);
        command.current_dir(at("files")).args(["../schedule", "../log"]);
        if world != World::Kernel {
            let memory = lines.iter().find_map(|line| line.strip_prefix("- memory "));
            command.arg(pagetide()).args([
                "run",
                "--quiet",
                "--json",
                "../summary.json",
                "--memory",
            ]);
            command.arg(memory.unwrap_or("256K"));
            if world == World::Mapped {
                command.args(["--mmap", "cache"]);
            }
            command.arg("--");
        }
        let output = command.output().unwrap();
        let text = std::fs::read_to_string(at("log")).unwrap_or_default();
        let mut log: Vec<_> = text.lines().map(str::to_owned).collect();
        let errors = String::from_utf8_lossy(&output.stderr);
        log.extend(errors.lines().map(|line| format!("standard error: {line}")));
        let is_summed_up = world != World::Kernel && at("summary.json").exists();
        let accesses = is_summed_up.then(|| summary_in(&at("summary.json"))["accesses"].as_u64());
        (log, accesses.flatten().unwrap_or(0))
    }

    /// Returns the first line that differs from the kernel's.
    fn difference(&self, lines: &[String], world: World) -> Option<String> {
        let [kernel, run] = self.logs(lines, [World::Kernel, world]);
        first_difference(&kernel.0, &run.0)
    }

    fn logs<const N: usize>(
        &self,
        lines: &[String],
        worlds: [World; N],
    ) -> [(Vec<String>, u64); N] {
        std::thread::scope(|scope| {
            let threads = worlds.map(|world| scope.spawn(move || self.log(lines, world)));
            threads.map(|thread| thread.join().unwrap())
        })
    }
}

/// Returns a line without the number of a new descriptor.
fn without_number(line: &str) -> String {
    let Some((call, number)) = line.split_once(" -> fd ") else { return line.to_owned() };
    let rest = number.trim_start_matches(|letter: char| letter.is_ascii_digit());
    format!("{call} -> fd{rest}")
}

/// Returns true if a line shows that a record lock was taken.
///
/// The numbers of new descriptors may differ afterwards. A process of a run keeps received
/// descriptors of a file with record locks, at the received numbers. A move would close a
/// descriptor, which drops the locks.
fn takes_lock(line: &str) -> bool {
    let Some((call, "0")) = line.split_once(" -> ") else { return false };
    matches!(call.split(' ').nth(1), Some("lock" | "lockf" | "t:lock" | "t:lockf"))
}

fn first_difference(kernel: &[String], run: &[String]) -> Option<String> {
    let nr = kernel.len().max(run.len());
    let first_lock = kernel.iter().position(|line| takes_lock(line)).unwrap_or(nr);
    let line = |log: &[String], nth: usize| match log.get(nth) {
        Some(line) if nth > first_lock => without_number(line),
        Some(line) => line.clone(),
        None => String::new(),
    };
    let nth = (0..nr).find(|&nth| line(kernel, nth) != line(run, nth))?;
    let mut text = format!("kernel: {}\nrun:    {}", line(kernel, nth), line(run, nth));
    for error in run.iter().filter(|line| line.starts_with("standard error")) {
        write!(text, "\n        {error}").unwrap();
    }
    Some(text)
}

/// Returns the shortest schedule with a difference that is found in the time. Leaves out halves
/// first, then smaller parts.
fn shrunk(program: &Program, mut lines: Vec<String>, world: World) -> Vec<String> {
    let start = Instant::now();
    let mut part = lines.len().div_ceil(2);
    loop {
        let mut at = 0;
        let before = lines.len();
        while at < lines.len() && start.elapsed() < SHRINKING_TIME {
            let end = (at + part).min(lines.len());
            let mut fewer = lines.clone();
            fewer.drain(at..end);
            if program.difference(&fewer, world).is_some() {
                lines = fewer;
            } else {
                at = end;
            }
        }
        if start.elapsed() >= SHRINKING_TIME || (part == 1 && lines.len() == before) {
            return lines;
        }
        part = part.div_ceil(2);
    }
}

/// Returns the command that reproduces a difference.
fn command_of(lines: &[String]) -> String {
    let lines = lines.join("; ");
    format!(
        "PAGETIDE_SCHEDULE='{lines}' cargo test -p pagetide-cli --test run -- {TEST} --nocapture"
    )
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Counts of executed operations.
#[derive(Default)]
struct Tally {
    nr_operations: usize,
    /// Number of calls of runs on managed files.
    nr_managed: u64,
    /// Number of successes and failures of each operation.
    operations: BTreeMap<String, (u64, u64)>,
}

impl Tally {
    fn add(&mut self, log: &[String]) {
        for (call, result) in log.iter().filter_map(|line| line.split_once(" -> ")) {
            let name = call.split(' ').nth(1).unwrap_or_default();
            let counts =
                self.operations.entry(name.trim_start_matches("t:").to_owned()).or_default();
            const NOTHING: [&str; 6] = ["-1", "no", "none", "signal", "direct", "same"];
            let word = result.split_ascii_whitespace().next().unwrap_or_default();
            let is_done = !NOTHING.contains(&word.trim_end_matches(','));
            *if is_done { &mut counts.0 } else { &mut counts.1 } += 1;
        }
    }
}

/// Compares both modes of a run with the kernel.
fn check(program: &Program, lines: &[String], origin: &str, tally: &mut Tally) {
    let worlds = [World::Kernel, World::Run, World::Mapped];
    let [kernel, run, mapped] = program.logs(lines, worlds);
    for (world, log) in [(World::Run, &run.0), (World::Mapped, &mapped.0)] {
        let Some(first) = first_difference(&kernel.0, log) else { continue };
        let lines = shrunk(program, lines.to_vec(), world);
        let last = program.difference(&lines, world);
        let last = last.unwrap_or_else(|| "the shrunk schedule differs sometimes".to_owned());
        panic!("{origin}, {world:?}:\n{first}\nshrunk:\n{last}\n{}", command_of(&lines));
    }
    tally.nr_operations += lines.len();
    tally.nr_managed += run.1 + mapped.1;
    tally.add(&kernel.0);
}

#[test]
fn random_schedules_end_as_with_the_kernel() {
    let Some(program) = Program::new() else { return };
    let mut tally = Tally::default();
    let lines_of = |schedule: &str| -> Vec<String> {
        schedule.split(';').map(|line| line.trim().to_owned()).collect()
    };
    if let Some(schedule) = variable("PAGETIDE_SCHEDULE") {
        check(&program, &lines_of(&schedule), "the schedule given", &mut tally);
        return;
    }
    for schedule in FOUND {
        check(&program, &lines_of(schedule), "found before", &mut tally);
    }
    for (beginning, part) in FOUND_AT_TIMES {
        let schedule = format!("{beginning}{}", part.repeat(NR_REPEATS));
        check(&program, &lines_of(&schedule), "found before", &mut tally);
    }
    let first = variable("PAGETIDE_SEED").and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let start = Instant::now();
    for seed in first.. {
        let lines = generator::schedule(seed);
        check(&program, &lines, &format!("PAGETIDE_SEED={seed}"), &mut tally);
        let is_over = match is_long() {
            true => tally.nr_operations >= NR_OPERATIONS_LONG,
            false => start.elapsed() >= TIME || seed >= first + NR_SEEDS,
        };
        if is_over {
            let (nr, nr_managed) = (tally.nr_operations, tally.nr_managed);
            eprintln!("seeds {first} to {seed}: {nr} operations, {nr_managed} on managed files");
            break;
        }
    }
    eprintln!("succeeded, and did not: {:?}", tally.operations);
    assert!(tally.nr_managed > 0, "no file is managed");
}
