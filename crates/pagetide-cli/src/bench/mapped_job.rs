//! Work on mapped memory in a process of its own: what the process is told, and what it tells.

use crate::cgroup::GroupHandle;
use crate::dataset::DataFile;
use crate::settings::Setting;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The hidden command that does the work, whose argument is a job.
pub(crate) const COMMAND: &str = "mapped-work";

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Work {
    /// Loads of pages by chance, of which `stores` in 100 are stores.
    Zipf {
        /// In 100.
        stores: u32,
    },
    /// Loads of pages by chance, each as likely as the others, all words of them.
    Uniform,
    /// All words of all pages, loaded once.
    Sum,
    /// The same, over and over.
    Again,
    /// All words of all pages, stored once.
    Fill,
    /// All words in order.
    Sort,
    /// Gets of a cache of values, of which `sets` in 100 are sets; all keys alike, or by zipf.
    Items {
        is_zipf: bool,
        /// In 100.
        sets: u32,
    },
}

/// What serves the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Under {
    /// A region.
    Pagetide,
    /// A mapping of a file.
    Mmap,
    /// The same, advised to be read at random.
    Random,
    /// A mapping that is made by the C library, to be loaded from: `pagetide run` may serve it.
    Library,
    /// The same, advised to be read at random.
    LibraryRandom,
    /// Anonymous memory of the kernel's, where there is swap space.
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

/// All that a turn must know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) under: Under,
    /// The limit, bytes.
    pub(super) memory: u64,
    /// What is mapped, bytes.
    pub(super) len: u64,
    pub(super) threads: u32,
    /// What its random numbers begin with; processes that do the same have different ones.
    pub(super) seed: u64,
    /// How long work without an end is timed.
    pub(super) millis: u64,
    /// The file that is mapped, if it is one.
    pub(super) data: Option<DataFile>,
    /// Where pages go that leave memory.
    pub(super) folder: PathBuf,
    pub(super) policy: String,
    pub(super) settings: Vec<Setting>,
    pub(super) group: Option<GroupHandle>,
}

/// What a turn took, per operation.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) ns: f64,
    /// CPU time of the process.
    pub(super) cpu_ns: f64,
    /// What a region had taken at its end, bytes: its pages, and what is known of them.
    pub(super) memory: u64,
}
