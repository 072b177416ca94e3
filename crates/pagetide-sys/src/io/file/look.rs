//! A file's identity and state, and a check that a later change will show.
//!
//! **Problem.** File times are coarse: the kernel's clock ticks every few milliseconds, and some
//! file systems truncate times further.
//!
//! **Idea.** ctime, which no call can set, is compared with the same clock, read *before* the
//! state. Once the clock is past ctime by more than any truncation, every later change gets a later
//! ctime.
//!
//! ```text
//!   ctime            clock, then the state
//!     |--- SLACK ---|-------> settled: every change shows from here on
//!     |------->|             not settled: a change may get the same ctime
//! ```
//!
//! **Ignored.** A clock that is set back, or a server's clock that lags by more than the slack.
//! Stores through another program's mapping to dirty pages, which change no time before write-back.
//!
//! Source: Linux man pages statx(2), clock_getres(2) `CLOCK_REALTIME_COARSE`.

use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, Statx, StatxFlags, makedev, statx};
use rustix::time::{ClockId, clock_gettime};

/// More than the clock's longest tick, and than the truncation of times with fractions.
const SLACK_NS: i128 = 10_000_000;
/// For file systems with whole seconds. Some keep only even seconds.
const SLACK_OF_SECONDS_NS: i128 = 2_000_000_000;
const SECOND_NS: i128 = 1_000_000_000;

/// A file's identity and state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fingerprint {
    /// The device number, as in stat(2).
    pub dev: u64,
    /// The inode number on the device.
    pub ino: u64,
    /// The length in bytes.
    pub len: u64,
    /// The last change of the contents, in nanoseconds since 1970.
    pub mtime_ns: i128,
    /// The last change of anything, in nanoseconds since 1970. No call can set it.
    pub ctime_ns: i128,
    /// The creation time, if the file system keeps one. Distinguishes reused inode numbers.
    pub btime_ns: Option<i128>,
}

/// A fingerprint and its reliability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// The file's fingerprint.
    pub fingerprint: Fingerprint,
    /// True if every later change changes the fingerprint. If false, equal fingerprints prove
    /// nothing.
    pub is_settled: bool,
}

impl Look {
    pub(super) fn at(file: &File) -> io::Result<Look> {
        let clock = clock_gettime(ClockId::RealtimeCoarse);
        let clock_ns = i128::from(clock.tv_sec) * SECOND_NS + i128::from(clock.tv_nsec);
        let fingerprint = Fingerprint::of(&read_statx(file)?);
        Ok(Look { fingerprint, is_settled: is_settled(fingerprint.ctime_ns, clock_ns) })
    }
}

impl Fingerprint {
    fn of(stat: &Statx) -> Fingerprint {
        let has_btime = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        let nanoseconds =
            |seconds: i64, rest: u32| i128::from(seconds) * SECOND_NS + i128::from(rest);
        Fingerprint {
            dev: makedev(stat.stx_dev_major, stat.stx_dev_minor),
            ino: stat.stx_ino,
            len: stat.stx_size,
            mtime_ns: nanoseconds(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
            ctime_ns: nanoseconds(stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
            btime_ns: has_btime.then(|| nanoseconds(stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)),
        }
    }
}

fn is_settled(ctime_ns: i128, clock_ns: i128) -> bool {
    let slack = if ctime_ns % SECOND_NS == 0 { SLACK_OF_SECONDS_NS } else { SLACK_NS };
    ctime_ns + slack < clock_ns
}

pub(super) fn read_statx(file: &File) -> io::Result<Statx> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::DIOALIGN;
    Ok(statx(file, c"", AtFlags::EMPTY_PATH, wanted)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_settled_once_the_clock_is_past_all_that_is_cut() {
        let ctime_ns = 1_700_000_000 * SECOND_NS + 5;
        assert!(!is_settled(ctime_ns, ctime_ns));
        assert!(!is_settled(ctime_ns, ctime_ns + SLACK_NS));
        assert!(is_settled(ctime_ns, ctime_ns + SLACK_NS + 1));
        let whole = 1_700_000_000 * SECOND_NS;
        assert!(!is_settled(whole, whole + SECOND_NS), "perhaps no more than seconds are kept");
        assert!(is_settled(whole, whole + SLACK_OF_SECONDS_NS + 1));
        assert!(!is_settled(ctime_ns + SECOND_NS, ctime_ns), "a time that is yet to come");
    }
}
