//! `cargo x measure` and `cargo x results`: the numbers of docs/results.md, and the document.
//!
//! Problem: numbers that are copied into a document by hand are of many commits, and no reader can
//! tell which still hold. Idea: commands write their rows down, and the document is made of them,
//! or not at all.
//!
//! ```text
//!   plan.rs: sections, commands --measure.rs--> results/<section>.jsonl
//!      `--> rows.rs: all of one commit? --render/--> docs/results.md <--compared-- cargo x tidy
//!                                                   and the README's table
//!   pagetide-tune --policies  --> results/regret.jsonl --> the table in docs/policies.md
//!   pagetide lab seeds --run  --> results/seeds.jsonl  --> docs/seeds.md, which the command makes
//! ```
//!
//! What no command of ours makes again stands in `results/notes.md`, each figure with its commit;
//! the document links to it. Ignored: whether the rows are of the newest commit.

pub(crate) mod measure;
mod plan;
mod render;
mod rows;

use plan::SECTIONS;
use rows::ResultRow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What is made.
pub(crate) const DOCUMENT: &str = "docs/results.md";
/// What has the demo's table in it.
pub(crate) const README: &str = "README.md";
/// What has the table of policies in it.
pub(crate) const POLICIES: &str = "docs/policies.md";
/// What they are made of.
const FOLDER: &str = "results/";
const NOTES: &str = "results/notes.md";
/// Rows of other documents, each of a commit of their own.
const REGRET: &str = "results/regret.jsonl";
const SEEDS: &str = "results/seeds.jsonl";

/// The document that the files (by path from the root) make, or `None` where none has rows.
///
/// # Errors
/// A sentence: a line that is no row, a file that is no section's, rows of several commits.
pub(crate) fn document(files: &BTreeMap<String, String>) -> Result<Option<String>, String> {
    let is_rows = |path: &&String| {
        let is_apart = [REGRET, SEEDS].contains(&path.as_str());
        path.starts_with(FOLDER) && path.ends_with(".jsonl") && !is_apart
    };
    let mut by_section: BTreeMap<&str, Vec<ResultRow>> = BTreeMap::new();
    for path in files.keys().filter(is_rows) {
        let name = &path[FOLDER.len()..path.len() - ".jsonl".len()];
        if !SECTIONS.iter().any(|section| section.name == name) {
            return Err(format!("{path} is of no section in xtask/src/results/plan.rs"));
        }
        by_section.insert(name, rows::parse(path, &files[path])?);
    }
    if by_section.is_empty() {
        return Ok(None);
    }
    let (commit, machine) = rows::origin(by_section.values().flatten())?;
    let mut text = render::head(commit, machine);
    for section in &SECTIONS {
        let rows = by_section.get(section.name).map_or(&[][..], Vec::as_slice);
        text.push_str(&render::section(section, rows));
    }
    if files.contains_key(NOTES) {
        text.push_str(&format!(
            "\nWhat `cargo x measure` does not make: [notes.md](../{NOTES}).\n"
        ));
    }
    Ok(Some(text))
}

/// The README with the demo's rows in it, or as it is where there is no place for them.
///
/// # Errors
/// As [`document`].
pub(crate) fn readme(files: &BTreeMap<String, String>) -> Result<String, String> {
    let text = files.get(README).map_or("", String::as_str);
    let path = format!("{FOLDER}demo.jsonl");
    let rows = files.get(&path).map_or(Ok(Vec::new()), |rows| rows::parse(&path, rows))?;
    Ok(render::made::with_part(text, &render::readme::part(&rows)))
}

/// The page of policies with their table in it, or as it is where there is no place for it.
///
/// # Errors
/// A line that is no row.
pub(crate) fn policies(files: &BTreeMap<String, String>) -> Result<String, String> {
    let text = |path| files.get(path).map_or("", String::as_str);
    Ok(render::made::with_part(text(POLICIES), &render::regret::part(text(REGRET))?))
}

/// Makes the document of the rows below `root`; true where there are some that belong together.
pub(crate) fn make(root: &Path) -> bool {
    let write = |path: &str, text: &str| {
        fs::write(root.join(path), text).map_err(|error| format!("{path}: {error}"))
    };
    let made = read(root).and_then(|files| {
        let text = document(&files)?.ok_or("there are no rows: `cargo x measure` makes them")?;
        write(DOCUMENT, &text)?;
        write(README, &readme(&files)?)?;
        write(POLICIES, &policies(&files)?)
    });
    match made {
        Ok(()) => {
            println!("{DOCUMENT} and the numbers of {README} and {POLICIES} are made");
            true
        }
        Err(why) => {
            eprintln!("{why}");
            false
        }
    }
}

/// The documents with places for tables, and the files of the results' folder.
fn read(root: &Path) -> Result<BTreeMap<String, String>, String> {
    let folder = root.join(FOLDER);
    let refuse = |error| format!("{}: {error}", folder.display());
    let mut files = BTreeMap::new();
    if !folder.is_dir() {
        return Ok(files);
    }
    for entry in fs::read_dir(&folder).map_err(refuse)? {
        let entry = entry.map_err(refuse)?;
        let path = format!("{FOLDER}{}", entry.file_name().to_string_lossy());
        files.insert(path, fs::read_to_string(entry.path()).map_err(refuse)?);
    }
    for path in [README, POLICIES] {
        files.insert(path.to_owned(), fs::read_to_string(root.join(path)).unwrap_or_default());
    }
    Ok(files)
}

#[cfg(test)]
mod tests;
