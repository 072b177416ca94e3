//! A look at a file: which it is, in what state, and whether that state will tell on a change.
//!
//! **Problem.** File times tell that a file was changed, but they are coarse: the kernel takes them
//! from a clock that ticks every few milliseconds, and some file systems cut them to less. A change
//! within the tick of the one before leaves all times as they are.
//!
//! **Idea.** ctime, which no call can set, is compared with that same clock, read *before* the file
//! is looked at. Once the clock is past it by more than anything is cut, every later change gets a
//! later ctime.
//!
//! ```text
//!   ctime            clock, then the look
//!     |--- SLACK ---|-------> settled: from here on a change shows
//!     |------->|             not settled: a change may still get the same ctime
//! ```
//!
//! **Ignored.** A clock that is set back; a server's clock that is behind ours by more than the
//! slack; stores through another program's mapping to pages it has dirtied already, which change no
//! time until the kernel writes them back.
//!
//! Source: Linux man pages statx(2), clock_getres(2) `CLOCK_REALTIME_COARSE`.

use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, Statx, StatxFlags, makedev, statx};
use rustix::time::{ClockId, clock_gettime};

/// The longest tick of the kernel's clock, and more than file systems cut from a time that has
/// parts of a second.
const SLACK_NS: i128 = 10_000_000;
/// Where only seconds are kept, some keep every second one.
const SLACK_OF_SECONDS_NS: i128 = 2_000_000_000;
const SECOND_NS: i128 = 1_000_000_000;

/// Which file this is, and in what state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fingerprint {
    /// Device, a number as stat(2) has it.
    pub dev: u64,
    /// Inode number on that device.
    pub ino: u64,
    /// Length in bytes.
    pub len: u64,
    /// Last change of the contents, nanoseconds since 1970.
    pub mtime_ns: i128,
    /// Last change of anything, nanoseconds since 1970; no call can set it.
    pub ctime_ns: i128,
    /// When the file was made, where the file system keeps it; tells reused inode numbers apart.
    pub btime_ns: Option<i128>,
}

/// A fingerprint, and what it is good for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// How the file looked.
    pub fingerprint: Fingerprint,
    /// Every change after this look changes the fingerprint. Where it is not set, two equal
    /// fingerprints prove nothing.
    pub is_settled: bool,
}

impl Look {
    /// Looks at an open file.
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

/// Whether a change from `clock_ns` on gets another ctime than this one.
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
