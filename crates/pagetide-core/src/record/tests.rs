//! What a record must survive: every access, every cut, and any bytes at all.

use super::*;
use crate::ids::{MappingId, PageId, PageIndex};
use alloc::vec;
use proptest::prelude::*;

fn header() -> Header {
    Header {
        page_bytes: 4096,
        memory_frames: 131_072,
        memory_frames_max: 1 << 33,
        nr_cpus: 70_000,
        swappiness: 200,
        pcp_tuning: PcpTuning::Adaptive,
        pcp_high_fraction: 8,
        policy: String::from("mglru"),
    }
}

fn access(mapping: u32, index: u64, kind: AccessKind, thread: u32) -> Access {
    Access { page: PageId { mapping: MappingId(mapping), index: PageIndex(index) }, kind, thread }
}

fn any_access() -> impl Strategy<Value = Access> {
    let mapping = prop_oneof![4 => 0..20u32, 1 => any::<u32>()];
    let index = prop_oneof![4 => 0..1_000u64, 1 => any::<u64>()];
    let kind = prop::sample::select(&AccessKind::ALL[..]);
    let thread = prop_oneof![4 => 0..3u32, 1 => any::<u32>()];
    (mapping, index, kind, thread).prop_map(|(m, i, k, t)| access(m, i, k, t))
}

fn encode(accesses: &[Access]) -> Vec<u8> {
    let mut bytes = vec![];
    header().append_to(&mut bytes);
    let mut encoder = Encoder::new();
    for access in accesses {
        encoder.append(access, &mut bytes);
    }
    encoder.finish(&mut bytes);
    bytes
}

type Decoded = (Vec<Access>, Option<RecordError>, Option<Ending>);

fn decode(bytes: &[u8]) -> Result<Decoded, RecordError> {
    let (_, mut entries) = Entries::new(bytes)?;
    let (mut accesses, mut failure) = (vec![], None);
    for entry in entries.by_ref() {
        match entry {
            Ok(access) => accesses.push(access),
            Err(error) => failure = Some(error),
        }
    }
    assert!(entries.next().is_none(), "an ended iteration stays ended");
    Ok((accesses, failure, entries.ending()))
}

proptest! {
    #[test]
    fn every_access_survives_the_round_trip(
        accesses in prop::collection::vec(any_access(), 0..200),
    ) {
        let bytes = encode(&accesses);
        prop_assert_eq!(Header::decode(&bytes).map(|(header, _)| header), Ok(header()));
        prop_assert_eq!(decode(&bytes), Ok((accesses, None, Some(Ending::Complete))));
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = decode(&bytes);
        let mut record = vec![];
        header().append_to(&mut record);
        record.append(&mut bytes);
        // Each byte yields at most one entry, so the iteration ends.
        let (accesses, failure, ending) = decode(&record).expect("the header is whole");
        prop_assert!(accesses.len() <= record.len());
        prop_assert_eq!(failure.is_some(), ending.is_none());
    }

    #[test]
    fn flipped_bytes_never_panic(
        accesses in prop::collection::vec(any_access(), 1..50),
        at in any::<prop::sample::Index>(),
        flip in 1..=255u8,
    ) {
        let mut bytes = encode(&accesses);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let _ = decode(&bytes);
    }

    #[test]
    fn an_entry_is_never_longer_than_promised(access in any_access(), before in any_access()) {
        let (mut encoder, mut bytes) = (Encoder::new(), vec![]);
        encoder.append(&before, &mut bytes);
        bytes.clear();
        encoder.append(&access, &mut bytes);
        prop_assert!(bytes.len() <= ENTRY_BYTES_MAX);
    }
}

#[test]
fn every_cut_keeps_the_whole_entries_before_it() {
    let accesses: Vec<Access> =
        (0..20).map(|i| access(i % 3, u64::from(i) * 977, AccessKind::Read, i % 2)).collect();
    let bytes = encode(&accesses);
    let header_bytes = Header::decode(&bytes).expect("whole").1;
    let (mut encoder, mut boundaries) = (Encoder::new(), vec![header_bytes]);
    let mut entries = vec![];
    for access in &accesses {
        encoder.append(access, &mut entries);
        boundaries.push(header_bytes + entries.len());
    }
    for cut in header_bytes..bytes.len() {
        let whole = boundaries.iter().filter(|&&boundary| boundary <= cut).count() - 1;
        let is_clean = boundaries.contains(&cut);
        let ending = if is_clean { Ending::Unfinished } else { Ending::Torn };
        assert_eq!(decode(&bytes[..cut]), Ok((accesses[..whole].to_vec(), None, Some(ending))));
    }
}

