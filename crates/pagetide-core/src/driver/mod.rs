//! The driver: the one loop around reclaim decisions.
//!
//! # Problem
//!
//! The steps around a decision matter as well: node order, background wake-ups, repeats of a direct
//! pass, the handling of dirty, pinned, young or demotable victims, the order of publication.
//! Separate loops in each world drift apart.
//!
//! # Idea
//!
//! Core has one loop over two small traits. [`Driven`] is a memory: frames by node, and lists.
//! [`DrivenPass`] is the memory during one reclaim pass: page words.
//!
//! ```text
//!   allocation        above LOW, fastest first --none--> wake background
//!   (alloc.rs)                  --> slowest node first: take, reclaim, drain, take what is left
//!
//!   pass              lists, lent:  isolate --> [ victims ]     lists not lent:
//!   (pass.rs)               ^                        |            try each victim  (victims.rs)
//!                           |                        v            look beside it   (tables.rs)
//!                       settle <--- verdicts --- the world        walk touched leaves
//!                           |
//!                           '--> publish: words, in the victims' order; then frames, together
//!
//!   background        slower nodes first; until the target is met or a pass frees nothing
//!   (background.rs)
//!   groups            charge --full--> pass below that limit --> charge   (groups.rs)
//!   armed page        judged --> moved to the fastest node --> listed     (moving.rs)
//! ```
//!
//! # The contract
//!
//! Nodes are numbered from 0, the fastest. Frames are numbered across all nodes, in base pages. The
//! driver uses each trait value from one thread at a time. A world may have many such values: each
//! call takes its locks and releases them before it returns. Lists are lent to closures that
//! do not wait, do I/O or make other calls. Victims are claimed, moved and published while no lists
//! are lent.
//!
//! The world trusts nothing: it refuses a victim that cannot be taken, which costs little. A wrong
//! request may waste memory but must not corrupt it.
//!
//! # Ignored
//!
//! Fills, write-back and prefetches.
//!
//! # Sources
//!
//! The page allocator specification, sections 1 and 3. The tiering specification, section 7. The
//! kernel's documented reclaim design.

mod alloc;
mod background;
mod groups;
mod moving;
mod pass;
mod tables;
mod victims;

#[cfg(test)]
mod tests;

pub use alloc::{alloc_briefly, alloc_slowly, take_above_low};
pub use background::{BackgroundThread, reclaim_in_background, wake_background};
pub use groups::{charge_group, reclaim_from_group, shrink_group};
pub use moving::{MovesPages, Tiered, judge_fault, list_moved, promote};
pub use pass::{
    command_lru_gen, describe_lru_gen, reclaim, reclaim_directly, reclaim_for_page,
    reclaim_on_demand,
};

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

/// A memory with frames to take and reclaim, implemented by the world.
pub trait Driven {
    /// A taken frame.
    type Frame;
    /// The memory during a pass.
    type Pass<'p>: DrivenPass;

    /// Returns the number of nodes, at least 1.
    fn nr_nodes(&self) -> u8;

    /// Takes a frame without reclaim, above the level's reserve. `None` may take the last frame.
    fn take(&mut self, node: NodeId, level: Option<WatermarkLevel>) -> Option<Self::Frame>;

    /// Drains all per-CPU frame lists to the node's zone. The lists stay empty while the result
    /// lives. A world of one thread or without lists may return `None`.
    fn drain_frames(&mut self, node: NodeId) -> Option<Starving>;

    /// Drains all per-CPU access logs to the node's lists.
    fn drain_logs(&mut self, node: NodeId);

    /// Reports that the first node is short of frames. Repeated calls are harmless.
    fn wake_background(&mut self) -> Woken;

    /// Wakes the flusher, if any: most victims of a pass were dirty.
    fn wake_flusher(&mut self);

    /// Returns true if reclaim demotes the node's pages.
    fn demotes(&self, node: NodeId) -> bool;

