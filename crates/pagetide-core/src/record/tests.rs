//! Every access, every cut, and arbitrary bytes.

use super::*;
use crate::group::GroupConfig;
use crate::ids::{GroupId, MappingId, PageId, PageIndex};
use crate::lru::{Mechanism, Switches};
use crate::page_alloc::PcpTuning;
use crate::tiering::{AbstractDistance, BalancingMode, DemotionMode, Stage, TieringKnobs};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

fn header() -> Header {
    Header {
        page_bytes: 4096,
        memory_frames: 131_072,
        memory_frames_max: 1 << 33,
        nr_cpus: 70_000,
        swappiness: 200,
        pcp_tuning: PcpTuning::Depth,
        pcp_high_fraction: 8,
        reclaimer: Some(Reclaimer::Background),
        policy: String::from("mglru"),
        tiers: None,
        switches: Switches::default(),
    }
}

fn tiers() -> RecordedTiers {
    let node =
        |nr_frames, nr_frames_max, distance| RecordedNode { nr_frames, nr_frames_max, distance };
    let nodes = [
        node(100, 100, AbstractDistance::DRAM),
        node(70_000, 80_000, AbstractDistance::SLOW),
        node(u32::MAX, u32::MAX, AbstractDistance(u32::MAX)),
    ];
    RecordedTiers {
        mode: BalancingMode::Tiering,
        demotion: DemotionMode::Off,
        switches: Stage::HotSelection.switches(),
        knobs: TieringKnobs { scan_pages: 12_345, rate_window: Millis(77), ..Default::default() },
        began: Millis(1 << 41),
        ..RecordedTiers::new(RecordedNodes::new(&nodes))
    }
}

fn tiered() -> Header {
    let switches = Switches::default().without(Mechanism::Tiers).with(Mechanism::ScanPrefetch);
    Header { tiers: Some(tiers()), switches, ..header() }
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

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..1_000u64, 1 => any::<u64>()]
}

fn group_note() -> impl Strategy<Value = Note> {
    let group = || any::<u16>().prop_map(GroupId);
    let config = (number(), number(), number());
    let config = config.prop_map(|(limit, min, low)| GroupConfig { limit, min, low });
    let set = (group(), group(), config).prop_map(|(group, parent, config)| GroupNote::Set {
        group,
        parent,
        config,
    });
    let reclaim =
        (group(), number()).prop_map(|(group, nr_pages)| GroupNote::Reclaim { group, nr_pages });
    let join = (any::<u32>(), group())
        .prop_map(|(mapping, group)| GroupNote::Join { mapping: MappingId(mapping), group });
    let remove = group().prop_map(GroupNote::Remove);
    prop_oneof![Just(GroupNote::Begin), set, reclaim, join, remove].prop_map(Note::Group)
}

fn any_note() -> impl Strategy<Value = Note> {
    let mapping = (any::<u32>(), number(), number()).prop_map(|(id, nr_pages, created)| {
        Note::Mapping(ScannedMapping { id: MappingId(id), nr_pages, created: Millis(created) })
    });
    prop_oneof![number().prop_map(|now| Note::Tick(Millis(now))), mapping, group_note()]
}

fn any_entry() -> impl Strategy<Value = Entry> {
    prop_oneof![
        4 => any_access().prop_map(Entry::Access),
        1 => any_note().prop_map(Entry::Note),
    ]
}

fn entries(accesses: &[Access]) -> Vec<Entry> {
    accesses.iter().copied().map(Entry::Access).collect()
}

fn append(encoder: &mut Encoder, entry: &Entry, bytes: &mut Vec<u8>) {
    match entry {
        Entry::Access(access) => encoder.append(access, bytes),
        Entry::Note(note) => encoder.append_note(note, bytes),
    }
}

fn encode_all(header: &Header, entries: &[Entry]) -> Vec<u8> {
    let mut bytes = vec![];
    header.append_to(&mut bytes);
    let mut encoder = Encoder::new();
    entries.iter().for_each(|entry| append(&mut encoder, entry, &mut bytes));
    encoder.finish(&mut bytes);
    bytes
}

fn encode(accesses: &[Access]) -> Vec<u8> {
    encode_all(&header(), &entries(accesses))
}

type Decoded = (Vec<Entry>, Option<RecordError>, Option<Ending>);

fn decode(bytes: &[u8]) -> Result<Decoded, RecordError> {
    let (_, mut entries) = Entries::new(bytes)?;
    let (mut decoded, mut failure) = (vec![], None);
    for entry in entries.by_ref() {
        match entry {
            Ok(entry) => decoded.push(entry),
            Err(error) => failure = Some(error),
        }
    }
    assert!(entries.next().is_none(), "an ended iteration stays ended");
    Ok((decoded, failure, entries.ending()))
}

