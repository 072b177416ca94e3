//! Splits a Rust file into code, comments, and test lines.
//!
//! Rules look for words in code or in comments. Each file has two copies with the same lines and
//! columns: one with only code, one with only comments, and spaces for the rest:
//!
//! ```text
//! text      let a = "x"; // why
//! code      let a = " ";
//! comments               // why
//! ```
//!
//! Not a parser: macros and attributes are text, and braces must balance, as rustc checks.

use std::ops::Range;

/// One Rust file, split. Lines count from 0 here, and from 1 in findings.
#[derive(Debug)]
pub(super) struct Source {
    /// Code, with comments and the contents of literals as spaces.
    pub(super) code: String,
    /// Comments, with everything else as spaces.
    pub(super) comments: String,
    /// By line: in a test module or a test file.
    is_test: Vec<bool>,
    /// Test modules in separate files: `#[cfg(test)] mod name;`.
    pub(super) test_modules: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Source {
        let bytes = text.as_bytes();
        let mut code = Vec::with_capacity(bytes.len());
        let mut comments = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while at < bytes.len() {
            let (kind, length) = stretch(bytes, at);
            for &byte in &bytes[at..at + length] {
                let keep = |wanted| if kind == wanted || byte == b'\n' { byte } else { b' ' };
                let ascii = |byte: u8| if byte.is_ascii() { byte } else { b'?' };
                code.push(ascii(keep(Kind::Code)));
                comments.push(ascii(keep(Kind::Comment)));
            }
            at += length;
        }
        let into_text = |bytes| String::from_utf8(bytes).expect("only ASCII was pushed");
        let (code, comments) = (into_text(code), into_text(comments));
        let (is_test, test_modules) = test_parts(path, &code);
        Source { code, comments, is_test, test_modules }
    }

    /// Marks the whole file as a test, after its declaration by the parent module.
    pub(super) fn mark_as_test(&mut self) {
        self.is_test.fill(true);
    }

    pub(super) fn is_test_line(&self, line: usize) -> bool {
        self.is_test.get(line).copied().unwrap_or(false)
    }

    pub(super) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().enumerate()
    }

    pub(super) fn line_of(&self, at: usize) -> usize {
        self.code[..at].bytes().filter(|&byte| byte == b'\n').count()
    }

    /// Returns the first braces opened after `at`, or `None` if a `;` ends the item before.
    pub(super) fn body_after(&self, at: usize) -> Option<Range<usize>> {
        let mut nested = 0;
        for (offset, byte) in self.code.bytes().enumerate().skip(at) {
            match byte {
                b'(' | b'[' => nested += 1,
                b')' | b']' => nested -= 1,
                b';' if nested == 0 => return None,
                b'{' if nested == 0 => return Some(offset..closing_brace(&self.code, offset)),
                _ => {}
            }
        }
        None
    }
}

