//! Policies that divide memory, beside frames kept free by background reclaim.
//!
//! Both designs keep most of a loop slightly longer than memory. If told of all frames, including
//! free ones, they would admit every page and never hit.

use pagetide_core::ids::{MappingId, PageId, PageIndex};
use pagetide_core::lru::PolicyName;
use pagetide_lab::replay::{self, Memory, Setup};
use pagetide_lab::trace::{Access, AccessKind, DenseTrace};

const NR_FRAMES: u32 = 4096;
const NR_PAGES: u64 = 5000;
const NR_ROUNDS: u64 = 20;

fn hits_of_loop(policy: PolicyName) -> u64 {
    let mut trace = DenseTrace::default();
    for index in (0..NR_ROUNDS).flat_map(|_| 0..NR_PAGES) {
        let page = PageId { mapping: MappingId(0), index: PageIndex(index) };
        trace.push(Access { page, kind: AccessKind::Read, thread: 0 });
    }
    let memory = Memory::Machine { nr_frames: NR_FRAMES };
    let outcome = replay::run_observed(Setup::new(policy, memory), &trace, |_| {});
    assert_eq!(outcome.accesses, NR_ROUNDS * NR_PAGES);
    100 * (outcome.accesses - outcome.misses) / outcome.accesses
}

#[test]
fn lirs_keeps_most_of_a_loop_beside_frames_kept_free() {
    let hits = hits_of_loop(PolicyName::Lirs);
    assert!((60..82).contains(&hits), "{hits} % hits");
}

#[test]
fn w_tinylfu_keeps_most_of_a_loop_beside_frames_kept_free() {
    let hits = hits_of_loop(PolicyName::WTinyLfu);
    assert!((60..82).contains(&hits), "{hits} % hits");
}

/// The canary: LRU does not hit in this loop.
#[test]
fn lru_keeps_nothing_of_it() {
    assert_eq!(hits_of_loop(PolicyName::Lru), 0);
}
