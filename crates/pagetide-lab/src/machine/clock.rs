//! Virtual time in nanoseconds, and the agenda of events.
//!
//! **Problem.** Simultaneous events must happen in the same order in every run. **Idea.** A heap
//! ordered by time, then by order of planning.
//!
//! ```text
//!   plan(at, what) --> [ (moment, number, what), ... ] --> advance(): the earliest one,
//!                                                          and now = its moment
//! ```
//!
//! **Invariants.** No event is planned for the past. `now` never goes back. **Ignored.**
//! Cancelling: a task that may be woken early waits in a queue instead. Source: the textbook's
//! event-driven simulation.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

/// Nanoseconds of virtual time: a time since the machine's start, or a duration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start, or no time.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than any event.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// Returns this many microseconds.
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros * 1_000)
    }

    /// Returns this many milliseconds.
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    /// Returns this many seconds.
    pub const fn from_secs(seconds: u64) -> Nanos {
        Nanos(seconds * 1_000_000_000)
    }

    /// Returns seconds, for people.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Nanos {
    type Output = Nanos;

    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Nanos;

    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.checked_sub(other.0).expect("virtual time does not go back"))
    }
}

impl Mul<u64> for Nanos {
    type Output = Nanos;

    fn mul(self, times: u64) -> Nanos {
        Nanos(self.0.saturating_mul(times))
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(durations: I) -> Nanos {
        durations.fold(Nanos::ZERO, Add::add)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}

#[derive(Clone, Debug)]
struct Planned<T> {
    at: Nanos,
    /// Keeps the order of simultaneous events.
    number: u64,
    what: T,
}

impl<T> Planned<T> {
    fn key(&self) -> (Nanos, u64) {
        (self.at, self.number)
    }
}

impl<T> PartialEq for Planned<T> {
    fn eq(&self, other: &Planned<T>) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Planned<T> {}

impl<T> PartialOrd for Planned<T> {
    fn partial_cmp(&self, other: &Planned<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Planned<T> {
    fn cmp(&self, other: &Planned<T>) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// The current time, and future events, earliest first.
#[derive(Clone, Debug)]
pub struct Agenda<T> {
    planned: BinaryHeap<Reverse<Planned<T>>>,
    nr_planned: u64,
    now: Nanos,
}

impl<T> Default for Agenda<T> {
    fn default() -> Agenda<T> {
        Agenda { planned: BinaryHeap::new(), nr_planned: 0, now: Nanos::ZERO }
    }
}

impl<T> Agenda<T> {
    /// Returns the current time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Plans an event at `at`, after the events planned for that time before.
    pub fn plan(&mut self, at: Nanos, what: T) {
        assert!(at >= self.now, "planned for {at}, but it is {} already", self.now);
        self.nr_planned += 1;
        self.planned.push(Reverse(Planned { at, number: self.nr_planned, what }));
    }

    /// Returns the time of the next event.
    pub fn peek(&self) -> Option<Nanos> {
        self.planned.peek().map(|Reverse(next)| next.at)
    }

    /// Moves the time to the next event and removes the event.
    pub fn advance(&mut self) -> Option<T> {
        let Reverse(next) = self.planned.pop()?;
        assert!(next.at >= self.now, "virtual time does not go back");
        self.now = next.at;
        Some(next.what)
    }

    /// Moves the time to `to`, before any event.
    pub fn pass(&mut self, to: Nanos) {
        assert!(to >= self.now, "virtual time does not go back");
        assert!(self.peek().is_none_or(|next| next >= to), "something is planned before {to}");
        self.now = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_moment_keeps_the_order_of_its_plans() {
        let mut agenda = Agenda::default();
        for (at, what) in [(5, 'b'), (3, 'a'), (5, 'c'), (9, 'e'), (5, 'd')] {
            agenda.plan(Nanos(at), what);
        }
        let order: String = std::iter::from_fn(|| agenda.advance()).collect();
        assert_eq!((order.as_str(), agenda.now()), ("abcde", Nanos(9)));
    }

    #[test]
    #[should_panic(expected = "planned for 3 ns, but it is 4 ns already")]
    fn the_past_cannot_be_planned() {
        let mut agenda = Agenda::default();
        agenda.plan(Nanos(4), ());
        agenda.advance();
        agenda.plan(Nanos(3), ());
    }

    #[test]
    #[should_panic(expected = "something is planned before 9 ns")]
    fn nothing_planned_is_passed_over() {
        let mut agenda = Agenda::default();
        agenda.plan(Nanos(4), ());
        agenda.pass(Nanos(9));
    }

    proptest! {
        #[test]
        fn the_clock_never_goes_back(delays in prop::collection::vec(0_u64..50, 1..200)) {
            let mut agenda = Agenda::default();
            agenda.plan(Nanos::ZERO, ());
            let (mut before, mut nr_seen) = (Nanos::ZERO, 0);
            let mut delays = delays.iter();
            while agenda.advance().is_some() {
                prop_assert!(agenda.now() >= before);
                before = agenda.now();
                nr_seen += 1;
                for delay in delays.by_ref().take(2) {
                    agenda.plan(agenda.now() + Nanos(*delay), ());
                }
            }
            prop_assert!(nr_seen > 0 && delays.next().is_none());
        }
    }
}
