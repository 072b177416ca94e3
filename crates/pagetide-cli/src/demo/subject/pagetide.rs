//! Pagetide under one policy, used as by any program.

use super::{Counters, MeasuredCache, MeasuredFile, OpenMode};
use crate::demo::job::Job;
use crate::settings;
use ::pagetide::{File, OpenOptions, PageCache, Tier};
use pagetide_core::lru::PolicyName;
use pagetide_core::units::Bytes;
use serde_json::{Map, Value};
use std::io;
use std::path::Path;

#[derive(Debug)]
pub(crate) struct PagetideCache(PageCache);

impl PagetideCache {
    /// Makes a pretouched cache.
    pub(crate) fn new(
        policy: PolicyName,
        memory: Bytes,
        tiers: &[Tier],
        job: &Job,
    ) -> io::Result<PagetideCache> {
        let builder = settings::apply(PageCache::builder().pretouch(true), &job.settings)
            .map_err(io::Error::other)?
            .policy(policy);
        // Tiers define the memory.
        let builder = match tiers {
            [] => builder.memory(memory),
            tiers => tiers.iter().fold(builder, |builder, tier| builder.tier(*tier)),
        };
        Ok(PagetideCache(builder.build()?))
    }
}

impl MeasuredCache for PagetideCache {
    fn open(&self, path: &Path, access: OpenMode) -> io::Result<Box<dyn MeasuredFile>> {
        let options = OpenOptions::new().read(true).write(access == OpenMode::ReadWrite);
        Ok(Box::new(PagetideFile(self.0.open(path, options)?)))
    }

    fn read_device_read_bytes(&self) -> u64 {
        self.0.stats().device_read_bytes
    }

    fn read_counters(&self) -> Counters {
        let stats = self.0.stats();
        Counters {
            device_read_bytes: stats.device_read_bytes,
            device_write_bytes: stats.device_write_bytes,
            device_reads: Some(stats.device_reads),
            device_writes: Some(stats.device_writes),
            refaults: Some(stats.refaults),
            evictions: Some(stats.evictions),
            reclaim_cpu_ns: Some(stats.reclaim_cpu_ns),
            resident_bytes_max: Some(stats.resident_bytes_max),
        }
    }

    fn describe(&self, detail: &mut Map<String, Value>) {
        let stats = self.0.stats();
        detail.insert("direct_io".into(), stats.direct_io.into());
        detail.insert("io_uring".into(), stats.io_uring.into());
        detail.insert("bypass_reads".into(), stats.bypass_reads.into());
        detail.insert("activations".into(), stats.activations.into());
        let lost = stats.vmstat.iter().find(|(name, _)| *name == "touches_lost");
        detail.insert("touches_lost".into(), lost.map(|(_, count)| *count).into());
        if let Some(tiering) = stats.tiering {
            let served: Vec<u64> = tiering.tiers.iter().map(|tier| tier.served).collect();
            detail.insert("served_by_tier".into(), served.into());
            detail.insert("promoted".into(), tiering.promoted.into());
            detail.insert("demoted".into(), tiering.demoted.into());
            detail.insert("hint_faults".into(), tiering.hint_faults.into());
        }
    }
}

#[derive(Debug)]
struct PagetideFile(File);

impl MeasuredFile for PagetideFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.0.read_at(buffer, offset)?)
    }

    fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.0.write_at(bytes, offset)?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[written..];
            offset += written as u64;
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(self.0.sync_data()?)
    }

    fn resident_pages(&self, offset: u64, len: u64) -> Option<u64> {
        Some(self.0.resident_pages(offset, len))
    }
}
