//! Rules for lines of text.

use super::tree::Tree;
use super::{Finding, Rule};

pub(super) const ASCII: Rule = Rule {
    name: "ascii-only",
    why: "look-alike characters break searches, diffs and terminals; ASCII is the same everywhere",
    check: ascii,
    #[cfg(test)]
    canary: || Tree::of(&[("docs/a.md", "a \u{2192} b\n")]),
};

pub(super) const LINE_LENGTH: Rule = Rule {
    name: "line-length",
    why: "rustfmt does not wrap comments and strings, and two files must fit side by side",
    check: line_length,
    #[cfg(test)]
    canary: || Tree::of(&[("src/a.rs", &format!("// {}\n", "x".repeat(COLUMNS_MAX)))]),
};

pub(super) const MACHINE_PATH: Rule = Rule {
    name: "machine-path",
    why: "an absolute path of one machine is wrong on every other one",
    check: machine_path,
    #[cfg(test)]
    canary: || Tree::of(&[("docs/a.md", &format!("see `/{}/me/trace`\n", PERSONAL_ROOTS[0]))]),
};

const COLUMNS_MAX: usize = 100;

/// First folders of personal or build-machine paths.
const PERSONAL_ROOTS: [&str; 7] = ["home", "root", "Users", "work", "workspace", "builds", "mnt"];

fn ascii(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in &tree.files {
        for (line, text) in text.lines().enumerate() {
            if let Some(odd) = text.chars().find(|c| !c.is_ascii()) {
                let what = format!("U+{:04X}", odd as u32);
                let instead =
                    "write it in ASCII: -> for an arrow, - for a dash, us for microseconds";
                found.push(Finding::new(path, line + 1, what, instead));
            }
        }
    }
    found
}

fn line_length(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.files.iter().filter(|(path, _)| path.ends_with(".rs")) {
        for (line, text) in text.lines().enumerate() {
            let columns = text.chars().count();
            if columns > COLUMNS_MAX {
                let what = format!("{columns} columns, more than {COLUMNS_MAX}");
                found.push(Finding::new(path, line + 1, what, "break the line"));
            }
        }
    }
    found
}

fn machine_path(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in &tree.files {
        for (line, text) in text.lines().enumerate() {
            if let Some(folder) = PERSONAL_ROOTS.iter().find(|folder| has_root(text, folder)) {
                let what = format!("an absolute path under /{folder}");
                let instead = "a path relative to the project, an argument, or a temporary folder";
                found.push(Finding::new(path, line + 1, what, instead));
            }
        }
    }
    found
}

/// Returns true if a path in `text` begins with `/folder/`.
fn has_root(text: &str, folder: &str) -> bool {
    text.match_indices(&format!("/{folder}/")).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-}*)/".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_may_be_used() {
        let check = |columns: usize| {
            line_length(&Tree::of(&[("a.rs", &"x".repeat(columns)), ("a.md", &"x".repeat(200))]))
        };
        assert!(check(COLUMNS_MAX).is_empty());
        assert_eq!(check(COLUMNS_MAX + 1).len(), 1);
    }

    #[test]
    fn relative_paths_and_addresses_are_not_absolute() {
        let home = PERSONAL_ROOTS[0];
        for fine in
            [format!("a/{home}/b"), format!("../{home}/b"), format!("https://x.org/{home}/b")]
        {
            assert!(machine_path(&Tree::of(&[("a.md", &fine)])).is_empty(), "{fine}");
        }
        let quoted = format!("let a = \"/{home}/b\";");
        assert_eq!(machine_path(&Tree::of(&[("a.rs", &quoted)])).len(), 1);
    }
}
