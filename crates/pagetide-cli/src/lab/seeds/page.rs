//! The document: a table per source, a line per claim, and the commands.

use super::sheet::{Figure, Judged};
use std::collections::BTreeSet;

const HEAD: &str = "# The five documents

Made by `pagetide lab seeds`: each claim, what is measured of it here with the range that it allows
in brackets, and the verdict that follows. Small numbers are commands, below.
";

const TABLE: &str = "| what they measured | what we measure | verdict | why |\n|---|---|---|---|\n";

/// Commands that measure this machine. All other commands run in virtual memory.
const REAL: [&str; 2] = ["pagetide bench ", "pagetide demo "];

pub(super) fn markdown(judged: &[Judged]) -> String {
    let figures = judged.iter().flat_map(|claim| &claim.figures);
    // By origin, numbered in listing order.
    let commands: BTreeSet<(&str, &str)> =
        figures.map(|figure| (figure.origin.as_str(), figure.command.as_str())).collect();
    let commands: Vec<(&str, &str)> = commands.into_iter().collect();
    let mut text = HEAD.to_owned();
    for of_source in judged.chunk_by(|one, other| one.source == other.source) {
        text.push_str(&format!("\n## {}\n\n{TABLE}", of_source[0].source));
        for claim in of_source {
            let figures: Vec<String> =
                claim.figures.iter().map(|it| shown(it, &commands)).collect();
            let Judged { claim, verdict, why, .. } = claim;
            text.push_str(&format!("| {claim} | {} | *{verdict}* | {why} |\n", figures.join("; ")));
        }
    }
    text.push_str("\n## Commands\n");
    for (nth, (origin, command)) in commands.iter().enumerate() {
        if nth == 0 || commands[nth - 1].0 != *origin {
            text.push_str(&format!("\n{origin}:\n\n"));
        }
        text.push_str(&format!("{}. `{command}`\n", nth + 1));
    }
    text
}

fn shown(figure: &Figure, commands: &[(&str, &str)]) -> String {
    let is_its = |(_, command): &(&str, &str)| *command == figure.command;
    let nth = commands.iter().position(is_its).map_or(0, |at| at + 1);
    let is_real = REAL.iter().any(|begin| figure.command.starts_with(begin));
    let world = if is_real { "real" } else { "virtual" };
    let value = figure.value.map_or("-".to_owned(), number);
    let range = match (figure.least.map(number), figure.most.map(number)) {
        (Some(least), Some(most)) if least == most => least,
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("from {least}"),
        (None, Some(most)) => format!("up to {most}"),
        (None, None) => "any".to_owned(),
    };
    format!("{}: {value} ({range}), {world} <sup>{nth}</sup>", figure.what)
}

/// Formats about three significant digits.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        value if value >= 100.0 || value.fract() == 0.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 0.1 => 2,
        _ => 4,
    };
    format!("{value:.digits$}")
}
