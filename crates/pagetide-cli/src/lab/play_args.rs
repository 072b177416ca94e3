//! The common arguments of all plays in the lab.

use crate::failure::Failure;
use crate::rows::RowsArgs;
use pagetide_lab::machine::Price;
use std::fmt::Display;
use std::num::NonZeroU64;
use std::str::FromStr;

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
    /// How many seeds: 10 without, and 1 for pcp-..., pmbench and tier-... .
    #[arg(long)]
    pub(super) seeds: Option<NonZeroU64>,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    pub(super) first_seed: u64,
    #[command(flatten)]
    pub(super) output: RowsArgs,
    /// For pcp-..., pmbench and tier-... only: a price, in nanoseconds where it is a time, as in
    /// zone_page=60. The table ends with all.
    #[arg(long, value_name = "NAME=NUMBER")]
    pub(super) cost: Vec<Price>,
}

/// Resolves names, with `all` as `every`.
pub(super) fn workloads<W: Copy + FromStr<Err: Display>>(
    names: &[String],
    all: &str,
    every: &[W],
) -> Result<Vec<W>, Failure> {
    if names == [all] {
        return Ok(every.to_vec());
    }
    let refused = |name, error| Failure::Usage(format!("{name}: {error}; or {all}"));
    names.iter().map(|name| name.parse().map_err(|error| refused(name, error))).collect()
}

impl PlayArgs {
    pub(super) fn seeds(&self, usual: u64) -> Vec<u64> {
        let nr_seeds = self.seeds.map_or(usual, NonZeroU64::get);
        (0..nr_seeds).map(|at| self.first_seed.wrapping_add(at)).collect()
    }
}
