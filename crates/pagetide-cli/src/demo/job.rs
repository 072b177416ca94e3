//! The job of a child process: one workload for one subject.

use super::plan::Workload;
use crate::cgroup::GroupHandle;
use crate::dataset::DataFile;
use crate::settings::Setting;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) workload: Workload,
    pub(crate) subject: String,
    /// The base of all sizes.
    pub(crate) memory_bytes: u64,
    /// The subject's limit, smaller for the fast tier alone.
    pub(crate) limit_bytes: u64,
    /// Tiers as typed.
    pub(crate) tiers: Vec<String>,
    pub(crate) seconds: f64,
    pub(crate) nr_threads: u32,
    pub(crate) seed: u64,
    pub(crate) settings: Vec<Setting>,
    pub(crate) files: Vec<DataFile>,
    pub(crate) group: Option<GroupHandle>,
}
