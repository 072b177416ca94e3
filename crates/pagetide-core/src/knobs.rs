//! The knobs: one table of all user settings.
//!
//! Builder setters, `PAGETIDE_*` variables, `--set` and `docs/config.md` are generated from this
//! table.

use crate::page_alloc::PcpTuning;
use crate::units::Bytes;
use alloc::string::{String, ToString};
use core::fmt;

/// Unit of a knob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KnobUnit {
    /// Bytes, typed as `512M`.
    Bytes,
    /// Milliseconds.
    Milliseconds,
    /// Percent.
    Percent,
    /// 0 or 1, typed as `off` or `on`.
    Switch,
    /// Number of a per-CPU list tuning, typed by name.
    Tuning,
    /// Plain number.
    Number,
}

impl KnobUnit {
    /// Returns the unit's name in documentation.
    pub const fn as_str(self) -> &'static str {
        match self {
            KnobUnit::Bytes => "bytes",
            KnobUnit::Milliseconds => "ms",
            KnobUnit::Percent => "%",
            KnobUnit::Switch => "on/off",
            KnobUnit::Tuning => "name",
            KnobUnit::Number => "number",
        }
    }

    /// Formats a value as typed.
    pub fn text(self, value: u64) -> String {
        match self {
            KnobUnit::Bytes => Bytes(value).to_string(),
            KnobUnit::Tuning => match PcpTuning::from_index(value as usize) {
                Some(name) => name.to_string(),
                None => value.to_string(),
            },
            _ => value.to_string(),
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct KnobRow {
    /// Name as typed.
    pub name: &'static str,
    /// Unit.
    pub unit: KnobUnit,
    /// Default value.
    pub default: u64,
    /// Minimum.
    pub low: u64,
    /// Maximum.
    pub high: u64,
    /// Effect, and the cost of a higher value.
    pub effect: &'static str,
    /// Source of the default.
    pub source: &'static str,
}

macro_rules! knobs {
    ($($knob:ident = $name:literal, $unit:ident, $default:expr,
       $low:expr, $high:expr, $effect:literal, $source:literal;)+) => {
        /// A knob.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Knob {
            $(#[doc = $effect] $knob,)+
        }

        impl Knob {
            /// All knobs, in table order.
            pub const ALL: &'static [Knob] = &[$(Knob::$knob,)+];

            /// Returns the knob's row.
            pub const fn row(self) -> &'static KnobRow {
                match self {
                    $(Knob::$knob => &KnobRow {
                        name: $name,
                        unit: KnobUnit::$unit,
                        default: $default,
                        low: $low,
                        high: $high,
                        effect: $effect,
                        source: $source,
                    },)+
                }
            }
        }

        const NR_KNOBS: usize = Knob::ALL.len();
    };
}

/// Minimum memory of a cache: 16 frames.
pub const MEMORY_MIN: u64 = 16 * 4096;

/// Largest time or number, so that a product of two fits.
const NUMBER_MAX: u64 = u32::MAX as u64;
/// The same in frames, as bytes.
const FRAMES_MAX_BYTES: u64 = NUMBER_MAX << 12;

knobs! {
    Memory = "memory", Bytes, 0, MEMORY_MIN, 1 << 40,
        "hard limit of managed memory; more memory, more hits", "must be given";
    MemoryMax = "memory_max", Bytes, 0, 0, 1 << 40,
        "address space reserved, the most `resize` can grow to; 0 means `memory`", "own";
    Swappiness = "swappiness", Number, 60, 0, 200,
        "how willing to evict anonymous rather than file pages", "Linux vm.swappiness";
    MinTtl = "min_ttl_ms", Milliseconds, 0, 0, 1 << 32,
        "how long the multi-gen LRU keeps a generation at least; while all are younger, reads go \
         past memory instead of thrashing; 0 is off",
        "Linux lru_gen min_ttl_ms";
    DirtyBackground = "dirty_background", Percent, 10, 0, 100,
        "share of memory dirty above which the flusher works", "Linux vm.dirty_background_ratio";
    Dirty = "dirty", Percent, 20, 1, 100,
        "share of memory dirty above which writers wait", "Linux vm.dirty_ratio";
    ReadaheadMax = "readahead_max", Bytes, 2 << 20, 0, 64 << 20,
        "largest readahead window; faster streams, more waste when wrong; 0 is off, and nothing is \
         read around a miss; unless changed, if more, four times as far as the system reads ahead \
         of the device where that is a 16th of memory at most, else as far, up to a 32nd",
        "own: four 512K requests in flight; Linux read_ahead_kb";
    PcpTuning = "pcp_tuning", Tuning, PcpTuning::Refill as u64, PcpTuning::Fixed as u64,
        PcpTuning::Refill as u64,
        "length of per-CPU frame lists: `fixed`, `depth` or `refill`",
        "Linux 6.7 and later";
    PcpHighFraction = "percpu_pagelist_high_fraction", Number, 0, 0, 65535,
        "8 and up: per-CPU frame lists hold 1/this of memory and are not tuned; 0: tuned",
        "Linux vm.percpu_pagelist_high_fraction";
    Pretouch = "pretouch", Switch, 0, 0, 1,
        "touch all memory at build: a slower start, no page faults later", "own";
    HugePages = "huge_pages", Switch, 1, 0, 1,
        "ask for huge pages for the arena: faster copies", "own: fewer translations a copy";
    DirectIo = "direct_io", Switch, 1, 0, 1,
        "bypass the kernel's page cache where the file system allows", "own";
    IoUring = "io_uring", Switch, 1, 0, 1,
        "use io_uring for readahead and write-back where the kernel allows", "own";
    Background = "background", Switch, 1, 0, 1,
        "run the reclaim, flusher and readahead threads; off makes a run deterministic", "own";
    TierScanPeriodMin = "tier_scan_period_min_ms", Milliseconds, 1000, 1, NUMBER_MAX,
        "least time from one run of the hint scan to the next; less work, later knowledge",
        "Linux numa_balancing scan_period_min_ms";
    TierScanPeriodMax = "tier_scan_period_max_ms", Milliseconds, 60_000, 1, NUMBER_MAX,
        "most time between two runs, and how often the hot threshold adjusts",
        "Linux numa_balancing scan_period_max_ms";
    TierScanRun = "tier_scan_run", Bytes, 256 << 20, 4096, FRAMES_MAX_BYTES,
        "resident memory that one run of the hint scan arms; fewer runs, each longer",
        "Linux numa_balancing scan_size_mb";
    TierScanRate = "tier_scan_rate", Bytes, 2560 << 20, 0, FRAMES_MAX_BYTES,
        "memory that runs may arm a second; much memory is scanned more often",
        "Linux: 2560 MB";
    TierScanDelay = "tier_scan_delay_ms", Milliseconds, 1000, 0, NUMBER_MAX,
        "how old a mapping is before its first scan; short-lived ones cost nothing",
        "Linux numa_balancing scan_delay_ms";
    TierHotThreshold = "tier_hot_threshold_ms", Milliseconds, 1000, 8, NUMBER_MAX,
        "accessed so soon after its scan, a page is hot; more candidates",
        "Linux numa_balancing hot_threshold_ms";
    TierPromoteRate = "tier_promote_rate", Bytes, 64 << 30, 0, FRAMES_MAX_BYTES,
        "memory promoted a second at most; hot pages arrive sooner, and cost more",
        "Linux numa_balancing_promote_rate_limit_MBps";
    TierRateWindow = "tier_rate_window_ms", Milliseconds, 1000, 1, NUMBER_MAX,
        "time in which the promotion rate is kept; longer bursts", "Linux: a second";
    TierFreeSpace = "tier_free_space", Bytes, 1 << 30, 0, FRAMES_MAX_BYTES,
        "fast memory with so much free, or a 16th of it, takes whatever is touched",
        "Linux: 1 GiB";
}

/// Values of all knobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Knobs {
    values: [u64; NR_KNOBS],
}

