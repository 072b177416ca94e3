//! Replays of core's policies against the naive twins, the optimum, and themselves.

use pagetide_core::ids::{PageId, PageIndex};
use pagetide_core::lru::{PolicyName, Switches};
use pagetide_core::page_alloc::{HighFraction, PcpTuning};
use pagetide_core::record::Encoder;
use pagetide_lab::judge::{naive_clock, naive_fifo, naive_lru, opt};
use pagetide_lab::replay::{self, Contender, Memory, Setup, World, ZoneMemory};
use pagetide_lab::trace::AccessKind::{
    Around, Clean, Dirty, Discard, Evict, Fill, Filled, Read, ReadAgain, Readahead, Table,
    TableWrite, Unpin, Write,
};
use pagetide_lab::trace::{Access, AccessKind, DenseTrace, Ending, Header, Trace};
use proptest::prelude::*;

const SIZES: [u32; 5] = [3, 32, 100, 333, 600];

type Judge = fn(&DenseTrace, usize) -> u64;

const TWINS: [(PolicyName, Judge); 3] = [
    (PolicyName::Lru, naive_lru::count_misses),
    (PolicyName::Fifo, naive_fifo::count_misses),
    (PolicyName::Clock, naive_clock::count_misses),
];

fn check_twins(name: &str, trace: &DenseTrace, frames: u32) {
    for (policy, judge) in TWINS {
        let outcome = replay::run(Contender::Policy(policy), trace, frames);
        let expected = judge(trace, frames as usize);
        assert_eq!(outcome.misses, expected, "{policy} on {name} with {frames} frames");
    }
}

fn check_bounds(name: &str, trace: &DenseTrace, next_uses: &[u32], frames: u32) {
    let best = opt::count_misses_with(trace, next_uses, frames as usize);
    for &policy in PolicyName::ALL {
        let mut resident_evictions = 0;
        let outcome =
            replay::run_observed(Setup::new(policy, frames), trace, |_| resident_evictions += 1);
        let what = format!("{policy} on {name} with {frames} frames");
        assert_eq!(outcome.accesses, trace.nr_accesses(), "{what}");
        assert_eq!(outcome.bypasses, 0, "{what}: clean idle pages can always be evicted");
        assert!(outcome.misses >= best, "{what}: {} misses beat {best}", outcome.misses);
        assert!(outcome.misses <= outcome.accesses, "{what}");
        assert_eq!(outcome.evictions, resident_evictions, "{what}: evictions told and counted");
        let nr_left = outcome.misses - outcome.evictions;
        assert!(nr_left <= u64::from(frames), "{what}: {nr_left} pages in {frames} frames");
        assert!(outcome.refaults() <= outcome.misses, "{what}");
        assert!(outcome.activations() <= outcome.refaults(), "{what}");
    }
}

#[test]
fn plain_policies_miss_exactly_as_their_naive_twins() {
    for (name, trace) in crate::synthetic::reads() {
        for frames in SIZES.into_iter().chain([1, 31]) {
            check_twins(name, &trace, frames);
        }
    }
}

#[test]
fn nobody_beats_the_optimum() {
    for (name, trace) in crate::synthetic::reads() {
        let next_uses = opt::next_uses(&trace);
        for frames in SIZES {
            check_bounds(name, &trace, &next_uses, frames);
        }
    }
}

#[test]
fn a_memory_that_holds_all_misses_each_page_once() {
    for (name, trace) in crate::synthetic::reads() {
        for contender in Contender::all() {
            let outcome = replay::run(contender, &trace, trace.nr_pages() as u32);
            assert_eq!(outcome.misses, trace.nr_pages() as u64, "{contender} on {name}");
            assert_eq!((outcome.evictions, outcome.refaults()), (0, 0), "{contender} on {name}");
        }
    }
}

#[test]
fn the_same_replay_ends_the_same() {
    let trace = crate::synthetic::mixed(3, 20_000);
    for &policy in PolicyName::ALL {
        let replay = || {
            let mut evicted = Vec::new();
            let outcome =
                replay::run_observed(Setup::new(policy, 64u32), &trace, |page| evicted.push(page));
            (outcome, evicted)
        };
        assert_eq!(replay(), replay(), "{policy}");
    }
}

