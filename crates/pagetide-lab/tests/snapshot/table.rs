//! Snapshot rows in a text file.
//!
//! ```text
//!   what            policy  switches  frames  hits   evictions         counters
//!   limit/mixed     mglru   ~tiers    96      1402   6f0c1e0b2d9a4471  e3a1...
//!   ^ the key, up to here                     ^ the outcome: `-` if unknown
//! ```
//!
//! With `PAGETIDE_SNAPSHOT=write` the file is rewritten and the test passes. Otherwise a changed,
//! missing or new row fails the test.

use crate::digest::Digest;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    /// The run, without spaces.
    pub(crate) what: String,
    pub(crate) policy: String,
    /// Flipped switches, or `-`.
    pub(crate) switches: String,
    pub(crate) frames: u32,
    pub(crate) hits: Option<u64>,
    /// Digest of the evicted pages, in order.
    pub(crate) evictions: Option<Digest>,
    pub(crate) counters: Digest,
}

impl Row {
    fn key(&self) -> String {
        let Row { what, policy, switches, frames, .. } = self;
        format!("{what} {policy} {switches} {frames}")
    }

    fn outcome(&self) -> String {
        let text = |value: Option<&dyn fmt::Display>| {
            value.map_or_else(|| "-".to_owned(), |value| value.to_string())
        };
        let hits = text(self.hits.as_ref().map(|it| it as &dyn fmt::Display));
        let evictions = text(self.evictions.as_ref().map(|it| it as &dyn fmt::Display));
        format!("{hits} {evictions} {}", self.counters)
    }
}

/// Compares with the file `name`, or writes it.
pub(crate) fn check(name: &str, rows: &[Row]) {
    check_part(name, rows, |_| true);
}

/// Compares only the file's rows with a known run.
pub(crate) fn check_part(name: &str, rows: &[Row], is_known: impl Fn(&str) -> bool) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshot/{name}.txt"));
    let now: BTreeMap<String, String> = rows.iter().map(|row| (row.key(), row.outcome())).collect();
    assert_eq!(now.len(), rows.len(), "two rows have one key");
    if std::env::var_os("PAGETIDE_SNAPSHOT").is_some_and(|value| value == "write") {
        let lines: String =
            rows.iter().map(|it| format!("{} {}\n", it.key(), it.outcome())).collect();
        std::fs::write(&path, lines).expect("the folder can be written");
        return;
    }
    let text = std::fs::read_to_string(&path).expect("the rows are beside the test");
    let before = parse(&text);
    let before =
        before.into_iter().filter(|(key, _)| is_known(key.split(' ').next().expect("one")));
    let moved = differences(&before.collect(), &now);
    let first = moved.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(
        moved.is_empty(),
        "{} of {} rows moved (hits, evictions, counters):\n{first}",
        moved.len(),
        now.len()
    );
}

fn parse(text: &str) -> BTreeMap<String, String> {
    let split = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let (key, outcome) = words.split_at(4);
        (key.join(" "), outcome.join(" "))
    };
    text.lines().map(split).collect()
}

fn differences(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let none = "no such row".to_owned();
    let keys = before.keys().chain(now.keys().filter(|key| !before.contains_key(*key)));
    let both =
        keys.map(|key| (key, before.get(key).unwrap_or(&none), now.get(key).unwrap_or(&none)));
    both.filter(|(_, was, is)| was != is)
        .map(|(key, was, is)| format!("  {key}: was {was}, is {is}"))
        .collect()
}

#[test]
fn a_row_that_moves_goes_or_comes_is_a_difference() {
    let table = |text: &str| parse(text);
    let before = table("limit/loop lru - 96 1 2 3\nlimit/loop lru - 97 1 2 3\n");
    assert!(differences(&before, &before).is_empty());
    let moved = table("limit/loop lru - 96 1 2 4\nlimit/loop lru - 98 1 2 3\n");
    let expected = [
        "  limit/loop lru - 96: was 1 2 3, is 1 2 4",
        "  limit/loop lru - 97: was 1 2 3, is no such row",
        "  limit/loop lru - 98: was no such row, is 1 2 3",
    ];
    assert_eq!(differences(&before, &moved), expected);
}
