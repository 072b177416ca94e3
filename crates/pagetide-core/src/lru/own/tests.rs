//! Stated results of the whole policy, beyond conformance.

use super::*;
use crate::ids::{MappingId, PageId, PageIndex};
use crate::lru::{
    Lruvec, Marked, PolicyChoice, PolicyConfig, PolicyName, ReclaimBatch, Settled, Verdict,
};
use crate::reclaim::{ReclaimPass, Step};
use crate::vmstat::Counter;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

struct Reads {
    folios: Arc<Folios>,
    lruvec: Lruvec,
    log: crate::lru::AccessLog,
    resident: BTreeMap<u64, FrameId>,
    shadows: BTreeMap<u64, ShadowEntry>,
    free: Vec<FrameId>,
    types: fn(u64) -> crate::ids::PageType,
    /// True if the log entry of a touch is lost.
    loses: fn(u64) -> bool,
}

impl Reads {
    fn new(config: &LruConfig) -> Reads {
        Reads::tuned(Tuning::default(), config)
    }

    fn tuned(tuning: Tuning, config: &LruConfig) -> Reads {
        let folios = Arc::new(Folios::new(config.nr_frames));
        let config_of_policy = PolicyConfig::Pagetide(tuning);
        let policy = PolicyChoice { name: PolicyName::Pagetide, config: config_of_policy };
        Reads {
            lruvec: Lruvec::new(policy, config, folios.clone()),
            folios,
            log: crate::lru::AccessLog::new(),
            resident: BTreeMap::new(),
            shadows: BTreeMap::new(),
            free: (0..config.nr_frames).rev().map(FrameId).collect(),
            types: |_| crate::ids::PageType::File,
            loses: |_| false,
        }
    }

    fn read(&mut self, page: u64) -> bool {
        self.read_as(page, AccessPath::Descriptor)
    }

    /// Brings a missing page in by `kind`.
    fn read_as(&mut self, page: u64, kind: AccessPath) -> bool {
        if let Some(frame) = self.resident.get(&page).copied() {
            let marked = self.lruvec.access_rule().mark(&self.folios, frame);
            if marked == Marked::Log && !(self.loses)(page) {
                let _ = self.log.touch(frame);
                self.lruvec.drain(&mut self.log);
            }
            return true;
        }
        self.fill(page, kind);
        false
    }

    fn read_ahead(&mut self, page: u64) {
        if !self.resident.contains_key(&page) {
            self.fill(page, AccessPath::Readahead);
        }
    }

    fn fill(&mut self, page: u64, kind: AccessPath) {
        let shadow = self.shadows.remove(&page);
        if self.free.is_empty() {
            self.reclaim(shadow);
        }
        let Some(frame) = self.free.pop() else { return };
        let id = PageId { mapping: MappingId(0), index: PageIndex(page) };
        let flags = self.lruvec.access_rule().flags_on_fill(kind);
        self.folios[frame].bind(id, (self.types)(page), flags);
        if let Some(shadow) = shadow {
            self.lruvec.refault(&mut self.log, frame, shadow, kind);
        }
        let _ = self.log.add(&self.folios, frame);
        self.lruvec.drain(&mut self.log);
        self.resident.insert(page, frame);
    }

    /// Returns the number of pages resident when read.
    fn stream(&mut self, pages: core::ops::Range<u64>) -> usize {
        const WINDOW: u64 = 64;
        let mut nr_hits = 0;
        for page in pages.clone() {
            if (page - pages.start).is_multiple_of(WINDOW) {
                (page..(page + 2 * WINDOW).min(pages.end)).for_each(|ahead| self.read_ahead(ahead));
            }
            nr_hits += usize::from(self.read(page));
        }
        nr_hits
    }

    fn reclaim(&mut self, incoming: Option<ShadowEntry>) {
        let mut pass = ReclaimPass::direct_for(&self.lruvec, incoming);
        let mut batch = ReclaimBatch::new();
        while self.lruvec.isolate(&mut pass, &mut batch) != Step::Done {
            for victim in batch.victims_mut() {
                let is_anon = self.folios[victim.frame].flags().any(Flags::ANON);
                assert!(!is_anon, "an anonymous folio without swap was taken for a victim");
                victim.verdict = Verdict::Claimed;
            }
            self.lruvec.settle(&mut pass, &mut batch);
            for settled in batch.settled.drain(..) {
                let Settled::Evicted { page, frame, shadow } = settled else { continue };
                self.resident.remove(&page.index.0);
                self.shadows.extend(shadow.map(|shadow| (page.index.0, shadow)));
                self.free.push(frame);
            }
        }
    }

