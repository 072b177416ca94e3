//! This process's memory as counted by the kernel, and khugepaged.

use std::fs;
use std::path::PathBuf;

/// Counts each page once.
pub(crate) fn resident_bytes() -> u64 {
    let told = fs::read_to_string("/proc/self/smaps_rollup").expect("/proc is mounted");
    let line = told.lines().find_map(|line| line.strip_prefix("Pss:")?.strip_suffix("kB"));
    line.expect("counted").trim().parse::<u64>().expect("kibibytes") << 10
}

/// A faster khugepaged, the kernel thread that collapses partly mapped blocks into huge pages, and
/// so reallocates freed memory: minutes later, or soon while this value lives.
pub(crate) struct HurriedKhugepaged {
    before: Vec<(PathBuf, String)>,
}

const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged";
const HURRIED: [(&str, &str); 3] =
    [("pages_to_scan", "65536"), ("scan_sleep_millisecs", "1"), ("alloc_sleep_millisecs", "1")];

/// Scans that find nearly all candidates: the kernel skips pages not used lately.
const NR_SCANS: u64 = 40;

impl HurriedKhugepaged {
    /// # Errors
    /// The reason it cannot be accelerated, usually missing root rights.
    pub(crate) fn new() -> Result<HurriedKhugepaged, String> {
        let modes = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        if modes.map_or(true, |modes| modes.contains("[never]")) {
            return Err("huge pages are turned off".to_owned());
        }
        let mut hurried = HurriedKhugepaged { before: Vec::new() };
        for (name, value) in HURRIED {
            let path = PathBuf::from(FOLDER).join(name);
            let was = fs::read_to_string(&path);
            let set = was.and_then(|was| {
                fs::write(&path, value)?;
                Ok(was)
            });
            let was = set.map_err(|error| format!("khugepaged cannot be hurried: {error}"))?;
            hurried.before.push((path, was));
        }
        Ok(hurried)
    }

    /// Runs `work` during several full scans, as khugepaged needs pages in use.
    pub(crate) fn work_for_full_scans(&self, mut work: impl FnMut()) {
        let nr_scans = || {
            let path = PathBuf::from(FOLDER).join("full_scans");
            let told = fs::read_to_string(path).expect("counted");
            told.trim().parse::<u64>().expect("a number")
        };
        let until = nr_scans() + NR_SCANS;
        while nr_scans() < until {
            work();
        }
    }
}

impl Drop for HurriedKhugepaged {
    fn drop(&mut self) {
        for (path, was) in &self.before {
            if let Err(error) = fs::write(path, was.trim()) {
                eprintln!("{} was {was} and stays changed: {error}", path.display());
            }
        }
    }
}
