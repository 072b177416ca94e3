//! One module layout: a module with children is a folder with `mod.rs`.

use super::tree::Tree;
use super::{Finding, Rule};

pub(super) const RULE: Rule = Rule {
    name: "module-folders",
    why: "a module that is half a file and half a folder beside it is read in two places",
    check,
    #[cfg(test)]
    canary: || Tree::of(&[("src/page.rs", "mod word;\n"), ("src/page/word.rs", "")]),
};

/// A file in `tests/` is a crate of its own, with its modules in a folder beside.
fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for path in tree.sources.keys().filter(|path| !is_integration_test(path)) {
        let folder = path.trim_end_matches(".rs");
        if tree.has(&format!("{folder}/")) {
            let what = format!("it stands beside the folder {folder}/");
            found.push(Finding::new(path, 0, what, format!("move it to {folder}/mod.rs")));
        }
    }
    found
}

fn is_integration_test(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") && !path.contains("/src/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integration_tests_are_let_be() {
        let beside = |file, other| check(&Tree::of(&[(file, ""), (other, "")])).len();
        assert_eq!(beside("crates/a/tests/b.rs", "crates/a/tests/b/c.rs"), 0);
        assert_eq!(beside("crates/a/src/tests/b.rs", "crates/a/src/tests/b/c.rs"), 1);
        assert_eq!(beside("crates/a/src/b/mod.rs", "crates/a/src/b/c.rs"), 0);
    }
}
