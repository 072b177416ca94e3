//! fair-zones: one file over two zones of memory, filled by preference or in turns.
//!
//! ```text
//!   file     ====================================>     memory and a tenth more, 20 times, in order
//!   zone 0   [      three quarters of memory      ]    preferred: its pages come and go
//!   zone 1   [ a quarter ]                             by preference: pages that got in stay
//! ```
//!
//! Each zone has its own lists, clock and background reclaim, which keeps up with the reads. All
//! pages are used equally often, so each activation is wrong, and evictions should match zone
//! sizes. By preference, reclaim keeps making room in the preferred zone, while pages in the second
//! zone stay and pass for hot. In turns ([`FairZones`]) pages live equally long, as refault
//! distances require. Conditions have no effect.
//!
//! Source: "thrash detection-based file cache sizing", 30 May 2013, patch 1 ("fundamentally relies
//! on fair aging").

use super::machine::Stopped;
use super::stage::{Stage, percent};
use super::{FRAMES, Metric, Scenario, SourceClaim};
use pagetide_core::folio::Folios;
use pagetide_core::ids::{FrameId, MappingId, PageId, PageIndex, PageType};
use pagetide_core::lru::{
    AccessLog, AccessPath, LruConfig, Lruvec, LruvecId, Marked, PolicyChoice, ReclaimBatch, Room,
    Settled, ShadowEntry, Verdict,
};
use pagetide_core::page_alloc::{FairZones, WatermarkInputs, WatermarkLevel, Watermarks};
use pagetide_core::reclaim::{ReclaimPass, Step};
use pagetide_core::vmstat::Counter;
use std::collections::BTreeMap;
use std::sync::Arc;

const PASSES: u32 = 20;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "fair-zones",
    story: "A file of 1.1 x memory is read 20 times over two zones, of 3/4 and 1/4 of memory.",
    source: "thrash detection series, 2013 (its first patch)",
    metrics: &[
        Metric::new(
            "activated_percent_by_preference",
            "Pages activated, of memory, where the first zone is preferred; 0 is right.",
            &[SourceClaim::of("active-inactive-2013", "443,214 pages of 16 GiB, 11")],
        ),
        Metric::new(
            "activated_percent_in_turns",
            "The same where the zones take turns; 0 is right.",
            &[SourceClaim::of("active-inactive-2013", "4,988 pages of 16 GiB, 0.1")],
        ),
        Metric::new(
            "small_zone_evictions_percent_by_preference",
            "Evictions from the zone of a quarter, the first zone preferred; 25 is fair.",
            &[],
        ),
        Metric::new(
            "small_zone_evictions_percent_in_turns",
            "The same where the zones take turns; 25 is fair.",
            &[SourceClaim::of_all("about 25: pages live equally long in each")],
        ),
    ],
    play,
};

