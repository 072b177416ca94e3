//! Short files with long requests are refused.

use super::{Access, AccessKind, Format, Header, PAGES_A_BYTE, PAGES_ALLOWED, Trace, TraceError};
use pagetide_core::ids::{MappingId, PageId, PageIndex};
use pagetide_core::record::Encoder;
use std::io::Cursor;

/// Returns about 7 KB of a format with the longest requests: at least 2^28 pages, if requests may
/// have several pages.
fn longest_requests(format: Format) -> Vec<u8> {
    let lines = |first: &str, line: &str| {
        let nr = 7000 / line.len();
        (first.to_owned() + &line.repeat(nr)).into_bytes()
    };
    match format {
        Format::ArcLis => lines("", "0 16777216 0 0\n"),
        Format::Fio => {
            lines("fio version 2 iolog\nf.bin add\nf.bin open\n", "f.bin read 0 68719476736\n")
        }
        Format::Lackey => lines("", " L 1000,68719476736\n"),
        Format::Filemap => {
            lines("time_us,dev,ino_hex,first_page,npages\n", "1,8:1,ab,0,16777216\n")
        }
        Format::Msr => lines("", "128166372003061629,hm,0,Read,0,68719476736,1\n"),
        Format::Blkparse => lines("", "8,0 3 1 0.000000000 697 Q R 0 + 134217728 [x]\n"),
        Format::PerfScript => lines(
            "",
            "k 9 [2] 7.8: damon:damon_aggregated: target_id=3 nr_regions=2 0-68719476736: 4 8\n",
        ),
        Format::Vscsi => {
            let mut record = [0; 40];
            (record[0], record[3]) = (0x28, 2);
            record[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
            record.repeat(175)
        }
        // A request of these formats has one page.
        Format::Compact => record_of_a_large_memory(),
        Format::OracleGeneral => [1_u8; 24].repeat(290),
        Format::Csv => lines("time,object\n", "1,18446744073709551615\n"),
        Format::Decimal => lines("", "18446744073709551615\n"),
        Format::U32Le | Format::U64Le | Format::I32Be | Format::I64Be | Format::U64LeRw => {
            vec![1; 7200]
        }
    }
}

fn record_of_a_large_memory() -> Vec<u8> {
    let header = Header {
        memory_frames: 1 << 28,
        memory_frames_max: 1 << 28,
        nr_cpus: 1,
        policy: "lru".to_owned(),
        ..Header::of_trace(4096)
    };
    let (mut record, mut encoder) = (Vec::new(), Encoder::new());
    header.append_to(&mut record);
    for index in [0, 1 << 28, u64::MAX] {
        let page = PageId { mapping: MappingId(u32::MAX), index: PageIndex(index) };
        encoder.append(&Access { page, kind: AccessKind::Read, thread: u32::MAX }, &mut record);
    }
    encoder.finish(&mut record);
    record
}

#[test]
fn no_reader_gives_out_more_pages_than_its_bytes_account_for() {
    for format in Format::ALL {
        let file = longest_requests(format);
        let pages_max = PAGES_ALLOWED + PAGES_A_BYTE * file.len() as u64;
        let trace = Trace::from_reader(Cursor::new(file.clone()), "claim", Some(format));
        let mut trace = trace.unwrap_or_else(|error| panic!("{format}: {error}"));
        let (mut nr_pages, mut refusal) = (0_u64, None);
        for access in trace.by_ref() {
            match access {
                Ok(_) => nr_pages += 1,
                Err(error) => refusal = Some(error),
            }
        }
        assert!(0 < nr_pages || refusal.is_some(), "{format}: nothing was read");
        assert!(nr_pages <= pages_max, "{format}: {nr_pages} pages of {} bytes", file.len());
        let has_long = matches!(
            format,
            Format::ArcLis
                | Format::Fio
                | Format::Lackey
                | Format::Filemap
                | Format::Msr
                | Format::Blkparse
                | Format::PerfScript
                | Format::Vscsi
        );
        let is_refused = matches!(refusal, Some(TraceError::TooManyPages { .. }));
        assert_eq!(is_refused, has_long, "{format}: {refusal:?}");
    }
}

/// Lines with requests of 1 MiB are usual in block traces.
#[test]
fn ordinary_traces_of_long_requests_are_read_to_their_ends() {
    let line = "128166372003061629,hm,0,Read,0,1048576,1\n";
    let file = line.repeat(40_000).into_bytes();
    let trace = Trace::from_reader(Cursor::new(file), "long", Some(Format::Msr));
    assert_eq!(trace.expect("it opens").filter(Result::is_ok).count(), 40_000 * 256);
}
