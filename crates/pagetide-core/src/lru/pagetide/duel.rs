//! A duel: which of two designs hits more often, and is that more than chance?
//!
//! **Problem.** Two designs see the same accesses. Now one hits what the other misses, now the
//! other; when is one of them better? **Idea.** Only accesses at which they disagree say anything.
//! Were both equally good, each would be a toss of a coin, and after V tosses a lead L as large as
//! z standard deviations, L > z sqrt(V), would be a rare accident. In integers, for L > 0:
//!
//! ```text
//!   L > z sqrt(V)      <=>      L^2 > z^2 V
//! ```
//!
//! What was long ago is forgotten by halves. **Ignored.** That hits come in bursts, and that a lead
//! is looked at often: z is large for it.

/// How two designs compare.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Duel {
    /// Hits of the first more than of the second.
    pub(super) lead: i64,
    /// Accesses at which they disagreed.
    pub(super) nr_seen: u64,
    /// The lead since the one in charge changed, or since it was worth nothing.
    pub(super) rent: i64,
    /// Accesses since then.
    pub(super) nr_owed: u64,
}

impl Duel {
    /// An access that only one of the two hit: 1 if it was the first, -1 if the other.
    pub(super) fn note(&mut self, lead: i64) {
        self.lead += lead;
        self.nr_seen += lead.unsigned_abs();
        self.rent = (self.rent + lead).max(0);
        self.nr_owed = if self.rent > 0 { self.nr_owed + 1 } else { 0 };
    }

    /// Rent begins anew.
    pub(super) fn forget_rent(&mut self) {
        (self.rent, self.nr_owed) = (0, 0);
    }

    /// Whether the lead is more than chance, by so many standard deviations.
    pub(super) fn is_sure(&self, sigmas: u32) -> bool {
        let z = u64::from(sigmas);
        self.lead > 0 && self.lead.unsigned_abs().pow(2) > z * z * self.nr_seen
    }

    /// What was seen until now counts half.
    pub(super) fn halve(&mut self) {
        self.lead /= 2;
        self.nr_seen /= 2;
    }
}
