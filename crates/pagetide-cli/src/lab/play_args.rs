//! The arguments of every play in the lab: names, policies, seeds, prices, and where results go.

use crate::parallel::JobsArgs;
use crate::results::ResultsArgs;
use crate::terminal::JsonArgs;
use pagetide_lab::machine::Price;
use std::num::NonZeroU64;
use std::path::PathBuf;

/// The arguments that scenarios and virtual machines share.
#[derive(Debug, clap::Args)]
pub(super) struct PlayArgs {
    /// Scenarios or workloads, as `pagetide lab list` names them; or all, pcp-all, tier-all.
    #[arg(required = true, value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// What plays: policies, with ~MECHANISM to flip one; or all. Without: ours, the kernel's and
    /// lru.
    #[arg(long, value_delimiter = ',', value_name = "SUBJECT")]
    pub(super) policy: Vec<String>,
    /// Play the suspected causes of why real kernels differ from boot to boot, one subject each
    /// beside the design as it is; of wschange and wsprotect.
    #[arg(long, conflicts_with = "policy")]
    pub(super) causes: bool,
    /// How many seeds: 10 without, and 1 for pcp-..., pmbench and tier-... .
    #[arg(long)]
    pub(super) seeds: Option<NonZeroU64>,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    pub(super) first_seed: u64,
    #[command(flatten)]
    pub(super) jobs: JobsArgs,
    /// Write a report with plots, one self-contained HTML file.
    #[arg(long)]
    pub(super) report: Option<PathBuf>,
    #[command(flatten)]
    pub(super) json: JsonArgs,
    #[command(flatten)]
    pub(super) results: ResultsArgs,
    /// For pcp-..., pmbench and tier-... only: a price, in nanoseconds where it is a time, as in
    /// zone_page=60. The table ends with all.
    #[arg(long, value_name = "NAME=NUMBER")]
    pub(super) cost: Vec<Price>,
}

impl PlayArgs {
    /// The seeds, `usual` of them where nothing was said.
    pub(super) fn seeds(&self, usual: u64) -> Vec<u64> {
        let nr_seeds = self.seeds.map_or(usual, NonZeroU64::get);
        (0..nr_seeds).map(|at| self.first_seed.wrapping_add(at)).collect()
    }
}
