//! A contest: which of two designs hits more often, and is that more than chance?
//!
//! Two designs see the same accesses. Only those at which they disagree say anything. Were both
//! equally good, each would be a toss of a coin, and after V tosses a lead L of more than z
//! standard deviations would be a rare accident. In integers, for L > 0:
//!
//! ```text
//!   L > z sqrt(V)      <=>      L^2 > z^2 V
//! ```
//!
//! What was long ago is forgotten by halves. Ignored: that hits come in bursts, and that a lead is
//! looked at often; z is large for it.

/// How two designs compare.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Contest {
    /// Hits of the first more than of the second, lately.
    pub(super) lead: i64,
    /// Accesses at which they disagreed, lately.
    pub(super) nr_disagreed: u64,
    /// What the second has lost to the first since another took charge, or since that was nothing.
    pub(super) lost: u64,
    /// Accesses since then.
    pub(super) nr_since: u64,
}

impl Contest {
    /// An access: 1 if only the first hit, -1 if only the second, else 0.
    pub(super) fn note(&mut self, lead: i64) {
        self.lead += lead;
        self.nr_disagreed += lead.unsigned_abs();
        self.lost = self.lost.saturating_add_signed(lead);
        self.nr_since = if self.lost > 0 { self.nr_since + 1 } else { 0 };
    }

    /// Another is in charge: what was lost before does not count.
    pub(super) fn forget_losses(&mut self) {
        (self.lost, self.nr_since) = (0, 0);
    }

    /// Whether the lead is more than chance, by so many standard deviations.
    pub(super) fn is_sure(&self, sigmas: u32) -> bool {
        let z = u64::from(sigmas);
        self.lead > 0 && self.lead.unsigned_abs().pow(2) > z * z * self.nr_disagreed
    }

    /// What was seen until now counts half.
    pub(super) fn halve(&mut self) {
        self.lead /= 2;
        self.nr_disagreed /= 2;
    }
}
