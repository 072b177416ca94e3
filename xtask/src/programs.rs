//! The programs that tests run, from Debian's packages: all at once, before any test looks for one.
//!
//! ```text
//!   --install --> which are missing? --none--> ok
//!                      |  root, and apt-get --> update, install --> ok, or SKIPPED: what it said
//!                      `--not so--> SKIPPED: the command to type
//! ```
//!
//! A program that is missing is a loud skip of each test that wants it; so what cannot be installed
//! here is a skip as well, and no failure. No package starts a service: the database server is
//! started by its test, in a folder of its own.
//!
//! Ignored: which version a package has. The tests print what they find wrong, whatever it is.

use crate::step::{Outcome, StepContext};
use std::path::Path;

/// A program, and the package of Debian 12 it comes from.
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

/// Installs what is missing, where that is possible.
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
    // Lists that cannot be brought up to date may do all the same.
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

/// The packages of the programs that are in none of the folders.
fn missing_in(folders: &[std::path::PathBuf]) -> Vec<&'static str> {
    let is_there = |name: &str| folders.iter().any(|folder| folder.join(name).is_file());
    PROGRAMS.iter().filter(|(name, _)| !is_there(name)).map(|(_, package)| *package).collect()
}

/// Where tests look for programs; servers are in a folder that not every user has in the path.
fn search_path() -> Vec<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin".into()]).collect()
}

fn rights_and_tool() -> bool {
    // The folder of a process belongs to the user it runs as.
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
