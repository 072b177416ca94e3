//! Banned code, each with its replacement.

use super::source::{Source, is_word};
use super::tree::Tree;
use super::{Finding, Rule};

pub(super) const CODE: Rule = Rule {
    name: "banned-code",
    why: "stubs, left-over prints, silent skips and unexplained panics look finished and are not",
    check: banned_code,
    #[cfg(test)]
    canary: || Tree::of(&[("src/a.rs", "#[ignore = \"slow\"]\nfn a() {}\n")]),
};

pub(super) const SLEEP: Rule = Rule {
    name: "no-sleeping-tests",
    why: "a test that sleeps is slow on a quick machine and wrong on a slow one",
    check: sleeping_tests,
    #[cfg(test)]
    canary: || Tree::of(&[("crates/a/tests/b.rs", "fn a() { std::thread::sleep(b); }\n")]),
};

pub(super) const COMMENTED_OUT: Rule = Rule {
    name: "commented-out-code",
    why: "it is not compiled and not deleted either; the history keeps it already",
    check: commented_out,
    #[cfg(test)]
    canary: || Tree::of(&[("src/a.rs", "// let frame = pool.take();\n")]),
};

struct Ban {
    code: &'static str,
    is_fine_in_tests: bool,
    instead: &'static str,
}

const BANS: [Ban; 5] = [
    Ban {
        code: "#[ignore",
        is_fine_in_tests: false,
        instead: "print `SKIPPED: <test>: <why>` and return, where a machine cannot run it",
    },
    Ban { code: "todo!", is_fine_in_tests: false, instead: "write it, or leave the item out" },
    Ban {
        code: "unimplemented!",
        is_fine_in_tests: false,
        instead: "write it, or leave the item out",
    },
    Ban { code: "dbg!", is_fine_in_tests: false, instead: "a counter, or an assertion message" },
    Ban {
        code: ".unwrap()",
        is_fine_in_tests: true,
        instead: "return the error, or .expect(\"...\") the invariant that rules it out",
    },
];

fn banned_code(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, source) in &tree.sources {
        for (line, code) in source.code_lines() {
            for ban in &BANS {
                let is_let_off = ban.is_fine_in_tests && source.is_test_line(line);
                if !is_let_off && contains_whole(code, ban.code) {
                    found.push(Finding::new(path, line + 1, ban.code, ban.instead));
                }
            }
        }
    }
    found
}

/// Returns true if `code` has `wanted`, not as the end of a longer name.
fn contains_whole(code: &str, wanted: &str) -> bool {
    let starts_name = wanted.bytes().next().is_some_and(is_word);
    code.match_indices(wanted)
        .any(|(at, _)| !starts_name || at == 0 || !is_word(code.as_bytes()[at - 1]))
}

fn sleeping_tests(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, source) in &tree.sources {
        for (line, code) in source.code_lines() {
            if source.is_test_line(line) && code.contains("thread::sleep") {
                let instead =
                    "wait for the event: a channel, a barrier, a counter, or virtual time";
                found.push(Finding::new(path, line + 1, "a test sleeps", instead));
            }
        }
    }
    found
}

fn commented_out(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, source) in &tree.sources {
        for line in commented_out_lines(source) {
            let instead = "delete it, or say in words what it was meant to say";
            found.push(Finding::new(path, line + 1, "code in a comment", instead));
        }
    }
    found
}

fn commented_out_lines(source: &Source) -> impl Iterator<Item = usize> {
    let lines = source.comments.lines().enumerate();
    let plain = lines.filter_map(|(line, text)| Some((line, text.trim().strip_prefix("//")?)));
    // Doc comments may show code.
    let plain = plain.filter(|(_, text)| !text.starts_with(['/', '!']));
    plain.filter(|(_, text)| looks_like_code(text.trim())).map(|(line, _)| line)
}

/// Matches statements only. Prose may begin or end like one, so both ends must match.
fn looks_like_code(text: &str) -> bool {
    let ends_statement = text.ends_with(';');
    let opens_block = text.ends_with('{');
    let is =
        |start: &str, part: &str| text.starts_with(start) && text[start.len()..].contains(part);
    let statement = is("let ", " = ") || is("use ", "::") || is("self.", "(") || is("assert", "!(");
    let block = is("fn ", "(") || is("if ", "") || is("for ", " in ") || is("match ", "");
    (ends_statement && statement) || (opens_block && (statement || block || is("pub ", " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nr_banned(text: &str) -> usize {
        banned_code(&Tree::of(&[("src/a.rs", text)])).len()
    }

    #[test]
    fn each_ban_bites() {
        for ban in &BANS {
            assert_eq!(nr_banned(&format!("fn a() {{ {} }}\n", ban.code)), 1, "{}", ban.code);
        }
    }

    #[test]
    fn strings_longer_names_and_tests_are_let_off() {
        assert_eq!(nr_banned("const A: &str = \"todo!()\"; // dbg!(a)\n"), 0);
        assert_eq!(nr_banned("my_dbg!(a);\n"), 0);
        assert_eq!(nr_banned("#[cfg(test)]\nmod tests { fn a() { b().unwrap() } }\n"), 0);
    }

    #[test]
    fn only_tests_may_not_sleep() {
        let text = "fn a() { std::thread::sleep(b); }\n";
        assert!(sleeping_tests(&Tree::of(&[("src/a.rs", text)])).is_empty());
    }

    #[test]
    fn prose_is_not_code() {
        for prose in ["let the caller wait;", "use the first;", "for each page, two marks {a, b}"] {
            assert!(!looks_like_code(prose), "{prose}");
        }
        for code in ["if dirty {", "use std::fs;", "fn a() {", "assert!(a);", "let a = b;"] {
            assert!(looks_like_code(code), "{code}");
        }
        let doc = Tree::of(&[("src/a.rs", "/// let a = b;\n")]);
        assert!(commented_out(&doc).is_empty());
    }
}
