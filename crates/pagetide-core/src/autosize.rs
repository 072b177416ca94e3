//! Chooses the size of the cache from the memory that other programs leave.
//!
//! **Problem.** A fixed limit is too small most of the time, or too large at the worst moment.
//! Programs take memory faster than a cache releases any.
//!
//! **Idea.** Reserve the peak usage of other programs, or a high guess until bursts have returned
//! to the peak twice. Shrink at once above the reserve.
//!
//! ```text
//!   total  [ others | reserve: peak usage, decays in minutes | cache ............ | margin ]
//!   margin                      twice the largest rise between two looks
//!   others above the peak       shrink, and reserve three more such rises
//!   threads wait for memory     shrink by a sixteenth
//!   calm                        grow by an eighth, if the sizing curve predicts hits
//! ```
//!
//! **Data and invariants.** The size stays within the bounds. **Ignored.** Swap.

/// One observation of memory. Sizes are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RoomLook {
    /// Size of the cache.
    pub memory: u64,
    /// Memory of the machine or container.
    pub total: u64,
    /// Memory that is free without reclaim.
    pub spare: u64,
    /// Time since the last look with a thread waiting for memory, per mille.
    pub stalled: u32,
    /// Accesses that an eighth more memory would make hits, per million.
    pub gain: u32,
}

/// Reason for a size change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeReason {
    /// More memory brings hits.
    Pays,
    /// Other programs need the reserve.
    Reserve,
    /// Threads waited for memory.
    Stalled,
}

/// A size change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeStep {
    /// New size, bytes.
    pub memory: u64,
    /// Reason.
    pub reason: SizeReason,
}

/// Size chooser, stepped once per look.
#[derive(Clone, Copy, Debug)]
pub struct AutoSize {
    least: u64,
    most: u64,
    /// Assumed usage of other programs, bytes. Decays.
    belief: Option<u64>,
    peak: Peak,
    others: u64,
    /// Largest rise between two looks, bytes. Decays.
    rise: u64,
    nr_calm: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    /// Bytes. Decays.
    height: u64,
    /// Looks since usage fell far below.
    nr_below: u32,
    nr_returns: u32,
}

/// Looks from the last shrink to growth.
const CALM: u32 = 50;
/// Least stall time that shrinks, per mille.
const STALLED: u32 = 100;
/// Least gain that grows, per million.
const GAIN: u32 = 1000;
/// Bounds of the margin, as divisors of memory.
const MARGIN_PARTS: (u64, u64) = (32, 16);
/// First assumption, in eighths of memory.
const PRIOR_EIGHTHS: u64 = 5;
/// Returns that make a peak known.
const RETURNS: u32 = 2;
/// Looks before a peak decays: one minute at 100 a second.
const HOLD: u32 = 6000;
/// Decay per look: to a third in ten minutes.
const FADE: u64 = 1 << 16;

impl AutoSize {
    /// Creates a chooser for `least` to `most` bytes.
    pub fn new(least: u64, most: u64) -> AutoSize {
        let most = most.max(least);
        let peak = Peak::default();
        AutoSize { least, most, belief: None, peak, others: 0, rise: 0, nr_calm: 0 }
    }

    /// Returns a size change, if due, to apply before the next look.
    pub fn step(&mut self, look: &RoomLook) -> Option<SizeStep> {
        let room = self.room(look);
        if room < look.memory {
            return self.shrink(look.memory, room, SizeReason::Reserve);
        }
        if look.stalled > STALLED && look.spare < look.total / 2 {
            let to = look.memory - look.memory / 16;
            return self.shrink(look.memory, to, SizeReason::Stalled);
        }
        self.nr_calm = self.nr_calm.saturating_add(1);
        self.grow(look, room)
    }

    /// Returns the largest size that fits, bytes.
    fn room(&mut self, look: &RoomLook) -> u64 {
        let others = look.total.saturating_sub(look.spare).saturating_sub(look.memory);
        let belief = self.belief.unwrap_or_else(|| {
            self.others = others;
            others.saturating_add(look.total / 8 * PRIOR_EIGHTHS)
        });
        self.belief = Some(belief - belief / FADE);
        self.rise = (self.rise - self.rise / FADE).max(others.saturating_sub(self.others));
        self.others = others;
        let (least, most) = (look.total / MARGIN_PARTS.0, look.total / MARGIN_PARTS.1);
        let margin = self.rise.saturating_mul(2).clamp(least, most);
        let known = match self.peak.nr_returns < RETURNS {
            true => belief.max(self.peak.height),
            false => self.peak.height,
        };
        let near = margin / 8;
        self.peak.see(others, near, most);
        let wanted = match others > known.saturating_add(near) {
            true => others.saturating_add(self.rise.max(most).saturating_mul(3)),
            false => known.max(others),
        };
        look.total.saturating_sub(margin).saturating_sub(wanted).max(self.least)
    }

    fn shrink(&mut self, memory: u64, to: u64, reason: SizeReason) -> Option<SizeStep> {
        self.nr_calm = 0;
        let to = to.clamp(self.least, self.most);
        (to < memory).then_some(SizeStep { memory: to, reason })
    }

