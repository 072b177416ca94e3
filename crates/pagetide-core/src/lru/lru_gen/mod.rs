//! The text interface of the multi-gen LRU, in the kernel's format: schedulers read generations and
//! write commands ([`GenCommand`]).
//!
//! ```text
//!   memcg     1 /
//!    node     0
//!             3      12040        118        9000        seq, age in ms, anon pages, file pages
//!             4       1200          0         211
//! ```
//!
//! The full form adds the tiers of each generation, and the counts of table walks to the youngest:
//! columns of a number and a letter, `x` for none.
//!
//! Ignored: statistics of past generations (as a kernel built without them). Source: Linux 6.1 and
//! 6.18, and `Documentation/admin-guide/mm/multigen_lru.rst`.

use super::kernel::multigen::{GenerationSummary, MultigenSummary, RefTierCounts};
use super::{GenCommand, GenCommandError, GenRequest, Lruvec, LruvecId, PolicyName};
use crate::ids::PageType;
use crate::units::Millis;
use core::fmt;

/// The amount of detail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// The generations in use, oldest first.
    Sizes,
    /// The last four generations, with tiers and walk counts.
    Full,
}

impl Lruvec {
    /// Writes the generations in the format of `lru_gen` or `lru_gen_full`. `path` names the group.
    /// Writes nothing if the policy has no generations.
    ///
    /// # Errors
    /// Fails if `out` fails.
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

impl Lruvec {
    /// Returns `false` if there is nothing left to do.
    pub(crate) fn check_command(&self, command: &GenCommand) -> Result<bool, GenCommandError> {
        let summary = self.multigen_summary().ok_or(GenCommandError::NoLruvec)?;
        if command.lruvec != self.id() {
            return Err(GenCommandError::NoLruvec);
        }
        match command.request {
            GenRequest::Age { seq, .. } if seq > summary.max_seq => {
                Err(GenCommandError::Future(seq))
            }
            // Later kernels age in any case.
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
