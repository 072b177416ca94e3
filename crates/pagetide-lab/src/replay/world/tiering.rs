//! Fast and slow memory in a replay: the page cache's moves in single steps without locks.
//!
//! ```text
//!   note   Mapping: a mapping to scan         Tick: the zones' time, and a scan, if it is due
//!   hit    of an armed page   --> core: stay | arm again | move to the fast node
//!          no or little room  --> background passes, at once: the slowest node's first
//!   pass   over a node with slower ones: a victim moves down, if there is a frame
//! ```
//!
//! Core decides page moves, and its driver picks the node to reclaim. Ignored: the cost of accesses
//! and moves, which decides nothing here.

use super::node::Node;
use super::{Mark, Word, World};
use crate::replay::memory::{Memory, TierMemory};
use pagetide_core::driver::{self, MovesPages, Tiered};
use pagetide_core::folio::Folio;
use pagetide_core::ids::{FrameId, MappingId, NodeId, PageId};
use pagetide_core::lru::AccessPath;
use pagetide_core::page_alloc::WatermarkLevel;
use pagetide_core::record::{AccessKind, Note, RecordedTiers};
use pagetide_core::tiering::{
    BalancingMode, Demotion, EntryFacts, Headroom, HintFaultAction, HintScan, Migration, Promotion,
    ScanChunk, ScannedMapping, TierCosts, Topology, background_level,
};
use pagetide_core::units::Millis;
use pagetide_core::vmstat::{Counter, VmStat};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::collections::BTreeMap;

pub(super) const TIERS_MAX: usize = 8;
const NANOS_PER_MILLI: u64 = 1_000_000;
/// Upper bound on recorded times, so that damaged records do not overflow.
const TIME_MAX: Millis = Millis(1 << 43);

/// Counts of a replay in several tiers, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TierCounts {
    nr_tiers: usize,
    resident: [u64; TIERS_MAX],
    served: [u64; TIERS_MAX],
    /// Pages moved to the fast tier.
    pub promoted: u64,
    /// Pages moved to a slower tier.
    pub demoted: u64,
    /// Accesses of armed pages.
    pub hint_faults: u64,
    /// Pages accessed too late after the scan.
    pub too_cold: u64,
    /// Hot pages not promoted because of the rate limit.
    pub rate_limited: u64,
    /// Hot pages not promoted because the fast tier was full.
    pub no_room: u64,
    /// Hot pages not promoted because of a pending write.
    pub unmovable: u64,
}

impl TierCounts {
    /// Returns the pages in each tier at the end, fastest first.
    pub fn resident(&self) -> &[u64] {
        &self.resident[..self.nr_tiers]
    }

    /// Returns the accesses of resident pages in each tier, fastest first.
    pub fn served(&self) -> &[u64] {
        &self.served[..self.nr_tiers]
    }
}

impl Serialize for TierCounts {
    /// Serializes the two lists with one number a tier.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("TierCounts", 9)?;
        fields.serialize_field("resident_pages_by_tier", self.resident())?;
        fields.serialize_field("served_by_tier", self.served())?;
        let moves = [
            ("promoted", self.promoted),
            ("demoted", self.demoted),
            ("hint_faults", self.hint_faults),
            ("too_cold", self.too_cold),
            ("rate_limited", self.rate_limited),
            ("no_room", self.no_room),
            ("unmovable", self.unmovable),
        ];
        for (name, number) in moves {
            fields.serialize_field(name, &number)?;
        }
        fields.end()
    }
}

pub(super) struct Tiering {
    settings: RecordedTiers,
    topology: Topology,
    promotion: Promotion,
    scan: HintScan,
    now: Millis,
    mappings: BTreeMap<MappingId, ScannedMapping>,
    counts: TierCounts,
    moves: Option<Vec<(PageId, AccessKind)>>,
}

impl Tiering {
    pub(super) fn of(memory: &Memory) -> Option<Tiering> {
        let Memory::Tiers(TierMemory { tiers, .. }) = memory else { return None };
        let topology = tiers.topology().expect("a record's tiers were checked");
        let mut settings = *tiers;
        settings.began = settings.began.min(TIME_MAX);
        Some(Tiering {
            promotion: Promotion::new(&settings.knobs, settings.switches),
            scan: HintScan::new(&settings.knobs, settings.began, 0),
            now: settings.began,
            mappings: BTreeMap::new(),
            counts: TierCounts {
                nr_tiers: settings.nodes.as_slice().len(),
                ..TierCounts::default()
            },
            moves: None,
            settings,
            topology,
        })
    }

