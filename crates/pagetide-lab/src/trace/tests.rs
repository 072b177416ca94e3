//! Tests of each format, and the place of each kind of damage.

use super::AccessKind::{Discard, Read, Table, TableWrite, Write};
use super::*;
use pagetide_core::ids::{MappingId, PageId, PageIndex};
use pagetide_core::lru::Switches;
use pagetide_core::page_alloc::PcpTuning;
use pagetide_core::record::Encoder;
use proptest::prelude::*;
use std::io::{Cursor, Write as _};

fn open(bytes: &[u8], name: &str, format: Option<Format>) -> Result<Trace, TraceError> {
    Trace::from_reader(Cursor::new(bytes.to_vec()), name, format)
}

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
    let said = error.to_string();
    // Another test checks the expected value.
    said.split_once(": expected ").map_or(said.clone(), |(problem, _)| problem.to_owned())
}

fn compact(accesses: &[Access]) -> Vec<u8> {
    let mut bytes = vec![];
    let header = Header {
        page_bytes: 4096,
        memory_frames: 100,
        memory_frames_max: 200,
        nr_cpus: 2,
        swappiness: 60,
        pcp_tuning: PcpTuning::Refill,
        pcp_high_fraction: 0,
        reclaimer: None,
        policy: "lru".to_owned(),
        tiers: None,
        switches: Switches::default(),
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
        "line 3, column 1: field \"page\" is not a number of the right size"
    );
}

#[test]
fn arc_lines_expand() {
    let text = b"110889 3 0 2\n7 1 0 3\n";
    assert_eq!(detected(text), Some(Format::ArcLis));
    let pages = [(0, 110_889, Read), (0, 110_890, Read), (0, 110_891, Read), (0, 7, Read)];
    assert_eq!(read(text, None), pages);
    assert_eq!(complaint(b"5\n", Format::ArcLis), "line 1, column 2: no field \"count\"");
    let endless = b"1 1 0 0\n2 99999999999 0 1\n";
    assert_eq!(
        complaint(endless, Format::ArcLis),
        "line 2, column 1: the request spans too many pages"
    );
    let overflow = format!("{} 2 0 0\n", u64::MAX);
    let spans = "line 1, column 1: the request spans too many pages";
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
        "line 1, column 1: the first line names no column for the page"
    );
    assert_eq!(
        complaint(b"op,id\nfly,1\n", Format::Csv),
        "line 2, column 1: field \"op\" has an unknown word"
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
        "line 1, column 1: not the first line of a file in this format"
    );
    let cut = b"fio version 3 iolog\n20 a read 4096\n";
    assert_eq!(complaint(cut, Format::Fio), "line 2, column 15: no field \"length\"");
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
        "line 1, column 4: field \"address\" is not a number of the right size"
    );
}

#[test]
fn filemap_files_are_mappings() {
    let text = b"time_us,dev,ino_hex,first_page,npages\n0,254:0,4fa7d,9,2\n3,254:0,2ae,0,1\n\
        4,254:0,4fa7d,0,1\n";
    assert_eq!(detected(text), Some(Format::Filemap));
    assert_eq!(read(text, None), [(0, 9, Read), (0, 10, Read), (1, 0, Read), (0, 0, Read)]);
    assert_eq!(complaint(b"0,1,2\n", Format::Filemap), "line 1, column 6: no field \"ino_hex\"");
}

#[test]
fn msr_disks_are_mappings() {
    let text =
        b"128166372003061629,hm,0,Read,8192,4097,113736\n128166372003061630,hm,1,Write,0,512,1\n";
    assert_eq!(detected(text), Some(Format::Msr));
    assert_eq!(read(text, None), [(0, 2, Read), (0, 3, Read), (1, 0, Write)]);
    assert_eq!(
        complaint(b"1,hm,0,Fly,0,1,1\n", Format::Msr),
        "line 1, column 8: field \"type\" has an unknown word"
    );
}

