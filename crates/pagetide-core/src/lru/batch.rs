//! A batch of victims: core's choice, the world's verdicts, and the results.
//!
//! ```text
//!   isolated --> Victim { verdict } --> the world tries it --> Settled --> the world publishes it
//! ```
//!
//! The vectors are reused from step to step, so a pass allocates at its first batch only. A batch
//! [with room](ReclaimBatch::with_room) never allocates in a pass without table walks.

use super::page_table::YoungPages;
use super::{ShadowEntry, VICTIMS_MAX};
use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, PageId};
use alloc::vec::Vec;

/// The world's answer to a victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The page word is locked for eviction, and the pass owns the frame.
    Claimed,
    /// The page moved to a slower node, dirty or not, and the pass owns the frame. Only in a pass
    /// that demotes ([`Scan::demotes`](super::Scan::demotes)).
    Demoted,
    /// The victim could not be taken.
    Refused(Refusal),
}

/// The reason of a refused victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Accessed through a table since the last look. The young bit is now clear.
    Young,
    /// Pinned or locked.
    Busy,
    /// Dirty or under write-back.
    Dirty,
}

/// An isolated folio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Victim {
    /// The folio's frame.
    pub frame: FrameId,
    /// The page in the frame.
    pub page: PageId,
    /// The world's answer. Initially busy, so that an untried victim is put back.
    pub verdict: Verdict,
}

/// The victims of one batch, at most [`VICTIMS_MAX`].
#[derive(Debug, Default)]
pub struct Victims {
    pub(super) list: Vec<Victim>,
}

impl Victims {
    /// Marks an unlinked folio as isolated and adds it to the batch.
    pub fn take(&mut self, folios: &Folios, frame: FrameId) {
        debug_assert!(self.list.len() < VICTIMS_MAX);
        let folio = &folios[frame];
        folio.update(|flags| Some(Victims::isolated(flags)));
        self.push(frame, folio.page());
    }

    /// Returns the flags of an isolated folio.
    #[inline]
    pub(super) fn isolated(flags: Flags) -> Flags {
        flags.without(Flags::ON_LIST).with(Flags::ISOLATED)
    }

    /// Returns the number of victims.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns true if the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn push(&mut self, frame: FrameId, page: PageId) {
        let verdict = Verdict::Refused(Refusal::Busy);
        self.list.push(Victim { frame, page, verdict });
    }
}

/// The result of a victim that will not come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// Evicted: store `shadow` in the page word, unlock the word, free the frame.
    Evicted {
        /// The page.
        page: PageId,
        /// The frame, free once the word is published.
        frame: FrameId,
        /// The new content of the page word.
        shadow: Option<ShadowEntry>,
    },
    /// Moved to a slower node: free the frame. The new folio joins the lists of its node
    /// ([`Lruvec::moved_in`](super::Lruvec::moved_in)).
    Demoted {
        /// The page.
        page: PageId,
        /// The old frame.
        frame: FrameId,
    },
}

impl Settled {
    /// Returns the frame to free.
    #[inline]
    pub fn frame(&self) -> FrameId {
        match *self {
            Settled::Evicted { frame, .. } | Settled::Demoted { frame, .. } => frame,
        }
    }
}

/// The victims under trial and the settled ones. Reused from step to step.
#[derive(Debug, Default)]
pub struct ReclaimBatch {
    pub(crate) victims: Victims,
    /// Results to publish in order, and to remove, before the next trial.
    pub settled: Vec<Settled>,
    pub(crate) around: YoungPages,
}

impl ReclaimBatch {
    /// Creates an empty batch.
    pub fn new() -> ReclaimBatch {
        ReclaimBatch::default()
    }

    /// Creates an empty batch with capacity for any pass over lists without groups.
    pub fn with_room() -> ReclaimBatch {
        ReclaimBatch {
            // Retried victims are appended before the first ones are removed.
            victims: Victims { list: Vec::with_capacity(2 * VICTIMS_MAX) },
            settled: Vec::with_capacity(VICTIMS_MAX),
            around: YoungPages::with_room_around(VICTIMS_MAX),
        }
    }

    /// Returns the victims, for the world to write the verdicts.
    pub fn victims_mut(&mut self) -> &mut [Victim] {
        &mut self.victims.list
    }

    /// Returns true if there are victims to try, for example once more after [`Lruvec::settle`].
    ///
    /// [`Lruvec::settle`]: super::Lruvec::settle
    pub(crate) fn has_victims(&self) -> bool {
        !self.victims.is_empty()
    }

    /// Removes a victim, if its page is discarded between isolation and trial. Returns false for
    /// other frames. Only a world of one thread lets other work in between.
    pub fn forget(&mut self, frame: FrameId) -> bool {
        let place = self.victims.list.iter().position(|victim| victim.frame == frame);
        place.map(|place| self.victims.list.remove(place)).is_some()
    }

    pub(crate) fn young_around(&self) -> &[FrameId] {
        &self.around.frames
    }

    /// Returns the victims, and the collector of pages around young victims
    /// ([`ReclaimPass::looks_around`](crate::reclaim::ReclaimPass::looks_around)).
    pub fn victims_and_around(&mut self) -> (&mut [Victim], &mut YoungPages) {
        (&mut self.victims.list, &mut self.around)
    }
}
