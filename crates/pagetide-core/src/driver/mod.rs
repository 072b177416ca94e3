//! The driver: the one loop around reclaim decisions.
//!
//! # Problem
//!
//! Node order, wake-ups, repeats of a pass and order of publication are decisions as well. Separate
//! loops in each world drift apart.
//!
//! # Idea
//!
//! Core has one loop over two traits. [`Driven`] is a memory: frames by node, and lists.
//! [`DrivenPass`] is the memory during a reclaim pass: page words.
//!
//! ```text
//!   allocation        above LOW, fastest first --none--> wake background
//!   (alloc.rs)                  --> slowest node first: take, reclaim, drain, take the rest
//!
//!   pass              lists locked:    isolate --> try each victim --> settle      (victims.rs)
//!   (pass.rs)                                      look beside it                  (tables.rs)
//!                     lists unlocked:  publish words in victim order, then free the frames
//!                                      walk touched leaves
//!
//!   background        slower nodes first, until the target is met or a pass frees nothing
//!   (background.rs)
//!   groups            charge --full--> pass below that limit --> charge   (groups.rs)
//!   armed page        judged --> moved to the fastest node --> listed     (moving.rs)
//!   shrink            reclaim --> free frames out of service, until small enough   (resizing.rs)
//! ```
//!
//! # The contract
//!
//! Nodes are numbered from 0, the fastest. Frames are numbered across all nodes, in base pages. The
//! driver uses each trait value from one thread at a time, but a world may have many. Each call
//! releases its locks before it returns, except [`DrivenPass::lock_lists`]. Lists are lent to
//! closures that do not wait, do I/O or make other calls. Victims are claimed with the lists
//! locked, by calls that do not wait for a page or a store, and moved and published with the lists
//! unlocked.
//!
//! The world may refuse a victim. A wrong request may waste memory, never corrupt it.
//!
//! # Ignored
//!
//! Fills, write-back and prefetches.
//!
//! # Sources
//!
//! Linux 6.18's page allocator, reclaim and demotion.

mod alloc;
mod background;
mod groups;
mod moving;
mod pass;
mod resizing;
mod tables;
mod victims;

#[cfg(test)]
mod tests;

pub use alloc::{alloc_briefly, alloc_slowly, take_above_low, wait_for_room};
pub use background::{BackgroundThread, reclaim_in_background, wake_background};
pub use groups::{charge_group, reclaim_from_group, shrink_group};
pub use moving::{MovesPages, Tiered, judge_fault, list_moved, promote};
pub use pass::{
    command_lru_gen, describe_lru_gen, reclaim, reclaim_directly, reclaim_for_page,
    reclaim_for_runs, reclaim_on_demand, reclaim_one,
};
pub use resizing::{Resizes, shrink_node};

use crate::folio::Flags;
use crate::group::NodeLists;
use crate::ids::{FrameId, NodeId, PageId};
use crate::lru::page_table::{LeafId, LeafLook};
use crate::lru::{ReclaimBatch, ReclaimKind, Refusal, Scan, ShadowEntry, Victim};
use crate::page_alloc::{Starving, WatermarkLevel};
use ::alloc::vec::Vec;
use core::ops::Range;

/// The fastest node.
pub const FIRST: NodeId = NodeId(0);

/// A memory with frames to take and reclaim.
pub trait Driven {
    /// A taken frame.
    type Frame;
    /// The memory during a pass.
    type Pass<'p>: DrivenPass;

    /// Returns the number of nodes, at least 1.
    fn nr_nodes(&self) -> u8;

    /// Takes a frame above the level's reserve, without reclaim. `None` has no reserve.
    fn take(&mut self, node: NodeId, level: Option<WatermarkLevel>) -> Option<Self::Frame>;

    /// Drains all per-CPU frame lists to the node's zone. The lists stay empty while the result
    /// lives. `None` suits a world without lists or with one thread.
    fn drain_frames(&mut self, node: NodeId) -> Option<Starving>;

    /// Drains all access logs to the node's lists.
    fn drain_logs(&mut self, node: NodeId);

    /// Reports that the first node is short of frames, possibly repeatedly.
    fn wake_background(&mut self) -> Woken;

    /// Wakes the flusher: most victims were dirty.
    fn wake_flusher(&mut self);

    /// Returns true if reclaim demotes the node's pages.
    fn demotes(&self, node: NodeId) -> bool;