#[test]
fn blkparse_counts_what_was_queued() {
    let text = b"  8,0    3   1   0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3   2   0.000001829   697  Q   W 16 + 16 [kjournald]
  8,16   1   3   0.000002000   698  Q  RA 7 + 2 [cat]
  8,0    3   4   0.000003000   697  Q   D 8 + 8 [trim]
  8,0    3   5   0.000003100   697  Q FWS [none]
  8,0    3   6   0.000004000     0  m   N cfq workload slice:300
CPU0 (sda):
 Reads Queued:           0,        0KiB\n";
    assert_eq!(detected(text), Some(Format::Blkparse));
    // Sectors 7 and 8 are bytes 3584 to 4607, of pages 0 and 1.
    let accesses = [(0, 2, Write), (0, 3, Write), (1, 0, Read), (1, 1, Read), (0, 1, Discard)];
    assert_eq!(read(text, None), accesses);
    let endless = b"8,0 3 2 0.1 697 Q W 99999999999999999999 + 16 [a]\n";
    assert_eq!(
        complaint(endless, Format::Blkparse),
        "line 1, column 21: field \"sector\" is not a number of the right size"
    );
    let far = b"8,0 3 2 0.1 697 Q W 18446744073709551615 + 16 [a]\n";
    assert_eq!(
        complaint(far, Format::Blkparse),
        "line 1, column 1: the request spans too many pages"
    );
    assert_eq!(
        complaint(b"sda 1 2\n", Format::Blkparse),
        "line 1, column 1: field \"device\" has an unknown word"
    );
}

#[test]
fn perf_script_reads_filemap_and_damon_events() {
    let text = b"# ========
    my cat  93 [001]    12.345678: filemap:mm_filemap_get_pages: dev=254:0 ino=4fa7d ofs=0-8191
       cat  93 [001]    12.345679: filemap:mm_filemap_fault: dev=254:0 ino=4fa7d ofs=8192
       cat  93 [001]    12.345680: filemap:mm_filemap_map_pages: dev=254:0 ino=4fa7d ofs=0-65535
       cat  93 [1] 12.345681: filemap:mm_filemap_add_to_page_cache: dev 254:0 ino 2ae ofs=0
       cat  93 [001]    12.345682: sched:sched_switch: prev_comm=a prev_pid=1
       cat  93 [001]    12.345683: filemap:mm_filemap_get_pages: dev=254:0 ino=2ae ofs=4096-8191
 kdamond.0  9 [027] 79357.842179: damon:damon_aggregated: target_id=3 nr_regions=2 4096-12288: 4 8
 kdamond.0  9 [027] 79357.842179: damon:damon_aggregated: target_id=3 nr_regions=2 8-99: 0 8\n";
    assert_eq!(detected(text), Some(Format::PerfScript));
    let accesses =
        [(0, 0, Read), (0, 1, Read), (0, 2, Table), (1, 1, Read), (2, 1, Table), (2, 2, Table)];
    assert_eq!(read(text, None), accesses);
    // The kernel's own trace, without the group.
    let plain = b"# tracer: nop
   my-cat-93      [001] ..... 12.3: mm_filemap_get_pages: dev=254:0 ino=4fa7d ofs=4096-12287
   my-cat-93      [001] d..1. 12.4: mm_filemap_fault: dev=254:0 ino=2ae ofs=0\n";
    assert_eq!(detected(plain), Some(Format::PerfScript));
    assert_eq!(read(plain, None), [(0, 1, Read), (0, 2, Read), (1, 0, Table)]);
    assert_eq!(complaint(b"hello\n", Format::PerfScript), "line 1, column 1: no field \"event\"");
    let backwards = b"a 1 [0] 1.0: filemap:mm_filemap_get_pages: dev=1:0 ino=1 ofs=9-1\n";
    assert_eq!(
        complaint(backwards, Format::PerfScript),
        "line 1, column 62: field \"ofs\" is not a number of the right size"
    );
}

