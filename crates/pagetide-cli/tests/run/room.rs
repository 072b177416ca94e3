//! A disk without room: writes are refused as natively, and accepted data is stored. Needs root to
//! mount.

use super::{folder, has, pagetide, plain_shell_in};
use std::path::Path;
use std::process::{Command, Output};

/// Returns the accepted sizes.
fn fill(here: &Path, run: &[&str], line: &str) -> Result<Vec<u64>, String> {
    let output = Command::new("sh").args(["-c", line]).current_dir(here).output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', " "));
    }
    std::fs::write(here.join("room.py"), include_str!("room.py")).unwrap();
    let words = run.iter().copied().chain(["python3", "room.py", "small"]).collect::<Vec<_>>();
    let output = Command::new(words[0]).args(&words[1..]).current_dir(here).output().unwrap();
    let late = std::fs::read(here.join("small/late"));
    plain_shell_in(here, "umount small");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    assert!(late.unwrap() == b"new".repeat(40_000), "older bytes came back");
    let printed = String::from_utf8(output.stdout).unwrap();
    Ok(printed.split_whitespace().map(|word| word.parse().unwrap()).collect())
}

fn refused_at_the_write(test: &str, line: &str) {
    if !has("python3", test) {
        return;
    }
    // Less memory than disk space, and more.
    for memory in ["1M", "64M"] {
        let (ours, theirs) = (folder(), folder());
        let run = [pagetide().to_str().unwrap(), "run", "--memory", memory, "--"];
        let both = fill(ours.path(), &run, line)
            .and_then(|ours| Ok((ours, fill(theirs.path(), &[], line)?)));
        let (ours, theirs) = match both {
            Ok(both) => both,
            Err(refusal) => {
                eprintln!("SKIPPED: {test}: {refusal}");
                return;
            }
        };
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            // File system metadata varies a little.
            let is_near = ours * 10 <= theirs * 11 && ours * 10 >= theirs * 9;
            assert!(is_near, "{ours} bytes went in, and {theirs} without us");
        }
    }
}

#[test]
fn a_write_past_the_room_in_memory_is_refused_at_once() {
    let line = "mkdir small && mount -t tmpfs -o size=4M tmpfs small";
    refused_at_the_write("a_write_past_the_room_in_memory_is_refused_at_once", line);
}

#[test]
fn a_write_past_the_room_of_a_disk_is_refused_at_once() {
    let line = "PATH=$PATH:/usr/sbin:/sbin; mkdir small && truncate -s 12M disk && \
                mkfs.ext4 -q -m 0 disk && mount -o loop disk small";
    refused_at_the_write("a_write_past_the_room_of_a_disk_is_refused_at_once", line);
}

/// Closed files are released during the run.
#[test]
fn a_disk_can_be_taken_away_when_its_files_are_closed() {
    let here = folder();
    let line = "mkdir small && mount -t tmpfs -o size=4M tmpfs small || exit 77; \
                for turn in 1 2 3; do head -c 1000000 /dev/zero >small/a$turn; \
                cat small/a$turn >>small/b; done; until umount small 2>/dev/null; do :; done";
    let run = ["run", "--memory", "1M", "--", "sh", "-c", line];
    let output = Command::new(pagetide()).args(run).current_dir(here.path()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) {
        eprintln!("SKIPPED: a_disk_can_be_taken_away_when_its_files_are_closed: {errors}");
    } else {
        assert!(output.status.success(), "{errors}");
    }
}

/// Shared blocks are left to the kernel.
#[test]
fn files_of_xfs_are_cloned_as_by_the_kernel() {
    let test = "files_of_xfs_are_cloned_as_by_the_kernel";
    if !has("python3", test) {
        return;
    }
    let mount = "PATH=$PATH:/usr/sbin:/sbin; mkdir small && truncate -s 400M disk && \
                 mkfs.xfs -q disk && mount -o loop disk small || exit 77; cd small; cat >clones.py";
    let run = |program: &str| -> Output {
        let here = folder();
        let script = include_str!("clones.py");
        let line = format!(
            "{mount} <<'END'\n{script}END\n{program} python3 clones.py; status=$?\n\
             cd ..; umount small; exit $status"
        );
        Command::new("sh").args(["-c", &line]).current_dir(here.path()).output().unwrap()
    };
    let kernel = run("");
    let errors = String::from_utf8_lossy(&kernel.stderr);
    if kernel.status.code() == Some(77) {
        eprintln!("SKIPPED: {test}: install xfsprogs, and run as root: {errors}");
        return;
    }
    let printed = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed(&kernel).ends_with("end\n"), "{errors}");
    for mode in ["", "--mmap cache"] {
        let program = format!("{} run --quiet --memory 1M {mode} --", pagetide().display());
        assert_eq!(printed(&run(&program)), printed(&kernel), "{mode}");
    }
}
