//! The coherence laws on other file systems: without leases, or with stacked inodes. Tests without
//! root or a needed program are skipped with a message.

use super::agents::{Place, for_every_pair};
use super::coherence::LAWS;
use super::{folder, has};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A file system in a mount namespace that ends with its keeper process.
struct Mounted {
    keeper: Child,
    place: Place,
    _below: TempDir,
}

impl Mounted {
    /// Mounts by a shell's `line` at `there`, as another user's root if `unshare` says so.
    fn new(test: &str, unshare: &str, line: &str) -> Option<Self> {
        let below = folder();
        let script = format!("mkdir a b work there && {{ {line}; }} && echo mounted && exec cat");
        let mut keeper = Command::new("unshare");
        keeper.args([unshare, "sh", "-c", &script]).current_dir(below.path());
        keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut keeper = keeper.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut said).unwrap();
        if said != "mounted\n" {
            let output = keeper.wait_with_output().unwrap();
            let refusal = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
            eprintln!("SKIPPED: {test}: {refusal}");
            return None;
        }
        let there = below.path().join("there");
        let id = keeper.id().to_string();
        let base = format!("/proc/{id}/root{}", there.display()).into();
        let user: &[&str] =
            if unshare.contains('r') { &["-U", "--preserve-credentials"] } else { &[] };
        let enter = ["nsenter", "-m", "-t", &id, "--wd=."];
        let enter = enter.iter().chain(user).map(|&word| word.to_owned()).collect();
        Some(Self { keeper, place: Place { base, enter }, _below: below })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

fn hold_on(place: &Place) {
    for (name, law) in LAWS {
        eprintln!("{name}");
        for_every_pair(place, law);
    }
}

fn hold_on_mounted(test: &str, needs: &[&str], unshare: &str, line: &str) {
    let needs = ["python3", "unshare", "nsenter"].iter().chain(needs);
    if needs.copied().all(|program| has(program, test))
        && let Some(mounted) = Mounted::new(test, unshare, line)
    {
        hold_on(&mounted.place);
    }
}

#[test]
fn the_laws_hold_in_memory() {
    hold_on_mounted("the_laws_hold_in_memory", &[], "-m", "mount -t tmpfs tmpfs there");
}

#[test]
fn the_laws_hold_on_an_overlay() {
    let line = "mount -t overlay -o lowerdir=a,upperdir=b,workdir=work overlay there";
    hold_on_mounted("the_laws_hold_on_an_overlay", &[], "-m", line);
}

#[test]
fn the_laws_hold_on_an_overlay_of_a_user_who_is_not_root() {
    let test = "the_laws_hold_on_an_overlay_of_a_user_who_is_not_root";
    let line = "mount -t overlay -o userxattr,lowerdir=a,upperdir=b,workdir=work overlay there";
    hold_on_mounted(test, &[], "-rm", line);
}

#[test]
fn the_laws_hold_on_a_file_system_of_a_program() {
    let test = "the_laws_hold_on_a_file_system_of_a_program";
    hold_on_mounted(test, &["bindfs"], "-m", "bindfs a there");
}

/// Each file has a lower file that changes too.
#[test]
fn the_laws_hold_on_an_overlay_of_a_program() {
    let test = "the_laws_hold_on_an_overlay_of_a_program";
    let line = "fuse-overlayfs -o lowerdir=a,upperdir=b,workdir=work there";
    hold_on_mounted(test, &["fuse-overlayfs"], "-m", line);
}
