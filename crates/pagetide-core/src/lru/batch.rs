//! A batch of victims: what core hands out, what the world answers, and what comes of it.
//!
//! ```text
//!   isolated --> Victim { verdict } --> the world tries it --> Settled --> the world publishes it
//! ```
//!
//! The vectors are reused from step to step, so a pass allocates at its first batch only; in a
//! batch [with room](ReclaimBatch::with_room), a pass that walks no tables never does.

use super::page_table::YoungPages;
use super::{ShadowEntry, VICTIMS_MAX};
use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, PageId};
use alloc::vec::Vec;

/// What the world found when it tried a victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Its page word is locked for eviction, its frame is the pass's.
    Claimed,
    /// Its page was moved to a slower node, dirty or not; its frame is the pass's. Only in a pass
    /// that demotes ([`Scan::demotes`](super::Scan::demotes)).
    Demoted,
    /// It could not be taken.
    Refused(Refusal),
}

/// Why the world could not take a victim's frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its page word was young: accessed through a table since the last look (now cleared).
    Young,
    /// Pinned or locked.
    Busy,
    /// Dirty or under write-back.
    Dirty,
}

/// A folio the pass has isolated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Victim {
    /// Its frame.
    pub frame: FrameId,
    /// The page it holds, whose word is to be claimed.
    pub page: PageId,
    /// The world's answer; starts as busy, so that an untried victim is put back.
    pub verdict: Verdict,
}

/// The victims of one batch, at most [`VICTIMS_MAX`].
#[derive(Debug, Default)]
pub struct Victims {
    pub(super) list: Vec<Victim>,
}

impl Victims {
    /// Marks a folio, just taken off its list, as isolated and adds it to the batch.
    pub fn take(&mut self, folios: &Folios, frame: FrameId) {
        debug_assert!(self.list.len() < VICTIMS_MAX);
        let folio = &folios[frame];
        folio.update(|flags| Some(flags.without(Flags::ON_LIST).with(Flags::ISOLATED)));
        self.push(frame, folio.page());
    }

    /// Victims so far.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn push(&mut self, frame: FrameId, page: PageId) {
        let verdict = Verdict::Refused(Refusal::Busy);
        self.list.push(Victim { frame, page, verdict });
    }
}

/// What became of a victim that will not come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// Evicted: put `shadow` into its page word, unlock it, free the frame.
    Evicted {
        /// The page.
        page: PageId,
        /// Its frame, free once the word is published.
        frame: FrameId,
        /// What to leave in the word.
        shadow: Option<ShadowEntry>,
    },
    /// Its page was moved to a slower node: free the frame. The folio there joins the lists of its
    /// node ([`Lruvec::moved_in`](super::Lruvec::moved_in)).
    Demoted {
        /// The page.
        page: PageId,
        /// The frame it left.
        frame: FrameId,
    },
    /// Its page was dropped while it was isolated: free the frame, touch no word.
    Orphan {
        /// The frame.
        frame: FrameId,
    },
}

impl Settled {
    /// The frame to free.
    #[inline]
    pub fn frame(&self) -> FrameId {
        match *self {
            Settled::Evicted { frame, .. }
            | Settled::Demoted { frame, .. }
            | Settled::Orphan { frame } => frame,
        }
    }
}

/// The victims out for trial, and what came of the last ones. Reused from step to step.
#[derive(Debug, Default)]
pub struct ReclaimBatch {
    pub(crate) victims: Victims,
    /// To be published, before the next trial, in order.
    pub settled: Vec<Settled>,
    /// What was seen beside young victims.
    pub(crate) around: YoungPages,
}

impl ReclaimBatch {
    /// An empty batch.
    pub fn new() -> ReclaimBatch {
        ReclaimBatch::default()
    }

    /// An empty batch with room for all that a pass over lists without groups puts there.
    pub fn with_room() -> ReclaimBatch {
        ReclaimBatch {
            // Those that are tried again come behind the others, before these go.
            victims: Victims { list: Vec::with_capacity(2 * VICTIMS_MAX) },
            settled: Vec::with_capacity(VICTIMS_MAX),
            around: YoungPages::with_room_around(VICTIMS_MAX),
        }
    }

    /// The victims to try; the world writes each one's verdict.
    pub fn victims_mut(&mut self) -> &mut [Victim] {
        &mut self.victims.list
    }

    /// Young folios seen beside the victims.
    pub(crate) fn young_around(&self) -> &[FrameId] {
        &self.around.frames
    }

    /// The victims, and where to tell of the pages beside those found young
    /// ([`ReclaimPass::looks_around`](crate::reclaim::ReclaimPass::looks_around)).
    pub fn victims_and_around(&mut self) -> (&mut [Victim], &mut YoungPages) {
        (&mut self.victims.list, &mut self.around)
    }
}
