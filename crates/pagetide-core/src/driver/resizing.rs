//! Shrinks a node.
//!
//! ```text
//!   too many frames in service? --> room below for demotions --> reclaim --nothing--> write back
//!             ^                                                     |                     |
//!             '------------- free frames out of service <-----------+---------------------'
//! ```
//!
//! Only free frames leave. A shrink is therefore reclaim, and stops no thread. After
//! [`ROUNDS_MAX`] rounds that free nothing, the rest of the frames stays in service.

use super::Driven;
use super::pass::{drain_all_logs, reclaim_on_demand};
use crate::ids::NodeId;

/// Rounds without progress before giving up.
const ROUNDS_MAX: u32 = 8;

/// A memory with nodes that change their size.
pub trait Resizes: Driven {
    /// Takes free frames of the node out of service, until `nr_frames` are left in service. Returns
    /// the frames in service.
    fn take_out_of_service(&mut self, node: NodeId, nr_frames: u32) -> u32;

    /// Writes dirty pages, so that their frames can be reclaimed.
    fn write_back(&mut self);
}

/// Takes frames of the node out of service, until `nr_frames` of `nr_now` are left. Evicts even hot
/// pages. Returns the frames left in service.
pub fn shrink_node<W: Resizes>(
    world: &mut W,
    node: NodeId,
    mut nr_now: u32,
    nr_frames: u32,
) -> u32 {
    let mut nr_rounds = 0;
    while nr_now > nr_frames && nr_rounds < ROUNDS_MAX {
        let nr_wanted = u64::from(nr_now - nr_frames);
        make_room_below(world, node, nr_wanted);
        if reclaim_on_demand(world, node, nr_wanted) == 0 {
            // Frames in other CPUs' logs are on no list.
            drain_all_logs(world);
            world.write_back();
            nr_rounds += 1;
        }
        nr_now = world.take_out_of_service(node, nr_frames);
    }
    nr_now
}

/// Frees frames in slower nodes for the pages to demote. Further pages are evicted.
fn make_room_below<W: Driven>(world: &mut W, node: NodeId, nr_pages: u64) {
    if !world.demotes(node) {
        return;
    }
    let below = NodeId(node.0 + 1);
    let nr_missing = nr_pages.saturating_sub(world.room_for_demoted(below));
    if nr_missing > 0 {
        make_room_below(world, below, nr_missing);
        reclaim_on_demand(world, below, nr_missing);
    }
}
