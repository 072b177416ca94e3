//! Tests of the documents from synthetic rows.

use super::*;

fn row(commit: &str, case: &str, more: &str) -> String {
    format!(
        "{{\"command\":\"pagetide bench {case}\",\"commit\":\"{commit}\",\"machine\":\"a machine\",\
         \"case\":\"{case}\",\"subject\":\"lru\",\"unit\":\"ns\",\"runs\":3,\"median\":504.12,\
         \"min\":500.0,\"max\":1510.5{more}}}\n"
    )
}

const AGAINST: &str = ",\"reference\":\"memcpy\",\"reference_median\":414.5,\"ratio\":0.822,\
                       \"ratio_min\":0.79,\"ratio_max\":0.87";

fn files(texts: &[(&str, String)]) -> BTreeMap<String, String> {
    texts.iter().map(|(path, text)| ((*path).to_owned(), text.clone())).collect()
}

#[test]
fn rows_become_a_table_a_section_and_notes_are_linked_to() {
    let rows = row("abc", "hit", AGAINST) + &row("abc", "miss", "");
    let notes = "## Not by a command\n\nAn old figure (commit 123).\n".to_owned();
    let files = files(&[("results/cache.jsonl", rows), ("results/notes.md", notes)]);
    let text = document(&files).expect("they belong together").expect("there are rows");
    for part in [
        "`pagetide bench hit`,\n`pagetide bench miss`, at abc, on a machine.\n",
        "| case | `lru`, ns | against |\n|---|---|---|\n",
        "| hit | 504.1 (500-1510) | memcpy 414.5: 0.82 (0.79-0.87) |\n",
        "| miss | 504.1 (500-1510) |  |\n",
        "## The demo\n",
        "Not measured.",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    assert!(text.ends_with("[notes.md](../results/notes.md).\n") && !text.contains("An old"));
}

#[test]
fn a_case_of_several_subjects_has_a_line_for_each_with_all_its_references() {
    let other = row("abc", "hit", AGAINST).replace("lru", "fifo").replace("memcpy", "pread");
    let rows = row("abc", "hit", AGAINST) + &other.replace("pread", "memcpy") + &other;
    let text = document(&files(&[("results/cache.jsonl", rows)])).expect("one commit");
    let (lru, fifo) = ("memcpy 414.5: 0.82 (0.79-0.87)", "pread 414.5: 0.82 (0.79-0.87)");
    let table = format!(
        "| case | median, ns | against |\n|---|---|---|\n\
         | hit, `lru` | 504.1 (500-1510) | {lru} |\n\
         | hit, `fifo` | 504.1 (500-1510) | {lru}; {fifo} |\n"
    );
    assert!(text.expect("rows").contains(&table));
}

#[test]
fn fewer_subjects_than_cases_are_columns() {
    let said = row("abc", "oltp", ",\"reference\":\"a | source\"").replace("lru", "fifo");
    let hits = row("abc", "oltp", AGAINST).replace("\"ns\"", "\"% hits\"");
    let rows = row("abc", "oltp", AGAINST) + &said + &hits + &row("abc", "scan", "");
    let files = files(&[("results/demo.jsonl", rows)]);
    let text = document(&files).expect("one commit").expect("rows");
    let table = "| case | `lru` | `fifo` | the source says |\n|---|---|---|---|\n\
                 | oltp, ns | 504.1 (0.82) | 504.1 | fifo: a / source |\n\
                 | oltp, % hits | 504.1 |  |  |\n";
    assert!(text.contains(table), "{text}");
}

#[test]
fn more_subjects_than_cases_are_lines() {
    let other = row("abc", "evict", "").replace("lru", "fifo");
    let files = files(&[("results/demo.jsonl", row("abc", "evict", AGAINST) + &other)]);
    let text = document(&files).expect("one commit").expect("rows");
    let table = "| subject | evict, ns (against `memcpy`) |\n|---|---|\n\
                 | `lru` | 504.1 (0.82) |\n\
                 | `fifo` | 504.1 |\n";
    assert!(text.contains(table), "{text}");
}

#[test]
fn changes_are_lines_and_those_without_effect_are_named() {
    let none = row("abc", "t, 9 frames, walks off", "").replace("504.12", "0");
    let rows = row("abc", "t, 9 frames, tiers off", "") + &none;
    let text = document(&files(&[("results/mechanisms.jsonl", rows)])).expect("one commit");
    let table = "|  | t, 9 frames, `lru` |\n|---|---|\n| tiers off | 504.1 |\n\n\
                 No difference: walks off.\n";
    assert!(text.expect("rows").contains(table));
}

#[test]
fn rows_of_several_commits_of_changes_or_of_no_section_are_refused() {
    let two = row("abc", "hit", "") + &row("def", "miss", "");
    for (path, rows, why) in [
        ("results/cache.jsonl", two, "several commits: abc; def"),
        ("results/cache.jsonl", row("abc-dirty", "hit", ""), "abc-dirty: commit first"),
        ("results/cache.jsonl", row("unknown", "hit", ""), "unknown: commit first"),
        ("results/other.jsonl", row("abc", "hit", ""), "of no section"),
        ("results/cache.jsonl", "{}\n".to_owned(), "results/cache.jsonl:1: missing field"),
    ] {
        let refused = document(&files(&[(path, rows)])).expect_err("not to be shown");
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(document(&files(&[])), Ok(None));
}

#[test]
fn the_document_is_written_from_a_folder_of_rows() {
    let root = std::env::temp_dir().join(format!("pagetide-results-{}", std::process::id()));
    for folder in ["results", "docs"] {
        fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    assert!(!make(&root), "there are no rows yet");
    fs::write(root.join("results/cache.jsonl"), row("abc", "hit", "")).expect("rows");
    assert!(make(&root));
    let text = fs::read_to_string(root.join(DOCUMENT)).expect("the document");
    assert!(text.contains("| hit | 504.1 (500-1510) |"), "{text}");
    assert_eq!(fs::read_to_string(root.join(README)).expect("left as it is"), "");
    fs::remove_dir_all(&root).expect("it was ours");
}

#[test]
fn the_readme_has_the_demos_picture_and_its_verdict() {
    let said = ",\"verdict\":\"oltp: pagetide is ahead.\"";
    let rows = row("abc", "oltp", "").replace("lru", "linux")
        + &row("abc", "oltp", said).replace("lru", "pagetide").replace("504.12", "70504.12");
    let rows = rows.replace("\"ns\"", "\"ops/s\"");
    let old = "# Ours\n<!-- made by `cargo x results` -->\n| old |\n<!-- end -->\nMore.\n";
    let files = files(&[("results/demo.jsonl", rows), (README, old.to_owned())]);
    let text = readme(&files).expect("rows");
    for part in [
        "# Ours\n<!-- made by `cargo x results` -->\n![Speed of Pagetide",
        "`pagetide bench oltp` at abc, medians of 3",
        "\n- oltp: pagetide is ahead.\n<!-- end -->\nMore.\n",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    assert!(!text.contains("old"));
    let drawn = picture(&files).expect("rows");
    assert_eq!(drawn.matches("Pagetide 139.86").count(), 1, "{drawn}");
    assert_eq!(drawn.matches(">kernel<").count(), 1, "one pair of bars: {drawn}");
}
