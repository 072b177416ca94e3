//! House rules that a machine can check.
//!
//! Prose drifts: a README names a removed command, or a comment cites a renumbered invariant. A
//! rule is a function from a [`Tree`] (every file, and the crates) to findings:
//!
//! ```text
//! files, cargo metadata --> Tree --> rule, rule, rule --> file:line: problem, reason, remedy
//! canary (an example that must fail) ---^
//! ```
//!
//! Every rule has a canary, and one test runs all.
//!
//! Deliberately ignored: checks of rustc, clippy and rustfmt, and matters of taste.

mod arrows;
mod bans;
mod circles;
mod layout;
mod links;
mod manifests;
mod names;
mod readme;
mod results;
mod sizes;
mod source;
mod text;
mod tree;
mod unsafe_code;
mod vocabulary;

use std::fmt::Write as _;
use std::path::Path;

use tree::Tree;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    file: String,
    /// From 1, or 0 for the whole file.
    line: usize,
    what: String,
    instead: String,
}

impl Finding {
    fn new(file: &str, line: usize, what: impl Into<String>, instead: impl Into<String>) -> Self {
        Finding { file: file.to_owned(), line, what: what.into(), instead: instead.into() }
    }
}

struct Rule {
    name: &'static str,
    why: &'static str,
    check: fn(&Tree) -> Vec<Finding>,
    /// A minimal tree that breaks the rule.
    #[cfg(test)]
    canary: fn() -> Tree,
}

const RULES: [Rule; 19] = [
    arrows::RULE,
    circles::RULE,
    layout::RULE,
    names::RULE,
    unsafe_code::SAYS_WHY,
    sizes::FUNCTION,
    text::ASCII,
    text::LINE_LENGTH,
    text::MACHINE_PATH,
    bans::CODE,
    bans::SLEEP,
    bans::COMMENTED_OUT,
    links::RULE,
    manifests::RULE,
    readme::FACTS,
    readme::PATHS,
    results::RULE,
    vocabulary::BANNED,
    vocabulary::GLOSSARY,
];

/// Returns the violations in the tree at `root` as text, empty if there are none.
///
/// # Errors
/// Returns the reason as text if the tree cannot be read.
pub(crate) fn report(root: &Path) -> Result<String, String> {
    let tree = Tree::read(root)?;
    let mut report = String::new();
    for rule in &RULES {
        for found in (rule.check)(&tree) {
            let Finding { file, line, what, instead } = found;
            let (name, why) = (rule.name, rule.why);
            writeln!(report, "{file}:{line}: {name}: {what}\n    why: {why}\n    do:  {instead}")
                .expect("writing to a String cannot fail");
        }
    }
    Ok(report)
}

pub(crate) fn run(root: &Path) -> bool {
    match report(root) {
        Ok(report) if report.is_empty() => {
            println!("tidy: {} rules kept", RULES.len());
            true
        }
        Ok(report) | Err(report) => {
            eprint!("{report}");
            false
        }
    }
}

pub(crate) fn list() {
    for rule in &RULES {
        println!("{:<22} {}", rule.name, rule.why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_finds_its_canary() {
        for rule in &RULES {
            let found = (rule.check)(&(rule.canary)());
            assert!(!found.is_empty(), "{} does not see its own bad example", rule.name);
        }
    }

    #[test]
    fn rules_have_names_and_reasons_of_one_line() {
        for (place, rule) in RULES.iter().enumerate() {
            assert!(!rule.why.contains('\n') && rule.why.len() > 20, "{}", rule.name);
            assert!(RULES[..place].iter().all(|other| other.name != rule.name), "{}", rule.name);
        }
    }
}