    fn policy(&self) -> &Pagetide {
        match &self.lruvec.policy {
            crate::lru::registry::Policy::Pagetide(policy) => policy,
            _ => panic!("another policy"),
        }
    }

    fn nr_hits(&mut self, pages: impl IntoIterator<Item = u64>) -> usize {
        pages.into_iter().filter(|page| self.read(*page)).count()
    }
}

#[test]
fn a_page_that_was_brought_by_a_fault_is_hit_when_it_is_young_again() {
    let mut reads = Reads::new(&LruConfig::file_only(64));
    for (page, kind, seen) in [(1, AccessPath::Table, [0, 1]), (2, AccessPath::Descriptor, [1, 2])]
    {
        reads.read_as(page, kind);
        for nr_hits in seen {
            let frame = reads.resident[&page];
            reads.lruvec.report_young(&[frame]);
            assert_eq!(reads.folios[frame].hits().count(), nr_hits, "page {page}");
        }
    }
}

#[test]
fn a_loop_longer_than_memory_hits_as_often_as_can_be() {
    let mut reads = Reads::new(&LruConfig::file_only(200));
    reads.nr_hits((0..10).flat_map(|_| 0..300));
    assert_eq!(reads.nr_hits(0..300), 198);
    assert_eq!(reads.policy().engine.len_of(Place::Main), 198);
    reads.lruvec.validate();
}

#[test]
fn an_idle_set_outlives_a_stream_longer_than_memory() {
    let mut reads = Reads::new(&LruConfig::file_only(1024));
    reads.nr_hits((0..5).flat_map(|_| 0..256));
    reads.nr_hits((0..8).flat_map(|_| 1000..2100));
    assert_eq!(reads.nr_hits(0..256), 256);
}

/// The stream seems to fit.
#[test]
fn an_idle_set_outlives_a_stream_that_readahead_brings() {
    let mut reads = Reads::new(&LruConfig::file_only(1024));
    assert_eq!((0..5).map(|_| reads.stream(0..256)).sum::<usize>(), 5 * 256);
    assert_eq!((0..8).map(|_| reads.stream(1000..2100)).sum::<usize>(), 8 * 1100);
    let nr_left = reads.nr_hits(0..256);
    assert!(nr_left >= 250, "{nr_left} of 256");
    reads.lruvec.validate();
}

/// Probation has 10 frames, two windows 128.
#[test]
fn what_readahead_brings_waits_until_it_is_read() {
    let mut reads = Reads::new(&LruConfig::file_only(1024));
    reads.nr_hits((0..4).flat_map(|_| 0..1500));
    assert_eq!(reads.stream(5000..9000), 4000);
    reads.lruvec.validate();
}

#[test]
fn what_nobody_reads_is_the_next_to_go() {
    let mut reads = Reads::new(&LruConfig::file_only(1024));
    reads.nr_hits((0..4).flat_map(|_| 0..1500));
    (5000..5100).for_each(|page| reads.read_ahead(page));
    let nr_left = |reads: &Reads| (5000..5100).filter(|it| reads.resident.contains_key(it)).count();
    reads.nr_hits(10_000..10_100);
    assert_eq!(nr_left(&reads), 100, "for a turn of 128 distinct pages");
    reads.nr_hits(10_100..10_500);
    assert_eq!(nr_left(&reads), 0);
    (20_000..21_000).for_each(|page| reads.read_ahead(page));
    let nr_waiting = reads.policy().unread.len();
    assert!(nr_waiting <= 1024 / 4 + 1, "a quarter waits, and what has just come: {nr_waiting}");
    reads.lruvec.validate();
}

/// Random pages return after 1800 others, scanned ones after 2100. Memory holds 1024.
#[test]
fn a_scan_gets_the_room_that_random_reads_leave() {
    let mut reads = Reads::new(&LruConfig::file_only(1024));
    let mut nr_hits = 0;
    for round in 0..12 {
        nr_hits = 0;
        for nth in 0..100 {
            let from = 100_000 + nth * 20;
            reads.stream(from..from + 20);
            nr_hits += usize::from(reads.read((round * 100 + nth) % 86));
        }
    }
    assert!(nr_hits > 80, "{nr_hits} of 100");
}