/// Returns the offset after the brace that closes the one at `open`.
fn closing_brace(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return offset + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// Returns the kind and length (at least 1) of the part at `at`.
fn stretch(bytes: &[u8], at: usize) -> (Kind, usize) {
    let rest = &bytes[at..];
    let follows_word = at > 0 && is_word(bytes[at - 1]);
    match rest {
        [b'/', b'/', ..] => (Kind::Comment, find(rest, b"\n")),
        [b'/', b'*', ..] => (Kind::Comment, block_comment(rest)),
        [b'"', ..] => (Kind::Literal, quoted(rest, b'"')),
        [b'\'', ..] => character(rest),
        [b'r', b'"' | b'#', ..] if !follows_word => raw_string(rest, 1),
        [b'b' | b'c', b'r', b'"' | b'#', ..] if !follows_word => raw_string(rest, 2),
        _ => (Kind::Code, 1),
    }
}

pub(super) fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

fn find(bytes: &[u8], end: &[u8]) -> usize {
    bytes.windows(end.len()).position(|window| window == end).unwrap_or(bytes.len())
}

fn block_comment(bytes: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the length of a literal in `quote`s, with backslash escapes.
fn quoted(bytes: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Reads a character literal, or the quote of a lifetime.
fn character(bytes: &[u8]) -> (Kind, usize) {
    let is_literal = match bytes {
        [_, b'\\', ..] => true,
        // One character of one to four bytes, then a quote.
        [_, first, ..] if !first.is_ascii() => true,
        [_, _, b'\'', ..] => true,
        _ => false,
    };
    if is_literal { (Kind::Literal, quoted(bytes, b'\'')) } else { (Kind::Code, 1) }
}

/// Reads a raw string with hashes from `hashes`, or a raw name such as `r#type`.
fn raw_string(bytes: &[u8], hashes: usize) -> (Kind, usize) {
    let nr_hashes = bytes[hashes..].iter().take_while(|&&byte| byte == b'#').count();
    let open = hashes + nr_hashes;
    if bytes.get(open) != Some(&b'"') {
        return (Kind::Code, 1);
    }
    let end = [b"\"", &b"#".repeat(nr_hashes)[..]].concat();
    let length = open + 1 + find(&bytes[open + 1..], &end) + end.len();
    (Kind::Literal, length.min(bytes.len()))
}

fn is_test_file(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    let folders = format!("/{path}");
    file == "tests.rs"
        || file.ends_with("_tests.rs")
        || ["/tests/", "/benches/", "/fuzz/"].iter().any(|folder| folders.contains(folder))
}

fn test_parts(path: &str, code: &str) -> (Vec<bool>, Vec<String>) {
    let line = |at: usize| code[..at.min(code.len())].matches('\n').count();
    let nr_lines = code.lines().count();
    let mut is_test = vec![is_test_file(path); nr_lines];
    let mut modules = Vec::new();
    let mut from = 0;
    while let Some(found) = code[from..].find("#[cfg(") {
        let start = from + found;
        let end = start + find(&code.as_bytes()[start..], b"]");
        from = end;
        if has_word(&code[start..end], "test") && !code[start..end].contains("not(test") {
            // The item under the attribute, up to its closing brace or its semicolon.
            let item = end + find(&code.as_bytes()[end..], b"{").min(semicolon(&code[end..]));
            let has_body = code[item..].starts_with('{');
            let stop = if has_body { closing_brace(code, item) } else { item };
            is_test[line(start)..=line(stop).min(nr_lines - 1)].fill(true);
            let declared = code[end..item].rsplit_once("mod ").filter(|_| !has_body);
            modules.extend(declared.map(|(_, name)| name.trim().to_owned()));
            from = stop;
        }
    }
    (is_test, modules)
}

fn semicolon(code: &str) -> usize {
    code.find(';').unwrap_or(code.len())
}

pub(super) fn has_word(text: &str, word: &str) -> bool {
    words_at(text, word).next().is_some()
}

/// Returns the offsets of `word` in `text` as a whole word.
pub(super) fn words_at<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = text.as_bytes();
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let is_free = |neighbour: Option<&u8>| !neighbour.copied().is_some_and(is_word);
        is_free(at.checked_sub(1).and_then(|at| bytes.get(at)))
            && is_free(bytes.get(at + word.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new("a.rs", text).code
    }

    #[test]
    fn literals_and_comments_are_not_code() {
        let blanks = |n| " ".repeat(n);
        assert_eq!(code("a \"b\\\"c\" d"), format!("a{}d", blanks(8)));
        assert_eq!(code("a // b\nc"), format!("a{}\nc", blanks(5)));
        assert_eq!(code("a /* b /* c */ d */ e"), format!("a{}e", blanks(19)));
        assert_eq!(code("r#\"a\"b\"# c").trim(), "c");
        assert_eq!(code("br\"a\" c").trim(), "c");
        assert_eq!(code("r#type"), "r#type");
    }

    #[test]
    fn lifetimes_are_code_and_characters_are_not() {
        assert_eq!(code("&'a str"), "&'a str");
        assert_eq!(code("['a', '\\'', '\"', '\u{e9}'] x").replace(' ', ""), "[,,,]x");
    }

    #[test]
    fn comments_keep_their_place() {
        let source = Source::new("a.rs", "a // b\n\"// c\"");
        assert_eq!(source.comments, "  // b\n      ");
    }

    #[test]
    fn modules_of_tests_are_found_by_their_braces() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let source = Source::new("src/a.rs", text);
        let tests: Vec<bool> = (0..6).map(|line| source.is_test_line(line)).collect();
        assert_eq!(tests, [false, true, true, true, true, false]);
    }

    #[test]
    fn a_test_module_in_another_file_ends_at_its_semicolon() {
        let source = Source::new("a.rs", "#[cfg(all(loom, test))]\nmod tests;\nfn a() {}\n");
        assert!(source.is_test_line(1) && !source.is_test_line(2));
        assert_eq!(source.test_modules, ["tests"]);
        let source = Source::new("a.rs", "#[cfg(not(test))]\nfn a() {}\n");
        assert!(!source.is_test_line(1));
    }

    #[test]
    fn files_are_tests_by_their_place() {
        for path in ["crates/a/tests/b.rs", "src/tests.rs", "src/list/tests.rs", "a/benches/b.rs"] {
            assert!(is_test_file(path), "{path}");
        }
        assert!(!is_test_file("src/contests.rs"));
    }
}