#[test]
fn readahead_fills_without_counting() {
    let mut trace = DenseTrace::default();
    // Brought in, hit, dropped, missed.
    for kind in [Readahead, Read, Discard, Read] {
        trace.push(Access { page: PageId::default(), kind, thread: 0 });
    }
    for &policy in PolicyName::ALL {
        let outcome = replay::run(Contender::Policy(policy), &trace, 4);
        let counted = (outcome.accesses, outcome.misses, outcome.evictions, outcome.refaults());
        assert_eq!(counted, (2, 1, 0, 0), "{policy}");
    }
}

fn misses_of(policy: PolicyName, frames: u32, entries: &[(u64, AccessKind)]) -> u64 {
    let mut trace = DenseTrace::default();
    for &(index, kind) in entries {
        let page = PageId { index: PageIndex(index), ..PageId::default() };
        trace.push(Access { page, kind, thread: 0 });
    }
    replay::run(Contender::Policy(policy), &trace, frames).misses
}

/// A call of several pages fills all before copying the first: one miss a page.
#[test]
fn a_fill_is_the_miss_of_the_access_after_it() {
    let call = [(1, Fill), (2, Fill), (1, Read), (2, Read), (2, Fill), (2, Read)];
    for &policy in PolicyName::ALL {
        assert_eq!(misses_of(policy, 4, &call), 2, "{policy}");
    }
}

/// Pages read around take only free frames, and evict nothing.
#[test]
fn neighbours_come_where_there_is_room() {
    let entries = [(1, Read), (2, Around), (3, Around), (1, Read), (2, Read), (3, Read)];
    for &policy in PolicyName::ALL {
        assert_eq!(misses_of(policy, 3, &entries), 1, "{policy}");
        assert_eq!(misses_of(policy, 2, &entries), 2, "{policy}");
        assert_eq!(misses_of(policy, 1, &entries[..4]), 1, "{policy}");
    }
}

#[test]
fn a_limit_ignores_what_stood_in_the_recorded_runs_way() {
    let plain = [(1, Table), (2, Write), (3, Read), (4, Read), (1, Read), (2, Read)];
    let circumstances = [(1, Dirty), (2, Dirty), (3, Evict), (4, Filled), (1, Unpin), (2, Clean)];
    let mixed: Vec<_> =
        plain.iter().zip(&circumstances).flat_map(|(entry, other)| [*entry, *other]).collect();
    for &policy in PolicyName::ALL {
        assert_eq!(misses_of(policy, 2, &mixed), misses_of(policy, 2, &plain), "{policy}");
    }
}

#[test]
fn a_damaged_header_is_no_memory() {
    let sane = Header {
        page_bytes: 4096,
        memory_frames: 16,
        memory_frames_max: 20,
        nr_cpus: 2,
        swappiness: 60,
        pcp_tuning: PcpTuning::Depth,
        pcp_high_fraction: 8,
        reclaimer: None,
        policy: "lru".to_owned(),
        tiers: None,
        switches: Switches::default(),
    };
    let zone = ZoneMemory {
        nr_frames: 16,
        nr_frames_max: 20,
        nr_cpus: 2,
        swappiness: 60,
        pcp_tuning: PcpTuning::Depth,
        pcp_fraction: HighFraction::new(8).expect("an eighth"),
    };
    assert_eq!(Memory::of_record(&sane), Some(Memory::Zone(zone)));
    let damaged = [
        Header { memory_frames: 0, ..sane.clone() },
        Header { memory_frames: 21, ..sane.clone() },
        Header { memory_frames_max: 1 << 40, ..sane.clone() },
        Header { nr_cpus: 0, ..sane.clone() },
        Header { nr_cpus: u32::MAX, ..sane.clone() },
        Header { swappiness: 201, ..sane.clone() },
        Header { pcp_high_fraction: 7, ..sane },
    ];
    for header in damaged {
        assert_eq!(Memory::of_record(&header), None, "{header:?}");
    }
}

