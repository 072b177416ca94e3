//! Compares the hits of two designs with a significance test.
//!
//! Only accesses with different results count. If the designs were equally good, each would be a
//! coin toss. After V tosses a lead L above z standard deviations is improbable. In integers, for L
//! > 0:
//!
//! ```text
//!   L > z sqrt(V)      <=>      L^2 > z^2 V
//! ```
//!
//! Old accesses are forgotten by halving. Ignored: hits come in bursts, and the test is repeated
//! often. z is large for that reason.

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Contest {
    /// Hits of the first design minus hits of the second.
    pub(super) lead: i64,
    /// Accesses with different results.
    pub(super) nr_disagreed: u64,
    /// Hits lost by the second since the last change, or since this was 0.
    pub(super) lost: u64,
    /// Accesses since then.
    pub(super) nr_since: u64,
}

impl Contest {
    /// Takes 1 if only the first hit, -1 if only the second, else 0.
    #[inline]
    pub(super) fn note(&mut self, lead: i64) {
        if lead == 0 {
            // Without losses, the count is 0.
            self.nr_since += u64::from(self.lost > 0);
            return;
        }
        self.lead += lead;
        self.nr_disagreed += lead.unsigned_abs();
        self.lost = self.lost.saturating_add_signed(lead);
        self.nr_since = if self.lost > 0 { self.nr_since + 1 } else { 0 };
    }

    pub(super) fn forget_losses(&mut self) {
        (self.lost, self.nr_since) = (0, 0);
    }

    pub(super) fn is_sure(&self, sigmas: u32) -> bool {
        let z = u64::from(sigmas);
        self.lead > 0 && self.lead.unsigned_abs().pow(2) > z * z * self.nr_disagreed
    }

    pub(super) fn halve(&mut self) {
        self.lead /= 2;
        self.nr_disagreed /= 2;
    }
}
