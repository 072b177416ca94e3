//! Checks words in public type names, and type names in the glossary.

use super::names::public_types;
use super::source::{has_word, words_at};
use super::tree::Tree;
use super::{Finding, Rule};

pub(super) const BANNED: Rule = Rule {
    name: "vocabulary",
    why: "a word that fits everything says nothing, and one word with two meanings says less",
    check: banned_words,
    #[cfg(test)]
    canary: || Tree::of(&[("crates/pagetide/src/a.rs", "pub struct FrameManager;\n")]),
};

pub(super) const GLOSSARY: Rule = Rule {
    name: "glossary",
    why: "a glossary that defines a type we do not have teaches a program we do not ship",
    check: glossary,
    #[cfg(test)]
    canary: || Tree::of(&[(GLOSSARY_FILE, "| **page** (`PageNumber`) | contents | | |\n")]),
};

const GLOSSARY_FILE: &str = "docs/glossary.md";

/// Words without meaning in a type's name.
const EMPTY: [(&str, &str); 6] = [
    ("Data", "what the bytes are: Page, Contents, Record"),
    ("Info", "which facts: Stats, Layout, Range"),
    ("Manager", "what it does: Allocator, Reclaim, Zone"),
    ("Util", "the idea its functions share"),
    ("Common", "the idea its users share"),
    ("Helper", "what it helps to do"),
];

/// Words that need another word beside.
const BARE: [(&str, &str); 6] = [
    ("Cache", "PageCache, or the list or log it is"),
    ("Handle", "what it is a handle to: File, PageGuard"),
    ("Size", "Bytes, PageCount, Order"),
    ("Addr", "FrameId, PageId, or an offset with its unit"),
    ("Time", "Nanos, Interval, Deadline"),
    ("Swap", "the store"),
];

fn banned_words(tree: &Tree) -> Vec<Finding> {
    let crates = ["crates/pagetide-core/src/", "crates/pagetide/src/"];
    let ours = tree.sources.iter().filter(|(path, _)| crates.iter().any(|c| path.starts_with(c)));
    let mut found = Vec::new();
    for (path, source) in ours {
        for (line, name) in public_types(source) {
            if let Some((word, instead)) = banned_word(name) {
                let what = format!("the type {name} says {word}");
                found.push(Finding::new(path, line + 1, what, *instead));
            }
        }
    }
    found
}

fn banned_word(name: &str) -> Option<&'static (&'static str, &'static str)> {
    let words = upper_camel_words(name);
    let empty = EMPTY.iter().find(|(banned, _)| {
        words.iter().any(|word| word == banned || word.strip_suffix('s') == Some(banned))
    });
    empty.or_else(|| BARE.iter().find(|(banned, _)| name == *banned))
}

/// Splits `PageCacheStats` into `Page`, `Cache`, `Stats`.
fn upper_camel_words(name: &str) -> Vec<&str> {
    let starts = name.match_indices(|c: char| c.is_ascii_uppercase()).map(|(at, _)| at);
    let mut cuts: Vec<usize> = starts.chain([name.len()]).collect();
    cuts.dedup();
    cuts.windows(2).map(|pair| &name[pair[0]..pair[1]]).collect()
}

fn glossary(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.files.get(GLOSSARY_FILE) else {
        return vec![Finding::new(GLOSSARY_FILE, 0, "there is no glossary", "write one")];
    };
    let mut found = Vec::new();
    for (line, text) in text.lines().enumerate() {
        for name in type_names(text).filter(|name| !defines(tree, name)) {
            let what = format!("no type is called {name}");
            found.push(Finding::new(
                GLOSSARY_FILE,
                line + 1,
                what,
                "name the type as the code does",
            ));
        }
    }
    found
}

/// Returns names in backticks that look like types.
fn type_names(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split('`').skip(1).step_by(2);
    code.filter(|name| {
        name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && name.bytes().any(|byte| byte.is_ascii_lowercase())
    })
}

fn defines(tree: &Tree, name: &str) -> bool {
    let is_definition = |code: &str, at: usize| {
        let before = code[..at].trim_end();
        ["struct", "enum", "trait", "type"].iter().any(|keyword| before.ends_with(keyword))
    };
    let mut all = tree.sources.values().filter(|source| has_word(&source.code, name));
    all.any(|source| words_at(&source.code, name).any(|at| is_definition(&source.code, at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nr_banned(code: &str) -> usize {
        banned_words(&Tree::of(&[("crates/pagetide-core/src/a.rs", code)])).len()
    }

    #[test]
    fn empty_words_are_banned_anywhere_and_wide_ones_alone() {
        assert_eq!(nr_banned("pub struct FrameInfo {\n    pub trait Utils {}\n"), 2);
        assert_eq!(nr_banned("pub struct Cache(u8);\npub type Size<T> = T;\n"), 2);
        assert_eq!(nr_banned("pub struct CacheStats;\npub struct Database;\nstruct Helper;\n"), 0);
    }

    #[test]
    fn the_glossary_may_only_name_types_we_have() {
        let text = "| **page** (`PageId`, `NUMA`, `pcp`) | `PAGEMAP_SCAN` |\n";
        let tree = |code| Tree::of(&[(GLOSSARY_FILE, text), ("src/ids.rs", code)]);
        assert!(glossary(&tree("pub struct PageId(u32);\n")).is_empty());
        assert_eq!(glossary(&tree("fn a(b: PageId) {}\n")).len(), 1);
    }
}
