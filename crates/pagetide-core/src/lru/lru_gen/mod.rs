//! The multi-gen LRU in text: what it looks like, and what may be asked of it.
//!
//! Job schedulers know what a policy cannot: that a job has just ended, or that its memory is idle
//! for the night. The kernel lets them read generations as text and write commands; this is the
//! same text, so that what reads the one reads the other.
//!
//! ```text
//!   memcg     1 /
//!    node     0
//!             3      12040        118        9000        seq, age in ms, anon pages, file pages
//!             4       1200          0         211
//!
//!   + 1 0 5             walk page tables and start a generation, if 5 is not in the future
//!   - 1 0 3 60 1000     evict generations up to 3, at swappiness 60, 1000 pages at most
//! ```
//!
//! The full form adds to each generation its tiers and, to the youngest, what walks counted: three
//! numbers a type with a letter each, `x` where there is nothing to tell.
//!
//! Ignored: statistics of past generations (as a kernel built without them). Source: the multi-gen
//! LRU specification, section 12.

use super::multigen::{GenerationSummary, MultigenSummary, RefTierCounts};
use super::{Lruvec, LruvecId, PolicyName};
use crate::ids::PageType;
use crate::units::Millis;
use core::fmt;

/// How much to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// The generations in use, oldest first.
    Sizes,
    /// The last four, with their tiers and what walks counted.
    Full,
}

impl Lruvec {
    /// Writes the generations in the shape of `lru_gen` or `lru_gen_full`; `path` names the group.
    /// Writes nothing where the policy has no generations.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_lru_gen(
        &self,
        out: &mut dyn fmt::Write,
        path: &str,
        detail: Detail,
    ) -> fmt::Result {
        let Some(summary) = self.multigen_summary() else { return Ok(()) };
        let LruvecId { group, node } = self.id();
        write!(out, "memcg {group:5} {path}\n node {node:5}\n")?;
        write_generations(out, &summary, self.now(), detail)
    }
}

fn write_generations(
    out: &mut dyn fmt::Write,
    summary: &MultigenSummary,
    now: Millis,
    detail: Detail,
) -> fmt::Result {
    let oldest = summary.min_seq[0].min(summary.min_seq[1]);
    for generation in &summary.generations {
        if detail == Detail::Full || generation.seq >= oldest {
            write_sizes(out, summary, generation, now, detail)?;
        }
        if detail == Detail::Full {
            write_tiers(out, summary, generation.seq)?;
        }
    }
    Ok(())
}

fn write_sizes(
    out: &mut dyn fmt::Write,
    summary: &MultigenSummary,
    generation: &GenerationSummary,
    now: Millis,
    detail: Detail,
) -> fmt::Result {
    let GenerationSummary { seq, birth, nr_folios } = *generation;
    let mark = |page_type: PageType| {
        if detail == Detail::Full && seq < summary.min_seq[page_type.index()] { "x" } else { "" }
    };
    let [anon, file] = PageType::ALL.map(mark);
    let age = now.0.saturating_sub(birth.0);
    writeln!(out, " {seq:10} {age:10} {:10}{anon:1} {:10}{file}", nr_folios[0], nr_folios[1])
}

fn write_tiers(out: &mut dyn fmt::Write, summary: &MultigenSummary, seq: u64) -> fmt::Result {
    for tier in 0..summary.tiers[0].len() {
        write!(out, "            {tier:10}")?;
        for page_type in PageType::ALL {
            let counts = &summary.tiers[page_type.index()][tier];
            let RefTierCounts { avg_refaulted, avg_total, refaulted, evicted, protected } = *counts;
            let columns = if seq == summary.max_seq {
                [(avg_refaulted, 'R'), (avg_total, 'T'), (0, 'x')]
            } else if seq == summary.min_seq[page_type.index()] {
                [(refaulted, 'r'), (evicted, 'e'), (protected, 'p')]
            } else {
                [(0, 'x'); 3]
            };
            write_columns(out, &columns)?;
        }
        writeln!(out)?;
    }
    let tables = &summary.tables;
    write!(out, "                      ")?;
    let columns = if seq == summary.max_seq {
        let counts = [tables.nr_scanned, tables.nr_young, tables.nr_leaves, tables.nr_dense];
        [(counts[0], 'T'), (counts[1], 'Y'), (counts[2], 'F'), (counts[3], 'A')]
    } else {
        [(0, 'x'); 4]
    };
    write_columns(out, &columns)?;
    writeln!(out)
}

