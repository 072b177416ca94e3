//! LEB128 and zigzag numbers.

use super::VARINT_BYTES_MAX;
use crate::ids::GroupId;
use alloc::vec::Vec;

pub(super) fn append_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps small differences of either sign to small numbers.
pub(super) fn zigzag(difference: u64) -> u64 {
    let sign = (difference as i64 >> 63) as u64;
    (difference << 1) ^ sign
}

pub(super) fn unzigzag(folded: u64) -> u64 {
    (folded >> 1) ^ (folded & 1).wrapping_neg()
}

pub(super) enum Fault {
    Short,
    TooLarge,
    UnknownKind { kind: u8 },
    WrongCount { stated: u64 },
}

pub(super) struct Input<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) used: usize,
}

impl Input<'_> {
    pub(super) fn byte(&mut self) -> Result<u8, Fault> {
        let byte = *self.bytes.get(self.used).ok_or(Fault::Short)?;
        self.used += 1;
        Ok(byte)
    }

    pub(super) fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0;
        for group in 0..VARINT_BYTES_MAX {
            let byte = self.byte()?;
            // The tenth byte has room for one bit.
            if group == VARINT_BYTES_MAX - 1 && byte > 1 {
                return Err(Fault::TooLarge);
            }
            value |= u64::from(byte & 0x7f) << (7 * group);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Fault::TooLarge)
    }

    pub(super) fn group(&mut self) -> Result<GroupId, Fault> {
        u16::try_from(self.varint()?).map(GroupId).map_err(|_| Fault::TooLarge)
    }

    pub(super) fn varint_u32(&mut self) -> Result<u32, Fault> {
        u32::try_from(self.varint()?).map_err(|_| Fault::TooLarge)
    }
}
