//! Installs the programs that tests run, from Debian's packages.
//!
//! ```text
//!   --install --> which are missing? --none--> ok
//!                      |  root, and apt-get --> update, install --> ok, or SKIPPED: the error
//!                      `--not so--> SKIPPED: the command to type
//! ```
//!
//! A missing program makes its tests skip loudly, so a failed installation is a skip too. No
//! package starts a service: a test starts the database server in its own folder.
//!
//! Ignored: package versions.

use crate::step::{Outcome, StepContext};
use std::path::Path;

/// A program, and its package in Debian 12.
const PROGRAMS: [(&str, &str); 17] = [
    ("bindfs", "bindfs"),
    ("busybox", "busybox-static"),
    ("fio", "fio"),
    ("fuse-overlayfs", "fuse-overlayfs"),
    ("g++", "g++"),
    ("gcc", "gcc"),
    ("git", "git"),
    ("go", "golang-go"),
    ("mariadb", "mariadb-client-core"),
    ("mariadbd", "mariadb-server-core"),
    ("mkfs.xfs", "xfsprogs"),
    ("nm", "binutils"),
    ("python3", "python3"),
    ("sqlite3", "sqlite3"),
    ("strace", "strace"),
    ("sysbench", "sysbench"),
    ("tar", "tar"),
];

pub(crate) fn install(context: &StepContext) -> Outcome {
    let missing = missing_in(&search_path());
    if missing.is_empty() {
        return Outcome::Done;
    }
    let by_hand = format!("apt-get install {}", missing.join(" "));
    if !rights_and_tool() {
        return Outcome::Skipped(format!("not root, or no apt-get; by hand: {by_hand}"));
    }
    let quiet = [("DEBIAN_FRONTEND", "noninteractive".into())];
    // Outdated lists may still work.
    let updated = context.command("apt-get", &["update", "-qq"], &quiet);
    let options = ["install", "-y", "-qq", "--no-install-recommends"];
    match context.command("apt-get", &[&options[..], &missing].concat(), &quiet) {
        Outcome::Done => Outcome::Done,
        _ => {
            let log = context.read_log();
            let said = log.lines().rev().find(|line| line.starts_with("E: "));
            let said = said.unwrap_or("it said nothing");
            let lists = if updated == Outcome::Done { "" } else { "apt-get update failed, and " };
            Outcome::Skipped(format!("{lists}{by_hand} failed: {said}"))
        }
    }
}

fn missing_in(folders: &[std::path::PathBuf]) -> Vec<&'static str> {
    let is_there = |name: &str| folders.iter().any(|folder| folder.join(name).is_file());
    PROGRAMS.iter().filter(|(name, _)| !is_there(name)).map(|(_, package)| *package).collect()
}

/// Returns the folders with programs. Servers are in a folder outside many users' path.
fn search_path() -> Vec<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin".into()]).collect()
}

fn rights_and_tool() -> bool {
    // A process's folder belongs to its user.
    let is_root = std::fs::metadata("/proc/self")
        .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    is_root && Path::new("/usr/bin/apt-get").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_by_its_package() {
        let nowhere = missing_in(&["/nonexistent".into()]);
        assert_eq!(nowhere.len(), PROGRAMS.len());
        assert!(nowhere.contains(&"mariadb-server-core"));
        let folder = std::env::temp_dir().join(format!("pagetide-xtask-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("fio"), "").unwrap();
        let missing = missing_in(std::slice::from_ref(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(!missing.contains(&"fio") && missing.contains(&"sqlite3"), "{missing:?}");
    }
}
