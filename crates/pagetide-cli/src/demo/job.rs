//! What a child process gets: one workload for one subject, with all that it needs.

use super::plan::Workload;
use crate::cgroup::GroupHandle;
use crate::dataset::DataFile;
use crate::settings::Setting;
use serde::{Deserialize, Serialize};

/// All that a child must know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) workload: Workload,
    pub(crate) subject: String,
    /// What sizes depend on.
    pub(crate) memory_bytes: u64,
    /// What the subject may have: as much, but for one in the fast tier alone.
    pub(crate) limit_bytes: u64,
    /// As typed.
    pub(crate) tiers: Vec<String>,
    pub(crate) seconds: f64,
    pub(crate) nr_threads: u32,
    pub(crate) seed: u64,
    pub(crate) settings: Vec<Setting>,
    pub(crate) files: Vec<DataFile>,
    pub(crate) group: Option<GroupHandle>,
}
