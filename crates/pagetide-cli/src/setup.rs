//! The replay arguments of `replay` and `ablate` besides policy and size.
//!
//! ```text
//!   --off --on --reclaim --clock --swappiness --swap  -->  SetupArgs  -->  Setup, Setup, ...
//! ```
//!
//! The defaults equal the defaults of the lab's `Setup::of_trace`.

use crate::failure::Failure;
use crate::terminal;
use pagetide_core::lru::{Mechanism, PolicyName, Switches};
use pagetide_core::record::Reclaimer;
use pagetide_core::tiering::{Stage, TieringSwitches};
use pagetide_core::units::{Bytes, Millis};
use pagetide_lab::replay::{Contender, Memory, Reader, ReplayClock, Setup, TierMemory};
use pagetide_lab::trace::Facts;
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Policy(Mechanism),
    /// The mechanism added by a stage.
    Tiering(Stage),
}

fn switch(stage: Stage, switches: &mut TieringSwitches, is_on: bool) {
    *match stage {
        Stage::Base => return,
        Stage::HotSelection => &mut switches.hot_selection,
        Stage::RateLimit => &mut switches.rate_limit,
        Stage::AutoThreshold => &mut switches.auto_threshold,
        Stage::Auto => &mut switches.auto,
    } = is_on;
}

impl FromStr for Part {
    type Err = <Mechanism as FromStr>::Err;

    fn from_str(text: &str) -> Result<Part, Self::Err> {
        match text.parse() {
            Ok(stage) if stage != Stage::Base => Ok(Part::Tiering(stage)),
            _ => text.parse().map(Part::Policy),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Policy(mechanism) => write!(f, "{mechanism}"),
            Part::Tiering(stage) => write!(f, "{stage}"),
        }
    }
}

/// What makes room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Reclaim {
    /// What did in the recorded run; where that is not known, as group.
    Recorded,
    /// The access that needs it, at a group's limit.
    Group,
    /// The same, at a limit that also pays for what the kernel charges a group for besides pages of
    /// files: tree nodes, a seventh of a page each, and 28 pages of others.
    KernelGroup,
    /// A thread beside the accesses, between a machine's watermarks.
    Background,
}

/// When an access happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum ClockName {
    /// As soon as the one before it is done: 5 us a hit, 17.5 us a miss.
    Costs,
    /// Not before its time in the trace.
    Trace,
}

/// The arguments of a replay besides policy and size.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SetupArgs {
    /// Mechanisms to switch off, as in tiers,lazy-promotion (see `pagetide policies --mechanisms`);
    /// of a recorded run with tiers also hot-selection, rate-limit, auto-threshold and auto.
    #[arg(long, value_delimiter = ',')]
    off: Vec<Part>,
    /// Mechanisms to switch on.
    #[arg(long, value_delimiter = ',')]
    on: Vec<Part>,
    /// What makes room, and what the size is: of a group's pages, of all that a kernel charges the
    /// group for, or of a machine. opt has all of it for pages in any case.
    #[arg(long, value_enum, default_value = "recorded")]
    reclaim: Reclaim,
    /// When an access happens.
    #[arg(long, value_enum, default_value = "costs")]
    clock: ClockName,
    /// How willing to evict anonymous pages, 0 to 200.
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=200))]
    swappiness: Option<u8>,
    /// Take the pages of memory traces for anonymous, with a swap device of this size; 0 is none.
    #[arg(long, value_parser = terminal::parse_size)]
    swap: Option<Bytes>,
}

impl SetupArgs {
    fn memory(&self, frames: u32, recorded: Option<Reclaimer>) -> Memory {
        match self.reclaim {
            Reclaim::Recorded => Memory::reclaimed_by(recorded, frames),
            Reclaim::Background => Memory::Machine { nr_frames: frames },
            Reclaim::Group => Memory::Group { nr_frames: frames },
            Reclaim::KernelGroup => Memory::KernelGroup { limit_pages: frames },
        }
    }

