//! Checks all JSON output against `docs/schema.json`.
//!
//! Tests check every document they read, and each command runs here once. Only the JSON Schema
//! keywords of that file are supported.

use crate::run::{document, run, skewed};
use serde_json::Value;
use std::sync::LazyLock;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../docs/schema.json");
    serde_json::from_str(text).expect("the schema is JSON")
});

pub(crate) fn check(document: &Value) {
    let mut faults = Vec::new();
    find_faults(&SCHEMA, document, "", &mut faults);
    assert!(faults.is_empty(), "not as docs/schema.json has it: {faults:#?}");
}

fn find_faults(schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        let mut must = |holds: bool| {
            if !holds {
                faults.push(format!("{at}: {keyword} {rule}"));
            }
        };
        let names = |rule: &Value| -> Vec<String> {
            serde_json::from_value(rule.clone()).expect("a list of names")
        };
        match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let place = rule.as_str().and_then(|rule| rule.strip_prefix('#'));
                let found = place.and_then(|place| SCHEMA.pointer(place)).expect("it is defined");
                find_faults(found, value, at, faults);
            }
            "type" => must(match rule {
                Value::Array(kinds) => kinds.iter().any(|kind| is_of(value, kind)),
                kind => is_of(value, kind),
            }),
            "enum" => must(rule.as_array().is_some_and(|words| words.contains(value))),
            "required" => must(names(rule).iter().all(|name| value.get(name).is_some())),
            "dependentRequired" => {
                let rules = rule.as_object().expect("names by name").iter();
                let mut present = rules.filter(|(name, _)| value.get(name).is_some());
                must(present.all(|(_, with)| names(with).iter().all(|it| value.get(it).is_some())));
            }
            "items" => {
                for (nth, item) in value.as_array().into_iter().flatten().enumerate() {
                    find_faults(rule, item, &format!("{at}[{nth}]"), faults);
                }
            }
            "properties" | "additionalProperties" => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    let known = schema.get("properties").and_then(|known| known.get(name));
                    let at = format!("{at}.{name}");
                    match (keyword.as_str(), known) {
                        ("properties", Some(known)) => find_faults(known, inner, &at, faults),
                        ("additionalProperties", None) if rule == false => {
                            faults.push(format!("{at} is no name of the schema"));
                        }
                        ("additionalProperties", None) => find_faults(rule, inner, &at, faults),
                        _ => {}
                    }
                }
            }
            other => panic!("the schema says {other}, which is not understood here"),
        }
    }
}

fn is_of(value: &Value, kind: &Value) -> bool {
    match kind.as_str().expect("a kind has a name") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the schema says {other}, which is no kind"),
    }
}

/// `ctl.rs` tests a running cache.
#[test]
fn every_command_speaks_the_one_language() {
    let dir = tempfile::tempdir().expect("a folder");
    let trace = skewed(dir.path(), 5000, 600);
    let path = |name: &str| dir.path().join(name).to_str().expect("a plain name").to_owned();
    let (trace, here) = (trace.to_str().expect("a plain name"), path(""));
    let (record, table) = (path("t.ptt"), path("t.parquet"));
    let commands: [(&str, &[&str]); 17] = [
        ("policies", &["policies"]),
        ("trace.info", &["trace", "info", trace]),
        ("trace.convert", &["trace", "convert", trace, &record]),
        ("replay", &["replay", trace, "--frames", "90", "--policy", "pagetide,opt", "--explain"]),
        ("replay", &["replay", trace, "--frames", "90", "--fold-every", "500"]),
        ("ablate", &["ablate", trace, "--frames", "90"]),
        ("mrc", &["mrc", trace, "--points", "3"]),
        ("tier", &["tier", trace, "--fast", "50%", "--seconds", "20"]),
        ("sweep", &["sweep", trace, "--policy", "lru", "--memory", "1%", "--out", &table]),
        ("lab.list", &["lab", "list"]),
        ("lab.seeds", &["lab", "seeds", "--rows", &here]),
        ("lab.dump", &["lab", "dump", trace, "--frames", "90"]),
        ("lab.why", &["lab", "why", trace, "5", "--frames", "90"]),
        ("lab.scenarios", &["lab", "run", "wschange", "--seeds", "1", "--policy", "lru"]),
        ("lab.tiers", &["lab", "run", "pmbench", "--scale", "65536"]),
        ("bench", &["bench", "evict", "--quick", "--runs", "1", "--dir", &here]),
        ("demo", &["demo", "--memory", "4M", "--seconds", "0.1", "--rounds", "1", "--no-report"]),
    ];
    for (name, command) in commands {
        let one_job = ["--workloads", "oltp", "--subjects", "pagetide", "--dir", &here];
        let more = if name == "demo" { &one_job[..] } else { &[] };
        let document = document(&[command, more, &["--json"]].concat());
        assert_eq!(document["schema"], format!("pagetide.{name}/1"), "{command:?}");
    }
    let summary = path("summary");
    let program =
        ["run", "--memory", "auto:1M-2M", "--quiet", "--json", &summary, "--", "cat", trace];
    assert!(run(&program).status.success());
    let text = std::fs::read_to_string(summary).expect("a summary");
    check(&serde_json::from_str(&text).expect("JSON"));
}

#[test]
fn what_is_not_of_the_schema_is_found() {
    let faults = |text: &str| {
        let mut faults = Vec::new();
        let document = serde_json::from_str(text).expect("JSON");
        find_faults(&SCHEMA, &document, "", &mut faults);
        faults
    };
    let row = |row: &str| format!("{{\"schema\": \"pagetide.x/1\", \"rows\": [{{{row}}}]}}");
    assert!(faults(&row("\"misses\": 1, \"warm\": null")).is_empty());
    for wrong in
        ["\"misses\": 0.5", "\"faults\": 1", "\"device_reads\": 1", "\"reuse\": {\"x\": 1}"]
    {
        assert_eq!(faults(&row(wrong)).len(), 1, "{wrong}: {:?}", faults(&row(wrong)));
    }
    assert_eq!(faults("[]").len(), 2, "no object, and nothing of what it must have");
}
