//! Each format read from a few lines or bytes, and each kind of damage located.

use super::AccessKind::{Discard, Read, Table, TableWrite, Write};
use super::*;
use pagetide_core::record::Encoder;
use proptest::prelude::*;
use std::io::Cursor;

fn open(bytes: &[u8], name: &str, format: Option<Format>) -> Result<Trace, TraceError> {
    Trace::from_reader(Cursor::new(bytes.to_vec()), name, format)
}

/// Mapping, index and kind of every access; the trace must be sound.
fn read(bytes: &[u8], format: Option<Format>) -> Vec<(u32, u64, AccessKind)> {
    let trace = open(bytes, "", format).expect("the trace opens");
    let access = |access: Result<Access, TraceError>| {
        let access = access.expect("the trace is sound");
        (access.page.mapping.0, access.page.index.0, access.kind)
    };
    trace.map(access).collect()
}

fn detected(bytes: &[u8]) -> Option<Format> {
    open(bytes, "", None).ok().map(|trace| trace.format())
}

/// The first error of a trace, printed.
fn complaint(bytes: &[u8], format: Format) -> String {
    let opened = open(bytes, "", Some(format));
    let error = match opened {
        Ok(mut trace) => {
            let error = trace.find_map(Result::err).expect("the trace is damaged");
            assert!(trace.next().is_none(), "a trace ends after its first error");
            error
        }
        Err(error) => error,
    };
    error.to_string()
}

fn compact(accesses: &[Access]) -> Vec<u8> {
    let mut bytes = vec![];
    let header = Header {
        page_bytes: 4096,
        memory_frames: 100,
        memory_frames_max: 200,
        nr_cpus: 2,
        swappiness: 60,
        policy: "lru".to_owned(),
    };
    header.append_to(&mut bytes);
    let mut encoder = Encoder::new();
    for access in accesses {
        encoder.append(access, &mut bytes);
    }
    encoder.finish(&mut bytes);
    bytes
}

#[test]
fn names_of_formats_parse_back() {
    for format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    assert_eq!("arc".parse::<Format>(), Err(UnknownFormatName));
}

#[test]
fn decimal_lines_skip_marks_and_carriage_returns() {
    let text = b"2819\r\n*\r\n85\r\n\r\n2819";
    assert_eq!(detected(text), Some(Format::Decimal));
    assert_eq!(read(text, None), [(0, 2819, Read), (0, 85, Read), (0, 2819, Read)]);
    assert_eq!(
        complaint(b"1\n2\nx3\n", Format::Decimal),
        "line 3: field \"page\" is not a number of the right size"
    );
}

#[test]
fn arc_lines_expand() {
    let text = b"110889 3 0 2\n7 1 0 3\n";
    assert_eq!(detected(text), Some(Format::ArcLis));
    let pages = [(0, 110_889, Read), (0, 110_890, Read), (0, 110_891, Read), (0, 7, Read)];
    assert_eq!(read(text, None), pages);
    assert_eq!(complaint(b"5\n", Format::ArcLis), "line 1: no field \"count\"");
    let endless = b"1 1 0 0\n2 99999999999 0 1\n";
    assert_eq!(complaint(endless, Format::ArcLis), "line 2: the request spans too many pages");
    let overflow = format!("{} 2 0 0\n", u64::MAX);
    let spans = "line 1: the request spans too many pages";
    assert_eq!(complaint(overflow.as_bytes(), Format::ArcLis), spans);
}

#[test]
fn csv_finds_the_page_column_by_name() {
    let text = b"# time, object, size, next_access_vtime\n0, 13053225291711363978, 737, 13\n";
    assert_eq!(detected(text), Some(Format::Csv));
    assert_eq!(read(text, None), [(0, 13_053_225_291_711_363_978, Read)]);
    let scsi = b"version,time,op,size,lbn\n1,5,2a,512,42\n1,6,28,8192,43\n";
    assert_eq!(detected(scsi), Some(Format::Csv));
    assert_eq!(read(scsi, None), [(0, 42, Write), (0, 43, Read)]);
    assert_eq!(
        complaint(b"time,size\n", Format::Csv),
        "line 1: the first line names no column for the page: object, obj_id, id, lbn, lba or key"
    );
    assert_eq!(
        complaint(b"op,id\nfly,1\n", Format::Csv),
        "line 2: field \"op\" has an unknown word"
    );
}