impl Default for Knobs {
    fn default() -> Knobs {
        let mut values = [0; NR_KNOBS];
        for knob in Knob::ALL {
            values[*knob as usize] = knob.row().default;
        }
        Knobs { values }
    }
}

/// Reason for a rejected setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KnobError {
    /// Unknown name.
    Unknown,
    /// Not a number in the knob's unit.
    NotANumber {
        /// Knob.
        knob: Knob,
    },
    /// Out of range.
    OutOfRange {
        /// Knob.
        knob: Knob,
        /// Given value.
        given: u64,
    },
}

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KnobError::Unknown => {
                f.write_str("no such knob; there are")?;
                Knob::ALL.iter().try_for_each(|knob| write!(f, " {}", knob.row().name))
            }
            KnobError::NotANumber { knob } => {
                let row = knob.row();
                match row.unit {
                    KnobUnit::Tuning => {
                        write!(f, "knob {} takes one of", row.name)?;
                        PcpTuning::ALL.iter().try_for_each(|name| write!(f, " {name}"))
                    }
                    _ => write!(f, "knob {} takes a number in {}", row.name, row.unit.as_str()),
                }
            }
            KnobError::OutOfRange { knob, given } => {
                let row = knob.row();
                let [given, low, high] = [*given, row.low, row.high].map(|it| row.unit.text(it));
                write!(f, "knob {} is {given}, outside {low} to {high}", row.name)
            }
        }
    }
}

