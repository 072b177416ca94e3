//! What may come of a hint fault: what promotion decides, what the world then does, and why a page
//! stayed where it is.
//!
//! **Problem.** Three worlds judge faults: the page cache, the replay and the lab's tiers. Each
//! would turn decisions into deeds and counts in its own way.
//!
//! **Idea.** A [`Decision`] says why, for counters and people; its [`HintFaultAction`] says what to
//! do, and is all a world looks at. [`Refusals`] counts what was not moved.
//!
//! **Deliberately ignored.** Whether a move then succeeds: the world counts that.
//!
//! Source: the tiering specification, section 5; `Unsure` and the actions are our own.

/// Why a page is promoted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PromotionReason {
    /// It was touched, and nothing selects ([`is_base`](super::TieringSwitches::is_base)).
    Touched,
    /// The fast node has room to spare.
    FreeSpace,
    /// It is hot, and the rate limit lets it pass.
    Hot,
}

/// What becomes of a page after its hint fault. All but [`Decision::Promote`] serve it in place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub enum Decision {
    /// Move it: take a frame of the fast node without reclaim and without a retry, then
    /// [`Promotion::count_promoted`](super::Promotion::count_promoted). Where that fails, it is
    /// served in place too.
    Promote(PromotionReason),
    /// Its fault came too late after the scan.
    TooCold,
    /// It may be hot: arm it again at once, its stamp is renewed. Without knobs only.
    Unsure,
    /// It is hot, and enough are promoted already in this window.
    RateLimited,
    /// It would be promoted, but is being written, or is a file's and about to be.
    Unmovable,
    /// It would be promoted, but the fast node is at its HIGH watermark.
    NoRoom,
    /// The fast node has no memory.
    NoTarget,
}

impl Decision {
    /// Whether the world wakes background reclaim of the fast node, which demotes and thereby makes
    /// room for the next.
    pub const fn wakes_reclaim(self) -> bool {
        matches!(self, Decision::NoRoom)
    }

    /// What the world does with the page.
    pub const fn action(self) -> HintFaultAction {
        match self {
            Decision::Promote(_) => HintFaultAction::Move,
            Decision::Unsure => HintFaultAction::Arm,
            _ => HintFaultAction::Stay,
        }
    }
}

/// What the world does with a page after its hint fault, on a fast node or a slow one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub enum HintFaultAction {
    /// Nothing: it is served where it is.
    Stay,
    /// Arms it again, at once.
    Arm,
    /// Moves it to the fast node, as [`Decision::Promote`] has it.
    Move,
}

/// Hint faults in slow memory that moved nothing, by why.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Refusals {
    /// Pages whose access came too late after the scan, or that were not seen often enough.
    pub too_cold: u64,
    /// Hot pages, when enough had moved already.
    pub rate_limited: u64,
    /// Hot pages, when the fast node was full.
    pub no_room: u64,
    /// Hot pages that were to be written.
    pub unmovable: u64,
}

impl Refusals {
    pub(super) fn note(&mut self, decision: Decision) {
        match decision {
            Decision::TooCold | Decision::Unsure => self.too_cold += 1,
            Decision::RateLimited => self.rate_limited += 1,
            Decision::NoRoom => self.no_room += 1,
            Decision::Unmovable => self.unmovable += 1,
            Decision::Promote(_) | Decision::NoTarget => {}
        }
    }
}

/// A page's move from node to node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Migration {
    /// To the fast node.
    Promotion,
    /// Away from it, to a slower one.
    Demotion,
}
