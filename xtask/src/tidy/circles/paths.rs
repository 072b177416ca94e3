//! The paths in a file: in `use` lines, and in code.
//!
//! ```text
//! use super::{page::Page, word as w};    super::page::Page as Page, super::word as w
//! crate::lru::build(w::State::Free)      crate::lru::build, w::State::Free
//! ```
//!
//! Deliberately ignored: macro output, and the names that a `*` brings in.

use std::ops::Range;

use super::super::source::{Source, is_word, words_at};

/// A path and its line, from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) line: usize,
    /// Offset in the code.
    pub(super) at: usize,
    pub(super) segments: Vec<String>,
    /// The name given by a `use`. `None` for a path in code.
    pub(super) name: Option<String>,
}

pub(super) fn paths(source: &Source) -> Vec<Path> {
    let uses = uses(&source.code);
    let mut found = Vec::new();
    for range in &uses {
        let mut tree = UseTree { code: &source.code, at: range.start, end: range.end };
        tree.read(&mut Vec::new(), &mut found);
    }
    in_code(&source.code, &uses, &mut found);
    let mut line = Lines::of(&source.code);
    found.sort_by_key(|path| path.at);
    for path in &mut found {
        path.line = line.at(path.at);
    }
    found.retain(|path| !source.is_test_line(path.line));
    found
}

fn uses(code: &str) -> Vec<Range<usize>> {
    let starts = words_at(code, "use").map(|at| at + "use".len());
    // `impl Trait + use<'a>` is no import.
    let imports = starts.filter(|&at| code[at..].starts_with([' ', '\n']));
    imports.map(|at| at..code[at..].find(';').map_or(code.len(), |length| at + length)).collect()
}

struct UseTree<'a> {
    code: &'a str,
    at: usize,
    end: usize,
}

impl UseTree<'_> {
    /// Reads one path and its final braces, below `prefix`.
    fn read(&mut self, prefix: &mut Vec<String>, found: &mut Vec<Path>) {
        let depth = prefix.len();
        self.skip_space();
        let start = self.at;
        loop {
            self.skip_space();
            match self.code.as_bytes().get(self.at).filter(|_| self.at < self.end) {
                Some(b'{') => return self.read_braces(prefix, depth, found),
                Some(b'*') => {
                    self.at += 1;
                    found.push(Path { line: 0, at: start, segments: prefix.clone(), name: None });
                    break;
                }
                Some(b':') => self.at += 1,
                Some(&byte) if is_word(byte) => {
                    let word = self.word();
                    prefix.push(word);
                    if !self.code[self.at..self.end].starts_with("::") {
                        found.push(self.named(prefix, start));
                        break;
                    }
                }
                _ => break,
            }
        }
        prefix.truncate(depth);
    }

    fn read_braces(&mut self, prefix: &mut Vec<String>, depth: usize, found: &mut Vec<Path>) {
        loop {
            // Past the brace or the comma.
            self.at += 1;
            self.read(prefix, found);
            self.skip_space();
            if !self.code[self.at..self.end].starts_with(',') {
                break;
            }
        }
        self.at += 1;
        prefix.truncate(depth);
    }

    /// Returns the last path, under its own name or the one after `as`.
    fn named(&mut self, segments: &[String], at: usize) -> Path {
        let mut segments = segments.to_vec();
        if segments.last().is_some_and(|last| last == "self") && segments.len() > 1 {
            segments.pop();
        }
        self.skip_space();
        let mut name = segments.last().cloned();
        if self.code[self.at..self.end].starts_with("as ") {
            self.at += "as ".len();
            self.skip_space();
            name = Some(self.word());
        }
        Path { line: 0, at, segments, name }
    }

    fn word(&mut self) -> String {
        let rest = &self.code[self.at..self.end];
        let length = rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len());
        self.at += length;
        rest[..length].to_owned()
    }

    fn skip_space(&mut self) {
        let rest = &self.code[self.at..self.end];
        self.at += rest.len() - rest.trim_start().len();
    }
}

/// Collects every `a::b` outside the `use` lines.
fn in_code(code: &str, uses: &[Range<usize>], found: &mut Vec<Path>) {
    let bytes = code.as_bytes();
    let mut past = 0;
    for (separator, _) in code.match_indices("::") {
        let length = bytes[..separator].iter().rev().take_while(|byte| is_word(**byte)).count();
        let start = separator - length;
        let is_import = uses.iter().any(|range| range.contains(&separator));
        // `pub(in crate::lru)` is a visibility, and uses nothing.
        let is_visibility = code[..start].ends_with("pub(in ");
        if start < past || length == 0 || is_import || is_visibility {
            continue;
        }
        let rest = &code[start..];
        let is_path = |byte| is_word(byte) || byte == b':';
        let length = rest.bytes().position(|byte| !is_path(byte)).unwrap_or(rest.len());
        past = start + length;
        let words = rest[..length].split("::").filter(|word| !word.is_empty());
        let segments = words.map(str::to_owned).collect();
        found.push(Path { line: 0, at: start, segments, name: None });
    }
}

/// Turns ascending offsets into lines.
struct Lines<'a> {
    code: &'a str,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    fn of(code: &str) -> Lines<'_> {
        Lines { code, at: 0, line: 0 }
    }

    fn at(&mut self, at: usize) -> usize {
        self.line += self.code[self.at..at].bytes().filter(|&byte| byte == b'\n').count();
        self.at = at;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Vec<String> {
        let found = paths(&Source::new("src/a.rs", text));
        let text = |path: &Path| match &path.name {
            Some(name) => format!("{} = {name}", path.segments.join("::")),
            None => path.segments.join("::"),
        };
        found.iter().map(text).collect()
    }

    #[test]
    fn a_use_line_is_one_path_a_name() {
        let text = "use super::{a::{self, B}, c as d,\n    e::*,\n};\npub(crate) use x::Y;\n";
        let wanted = ["super::a = a", "super::a::B = B", "super::c = d", "super::e", "x::Y = Y"];
        assert_eq!(named(text), wanted);
        assert_eq!(named("use ::std::fmt as _;"), ["std::fmt = _"]);
    }

    #[test]
    fn code_names_paths_too() {
        let text = "fn f(a: &crate::lru::Lru) -> b::C<super::D> { E::<F>::new(g) }\n";
        assert_eq!(named(text), ["crate::lru::Lru", "b::C", "super::D", "E"]);
        assert_eq!(named("pub(in crate::lru) fn f() -> impl A + use<'a> {}\n"), [""; 0]);
    }

    #[test]
    fn tests_are_left_out() {
        let text = "use a::B;\n#[cfg(test)]\nmod tests {\n    use super::C;\n}\n";
        assert_eq!(named(text), ["a::B = B"]);
    }
}
