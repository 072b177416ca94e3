//! Checks facts in a README: commands, the Rust version, the crates, and file names.

use super::source::{has_word, is_word};
use super::tree::Tree;
use super::{Finding, Rule};
use crate::COMMANDS;

pub(super) const FACTS: Rule = Rule {
    name: "readme-facts",
    why: "the first commands a newcomer types, and the crates they look for, must be there",
    check: facts,
    #[cfg(test)]
    canary: || Tree::of(&[(README, "Run `cargo x no-such-command`.\n")]),
};

pub(super) const PATHS: Rule = Rule {
    name: "named-paths-exist",
    why: "a document that names a file that moved sends its reader nowhere",
    check: paths,
    #[cfg(test)]
    canary: || Tree::of(&[("ARCHITECTURE.md", "see `crates/pagetide/src/gone.rs`\n")]),
};

const README: &str = "README.md";
const TRY_COMMAND: &str = "cargo run --release -- ";
const CHECK_COMMAND: &str = "cargo x ";

fn facts(tree: &Tree) -> Vec<Finding> {
    let Some(readme) = tree.files.get(README) else {
        return vec![Finding::new(README, 0, "there is no README", "write one")];
    };
    let mut found = Vec::new();
    let mut say = |line: usize, what: String, instead: &str| {
        found.push(Finding::new(README, line, what, instead));
    };
    for must in ["cargo run --release -- demo", "cargo x check"] {
        if !readme.contains(must) {
            say(0, format!("`{must}` is not named"), "name the two commands: try it, check it");
        }
    }
    for (line, text) in readme.lines().enumerate() {
        for name in arguments_of(text, CHECK_COMMAND) {
            if !COMMANDS.contains(&name) {
                say(
                    line + 1,
                    format!("`{CHECK_COMMAND}{name}` does not exist"),
                    "see cargo x help",
                );
            }
        }
        for name in arguments_of(text, TRY_COMMAND) {
            if !has_subcommand(tree, name) {
                let what = format!("`{TRY_COMMAND}{name}` does not exist");
                say(line + 1, what, "name a subcommand of crates/pagetide-cli");
            }
        }
    }
    rust_version(tree, readme, &mut say);
    crate_map(tree, readme, &mut say);
    found
}

fn arguments_of<'a>(text: &'a str, command: &'a str) -> impl Iterator<Item = &'a str> {
    let after = text.match_indices(command).map(|(at, _)| &text[at + command.len()..]);
    after.filter_map(|rest| {
        let name = rest.split(|c: char| c != '-' && !c.is_ascii_alphanumeric()).next()?;
        (!name.is_empty() && !name.starts_with('-')).then_some(name)
    })
}

/// Returns true if the command-line crate has an enum variant of this name, which clap makes a
/// subcommand.
fn has_subcommand(tree: &Tree, name: &str) -> bool {
    let variant: String = name.split('-').map(capitalised).collect();
    let cli = tree.sources.iter().filter(|(path, _)| path.starts_with("crates/pagetide-cli/src/"));
    cli.map(|(_, source)| source).any(|source| has_word(&source.code, &variant))
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at(word.len().min(1));
    format!("{}{rest}", first.to_ascii_uppercase())
}

/// Checks every `Rust 1.x` against the `rust-version` in Cargo.toml.
fn rust_version(tree: &Tree, readme: &str, say: &mut impl FnMut(usize, String, &str)) {
    let manifest = tree.files.get("Cargo.toml").map_or("", String::as_str);
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let wanted = line.map_or("", |version| version.trim_matches('"'));
    let mut is_named = false;
    for (line, text) in readme.lines().enumerate() {
        for (at, mark) in text.match_indices("Rust 1.") {
            let digits = |c: char| c.is_ascii_digit();
            let minor = text[at + mark.len()..].split(|c| !digits(c)).next().unwrap_or_default();
            is_named = true;
            if format!("1.{minor}") != wanted {
                let what = format!("Rust 1.{minor}, but Cargo.toml says {wanted:?}");
                say(line + 1, what, "state the rust-version of Cargo.toml");
            }
        }
    }
    if !is_named {
        say(0, "no Rust version".to_owned(), "state the rust-version of Cargo.toml as Rust 1.x");
    }
}