/// The pages return after 4800 pages of a scan. Memory holds 1024.
#[test]
fn what_is_read_beside_a_stream_is_remembered() {
    let hits_beside = |kind: AccessPath| {
        let mut reads = Reads::new(&LruConfig::file_only(1024));
        let mut scan = (100_000..109_000).cycle();
        let mut nr_hits = 0;
        for page in (0..6).flat_map(|_| 0..300) {
            nr_hits += usize::from(reads.read(page));
            for at in scan.by_ref().take(16) {
                reads.read_as(at, kind);
            }
        }
        reads.lruvec.validate();
        nr_hits
    };
    let [run, alone] = [AccessPath::Run, AccessPath::Descriptor].map(hits_beside);
    assert!(run >= 4 * 300 && alone <= 300, "{run}, {alone} if each page of the scan were a wait");
}

#[test]
fn a_set_gives_nothing_for_pages_that_wait() {
    let mut reads = Reads::new(&LruConfig::file_only(4096));
    for _ in 0..5 {
        reads.stream(0..1024);
    }
    for pass in 0..10 {
        let mut from = 10_000;
        while from < 14_342 {
            let pages = from..(from + (8 << (pass / 2))).min(14_342);
            from = pages.end;
            pages.clone().for_each(|page| reads.read_ahead(page));
            pages.for_each(|page| _ = reads.read(page));
        }
    }
    reads.lruvec.validate();
    let nr_left = (0..1024).filter(|page| reads.resident.contains_key(page)).count();
    assert_eq!(nr_left, 1024);
}

/// The reader brings in pages of the stream itself.
#[test]
fn a_stream_that_overtakes_its_readahead_takes_no_place_of_the_set() {
    let set_left = |late: AccessPath| {
        let mut reads = Reads::new(&LruConfig::file_only(4096));
        for _ in 0..5 {
            reads.stream(0..1024);
        }
        for _ in 0..10 {
            for page in 10_000..14_342_u64 {
                if page.is_multiple_of(64) {
                    let ahead = page + 32..(page + 64).min(14_342);
                    ahead.for_each(|ahead| reads.read_ahead(ahead));
                }
                reads.read_as(page, late);
            }
        }
        reads.lruvec.validate();
        (0..1024).filter(|page| reads.resident.contains_key(page)).count()
    };
    let [run, alone] = [AccessPath::Run, AccessPath::Descriptor].map(set_left);
    assert!(run >= 1020 && alone < 1000, "{run} of 1024, {alone} if each were a wait of its own");
}

#[test]
fn a_new_working_set_gets_in() {
    let mut reads = Reads::new(&LruConfig::file_only(1024));
    for set in 0..3 {
        reads.nr_hits((0..6).flat_map(|_| set * 5000..set * 5000 + 768));
        assert_eq!(reads.nr_hits(set * 5000..set * 5000 + 768), 768, "set {set}");
    }
}

/// Slides a window.
fn window(len: u64) -> impl Iterator<Item = u64> {
    (0..len).flat_map(|at| [at / 4, (at / 4).saturating_sub(at * 31 % 100)])
}

fn a_loop(len: u64, rounds: u64) -> impl Iterator<Item = u64> {
    (0..rounds).flat_map(move |_| 900_000..900_000 + len)
}

/// The queue may take charge in a loop.
#[test]
fn the_selection_follows_the_trace() {
    let mut reads = Reads::new(&LruConfig::file_only(128));
    let chosen = |reads: &Reads| reads.policy().selection.as_ref().expect("it is on").chosen();
    reads.nr_hits(window(40_000));
    assert_ne!(chosen(&reads), 0);
    reads.nr_hits(a_loop(180, 100));
    assert!([0, 3].contains(&chosen(&reads)));
    let nr_hits = reads.nr_hits(a_loop(180, 10));
    assert!(nr_hits > 1200, "{nr_hits} of 1800");
    reads.lruvec.validate();
}

#[test]
fn the_seed_decides_everything() {
    let reads_with = |seed| {
        let tuning = Tuning { seed, sample_frames_min: 32, ..Tuning::default() };
        Reads::tuned(tuning, &LruConfig::file_only(256))
    };
    let play = |seed| {
        let mut reads = reads_with(seed);
        let hits = reads.nr_hits(window(9000).chain(a_loop(400, 20)));
        (hits, reads.resident.into_keys().collect::<Vec<_>>())
    };
    assert_eq!(play(1), play(1));
    let sampled = |seed| {
        let reads = reads_with(seed);
        let page = |index| PageId { mapping: MappingId(0), index: PageIndex(index) };
        let selection = reads.policy().selection.as_ref().expect("it is on");
        (0..4000).filter(|index| selection.samples(page(*index))).collect::<Vec<_>>()
    };
    assert_ne!(sampled(1), sampled(2));
    assert_eq!(sampled(1).len(), 500, "one page in eight");
}