    /// Returns the frames to free by background reclaim, 0 if enough are free. At most
    /// `room_below`, unless that is 0.
    fn background_target(&mut self, node: NodeId, room_below: u64) -> u64;

    /// Returns the frames available for pages demoted to the node.
    fn room_for_demoted(&mut self, node: NodeId) -> u64;

    /// Tells the per-CPU lists of the start or end of background reclaim.
    fn set_reclaim_active(&mut self, node: NodeId, is_active: bool);

    /// Lends the node's lists.
    fn lend_lists<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T;

    /// Same as [`Driven::lend_lists`], after applying the time and this CPU's log.
    fn lend_current<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T;

    /// Calls `run` with the memory during a pass over the node, and an empty batch.
    fn in_pass(&mut self, node: NodeId, run: impl FnOnce(&mut Self::Pass<'_>, &mut ReclaimBatch));

    /// Counts a pass that starts for lack of memory.
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
    /// The caller, at once: there is no background thread.
    Caller,
    /// The caller, for a batch: a wake-up costs more than a pass for few frames.
    CallerForBatch,
}

/// A memory during a pass over one node.
///
/// Claims form a queue. [`claim`](DrivenPass::claim) adds the youngest, and
/// [`release`](DrivenPass::release) and [`demote`](DrivenPass::demote) act on it.
/// [`evict`](DrivenPass::evict) and [`list_demoted`](DrivenPass::list_demoted) end the oldest.
pub trait DrivenPass {
    /// Lends the node's lists.
    fn lend_lists<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T;

    /// Returns the flags of an isolated folio.
    fn flags(&self, frame: FrameId) -> Flags;

    /// Prefetches the page words of the next victims.
    fn fetch(&self, victims: &[Victim]) {
        let _ = victims;
    }

    /// Returns true if the victim is known to be too hot to demote.
    fn spares(&mut self, victim: &Victim) -> bool;

    /// Locks the victim's page word.
    ///
    /// # Errors
    /// [`Refusal::Young`] if accessed through a table (clears the young bit). [`Refusal::Busy`]
    /// if the page is locked, pinned, in another frame, or cannot be stored.
    fn claim(&mut self, victim: &Victim) -> Result<(), Refusal>;

    /// Unlocks the youngest claim's word, unchanged.
    fn release(&mut self);

    /// Moves the youngest claim's page to a slower node with a free frame. Returns true if moved.
    fn demote(&mut self, node: NodeId) -> bool;

    /// Ends the oldest claim: stores the shadow and unlocks the word. The frame is freed later.
    fn evict(&mut self, page: PageId, frame: FrameId, shadow: Option<ShadowEntry>);

    /// Ends the oldest claim, of a demoted page: lists the folio in its new node. The old `frame`
    /// is freed later.
    fn list_demoted(&mut self, frame: FrameId);

    /// Frees frames, each to its node.
    fn free(&mut self, frames: impl Iterator<Item = FrameId> + Clone);

    /// Returns true if this pass may walk page tables for any time. Otherwise the pass ends at a
    /// due walk, and the world delegates the walk to another thread.
    fn may_walk(&mut self) -> bool {
        true
    }

    /// Clears the young bit and returns it. Returns false for a page in another frame. The victim
    /// is not claimed.
    fn take_young(&mut self, victim: &Victim) -> bool;

    /// Adds the leaf tables with newly young pages since their marks were taken, in order.
    fn collect_touched(&mut self, leaves: &mut Vec<LeafId>);

    /// Passes the leaf's words for frames of the node to `look`, in order. Pages of other nodes
    /// stay young, and their leaf touched. Returns true if the leaf exists.
    fn read_leaf(
        &mut self,
        node: NodeId,
        leaf: LeafId,
        read: &LeafRead,
        look: &mut LeafLook<'_>,
    ) -> bool;
}

/// Words of a leaf to read, and young bits to take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeafRead {
    /// All words and all young bits. The leaf's mark is taken first.
    Walk,
    /// Words of these pages, and young bits of listed folios.
    Around(Range<u64>),
}