proptest! {
    #[test]
    fn every_entry_survives_the_round_trip(
        entries in prop::collection::vec(any_entry(), 0..200),
        is_tiered in any::<bool>(),
    ) {
        let header = if is_tiered { tiered() } else { header() };
        let bytes = encode_all(&header, &entries);
        prop_assert_eq!(Header::decode(&bytes).map(|(header, _)| header), Ok(header));
        prop_assert_eq!(decode(&bytes), Ok((entries, None, Some(Ending::Complete))));
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = decode(&bytes);
        let mut record = vec![];
        header().append_to(&mut record);
        record.append(&mut bytes);
        // Each byte yields at most one entry.
        let (accesses, failure, ending) = decode(&record).expect("the header is whole");
        prop_assert!(accesses.len() <= record.len());
        prop_assert_eq!(failure.is_some(), ending.is_none());
    }

    #[test]
    fn flipped_bytes_never_panic(
        entries in prop::collection::vec(any_entry(), 1..50),
        at in any::<prop::sample::Index>(),
        flip in 1..=255u8,
    ) {
        let mut bytes = encode_all(&tiered(), &entries);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let _ = decode(&bytes);
    }

    #[test]
    fn an_entry_is_never_longer_than_promised(entry in any_entry(), before in any_entry()) {
        let (mut encoder, mut bytes) = (Encoder::new(), vec![]);
        append(&mut encoder, &before, &mut bytes);
        bytes.clear();
        append(&mut encoder, &entry, &mut bytes);
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
    let mut encoded = vec![];
    for access in &accesses {
        encoder.append(access, &mut encoded);
        boundaries.push(header_bytes + encoded.len());
    }
    for cut in header_bytes..bytes.len() {
        let whole = boundaries.iter().filter(|&&boundary| boundary <= cut).count() - 1;
        let is_clean = boundaries.contains(&cut);
        let ending = if is_clean { Ending::Unfinished } else { Ending::Torn };
        assert_eq!(decode(&bytes[..cut]), Ok((entries(&accesses[..whole]), None, Some(ending))));
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
    assert_eq!(Header::decode(&bytes[..needed_bytes + 3]), Ok((header(), needed_bytes + 3)));

    let mut whole = vec![];
    tiered().append_to(&mut whole);
    let names_bytes = "tiers,scan-prefetch".len();
    // Number of nodes, nodes, length of the names, names.
    let parts = [needed_bytes + 1, whole.len() - names_bytes - 2, whole.len() - names_bytes];
    for cut in needed_bytes..whole.len() {
        let needed_bytes = parts.into_iter().find(|end| cut < *end).unwrap_or(whole.len());
        let short = RecordError::HeaderShort { needed_bytes };
        assert_eq!(Header::decode(&whole[..cut]), Err(short));
    }
    assert_eq!(Header::decode(&whole), Ok((tiered(), whole.len())));
}

#[test]
fn a_mechanism_that_no_policy_has_is_refused() {
    let mut whole = vec![];
    tiered().append_to(&mut whole);
    *whole.last_mut().expect("a name") ^= 1;
    assert_eq!(Header::decode(&whole), Err(RecordError::UnknownMechanism));
}

#[test]
fn who_reclaimed_is_known() {
    for reclaimer in [None, Some(Reclaimer::Accesses), Some(Reclaimer::Background)] {
        let mut bytes = vec![];
        let header = Header { reclaimer, ..header() };
        header.append_to(&mut bytes);
        assert_eq!(Header::decode(&bytes).map(|(header, _)| header), Ok(header));
    }
    let mut bytes = encode(&[]);
    bytes[11] = 3;
    assert_eq!(Header::decode(&bytes), Err(RecordError::UnknownReclaimer { found: 3 }));
}

#[test]
fn tiers_that_make_no_sense_are_refused() {
    let mut whole = vec![];
    tiered().append_to(&mut whole);
    let start = HEADER_FIXED_BYTES + "mglru".len();
    // Nodes, switches, mode, demotion, and shortest and longest scan period.
    for (at, wrong) in [(0, 9), (1, 16), (2, 4), (3, 2), (4 + 3, 255)] {
        let mut damaged = whole.clone();
        damaged[start + at] = wrong;
        assert_eq!(Header::decode(&damaged), Err(RecordError::BadTiers), "byte {at}");
    }
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
    // An endless delta.
    let mut damaged = bytes.clone();
    damaged.extend_from_slice(&[0xe0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255]);
    assert_eq!(decode(&damaged), Ok((vec![], Some(RecordError::NumberTooLarge { offset }), None)));
    // Unknown kinds and notes, and a note with a mapping bit.
    let first = Entry::Access(access(0, 0, AccessKind::Read, 0));
    let more = [([KIND_MORE, 3], 17), ([KIND_MORE, 200], 200)];
    for (tag, kind) in more.into_iter().chain([([0x2e, NOTE_TICK], 0x2e)]) {
        let mut damaged = bytes.clone();
        damaged.push(0);
        damaged.extend_from_slice(&tag);
        let unknown = RecordError::UnknownKind { kind, offset: offset + 1 };
        assert_eq!(decode(&damaged), Ok((vec![first], Some(unknown), None)));
    }
    // An end with one entry too many.
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

/// The example in the module documentation.
#[test]
fn the_documented_example_holds() {
    let mut bytes = encode(&[
        access(0, 3, AccessKind::Read, 0),
        access(0, 4, AccessKind::Read, 0),
        access(2, 1000, AccessKind::TableWrite, 1),
    ]);
    let entries = bytes.split_off(HEADER_FIXED_BYTES + "mglru".len() + 3);
    assert_eq!(
        entries,
        [0xc0, 0x06, 0x80, 0xf6, 0x01, 0x02, 0xd0, 0x0f, KIND_END, 0x03],
        "first entry: zigzag(3) = 6 follows; second: zigzag(1) = 2 in the tag"
    );
}