#[test]
fn a_cut_header_says_what_it_needs() {
    let bytes = encode(&[]);
    for cut in 0..HEADER_FIXED_BYTES {
        let short = RecordError::HeaderShort { needed_bytes: HEADER_FIXED_BYTES };
        assert_eq!(Header::decode(&bytes[..cut]), Err(short));
    }
    let needed_bytes = HEADER_FIXED_BYTES + "mglru".len();
    let short = RecordError::HeaderShort { needed_bytes };
    assert_eq!(Header::decode(&bytes[..needed_bytes - 1]), Err(short));
    assert_eq!(Header::decode(&bytes[..needed_bytes]), Ok((header(), needed_bytes)));
}

#[test]
fn foreign_headers_are_refused() {
    assert_eq!(Header::decode(b"time,object"), Err(RecordError::BadMagic));
    let mut bytes = encode(&[]);
    bytes[8] = 9;
    assert_eq!(Header::decode(&bytes), Err(RecordError::UnknownVersion { found: 9 }));
    let mut bytes = encode(&[]);
    bytes[10] = 65;
    assert_eq!(Header::decode(&bytes), Err(RecordError::BadPolicyName));
    let mut bytes = encode(&[]);
    bytes[HEADER_FIXED_BYTES] = 0xff;
    assert_eq!(Header::decode(&bytes), Err(RecordError::BadPolicyName));
}

#[test]
fn damage_after_the_header_is_located() {
    let mut bytes = vec![];
    header().append_to(&mut bytes);
    let offset = bytes.len() as u64;
    // A thread number of 2^35 - 1.
    let mut damaged = bytes.clone();
    damaged.extend_from_slice(&[THREAD_FOLLOWS, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    assert_eq!(decode(&damaged), Ok((vec![], Some(RecordError::NumberTooLarge { offset }), None)));
    // A delta that never ends.
    let mut damaged = bytes.clone();
    damaged.extend_from_slice(&[0xe0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255]);
    assert_eq!(decode(&damaged), Ok((vec![], Some(RecordError::NumberTooLarge { offset }), None)));
    // A kind between the last known one and the end.
    let mut damaged = bytes.clone();
    damaged.extend_from_slice(&[0, KIND_END - 1]);
    let unknown = RecordError::UnknownKind { kind: KIND_END - 1, offset: offset + 1 };
    let first = access(0, 0, AccessKind::Read, 0);
    assert_eq!(decode(&damaged), Ok((vec![first], Some(unknown), None)));
    // An end that counts an entry nobody wrote.
    let mut damaged = bytes.clone();
    damaged.extend_from_slice(&[KIND_END, 1]);
    let wrong = RecordError::WrongCount { stated: 1, found: 0 };
    assert_eq!(decode(&damaged), Ok((vec![], Some(wrong), None)));
    // Two records in one file.
    bytes.extend_from_slice(&[KIND_END, 0, 0]);
    let after = RecordError::AfterEnd { offset: offset + 2 };
    assert_eq!(decode(&bytes), Ok((vec![], Some(after), None)));
}

#[test]
fn local_accesses_cost_few_bytes() {
    let (mut encoder, mut bytes) = (Encoder::new(), vec![]);
    for index in 0..1000 {
        encoder.append(&access(0, index, AccessKind::Read, 0), &mut bytes);
    }
    assert_eq!(bytes.len(), 1000, "a sequential read is one byte a page");
    let (mut encoder, mut bytes) = (Encoder::new(), vec![]);
    let mut random: u64 = 1;
    for _ in 0..1000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        encoder.append(&access(0, random >> 44, AccessKind::Read, 0), &mut bytes);
    }
    assert!(bytes.len() <= 4000, "random reads in 4 GiB: {} bytes for 1000", bytes.len());
}

/// The byte table in `docs/formats.md` shows these very bytes.
#[test]
fn the_documented_example_holds() {
    let mut bytes = encode(&[
        access(0, 3, AccessKind::Read, 0),
        access(0, 4, AccessKind::Read, 0),
        access(2, 1000, AccessKind::TableWrite, 1),
    ]);
    let entries = bytes.split_off(HEADER_FIXED_BYTES + "mglru".len());
    assert_eq!(
        entries,
        [0xc0, 0x06, 0x80, 0xf6, 0x01, 0x02, 0xd0, 0x0f, KIND_END, 0x03],
        "first entry: zigzag(3) = 6 follows; second: zigzag(1) = 2 in the tag"
    );
}