    fn demotion_from(&self, node: NodeId) -> Option<Demotion<'_>> {
        // Nodes form a chain, so the seed has no effect.
        Demotion::of(&self.topology, node, self.settings.demotion, 0)
    }

    pub(super) fn demotes(&self, node: NodeId) -> bool {
        self.demotion_from(node).is_some()
    }

    pub(super) fn background_level(&self, node: NodeId) -> WatermarkLevel {
        background_level(&self.topology, node, self.settings.mode)
    }

    /// Allocates a demotion target without reclaim.
    pub(super) fn alloc_demoted(&self, nodes: &mut [Node], node: NodeId) -> Option<FrameId> {
        let demotion = self.demotion_from(node)?;
        demotion.find_frame(|node, level| nodes[node.index()].frames.take(Some(level)))
    }

    pub(super) fn spares(&mut self, folio: &Folio, is_armed: bool) -> bool {
        self.promotion.spares(self.now, folio, is_armed)
    }

    pub(super) fn vmstat(&self) -> &VmStat {
        self.promotion.vmstat()
    }

    fn costs(&self, nr_slow: u64) -> TierCosts {
        TierCosts::in_user_space(&self.topology, nr_slow)
    }
}

impl World<'_> {
    /// Starts recording moves between tiers.
    pub fn watch_moves(&mut self) {
        if let Some(tiering) = &mut self.tiering {
            tiering.moves = Some(Vec::new());
        }
    }

    /// Returns the moves since [`World::watch_moves`], in order: `Demote` down, `Promote` up.
    pub fn moves(&self) -> &[(PageId, AccessKind)] {
        let moves = self.tiering.as_ref().and_then(|tiering| tiering.moves.as_deref());
        moves.unwrap_or(&[])
    }

    /// Returns the counts of each tier, or `None` with one node. The lruvecs counted `demoted`.
    pub(super) fn tier_counts(&self, demoted: u64) -> Option<TierCounts> {
        let Tiering { promotion, counts, .. } = self.tiering.as_deref()?;
        let (vmstat, refusals) = (promotion.vmstat(), promotion.refusals());
        let mut counts = TierCounts {
            promoted: vmstat.read(Counter::PgpromoteSuccess),
            demoted,
            hint_faults: vmstat.read(Counter::NumaHintFaults),
            too_cold: refusals.too_cold,
            rate_limited: refusals.rate_limited,
            no_room: refusals.no_room,
            unmovable: refusals.unmovable,
            ..*counts
        };
        for (resident, node) in counts.resident.iter_mut().zip(&self.nodes) {
            *resident = node.nr_used().into();
        }
        let nr_slow: u64 = counts.served[1..].iter().sum();
        counts.served[0] = self.accesses.saturating_sub(self.misses).saturating_sub(nr_slow);
        Some(counts)
    }

    /// Applies a note of a record. Other memories ignore notes.
    pub fn apply_note(&mut self, note: &Note) {
        if !self.memory.repeats_the_run() {
            return;
        }
        match note {
            Note::Tick(now) => self.tick((*now).min(TIME_MAX)),
            Note::Mapping(mapping) => {
                if let Some(tiering) = &mut self.tiering {
                    let created = mapping.created.min(TIME_MAX);
                    let seen = ScannedMapping { created, ..*mapping };
                    tiering.mappings.insert(mapping.id, seen);
                }
            }
            Note::Group(note) => self.apply_group_note(note),
        }
    }

    fn tick(&mut self, now: Millis) {
        self.nodes.iter_mut().for_each(|node| node.frames.tick(now));
        let Some(mut tiering) = self.tiering.take() else { return };
        tiering.now = tiering.now.max(now);
        if tiering.settings.mode != BalancingMode::Off {
            let nr_slow = self.nodes[1..].iter().map(|node| u64::from(node.nr_used())).sum();
            let costs = tiering.costs(nr_slow);
            tiering.promotion.tell_costs(tiering.now, &self.room(), &costs);
            self.scan_hints(&mut tiering);
        }
        self.tiering = Some(tiering);
    }

    fn scan_hints(&mut self, tiering: &mut Tiering) {
        let now = tiering.now;
        let nr_in_use: u64 = self.nodes.iter().map(|node| u64::from(node.nr_used())).sum();
        let worth = tiering.promotion.run_period(nr_in_use);
        let runtime_ns = (now.0 - tiering.settings.began.0) * NANOS_PER_MILLI;
        let Tiering { promotion, scan, mappings, .. } = tiering;
        let nr_armed = scan.run(
            (now, runtime_ns),
            worth,
            nr_in_use,
            |from| Some(*mappings.range(from..).next()?.1),
            |chunk| self.arm_chunk(promotion, now, chunk),
        );
        promotion.count_armed(nr_armed.unwrap_or(0));
    }

    /// Arms the pages of a chunk that core selects. Returns their number.
    fn arm_chunk(&mut self, promotion: &mut Promotion, now: Millis, chunk: &ScanChunk) -> u64 {
        let mut nr_armed = 0;
        for &rank in self.tables.ranks_of(self.trace, chunk.mapping, &chunk.pages) {
            let page = &mut self.pages[rank as usize];
            let Word::Resident(frame) = page.word() else { continue };
            if page.has(Mark::Filling) || page.has(Mark::Held) {
                continue;
            }
            let folio = &self.folios[frame];
            let facts = EntryFacts {
                flags: folio.flags(),
                is_armed: page.has(Mark::Armed),
                is_pinned: self.nr_pins[rank as usize] > 0,
                is_top_tier: frame.0 < self.slow_from,
            };
            if promotion.arms(now, self.trace.page(rank).index, folio, &facts) {
                nr_armed += u64::from(!page.set(Mark::Armed));
            }
        }
        nr_armed
    }

    /// Counts an access of a resident page and judges a hint fault. A locked page is not evicted
    /// meanwhile.
    pub(super) fn note_hit(&mut self, rank: u32, frame: FrameId, is_locked: bool) {
        let is_armed = self.pages[rank as usize].take(Mark::Armed);
        if frame.0 < self.slow_from && !is_armed {
            return;
        }
        let nth = self.nth_of(frame);
        let Some(tiering) = &mut self.tiering else { return };
        if nth > 0 {
            tiering.counts.served[nth] += 1;
        }
        if !is_armed {
            return;
        }
        let lock = u32::from(is_locked);
        self.nr_pins[rank as usize] += lock;
        let action = driver::judge_fault(self, frame);
        self.nr_pins[rank as usize] -= lock;
        match action {
            HintFaultAction::Stay => {}
            HintFaultAction::Arm => self.arm_again(rank),
            HintFaultAction::Move if self.nr_pins[rank as usize] > 0 => {}
            HintFaultAction::Move => {
                self.nr_pins[rank as usize] += 1;
                driver::promote(self, &mut { rank }, frame);
                self.nr_pins[rank as usize] -= 1;
            }
        }
    }

    fn arm_again(&mut self, rank: u32) {
        let page = &mut self.pages[rank as usize];
        if page.is_resident() {
            page.set(Mark::Armed);
        }
    }
}

