//! One turn in a child process, started by a hidden command.
//!
//! The same code runs over the words of a region or of a kernel mapping. The process joins its
//! cgroup last, so that the limit holds only the mapping.

use super::super::super::mapped_job::{Job, Measured, Under};
use super::super::super::programs::read_memory_below;
use super::work;
use crate::failure::Failure;
use crate::settings;
use ::pagetide::{PageCache, RegionOptions};
use pagetide_core::lru::PolicyName;
use pagetide_core::units::Bytes;
use pagetide_sys::{KernelMapping, map_by_library};
use std::fs::File;

/// Works on mapped memory and prints how long it took; `bench region` and `bench run` start
/// themselves this way.
#[derive(Debug, clap::Args)]
pub(crate) struct MappedArgs {
    /// A job, as JSON.
    job: String,
}

pub(crate) fn serve(args: &MappedArgs) -> Result<(), Failure> {
    // If refused, the child still ends by itself.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let job: Job = serde_json::from_str(&args.job).map_err(|error| {
        Failure::on("read the job; this command is for pagetide itself", &error)
    })?;
    let measured = match job.under {
        Under::Pagetide => in_region(&job),
        Under::Library | Under::LibraryRandom => by_library(&job),
        _ => in_kernel(&job),
    }?;
    println!("{}", serde_json::json!(measured));
    Ok(())
}

fn in_region(job: &Job) -> Result<Measured, Failure> {
    let refuse = |error: &dyn std::error::Error| Failure::on("make a region", error);
    let own = std::process::id();
    let before = read_memory_below(own);
    let policy: PolicyName = job.policy.parse().map_err(|error| refuse(&error))?;
    let cache = settings::apply(PageCache::builder(), &job.settings)
        .map_err(|error| refuse(&error))?
        .memory(Bytes(job.memory))
        .policy(policy)
        .build()
        .map_err(|error| refuse(&error))?;
    let options = match &job.data {
        Some(data) => RegionOptions::over(&data.path),
        None => RegionOptions::anonymous(Bytes(job.len)).swap_in(&job.folder),
    };
    let region = cache.region(options).map_err(|error| refuse(&error))?;
    let mut measured = work::run(job, region.words(), || Ok(()))?;
    measured.memory = read_memory_below(own).saturating_sub(before);
    // Dirty anonymous memory need not be kept.
    if job.data.is_some() {
        region.sync().map_err(|error| Failure::on("sync a region", &error))?;
    }
    Ok(measured)
}

fn by_library(job: &Job) -> Result<Measured, Failure> {
    let data = job.data.as_ref().ok_or_else(|| Failure::Refused("a job without file".into()))?;
    let words = File::open(&data.path)
        .and_then(|file| map_by_library(&file, job.under == Under::LibraryRandom))
        .map_err(|error| Failure::on_path("map", &data.path, &error))?;
    work::run(job, words, || Ok(()))
}

fn in_kernel(job: &Job) -> Result<Measured, Failure> {
    let mapping = match &job.data {
        None => KernelMapping::anonymous(job.len as usize),
        Some(data) => File::options()
            .read(true)
            .write(true)
            .open(&data.path)
            .and_then(|file| KernelMapping::of_file(&file)),
    };
    let mapping = mapping.map_err(|error| Failure::on("map memory", &error))?;
    if job.under == Under::Random {
        mapping.expect_random().map_err(|error| Failure::on("advise on a mapping", &error))?;
    }
    work::run(job, mapping.words(), || match &job.group {
        Some(group) => group.join().map_err(|error| Failure::on("join a cgroup", &error)),
        None => Ok(()),
    })
}
