//! Which files a demo needs, as multiples of the memory limit.
//!
//! Problem: workloads are only comparable at one ratio of data to memory, whatever the memory.
//! Idea: every size is a fraction of the limit; a file is made once and used by each workload that
//! can use it.
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

use super::dataset::DataFile;
use super::workload::Workload;
use pagetide_core::units::Bytes;
use std::path::Path;

/// Names of the three files that wschange changes between.
pub(crate) const CHANGE_FILES: [&str; 3] = ["data-1", "data-2", "data-3"];
/// wsprotect's working set.
pub(crate) const SET_FILE: &str = "set";
/// wsprotect's stream.
pub(crate) const STREAM_FILE: &str = "stream";
/// The file of random reads.
pub(crate) const BIG_FILE: &str = "big";
/// The file that is written.
pub(crate) const OLTP_FILE: &str = "oltp";

/// The file that fits.
pub(crate) const FIT_FILE: &str = "fit";

/// Every file there is: name and size in hundredths of the memory limit.
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

/// Pages of the first `hundredths`/100 of `memory`.
pub(crate) fn share_pages(memory: Bytes, hundredths: u64) -> u64 {
    memory.whole_pages() * hundredths / 100
}

/// The files that `workloads` read, in `dir`; `oltp` is among them if it is wanted.
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
