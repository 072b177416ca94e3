//! What became of promotions: whether they paid, and whether they came to nothing.
//!
//! ```text
//!   promoted ---- accesses ---- demoted          paid:      as many accesses as earn the cost back
//!      |<----- under a minute? ---->|            ping-pong: demoted again so soon
//! ```
//!
//! **Problem.** A high promotion rate may be work well done or done over and over; the score alone
//! does not say which. **Idea.** Remember of each page when it was promoted and how often it had
//! been used by then; when it is demoted, or at the end, judge.
//!
//! **Data and invariants.** Only promotions since [`Tally::restart`] are judged. One still in fast
//! memory at the end counts as paid if it already was, and is left out if not: its time may come.
//!
//! **Ignored.** Which pages were demoted to make room. Source: our own; the papers publish no such
//! figures.

/// How soon a demotion makes a promotion a mistake: the longest scan period.
const PING_PONG_NS: u64 = 60_000_000_000;

/// Of one page, while it is where it was promoted to.
#[derive(Clone, Copy, Debug)]
struct Promoted {
    at_ns: u64,
    /// Accesses to the page by then.
    uses: u32,
    /// It has been judged: the page is demoted, or was promoted before the tally began.
    is_judged: bool,
}

/// Counts since the last restart.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Migrations {
    pub(super) nr_promoted: u64,
    pub(super) nr_demoted: u64,
    pub(super) nr_hint_faults: u64,
    /// Promotions that were demoted within the minute.
    pub(super) nr_ping_pong: u64,
    /// Promotions judged, and those of them that paid.
    pub(super) nr_judged: u64,
    pub(super) nr_paid: u64,
}

/// The judge of promotions.
#[derive(Debug)]
pub(super) struct Tally {
    /// `[pages]`.
    promoted: Vec<Promoted>,
    uses_to_pay: u32,
    counts: Migrations,
}

impl Tally {
    /// No promotions yet; one pays with so many accesses.
    pub(super) fn new(nr_pages: u32, uses_to_pay: u64) -> Tally {
        let none = Promoted { at_ns: 0, uses: 0, is_judged: true };
        Tally {
            promoted: vec![none; nr_pages as usize],
            uses_to_pay: u32::try_from(uses_to_pay).unwrap_or(u32::MAX),
            counts: Migrations::default(),
        }
    }

    /// Counts from zero; promotions so far are not judged.
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

    /// All counts, with those promotions judged that paid already. `uses` says how often each page
    /// has been used.
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
