//! Mechanisms that differ from the default, in the header.
//!
//! **Problem.** Numbers of mechanisms would change meaning with versions. **Idea.** Names.
//!
//! ```text
//!   [ length: 2 ] [ names, separated by commas ]        defaults: length 0
//! ```
//!
//! **Ignored.** Support by the policy.

use super::RecordError;
use crate::lru::{Mechanism, Switches};
use alloc::vec::Vec;
use core::str;

const LEN_BYTES: usize = 2;

pub(super) fn append(switches: Switches, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; LEN_BYTES]);
    let usual = Switches::default();
    for it in Mechanism::ALL.iter().filter(|it| switches.has(**it) != usual.has(**it)) {
        if out.len() > start + LEN_BYTES {
            out.push(b',');
        }
        out.extend_from_slice(it.as_str().as_bytes());
    }
    let len = (out.len() - start - LEN_BYTES) as u16;
    out[start..start + LEN_BYTES].copy_from_slice(&len.to_le_bytes());
}

/// Reads the output of [`append`] at `start`. Returns switches and end offset.
pub(super) fn decode(bytes: &[u8], start: usize) -> Result<(Switches, usize), RecordError> {
    let up_to = |from: usize, end: usize| {
        bytes.get(from..end).ok_or(RecordError::HeaderShort { needed_bytes: end })
    };
    let names_start = start + LEN_BYTES;
    let len = up_to(start, names_start)?.first_chunk().expect("two bytes were asked for");
    let end = names_start + usize::from(u16::from_le_bytes(*len));
    let names = up_to(names_start, end)?;
    let names = str::from_utf8(names).map_err(|_| RecordError::UnknownMechanism)?;
    let mut switches = Switches::default();
    for name in names.split(',').filter(|_| !names.is_empty()) {
        let mechanism: Mechanism = name.parse().map_err(|_| RecordError::UnknownMechanism)?;
        switches = switches.flipped(mechanism);
    }
    Ok((switches, end))
}
