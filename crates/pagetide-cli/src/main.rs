//! The `pagetide` command.
//!
//! Each subcommand prints its result on stdout and everything else on stderr.
//!
//! ```text
//!   main (arguments, exit code) --> demo/      workloads x subjects, real files -> table, report/
//!                                   bench/     ratios to references, in one run
//!                                   replay     a trace through the same decisions, at many sizes
//!                                   ablate     the effect of each mechanism of a policy
//!                                   mrc        miss ratio by memory size
//!                                   sweep      many traces, policies and sizes, resumable
//!                                   trace/     contents of a trace; conversion
//!                                   lab/       scenarios in virtual memory
//!                                   run/       an unmodified program over the page cache
//!                                   ctl/       queries and steers a running cache
//!                                   top/       all running caches
//!                                   record/    a program's accesses to the kernel's page cache
//!                                   tier/      the cost of a slow tier
//!                                   policies   names and purposes
//!                                   shell      completions and manual pages
//! ```
//!
//! Exit codes: 0 done, 1 failed, 2 invalid command line, 130 interrupted.
#![forbid(unsafe_code)]

mod ablate;
mod bench;
mod cells;
mod cgroup;
mod ctl;
mod dataset;
mod demo;
mod document;
mod failure;
mod interrupt;
mod lab;
mod machine;
mod mrc;
mod output;
mod pages;
mod parallel;
mod policies;
mod readahead;
mod record;
mod replay;
mod report;
mod results;
mod rows;
mod run;
mod settings;
mod setup;
mod shell;
mod sizes;
mod source;
mod sweep;
mod table;
mod terminal;
mod tier;
mod top;
mod trace;

use clap::{CommandFactory, Parser, Subcommand};
use failure::Failure;
use interrupt::Interrupt;
use std::process::ExitCode;

const ABOUT: &str =
    "A user-space memory manager: a page cache with a hard limit and kernel-grade reclaim.";
const EXAMPLES: &str = "Examples:
  pagetide demo                     the whole show on this machine, with a report
  pagetide run --memory 512M -- CMD  an unmodified program, its files in a limited cache
  pagetide top                      every cache that runs, once a second
  pagetide ctl resize 256M          another limit for a cache that runs
  pagetide record --filemap -- CMD  a program on the kernel's page cache, as a trace
  pagetide bench hit                one benchmark against its references
  pagetide replay run.trace --memory 64M,128M --policy mglru,lru
  pagetide ablate run.trace --memory 64M --policy mglru
  pagetide mrc run.trace --policy mglru,lru --svg mrc.svg
  pagetide sweep traces/ --policy lru,pagetide --memory 1%,10% --out results.parquet
  pagetide trace info run.trace     what is in a trace
  pagetide lab run wschange         a scenario in virtual memory, over ten seeds
  pagetide tier run.trace           what a slow tier of memory would cost
  pagetide policies                 the replacement policies
  pagetide completions bash         what a shell needs to complete all this

Sizes are binary: 512M, 4G. With --json a command prints one document on stdout and
everything else on stderr (run, whose stdout is the program's, writes it to a file).
Exit codes: 0 done, 1 failed, 2 bad command line, 130 interrupted; run and record end as their
program does.";

#[derive(Debug, Parser)]
#[command(name = "pagetide", version, about = ABOUT, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Run(run::RunArgs),
    Ctl(ctl::CtlArgs),
    Top(top::TopArgs),
    Record(record::RecordArgs),
    Bench(bench::BenchArgs),
    Replay(replay::ReplayArgs),
    Ablate(ablate::AblateArgs),
    Mrc(mrc::MrcArgs),
    Sweep(sweep::SweepArgs),
    Trace(trace::TraceArgs),
    Lab(lab::LabArgs),
    Tier(tier::TierArgs),
    Policies(policies::PoliciesArgs),
    Completions(shell::CompletionsArgs),
    #[command(name = shell::MANUALS, hide = true)]
    Manuals(shell::ManualsArgs),
    /// Play one job from stdin; the demo starts itself this way.
    #[command(name = demo::child::COMMAND, hide = true)]
    RunSubject,
    #[command(name = bench::OPEN_EACH, hide = true)]
    OpenEach(bench::OpenEachArgs),
    #[command(name = bench::LOAD, hide = true)]
    MemcachedLoad(bench::MemcachedLoadArgs),
    #[command(name = bench::MAPPED_WORK, hide = true)]
    MappedWork(bench::MappedArgs),
    /// Becomes a program once it is traced; `record` starts itself this way.
    #[command(name = record::HELD, hide = true)]
    RecordHeld(record::HeldArgs),
}

fn main() -> ExitCode {
    // Clap prints usage errors with exit code 2.
    let cli = Cli::parse();
    match run(&cli.command) {
        Ok(code) => code,
        Err(failure) => {
            terminal::note(&format!("pagetide: {failure}"));
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(command: &Command) -> Result<ExitCode, Failure> {
    let watch = || Interrupt::watch().map_err(|error| Failure::on("watch for signals", &error));
    match command {
        // These commands leave signals to the program.
        Command::Run(args) => return run::run(args),
        Command::Record(args) => return record::run(args),
        Command::RecordHeld(args) => return Ok(record::become_program(args)),
        Command::Demo(args) => demo::run(args, &watch()?),
        Command::Bench(args) => bench::run(args, &watch()?),
        Command::Replay(args) => replay::run(args, &watch()?),
        Command::Ablate(args) => ablate::run(args, &watch()?),
        Command::Sweep(args) => sweep::run(args, &watch()?),
        Command::Mrc(args) => mrc::run(args, &watch()?),
        Command::Trace(args) => trace::run(args, &watch()?),
        Command::Lab(args) => lab::run(args, &watch()?),
        Command::Tier(args) => tier::run(args, &watch()?),
        Command::Top(args) => top::run(args, &watch()?),
        Command::Ctl(args) => ctl::run(args),
        Command::Policies(args) => policies::run(args),
        Command::Completions(args) => shell::complete(args, Cli::command()),
        Command::Manuals(args) => shell::write_manuals(args, Cli::command()),
        Command::MemcachedLoad(args) => bench::load(args),
        Command::OpenEach(args) => bench::open_each(args),
        Command::MappedWork(args) => bench::work_on_mapped(args),
        Command::RunSubject => demo::child::serve(&watch()?),
    }?;
    Ok(ExitCode::SUCCESS)
}
