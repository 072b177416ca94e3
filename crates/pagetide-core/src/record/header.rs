//! The header of a record.
//!
//! **Problem.** A replay must start with the memory, machine and policy of the run.
//!
//! **Idea.** A fixed part, then parts of variable length.
//!
//! ```text
//!   [ magic: 8 ] [ version: 2 ] [ length of the name: 1 ] [ reclaimer: 1 ] [ page bytes: 4 ]
//!   [ frames: 8 ] [ most frames: 8 ] [ CPUs: 4 ] [ swappiness: 1 ] [ tuning: 1 ] [ high: 2 ]
//!   [ policy's name ] [ tiers ] [ switches ]
//! ```
//!
//! **Ignored.** Host, date and file names.

use super::{RecordError, RecordedTiers, switches, tiers};
use crate::lru::Switches;
use crate::page_alloc::PcpTuning;
use alloc::string::String;
use alloc::vec::Vec;
use core::str;

/// First eight bytes. The control characters detect text-mode damage.
pub const MAGIC: [u8; 8] = *b"PTREC\r\n\x1a";
/// Format version, written and read.
pub const VERSION: u16 = 4;
/// Bytes before the policy name.
pub const HEADER_FIXED_BYTES: usize = 40;
/// Longest policy name, bytes.
pub const POLICY_NAME_BYTES_MAX: usize = 64;
/// Tunings by code. Older records contain 0.
const TUNINGS: [PcpTuning; 3] = [PcpTuning::Refill, PcpTuning::Fixed, PcpTuning::Depth];

/// Reclaimers by code, from 1. 0 is unknown.
const RECLAIMERS: [Reclaimer; 2] = [Reclaimer::Accesses, Reclaimer::Background];

/// Thread that reclaimed in a recorded run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reclaimer {
    /// The accessing threads.
    Accesses,
    /// A background thread, while it kept up.
    Background,
}

impl Reclaimer {
    /// Returns the name for display.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reclaimer::Accesses => "accesses",
            Reclaimer::Background => "background",
        }
    }
}

/// Facts about a recorded run.
///
/// A converted trace has no run and no frames ([`Header::of_trace`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Bytes per page.
    pub page_bytes: u32,
    /// Memory, in frames.
    pub memory_frames: u64,
    /// Maximum memory, in frames.
    pub memory_frames_max: u64,
    /// CPUs with per-CPU lists.
    pub nr_cpus: u32,
    /// Swappiness, 0 to 200.
    pub swappiness: u8,
    /// Tuning of the per-CPU lists.
    pub pcp_tuning: PcpTuning,
    /// Knob `percpu_pagelist_high_fraction`.
    pub pcp_high_fraction: u16,
    /// Reclaimer, if known.
    pub reclaimer: Option<Reclaimer>,
    /// Policy name as typed, at most [`POLICY_NAME_BYTES_MAX`] bytes.
    pub policy: String,
    /// Memory tiers, if several.
    pub tiers: Option<RecordedTiers>,
    /// Active mechanisms of the policy.
    pub switches: Switches,
}

impl Header {
    /// Returns the header of a converted trace.
    pub fn of_trace(page_bytes: u32) -> Header {
        Header {
            page_bytes,
            memory_frames: 0,
            memory_frames_max: 0,
            nr_cpus: 0,
            swappiness: 0,
            pcp_tuning: TUNINGS[0],
            pcp_high_fraction: 0,
            reclaimer: None,
            policy: String::new(),
            tiers: None,
            switches: Switches::default(),
        }
    }

    /// Returns true if a page cache recorded this.
    pub fn is_of_run(&self) -> bool {
        self.memory_frames > 0
    }

