//! The document: the tables of each section, with its commands, commit and machine.
//!
//! A figure with a reference is a line. Many subjects are lines or columns, with the fewer columns.
//! Single changes are lines:
//!
//! ```text
//!   | case | ns | against         |   | case | lru | mglru |   | changed   | a trace, mglru |
//!   | hit  | 50 | memcpy 40: 0.80 |   | oltp | 75  | 80    |   | tiers off | -0.8           |
//! ```

mod cells;
mod grid;
pub(super) mod made;
pub(super) mod picture;
pub(super) mod readme;
pub(super) mod regret;

use super::plan::{Section, Shape};
use super::rows::ResultRow;
use cells::{against, distinct, measured};

pub(super) fn head() -> &'static str {
    "# Results\n\n\
     Made by `cargo x results` of the rows in `results/*.jsonl`, which `cargo x measure` has the \
     commands\nwrite. Each section names its commit and its machine.\n\n\
     Figures are medians; in brackets stands their range, or a ratio where a table compares \
     subjects. Under\n\"against\" stands what ran by turns with the subject, and how far ahead of \
     it the subject is: above 1 is ahead.\n"
}

pub(super) fn section(section: &Section, rows: &[ResultRow]) -> String {
    let title = format!("\n## {}\n\n{}\n\n", section.title, section.note);
    if rows.is_empty() {
        return format!("{title}Not measured.\n");
    }
    let commands = distinct(rows.iter().map(|row| row.command.as_str()));
    let commands: Vec<String> = commands.iter().map(|line| format!("`{line}`")).collect();
    let ResultRow { commit, machine, .. } = &rows[0];
    let commands = format!("{}, at {commit}, on {machine}.\n", commands.join(",\n"));
    let all: Vec<&ResultRow> = rows.iter().collect();
    let tables = match section.shape {
        Shape::Against => by_case(&all),
        Shape::Subjects => grid::subjects(&all),
        Shape::Changes => grid::changes(&all),
    };
    format!("{title}{commands}\n{tables}")
}

/// Renders a line for each case and subject with its references. Cases of many subjects get their
/// own table.
fn by_case(rows: &[&ResultRow]) -> String {
    let subjects = |case: &str| {
        distinct(rows.iter().filter(|row| row.case == case).map(|row| row.subject.as_str())).len()
    };
    let (many, few): (Vec<&ResultRow>, Vec<&ResultRow>) =
        rows.iter().partition(|row| subjects(&row.case) >= MANY);
    let tables = [(few, lines as fn(&[&ResultRow]) -> String), (many, grid::subjects)];
    let tables = tables.into_iter().filter(|(rows, _)| !rows.is_empty());
    tables.map(|(rows, table)| table(&rows)).collect::<Vec<_>>().join("\n")
}

/// Minimum subjects of a case for comparing them with each other instead of a reference.
const MANY: usize = 3;

/// Renders a line for each case and subject. A single subject heads the column of figures.
fn lines(rows: &[&ResultRow]) -> String {
    let subjects = distinct(rows.iter().map(|row| row.subject.as_str()));
    let has_one = subjects.len() == 1;
    let units = distinct(rows.iter().map(|row| row.unit.as_str()));
    let (unit_of_all, has_unit) = (units.concat(), units.len() == 1);
    let line = |(case, subject): (&str, &str)| {
        let of_key = rows.iter().filter(|row| row.case == case && row.subject == subject);
        let of_key: Vec<&ResultRow> = of_key.copied().collect();
        let against: Vec<String> = of_key.iter().filter_map(|row| against(row)).collect();
        let unit = if has_unit { "" } else { &of_key[0].unit };
        let figure = format!("{} {unit}", measured(of_key[0]));
        let name = if has_one { case.to_owned() } else { format!("{case}, `{subject}`") };
        vec![name, figure.trim_end().to_owned(), against.join("; ")]
    };
    let figures = if has_one { format!("`{}`", subjects[0]) } else { "median".to_owned() };
    let figures = if has_unit { format!("{figures}, {unit_of_all}") } else { figures };
    let head = vec!["case".to_owned(), figures, "against".to_owned()];
    let keys = distinct(rows.iter().map(|row| (row.case.as_str(), row.subject.as_str())));
    grid::table(&head, keys.into_iter().map(line))
}
