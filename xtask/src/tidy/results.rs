//! docs/results.md is what the rows in `results/` make.

use super::tree::Tree;
use super::{Finding, Rule};
use crate::results::{DOCUMENT, document};

pub(super) const RULE: Rule = Rule {
    name: "results-are-made",
    why: "a number edited by hand is of no commit, and no reader can tell it from a measured one",
    check,
    #[cfg(test)]
    canary: || Tree::of(&[("results/demo.jsonl", "{}\n"), (DOCUMENT, "# Results\n")]),
};

fn check(tree: &Tree) -> Vec<Finding> {
    let present = tree.files.get(DOCUMENT).map_or("", String::as_str);
    let what = match document(&tree.files) {
        Ok(Some(made)) if made != present => "it is not what the rows in results/ make".to_owned(),
        Ok(_) => return Vec::new(),
        Err(why) => why,
    };
    vec![Finding::new(DOCUMENT, 0, what, "cargo x results; or cargo x measure, and then that")]
}
