//! The law for runs with groups: limits, protection, creation and removal.

use crate::common::PAGE;
use crate::common::pages::Random;
use crate::common::store::FaultyStore;
use crate::pin_thread;
use crate::run::Run;
use crate::scripts::{Player, Ticks, everything, sequential_loop, skewed_reads};
use pagetide::{Builder, Bytes, Group, GroupOptions, PageCache, PolicyName};
use pagetide_core::record::{GroupNote, Note};
use pagetide_lab::trace::{Access, DenseTrace};

fn builder(policy: PolicyName, nr_frames: u64) -> Builder {
    let memory = Bytes::from_pages(nr_frames);
    PageCache::builder().memory(memory).policy(policy).groups(true).readahead_max(Bytes(64 << 10))
}

/// Three tenants and a child. Some are short by their own limits, and all by the cache's. One is
/// removed, one changed, and one reclaimed.
fn play_tenants(cache: &PageCache, nr_frames: u64, seed: u64) {
    let pages = Bytes::from_pages;
    let options = GroupOptions::new();
    let kept = cache.group("kept", options.low(pages(nr_frames / 3))).unwrap();
    let small = cache.group("small", options.limit(pages((nr_frames / 4).max(16)))).unwrap();
    let mut below = small.group("below", options.limit(pages(16)).min(pages(8))).unwrap();
    let mut random = Random::new(seed);
    let play = |group: Option<&Group>, script: fn(&mut Player<'_>), memory: u64, seed| {
        let store = FaultyStore::with_contents(&vec![1; 3 * memory as usize * PAGE]);
        let file = match group {
            Some(group) => group.open_store(store.boxed()).unwrap(),
            None => cache.open_store(store.boxed()).unwrap(),
        };
        let (random, ticks) = (Random::new(seed), Ticks::of(cache));
        script(&mut Player { random, file: &file, memory, ticks });
        file
    };
    let mut files = Vec::new();
    for round in 0..3 {
        let memory = 8 + random.below(nr_frames / 2);
        files.push(play(Some(&kept), skewed_reads, nr_frames / 4, seed + round));
        files.push(play(Some(&small), everything, memory, seed + round));
        files.push(play(Some(&below), sequential_loop, 30, seed + round));
        files.push(play(None, everything, memory, seed + round + 9));
        match round {
            0 => drop(kept.reclaim(pages(20)).unwrap()),
            1 => {
                below.remove().unwrap();
                below = cache.group("below", options.limit(pages(20))).unwrap();
                files.push(play(Some(&below), sequential_loop, 25, seed));
                small.set(options.limit(pages(16))).unwrap();
                // Its files belong to the parent.
                let mut player = Player {
                    random: Random::new(seed),
                    file: &files[2],
                    memory: 30,
                    ticks: Ticks::of(cache),
                };
                sequential_loop(&mut player);
            }
            _ => small.set(options.limit(pages(nr_frames / 2 + 16))).unwrap(),
        }
    }
}

#[test]
fn runs_with_groups_are_replayed() {
    if !pin_thread("runs_with_groups_are_replayed") {
        return;
    }
    for nr_frames in [40, 130, 700] {
        for (seed, &policy) in (0..).zip(PolicyName::ALL) {
            let run = Run::record_with(builder(policy, nr_frames), |cache| {
                play_tenants(cache, nr_frames, seed);
            });
            let what = format!("groups, {policy}, {nr_frames} frames");
            assert!(run.stats.evictions > 0, "{what}: too little happens");
            run.check(&what);
        }
    }
}

/// Without groups, the root is charged for everything.
#[test]
fn a_run_that_makes_no_group_is_replayed() {
    if !pin_thread("a_run_that_makes_no_group_is_replayed") {
        return;
    }
    for &policy in PolicyName::ALL {
        let run =
            Run::record_with(builder(policy, 100), |cache| crate::run::play(cache, everything, 3));
        run.check(&format!("no group, {policy}"));
    }
}

#[test]
fn a_record_without_one_kind_of_note_of_groups_does_not_pass_for_the_run() {
    let test = "a_record_without_one_kind_of_note_of_groups_does_not_pass_for_the_run";
    if !pin_thread(test) {
        return;
    }
    let run = Run::record_with(builder(PolicyName::Mglru, 130), |cache| {
        play_tenants(cache, 130, 1);
    });
    let without = |leaves_out: fn(&GroupNote) -> bool| {
        let mut trace = DenseTrace::default();
        let mut notes = run.trace.notes().iter().peekable();
        let is_left_out =
            |note: &Note| matches!(note, Note::Group(of_groups) if leaves_out(of_groups));
        for (nth, (rank, kind)) in (0..).zip(run.trace.entries()) {
            while let Some((_, note)) = notes.next_if(|(before, _)| *before <= nth) {
                if !is_left_out(note) {
                    trace.push_notes(&[*note]);
                }
            }
            trace.push(Access { page: run.trace.page(rank), kind, thread: 0 });
        }
        run.replay(run.stats.policy, run.memory, &trace).differs_from(&run)
    };
    assert!(!without(|_| false), "the run itself");
    assert!(without(|note| matches!(note, GroupNote::Begin)), "one lruvec");
    assert!(without(|note| matches!(note, GroupNote::Set { .. })), "no group");
    assert!(without(|note| matches!(note, GroupNote::Remove(_))), "none removed");
    assert!(without(|note| matches!(note, GroupNote::Reclaim { .. })), "nothing asked for");
    assert!(without(|note| matches!(note, GroupNote::Join { .. })), "the root pays");
}
