//! The workloads, and their files as multiples of the memory limit.
//!
//! Each file is made once for all workloads.
//!
//! ```text
//!   name      x memory   used by
//!   data-1..3   0.75     wschange; zipf-scan's scan
//!   set         0.25     wsprotect
//!   stream      1.06     wsprotect
//!   big         4        zipf-scan, uniform (its first 2.75)
//!   oltp        4        oltp, made anew for each subject
//!   fit         0.8      zipf-fit
//! ```
//!
//! Sources: the working-set patches' wschange and wsprotect (16 GiB machine: files of 12, 4 and 17
//! GiB); the MGLRU cover letter's fio run (99 GiB over 36 GiB).

use crate::dataset::DataFile;
use pagetide_core::units::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

pub(crate) const CHANGE_FILES: [&str; 3] = ["data-1", "data-2", "data-3"];
pub(crate) const SET_FILE: &str = "set";
pub(crate) const STREAM_FILE: &str = "stream";
pub(crate) const BIG_FILE: &str = "big";
pub(crate) const OLTP_FILE: &str = "oltp";
pub(crate) const FIT_FILE: &str = "fit";

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    #[serde(rename = "wschange")]
    WsChange,
    #[serde(rename = "wsprotect")]
    WsProtect,
    ZipfScan,
    Uniform,
    Oltp,
    /// Reads for tiers.
    ZipfFit,
    /// Timed reads for `pagetide bench`.
    ZipfBare,
}

impl Workload {
    pub(crate) const ALL: [Workload; 6] = [
        Workload::WsChange,
        Workload::WsProtect,
        Workload::ZipfScan,
        Workload::Uniform,
        Workload::Oltp,
        Workload::ZipfFit,
    ];
    pub(crate) const USUAL: [Workload; 5] = [
        Workload::WsChange,
        Workload::WsProtect,
        Workload::ZipfScan,
        Workload::Uniform,
        Workload::Oltp,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::WsChange => "wschange",
            Workload::WsProtect => "wsprotect",
            Workload::ZipfScan => "zipf-scan",
            Workload::Uniform => "uniform",
            Workload::Oltp => "oltp",
            Workload::ZipfFit => "zipf-fit",
            Workload::ZipfBare => "zipf-bare",
        }
    }

    pub(crate) fn summary(self) -> &'static str {
        match self {
            Workload::WsChange => {
                "files of 0.75x memory, each read until fully cached plus 2 reads; three files, \
                 two rounds"
            }
            Workload::WsProtect => {
                "a set of 0.25x memory read 5 times, then a file of 1.06x memory streamed 10 times"
            }
            Workload::ZipfScan => {
                "4 KiB random reads, zipf 0.99 over 4x memory, each followed by 64 KiB of a \
                 sequential scan of 2.25x memory"
            }
            Workload::Uniform => "uniform random 4 KiB reads over 2.75x memory",
            Workload::Oltp => {
                "70/30 random reads and writes of 4 KiB, zipf 0.8 over 4x memory, syncs, contents \
                 verified at the end"
            }
            Workload::ZipfFit => {
                "4 KiB random reads, zipf 0.99 over 0.8x memory, after reading it all once"
            }
            Workload::ZipfBare => "4 KiB random reads, zipf 0.8 over 4x memory",
        }
    }

    /// Returns true for `--seconds`, false for a fixed job.
    pub(crate) fn is_timed(self) -> bool {
        !matches!(self, Workload::WsChange | Workload::WsProtect)
    }

    pub(crate) fn file_names(self) -> &'static [&'static str] {
        match self {
            Workload::WsChange => &CHANGE_FILES,
            Workload::WsProtect => &[SET_FILE, STREAM_FILE],
            Workload::ZipfScan => &[BIG_FILE, "data-1", "data-2", "data-3"],
            Workload::Uniform | Workload::ZipfBare => &[BIG_FILE],
            Workload::Oltp => &[OLTP_FILE],
            Workload::ZipfFit => &[FIT_FILE],
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Workload, String> {
        Workload::ALL.into_iter().find(|workload| workload.name() == text).ok_or_else(|| {
            let names = Workload::ALL.map(Workload::name).join(", ");
            format!("no workload named {text:?}; there are {names}")
        })
    }
}

/// Sizes in hundredths of the memory limit.
const FILES: [(&str, u64); 8] = [
    ("data-1", 75),
    ("data-2", 75),
    ("data-3", 75),
    (SET_FILE, 25),
    (STREAM_FILE, 106),
    (BIG_FILE, 400),
    (OLTP_FILE, 400),
    (FIT_FILE, 80),
];

pub(crate) fn share_pages(memory: Bytes, hundredths: u64) -> u64 {
    memory.whole_pages() * hundredths / 100
}

pub(crate) fn files(dir: &Path, memory: Bytes, workloads: &[Workload]) -> Vec<DataFile> {
    let wanted =
        |name: &str| workloads.iter().any(|workload| workload.file_names().contains(&name));
    FILES
        .iter()
        .zip(1..)
        .filter(|((name, _), _)| wanted(name))
        .map(|(&(name, hundredths), id)| DataFile {
            path: dir.join(name),
            id,
            nr_pages: share_pages(memory, hundredths),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_workloads_read_is_made() {
        let files = files(Path::new("/d"), Bytes(64 << 20), &[Workload::WsProtect]);
        let sizes: Vec<(&str, u64)> =
            files.iter().map(|file| (file.path.to_str().expect("ascii"), file.nr_pages)).collect();
        assert_eq!(sizes, [("/d/set", 4096), ("/d/stream", 17367)]);
    }

    #[test]
    fn ids_differ() {
        let files = files(Path::new("/d"), Bytes(8 << 20), &Workload::ALL);
        let mut ids: Vec<u32> = files.iter().map(|file| file.id).collect();
        ids.dedup();
        assert_eq!(ids.len(), FILES.len());
    }
}
