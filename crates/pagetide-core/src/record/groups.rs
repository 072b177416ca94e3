//! Memory groups in a record.
//!
//! Notes have a code and LEB128 numbers. The first note announces groups.

use super::numbers::{Fault, Input, append_varint};
use crate::group::GroupConfig;
use crate::ids::{GroupId, MappingId};
use alloc::vec::Vec;

const NOTE_GROUPS: u8 = 66;
const NOTE_GROUP_SET: u8 = 67;
const NOTE_GROUP_REMOVE: u8 = 68;
const NOTE_GROUP_RECLAIM: u8 = 69;
const NOTE_GROUP_JOIN: u8 = 70;

/// An event of memory groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupNote {
    /// Charging starts, to the root.
    Begin,
    /// Creates or changes the group. Reclaims until it fits.
    Set {
        /// Group.
        group: GroupId,
        /// Parent.
        parent: GroupId,
        /// Settings.
        config: GroupConfig,
    },
    /// Removes the group. The parent inherits its mappings.
    Remove(GroupId),
    /// Requests reclaim from the group.
    Reclaim {
        /// Group.
        group: GroupId,
        /// Requested pages.
        nr_pages: u64,
    },
    /// Charges the mapping's new pages to the group.
    Join {
        /// Mapping.
        mapping: MappingId,
        /// Group.
        group: GroupId,
    },
}

/// Appends the note, without the leading byte.
pub(super) fn append(note: &GroupNote, out: &mut Vec<u8>) {
    let mut write = |which: u8, numbers: &[u64]| {
        out.push(which);
        numbers.iter().for_each(|number| append_varint(*number, out));
    };
    match *note {
        GroupNote::Begin => write(NOTE_GROUPS, &[]),
        GroupNote::Set { group, parent, config } => {
            let numbers = [group.0.into(), parent.0.into(), config.limit, config.min, config.low];
            write(NOTE_GROUP_SET, &numbers);
        }
        GroupNote::Remove(group) => write(NOTE_GROUP_REMOVE, &[group.0.into()]),
        GroupNote::Reclaim { group, nr_pages } => {
            write(NOTE_GROUP_RECLAIM, &[group.0.into(), nr_pages]);
        }
        GroupNote::Join { mapping, group } => {
            write(NOTE_GROUP_JOIN, &[mapping.0.into(), group.0.into()]);
        }
    }
}

pub(super) fn parse(which: u8, input: &mut Input<'_>) -> Result<GroupNote, Fault> {
    Ok(match which {
        NOTE_GROUPS => GroupNote::Begin,
        NOTE_GROUP_SET => GroupNote::Set {
            group: input.group()?,
            parent: input.group()?,
            config: GroupConfig {
                limit: input.varint()?,
                min: input.varint()?,
                low: input.varint()?,
            },
        },
        NOTE_GROUP_REMOVE => GroupNote::Remove(input.group()?),
        NOTE_GROUP_RECLAIM => {
            GroupNote::Reclaim { group: input.group()?, nr_pages: input.varint()? }
        }
        NOTE_GROUP_JOIN => {
            GroupNote::Join { mapping: MappingId(input.varint_u32()?), group: input.group()? }
        }
        _ => return Err(Fault::UnknownKind { kind: which }),
    })
}