fn play(stage: &mut Stage<'_>) -> Result<(), Stopped> {
    let nr_frames = stage.vary_frames(FRAMES);
    let nr_pages = nr_frames * 11 / 10;
    let start = stage.random.index(nr_pages);
    let mut played = Vec::new();
    for placement in [Placement::ByPreference, Placement::InTurns] {
        let mut memory = TwoZones::new(stage, placement, nr_frames);
        for _ in 0..PASSES {
            (start..nr_pages).chain(0..start).for_each(|page| memory.read(page.into()));
            stage.note_played(nr_pages.into())?;
        }
        played.push(memory);
    }
    for (name, memory) in
        ["activated_percent_by_preference", "activated_percent_in_turns"].iter().zip(&played)
    {
        let [preferred, other] = memory.count(Counter::Pgactivate);
        stage.measure(name, percent(preferred + other, nr_frames.into()));
    }
    let names =
        ["small_zone_evictions_percent_by_preference", "small_zone_evictions_percent_in_turns"];
    for (name, memory) in names.iter().zip(&played) {
        let [large, small] = memory.zones.each_ref().map(|zone| zone.nr_evicted);
        stage.measure(name, percent(small, large + small));
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Placement {
    /// The first zone above its low watermark.
    ByPreference,
    InTurns,
}

struct Zone {
    marks: Watermarks,
    folios: Arc<Folios>,
    lruvec: Lruvec,
    log: AccessLog,
    free: Vec<FrameId>,
    nr_evicted: u64,
}

impl Zone {
    fn new(policy: PolicyChoice, config: &LruConfig, memory: u32) -> Zone {
        let folios = Arc::new(Folios::for_one_thread(config.nr_frames));
        let single = WatermarkInputs::single_zone(config.nr_frames.into());
        Zone {
            marks: Watermarks::for_zone(&WatermarkInputs { lowmem: memory.into(), ..single }),
            lruvec: Lruvec::new(policy, config, Arc::clone(&folios)),
            folios,
            log: AccessLog::new(),
            free: (0..config.nr_frames).map(FrameId).collect(),
            nr_evicted: 0,
        }
    }

    fn is_above(&self, level: WatermarkLevel) -> bool {
        self.free.len() as u64 > self.marks.mark(level)
    }

    fn fill(&mut self, page: u64, shadow: Option<ShadowEntry>) -> FrameId {
        let frame = self.free.pop().expect("background reclaim keeps up");
        let id = PageId { mapping: MappingId(0), index: PageIndex(page) };
        let rule = self.lruvec.access_rule();
        let flags = rule.flags_on_fill(AccessPath::Descriptor);
        self.folios[frame].bind(id, PageType::File, flags);
        if let Some(shadow) = shadow {
            self.lruvec.refault(&mut self.log, frame, shadow, AccessPath::Descriptor);
        }
        let room = self.log.add(&self.folios, frame);
        self.drain_if(room == Room::Full);
        let marked = rule.mark_fill(&self.folios, frame);
        self.touch(marked, frame);
        frame
    }

    fn touch(&mut self, marked: Marked, frame: FrameId) {
        if marked == Marked::Log {
            let room = self.log.touch(frame);
            self.drain_if(room == Room::Full);
        }
    }

    fn drain_if(&mut self, is_due: bool) {
        if is_due {
            self.lruvec.drain(&mut self.log);
        }
    }

    /// Frees a page, or a batch if the policy does. Returns the pages.
    fn reclaim(&mut self) -> Vec<(u64, Option<ShadowEntry>)> {
        self.lruvec.drain(&mut self.log);
        let mut pass = ReclaimPass::background(&self.lruvec, 1);
        let mut batch = ReclaimBatch::new();
        let mut evicted = Vec::new();
        loop {
            match self.lruvec.isolate(&mut pass, &mut batch) {
                Step::TryEvict => {
                    batch.victims_mut().iter_mut().for_each(|it| it.verdict = Verdict::Claimed);
                }
                // No page is mapped, so none is young.
                Step::Look | Step::WalkTables => {}
                Step::Done => break,
            }
            self.lruvec.settle(&mut pass, &mut batch);
            for settled in batch.settled.drain(..) {
                let Settled::Evicted { page, frame, shadow } = settled else {
                    unreachable!("a zone without slower memory")
                };
                self.free.push(frame);
                evicted.push((page.index.0, shadow));
            }
        }
        self.nr_evicted += evicted.len() as u64;
        evicted
    }
}

/// Two zones with one background thread, which frees one page per page read in each zone below its
/// high watermark.
struct TwoZones {
    placement: Placement,
    zones: [Zone; 2],
    turns: FairZones,
    resident: BTreeMap<u64, (usize, FrameId)>,
    shadows: BTreeMap<u64, ShadowEntry>,
    is_background_awake: bool,
}

impl TwoZones {
    fn new(stage: &Stage<'_>, placement: Placement, nr_frames: u32) -> TwoZones {
        let small = nr_frames / 4;
        let zone = |node: u8, size: u32| {
            let id = LruvecId { group: 0, node };
            let config = LruConfig { id, ..stage.lru_config(size) };
            Zone::new(stage.policy(), &config, nr_frames)
        };
        let zones = [zone(0, nr_frames - small), zone(1, small)];
        TwoZones {
            placement,
            turns: FairZones::new(zones.iter().map(|zone| &zone.marks)),
            zones,
            resident: BTreeMap::new(),
            shadows: BTreeMap::new(),
            is_background_awake: false,
        }
    }

    fn read(&mut self, page: u64) {
        if let Some(&(at, frame)) = self.resident.get(&page) {
            let zone = &mut self.zones[at];
            let marked = zone.lruvec.access_rule().mark(&zone.folios, frame);
            return zone.touch(marked, frame);
        }
        let at = self.choose();
        self.turns.count_taken(at, 1);
        let shadow = self.shadows.remove(&page);
        let frame = self.zones[at].fill(page, shadow);
        self.resident.insert(page, (at, frame));
        self.run_background();
    }

    fn choose(&mut self) -> usize {
        for _ in 0..2 {
            let zones = &self.zones;
            let is_above_low = |at: usize| zones[at].is_above(WatermarkLevel::Low);
            let chosen = match self.placement {
                Placement::ByPreference => (0..2).find(|at| is_above_low(*at)),
                Placement::InTurns => self.turns.choose(is_above_low),
            };
            if let Some(at) = chosen {
                return at;
            }
            self.is_background_awake = true;
        }
        (0..2).find(|at| !self.zones[*at].free.is_empty()).expect("background reclaim keeps up")
    }

    fn run_background(&mut self) {
        for at in 0..2 {
            if self.is_background_awake && !self.zones[at].is_above(WatermarkLevel::High) {
                for (page, shadow) in self.zones[at].reclaim() {
                    self.resident.remove(&page);
                    self.shadows.extend(shadow.map(|shadow| (page, shadow)));
                }
            }
        }
        if self.zones.iter().all(|zone| zone.is_above(WatermarkLevel::High)) {
            self.is_background_awake = false;
        }
    }

    fn count(&self, counter: Counter) -> [u64; 2] {
        self.zones.each_ref().map(|zone| zone.lruvec.vmstat().read(counter))
    }
}
