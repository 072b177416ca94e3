//! The driver: the one loop around the decisions about memory.
//!
//! # Problem
//!
//! What happens around a decision is a decision, too: which node is tried first, when background
//! reclaim is woken, how often a direct pass is repeated, what becomes of a victim that is dirty,
//! pinned, young or may be demoted, what is published and in which order. Written out by each
//! world that acts on core's decisions, these loops drift apart.
//!
//! # Idea
//!
//! Core writes them once, over two small traits. [`Driven`] is a memory: frames by node, and lists
//! that it lends. [`DrivenPass`] is the same memory during one reclaim pass: page words.
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
//! Nodes are numbered from 0, the fastest; frames are numbered through all of them, and numbers of
//! frames are in base pages. The driver calls from one thread at a time per value of a trait, and
//! a world may have many such values at once: each call takes what locks it needs and lets go of
//! them before it returns. Lists are lent to closures that neither wait nor do I/O, and no other
//! call is made meanwhile. Victims are claimed, moved and published while no lists are lent.
//!
//! Nothing here is believed: a victim that the world cannot take is refused, which costs a little
//! time, and whatever the driver asks for wrongly may waste memory but must not corrupt it.
//!
//! # What it deliberately ignores
//!
//! Where a page's contents go and come from: fills, write-back and prefetches.
//!
//! # Sources
//!
//! The page allocator specification, sections 1 and 3; the tiering specification, section 7; the
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

/// The node that memory of one kind is, and the fastest of several.
pub const FIRST: NodeId = NodeId(0);

/// A memory whose frames are taken and reclaimed: what a world does when the driver says so.
pub trait Driven {
    /// A frame that is taken.
    type Frame;
    /// The same memory during a pass.
    type Pass<'p>: DrivenPass;

    /// Nodes there are, at least 1.
    fn nr_nodes(&self) -> u8;

    /// Takes a frame of the node, leaving `level`'s frames alone; `None` takes the last as well.
    /// Reclaims nothing.
    fn take(&mut self, node: NodeId, level: Option<WatermarkLevel>) -> Option<Self::Frame>;

    /// Returns all CPUs' frame lists to the node's zone. They keep nothing while the answer lives;
    /// a world of one thread, or without such lists, may answer `None`.
    fn drain_frames(&mut self, node: NodeId) -> Option<Starving>;

    /// Empties all CPUs' access logs into the node's lists.
    fn drain_logs(&mut self, node: NodeId);

    /// Says that the first node is short of frames. Called as often as that is found: waking what
    /// is awake does nothing.
    fn wake_background(&mut self) -> Woken;

    /// Wakes the flusher: dirty pages stood in a pass's way more often than clean ones. Does
    /// nothing where there is none.
    fn wake_flusher(&mut self);

    /// Whether what reclaim takes from the node moves to slower memory.
    fn demotes(&self, node: NodeId) -> bool;

    /// Frames that background reclaim should free in the node, 0 if it has enough free. No more
    /// than `room_below`, unless that is 0.
    fn background_target(&mut self, node: NodeId, room_below: u64) -> u64;

    /// Frames of the node for pages that are demoted to it.
    fn room_for_demoted(&mut self, node: NodeId) -> u64;

    /// Tells the node's per-CPU lists that background reclaim begins or ends.
    fn set_reclaim_active(&mut self, node: NodeId, is_active: bool);

    /// Lends the node's lists.
    fn lend_lists<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T;

    /// As [`Driven::lend_lists`], after telling them the time and all that this CPU did.
    fn lend_current<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T;

    /// Does `run` with the memory as it is during a pass over the node, and an empty batch.
    fn in_pass(&mut self, node: NodeId, run: impl FnOnce(&mut Self::Pass<'_>, &mut ReclaimBatch));

    /// Counts a pass that begins as memory is short.
    fn count_pass(&mut self, kind: ReclaimKind) {
        let _ = kind;
    }

    /// A pass over the node has ended so.
    fn end_pass(&mut self, node: NodeId, scan: &Scan) {
        let _ = (node, scan);
    }
}

/// Which thread makes the passes that background reclaim is woken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Woken {
    /// A thread beside this one, if any does.
    Thread,
    /// There is no thread: the driver makes them before it goes on.
    Caller,
    /// There is one, but to wake it costs more than a pass for a few frames: the driver makes that
    /// before it goes on.
    CallerForBatch,
}

/// A memory during a pass over one of its nodes.
///
/// Claims are a queue: [`claim`](DrivenPass::claim) adds the youngest, which
/// [`release`](DrivenPass::release) and [`demote`](DrivenPass::demote) are about;
/// [`evict`](DrivenPass::evict) and [`list_demoted`](DrivenPass::list_demoted) end the oldest.
pub trait DrivenPass {
    /// Lends the node's lists.
    fn lend_lists<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T;

    /// Flags of a folio that the pass has isolated.
    fn flags(&self, frame: FrameId) -> Flags;

    /// A hint that these are tried next: their page words may be fetched together.
    fn fetch(&self, victims: &[Victim]) {
        let _ = victims;
    }

    /// Whether the victim is too hot to be demoted, as far as it is known.
    fn spares(&mut self, victim: &Victim) -> bool;

    /// Locks the victim's page word, so that nothing but this pass changes what it says.
    ///
    /// # Errors
    /// [`Refusal::Young`] if it was accessed through a table, which is forgotten with that;
    /// [`Refusal::Busy`] if it is locked or pinned, has another frame by now, or its contents have
    /// nowhere to go.
    fn claim(&mut self, victim: &Victim) -> Result<(), Refusal>;

    /// Unlocks the youngest claim's word; it says what it said before.
    fn release(&mut self);

    /// Moves the page of the youngest claim to a slower node, if one has a frame for it without
    /// reclaim. Says whether it has moved.
    fn demote(&mut self, node: NodeId) -> bool;

    /// Ends the oldest claim: the page's word gets the shadow and is unlocked. Its frame is freed
    /// after.
    fn evict(&mut self, page: PageId, frame: FrameId, shadow: Option<ShadowEntry>);

    /// Ends the oldest claim, of a page that was demoted: its folio joins the lists of the node it
    /// moved to. `frame` is the one it left, which is freed after.
    fn list_demoted(&mut self, frame: FrameId);

    /// Gives frames back, each to its node.
    fn free(&mut self, frames: impl Iterator<Item = FrameId> + Clone);

    /// Whether this pass may walk page tables, however long that takes. If not, it ends where a
    /// walk is due, and the world has another thread make one.
    fn may_walk(&mut self) -> bool {
        true
    }

    /// Whether the victim's page was accessed through a table, which is forgotten with that. The
    /// victim is not claimed and may have another frame by now: then it was not.
    fn take_young(&mut self, victim: &Victim) -> bool;

    /// Adds all leaf tables in which a page became young since their marks were taken, in order.
    fn collect_touched(&mut self, leaves: &mut Vec<LeafId>);

    /// Tells `look` what words of the leaf say of the node's frames, in order. Pages of other
    /// nodes stay young, and their leaf touched. Says whether there is such a leaf.
    fn read_leaf(
        &mut self,
        node: NodeId,
        leaf: LeafId,
        read: &LeafRead,
        look: &mut LeafLook<'_>,
    ) -> bool;
}

/// Which words of a leaf are read, and which young bits taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeafRead {
    /// All, and all. The leaf's mark is taken before.
    Walk,
    /// Those of these pages, and those of folios on the lists.
    Around(Range<u64>),
}
