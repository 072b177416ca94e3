//! Where a command's rows go: a table or JSON on stdout, lines of data.

use crate::parallel::JobsArgs;
use crate::results::ResultsArgs;
use crate::terminal::JsonArgs;

/// The arguments of commands that make many runs, of which each is a row.
#[derive(Debug, clap::Args)]
pub(crate) struct RowsArgs {
    #[command(flatten)]
    pub(crate) jobs: JobsArgs,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
    #[command(flatten)]
    pub(crate) results: ResultsArgs,
}
