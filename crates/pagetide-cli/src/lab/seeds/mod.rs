//! `pagetide lab seeds`: judges the claims of Pagetide's five source documents.
//!
//! Idea: a data sheet states each claim with conditions on measured rows. Verdicts follow from the
//! rows.
//!
//! ```text
//!   sheet.json: claims, commands --run--> DIR/seeds.jsonl --+
//!   cargo x measure ----------------------> DIR/*.jsonl ----+-- picked, judged --> docs/seeds.md
//! ```
//!
//! Ignored: the age of rows. Each command is printed with its commit.

mod page;
mod rows;
mod sheet;

use crate::document::Document;
use crate::failure::Failure;
use crate::terminal::JsonArgs;
use rows::{Pool, measure};
use sheet::Sheet;
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  pagetide lab seeds > docs/seeds.md     in a clone, of the rows in results/
  pagetide lab seeds --run               measure what the sheet itself asks for, then the same
  pagetide lab seeds --run lab           only what is virtual; the rows of bench stay
  pagetide lab seeds --json";

/// What became of the claims in the five documents that Pagetide began with, as Markdown.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SeedsArgs {
    /// The folder with the rows that commands measured.
    #[arg(long, value_name = "DIR", default_value = "results")]
    rows: PathBuf,
    /// First run the sheet's commands that begin with this, or all: minutes on an idle machine.
    /// What they measured is kept as seeds.jsonl in that folder.
    #[arg(long, value_name = "WORDS", num_args = 0..=1, default_missing_value = "")]
    run: Option<String>,
    #[command(flatten)]
    json: JsonArgs,
}

pub(crate) fn run(args: &SeedsArgs) -> Result<(), Failure> {
    let sheet = Sheet::read();
    if let Some(words) = &args.run {
        measure(&sheet.commands, words, &sheet.picks(), &args.rows)?;
    }
    let pool = Pool::read(&args.rows)?;
    let judged = sheet.judge(&pool);
    args.json.print(&Document::new("pagetide.lab.seeds/1", &judged), || page::markdown(&judged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_document_is_what_the_rows_make_and_no_figure_is_missing() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let judged = Sheet::read().judge(&Pool::read(&root.join("results")).expect("rows"));
        for claim in &judged {
            let missing: Vec<_> = claim.figures.iter().filter(|it| it.value.is_none()).collect();
            assert!(missing.is_empty(), "{}: {missing:?}", claim.claim);
        }
        let document = std::fs::read_to_string(root.join("docs/seeds.md")).expect("it is there");
        let is_made = document == page::markdown(&judged);
        assert!(is_made, "`pagetide lab seeds > docs/seeds.md` makes it anew");
    }
}