/// Exact but for the file's ends.
#[test]
fn of_each_block_one_page_is_sampled() {
    for seed in 0..50 {
        let tuning = Tuning { seed, sample_frames_min: 32, ..Tuning::default() };
        let selection = Selection::new(256, 0, &tuning, Switches::default());
        for block in 0..40_u64 {
            let page = |index| PageId { mapping: MappingId(7), index: PageIndex(index) };
            let is_sampled = |index: &u64| selection.samples(page(*index));
            let nr_sampled = (8 * block..8 * block + 8).filter(is_sampled).count();
            assert_eq!(nr_sampled, 1, "block {block}, seed {seed}");
        }
    }
}

#[test]
fn a_shadow_tells_when_and_how_long_ago() {
    let mut policy = Pagetide::new(&LruConfig::file_only(1 << 20));
    assert_eq!(policy.unit_shift, 12);
    let shadow = ShadowEntry::new(policy.pack(0xabcd), policy.id, true);
    policy.evicted = 1 << 25;
    assert_eq!(policy.unpack(shadow), Past { evicted: 1 << 25, epoch: 0xabcd });
    policy.evicted = 1 << 33;
    assert_eq!(policy.unpack(shadow).evicted, 0, "512 memories later it looks recent");
}

#[test]
fn memory_is_as_large_as_what_it_holds() {
    let mut reads = Reads::new(&LruConfig::file_only(400));
    reads.free.truncate(200);
    reads.nr_hits((0..10).flat_map(|_| 0..300));
    assert_eq!(reads.policy().engine.capacity(), 200);
    assert_eq!(reads.nr_hits(0..300), 198);
}

/// Too few free frames to restart.
#[test]
fn frames_that_stay_free_are_no_room_in_main() {
    let mut reads = Reads::new(&LruConfig::file_only(1000));
    reads.free.truncate(970);
    reads.nr_hits((0..10).flat_map(|_| 0..1200));
    let nr_hits = reads.nr_hits(0..1200);
    assert!((900..970).contains(&nr_hits), "{nr_hits} hits");
    assert!(reads.policy().engine.is_main_full() && reads.policy().engine.capacity() == 1000);
}

#[test]
fn memory_that_shrinks_and_grows_is_followed() {
    let mut reads = Reads::new(&LruConfig::file_only(400));
    reads.nr_hits((0..10).flat_map(|_| 0..600));
    assert_eq!(reads.policy().engine.capacity(), 400);
    let mut taken = Vec::new();
    while taken.len() < 250 {
        reads.reclaim(None);
        taken.append(&mut reads.free);
    }
    reads.nr_hits((0..10).flat_map(|_| 0..600));
    let shrunk = reads.resident.len() as u32;
    assert!((130..=150).contains(&shrunk), "{shrunk} pages are left");
    assert!(reads.policy().engine.capacity().abs_diff(shrunk) <= shrunk / 8 + LOG_LEN as u32);
    reads.lruvec.validate();
    reads.free.append(&mut taken);
    reads.nr_hits((0..20).flat_map(|_| 0..600));
    let capacity = reads.policy().engine.capacity();
    assert!((350..=400).contains(&capacity), "{capacity} of 400 frames");
    assert!(reads.nr_hits(0..600) > 300, "a loop keeps most of memory again");
    reads.lruvec.validate();
}

#[test]
fn lost_touches_break_no_invariant() {
    let losses: [fn(u64) -> bool; 2] = [|page| page % 3 != 0, |_| true];
    for loses in losses {
        let mut reads = Reads::new(&LruConfig::file_only(1024));
        reads.loses = loses;
        reads.nr_hits((0..5).flat_map(|_| 0..256));
        reads.nr_hits(window(20_000).map(|page| page + 5000));
        reads.lruvec.validate();
        reads.nr_hits((0..5).flat_map(|_| 0..256));
        assert_eq!(reads.nr_hits(0..256), 256);
        reads.lruvec.validate();
    }
}

/// Up and down: the most recent page comes back first.
#[test]
fn the_recency_setting_is_next_to_lru_on_a_zigzag() {
    let usual = Tuning::default();
    let tuning = Tuning { settings: [usual.settings[2]; NR_SETTINGS], ..usual };
    let mut reads = Reads::tuned(tuning, &LruConfig::file_only(2000));
    let zigzag = || (0..3000).chain((0..3000).rev());
    reads.nr_hits((0..10).flat_map(|_| zigzag()));
    let nr_hits = reads.nr_hits(zigzag());
    assert!((3900..=4000).contains(&nr_hits), "{nr_hits} of 4000");
    reads.lruvec.validate();
}

/// Reads each page twice, 400 new ones apart. Half of LRU's memory is enough.
fn pairs(nr: u64) -> impl Iterator<Item = u64> {
    (400..400 + nr).flat_map(|newest| [newest, newest - 400])
}

