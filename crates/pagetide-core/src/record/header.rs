//! What a record says of its run before the first entry.
//!
//! **Problem.** A replay has to begin with the memory, the machine and the policy that the run had.
//! Idea: a part of fixed length, with whatever has a length of its own behind it.
//!
//! ```text
//!   [ magic: 8 ] [ version: 2 ] [ length of the name: 1 ] [ reclaimer: 1 ] [ page bytes: 4 ]
//!   [ frames: 8 ] [ most frames: 8 ] [ CPUs: 4 ] [ swappiness: 1 ] [ tuning: 1 ] [ high: 2 ]
//!   [ policy's name ] [ tiers ] [ switches ]
//! ```
//!
//! **Deliberately ignored.** What decides nothing: the host, the date, the files' names.

use super::{RecordError, RecordedTiers, switches, tiers};
use crate::lru::Switches;
use crate::page_alloc::PcpTuning;
use alloc::string::String;
use alloc::vec::Vec;
use core::str;

/// The first eight bytes of a record; the control characters catch text-mode damage.
pub const MAGIC: [u8; 8] = *b"PTREC\r\n\x1a";
/// The version this module writes, and reads.
pub const VERSION: u16 = 4;
/// Bytes of the header before the policy's name.
pub const HEADER_FIXED_BYTES: usize = 40;
/// The longest policy name a header may carry, in bytes.
pub const POLICY_NAME_BYTES_MAX: usize = 64;
/// The tunings by their codes. Records from before there was a choice say 0.
const TUNINGS: [PcpTuning; 3] = [PcpTuning::Refill, PcpTuning::Fixed, PcpTuning::Depth];

/// What reclaimed, by codes from 1 on; 0 is not known.
const RECLAIMERS: [Reclaimer; 2] = [Reclaimer::Accesses, Reclaimer::Background];

/// What made room in a recorded run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reclaimer {
    /// The accesses that needed it.
    Accesses,
    /// A thread beside them, as long as it kept up.
    Background,
}

impl Reclaimer {
    /// As people read it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reclaimer::Accesses => "accesses",
            Reclaimer::Background => "background",
        }
    }
}

/// What is known about the recorded run before its first entry.
///
/// A record may also hold a trace from elsewhere, converted: it is of no run, and its header says
/// so by a memory of no frame ([`Header::of_trace`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Bytes in a page of the recorded run.
    pub page_bytes: u32,
    /// The memory it had, in frames.
    pub memory_frames: u64,
    /// The memory it could have grown to, in frames: what its tables were made for.
    pub memory_frames_max: u64,
    /// CPUs it had per-CPU lists for.
    pub nr_cpus: u32,
    /// How willing it was to evict anonymous pages, 0 to 200.
    pub swappiness: u8,
    /// How its per-CPU lists found their length.
    pub pcp_tuning: PcpTuning,
    /// Its knob `percpu_pagelist_high_fraction`.
    pub pcp_high_fraction: u16,
    /// What made room in it, where that is known.
    pub reclaimer: Option<Reclaimer>,
    /// The policy's name as people type it, at most [`POLICY_NAME_BYTES_MAX`] bytes.
    pub policy: String,
    /// What its memory was made of, if it was of several kinds.
    pub tiers: Option<RecordedTiers>,
    /// Which mechanisms of its policy were on.
    pub switches: Switches,
}

impl Header {
    /// The header of a trace that no page cache recorded: pages of `page_bytes`, and nothing else
    /// known.
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

    /// Whether a page cache recorded it: then it says what memory and policy that had.
    pub fn is_of_run(&self) -> bool {
        self.memory_frames > 0
    }

    /// Appends the header to `out`, which should be empty.
    ///
    /// # Panics
    /// When the policy's name is longer than [`POLICY_NAME_BYTES_MAX`], or there are more tiers
    /// than a topology has.
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

    /// Reads a header from the front of `bytes`; returns it and its length in bytes.
    ///
    /// # Errors
    /// [`RecordError::HeaderShort`] says how many bytes to come back with; the other header errors
    /// are final.
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

/// What has the same place in every record.
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

/// The `N` bytes at `at`.
fn field<const N: usize>(fixed: &[u8; HEADER_FIXED_BYTES], at: usize) -> [u8; N] {
    *fixed[at..].first_chunk().expect("every field lies within the fixed part")
}
