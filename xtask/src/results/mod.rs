//! `cargo x measure` and `cargo x results`: the numbers of docs/results.md, and the document.
//!
//! Problem: numbers copied by hand come from many commits. Idea: commands write rows, and the
//! document is made only from rows.
//!
//! ```text
//!   plan.rs: sections, commands --measure.rs--> results/<section>.jsonl
//!      `--> rows.rs: a section of one commit? --render/--> docs/results.md <-- cargo x tidy
//!                                                  the README's numbers       compares
//!                                                  docs/demo.svg, its picture
//!   pagetide-tune --policies  --> results/regret.jsonl --> the table in docs/policies.md
//!   pagetide lab seeds --run  --> results/seeds.jsonl  --> docs/seeds.md, which the command makes
//! ```
//!
//! `results/notes.md` holds figures that no command reproduces, each with its commit. Ignored: rows
//! of an older commit.

pub(crate) mod measure;
mod plan;
mod render;
mod rows;

use plan::SECTIONS;
use rows::ResultRow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

pub(crate) const DOCUMENT: &str = "docs/results.md";
pub(crate) const README: &str = "README.md";
pub(crate) const POLICIES: &str = "docs/policies.md";
/// The README's picture.
pub(crate) const PICTURE: &str = "docs/demo.svg";
const FOLDER: &str = "results/";
const NOTES: &str = "results/notes.md";
/// Rows of other documents, each with its own commit.
const REGRET: &str = "results/regret.jsonl";
const SEEDS: &str = "results/seeds.jsonl";

/// Returns the document made from the files (by path from the root), or `None` without rows.
///
/// # Errors
/// Returns a sentence if a line is no row, a file has no section, or the rows of a section have
/// several commits or machines.
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
    by_section.values().try_for_each(|rows| rows::check_origin(rows))?;
    let mut text = render::head().to_owned();
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

/// Returns the README with the demo's rows, if it has a place for them.
///
/// # Errors
/// As [`document`].
pub(crate) fn readme(files: &BTreeMap<String, String>) -> Result<String, String> {
    let text = files.get(README).map_or("", String::as_str);
    Ok(render::made::with_part(text, &render::readme::part(&demo_rows(files)?)))
}

/// Returns the README's picture, empty without the demo's rows.
///
/// # Errors
/// As [`document`].
pub(crate) fn picture(files: &BTreeMap<String, String>) -> Result<String, String> {
    Ok(render::picture::svg(&demo_rows(files)?).unwrap_or_default())
}

fn demo_rows(files: &BTreeMap<String, String>) -> Result<Vec<ResultRow>, String> {
    let path = format!("{FOLDER}demo.jsonl");
    files.get(&path).map_or(Ok(Vec::new()), |rows| rows::parse(&path, rows))
}

/// Returns the page of policies with their table, if it has a place for one.
///
/// # Errors
/// Fails if a line is no row.
pub(crate) fn policies(files: &BTreeMap<String, String>) -> Result<String, String> {
    let text = |path| files.get(path).map_or("", String::as_str);
    Ok(render::made::with_part(text(POLICIES), &render::regret::part(text(REGRET))?))
}

/// Makes the documents from the rows below `root`. Returns true if consistent rows exist.
pub(crate) fn make(root: &Path) -> bool {
    let write = |path: &str, text: &str| {
        fs::write(root.join(path), text).map_err(|error| format!("{path}: {error}"))
    };
    let made = read(root).and_then(|files| {
        let text = document(&files)?.ok_or("there are no rows: `cargo x measure` makes them")?;
        write(DOCUMENT, &text)?;
        write(README, &readme(&files)?)?;
        write(PICTURE, &picture(&files)?)?;
        write(POLICIES, &policies(&files)?)
    });
    match made {
        Ok(()) => {
            println!("{DOCUMENT}, {PICTURE} and the numbers of {README} and {POLICIES} are made");
            true
        }
        Err(why) => {
            eprintln!("{why}");
            false
        }
    }
}

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
