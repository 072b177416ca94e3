//! Short files that claim 2^28 pages: refused, or read in memory bounded by file length.
//!
//! Commands run with 2 GB of address space. Exceeding the limit gives an exit code other than 0 and
//! 1.

use crate::run::pagetide;
use pagetide_core::ids::{MappingId, PageId, PageIndex};
use pagetide_core::record::{Encoder, Header, Note, RecordedNode, RecordedNodes, RecordedTiers};
use pagetide_core::tiering::{AbstractDistance, ScannedMapping};
use pagetide_core::units::Millis;
use pagetide_lab::trace::{Access, AccessKind};
use std::path::Path;
use std::process::{Command, Output};

const ADDRESS_SPACE_KB: &str = "2000000";

fn within_limit(args: &[&str]) -> Output {
    let line = format!("ulimit -v {ADDRESS_SPACE_KB} && exec \"$0\" \"$@\"");
    let own = pagetide();
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).arg(own.get_program()).args(args);
    shell.output().expect("a shell")
}

fn check(args: &[&str], code: i32) -> String {
    let output = within_limit(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    said
}

#[test]
fn a_text_of_7_kb_is_refused_with_both_numbers() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = dir.path().join("claim.csv");
    let line = "128166372003061629,hm,0,Read,0,4294967296,1\n";
    std::fs::write(&text, line.repeat(7000 / line.len())).expect("room");
    let text = text.to_str().expect("a plain name");
    let named = |args: &[&'static str]| check(&[args, &[text, "--format", "msr"][..]].concat(), 1);
    for said in [
        named(&["replay", "--frames", "10", "--policy", "lru,opt"]),
        named(&["mrc", "--policy", "lru"]),
        named(&["trace", "info"]),
    ] {
        assert!(
            said.contains("bytes of the trace claim") && said.contains("1024 a byte"),
            "{said}"
        );
    }
}

/// Claims as much as possible in one entry's header and notes.
fn write_record(path: &Path) {
    let most = 1 << 28;
    let header = Header {
        memory_frames: most,
        memory_frames_max: most,
        nr_cpus: 1,
        policy: "lru".to_owned(),
        ..Header::of_trace(4096)
    };
    let (mut record, mut encoder) = (Vec::new(), Encoder::new());
    header.append_to(&mut record);
    let page = PageId::default();
    let created = Millis(0);
    let mapping = ScannedMapping { id: page.mapping, nr_pages: most, created };
    encoder.append_note(&Note::Mapping(mapping), &mut record);
    encoder.append(&Access { page, kind: AccessKind::Read, thread: 0 }, &mut record);
    encoder.finish(&mut record);
    assert!(record.len() <= 62, "{} bytes", record.len());
    std::fs::write(path, record).expect("room");
}

/// Does the same for tiers: hints are searched in the claimed notes.
fn write_record_of_tiers(path: &Path) {
    let node = |distance| RecordedNode {
        nr_frames: 100,
        nr_frames_max: 100,
        distance: AbstractDistance(distance),
    };
    let nodes = RecordedNodes::new(&[node(576), node(2000)]);
    let header = Header {
        memory_frames: 200,
        memory_frames_max: 200,
        nr_cpus: 1,
        policy: "mglru".to_owned(),
        tiers: Some(RecordedTiers::new(nodes)),
        ..Header::of_trace(4096)
    };
    let (mut record, mut encoder) = (Vec::new(), Encoder::new());
    header.append_to(&mut record);
    for index in 0..40 {
        let page = PageId { mapping: MappingId(0), index: PageIndex(index << 40) };
        let mapping =
            ScannedMapping { id: page.mapping, nr_pages: u64::MAX >> 1, created: Millis(0) };
        encoder.append_note(&Note::Mapping(mapping), &mut record);
        encoder.append_note(&Note::Tick(Millis(index << 30)), &mut record);
        encoder.append(&Access { page, kind: AccessKind::Read, thread: 0 }, &mut record);
    }
    encoder.finish(&mut record);
    std::fs::write(path, record).expect("room");
}

#[test]
fn a_record_of_tiers_that_claims_endless_files_is_repeated() {
    let dir = tempfile::tempdir().expect("a folder");
    let record = dir.path().join("tiers.ptt");
    write_record_of_tiers(&record);
    check(&["replay", record.to_str().expect("a plain name"), "--recorded"], 0);
}

#[test]
fn a_record_of_62_bytes_is_read_and_its_memory_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let record = dir.path().join("claim.ptt");
    write_record(&record);
    let record = record.to_str().expect("a plain name");
    let said = check(&["replay", record, "--recorded"], 1);
    assert!(said.contains("claims a memory of 1.0 TiB, and has 1 entries"), "{said}");
    check(&["replay", record, "--memory", "1T"], 0);
    check(&["mrc", record], 0);
    check(&["trace", "info", record], 0);
}
