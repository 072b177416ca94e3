//! Requires comments beside `unsafe`. The lint `unsafe_code` decides where it may stand.

use super::source::{has_word, is_word};
use super::tree::Tree;
use super::{Finding, Rule};
use std::collections::BTreeSet;

pub(super) const SAYS_WHY: Rule = Rule {
    name: "say-why-here",
    why: "a SAFETY comment that names no numbered invariant cannot be checked against the audit",
    check: says_why,
    #[cfg(test)]
    canary: || {
        let code = format!("// {}: it works.\n", "SAFETY");
        Tree::of(&[(SOUNDNESS, "S1\n"), ("crates/pagetide-sys/src/a.rs", &code)])
    },
};

const SOUNDNESS: &str = "docs/soundness.md";

fn says_why(tree: &Tree) -> Vec<Finding> {
    let Some(soundness) = tree.files.get(SOUNDNESS) else {
        let instead = "write it: claim, what is trusted, invariants S1 to Sn";
        return vec![Finding::new(SOUNDNESS, 0, "there is no list of invariants", instead)];
    };
    let mut found = listed_twice(soundness);
    for (path, source) in &tree.sources {
        let comments: Vec<&str> = source.comments.lines().map(str::trim).collect();
        for (line, _) in comments.iter().enumerate().filter(|(_, c)| c.starts_with("// SAFETY:")) {
            let block = comments[line..].iter().take_while(|text| !text.is_empty());
            let cited: Vec<&str> = block.flat_map(|text| invariants(text)).collect();
            if cited.is_empty() {
                let instead =
                    format!("name the invariant of {SOUNDNESS} it rests on (S1, S2, ...)");
                found.push(Finding::new(path, line + 1, "SAFETY cites no S-number", instead));
            }
            for name in cited.iter().filter(|name| !has_word(soundness, name)) {
                let what = format!("SAFETY cites {name}, which {SOUNDNESS} does not list");
                found.push(Finding::new(
                    path,
                    line + 1,
                    what,
                    "cite a listed invariant, or list it",
                ));
            }
        }
    }
    found
}

/// Finds duplicate invariant numbers, as a citation would be ambiguous.
fn listed_twice(soundness: &str) -> Vec<Finding> {
    let mut listed = BTreeSet::new();
    let mut found = Vec::new();
    for (line, text) in soundness.lines().enumerate().filter(|(_, text)| text.starts_with("**S")) {
        let Some(name) = invariants(text).next() else { continue };
        if !listed.insert(name) {
            let what = format!("{name} is listed twice");
            found.push(Finding::new(SOUNDNESS, line + 1, what, "give one the next free number"));
        }
    }
    found
}

fn invariants(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii() || !is_word(c as u8));
    words.filter(|word| {
        let number = word.strip_prefix('S').unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cited_invariants_must_be_listed() {
        let reason = "SAFETY: the range is ours";
        let code = format!("// {reason}\n// (S1, S9).\nunsafe {{ a() }}\n");
        let tree = Tree::of(&[("crates/pagetide-sys/src/a.rs", &code), (SOUNDNESS, "**S1** x\n")]);
        let found = says_why(&tree);
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("S9"));
    }

    #[test]
    fn a_number_is_that_of_one_invariant() {
        let found = says_why(&Tree::of(&[(SOUNDNESS, "**S1: x.**\n\n**S2: y, as S1.**\n")]));
        assert_eq!(found, []);
        let found = says_why(&Tree::of(&[(SOUNDNESS, "**S1: x.**\n**S1: y.**\n")]));
        assert_eq!(found.len(), 1);
        assert!(found[0].line == 2 && found[0].what.contains("S1"), "{found:?}");
    }
}
