//! How long ago a page was armed, in few bits.
//!
//! **Problem.** The latency of a hint fault needs the time of the scan that armed the page, for
//! every page, in a descriptor that has no room. The kernel keeps it in the field that names the
//! last CPU, which is as wide as CPU numbers are, and 8 bits.
//!
//! **Idea.** Milliseconds modulo a power of two. A field too narrow for 4096 ms drops low bits
//! instead, and measures more coarsely.
//!
//! ```text
//!   width 21    now in ms ...|xxxxxxxxxxxxxxxxxxxxx|        wraps after 35 minutes
//!   width  8    now in ms ..............|xxxxxxxx|0000|     steps of 16 ms, wraps after 4096 ms
//! ```
//!
//! **Data and invariants.** A stamp is written when a page is armed and when its fault is judged;
//! a move to another tier resets it to all ones. Latencies are exact modulo the wrap, down to the
//! step: a fault later than that looks earlier than it is, as in the kernel.
//!
//! Source: the tiering specification, section 3 (Linux 6.18).

use crate::units::Millis;

/// Bits of a stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StampWidth {
    bits: u32,
}

impl StampWidth {
    /// All that a descriptor has room for here: wraps after 49 days.
    pub const WIDEST: StampWidth = StampWidth { bits: u32::BITS };
    /// A stamp in milliseconds has so many bits; a narrower one has larger steps.
    const BITS_OF_MILLIS: u32 = 12;
    /// The bits of a process id beside the CPU's.
    const PID_BITS: u32 = 8;

    /// What a kernel built for up to `nr_cpus` CPUs has: 21 bits for 8192.
    pub const fn for_cpus(nr_cpus: u32) -> StampWidth {
        let cpu_bits = match nr_cpus {
            0 | 1 => 0,
            many => u32::BITS - (many - 1).leading_zeros(),
        };
        let bits = Self::PID_BITS + cpu_bits;
        StampWidth { bits: if bits < u32::BITS { bits } else { u32::BITS } }
    }

    /// How many bits a stamp has.
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// The stamp of `now`.
    pub const fn store(self, now: Millis) -> u32 {
        ((now.0 >> self.shift()) & self.field()) as u32
    }

    /// The time from a stamp to `now`, modulo the wrap.
    pub const fn latency(self, now: Millis, stored: u32) -> Millis {
        let then = (stored as u64) << self.shift();
        Millis(now.0.wrapping_sub(then) & (self.field() << self.shift()))
    }

    const fn shift(self) -> u32 {
        Self::BITS_OF_MILLIS.saturating_sub(self.bits)
    }

    const fn field(self) -> u64 {
        (1 << self.bits) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folio::HINT_STAMP_RESET;
    use proptest::prelude::*;

    const NARROW: StampWidth = StampWidth::for_cpus(1);

    fn latency(width: StampWidth, armed: u64, fault: u64) -> u64 {
        width.latency(Millis(fault), width.store(Millis(armed))).0
    }

    /// A latency of so many milliseconds is measured as none.
    fn wraps_after(width: StampWidth) -> u64 {
        1 << (width.bits + width.shift())
    }

    #[test]
    fn widths_follow_the_number_of_cpus() {
        let bits = |nr_cpus| StampWidth::for_cpus(nr_cpus).bits();
        assert_eq!([1, 2, 3, 4, 256, 257, 8192].map(bits), [8, 9, 10, 10, 16, 17, 21]);
        assert_eq!(bits(u32::MAX), 32);
        assert_eq!(wraps_after(NARROW), 4096);
        assert_eq!(wraps_after(StampWidth::for_cpus(16)), 4096);
        assert_eq!(wraps_after(StampWidth::for_cpus(8192)), 1 << 21);
    }

    #[test]
    fn wide_stamps_measure_milliseconds() {
        let wide = StampWidth::for_cpus(8192);
        assert_eq!(latency(wide, 1000, 1500), 500);
        assert_eq!(latency(wide, 1000, 5100), 4100);
    }

    #[test]
    fn narrow_stamps_measure_steps_and_wrap() {
        assert_eq!(latency(NARROW, 1000, 1500), 496);
        assert_eq!(latency(NARROW, 1000, 1007), 0);
        assert_eq!(latency(NARROW, 1000, 1016), 16);
        assert_eq!(latency(NARROW, 1000, 5100), 0, "hot by mistake, after the wrap");
    }

    #[test]
    fn a_reset_stamp_is_all_ones_at_any_width() {
        for width in [NARROW, StampWidth::for_cpus(64), StampWidth::WIDEST] {
            let ones = ((1u64 << width.bits()) - 1) as u32;
            for now in [0, 1, 4095, 1 << 40] {
                let now = Millis(now);
                assert_eq!(width.latency(now, HINT_STAMP_RESET), width.latency(now, ones));
            }
        }
    }

    proptest! {
        #[test]
        fn latencies_are_exact_to_a_step_wherever_the_clock_stands(
            nr_cpus in 1u32..100_000,
            armed: u64,
            wait in 0u64..1 << 36,
        ) {
            let width = StampWidth::for_cpus(nr_cpus);
            let fault = armed.wrapping_add(wait);
            let measured = latency(width, armed, fault);
            let step = 1u64 << 12u32.saturating_sub(width.bits());
            let wrap = wraps_after(width);
            // The stamp rounds the scan down, and the mask what is left.
            let expected = (wait + armed % step) / step * step % wrap;
            prop_assert_eq!(measured, expected);
        }
    }
}
