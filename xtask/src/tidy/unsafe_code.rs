//! Where `unsafe` may stand, and what must stand beside it.

use super::source::{has_word, is_word};
use super::tree::Tree;
use super::{Finding, Rule};
use std::collections::BTreeSet;

pub(super) const LIVES_IN_SYS: Rule = Rule {
    name: "unsafe-lives-in-sys",
    why: "one crate to audit: a wrong decision elsewhere may waste memory but not corrupt it",
    check: lives_in_sys,
    #[cfg(test)]
    canary: || Tree::of(&[("crates/pagetide/src/a.rs", "fn a() { unsafe { b() } }\n")]),
};

pub(super) const LOCKED_OUT: Rule = Rule {
    name: "unsafe-locked-out",
    why: "rustc, not a search for a word, is what keeps unsafe out of the crates that need none",
    check: locked_out,
    #[cfg(test)]
    canary: || Tree::of(&[("crates/pagetide-core/src/lib.rs", "")]),
};

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

const SYS: &str = "crates/pagetide-sys/";
/// A shim in C's place: every function of it takes C's arguments.
const PRELOAD: &str = "crates/pagetide-preload/";
/// The C door, likewise.
const CAPI: &str = "crates/pagetide-capi/";
const SOUNDNESS: &str = "docs/soundness.md";

/// The crate roots that lock unsafe out, and how firmly.
const LOCKS: [(&str, &str); 7] = [
    ("crates/pagetide-core/src/lib.rs", "#![forbid(unsafe_code)]"),
    ("crates/pagetide-lab/src/lib.rs", "#![forbid(unsafe_code)]"),
    ("crates/pagetide-cli/src/main.rs", "#![forbid(unsafe_code)]"),
    ("crates/pagetide-tune/src/main.rs", "#![forbid(unsafe_code)]"),
    ("crates/pagetide/src/lib.rs", "#![deny(unsafe_code)]"),
    ("crates/pagetide-py/src/lib.rs", "#![deny(unsafe_code)]"),
    ("xtask/src/main.rs", "#![forbid(unsafe_code)]"),
];

fn may_be_unsafe(path: &str) -> bool {
    [SYS, PRELOAD, CAPI].iter().any(|room| path.starts_with(room)) || path.ends_with("/ffi.rs")
}

fn lives_in_sys(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, source) in tree.sources.iter().filter(|(path, _)| !may_be_unsafe(path)) {
        for (line, code) in source.code_lines() {
            if has_word(code, "unsafe") {
                let instead = "move the operation behind a safe function of pagetide-sys";
                found.push(Finding::new(path, line + 1, "unsafe code", instead));
            }
        }
    }
    found
}

fn locked_out(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, lock) in LOCKS {
        let Some(source) = tree.sources.get(path) else { continue };
        if !source.code.contains(lock) {
            found.push(Finding::new(
                path,
                1,
                "unsafe code is not locked out",
                format!("add {lock}"),
            ));
        }
    }
    found
}

fn says_why(tree: &Tree) -> Vec<Finding> {
    let Some(soundness) = tree.files.get(SOUNDNESS) else {
        let instead = "write it: claim, what is trusted, invariants S1 to Sn";
        return vec![Finding::new(SOUNDNESS, 0, "there is no list of invariants", instead)];
    };
    let mut found = listed_twice(soundness);
    for (path, source) in tree.sources.iter().filter(|(path, _)| may_be_unsafe(path)) {
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

/// Numbers that two invariants have: a comment that cites one could mean either.
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

/// The words of the form S12 in `text`.
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
    fn sys_and_shims_may_be_unsafe() {
        let text = "fn a() { unsafe { b() } }\n";
        let paths =
            [("crates/pagetide-sys/src/a.rs", text), ("crates/pagetide-capi/src/page.rs", text)];
        assert!(lives_in_sys(&Tree::of(&paths)).is_empty());
        let attribute = "#![forbid(unsafe_code)] // unsafe\n";
        assert!(lives_in_sys(&Tree::of(&[("crates/pagetide/src/a.rs", attribute)])).is_empty());
    }

    #[test]
    fn a_lock_in_a_comment_locks_nothing() {
        let path = "crates/pagetide/src/lib.rs";
        assert_eq!(locked_out(&Tree::of(&[(path, "// #![deny(unsafe_code)]\n")])).len(), 1);
        assert!(locked_out(&Tree::of(&[(path, "#![deny(unsafe_code)]\n")])).is_empty());
    }

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
