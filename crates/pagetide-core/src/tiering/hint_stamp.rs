//! How long ago a page was armed.
//!
//! **Problem.** The latency of a hint fault needs the time of the scan that armed the page, for
//! every page. **Idea.** Milliseconds modulo 2^32 in the page's descriptor, which wrap after 49
//! days; the kernel has 21 bits at most, beside a CPU's number, and wraps after 35 minutes.
//!
//! **Data and invariants.** A stamp is written when a page is armed and when its fault is judged;
//! a move to another tier resets it to all ones. A fault later than the wrap looks earlier than it
//! is, as in the kernel.
//!
//! Source: the tiering specification, section 3 (Linux 6.18).

use crate::units::Millis;

pub(super) const fn hint_stamp(now: Millis) -> u32 {
    now.0 as u32
}

/// The time from a stamp to `now`, modulo the wrap.
pub(super) const fn hint_latency(now: Millis, stamp: u32) -> Millis {
    Millis(hint_stamp(now).wrapping_sub(stamp) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn latencies_are_exact_wherever_the_clock_stands(armed: u64, wait in 0u64..1 << 36) {
            let fault = Millis(armed.wrapping_add(wait));
            let measured = hint_latency(fault, hint_stamp(Millis(armed)));
            prop_assert_eq!(measured.0, wait % (1 << 32));
        }
    }
}