/// Starts from a memory half full of dead pages.
#[test]
fn the_queue_holds_a_log_that_is_read_far_behind_its_end() {
    let mut reads = Reads::new(&LruConfig::file_only(512));
    let nr_hits_at_first = reads.nr_hits(pairs(4000));
    assert!(nr_hits_at_first < 1000, "{nr_hits_at_first} of 8000");
    reads.nr_hits(pairs(8000).map(|page| page + 4000));
    assert_eq!(reads.policy().selection_summary().expect("it is on").chosen, "queue");
    let nr_hits = reads.nr_hits(pairs(4000).map(|page| page + 12_000));
    assert!(nr_hits > 3900, "{nr_hits} of 8000");
    reads.lruvec.validate();
}

/// The queue would hit the stream more often.
#[test]
fn an_idle_set_is_kept_from_the_queue_for_as_long_as_it_is_remembered() {
    let mut reads = Reads::new(&LruConfig::file_only(2048));
    let stream = |passes| (0..passes).flat_map(|_| 5000..7171);
    reads.nr_hits((0..5).flat_map(|_| 0..512));
    reads.nr_hits(stream(10));
    assert_ne!(reads.policy().selection_summary().expect("it is on").chosen, "queue");
    assert_eq!(reads.nr_hits(0..512), 512);
    reads.nr_hits(stream(60));
    assert_eq!(reads.policy().selection_summary().expect("it is on").chosen, "queue");
    assert!(reads.nr_hits(stream(1)) > 1900);
    reads.lruvec.validate();
}

/// A hit on a kept folio must not search the engine's lists.
#[test]
fn kept_folios_stay_apart_where_hits_move() {
    let usual = Tuning::default();
    let tuning = Tuning { settings: [usual.settings[2]; NR_SETTINGS], ..usual };
    let mut reads = Reads::tuned(tuning, &LruConfig::file_only(100));
    reads.types = |page| {
        if page < 20 { crate::ids::PageType::Anon } else { crate::ids::PageType::File }
    };
    reads.nr_hits((0..4).flat_map(|_| (0..40).chain(30..200)));
    assert_eq!(reads.policy().kept.len(), 20);
    assert_eq!(reads.nr_hits(0..20), 20);
    reads.lruvec.validate();
}

#[test]
fn anonymous_folios_without_swap_are_never_looked_at() {
    let mut reads = Reads::new(&LruConfig::file_only(100));
    reads.types = |page| {
        if page < 50 { crate::ids::PageType::Anon } else { crate::ids::PageType::File }
    };
    reads.nr_hits(0..5000);
    assert_eq!(reads.policy().kept.len(), 50);
    assert_eq!(reads.nr_hits(0..50), 50);
    reads.lruvec.validate();
}

#[test]
fn a_kept_folio_is_stamped_as_it_comes() {
    let mut reads = Reads::new(&LruConfig::file_only(100));
    reads.types = |page| match page {
        50 => crate::ids::PageType::Anon,
        _ => crate::ids::PageType::File,
    };
    (0..50).for_each(|page| assert!(!reads.read(page)));
    let now = reads.policy().engine.clock.now();
    assert!(now > 0 && !reads.read(50));
    assert_eq!(reads.policy().kept.len(), 1);
    assert_eq!(Stamp::of(&reads.folios[reads.resident[&50]]).epoch, now);
}

#[test]
fn strangers_wait_on_probation_once_a_page_was_demoted() {
    let mut reads = Reads::new(&LruConfig::file_only(100));
    (0..100).for_each(|page| assert!(!reads.read(page)));
    let place = |reads: &Reads, page: u64| Stamp::of(&reads.folios[reads.resident[&page]]).place;
    assert_eq!(place(&reads, 0), Place::Main);
    let mut pass = ReclaimPass::background(&reads.lruvec, 50);
    pass.scan.demotes = true;
    let mut batch = ReclaimBatch::new();
    while reads.lruvec.isolate(&mut pass, &mut batch) != Step::Done {
        batch.victims_mut().iter_mut().for_each(|victim| victim.verdict = Verdict::Demoted);
        reads.lruvec.settle(&mut pass, &mut batch);
        for settled in batch.settled.drain(..) {
            let Settled::Demoted { frame, .. } = settled else { panic!("{settled:?}") };
            reads.free.push(frame);
        }
    }
    reads.read(1000);
    assert_eq!(place(&reads, 1000), Place::Probation);
    assert_eq!(reads.lruvec.vmstat().read(Counter::PgdemoteBackground), 50);
}
