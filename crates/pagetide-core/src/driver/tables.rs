//! Young bits in page tables.
//!
//! ```text
//!   look around   [ . . Y r V Y . . ]      64 words with the victim in the middle
//!   walk          leaf? wanted? --> read it --> full? --> report, lists lent
//! ```
//!
//! Reads need no lists. A leaf touched during a walk is left to the next walk.

use super::{DrivenPass, LeafRead};
use crate::group::{NodeLists, NodePass};
use crate::ids::{NodeId, PageId};
use crate::lru::page_table::{LeafId, YoungPages, pages_around};
use ::alloc::vec::Vec;

/// Takes the young bits around a young victim.
pub(super) fn look_around<P: DrivenPass>(
    world: &mut P,
    node: NodeId,
    page: PageId,
    around: &mut YoungPages,
) {
    let leaf = LeafId::of(page);
    let mut look = around.look_at(leaf);
    look.young_victim(page.index);
    if world.read_leaf(node, leaf, &LeafRead::Around(pages_around(page.index)), &mut look) {
        look.done();
    }
}

pub(super) fn walk<P: DrivenPass>(world: &mut P, node: NodeId, pass: &NodePass) {
    let Some(mut walk) = with_lists(world, node, |lists| lists.start_walk(pass)) else { return };
    let mut touched = Vec::new();
    world.collect_touched(&mut touched);
    for leaf in touched {
        if walk.wants(leaf) {
            let mut look = walk.found().look_at(leaf);
            if world.read_leaf(node, leaf, &LeafRead::Walk, &mut look) {
                look.done();
            }
        }
        if walk.is_full() {
            with_lists(world, node, |lists| lists.report_walk(pass, &mut walk));
        }
    }
    with_lists(world, node, |lists| lists.report_walk(pass, &mut walk));
}

fn with_lists<P: DrivenPass, T>(
    world: &mut P,
    node: NodeId,
    use_lists: impl FnOnce(&mut NodeLists) -> T,
) -> T {
    world.lock_lists(node);
    let done = use_lists(world.lists(node));
    world.unlock_lists();
    done
}