impl Tiered for World<'_> {
    fn node_with(&self, frame: FrameId) -> NodeId {
        NodeId(self.nth_of(frame) as u8)
    }

    fn room(&self) -> Headroom {
        self.nodes[0].frames.room().expect("fast memory is a zone")
    }

    fn lend_promotion<T>(
        &mut self,
        frame: FrameId,
        use_promotion: impl FnOnce(&mut Promotion, Millis, &Folio) -> T,
    ) -> Option<T> {
        let tiering = self.tiering.as_mut()?;
        Some(use_promotion(&mut tiering.promotion, tiering.now, &self.folios[frame]))
    }
}

impl MovesPages<u32> for World<'_> {
    fn frame_of(&self, rank: &u32) -> Option<FrameId> {
        World::frame_of(self, *rank)
    }

    fn move_up(&mut self, rank: &mut u32, target: FrameId) {
        let source = World::frame_of(self, *rank).expect("a page that moves is resident");
        let flags = self.rule.flags_on_fill(AccessPath::Table);
        self.folios[target].bind_moved(&self.folios[source], flags);
        self.pages[*rank as usize].move_to(target);
        self.rank_in[target.0 as usize] = *rank;
        self.node_of(source).frames.free(source);
    }

    fn note_moved(&mut self, rank: &u32, frame: FrameId, migration: Migration) {
        let nth = self.nth_of(frame);
        self.nodes[nth].log_add(&self.folios, frame);
        if let Some(moves) = self.tiering.as_mut().and_then(|tiering| tiering.moves.as_mut()) {
            moves.push((self.trace.page(*rank), migration.into()));
        }
    }

    fn arm(&mut self, rank: &u32) {
        self.pages[*rank as usize].set(Mark::Armed);
    }
}