    pub(crate) fn setup(&self, policy: PolicyName, frames: u32, facts: &Facts) -> Setup {
        let recorded = facts.header.as_ref().and_then(|header| header.reclaimer);
        let memory = self.memory(frames, recorded);
        self.setup_in(policy, memory, Switches::default(), facts)
    }

    pub(crate) fn setup_in(
        &self,
        policy: PolicyName,
        mut memory: Memory,
        mut switches: Switches,
        facts: &Facts,
    ) -> Setup {
        let off = self.off.iter().map(|part| (part, false));
        for (part, is_on) in off.chain(self.on.iter().map(|part| (part, true))) {
            match (part, &mut memory) {
                (Part::Policy(it), _) if is_on => switches = switches.with(*it),
                (Part::Policy(it), _) => switches = switches.without(*it),
                (Part::Tiering(it), Memory::Tiers(TierMemory { tiers, .. })) => {
                    switch(*it, &mut tiers.switches, is_on);
                }
                (Part::Tiering(_), _) => {}
            }
        }
        let setup = Setup::new(policy, memory);
        Setup {
            switches,
            swappiness: self.swappiness.unwrap_or(setup.swappiness),
            clock: match self.clock {
                ClockName::Costs => ReplayClock::Costs,
                ClockName::Trace => ReplayClock::Trace,
            },
            reader: Reader::of(facts.header.as_ref()),
            swap_pages: self.swap.map(Bytes::whole_pages),
            ..setup
        }
    }

    /// Refuses sizes without a frame for pages, and bad mechanisms.
    pub(crate) fn check(&self, contenders: &[Contender], sizes: &[u32]) -> Result<(), Failure> {
        for &size in sizes {
            if self.memory(size, None).nr_frames_max() == 0 {
                return Err(Failure::Usage(format!(
                    "a group's limit of {size} pages leaves none for files: what else the kernel \
                     charges takes 28, so use at least 256K, or --frames 64"
                )));
            }
        }
        self.check_parts(contenders, false)
    }

    /// Refuses parts that no contender has or that are both on and off.
    pub(crate) fn check_parts(
        &self,
        contenders: &[Contender],
        has_tiers: bool,
    ) -> Result<(), Failure> {
        let has = |mechanism: &Mechanism, contender: &Contender| match contender {
            Contender::Policy(policy) => mechanism.policies().contains(policy),
            Contender::Opt => false,
        };
        for part in self.off.iter().chain(&self.on) {
            match part {
                Part::Policy(mechanism) if !contenders.iter().any(|it| has(mechanism, it)) => {
                    return Err(Failure::Usage(format!(
                        "no chosen policy has the mechanism {mechanism}: `pagetide policies \
                         --mechanisms` lists whose it is"
                    )));
                }
                Part::Tiering(_) if !has_tiers => {
                    return Err(Failure::Usage(format!(
                        "{part} is a part of tiering: there is some in the record of a run with \
                         tiers, repeated with --recorded"
                    )));
                }
                Part::Policy(_) | Part::Tiering(_) => {}
            }
            if self.off.contains(part) && self.on.contains(part) {
                return Err(Failure::Usage(format!("{part} cannot be both on and off")));
            }
        }
        Ok(())
    }
}

/// Parses a period such as "2s" or "500ms".
pub(crate) fn parse_period(text: &str) -> Result<Millis, String> {
    let (number, scale) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (text.strip_suffix('s').unwrap_or(""), 1000),
    };
    let millis = number.parse().ok().and_then(|number: u64| number.checked_mul(scale));
    let period = millis.filter(|millis| (1..=3_600_000).contains(millis)).map(Millis);
    period.ok_or_else(|| "write it as 2s or 500ms, from 1ms to an hour".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_have_a_unit() {
        assert_eq!(parse_period("2s"), Ok(Millis(2000)));
        assert_eq!(parse_period("500ms"), Ok(Millis(500)));
        for wrong in ["2", "", "s", "0s", "-1s", "2h", "3601s", "99999999999999999999s"] {
            assert!(parse_period(wrong).is_err(), "{wrong}");
        }
    }
}
