//! The names of the formats, and format detection.

use super::{AccessKind, TraceError};
use pagetide_core::record::MAGIC;

pagetide_core::named! {
    /// A trace's format.
    #[non_exhaustive]
    pub enum Format or UnknownFormatName("unknown trace format") {
        /// Pagetide's own access record.
        Compact = "compact",
        /// libCacheSim's packed binary.
        OracleGeneral = "oracle-general",
        /// Comma-separated with a first line that names the columns (libCacheSim).
        Csv = "csv",
        /// "start count ignore n" a line (Megiddo and Modha).
        ArcLis = "arc-lis",
        /// One decimal id per line. Lines with `*` are marks (LIRS).
        Decimal = "decimal",
        /// fio's iolog, version 2 or 3.
        Fio = "fio",
        /// valgrind's `--tool=lackey --trace-mem=yes`.
        Lackey = "lackey",
        /// "time_us,dev,ino_hex,first_page,npages", from the kernel's filemap tracepoints.
        Filemap = "filemap",
        /// The MSR Cambridge block traces.
        Msr = "msr",
        /// The text that blkparse makes of a block trace.
        Blkparse = "blkparse",
        /// `perf script` of filemap and DAMON tracepoints.
        PerfScript = "perf-script",
        /// CloudPhysics' records of virtual SCSI disks.
        Vscsi = "vscsi",
        /// Raw little-endian 32-bit page numbers.
        U32Le = "u32le",
        /// Raw little-endian 64-bit page numbers.
        U64Le = "u64le",
        /// Raw big-endian 32-bit page numbers, as Java writes an int.
        I32Be = "i32be",
        /// Raw big-endian 64-bit page numbers, as Java writes a long.
        I64Be = "i64be",
        /// Raw little-endian 64-bit words, page times two, plus one for a write. All accesses go
        /// through the page table.
        U64LeRw = "u64le-rw",
    }
}

/// Minimum bytes of text at the start that rule out binary numbers.
const TEXT_BYTES_MIN: usize = 24;

/// Rejects a file that cannot begin with `prefix` in this format. Text formats are checked by line
/// later.
///
/// # Errors
/// Fails with [`TraceError::OtherFormat`] if the start contradicts the format.
pub(super) fn check(format: Format, prefix: &[u8]) -> Result<(), TraceError> {
    let is_text = prefix.len() >= TEXT_BYTES_MIN && is_text(prefix);
    let (offset, expected) = match format {
        Format::Compact => {
            let differs = MAGIC.iter().zip(prefix).position(|(magic, byte)| magic != byte);
            let Some(offset) = differs else { return Ok(()) };
            (offset, "the mark of an access record: PTREC, CR, LF, control-Z")
        }
        Format::Vscsi => match super::vscsi::mismatch(prefix) {
            Some(mismatch) => mismatch,
            None => return Ok(()),
        },
        Format::OracleGeneral if is_text => (0, "binary records of 24 bytes, not text"),
        Format::U32Le | Format::I32Be if is_text => (0, "binary numbers of 4 bytes, not text"),
        Format::U64Le | Format::I64Be | Format::U64LeRw if is_text => {
            (0, "binary numbers of 8 bytes, not text")
        }
        _ => return Ok(()),
    };
    Err(TraceError::OtherFormat { format, offset, expected })
}

fn is_text(prefix: &[u8]) -> bool {
    prefix.iter().all(|&byte| byte == b'\t' || byte == b'\n' || byte == b'\r' || byte >= b' ')
}

/// Detects the format by the first bytes and the name. Returns `None` instead of a guess.
pub(super) fn detect(prefix: &[u8], name: &str) -> Option<Format> {
    if prefix.starts_with(&MAGIC) {
        return Some(Format::Compact);
    }
    if name.contains("oracleGeneral") {
        return Some(Format::OracleGeneral);
    }
    if is_text(prefix) && !prefix.is_empty() {
        return detect_text(&String::from_utf8_lossy(prefix));
    }
    if super::vscsi::looks_right(prefix) {
        return Some(Format::Vscsi);
    }
    looks_oracle_general(prefix).then_some(Format::OracleGeneral)
}

fn detect_text(text: &str) -> Option<Format> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
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
    if super::csv::has_page_column(first) {
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

/// Returns true if the first records are plausible: ascending times, non-zero sizes, and next
/// accesses in the future.
fn looks_oracle_general(prefix: &[u8]) -> bool {
    let mut time_last = 0;
    let mut nr_records = 0;
    for record in prefix.as_chunks::<{ super::oracle_general::RECORD_BYTES }>().0 {
        let (time, size_bytes, next) = super::oracle_general::marks(record);
        // -1 and the largest number both mean "never".
        let is_later = next == -1 || next > nr_records;
        if time < time_last || size_bytes == 0 || !is_later {
            return false;
        }
        time_last = time;
        nr_records += 1;
    }
    nr_records > 0
}