    /// Appends the header to `out`, which should be empty.
    ///
    /// # Panics
    /// If the policy name exceeds [`POLICY_NAME_BYTES_MAX`], or there are too many tiers.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        assert!(self.policy.len() <= POLICY_NAME_BYTES_MAX, "policy name too long for a header");
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        let reclaimer = RECLAIMERS.iter().position(|one| Some(*one) == self.reclaimer);
        let reclaimer = reclaimer.map_or(0, |index| index as u8 + 1);
        out.extend_from_slice(&[self.policy.len() as u8, reclaimer]);
        out.extend_from_slice(&self.page_bytes.to_le_bytes());
        out.extend_from_slice(&self.memory_frames.to_le_bytes());
        out.extend_from_slice(&self.memory_frames_max.to_le_bytes());
        out.extend_from_slice(&self.nr_cpus.to_le_bytes());
        let tuning = TUNINGS.iter().position(|tuning| *tuning == self.pcp_tuning);
        out.extend_from_slice(&[self.swappiness, tuning.expect("every tuning has a code") as u8]);
        out.extend_from_slice(&self.pcp_high_fraction.to_le_bytes());
        out.extend_from_slice(self.policy.as_bytes());
        tiers::append(self.tiers.as_ref(), out);
        switches::append(self.switches, out);
    }

    /// Reads a header from the start of `bytes`. Returns it and its length in bytes.
    ///
    /// # Errors
    /// [`RecordError::HeaderShort`] states the bytes needed. Other errors are final.
    pub fn decode(bytes: &[u8]) -> Result<(Header, usize), RecordError> {
        let fixed = fixed_part(bytes)?;
        let name_bytes = usize::from(fixed[10]);
        if name_bytes > POLICY_NAME_BYTES_MAX {
            return Err(RecordError::BadPolicyName);
        }
        let reclaimer = reclaimer_of(fixed[11])?;
        let name_end = HEADER_FIXED_BYTES + name_bytes;
        let name = bytes
            .get(HEADER_FIXED_BYTES..name_end)
            .ok_or(RecordError::HeaderShort { needed_bytes: name_end })?;
        let (tiers, tiers_end) = tiers::decode(bytes, name_end)?;
        let (switches, header_bytes) = switches::decode(bytes, tiers_end)?;
        let policy = str::from_utf8(name).map_err(|_| RecordError::BadPolicyName)?;
        let header = Header {
            page_bytes: u32::from_le_bytes(field(fixed, 12)),
            memory_frames: u64::from_le_bytes(field(fixed, 16)),
            memory_frames_max: u64::from_le_bytes(field(fixed, 24)),
            nr_cpus: u32::from_le_bytes(field(fixed, 32)),
            swappiness: fixed[36],
            pcp_tuning: tuning_of(fixed[37])?,
            pcp_high_fraction: u16::from_le_bytes(field(fixed, 38)),
            reclaimer,
            policy: String::from(policy),
            tiers,
            switches,
        };
        Ok((header, header_bytes))
    }
}

fn fixed_part(bytes: &[u8]) -> Result<&[u8; HEADER_FIXED_BYTES], RecordError> {
    let magic_bytes = bytes.len().min(MAGIC.len());
    if bytes[..magic_bytes] != MAGIC[..magic_bytes] {
        return Err(RecordError::BadMagic);
    }
    let short = RecordError::HeaderShort { needed_bytes: HEADER_FIXED_BYTES };
    let fixed = bytes.first_chunk().ok_or(short)?;
    match u16::from_le_bytes(field(fixed, 8)) {
        VERSION => Ok(fixed),
        found => Err(RecordError::UnknownVersion { found }),
    }
}

fn reclaimer_of(code: u8) -> Result<Option<Reclaimer>, RecordError> {
    let Some(index) = usize::from(code).checked_sub(1) else { return Ok(None) };
    let known = RECLAIMERS.get(index).copied();
    known.map(Some).ok_or(RecordError::UnknownReclaimer { found: code })
}

fn tuning_of(code: u8) -> Result<PcpTuning, RecordError> {
    let known = TUNINGS.get(usize::from(code)).copied();
    known.ok_or(RecordError::UnknownTuning { found: code })
}

fn field<const N: usize>(fixed: &[u8; HEADER_FIXED_BYTES], at: usize) -> [u8; N] {
    *fixed[at..].first_chunk().expect("every field lies within the fixed part")
}
