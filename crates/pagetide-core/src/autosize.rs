//! How much memory a cache should have: as much as pays, of what others leave.
//!
//! Problem: a fixed limit that survives the worst moment is too small in all others; one that does
//! not is killed, and what a program takes at once is faster than any cache gives up. Idea: leave
//! the most that others had lately, and believe that it is much until bursts have come back to one
//! height; give up at once what they take beyond it.
//!
//! ```text
//!   total  [ others | peak: what they had, it fades in minutes | cache ............ | margin ]
//!   the margin is what others have taken in two looks
//!   others above the peak       shrink to what they leave after taking three times as much again
//!   threads wait for memory     shrink by a sixteenth
//!   calm                        grow by an eighth, if the sizing curve says that it pays
//! ```
//!
//! Invariant: the size is within its bounds. Ignored: what the others are, and swap. A clock and
//! files are the caller's: here are numbers.

/// What is seen in one look. Sizes are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RoomLook {
    /// What the cache has.
    pub memory: u64,
    /// What the machine or the container has for all.
    pub total: u64,
    /// How much more could be taken before something must be given up.
    pub spare: u64,
    /// Of a thousand parts of the time since the last look, those in which some thread waited for
    /// memory.
    pub stalled: u32,
    /// Of a million accesses, those that an eighth more memory would make hits.
    pub gain: u32,
}

/// Why the size changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeReason {
    /// More memory brings more hits, and there is some.
    Pays,
    /// Others took more than they had before, or what they may want is not free.
    Reserve,
    /// Others wait for memory.
    Stalled,
}

/// Another size, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeStep {
    /// The size to change to.
    pub memory: u64,
    /// Why.
    pub reason: SizeReason,
}

/// Chooses a cache's size, look by look.
#[derive(Clone, Copy, Debug)]
pub struct AutoSize {
    least: u64,
    most: u64,
    /// What others are believed to want, bytes; fades. `None` before the first look.
    belief: Option<u64>,
    peak: Peak,
    /// What they had in the last look.
    others: u64,
    /// The most they took between two looks; fades.
    rise: u64,
    /// Looks since anything was given up.
    nr_calm: u32,
}

/// The most that others had.
#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    /// Bytes; fades.
    height: u64,
    /// Looks since they were far below, without a look at which they had as much.
    nr_below: u32,
    /// Times that they came back to it.
    nr_returns: u32,
}

/// Looks without a shrink before it may grow.
const CALM: u32 = 50;
/// Of a thousand: below, waiting is no sign of pressure.
const STALLED: u32 = 100;
/// Of a million: below, more memory is not worth it.
const GAIN: u32 = 1000;
/// The margin is at least and at most these parts of all there is.
const MARGIN_PARTS: (u64, u64) = (32, 16);
/// What others are believed to want at first, in eighths of all there is.
const PRIOR_EIGHTHS: u64 = 5;
/// Bursts that came back so often are known.
const RETURNS: u32 = 2;
/// A peak stays for so many looks: a minute, at a hundred looks a second.
const HOLD: u32 = 6000;
/// Then it fades by this part a look, and a belief at once: to a third in some ten minutes.
const FADE: u64 = 1 << 16;

impl AutoSize {
    /// For sizes from `least` to `most`, bytes; `most` is at least `least`.
    pub fn new(least: u64, most: u64) -> AutoSize {
        let most = most.max(least);
        let peak = Peak::default();
        AutoSize { least, most, belief: None, peak, others: 0, rise: 0, nr_calm: 0 }
    }

    /// Takes a look; says whether the size is to change. The caller changes it before the next
    /// look, as far as it can.
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

    /// How large the cache may be.
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
        // A little more than ever is no surprise.
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
        // Steps of less than a part in 64 are not worth the work.
        let is_worth_it = to.saturating_sub(look.memory) > look.memory / 64;
        is_worth_it.then_some(SizeStep { memory: to, reason: SizeReason::Pays })
    }
}

impl Peak {
    /// Others have so much now. What differs by less than `near` is as much, by more than `far` is
    /// a burst.
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

    /// A container of 512 MiB in which others use `others`; what the cache takes is gone at once.
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
        // At first others are believed to want 330 MiB, and 16 are kept.
        let soon = grow(400);
        assert!((156..172).contains(&soon), "{soon}");
        let later = grow(200_000);
        assert!((450..490).contains(&later), "{later}");

        let mut auto = AutoSize::new(16 * MIB, 1 << 40);
        let idle = RoomLook { gain: 0, ..look(16 * MIB, 0) };
        assert!((0..400).all(|_| auto.step(&idle).is_none()), "nothing is gained");
    }

    /// Others have 20 MiB for so many looks, and `burst` MiB more for as many, within 30 looks.
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
            // One that is larger than all before.
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
        // Nothing is believed of others that is not so.
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
