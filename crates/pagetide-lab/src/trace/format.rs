//! The formats' names, and how a file's format is told.

use super::AccessKind;
use pagetide_core::record::MAGIC;
use std::fmt;
use std::str::FromStr;

/// A trace's format. The names in quotes are the command line's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Format {
    /// "compact": Pagetide's own access record.
    Compact,
    /// "oracle-general": libCacheSim's packed binary.
    OracleGeneral,
    /// "csv": comma-separated with a first line that names the columns (libCacheSim).
    Csv,
    /// "arc-lis": "start count ignore n" a line (Megiddo and Modha).
    ArcLis,
    /// "decimal": one decimal id a line; `*` lines are marks (LIRS).
    Decimal,
    /// "fio": fio's iolog, version 2 or 3.
    Fio,
    /// "lackey": valgrind's `--tool=lackey --trace-mem=yes`.
    Lackey,
    /// "filemap": "time_us,dev,ino_hex,first_page,npages", from the kernel's filemap tracepoints.
    Filemap,
    /// "msr": the MSR Cambridge block traces.
    Msr,
    /// "blkparse": the text that blkparse makes of a block trace.
    Blkparse,
    /// "perf-script": `perf script` of filemap and DAMON tracepoints.
    PerfScript,
    /// "vscsi": CloudPhysics' records of virtual SCSI disks.
    Vscsi,
    /// "u32le": raw little-endian 32-bit page numbers.
    U32Le,
    /// "u64le": raw little-endian 64-bit page numbers.
    U64Le,
    /// "i32be": raw big-endian 32-bit page numbers, as Java writes an int.
    I32Be,
    /// "i64be": raw big-endian 64-bit page numbers, as Java writes a long.
    I64Be,
    /// "u64le-rw": raw little-endian 64-bit words, page times two, plus one for a write; accesses
    /// go through the page table.
    U64LeRw,
}

/// A name that is no format's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "unknown trace format; there are compact, oracle-general, csv, arc-lis, decimal, fio, lackey, \
     filemap, msr, blkparse, perf-script, vscsi, u32le, u64le, i32be, i64be and u64le-rw"
)]
pub struct UnknownFormatName;

impl Format {
    /// Every format.
    pub const ALL: [Format; 17] = [
        Format::Compact,
        Format::OracleGeneral,
        Format::Csv,
        Format::ArcLis,
        Format::Decimal,
        Format::Fio,
        Format::Lackey,
        Format::Filemap,
        Format::Msr,
        Format::Blkparse,
        Format::PerfScript,
        Format::Vscsi,
        Format::U32Le,
        Format::U64Le,
        Format::I32Be,
        Format::I64Be,
        Format::U64LeRw,
    ];

    /// The format's name, as people type it.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Compact => "compact",
            Format::OracleGeneral => "oracle-general",
            Format::Csv => "csv",
            Format::ArcLis => "arc-lis",
            Format::Decimal => "decimal",
            Format::Fio => "fio",
            Format::Lackey => "lackey",
            Format::Filemap => "filemap",
            Format::Msr => "msr",
            Format::Blkparse => "blkparse",
            Format::PerfScript => "perf-script",
            Format::Vscsi => "vscsi",
            Format::U32Le => "u32le",
            Format::U64Le => "u64le",
            Format::I32Be => "i32be",
            Format::I64Be => "i64be",
            Format::U64LeRw => "u64le-rw",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormatName;

    fn from_str(text: &str) -> Result<Format, UnknownFormatName> {
        Format::ALL.into_iter().find(|format| format.name() == text).ok_or(UnknownFormatName)
    }
}

/// Tells the format of a file by its first bytes and its name, or `None` for a guess too many.
pub(super) fn detect(prefix: &[u8], name: &str) -> Option<Format> {
    if prefix.starts_with(&MAGIC) {
        return Some(Format::Compact);
    }
    if name.contains("oracleGeneral") {
        return Some(Format::OracleGeneral);
    }
    let is_text =
        prefix.iter().all(|&byte| byte == b'\t' || byte == b'\n' || byte == b'\r' || byte >= b' ');
    if is_text && !prefix.is_empty() {
        return detect_text(&String::from_utf8_lossy(prefix));
    }
    if super::vscsi::looks_right(prefix) {
        return Some(Format::Vscsi);
    }
    looks_oracle_general(prefix).then_some(Format::OracleGeneral)
}

fn detect_text(text: &str) -> Option<Format> {
    let first = text.lines().find(|line| !line.trim().is_empty())?;
    if first.starts_with("fio version ") {
        return Some(Format::Fio);
    }
    if first.starts_with("time_us,dev,ino_hex") {
        return Some(Format::Filemap);
    }
    if first.starts_with("==") || super::lackey::parse(first).is_ok_and(|request| request.is_some())
    {
        return Some(Format::Lackey);
    }
    if super::csv::page_column(first).is_some() {
        return Some(Format::Csv);
    }
    if super::msr::kind_of(first).is_ok_and(AccessKind::is_access) {
        return Some(Format::Msr);
    }
    if super::blkparse::looks_right(first) {
        return Some(Format::Blkparse);
    }
    let said = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    if said.and_then(super::perf_script::event_of).is_some() {
        return Some(Format::PerfScript);
    }
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let words: Vec<&str> = first.split_ascii_whitespace().collect();
    match words[..] {
        [word] if word == "*" || is_number(word) => Some(Format::Decimal),
        [_, _, _, _] if words.iter().all(|word| is_number(word)) => Some(Format::ArcLis),
        _ => None,
    }
}

/// Whether the records at the front are possible ones: time does not run backwards, every object
/// has a size, and the next access is later than this one, or never.
fn looks_oracle_general(prefix: &[u8]) -> bool {
    let mut time_last = 0;
    let mut nr_records = 0;
    for record in prefix.as_chunks::<{ super::oracle_general::RECORD_BYTES }>().0 {
        let (time, size_bytes, next) = super::oracle_general::marks(record);
        // -1 and the largest number both stand for "never".
        let is_later = next == -1 || next > nr_records;
        if time < time_last || size_bytes == 0 || !is_later {
            return false;
        }
        time_last = time;
        nr_records += 1;
    }
    nr_records > 0
}
