//! Access rate of moved pages, estimated from a sample.
//!
//! **Problem.** The rate follows from the time to the next touch, which is long for cold pages.
//! **Idea.** Arm each page and count touches within a time *t*. The share gives the rate. A page
//! counts only after *t*, otherwise a burst of moves would look cold.
//!
//! ```text
//!   share touched within t = 1 - exp(-accesses x t)         t adapts to about a half
//!
//!   epoch before the last   last epoch        this epoch
//!   ------- settled ------|---- awaited ----|--- awaited -->  now         an epoch lasts t or more
//! ```
//!
//! **Data and invariants.** Old counts decay by halves. *t* adapts until a quarter to five eighths
//! of the pages return within it.
//!
//! **Ignored.** Differences between pages: hot pages weigh too little. **Source.** Original.

use crate::units::Millis;

/// Shortest epoch.
const EPOCH_MIN_MS: u64 = 32;
const SOON_MAX_MS: u64 = 1 << 16;

/// Pages moved in an epoch, and touched soon.
#[derive(Clone, Copy, Default, Debug)]
struct Epoch {
    nr_moved: u32,
    nr_soon: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Returns {
    settled: Epoch,
    /// Current and previous epoch.
    awaited: [Epoch; 2],
    epoch_start: Millis,
    /// Limit of a soon touch, ms.
    soon_ms: u64,
    /// Pages settled since `soon_ms` changed.
    nr_news: u32,
    /// Pages settled since [`Returns::take_news`].
    nr_untaken: u32,
    /// Number of pages remembered.
    memory: u32,
}

impl Returns {
    pub(super) fn new(memory: u32) -> Returns {
        Returns {
            settled: Epoch::default(),
            awaited: [Epoch::default(); 2],
            epoch_start: Millis(0),
            soon_ms: 1000,
            nr_news: 0,
            nr_untaken: 0,
            memory,
        }
    }

    pub(super) fn count_moved(&mut self, now: Millis) {
        self.tell_time(now);
        self.awaited[0].nr_moved += 1;
    }

    pub(super) fn count_back(&mut self, now: Millis, latency: Millis) {
        self.tell_time(now);
        if latency.0 >= self.soon_ms {
            return;
        }
        let is_last = now.0.saturating_sub(latency.0) < self.epoch_start.0;
        let epoch = &mut self.awaited[usize::from(is_last)];
        // Some moves precede a restart of the epochs.
        epoch.nr_soon = (epoch.nr_soon + 1).min(epoch.nr_moved);
    }

    /// Settles finished epochs.
    pub(super) fn tell_time(&mut self, now: Millis) {
        let length = self.soon_ms.max(EPOCH_MIN_MS);
        let elapsed = now.0.saturating_sub(self.epoch_start.0);
        if elapsed < length {
            return;
        }
        let [this, last] = self.awaited;
        self.settle(last);
        self.awaited = [Epoch::default(), this];
        self.epoch_start = now;
        if elapsed >= 2 * length {
            self.settle(this);
            self.awaited = [Epoch::default(); 2];
        }
        self.adjust();
    }

    fn settle(&mut self, epoch: Epoch) {
        self.settled.nr_moved += epoch.nr_moved;
        self.settled.nr_soon += epoch.nr_soon;
        self.nr_news += epoch.nr_moved;
        self.nr_untaken += epoch.nr_moved;
        while self.settled.nr_moved > self.memory {
            self.fade();
        }
    }

    fn fade(&mut self) {
        self.settled.nr_moved /= 2;
        self.settled.nr_soon /= 2;
    }

    /// Counts pages as moved and never touched.
    pub(super) fn count_cold(&mut self, nr_moved: u64) {
        let nr_moved = u32::try_from(nr_moved).unwrap_or(u32::MAX).min(self.memory);
        self.settle(Epoch { nr_moved, nr_soon: 0 });
    }

    pub(super) fn is_known(&self) -> bool {
        self.settled.nr_moved >= self.memory / 8
    }

