//! Checks that docs/results.md and the numbers in the README and docs/policies.md match the rows in
//! `results/`.

use super::tree::Tree;
use super::{Finding, Rule};
use crate::results::{DOCUMENT, PICTURE, POLICIES, README, document, picture, policies, readme};

pub(super) const RULE: Rule = Rule {
    name: "results-are-made",
    why: "a number edited by hand is of no commit, and no reader can tell it from a measured one",
    check,
    #[cfg(test)]
    canary: || Tree::of(&[("results/demo.jsonl", "{}\n"), (DOCUMENT, "# Results\n")]),
};

fn check(tree: &Tree) -> Vec<Finding> {
    let present = |path: &str| tree.files.get(path).map_or("", String::as_str);
    let is_made = |path: &str, made: Result<String, String>| {
        let what = match made {
            Ok(made) if made != present(path) => "it is not what the rows in results/ make".into(),
            Ok(_) => return None,
            Err(why) => why,
        };
        let instead = "cargo x results; or cargo x measure, and then that";
        Some(Finding::new(path, 0, what, instead))
    };
    let text = document(&tree.files).map(|made| made.unwrap_or_else(|| present(DOCUMENT).into()));
    let findings = [
        is_made(DOCUMENT, text),
        is_made(README, readme(&tree.files)),
        is_made(PICTURE, picture(&tree.files)),
        is_made(POLICIES, policies(&tree.files)),
    ];
    findings.into_iter().flatten().collect()
}
