//! Checks that a public type name is used once in the workspace.

use std::collections::BTreeMap;

use super::source::{Source, is_word};
use super::tree::Tree;
use super::{Finding, Rule};

pub(super) const RULE: Rule = Rule {
    name: "type-names",
    why: "one word with two meanings: a reader cannot know from a signature which of them is meant",
    check,
    #[cfg(test)]
    canary: || Tree::of(&[("src/a.rs", "pub struct Page;\n"), ("src/b.rs", "pub enum Page {}\n")]),
};

fn check(tree: &Tree) -> Vec<Finding> {
    let mut places: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for (path, source) in &tree.sources {
        for (line, name) in public_types(source) {
            places.entry(name).or_default().push((path, line + 1));
        }
    }
    places.retain(|_, places| is_several(places));
    let mut found = Vec::new();
    for (name, places) in &places {
        let (first, first_line) = places[0];
        for (path, line) in &places[1..] {
            let what = format!("{name} is a type in {first}:{first_line} already");
            found.push(Finding::new(path, *line, what, "give it the name of what only it is"));
        }
    }
    found
}

/// Returns true for types in several files. Two in one file are variants under a `cfg`.
fn is_several(places: &[(&str, usize)]) -> bool {
    places.iter().any(|(path, _)| *path != places[0].0)
}

pub(super) fn public_types(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    source.code_lines().filter(|(line, _)| !source.is_test_line(*line)).filter_map(
        |(line, code)| {
            let mut words = code.trim_start().strip_prefix("pub ")?.split_whitespace();
            let is_type = matches!(words.next()?, "struct" | "enum" | "trait" | "type" | "union");
            let name = words.next().filter(|_| is_type)?;
            let end = name.bytes().position(|byte| !is_word(byte)).unwrap_or(name.len());
            Some((line, &name[..end]))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_from_its_second_use_on() {
        let files = [
            ("a/src/b.rs", "pub struct Page<T>(T);\npub(crate) struct Frame;\n"),
            ("c/src/d.rs", "pub trait Page {}\npub struct Frame;\n"),
            ("c/src/tests.rs", "pub struct Page;\n"),
        ];
        let found = check(&Tree::of(&files));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].file.as_str(), found[0].line), ("c/src/d.rs", 1));
    }

    #[test]
    fn one_type_built_in_two_ways_is_one() {
        let text = "#[cfg(unix)]\npub struct Page;\n#[cfg(not(unix))]\npub struct Page;\n";
        assert!(check(&Tree::of(&[("a/src/b.rs", text)])).is_empty());
    }
}
