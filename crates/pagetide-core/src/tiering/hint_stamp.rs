//! Time since a page was armed.
//!
//! **Problem.** Hint-fault latency needs the arming time of every page. **Idea.** Milliseconds
//! modulo 2^32 in the descriptor, which wrap after 49 days. The kernel has at most 21 bits (35
//! minutes).
//!
//! **Data and invariants.** Arming and judging write the stamp, a move to another tier resets it. A
//! fault after a wrap looks too early, as in the kernel.
//!
//! **Source.** Linux 6.18's NUMA balancing.

use crate::units::Millis;

pub(super) const fn hint_stamp(now: Millis) -> u32 {
    now.0 as u32
}

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