impl core::error::Error for KnobError {}

impl Knobs {
    /// Returns a knob's value.
    pub const fn read(&self, knob: Knob) -> u64 {
        self.values[knob as usize]
    }

    /// Returns true if a switch is on.
    pub const fn is_on(&self, knob: Knob) -> bool {
        self.read(knob) != 0
    }

    /// Sets a knob without a range check. See [`Knobs::check`].
    pub fn set(&mut self, knob: Knob, value: u64) {
        self.values[knob as usize] = value;
    }

    /// Sets a knob by name from text.
    ///
    /// # Errors
    /// [`KnobError`], without a change.
    pub fn set_text(&mut self, name: &str, text: &str) -> Result<(), KnobError> {
        let mut all = Knob::ALL.iter().copied();
        let knob = all.find(|knob| knob.row().name == name).ok_or(KnobError::Unknown)?;
        let bad = KnobError::NotANumber { knob };
        let value = match (knob.row().unit, text) {
            (KnobUnit::Switch, "on" | "true" | "yes") => 1,
            (KnobUnit::Switch, "off" | "false" | "no") => 0,
            (KnobUnit::Tuning, text) => text.parse::<PcpTuning>().map_err(|_| bad)? as u64,
            (KnobUnit::Bytes, text) => text.parse::<Bytes>().map_err(|_| bad)?.0,
            (_, text) => text.parse().map_err(|_| bad)?,
        };
        check_range(knob, value)?;
        self.set(knob, value);
        Ok(())
    }

    /// Checks all knobs against their ranges.
    ///
    /// # Errors
    /// [`KnobError::OutOfRange`] for the first violation.
    pub fn check(&self) -> Result<(), KnobError> {
        Knob::ALL.iter().try_for_each(|knob| check_range(*knob, self.read(*knob)))
    }
}

fn check_range(knob: Knob, value: u64) -> Result<(), KnobError> {
    let row = knob.row();
    if value < row.low || value > row.high {
        return Err(KnobError::OutOfRange { knob, given: value });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn text_sets_knobs_in_their_units() {
        let mut knobs = Knobs::default();
        assert_eq!(knobs.set_text("memory", "64M"), Ok(()));
        assert_eq!(knobs.set_text("direct_io", "off"), Ok(()));
        assert_eq!(knobs.set_text("pcp_tuning", "depth"), Ok(()));
        assert_eq!(knobs.read(Knob::PcpTuning), 1);
        assert_eq!(knobs.read(Knob::Memory), 64 << 20);
        assert!(!knobs.is_on(Knob::DirectIo));
        assert_eq!(knobs.check(), Ok(()));
    }

    #[test]
    fn bad_settings_say_what_is_wrong() {
        let mut knobs = Knobs::default();
        assert_eq!(knobs.set_text("colour", "1"), Err(KnobError::Unknown));
        let error = knobs.set_text("dirty", "x").unwrap_err();
        assert_eq!(error.to_string(), "knob dirty takes a number in %");
        let error = knobs.set_text("swappiness", "201").unwrap_err();
        assert_eq!(error.to_string(), "knob swappiness is 201, outside 0 to 200");
        let error = knobs.set_text("readahead_max", "1G").unwrap_err();
        assert_eq!(error.to_string(), "knob readahead_max is 1G, outside 0 to 64M");
        let error = knobs.set_text("pcp_tuning", "2").unwrap_err();
        assert_eq!(error.to_string(), "knob pcp_tuning takes one of fixed depth refill");
        assert!(knobs.check().is_err(), "memory must be given");
    }

    #[test]
    fn documentation_has_every_row() {
        let mut table = String::from(
            "| knob | unit | default | range | effect | source |\n|---|---|---|---|---|---|\n",
        );
        for row in Knob::ALL.iter().map(|knob| knob.row()) {
            let text = |value| row.unit.text(value);
            table += &format!(
                "| `{}` | {} | {} | {} to {} | {} | {} |\n",
                row.name,
                row.unit.as_str(),
                text(row.default),
                text(row.low),
                text(row.high),
                row.effect,
                row.source
            );
        }
        let documented = include_str!("../../../docs/config.md");
        assert!(documented.contains(&table), "docs/config.md should hold:\n{table}");
    }
}
