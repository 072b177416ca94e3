//! The report on fast and slow memory: scores and moves by stage.

use super::{TierRuns, blocks, table};
use crate::failure::Failure;
use crate::report::page::{Figure, Page, heading, paragraph};
use crate::report::plots::{Bar, DrawError, Group, bars};
use crate::report::{self, distinct};
use crate::tier::report::method;
use pagetide_lab::tiers::TierRow;
use pagetide_lab::tiers::prices::TierPrices;
use std::path::Path;

pub(super) fn write(path: &Path, runs: &[TierRuns], prices: &TierPrices) -> Result<(), Failure> {
    report::write(path, render(runs, prices))
}

fn render(runs: &[TierRuns], prices: &TierPrices) -> Result<String, DrawError> {
    let said = "Programs in a model of fast and slow memory, in virtual time: core's promotion and \
                demotion, stage after stage, beside memory that is all slow, all fast, or placed \
                by an oracle whose moves are free.";
    let names = distinct(runs.iter().map(|it| it.subject.as_str()));
    let mut page = Page::new("Pagetide fast and slow memory", said, &names);
    for block in blocks(runs) {
        let (workload, ratio) = (block[0].workload, block[0].ratio);
        let rows: Vec<TierRow> = block.iter().map(TierRuns::median).collect();
        let words = heading(&format!("{workload}, {ratio}"))
            + &paragraph(&format!("{}.", workload.summary()));
        let moves = "MB a second moved to fast memory; as much is moved back.";
        let figures = [
            Figure::new(
                plot(&rows, |row| row.accesses_per_s / 1e6)?,
                "Score",
                "Million accesses a second.",
            ),
            Figure::new(plot(&rows, |row| row.promotion_mb_per_s)?, "Promotions", moves),
        ];
        page.section(&words, &figures, Some(&table(block)));
    }
    Ok(page.finish("How this was run", &method(prices)))
}

/// Draws bars named only in the legend.
fn plot(rows: &[TierRow], reading: fn(&TierRow) -> f64) -> Result<String, DrawError> {
    let bar = |row: &TierRow| {
        let value = reading(row);
        let bar = Bar { name: row.stage.to_owned(), value, label: format!("{value:.0}") };
        Group { title: String::new(), bars: vec![bar] }
    };
    let groups: Vec<Group> = rows.iter().map(bar).collect();
    bars(&groups, 1e-9, |value| format!("{value:.0}"))
}
