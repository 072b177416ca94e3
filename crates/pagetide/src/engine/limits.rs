//! The checked knobs of a cache, and derived limits.

use crate::engine::errors::BuildError;
use crate::memory::frames::shared_zone::PcpSettings;
use pagetide_core::knobs::{Knob, KnobError, Knobs, MEMORY_MIN};
use pagetide_core::page_alloc::{HighFraction, PcpTuning};
use pagetide_core::readahead;
use pagetide_core::units::Bytes;
use pagetide_core::writeback::DirtyLimits;
use pagetide_sys::{ReserveError, read_total_memory};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) nr_frames: u32,
    pub(crate) nr_frames_max: u32,
    /// As requested. Core decides the actual window.
    readahead_asked: Option<u64>,
    pub(crate) pcp: PcpSettings,
    pub(crate) direct_io: bool,
    pub(crate) has_workers: bool,
    pub(crate) huge_pages: bool,
    dirty_background: u8,
    dirty: u8,
}

fn pcp_settings(knobs: &Knobs) -> Result<PcpSettings, BuildError> {
    let tuning = PcpTuning::from_index(knobs.read(Knob::PcpTuning) as usize);
    Ok(PcpSettings {
        fraction: high_fraction(knobs.read(Knob::PcpHighFraction))?,
        ..PcpSettings::read(tuning.expect("the knob's range was checked"))
    })
}

pub(crate) fn high_fraction(given: u64) -> Result<HighFraction, BuildError> {
    let row = Knob::PcpHighFraction.row();
    HighFraction::new(given as u32).map_err(|_| BuildError::Knob {
        knob: row.name,
        given,
        low: HighFraction::LEAST.into(),
        high: row.high,
    })
}

/// Bookkeeping bytes written for each frame at start: descriptor, arena, allocator.
const BOOKKEEPING_BYTES: u64 = 64 + 4 + 8;

impl Limits {
    /// Rejects more memory than the machine has. Less may still exceed its free memory, as pages
    /// are allocated on touch.
    pub(crate) fn check_machine(&self) -> Result<(), BuildError> {
        let memory = Bytes::from_pages(self.nr_frames.into()).0;
        let wanted = Bytes(memory + u64::from(self.nr_frames_max) * BOOKKEEPING_BYTES);
        match read_total_memory() {
            Some(available) if wanted > available => {
                Err(ReserveError::NotAvailable { wanted, available }.into())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check(knobs: &Knobs) -> Result<Limits, BuildError> {
        let memory = knobs.read(Knob::Memory);
        if memory == 0 {
            return Err(BuildError::NoMemory);
        }
        if memory < MEMORY_MIN {
            return Err(BuildError::TooSmall { given: Bytes(memory), least: Bytes(MEMORY_MIN) });
        }
        knobs.check().map_err(|error| match error {
            KnobError::OutOfRange { knob, given } => {
                let row = knob.row();
                BuildError::Knob { knob: row.name, given, low: row.low, high: row.high }
            }
            _ => unreachable!("checking only finds values out of range"),
        })?;
        let nr_frames = Bytes(memory).whole_pages() as u32;
        let nr_frames_max = Bytes(knobs.read(Knob::MemoryMax)).whole_pages() as u32;
        let asked = knobs.read(Knob::ReadaheadMax);
        let is_asked = asked != Knob::ReadaheadMax.row().default;
        Ok(Limits {
            nr_frames,
            nr_frames_max: nr_frames_max.max(nr_frames),
            readahead_asked: is_asked.then(|| Bytes(asked).whole_pages()),
            pcp: pcp_settings(knobs)?,
            direct_io: knobs.is_on(Knob::DirectIo),
            has_workers: knobs.is_on(Knob::Background),
            huge_pages: knobs.is_on(Knob::HugePages),
            dirty_background: knobs.read(Knob::DirtyBackground) as u8,
            dirty: knobs.read(Knob::Dirty) as u8,
        })
    }

    /// Returns the largest readahead window on a device with this system readahead.
    pub(crate) fn readahead_pages(&self, device: Option<Bytes>) -> u64 {
        let device = device.map(Bytes::whole_pages);
        readahead::window_max(self.readahead_asked, device, self.nr_frames.into())
    }

    pub(crate) fn dirty_limits(&self, nr_frames: u32) -> DirtyLimits {
        DirtyLimits::for_frames(nr_frames, self.dirty_background, self.dirty)
    }
}
