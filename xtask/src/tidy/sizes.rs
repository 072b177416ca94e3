//! The size limit of functions.

use super::source::words_at;
use super::tree::Tree;
use super::{Finding, Rule};

pub(super) const FUNCTION: Rule = Rule {
    name: "function-size",
    why: "a function past one screen mixes deciding with doing",
    check: functions,
    #[cfg(test)]
    canary: || {
        let body = "    b();\n".repeat(FUNCTION_LINES_MAX);
        Tree::of(&[("src/a.rs", &format!("fn a() {{\n{body}}}\n"))])
    },
};

const FUNCTION_LINES_MAX: usize = 70;

fn functions(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, source) in &tree.sources {
        for at in words_at(&source.code, "fn") {
            let first = source.line_of(at);
            // `fn(u32)` is a type. Only a named function has a body.
            let is_named = source.code[at + 2..].trim_start().starts_with(|c: char| c != '(');
            let Some(body) = source.body_after(at).filter(|_| is_named) else { continue };
            let nr_lines = source.line_of(body.end) - first + 1;
            if nr_lines > FUNCTION_LINES_MAX && !source.is_test_line(first) {
                let what =
                    format!("a function of {nr_lines} lines, more than {FUNCTION_LINES_MAX}");
                let instead = "the parent decides, leaves compute: move leaves out";
                found.push(Finding::new(path, first + 1, what, instead));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_lines_count_from_the_signature_to_the_brace() {
        let function = |nr_lines: usize| {
            let body = "    b(\"}\");\n".repeat(nr_lines - 3);
            format!("fn a(\n    x: [u8; 3]) {{\n{body}}}\n")
        };
        let check = |text: &str| functions(&Tree::of(&[("src/a.rs", text)])).len();
        assert_eq!(check(&function(FUNCTION_LINES_MAX)), 0);
        assert_eq!(check(&function(FUNCTION_LINES_MAX + 1)), 1);
    }

    #[test]
    fn declarations_and_function_types_have_no_lines() {
        let long = "    b();\n".repeat(100);
        let text =
            format!("trait A {{ fn a(&self); }}\nstatic F: fn(u32) = c;\nmod m {{\n{long}}}\n");
        assert!(functions(&Tree::of(&[("src/a.rs", &text)])).is_empty());
    }
}
