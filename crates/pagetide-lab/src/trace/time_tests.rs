//! Times: each format with times in its own unit, and no times in all other formats.

use super::*;
use pagetide_core::ids::{PageId, PageType};
use std::io::Cursor;

/// Returns the times of all entries, in milliseconds since the first entry.
fn times(bytes: &[u8], format: Format) -> Option<Vec<u32>> {
    let mut trace = Trace::from_reader(Cursor::new(bytes.to_vec()), "", Some(format)).unwrap();
    let dense = DenseTrace::read(&mut trace).unwrap();
    dense.times().map(<[u32]>::to_vec)
}

#[test]
fn each_format_has_its_own_unit() {
    let csv = b"# time, object, size\n7, 1, 1\n7.25, 2, 1\n9, 3, 1\n";
    assert_eq!(times(csv, Format::Csv), Some(vec![0, 250, 2000]));
    let fio = b"fio version 3 iolog\n20 f add\n30 f read 0 8192\n31 f read 0 1\n";
    assert_eq!(times(fio, Format::Fio), Some(vec![0, 0, 1]));
    let msr = b"128166372003061629,h,0,Read,0,1,9\n128166372003071629,h,0,Read,0,1,9\n";
    assert_eq!(times(msr, Format::Msr), Some(vec![0, 1]));
    let filemap = b"time_us,dev,ino_hex,first_page,npages\n1000,0:1,a,1,1\n4999,0:1,a,1,1\n";
    assert_eq!(times(filemap, Format::Filemap), Some(vec![0, 3]));
    let blkparse = b"8,0 3 2 0.5 7 Q W 16 + 8 [x]\n8,0 3 2 1.503 7 Q W 16 + 8 [x]\n";
    assert_eq!(times(blkparse, Format::Blkparse), Some(vec![0, 1003]));
    let perf = b"a b: c 93 [1] 12.345: filemap:mm_filemap_fault: dev=254:0 ino=4fa7d ofs=8192\n\
                 cat 93 [1] 12.350: filemap:mm_filemap_get_pages: dev=254:0 ino=a ofs=0-1\n";
    assert_eq!(times(perf, Format::PerfScript), Some(vec![0, 5]));
    let record = |secs: u32, object: u64| {
        let (size, next) = (1u32.to_le_bytes(), (-1i64).to_le_bytes());
        [&secs.to_le_bytes()[..], &object.to_le_bytes(), &size, &next].concat()
    };
    let oracle = [record(5, 1), record(6, 2)].concat();
    assert_eq!(times(&oracle, Format::OracleGeneral), Some(vec![0, 1000]));
    let vscsi = |micros: u64| {
        let words = [7u32, 512, 1].map(u32::to_le_bytes).concat();
        let command = [0x28, 0, 0, 1];
        [&words[..], &command, &9u64.to_le_bytes(), &micros.to_le_bytes()].concat()
    };
    assert_eq!(times(&[vscsi(99), vscsi(5099)].concat(), Format::Vscsi), Some(vec![0, 5]));
}

#[test]
fn formats_without_times_pay_for_none() {
    assert_eq!(times(b"1\n2\n", Format::Decimal), None);
    assert_eq!(times(b"fio version 2 iolog\nf read 0 1\n", Format::Fio), None);
    assert_eq!(times(b"id\n1\n2\n", Format::Csv), None);
    assert_eq!(times(b"time,id\nnow,1\n", Format::Csv), None);
}

#[test]
fn times_never_go_back() {
    let csv = b"time,id\n5,1\n9,2\n4,3\n10,4\n";
    assert_eq!(times(csv, Format::Csv), Some(vec![0, 4000, 4000, 5000]));
    let mut dense = DenseTrace::default();
    let access = Access { page: PageId::default(), kind: AccessKind::Read, thread: 0 };
    dense.push(access);
    assert_eq!(dense.times(), None);
    dense.push_at(access, Millis(7));
    dense.push(access);
    dense.push_at(access, Millis(u64::MAX));
    assert_eq!(dense.times(), Some(&[0, 7, 7, u32::MAX][..]));
}

#[test]
fn memory_traces_are_of_anonymous_pages() {
    let read = |bytes: &[u8], format| {
        let mut trace = Trace::from_reader(Cursor::new(bytes.to_vec()), "", Some(format)).unwrap();
        let dense = DenseTrace::read(&mut trace).unwrap();
        dense.page_type(dense.page(0))
    };
    assert_eq!(read(b" L 1ffe,8\n", Format::Lackey), PageType::Anon);
    assert_eq!(read(&8u64.to_le_bytes(), Format::U64LeRw), PageType::Anon);
    assert_eq!(read(&8u64.to_le_bytes(), Format::U64Le), PageType::File);
}