#[test]
fn oracle_general_ids_are_pages() {
    let mut bytes = vec![];
    for (id, next) in [(43_000_000_000u64, 2i64), (7, -1), (43_000_000_000, -1)] {
        bytes.extend_from_slice(&5u32.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
        bytes.extend_from_slice(&57_344u32.to_le_bytes());
        bytes.extend_from_slice(&next.to_le_bytes());
    }
    assert_eq!(detected(&bytes), Some(Format::OracleGeneral));
    let pages = [(0, 43_000_000_000, Read), (0, 7, Read), (0, 43_000_000_000, Read)];
    assert_eq!(read(&bytes, None), pages);
    assert_eq!(
        complaint(&bytes[..60], Format::OracleGeneral),
        "the trace ends inside the 24-byte record at byte 48"
    );
}

#[test]
fn raw_words_need_a_name() {
    let words = [1, 0, 0, 0, 0, 0, 0, 2];
    assert_eq!(detected(&words), None);
    assert_eq!(read(&words, Some(Format::U32Le)), [(0, 1, Read), (0, 2 << 24, Read)]);
    assert_eq!(read(&words, Some(Format::I32Be)), [(0, 1 << 24, Read), (0, 2, Read)]);
    assert_eq!(read(&words, Some(Format::U64Le)), [(0, (2 << 56) + 1, Read)]);
    assert_eq!(read(&words, Some(Format::I64Be)), [(0, (1 << 56) + 2, Read)]);
    let words = [6, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(read(&words, Some(Format::U64LeRw)), [(0, 3, Table), (0, 3, TableWrite)]);
    let cut = "the trace ends inside the 8-byte record at byte 8";
    assert_eq!(complaint(&words[..11], Format::U64LeRw), cut);
}

#[test]
fn fio_logs_split_bytes_into_pages() {
    let two = b"fio version 2 iolog\na add\nb add\na open\na read 4095 2\nb write 8192 4096\n\
        a trim 0 4096\na datasync 0 0\na close\n";
    assert_eq!(detected(two), Some(Format::Fio));
    let accesses = [(0, 0, Read), (0, 1, Read), (1, 2, Write), (0, 0, Discard)];
    assert_eq!(read(two, None), accesses);
    let three = b"fio version 3 iolog\n20 a add\n30 a read 8192 0\n31 a read 12288 4096\n";
    assert_eq!(read(three, None), [(0, 3, Read)]);
    assert_eq!(
        complaint(b"fio version 1 iolog\n", Format::Fio),
        "line 1: not the first line of a file in this format"
    );
    let cut = b"fio version 3 iolog\n20 a read 4096\n";
    assert_eq!(complaint(cut, Format::Fio), "line 2: no field \"length\"");
}

#[test]
fn lackey_lines_are_table_accesses() {
    let text = b"==1== Lackey\nI  0023c790,2\n S be80199c,4\n L 00000fff,2\n M 0025747c,1\n";
    assert_eq!(detected(text), Some(Format::Lackey));
    let accesses = [
        (0, 0x23c, Table),
        (0, 0xbe801, TableWrite),
        (0, 0, Table),
        (0, 1, Table),
        (0, 0x257, TableWrite),
    ];
    assert_eq!(read(text, None), accesses);
    assert_eq!(detected(b" L 1ffe,8\n"), Some(Format::Lackey));
    assert_eq!(
        complaint(b" L zz,8\n", Format::Lackey),
        "line 1: field \"address\" is not a number of the right size"
    );
}

#[test]
fn filemap_files_are_mappings() {
    let text = b"time_us,dev,ino_hex,first_page,npages\n0,254:0,4fa7d,9,2\n3,254:0,2ae,0,1\n\
        4,254:0,4fa7d,0,1\n";
    assert_eq!(detected(text), Some(Format::Filemap));
    assert_eq!(read(text, None), [(0, 9, Read), (0, 10, Read), (1, 0, Read), (0, 0, Read)]);
    assert_eq!(complaint(b"0,1,2\n", Format::Filemap), "line 1: no field \"ino_hex\"");
}

#[test]
fn msr_disks_are_mappings() {
    let text =
        b"128166372003061629,hm,0,Read,8192,4097,113736\n128166372003061630,hm,1,Write,0,512,1\n";
    assert_eq!(detected(text), Some(Format::Msr));
    assert_eq!(read(text, None), [(0, 2, Read), (0, 3, Read), (1, 0, Write)]);
    assert_eq!(
        complaint(b"1,hm,0,Fly,0,1,1\n", Format::Msr),
        "line 1: field \"type\" has an unknown word"
    );
}

#[test]
fn compact_records_bring_header_and_ending() {
    let page = |mapping, index| PageId { mapping: MappingId(mapping), index: PageIndex(index) };
    // Long enough for several refills, and threads and mappings that must be carried through.
    let accesses: Vec<Access> = (0..50_000u32)
        .map(|i| Access {
            page: page(i % 3, u64::from(i.wrapping_mul(2_654_435_761) % 1_000_000)),
            kind: AccessKind::ALL[i as usize % AccessKind::ALL.len()],
            thread: i / 1000 % 4,
        })
        .collect();
    let bytes = compact(&accesses);
    let mut trace = open(&bytes, "", None).expect("opens");
    assert_eq!(trace.format(), Format::Compact);
    assert_eq!(trace.header().map(|header| header.memory_frames), Some(100));
    assert_eq!(trace.ending(), None);
    let read: Vec<Access> = trace.by_ref().map(|access| access.expect("sound")).collect();
    assert_eq!(read, accesses);
    assert_eq!(trace.ending(), Some(Ending::Complete));

    let mut torn = open(&bytes[..bytes.len() - 5], "", None).expect("opens");
    let whole: Result<Vec<Access>, TraceError> = torn.by_ref().collect();
    assert_eq!(whole.expect("a torn tail is no error"), accesses[..accesses.len() - 1]);
    assert_eq!(torn.ending(), Some(Ending::Torn));
    assert!(torn.next().is_none());
}

#[test]
fn compact_damage_is_reported() {
    let bytes = compact(&[]);
    assert_eq!(
        complaint(&bytes[..10], Format::Compact),
        "the record's header is cut off: 40 bytes needed"
    );
    assert_eq!(
        complaint(&bytes[..42], Format::Compact),
        "the record's header is cut off: 43 bytes needed"
    );
    let twice = [&bytes[..], &bytes[..]].concat();
    let after = format!("bytes after the record's end, at byte {}", bytes.len());
    assert_eq!(complaint(&twice, Format::Compact), after);
}

#[test]
fn zstd_is_looked_through() {
    let text: String = (0..100_000).map(|i| format!("{i}\n")).collect();
    let packed = zstd::encode_all(text.as_bytes(), 1).expect("compresses");
    assert_eq!(detected(&packed), Some(Format::Decimal));
    assert_eq!(read(&packed, None).len(), 100_000);
    let cut = complaint(&packed[..packed.len() / 2], Format::Decimal);
    assert!(cut.starts_with("cannot read the trace at byte "), "{cut}");
}

#[test]
fn text_that_is_no_trace_is_refused() {
    assert_eq!(detected(b"hello world\n"), None);
    assert_eq!(detected(b""), None);
    let long = vec![b'1'; 100_000];
    assert_eq!(complaint(&long, Format::Decimal), "line 1: the line is too long or not text");
    assert_eq!(
        complaint(b"1\n\xff\xfe\n", Format::Decimal),
        "line 2: the line is too long or not text"
    );
}

#[test]
fn ranks_are_in_order_of_first_appearance() {
    let mut ranks = PageRanks::new();
    let page = |mapping, index| PageId { mapping: MappingId(mapping), index: PageIndex(index) };
    assert_eq!(ranks.find(page(0, 0)), None);
    for i in 0..10_000 {
        assert_eq!(ranks.rank_of(page(1, i * 512)), 2 * i as u32);
        assert_eq!(ranks.rank_of(page(2, i * 512)), 2 * i as u32 + 1);
    }
    assert_eq!(ranks.find(page(2, 512)), Some(3));
    assert_eq!(ranks.find(page(3, 512)), None);
    assert_eq!(ranks.pages()[3], page(2, 512));
}

proptest! {
    #[test]
    fn no_reader_panics_on_any_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        format in prop::sample::select(&Format::ALL[..]),
    ) {
        if let Ok(trace) = open(&bytes, "", Some(format)) {
            // A request may be long; what matters is that reading goes on or ends in order.
            let _ = trace.take(1000).filter(Result::is_err).count();
        }
        let _ = open(&bytes, "", None);
    }

    #[test]
    fn no_reader_panics_on_any_text(
        text in "[ -~\n]{0,200}|([0-9]{1,20}[, ]){1,8}\n",
        format in prop::sample::select(&Format::ALL[..]),
    ) {
        if let Ok(trace) = open(text.as_bytes(), "", Some(format)) {
            let _ = trace.take(1000).filter(Result::is_err).count();
        }
        let _ = open(text.as_bytes(), "", None);
    }
}