    /// Returns the pages settled since the last call.
    pub(super) fn take_news(&mut self) -> u32 {
        core::mem::take(&mut self.nr_untaken)
    }

    /// In 1/1024.
    fn share_soon(&self) -> u64 {
        let Epoch { nr_moved, nr_soon } = self.settled;
        (u64::from(nr_soon) * 1024 / u64::from(nr_moved.max(1))).min(1000)
    }

    /// Returns the accesses in 1024 s.
    pub(super) fn rate(&self) -> u64 {
        // Series of -ln(1 - share).
        let share = self.share_soon();
        let powers = [share, (share * share) >> 10, (share * share * share) >> 20];
        let accesses =
            powers[0] + powers[1] / 2 + powers[2] / 3 + ((powers[1] * powers[1]) >> 10) / 4;
        accesses * 1000 / self.soon_ms
    }

    /// Keeps the share in the informative range.
    fn adjust(&mut self) {
        let share = self.share_soon();
        if self.nr_news < self.memory / 8 || (256..=640).contains(&share) {
            return;
        }
        let (soon_ms, nr_soon) = (self.soon_ms, self.settled.nr_soon);
        // Scale the share approximately.
        (self.soon_ms, self.settled.nr_soon) = match share {
            0..16 => (soon_ms * 4, nr_soon * 4),
            16..256 => ((soon_ms * 4).div_ceil(3), (nr_soon * 4).div_ceil(3)),
            641..960 => (soon_ms * 3 / 4, nr_soon * 7 / 8),
            _ => (soon_ms / 4, nr_soon * 3 / 4),
        };
        self.soon_ms = self.soon_ms.clamp(1, SOON_MAX_MS);
        if self.soon_ms == soon_ms {
            self.settled.nr_soon = nr_soon;
            return;
        }
        self.nr_news = 0;
        // Awaited pages were counted with the old limit.
        self.awaited = [Epoch::default(); 2];
        self.fade();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves a page every 10 ms. One in `part` is touched after `latency`, the rest never.
    fn play(returns: &mut Returns, from: u64, to: u64, part: u64, latency: u64) {
        for now in (from..to).step_by(10) {
            let moved_at = now.saturating_sub(latency);
            if now >= from + latency && (moved_at / 10).is_multiple_of(part) {
                returns.count_back(Millis(now), Millis(latency));
            }
            returns.count_moved(Millis(now));
        }
    }

    #[test]
    fn pages_count_when_their_time_is_up() {
        let mut returns = Returns::new(256);
        play(&mut returns, 0, 1990, 2, 500);
        assert_eq!(returns.settled.nr_moved, 0, "the first may still be touched");
        // 0.7 accesses a second.
        play(&mut returns, 1990, 60_000, 2, 500);
        assert!(returns.is_known());
        assert!((600..800).contains(&returns.rate()), "{returns:?}");
    }

    #[test]
    fn many_moved_at_once_do_not_look_cold() {
        let mut returns = Returns::new(256);
        play(&mut returns, 0, 60_000, 2, 500);
        let before = returns.rate();
        (0..10_000).for_each(|_| returns.count_moved(Millis(60_000)));
        assert!(returns.rate().abs_diff(before) < before / 20, "{before}: {returns:?}");
    }

    #[test]
    fn the_time_that_is_soon_follows_what_comes() {
        let mut returns = Returns::new(256);
        play(&mut returns, 0, 60_000, 1, 10);
        assert!(returns.soon_ms <= 16, "{returns:?}");
        play(&mut returns, 60_000, 400_000, 1, 9000);
        assert!((6000..30_000).contains(&returns.soon_ms), "{returns:?}");
        returns.count_cold(100_000);
        assert!(returns.rate() < 10 && returns.settled.nr_moved <= 256, "{returns:?}");
    }

    #[test]
    fn news_are_told_once() {
        let mut returns = Returns::new(256);
        returns.count_cold(7);
        assert_eq!((returns.take_news(), returns.take_news()), (7, 0));
    }
}
