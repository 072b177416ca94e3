//! Text commands to the multi-gen LRU.
//!
//! ```text
//!   + 1 0 5             walk page tables and start a generation, if 5 is not in the future
//!   - 1 0 3 60 1000     evict generations up to 3, at swappiness 60, 1000 pages at most
//! ```
//!
//! Source: `Documentation/admin-guide/mm/multigen_lru.rst`, "Experimental features".

use super::LruvecId;

/// A request to a multi-gen lruvec.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GenRequest {
    /// Start a generation, unless one after `seq` was started meanwhile.
    Age {
        /// The youngest generation known to the requester.
        seq: u64,
        /// True to walk all page tables, regardless of the filters.
        force: bool,
    },
    /// Evict the generations up to `seq`, at most `nr_max` pages.
    Evict {
        /// The youngest generation to evict.
        seq: u64,
        /// Maximum number of pages.
        nr_max: u64,
    },
}

/// A parsed command: a request, its group, and its swappiness.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GenCommand {
    /// The group and node.
    pub lruvec: LruvecId,
    /// The request.
    pub request: GenRequest,
    /// Swappiness for this request, instead of the lruvec's own.
    pub swappiness: Option<u8>,
}

/// The reason a command was not executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenCommandError {
    /// Not a command. Write `+ group node max_gen [swappiness [force]]` or `- group node min_gen
    /// [swappiness [nr_pages]]`.
    #[error(
        "not a command: + group node max_gen [swappiness [force]], or - group node min_gen ..."
    )]
    Syntax,
    /// No lruvec has that group and node, or its policy has no generations.
    #[error("no such group and node with generations")]
    NoLruvec,
    /// Newer than the youngest generation. Read the generations again.
    #[error("generation {0} does not exist yet")]
    Future(u64),
    /// One of the two youngest generations, which are never evicted.
    #[error("generation {0} is one of the two youngest, which stay")]
    Young(u64),
}

/// Parses commands separated by `,`, `;` or new lines.
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