/// Reclaim meets page 1 first. The young page 1 stays, and page 2 goes.
#[test]
fn a_table_access_spares_a_page_once() {
    let entries =
        |kind| [(1, kind), (2, Read), (3, Read), (1, Read), (4, Read), (5, Read), (1, Read)];
    assert_eq!(misses_of(PolicyName::Fifo, 2, &entries(Read)), 7);
    assert_eq!(misses_of(PolicyName::Fifo, 2, &entries(Table)), 6);
    assert_eq!(misses_of(PolicyName::Fifo, 2, &entries(TableWrite)), 6);
}

#[test]
fn a_repeated_read_is_no_reference() {
    let entries = |kind| [(1, Read), (2, Read), (1, kind), (3, Read), (1, Read)];
    for policy in [PolicyName::Lru, PolicyName::Clock] {
        assert_eq!(misses_of(policy, 2, &entries(Read)), 3, "{policy}");
        assert_eq!(misses_of(policy, 2, &entries(Write)), 3, "{policy}");
        assert_eq!(misses_of(policy, 2, &entries(ReadAgain)), 4, "{policy}");
    }
}

#[test]
fn a_recorded_run_replays_as_the_run_itself() {
    let original = crate::synthetic::mixed(11, 5000);
    let mut bytes = Vec::new();
    let header = Header {
        page_bytes: 4096,
        memory_frames: 90,
        memory_frames_max: 90,
        nr_cpus: 4,
        swappiness: 60,
        pcp_tuning: PcpTuning::Depth,
        pcp_high_fraction: 8,
        reclaimer: None,
        policy: "clock".to_owned(),
        tiers: None,
        switches: Switches::default(),
    };
    header.append_to(&mut bytes);
    let mut encoder = Encoder::new();
    for (rank, kind) in original.entries() {
        encoder.append(&Access { page: original.page(rank), kind, thread: 0 }, &mut bytes);
    }
    encoder.finish(&mut bytes);
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), &bytes).expect("the record is written");

    let mut recorded = Trace::open(file.path(), None).expect("the record opens");
    let replayed = DenseTrace::collect(recorded.by_ref()).expect("the record is sound");
    assert_eq!(recorded.ending(), Some(Ending::Complete));
    let header = recorded.header().expect("records have headers");
    let policy: PolicyName = header.policy.parse().expect("a known policy");
    let frames = u32::try_from(header.memory_frames).expect("few frames");
    let replay = |trace: &DenseTrace| {
        let mut evicted = Vec::new();
        let outcome =
            replay::run_observed(Setup::new(policy, frames), trace, |page| evicted.push(page));
        (outcome, evicted)
    };
    assert_eq!(replay(&replayed), replay(&original));
}

#[test]
fn optimum_counts_its_evictions() {
    let trace = DenseTrace::from_reads([1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5]);
    let outcome = replay::run(Contender::Opt, &trace, 3);
    assert_eq!((outcome.accesses, outcome.misses, outcome.evictions), (12, 7, 4));
    assert_eq!(outcome.miss_ratio(), 7.0 / 12.0);
}

#[test]
fn rows_keep_their_field_names() {
    let trace = DenseTrace::from_reads([1, 2, 1, 3]);
    let lru = Contender::Policy(PolicyName::Lru);
    let row = replay::run(lru, &trace, 2).to_row(lru, 2, 0.5);
    let json = concat!(
        r#"{"policy":"lru","frames":2,"memory_bytes":8192,"accesses":4,"misses":3,"#,
        r#""miss_ratio":0.75,"device_read_bytes":12288,"evictions":1,"refaults":0,"#,
        r#""activations":0,"seconds":0.5}"#,
    );
    assert_eq!(serde_json::to_string(&row).expect("serializes"), json);
}