    fn grow(&self, look: &RoomLook, room: u64) -> Option<SizeStep> {
        if self.nr_calm < CALM || look.gain < GAIN {
            return None;
        }
        let to = look.memory.saturating_add(look.memory / 8).min(room);
        let to = to.clamp(self.least, self.most);
        // A smaller step costs more than it brings.
        let is_worth_it = to.saturating_sub(look.memory) > look.memory / 64;
        is_worth_it.then_some(SizeStep { memory: to, reason: SizeReason::Pays })
    }
}

impl Peak {
    /// Records usage. Differences below `near` are noise, a drop above `far` ends a burst.
    fn see(&mut self, others: u64, near: u64, far: u64) {
        if others > self.height.saturating_add(near) {
            *self = Peak { height: others, ..Peak::default() };
        } else if others.saturating_add(near) >= self.height {
            self.height = self.height.max(others);
            self.nr_returns += u32::from(self.nr_below > 0);
            self.nr_below = 0;
        } else if self.nr_below > 0 || others.saturating_add(far) < self.height {
            self.nr_below = self.nr_below.saturating_add(1);
            if self.nr_below > HOLD {
                self.height -= self.height / FADE;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A container of 512 MiB.
    fn look(memory: u64, others: u64) -> RoomLook {
        let total = 512 * MIB;
        let spare = total.saturating_sub(memory + others);
        RoomLook { memory, total, spare, stalled: 0, gain: 50_000 }
    }

    fn play(auto: &mut AutoSize, memory: &mut u64, others: u64) -> Option<SizeReason> {
        let step = auto.step(&look(*memory, others))?;
        *memory = step.memory;
        Some(step.reason)
    }

    #[test]
    fn it_grows_in_calm_while_that_pays_into_what_others_have_not_had() {
        let mut auto = AutoSize::new(16 * MIB, 1 << 40);
        let mut memory = 16 * MIB;
        let mut grow = |nr_looks: u32| {
            let steps = (0..nr_looks).filter_map(|_| play(&mut auto, &mut memory, 10 * MIB));
            assert!(steps.into_iter().all(|reason| reason == SizeReason::Pays));
            memory / MIB
        };
        // The first assumption is 330 MiB.
        let soon = grow(400);
        assert!((156..172).contains(&soon), "{soon}");
        let later = grow(200_000);
        assert!((450..490).contains(&later), "{later}");

        let mut auto = AutoSize::new(16 * MIB, 1 << 40);
        let idle = RoomLook { gain: 0, ..look(16 * MIB, 0) };
        assert!((0..400).all(|_| auto.step(&idle).is_none()), "nothing is gained");
    }

    /// Others use 20 MiB, then `burst` MiB more within 30 looks.
    fn play_burst(auto: &mut AutoSize, memory: &mut u64, burst: u64, nr_looks: u64) {
        for nth in 0..2 * nr_looks {
            let rises = (nth + 1).saturating_sub(nr_looks);
            let others = 20 + (burst * rises / 30).min(burst);
            assert!(*memory + others * MIB <= 512 * MIB, "{memory} in look {nth} of {burst} MiB");
            play(auto, memory, others * MIB);
        }
    }

    #[test]
    fn bursts_find_what_they_take_and_cost_no_memory_once_they_are_known() {
        for (burst, nr_looks, expected) in
            [(300, 300, 160), (300, 100, 160), (300, 3000, 160), (100, 300, 364), (400, 300, 60)]
        {
            let mut auto = AutoSize::new(16 * MIB, 1 << 40);
            let mut memory = 16 * MIB;
            for round in 0..20 {
                play_burst(&mut auto, &mut memory, burst, nr_looks);
                assert!(memory >= expected * MIB || round < 4, "{memory} beside {burst}, {round}");
            }
            // Larger than all before.
            play_burst(&mut auto, &mut memory, 440, nr_looks);
        }
    }

    #[test]
    fn what_others_take_beyond_their_peak_is_given_up_ahead_of_them() {
        let mut auto = AutoSize::new(16 * MIB, 1 << 40);
        let mut memory = 16 * MIB;
        for _ in 0..200_000 {
            play(&mut auto, &mut memory, 10 * MIB);
        }
        assert!(memory > 400 * MIB, "{memory}");
        // 10 MiB a look.
        for others in (10..480).step_by(10) {
            assert!(memory + others * MIB <= 512 * MIB, "{memory} and {others} MiB");
            play(&mut auto, &mut memory, others * MIB);
        }
    }

    #[test]
    fn waiting_shrinks_it_down_to_its_bound() {
        let mut auto = AutoSize::new(100 * MIB, 200 * MIB);
        let mut memory = 200 * MIB;
        (auto.belief, auto.others) = (Some(200 * MIB), 200 * MIB);
        for _ in 0..40 {
            if let Some(step) = auto.step(&RoomLook { stalled: 500, ..look(memory, 200 * MIB) }) {
                assert_eq!(step.reason, SizeReason::Stalled);
                memory = step.memory;
            }
        }
        assert_eq!(memory, 100 * MIB);
        assert_eq!(auto.step(&look(memory, 500 * MIB)), None, "there is no less");
    }

    #[test]
    fn any_numbers_give_a_size_within_the_bounds() {
        let mut auto = AutoSize::new(1, u64::MAX);
        for numbers in [0, 1, u64::MAX / 2, u64::MAX] {
            let look = RoomLook {
                memory: numbers,
                total: numbers,
                spare: 0,
                stalled: u32::MAX,
                gain: u32::MAX,
            };
            assert!(auto.step(&look).is_none_or(|step| step.memory >= 1));
        }
    }
}
