//! Commands to the multi-gen LRU, as text.
//!
//! ```text
//!   + 1 0 5             walk page tables and start a generation, if 5 is not in the future
//!   - 1 0 3 60 1000     evict generations up to 3, at swappiness 60, 1000 pages at most
//! ```
//!
//! Source: the multi-gen LRU specification, section 12.

use super::LruvecId;

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

/// A line of text, understood: a request, the group it is for, and at which swappiness.
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
