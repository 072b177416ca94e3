//! The manifest lines of published crates that `cargo package` and readers need.

use super::tree::Tree;
use super::{Finding, Rule};

pub(super) const RULE: Rule = Rule {
    name: "can-be-packaged",
    why: "a path without a version, or a package without a word on it, is found at the release",
    check,
    #[cfg(test)]
    canary: || {
        Tree::of(&[("crates/a/Cargo.toml", "[dependencies]\nb = { path = \"../b\" }\n")])
            .with_crate("a", &[])
    },
};

const LINES: [&str; 6] =
    ["description = ", "version", "license", "readme", "keywords", "categories"];

fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let members = tree.crates.iter().map(|member| format!("{}/Cargo.toml", member.folder));
    for path in members.chain(["Cargo.toml".to_owned()]) {
        let Some(text) = tree.files.get(&path) else { continue };
        let is_published = path != "Cargo.toml" && !text.contains("publish = false");
        for line in LINES.iter().filter(|line| is_published && !has_line(text, line)) {
            let what = format!("a published crate without {}", line.trim_end_matches(" = "));
            found.push(Finding::new(&path, 0, what, "add it, or publish = false"));
        }
        for (nr, line) in text.lines().enumerate() {
            let is_dependency = line.contains("path = \"") && line.contains(" = {");
            if is_dependency && !line.contains("version = ") {
                let what = "a dependency by its path alone";
                found.push(Finding::new(&path, nr + 1, what, "give its version as well"));
            }
        }
    }
    found
}

fn has_line(text: &str, beginning: &str) -> bool {
    text.lines().any(|line| line.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_published_needs_no_words() {
        let found =
            |text| check(&Tree::of(&[("crates/a/Cargo.toml", text)]).with_crate("a", &[])).len();
        assert_eq!(found(""), LINES.len());
        assert_eq!(found("publish = false\n"), 0);
        assert_eq!(found("publish = false\nb = { path = \"../b\" }\n"), 1);
        assert_eq!(found("publish = false\nb = { path = \"../b\", version = \"1\" }\n"), 0);
    }
}