#[test]
fn vscsi_records_of_both_versions() {
    let one = |command: u16, bytes: u32, block: u64| {
        let mut record = vec![];
        for word in [7, bytes, 1] {
            record.extend_from_slice(&u32::to_le_bytes(word));
        }
        record.extend_from_slice(&command.to_le_bytes());
        record.extend_from_slice(&0x0100u16.to_le_bytes());
        record.extend_from_slice(&block.to_le_bytes());
        record.extend_from_slice(&99u64.to_le_bytes());
        record
    };
    let two = |command: u16, bytes: u32, block: u64| {
        let mut record = vec![];
        record.extend_from_slice(&command.to_le_bytes());
        record.extend_from_slice(&0x0200u16.to_le_bytes());
        for word in [7, bytes, 1] {
            record.extend_from_slice(&u32::to_le_bytes(word));
        }
        record.extend_from_slice(&block.to_le_bytes());
        record.extend_from_slice(&[9; 16]);
        record
    };
    // 0x12 is an inquiry, which touches no block.
    let pages = [(0, 1, Read), (0, 2, Read), (0, 0, Write)];
    let first = [one(0x28, 8192, 8), one(0x12, 36, 0), one(0x2a, 512, 7)].concat();
    let second = [two(0x88, 8192, 8), two(0x12, 36, 0), two(0x8a, 512, 7)].concat();
    for bytes in [&first, &second] {
        assert_eq!(read(bytes, Some(Format::Vscsi)), pages);
    }
    assert_eq!(detected(&[one(0x28, 512, 1), one(0x2a, 512, 1)].concat()), Some(Format::Vscsi));
    assert_eq!(detected(&[two(0x28, 512, 1), two(0x2a, 512, 1)].concat()), Some(Format::Vscsi));
    let cut = "the trace ends inside the 32-byte record at byte 64";
    assert_eq!(complaint(&first[..70], Format::Vscsi), cut);
    let far = [one(0x28, 512, 1), one(0x28, 512, u64::MAX)].concat();
    let damaged = "the record at byte 32 makes no sense: too long, or past the end of numbers";
    assert_eq!(complaint(&far, Format::Vscsi), damaged);
}

