use super::*;
use crate::units::Bytes;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use proptest::prelude::*;

const GIB: u64 = Bytes(1 << 30).whole_pages();

/// Mappings that are resident from an index on, or not at all.
struct Space {
    scanner: HintScanner,
    mappings: BTreeMap<MappingId, (ScannedMapping, Range<u64>)>,
    now: Millis,
}

impl Space {
    fn new(scan_pages: u64, lengths: &[(u64, Range<u64>)]) -> Space {
        let knobs = TieringKnobs { scan_pages, ..TieringKnobs::default() };
        let mappings = lengths.iter().enumerate().map(|(id, (nr_pages, resident))| {
            let id = MappingId(id as u32);
            let mapping = ScannedMapping { id, nr_pages: *nr_pages, created: Millis(0) };
            (id, (mapping, resident.clone()))
        });
        let scanner = HintScanner::new(&knobs, Millis(0));
        Space { scanner, mappings: mappings.collect(), now: Millis(1000) }
    }

    fn run(&mut self) -> Vec<ScanChunk> {
        let mut run = self.scanner.start_run(self.now, Millis(1000)).unwrap();
        self.now.0 += 1000;
        let mut chunks = Vec::new();
        let from = |id| self.mappings.range(id..).next().map(|(_, (mapping, _))| *mapping);
        while let Some(chunk) = run.next_chunk(from) {
            let resident = &self.mappings[&chunk.mapping].1;
            let end = chunk.pages.end.min(resident.end);
            let nr_armed = end.saturating_sub(chunk.pages.start.max(resident.start));
            run.scanned(nr_armed);
            chunks.push(chunk);
        }
        self.scanner.end_run(&run);
        chunks
    }

    fn nr_pages_of_run(&mut self) -> u64 {
        self.run().iter().map(|chunk| chunk.pages.end - chunk.pages.start).sum()
    }
}

fn resident(nr_pages: u64) -> (u64, Range<u64>) {
    (nr_pages, 0..nr_pages)
}

fn chunk(mapping: u32, pages: Range<u64>) -> ScanChunk {
    ScanChunk { mapping: MappingId(mapping), pages }
}

#[test]
fn a_resident_gibibyte_is_four_runs_a_sequence() {
    let mut space = Space::new(65_536, &[resident(GIB)]);
    for round in 0..3 {
        for part in 0..4 {
            assert_eq!(space.run(), [chunk(0, part * 65_536..(part + 1) * 65_536)]);
            assert_eq!(space.scanner.sequence(), round, "the end is met by the next run");
        }
    }
}

#[test]
fn holes_cost_eight_times_less() {
    let mut space = Space::new(65_536, &[(8 * GIB, 4 * GIB..8 * GIB)]);
    assert_eq!(space.nr_pages_of_run(), 2 * GIB);
    assert_eq!(space.nr_pages_of_run(), 2 * GIB);
    assert_eq!(space.run(), [chunk(0, 4 * GIB..4 * GIB + 65_536)]);
}

#[test]
fn runs_resume_where_the_last_one_ended_and_wrap_at_the_end() {
    let mut space = Space::new(1024, &[resident(700), resident(2000)]);
    assert_eq!(space.run(), [chunk(0, 0..700), chunk(1, 0..512)]);
    assert_eq!(space.run(), [chunk(1, 512..1536)]);
    assert_eq!(space.run(), [chunk(1, 1536..2000)], "the run ends at the end");
    assert_eq!(space.scanner.sequence(), 1);
    assert_eq!(space.run(), [chunk(0, 0..700), chunk(1, 0..512)]);
}

#[test]
fn pieces_end_at_huge_pages() {
    let mut space = Space::new(100, &[resident(700)]);
    assert_eq!(space.run(), [chunk(0, 0..512)]);
    assert_eq!(space.run(), [chunk(0, 512..700)]);
}

#[test]
fn an_empty_address_space_ends_a_run_at_once() {
    let mut space = Space::new(1024, &[]);
    assert_eq!(space.run(), []);
    assert_eq!(space.run(), []);
    let mut space = Space::new(1024, &[resident(0)]);
    assert_eq!(space.run(), []);
}

#[test]
fn mappings_may_go_away_between_runs() {
    let mut space = Space::new(512, &[resident(700), resident(2000)]);
    assert_eq!(space.run(), [chunk(0, 0..512)]);
    space.mappings.remove(&MappingId(0));
    assert_eq!(space.run(), [chunk(1, 0..512)]);
    space.mappings.remove(&MappingId(1));
    assert_eq!(space.run(), []);
}