    /// Returns the frames to free by background reclaim. At most `room_below`, unless 0.
    fn background_target(&mut self, node: NodeId, room_below: u64) -> u64;

    /// Returns the frames for pages demoted to the node.
    fn room_for_demoted(&mut self, node: NodeId) -> u64;

    /// Reports the start or end of background reclaim to the per-CPU lists.
    fn set_reclaim_active(&mut self, node: NodeId, is_active: bool);

    /// Lends the node's lists.
    fn lend_lists<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T;

    /// Same as [`Driven::lend_lists`], after the time and this CPU's log are applied.
    fn lend_current<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T;

    /// Calls `run` with the memory during a pass, and an empty batch.
    fn in_pass(&mut self, node: NodeId, run: impl FnOnce(&mut Self::Pass<'_>, &mut ReclaimBatch));

    /// Counts a pass for lack of memory.
    fn count_pass(&mut self, kind: ReclaimKind) {
        let _ = kind;
    }

    /// Reports the end of a pass.
    fn end_pass(&mut self, node: NodeId, scan: &Scan) {
        let _ = (node, scan);
    }
}

/// Thread that runs background reclaim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Woken {
    /// A background thread, if any.
    Thread,
    /// The caller: there is no background thread.
    Caller,
    /// The caller, for a batch: cheaper than a wake-up.
    CallerForBatch,
}

/// A memory during a pass over one node.
///
/// Claims form a queue. [`claim`](DrivenPass::claim) adds the youngest, with the lists locked.
/// [`release`](DrivenPass::release) and [`demote`](DrivenPass::demote) act on the youngest,
/// [`evict`](DrivenPass::evict) and [`list_demoted`](DrivenPass::list_demoted) end the oldest.
pub trait DrivenPass {
    /// Locks the node's lists. Does nothing in a world with one thread.
    fn lock_lists(&mut self, node: NodeId) {
        let _ = node;
    }

    /// Returns the node's lists, which are locked.
    fn lists(&mut self, node: NodeId) -> &mut NodeLists;

    /// Unlocks the lists.
    fn unlock_lists(&mut self) {}

    /// Returns the flags of an isolated folio.
    fn flags(&self, frame: FrameId) -> Flags;

    /// Prefetches the page words and frames of the next victims.
    fn fetch(&self, victims: &[Victim]) {
        let _ = victims;
    }

    /// Returns true if the victim is too hot to demote.
    fn spares(&mut self, victim: &Victim) -> bool;

    /// Locks the victim's page word.
    ///
    /// # Errors
    /// [`Refusal::Young`] if accessed through a table (clears the young bit). [`Refusal::Busy`] if
    /// locked, pinned, in another frame, or without a store.
    fn claim(&mut self, victim: &Victim) -> Result<(), Refusal>;

    /// Unlocks the youngest claim's word, unchanged.
    fn release(&mut self);

    /// Takes a frame of a slower node for the youngest claim's page, without reclaim. Returns true
    /// if there is one. The world moves the page now, or later in [`DrivenPass::list_demoted`].
    fn demote(&mut self, node: NodeId) -> bool;

    /// Ends the oldest claim: stores the shadow and unlocks the word.
    fn evict(&mut self, page: PageId, frame: FrameId, shadow: Option<ShadowEntry>);

    /// Ends the oldest claim, of a demoted page that leaves `frame`: lists the new folio.
    fn list_demoted(&mut self, frame: FrameId);

    /// Frees frames, each to its node.
    fn free(&mut self, frames: impl Iterator<Item = FrameId> + Clone);

    /// Returns true if this pass may walk page tables. Otherwise it ends at a due walk.
    fn may_walk(&mut self) -> bool {
        true
    }

    /// Clears and returns the young bit. Returns false if the page has another frame.
    fn take_young(&mut self, victim: &Victim) -> bool;

    /// Adds the leaf tables touched since their marks were taken, in order.
    fn collect_touched(&mut self, leaves: &mut Vec<LeafId>);

    /// Passes the leaf's words for frames of the node to `look`, in order. Pages of other nodes
    /// stay young. Returns true if the leaf exists.
    fn read_leaf(
        &mut self,
        node: NodeId,
        leaf: LeafId,
        read: &LeafRead,
        look: &mut LeafLook<'_>,
    ) -> bool;
}

/// Words to read and young bits to take in a leaf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeafRead {
    /// All words and young bits, after taking the mark.
    Walk,
    /// Words of these pages, and young bits of listed folios.
    Around(Range<u64>),
}
