//! A command's outputs: a table or JSON on stdout, a report, lines of data.

use crate::failure::Failure;
use crate::output;
use crate::parallel::JobsArgs;
use crate::results::ResultsArgs;
use crate::terminal::JsonArgs;
use std::path::PathBuf;

/// The arguments of commands that make many runs, of which each is a row.
#[derive(Debug, clap::Args)]
pub(crate) struct RowsArgs {
    #[command(flatten)]
    pub(crate) jobs: JobsArgs,
    /// Write a report with plots, one self-contained HTML file.
    #[arg(long)]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
    #[command(flatten)]
    pub(crate) results: ResultsArgs,
}

impl RowsArgs {
    pub(crate) fn check(&self) -> Result<(), Failure> {
        output::check("the report", &self.report)?;
        self.results.check()
    }
}