fn write_columns(out: &mut dyn fmt::Write, columns: &[(u64, char)]) -> fmt::Result {
    columns.iter().try_for_each(|(number, letter)| write!(out, " {number:10}{letter}"))
}

/// What is asked of a multi-gen lruvec.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GenRequest {
    /// Start a generation, unless one after `seq` has been started meanwhile.
    Age {
        /// The youngest generation the asker knows.
        seq: u64,
        /// Walk all page tables, whatever the filters say.
        force: bool,
    },
    /// Evict the generations up to `seq`, at most `nr_max` pages.
    Evict {
        /// The youngest to evict.
        seq: u64,
        /// How many pages at most.
        nr_max: u64,
    },
}

/// A line of text, understood: a request, whom it is for, and at which swappiness.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GenCommand {
    /// The group and node.
    pub lruvec: LruvecId,
    /// What is asked.
    pub request: GenRequest,
    /// Instead of the lruvec's own, for this request.
    pub swappiness: Option<u8>,
}

/// Why a command was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenCommandError {
    /// Not a command; write `+ group node max_gen [swappiness [force]]` or `- group node min_gen
    /// [swappiness [nr_pages]]`.
    #[error(
        "not a command: + group node max_gen [swappiness [force]], or - group node min_gen ..."
    )]
    Syntax,
    /// No lruvec has that group and node, or its policy has no generations.
    #[error("no such group and node with generations")]
    NoLruvec,
    /// Newer than the youngest generation; read the generations again.
    #[error("generation {0} does not exist yet")]
    Future(u64),
    /// One of the two youngest, which are never evicted.
    #[error("generation {0} is one of the two youngest, which stay")]
    Young(u64),
}

/// The commands of a text, which stand apart by `,`, `;` or new lines.
pub fn parse_commands(
    text: &str,
) -> impl Iterator<Item = Result<GenCommand, GenCommandError>> + '_ {
    text.split([',', ';', '\n']).map(str::trim).filter(|it| !it.is_empty()).map(parse_command)
}

fn parse_command(text: &str) -> Result<GenCommand, GenCommandError> {
    let mut words = text.split_ascii_whitespace();
    let what = words.next();
    let mut number = || match words.next() {
        None => Ok(None),
        Some(word) => word.parse::<u64>().map(Some).map_err(|_| GenCommandError::Syntax),
    };
    let needed = |word: Option<u64>| word.ok_or(GenCommandError::Syntax);
    let (group, node, seq) = (needed(number()?)?, needed(number()?)?, needed(number()?)?);
    let (swappiness, last) = (number()?, number()?);
    let narrow = |wide: u64| u16::try_from(wide).map_err(|_| GenCommandError::NoLruvec);
    let node = u8::try_from(node).map_err(|_| GenCommandError::NoLruvec)?;
    let request = match what {
        Some("+") => GenRequest::Age { seq, force: last.unwrap_or(0) != 0 },
        Some("-") => GenRequest::Evict { seq, nr_max: last.unwrap_or(u64::MAX) },
        _ => return Err(GenCommandError::Syntax),
    };
    if words.next().is_some() || swappiness.is_some_and(|it| it > 201) {
        return Err(GenCommandError::Syntax);
    }
    let swappiness = swappiness.map(|it| it as u8);
    Ok(GenCommand { lruvec: LruvecId { group: narrow(group)?, node }, request, swappiness })
}

impl Lruvec {
    /// Whether a command can be carried out now; `false` where there is nothing left to do.
    pub(crate) fn check_command(&self, command: &GenCommand) -> Result<bool, GenCommandError> {
        let summary = self.multigen_summary().ok_or(GenCommandError::NoLruvec)?;
        if command.lruvec != self.id() {
            return Err(GenCommandError::NoLruvec);
        }
        match command.request {
            GenRequest::Age { seq, .. } if seq > summary.max_seq => {
                Err(GenCommandError::Future(seq))
            }
            // Later kernels age all the same.
            GenRequest::Age { seq, .. } => {
                Ok(seq == summary.max_seq || self.policy_name() != PolicyName::Mglru61)
            }
            GenRequest::Evict { seq, .. } if seq > summary.max_seq => {
                Err(GenCommandError::Future(seq))
            }
            GenRequest::Evict { seq, .. } if seq + 2 > summary.max_seq => {
                Err(GenCommandError::Young(seq))
            }
            GenRequest::Evict { .. } => Ok(true),
        }
    }
}

#[cfg(test)]
mod tests;
