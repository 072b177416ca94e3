//! What still breaks a rule: lists that only shrink.
//!
//! A rule that comes to a house with history starts with the places that break it, by name, in this
//! one file. A name that is no longer needed is itself a finding, so that nothing mended can break
//! again.

use super::Finding;
use super::tree::Tree;

/// Where the lists are, for findings.
const FILE: &str = "xtask/src/tidy/exceptions.rs";

/// Modules that are in a circle with a sibling.
pub(super) const CIRCLES: &[&str] = &[];

/// Public type names with more than one meaning.
pub(super) const NAMES: &[&str] = &[];

/// Findings for the names in a list that `is_needed` does not need. A tree without this file, as
/// tests have it, owes the list nothing.
pub(super) fn stale(
    tree: &Tree,
    list: &[&str],
    what: &str,
    is_needed: impl Fn(&str) -> bool,
) -> Vec<Finding> {
    let Some(text) = tree.files.get(FILE) else { return Vec::new() };
    let unneeded = list.iter().filter(|name| !is_needed(name));
    let found = unneeded.map(|name| {
        let quoted = format!("\"{name}\"");
        let line = text.lines().position(|line| line.contains(&quoted)).map_or(0, |line| line + 1);
        Finding::new(FILE, line, format!("{name} {what}"), "delete its line")
    });
    found.collect()
}
