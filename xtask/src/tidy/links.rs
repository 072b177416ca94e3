//! Checks that relative links in the documents resolve, with their anchors.

use super::tree::Tree;
use super::{Finding, Rule};

pub(super) const RULE: Rule = Rule {
    name: "links-resolve",
    why: "a dead link shows a newcomer that the documents are not read",
    check,
    #[cfg(test)]
    canary: || Tree::of(&[("docs/a.md", "# A\n[b](b.md)\n")]),
};

fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.documents() {
        for (line, text) in prose_lines(text) {
            for target in targets(&text) {
                if let Some(what) = broken(tree, path, target) {
                    found.push(Finding::new(
                        path,
                        line + 1,
                        what,
                        "correct the link or its target",
                    ));
                }
            }
        }
    }
    found
}

/// Returns lines outside code fences, with inline code blanked.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut in_fence = false;
    text.lines().enumerate().filter_map(move |(line, text)| {
        let is_fence = text.trim_start().starts_with("```");
        in_fence ^= is_fence;
        (!in_fence && !is_fence).then(|| (line, without_code(text)))
    })
}

/// Blanks the code: every second part between backticks.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// Returns the targets of `[text](target)`, without titles.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let after = text.match_indices("](").map(|(at, mark)| &text[at + mark.len()..]);
    let inside = after.filter_map(|rest| rest.split(')').next());
    inside.filter_map(|target| target.split_whitespace().next())
}

fn broken(tree: &Tree, path: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() { path.to_owned() } else { resolve(path, file) };
    if !tree.has(&file) {
        return Some(format!("{target}: there is no {file}"));
    }
    let text = tree.files.get(&file).filter(|_| file.ends_with(".md") && !anchor.is_empty())?;
    let has_heading = headings(text).any(|heading| anchor_of(&heading) == anchor);
    (!has_heading).then(|| format!("{target}: no heading of {file} has this anchor"))
}

fn resolve(path: &str, file: &str) -> String {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in file.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn headings(text: &str) -> impl Iterator<Item = String> {
    let mut in_fence = false;
    text.lines().filter_map(move |line| {
        in_fence ^= line.trim_start().starts_with("```");
        let is_heading = !in_fence && line.starts_with('#');
        is_heading.then(|| line.trim_start_matches('#').trim().to_owned())
    })
}

/// Returns the anchor of a heading, as forges make it: lower case, dashes for spaces, no
/// punctuation.
fn anchor_of(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nr_broken(text: &str) -> usize {
        let files = [("docs/a.md", text), ("docs/b.md", "## S1: `pins` hold\n"), ("README.md", "")];
        check(&Tree::of(&files)).len()
    }

    #[test]
    fn files_folders_anchors_and_addresses_resolve() {
        assert_eq!(
            nr_broken("[b](b.md) [r](../README.md \"title\") [d](../docs) [w](https://a.b)"),
            0
        );
        assert_eq!(nr_broken("# Here\n[b](b.md#s1-pins-hold) [h](#here)"), 0);
    }

    #[test]
    fn dead_files_and_anchors_are_found() {
        assert_eq!(nr_broken("[b](b.md#s2) and [c](c.md) and [d](../docs/../d)"), 3);
    }

    #[test]
    fn code_is_not_a_link() {
        assert_eq!(nr_broken("`[a](nowhere)`\n```\n[b](nowhere)\n```\n"), 0);
    }
}
