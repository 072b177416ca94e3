//! The outcome of a hint fault.
//!
//! **Problem.** Page cache, replay and lab need the same actions and counts.
//!
//! **Idea.** A [`Decision`] gives the reason, its [`HintFaultAction`] the action. [`Refusals`]
//! counts the faults without a move.
//!
//! **Ignored.** Success of the move.
//!
//! **Source.** "memory tiering: hot page selection", Huang Ying, 2022. `Unsure` and the actions
//! are original.

/// Reason for a promotion.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PromotionReason {
    /// Touched, without selection ([`is_base`](super::TieringSwitches::is_base)).
    Touched,
    /// The fast node has free space.
    FreeSpace,
    /// Hot, and within the rate limit.
    Hot,
}

/// Result of a hint fault. All but [`Decision::Promote`] leave the page in place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub enum Decision {
    /// Take a frame of the fast node, without reclaim or retry, move the page, and call
    /// [`Promotion::count_promoted`](super::Promotion::count_promoted). Without a frame the page
    /// stays.
    Promote(PromotionReason),
    /// The fault came too long after the scan.
    TooCold,
    /// Possibly hot: arm again at once. Without knobs only.
    Unsure,
    /// Hot, but over the window's rate limit.
    RateLimited,
    /// Promotable, but under write-back or a dirty file page.
    Unmovable,
    /// Promotable, but the fast node is at HIGH.
    NoRoom,
    /// The fast node has no memory.
    NoTarget,
}

impl Decision {
    /// Returns true to wake background reclaim of the fast node.
    pub const fn wakes_reclaim(self) -> bool {
        matches!(self, Decision::NoRoom)
    }

    /// Returns the world's action.
    pub const fn action(self) -> HintFaultAction {
        match self {
            Decision::Promote(_) => HintFaultAction::Move,
            Decision::Unsure => HintFaultAction::Arm,
            _ => HintFaultAction::Stay,
        }
    }
}

/// Action of the world after a hint fault on any node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub enum HintFaultAction {
    /// Serve in place.
    Stay,
    /// Arm again at once.
    Arm,
    /// Move to the fast node ([`Decision::Promote`]).
    Move,
}

/// Hint faults in slow memory without a move, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Refusals {
    /// Too long after the scan, or seen too rarely.
    pub too_cold: u64,
    /// Hot, over the rate limit.
    pub rate_limited: u64,
    /// Hot, fast node full.
    pub no_room: u64,
    /// Hot, dirty or under write-back.
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

/// Direction of a page's move.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Migration {
    /// To the fast node.
    Promotion,
    /// To a slower node.
    Demotion,
}