#[test]
fn names_parse_back_and_strangers_are_told_the_choice() {
    for contender in Contender::all() {
        assert_eq!(contender.to_string().parse(), Ok(contender));
    }
    let complaint = "belady".parse::<Contender>().expect_err("a stranger").to_string();
    assert!(complaint.contains("lru") && complaint.ends_with("(and opt, in the lab)"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_world_stays_whole(seed in any::<u64>(), frames in 1..150u32) {
        let trace = crate::synthetic::mixed(seed, 600);
        for &policy in PolicyName::ALL {
            let mut world = World::new(Setup::new(policy, frames), &trace, |_| {});
            for (rank, kind) in trace.entries() {
                world.apply(rank, kind);
                world.validate();
            }
            let outcome = world.outcome();
            prop_assert_eq!(outcome.accesses, trace.nr_accesses());
            prop_assert!(outcome.bypasses <= outcome.misses);
        }
    }

    #[test]
    fn the_world_of_a_record_stays_whole(
        seed in any::<u64>(),
        nr_frames in 16..150u32,
        nr_spare in 0..50u32,
        nr_cpus in 1..5u32,
    ) {
        let trace = crate::synthetic::mixed(seed, 600);
        let nr_frames_max = nr_frames + nr_spare;
        let memory = ZoneMemory {
            nr_frames,
            nr_frames_max,
            nr_cpus,
            swappiness: 60,
            pcp_tuning: PcpTuning::ALL[seed as usize % PcpTuning::ALL.len()],
            pcp_fraction: HighFraction::DEFAULT,
        };
        for &policy in PolicyName::ALL {
            let mut world = World::new(Setup::new(policy, Memory::Zone(memory)), &trace, |_| {});
            for (rank, kind) in trace.entries() {
                world.apply(rank, kind);
                world.validate();
                prop_assert!(world.nr_resident() <= nr_frames);
            }
            let outcome = world.outcome();
            prop_assert_eq!(outcome.accesses, trace.nr_accesses());
            prop_assert!(outcome.bypasses <= outcome.misses);
        }
    }

    #[test]
    fn plain_policies_match_their_twins_on_any_reads(
        pages in prop::collection::vec(0..60u64, 1..600),
        frames in 1..70u32,
    ) {
        check_twins("random reads", &DenseTrace::from_reads(pages), frames);
    }
}

#[test]
fn real_traces_keep_all_the_bounds() {
    let test = "real_traces_keep_all_the_bounds";
    let files = [
        ("lirs_2_pools.trace", [100, 450, 1000]),
        ("lirs_sprite.trace", [100, 600, 1000]),
        ("lirs_loop.trace", [100, 500, 1000]),
        ("lirs_cpp.trace", [20, 122, 300]),
        ("lirs_cs.trace", [100, 500, 1000]),
        ("lirs_gli.trace", [100, 252, 1000]),
        ("lirs_ps.trace", [100, 500, 1000]),
        ("arc_OLTP.lis.zst", [1000, 5000, 15_000]),
        ("cloudPhysicsIO.oracleGeneral.bin.zst", [4897, 9795, 19_590]),
        ("sqlite_filemap_tracepoint.csv.zst", [1000, 6136, 12_273]),
    ];
    for (file, sizes) in files {
        let Some(trace) = crate::support::load_trace(test, file) else { continue };
        let next_uses = opt::next_uses(&trace);
        for frames in sizes {
            check_twins(file, &trace, frames);
            check_bounds(file, &trace, &next_uses, frames);
        }
    }
}

#[test]
fn a_replay_stops_when_told_and_counts_all_entries_when_not() {
    let trace = DenseTrace::from_reads((0..200_000).map(|step| step * step % 997));
    for contender in Contender::all() {
        let mut nr_heard = 0;
        let whole = replay::run_while(contender, &trace, 50, |entries| {
            nr_heard += entries;
            true
        });
        assert_eq!((whole, nr_heard), (Some(replay::run(contender, &trace, 50)), 200_000));
        let mut nr_asked = 0;
        let stopped = replay::run_while(contender, &trace, 50, |_| {
            nr_asked += 1;
            nr_asked < 2
        });
        assert_eq!((stopped, nr_asked), (None, 2), "{contender}");
    }
}
