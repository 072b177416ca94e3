//! Notes in records: ticks and mappings for tiers, and group changes.

use pagetide_core::group::GroupConfig;
use pagetide_core::ids::{GroupId, MappingId};
use pagetide_core::page_alloc::{HighFraction, PcpTuning};
use pagetide_core::record::{GroupNote, Note, RecordedNode, RecordedNodes, RecordedTiers};
use pagetide_core::tiering::{AbstractDistance, ScannedMapping, TieringKnobs};
use pagetide_core::units::Millis;
use pagetide_lab::replay::{TierMemory, ZoneMemory};
use pagetide_lab::trace::{Access, DenseTrace};

const NR_MAPPINGS: u32 = 6;
/// Pages of the longest mapping.
const NR_PAGES: u64 = 500;

/// Returns `nr_fast` fast frames, half as many middling and twice as many slow ones, with short and
/// frequent scans for short traces.
pub(crate) fn tiers_of(nr_fast: u32) -> TierMemory {
    let node = |nr_frames: u32, distance| RecordedNode {
        nr_frames,
        nr_frames_max: nr_frames + 10,
        distance: AbstractDistance(distance),
    };
    let nodes = [node(nr_fast, 576), node(nr_fast / 2, 900), node(nr_fast * 2, 2000)];
    let sum = |count: fn(&RecordedNode) -> u32| nodes.iter().map(count).sum();
    let knobs = TieringKnobs {
        scan_period_min: Millis(20),
        scan_period_max: Millis(200),
        scan_pages: 64,
        scan_delay: Millis(5),
        hot_threshold: Millis(80),
        promote_rate_frames: 200,
        free_space_frames: 20,
        ..TieringKnobs::default()
    };
    TierMemory {
        tiers: RecordedTiers { knobs, ..RecordedTiers::new(RecordedNodes::new(&nodes)) },
        whole: ZoneMemory {
            nr_frames: sum(|node| node.nr_frames),
            nr_frames_max: sum(|node| node.nr_frames_max),
            nr_cpus: 2,
            swappiness: 60,
            pcp_tuning: PcpTuning::Depth,
            pcp_fraction: HighFraction::DEFAULT,
        },
    }
}

/// Adds every mapping at the start, and a tick at every 20th entry.
pub(crate) fn with_ticks(trace: &DenseTrace) -> DenseTrace {
    let mapping = |id| ScannedMapping { id: MappingId(id), nr_pages: NR_PAGES, created: Millis(0) };
    let mut noted = DenseTrace::default();
    (0..NR_MAPPINGS).for_each(|id| noted.push_notes(&[Note::Mapping(mapping(id))]));
    push_with(&mut noted, trace, |nth| match nth % 20 {
        0 => vec![Note::Tick(Millis(nth / 4))],
        _ => Vec::new(),
    });
    noted
}

/// Adds a tree of three groups: changing limits, protection, reclaim on request, and a group
/// removed and made again.
pub(crate) fn with_groups(trace: &DenseTrace) -> DenseTrace {
    let (top, first, second) = (GroupId(1), GroupId(2), GroupId(3));
    let set = |group, parent, config| GroupNote::Set { group, parent, config };
    let limited = GroupConfig::limited;
    let protected = |min, low| GroupConfig { min, low, ..GroupConfig::NONE };
    let join = |mapping, group| GroupNote::Join { mapping: MappingId(mapping), group };
    let reclaim = |group| GroupNote::Reclaim { group, nr_pages: 30 };
    let mut noted = DenseTrace::default();
    let start = [
        GroupNote::Begin,
        set(top, GroupId::ROOT, limited(150)),
        set(first, top, limited(60)),
        set(second, top, protected(20, 40)),
        join(0, first),
        join(1, second),
        join(3, first),
        join(4, second),
        join(5, top),
    ];
    start.iter().for_each(|note| noted.push_notes(&[Note::Group(*note)]));
    push_with(&mut noted, trace, |nth| {
        let notes = match nth % 3000 {
            700 => vec![set(first, top, limited(25))],
            1100 => vec![reclaim(top)],
            1400 => vec![set(first, top, limited(90)), set(second, top, protected(0, 60))],
            1900 => vec![reclaim(second), GroupNote::Remove(second)],
            2300 => vec![set(second, top, protected(10, 10)), join(1, second), join(4, second)],
            2700 => vec![set(top, GroupId::ROOT, limited(120)), reclaim(GroupId::ROOT)],
            2900 => vec![set(top, GroupId::ROOT, limited(150))],
            _ => Vec::new(),
        };
        notes.into_iter().map(Note::Group).collect()
    });
    noted
}

/// Appends the entries, each after its notes.
fn push_with(noted: &mut DenseTrace, trace: &DenseTrace, notes: impl Fn(u64) -> Vec<Note>) {
    for (nth, (rank, kind)) in (1..).zip(trace.entries()) {
        noted.push_notes(&notes(nth));
        noted.push(Access { page: trace.page(rank), kind, thread: 0 });
    }
}
