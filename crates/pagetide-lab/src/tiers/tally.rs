//! The outcome of promotions: paid, or undone soon.
//!
//! ```text
//!   promoted ---- accesses ---- demoted          paid:      enough accesses to repay the cost
//!      |<----- under a minute? ---->|            ping-pong: demoted again so soon
//! ```
//!
//! **Problem.** A high promotion rate may be useful work or repeated work. **Idea.** Remember the
//! time and use count of each promotion, and judge at the demotion or at the end.
//!
//! **Data and invariants.** Only promotions since [`Tally::restart`] are judged. A page in fast
//! memory at the end counts only if it already paid.
//!
//! **Ignored.** Pages demoted to make room. Source: our own. The papers publish no such figures.

/// Time limit of a ping-pong: the longest scan period.
const PING_PONG_NS: u64 = 60_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Promoted {
    at_ns: u64,
    /// Accesses of the page at the promotion.
    uses: u32,
    /// Set after a demotion, or before the tally began.
    is_judged: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Migrations {
    pub(super) nr_promoted: u64,
    pub(super) nr_demoted: u64,
    pub(super) nr_hint_faults: u64,
    /// Promotions demoted within the minute.
    pub(super) nr_ping_pong: u64,
    /// Judged promotions, and the paid ones among them.
    pub(super) nr_judged: u64,
    pub(super) nr_paid: u64,
}

#[derive(Debug)]
pub(super) struct Tally {
    /// `[pages]`.
    promoted: Vec<Promoted>,
    uses_to_pay: u32,
    counts: Migrations,
}

impl Tally {
    /// Returns an empty tally. A promotion pays after `uses_to_pay` accesses.
    pub(super) fn new(nr_pages: u32, uses_to_pay: u64) -> Tally {
        let none = Promoted { at_ns: 0, uses: 0, is_judged: true };
        Tally {
            promoted: vec![none; nr_pages as usize],
            uses_to_pay: u32::try_from(uses_to_pay).unwrap_or(u32::MAX),
            counts: Migrations::default(),
        }
    }

    /// Resets the counts and excludes the promotions so far.
    pub(super) fn restart(&mut self) {
        self.promoted.iter_mut().for_each(|page| page.is_judged = true);
        self.counts = Migrations::default();
    }

    pub(super) fn hint_fault(&mut self) {
        self.counts.nr_hint_faults += 1;
    }

    pub(super) fn promoted(&mut self, page: u32, at_ns: u64, uses: u32) {
        self.counts.nr_promoted += 1;
        self.promoted[page as usize] = Promoted { at_ns, uses, is_judged: false };
    }

    pub(super) fn demoted(&mut self, page: u32, at_ns: u64, uses: u32) {
        self.counts.nr_demoted += 1;
        let page = &mut self.promoted[page as usize];
        if page.is_judged {
            return;
        }
        page.is_judged = true;
        self.counts.nr_judged += 1;
        self.counts.nr_ping_pong += u64::from(at_ns - page.at_ns < PING_PONG_NS);
        self.counts.nr_paid += u64::from(uses.wrapping_sub(page.uses) >= self.uses_to_pay);
    }

    /// Returns all counts, including promotions that paid already. `uses` returns the accesses of a
    /// page.
    pub(super) fn sum(&self, uses: impl Fn(u32) -> u32) -> Migrations {
        let pays = |(page, promoted): &(u32, &Promoted)| {
            let so_far = uses(*page).wrapping_sub(promoted.uses);
            !promoted.is_judged && so_far >= self.uses_to_pay
        };
        let nr_paid = (0..).zip(&self.promoted).filter(pays).count() as u64;
        Migrations {
            nr_judged: self.counts.nr_judged + nr_paid,
            nr_paid: self.counts.nr_paid + nr_paid,
            ..self.counts
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotions_are_judged_by_their_accesses_and_by_how_soon_they_are_undone() {
        let mut tally = Tally::new(5, 10);
        tally.promoted(4, 1, 0);
        tally.restart();
        tally.promoted(0, 5, 100);
        tally.demoted(0, 5 + PING_PONG_NS, 110);
        tally.promoted(1, 5, 100);
        tally.demoted(1, 4 + PING_PONG_NS, 109);
        tally.promoted(2, 5, u32::MAX);
        tally.promoted(3, 5, 7);
        tally.demoted(4, 6, 50);
        tally.hint_fault();
        // Page 2 has wrapped round and paid, page 3 has not yet.
        let expected = Migrations {
            nr_promoted: 4,
            nr_demoted: 3,
            nr_hint_faults: 1,
            nr_ping_pong: 1,
            nr_judged: 3,
            nr_paid: 2,
        };
        assert_eq!(tally.sum(|page| [0, 0, 9, 16, 0][page as usize]), expected);
    }
}