#[test]
fn compact_records_bring_header_and_ending() {
    let page = |mapping, index| PageId { mapping: MappingId(mapping), index: PageIndex(index) };
    // Several refills, with changing threads and mappings.
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
fn gzip_is_looked_through_member_after_member() {
    let member = |from: u32, to: u32| {
        let text: String = (from..to).map(|i| format!("{i}\n")).collect();
        let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        packed.write_all(text.as_bytes()).expect("it takes bytes");
        packed.finish().expect("it ends")
    };
    let packed = [member(0, 60_000), member(60_000, 100_000)].concat();
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
    assert_eq!(
        complaint(&long, Format::Decimal),
        "line 1, column 65537: the line is too long or not text"
    );
    assert_eq!(
        complaint(b"1\n\xff\xfe\n", Format::Decimal),
        "line 2, column 1: the line is too long or not text"
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

#[test]
fn pages_looked_up_together_have_the_ranks_they_have_alone() {
    let (mut alone, mut together) = (PageRanks::new(), PageRanks::new());
    let page = |nth: u64| PageId { index: PageIndex(nth * nth % 7919), ..PageId::default() };
    let pages: Vec<PageId> = (0..20_000).map(page).collect();
    let expected: Vec<u32> = pages.iter().map(|page| alone.rank_of(*page)).collect();
    let mut ranks = Vec::new();
    pages.chunks(333).for_each(|some| together.append_ranks(some, &mut ranks));
    assert_eq!(ranks, expected);
    assert_eq!(together.pages(), alone.pages());
}

#[test]
fn a_trace_read_in_pieces_is_the_same_and_keeps_what_was_before_an_error() {
    let text = "5\n9\n5\n3\nx\n";
    let mut dense = DenseTrace::default();
    let mut trace = open(text.as_bytes(), "", Some(Format::Decimal)).expect("the trace opens");
    assert_eq!(dense.read_some(&mut trace, 3).expect("numbers"), 3);
    assert!(dense.read_some(&mut trace, 3).is_err());
    let ranks: Vec<u32> = dense.access_ranks().collect();
    assert_eq!((ranks, dense.nr_accesses()), (vec![0, 1, 0, 2], 4));
    assert_eq!(dense.read_some(&mut trace, 3).expect("it ended"), 0);
}

#[test]
fn a_lenient_reader_skips_and_counts_malformed_lines() {
    let read = |bytes: &[u8], format| {
        let mut trace = open(bytes, "", Some(format)).expect("the trace opens");
        trace.skip_malformed();
        let pages: Vec<u64> =
            trace.by_ref().map(|access| access.expect("skipped").page.index.0).collect();
        (pages, trace.nr_skipped())
    };
    assert_eq!(read(b"1\nx\n2\n\xff\n3\n", Format::Decimal), (vec![1, 2, 3], 2));
    assert_eq!(read(b"id,op\n7,get\n8\n9,set\n", Format::Csv), (vec![7, 9], 1));
    assert_eq!(read(b"\x05\0\0\0\x06\0", Format::U32Le), (vec![5], 1));
    let mut hopeless = open(b"time,size\n1,2\n", "", Some(Format::Csv)).expect("it opens");
    hopeless.skip_malformed();
    assert!(hopeless.next().is_some_and(|access| access.is_err()), "columns cannot be skipped");
    assert!(hopeless.next().is_none());
}

#[test]
fn an_empty_file_is_said_to_be_empty() {
    assert_eq!(complaint(b"", Format::Decimal), "the trace is empty");
    assert!(matches!(open(b"", "", None), Err(TraceError::Empty)));
}

#[test]
fn a_converted_trace_reads_the_same_and_is_of_no_run() {
    let text = b"fio version 2 iolog\na read 0 8192\nb write 4096 4096\na trim 0 4096\n";
    let before = read(text, None);
    for compression in [false, true] {
        let mut packed = vec![];
        let mut trace = open(text, "", None).expect("the trace opens");
        let done = if compression {
            let mut out = zstd::Encoder::new(&mut packed, 1).expect("an encoder");
            let done = convert(&mut trace, &mut out, |_| true).expect("it converts");
            out.finish().expect("it ends");
            done
        } else {
            convert(&mut trace, &mut packed, |_| true).expect("it converts")
        };
        assert_eq!(done.map(|done| done.entries), Some(4));
        let again = open(&packed, "", None).expect("the record opens");
        assert_eq!(again.format(), Format::Compact);
        let header = again.header().expect("a record has a header");
        assert_eq!((header.is_of_run(), header.page_bytes), (false, 4096));
        assert_eq!(read(&packed, None), before);
    }
}

#[test]
fn a_converted_record_keeps_its_header_and_a_stopped_one_is_none() {
    let entry = Access { page: PageId::default(), kind: Read, thread: 0 };
    let bytes = compact(&[entry; 3]);
    let (mut trace, mut out) = (open(&bytes, "", None).expect("it opens"), vec![]);
    convert(&mut trace, &mut out, |_| true).expect("it converts");
    assert_eq!(out, bytes);
    let mut trace = open(&bytes, "", None).expect("it opens");
    assert_eq!(convert(&mut trace, &mut vec![], |_| false).expect("no error"), None);
}

proptest! {
    #[test]
    fn no_reader_panics_on_any_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        format in prop::sample::select(&Format::ALL[..]),
    ) {
        if let Ok(trace) = open(&bytes, "", Some(format)) {
            // A request may be long. Reading must continue or end in order.
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

#[test]
fn csv_fields_may_be_quoted_and_ids_may_be_words() {
    let plain = b"time,key,op\n1,12,get\n2,7,set\n";
    let quoted =
        b"\xef\xbb\xbf\"time\", \"key\",\"op\"\r\n\"1\",\"12\",\"get\"\r\n2,\"7\" ,set\r\n";
    assert_eq!(detected(quoted), Some(Format::Csv));
    assert_eq!(read(quoted, None), read(plain, None));
    let bare_mark = b"\xef\xbb\xbfid\n5\n";
    assert_eq!(read(bare_mark, None), [(0, 5, Read)]);

    let words = b"id,op\nabc,r\n\"a,\n\"\"b\",w\nabc,r\n12,r\n";
    let pages: Vec<(u32, u64, AccessKind)> = read(words, None);
    // The published 64-bit FNV-1a of "abc".
    assert_eq!(pages[0], (0, 0xe71f_a219_0541_574b, Read));
    assert_eq!((pages[2], pages[3]), (pages[0], (0, 12, Read)));
    assert!(pages[1].1 != pages[0].1 && pages[1].2 == Write);
    assert_eq!(read(b"id,op\n1,0\n2,1\n", None), [(0, 1, Read), (0, 2, Write)]);
}

#[test]
fn csv_complaints_name_line_and_column() {
    let complain = |text: &str| complaint(text.as_bytes(), Format::Csv);
    let number = "field \"page\" is not a number of the right size";
    assert_eq!(complain("id,op\n1,r\ntwo,r\n"), format!("line 3, column 1: {number}"));
    assert_eq!(complain("op,id\n\"r\",1\n\"r\",\"two\"\n"), format!("line 3, column 5: {number}"));
    assert_eq!(complain("op,id\nr,\n"), format!("line 2, column 3: {number}"));
    let word = "field \"op\" has an unknown word";
    assert_eq!(complain("id,op\n1, 7\n"), format!("line 2, column 4: {word}"));
    assert_eq!(complain("id,op\n1,\"7\"\n"), format!("line 2, column 3: {word}"));
    assert_eq!(complain("id,op\n1\n"), "line 2, column 2: no field \"op\"");
    let open = "a quoted field has no end";
    assert_eq!(complain("id\n1\n2,\"a\nb\n"), format!("line 3, column 3: {open}"));
    let endless = "id,a\n1,\"x\n".to_owned() + &"2,x\n".repeat(100_000);
    assert_eq!(complain(&endless), format!("line 2, column 3: {open}"));
}

/// Names each format for files of other kinds: the error gives the place and the expectation.
#[test]
fn another_format_than_the_named_one_is_refused_with_place_and_expectation() {
    let binary: Vec<u8> =
        (0..4096_u32).flat_map(|nr| nr.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    let text = b"what we have here is a text of some lines\nthat is no trace of any kind\n";
    for format in Format::ALL {
        let is_raw = ["u32le", "u64le", "i32be", "i64be", "u64le-rw", "oracle-general"];
        for file in [&binary[..], text] {
            if is_raw.contains(&format.as_str()) && file != text {
                continue;
            }
            let trace = open(file, "", Some(format));
            let error = match trace {
                Ok(mut trace) => trace.find_map(Result::err).unwrap_or_else(|| panic!("{format}")),
                Err(error) => error,
            };
            let said = error.to_string();
            let has_place = said.starts_with("line 1, column ") || said.starts_with("byte ");
            assert!(has_place && said.contains(": expected "), "{format}: {said}");
        }
    }
}

#[test]
fn xz_is_decompressed_and_cut_off_where_it_is() {
    // `printf '3\n1\n2\n' | xz -c`, twice.
    let packed = XZ.repeat(2);
    assert_eq!(detected(&packed), Some(Format::Decimal));
    let pages: Vec<u64> = read(&packed, None).iter().map(|access| access.1).collect();
    assert_eq!(pages, [3, 1, 2, 3, 1, 2]);
    let cut = complaint(&XZ[..XZ.len() / 2], Format::Decimal);
    assert!(cut.starts_with("cannot read the trace at byte "), "{cut}");
}

const XZ: &[u8] = &[
    0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21, 0x01,
    0x16, 0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0x01, 0x00, 0x05, 0x33, 0x0a, 0x31, 0x0a, 0x32,
    0x0a, 0x00, 0x00, 0x00, 0x06, 0x1d, 0x30, 0xa0, 0x95, 0xf5, 0x84, 0xff, 0x00, 0x01, 0x1e, 0x06,
    0xc1, 0x2f, 0xa4, 0x1d, 0x1f, 0xb6, 0xf3, 0x7d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a,
];