/// Checks that the table under the heading `Map` lists exactly the workspace's crates.
fn crate_map(tree: &Tree, readme: &str, say: &mut impl FnMut(usize, String, &str)) {
    let mut in_map = false;
    let mut listed = Vec::new();
    for (line, text) in readme.lines().enumerate() {
        if text.starts_with('#') {
            in_map = text.trim_start_matches('#').trim() == "Map";
        } else if let Some(row) = text.strip_prefix("| `").filter(|_| in_map) {
            let name = row.split('`').next().unwrap_or_default();
            listed.push(name);
            if !tree.crates.iter().any(|member| member.name == name) {
                say(line + 1, format!("{name} is not a crate of the workspace"), "drop the row");
            }
        }
    }
    for member in tree.crates.iter().filter(|member| !listed.contains(&member.name.as_str())) {
        let what = format!("{} is missing under the heading Map", member.name);
        say(0, what, "add a row: | `crate` | what it is |");
    }
}

/// Checks project paths in backticks or links, in every document about the present.
fn paths(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (document, text) in tree.documents().filter(|(path, _)| *path != "CHANGELOG.md") {
        for (line, text) in text.lines().enumerate() {
            let named = project_paths(text).map(str::to_owned).chain(rooms(tree, text));
            for path in named.filter(|path| !tree.has(path)) {
                let what = format!("there is no {path}");
                found.push(Finding::new(document, line + 1, what, "name the file's new place"));
            }
        }
    }
    found
}

/// Returns paths in backticks with a crate's short name: `core/lru/` for the sources of
/// `pagetide-core`.
fn rooms(tree: &Tree, text: &str) -> impl Iterator<Item = String> {
    let code = text.split('`').skip(1).step_by(2).filter(|code| !code.contains([' ', '*']));
    code.filter_map(|code| {
        let (room, path) = code.split_once('/')?;
        let is_room = |name: &str| {
            name.strip_prefix("pagetide-") == Some(room) || name == "pagetide" && name == room
        };
        let owner = tree.crates.iter().find(|member| is_room(&member.name))?;
        Some(format!("{}/src/{path}", owner.folder))
    })
}

/// Returns the words of `text` that are paths into the project's folders, without patterns
/// (`crates/*`).
fn project_paths(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |c: char| c.is_ascii() && (is_word(c as u8) || "./-*".contains(c));
    let words = text.split(move |c: char| !is_path(c)).map(|word| word.trim_end_matches('.'));
    words.filter(|word| {
        let folders = ["docs/", "crates/", "xtask/", ".ci/"];
        folders.iter().any(|folder| word.starts_with(folder)) && !word.contains('*')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUE_README: &str = "\
Try `cargo run --release -- demo`, check with `cargo x check --fast`. Needs Rust 1.95.
See docs/glossary.md.

## Map
| crate | is |
|---|---|
| `pagetide-cli` | the command |
";

    fn tree(readme: &str) -> Tree {
        Tree::of(&[
            (README, readme),
            ("Cargo.toml", "rust-version = \"1.95\"\n"),
            ("docs/glossary.md", ""),
            ("crates/pagetide-cli/src/main.rs", "enum Command { Demo }\n"),
        ])
        .with_crate("pagetide-cli", &[])
    }

    #[test]
    fn a_true_readme_passes() {
        assert_eq!(facts(&tree(TRUE_README)), []);
        assert_eq!(paths(&tree(TRUE_README)), []);
    }

    #[test]
    fn each_false_fact_is_found() {
        for (fact, lie) in [
            ("-- demo", "-- demon"),
            ("-- demo", "--"),
            ("x check", "x chek"),
            ("1.95", "1.70"),
            ("Rust 1.95", "Rust"),
            ("| `pagetide-cli` |", "| `pagetide-tui` |"),
        ] {
            assert!(!facts(&tree(&TRUE_README.replace(fact, lie))).is_empty(), "{lie}");
        }
        assert_eq!(paths(&tree(&TRUE_README.replace("glossary", "words"))).len(), 1);
    }

    #[test]
    fn rooms_are_found_by_their_crates_short_name() {
        let found = |text: &str| paths(&tree(&format!("{TRUE_README}{text}\n"))).len();
        assert_eq!(found("`cli/main.rs` and `cli/`, `and/or`"), 0);
        assert_eq!(found("`cli/gone.rs`"), 1);
    }

    #[test]
    fn a_missing_crate_is_found() {
        let tree = tree(TRUE_README).with_crate("pagetide-lab", &[]);
        assert_eq!(facts(&tree).len(), 1);
    }
}
