//! Jobs over mapped memory that run in a child process.

use crate::cgroup::GroupHandle;
use crate::dataset::DataFile;
use crate::settings::Setting;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The hidden command that runs a job.
pub(crate) const COMMAND: &str = "mapped-work";

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Work {
    /// Random loads of pages.
    Zipf {
        /// Stores per 100 accesses.
        stores: u32,
    },
    /// Loads of all words of uniformly random pages.
    Uniform,
    /// Loads all words of all pages once.
    Sum,
    /// Repeats `Sum`.
    Again,
    /// Stores to all words of all pages once.
    Fill,
    /// Sorts all words.
    Sort,
    /// Gets and sets of a cache of values, with uniform or Zipf keys.
    Items {
        is_zipf: bool,
        /// Sets per 100 operations.
        sets: u32,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Under {
    Pagetide,
    /// A shared mapping of a file.
    Mmap,
    /// `Mmap` with `MADV_RANDOM`.
    Random,
    /// A mapping made by libc, which `pagetide run` may serve.
    Library,
    /// `Library` with `MADV_RANDOM`.
    LibraryRandom,
    /// Anonymous kernel memory with swap space.
    Swap,
}

impl Under {
    pub(super) fn name(self) -> &'static str {
        match self {
            Under::Pagetide => "pagetide",
            Under::Mmap => "mmap",
            Under::Random => "random",
            Under::Library | Under::LibraryRandom => "library",
            Under::Swap => "swap",
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) under: Under,
    /// The limit in bytes.
    pub(super) memory: u64,
    /// The mapping's length in bytes.
    pub(super) len: u64,
    pub(super) threads: u32,
    /// The random seed, different in each concurrent process.
    pub(super) seed: u64,
    /// The duration of endless work.
    pub(super) millis: u64,
    pub(super) data: Option<DataFile>,
    /// The folder for evicted pages.
    pub(super) folder: PathBuf,
    pub(super) policy: String,
    pub(super) settings: Vec<Setting>,
    pub(super) group: Option<GroupHandle>,
}

/// The cost of one operation.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) ns: f64,
    /// Process CPU time.
    pub(super) cpu_ns: f64,
    /// Bytes taken by the region at its end, metadata included.
    pub(super) memory: u64,
}