#[test]
fn new_mappings_wait_after_the_first_sequence() {
    let mut space = Space::new(512, &[resident(512), resident(512)]);
    space.mappings.get_mut(&MappingId(0)).unwrap().0.created = Millis(900);
    assert_eq!(space.run(), [chunk(0, 0..512)], "nothing is too new at first");
    assert_eq!(space.run(), [chunk(1, 0..512)]);
    let id = MappingId(0);
    space.mappings.get_mut(&id).unwrap().0.created = Millis(space.now.0 - 999);
    assert_eq!(space.run(), [chunk(1, 0..512)]);
    assert_eq!(space.run(), [chunk(0, 0..512)], "old enough by now");
}

#[test]
fn runs_are_a_period_apart_and_the_first_is_delayed() {
    let mut scanner = HintScanner::new(&TieringKnobs::default(), Millis(500));
    let period = Millis(250);
    assert!(scanner.start_run(Millis(1499), period).is_none());
    assert!(scanner.start_run(Millis(1500), period).is_some());
    assert!(scanner.start_run(Millis(1500), period).is_none(), "one task wins");
    assert!(scanner.start_run(Millis(1749), period).is_none());
    assert!(scanner.start_run(Millis(1750), period).is_some());
}

#[test]
#[should_panic(expected = "a piece of 512 pages was not reported")]
fn an_unreported_piece_is_a_mistake() {
    let mut scanner = HintScanner::new(&TieringKnobs::default(), Millis(0));
    let mut run = scanner.start_run(Millis(1000), Millis(1)).unwrap();
    let mapping = ScannedMapping { id: MappingId(0), nr_pages: 512, created: Millis(0) };
    let _ = run.next_chunk(|_| Some(mapping));
    let _ = run.next_chunk(|_| Some(mapping));
}

#[test]
fn only_pages_that_a_hint_could_move_are_armed() {
    let slow =
        EntryFacts { flags: Flags::NONE, is_armed: false, is_pinned: false, is_top_tier: false };
    assert!(slow.wants_hint());
    assert!(!EntryFacts { is_armed: true, ..slow }.wants_hint());
    assert!(!EntryFacts { is_pinned: true, ..slow }.wants_hint());
    assert!(!EntryFacts { flags: Flags::DIRTY, ..slow }.wants_hint());
    assert!(EntryFacts { flags: Flags::DIRTY.with(Flags::ANON), ..slow }.wants_hint());
    assert!(!EntryFacts { is_top_tier: true, ..slow }.wants_hint());
}

proptest! {
    /// A sequence visits every page once, in order. Runs exceed budgets by rounding only.
    #[test]
    fn a_sequence_visits_every_page_once(
        scan_pages in 1u64..3000,
        lengths in prop::collection::vec((0u64..6000, 0u64..6000), 1..6),
    ) {
        let lengths: Vec<_> = lengths.iter().map(|(nr, from)| (*nr, *from..*nr)).collect();
        let mut space = Space::new(scan_pages, &lengths);
        let mut visited: BTreeMap<MappingId, u64> = BTreeMap::new();
        // The run that meets the end may begin the next sequence.
        let mut nr_runs = 0;
        'sequence: while space.scanner.sequence() == 0 {
            nr_runs += 1;
            prop_assert!(nr_runs < 10_000);
            let mut nr_run = 0;
            for chunk in space.run() {
                nr_run += chunk.pages.end - chunk.pages.start;
                let expected = visited.entry(chunk.mapping).or_default();
                let is_done = *expected == space.mappings[&chunk.mapping].0.nr_pages;
                if is_done && chunk.pages.start == 0 {
                    break 'sequence;
                }
                prop_assert_eq!(chunk.pages.start, *expected);
                *expected = chunk.pages.end;
            }
            prop_assert!(nr_run <= 8 * scan_pages + scan_pages + CHUNK_ALIGN);
        }
        for (mapping, _) in space.mappings.values() {
            let nr_visited = visited.get(&mapping.id).copied().unwrap_or(0);
            prop_assert_eq!(nr_visited, mapping.nr_pages);
        }
    }
}

#[test]
fn scattered_pieces_are_all_there_and_neighbours_are_far_apart() {
    for count in [1, 2, 3, 4, 5, 100, 809, 2432] {
        let mut places: Vec<u32> = (0..count).map(|nth| scattered(nth, count)).collect();
        if count > 8 {
            let leaps = places.windows(2).map(|pair| pair[0].abs_diff(pair[1]));
            assert!(leaps.min().is_some_and(|least| least > count / 4), "{count}");
            // Any tenth of the order touches every eighth of the pieces.
            let eighth = |place: &u32| place * 8 / count;
            let found = |tenth: &[u32]| (0..8).all(|at| tenth.iter().any(|it| eighth(it) == at));
            let nr = (count as usize / 10).max(16);
            assert!(places.windows(nr).all(found), "{count}");
        }
        places.sort_unstable();
        assert!(places.into_iter().eq(0..count), "{count}");
    }
}
